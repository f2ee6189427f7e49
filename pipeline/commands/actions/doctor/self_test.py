"""Train tiny models and compare them with known results."""

import hashlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ....models.lda.estimator import LDA
from ....models.nmf.estimator import NMF
from ....models.random_indexing.estimator import RandomIndexing
from ....models.word2vec.estimator import Word2Vec
from ...results import Finding
from .finding import fine, problem

if TYPE_CHECKING:
    from distributed import Client

    from ....models.base.saved import TrainedModel

#: Digests of models of integers. They are the same on every processor and with every version of the libraries.
LDA_DIGEST = "13006ea1eb69da83"
RANDOM_INDEXING_DIGEST = "950f682db06047c3"
#: Results in floating point, which may differ in their last digits between processors.
NMF_ERROR = 46.6810
VECTOR_LENGTH = 3.40772
TOLERANCE = 1e-3

#: How to go on after a wrong result.
ADVICE = "install corpusmill and its libraries again in a new environment, and report this if it stays"


def documents() -> list[list[str]]:
    """Return 80 documents of 30 words each. Even documents use the first 20 of 40 words, odd ones the other 20.

    The numbers come from a linear congruential generator, so they do not depend on any library.
    """
    state = 1
    found = []
    for number in range(80):
        words = []
        for _ in range(30):
            state = (state * 1103515245 + 12345) % 2**31
            rank = min((state >> 16) % 20, (state >> 22) % 20)
            words.append(f"w{rank + 20 * (number % 2):02d}")
        found.append(words)
    return found


def digest(model: "TrainedModel") -> str:
    """Return a digest of the numbers of a model: 16 hexadecimal digits."""
    found = hashlib.sha256()
    for arrays in (model.shared, *model.blocks):
        for name in sorted(arrays):
            found.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()[:16]


def check_models() -> Iterator[Finding]:
    """Train one model of each family in this process."""
    start = time.perf_counter()
    texts = documents()
    lda = LDA(2, max_iter=10, random_state=1, device="cpu").fit(texts)
    # Learned priors may differ in their last bits between processors. This only compiles their kernel.
    LDA(2, max_iter=10, learn_priors="asymmetric", device="cpu").fit(texts)
    index = RandomIndexing(vector_size=512, seed_length=4, device="cpu").fit(texts)
    nmf = NMF(2, max_iter=10, random_state=1, device="cpu").fit(texts)
    vectors = Word2Vec(vector_size=16, epochs=3, min_count=1, seed=1, device="cpu").fit(texts)
    wrong = []
    if digest(lda.model_) != LDA_DIGEST:
        wrong.append("LDA")
    if digest(index.model_) != RANDOM_INDEXING_DIGEST:
        wrong.append("random indexing")
    if not np.isclose(nmf.reconstruction_err_, NMF_ERROR, rtol=TOLERANCE):
        wrong.append("NMF")
    if not np.isclose(np.linalg.norm(vectors.wv.vectors), VECTOR_LENGTH, rtol=TOLERANCE):
        wrong.append("Word2Vec")
    if wrong:
        yield problem("self-test", f"{', '.join(wrong)}: the result is not the known one; {ADVICE}")
        return
    seconds = time.perf_counter() - start
    yield fine("self-test", f"LDA, NMF, Word2Vec and random indexing give the known results; {seconds:.1f} s")


def check_models_on(client: "Client") -> Iterator[Finding]:
    """Train LDA on a cluster and check that the model has the known bits."""
    start = time.perf_counter()
    lda = LDA(2, max_iter=10, random_state=1).fit(documents(), client=client)
    if digest(lda.model_) != LDA_DIGEST:
        yield problem("workers' test", f"LDA on the cluster differs from the known result; {ADVICE}")
        return
    yield fine("workers' test", f"LDA on the cluster gives the known bits; {time.perf_counter() - start:.1f} s")
