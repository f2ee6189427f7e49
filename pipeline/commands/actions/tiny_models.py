"""Train tiny models: to compile the kernels before the first training, and to compare with known results."""

import hashlib
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from ....io.stores.corpus import Corpus
from ....kernels.jit import cache_folders
from ...engine.memory import processor_count
from ...ingest.ingest import corpus_from
from ...models.base.advice import TrainingWarning
from ...models.base.estimator import Estimator
from ...models.base.topics import TopicModel
from ...models.fastrp.estimator import FastRP
from ...models.lda.estimator import LDA
from ...models.nmf.estimator import NMF
from ...models.node2vec.estimator import Node2Vec
from ...models.random_indexing.estimator import RandomIndexing
from ...models.word2vec.estimator import Word2Vec
from .doctor import Problem

if TYPE_CHECKING:
    from distributed import Client

    from ...models.base.saved import TrainedModel

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


def check_models() -> str:
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
        raise Problem(f"{', '.join(wrong)}: the result is not the known one; {ADVICE}")
    seconds = time.perf_counter() - start
    return f"LDA, NMF, Word2Vec and random indexing give the known results; {seconds:.1f} s"


def check_models_on(client: "Client") -> str:
    """Train LDA on a cluster and check that the model has the known bits."""
    start = time.perf_counter()
    lda = LDA(2, max_iter=10, random_state=1).fit(documents(), client=client)
    if digest(lda.model_) != LDA_DIGEST:
        raise Problem(f"LDA on the cluster differs from the known result; {ADVICE}")
    return f"LDA on the cluster gives the known bits; {time.perf_counter() - start:.1f} s"


# --- compilation ---

#: A path of 50 nodes.
PATH = scipy.sparse.eye_array(50, k=1, format="csr")
#: Tokens of a chunk: documents in several chunks, so that results of a worker are merged, or in one chunk, which is
#: large enough for the faster of NMF's kernels.
SMALL, LARGE = 500, 1_000_000

#: What the processes train, and on what, in this order. The first four have few kernels in common, so that processes
#: can compile them together. The others use these kernels, and compile their own.
TRAININGS: list[tuple[Estimator, Any]] = [
    (Word2Vec(vector_size=64, epochs=1, min_count=1), SMALL),
    (LDA(20, max_iter=3), SMALL),
    (NMF(20, max_iter=3), SMALL),
    (RandomIndexing(vector_size=256, retrain=1), SMALL),
    (LDA(100, max_iter=3), SMALL),
    (NMF(20, max_iter=3), LARGE),
    (NMF(20, max_iter=3, missing="unknown", restarts=2, validation_fraction=0.1), PATH),
    (LDA(20, max_iter=3, sampler="gibbs"), SMALL),
    (LDA(100, max_iter=3, sampler="gibbs"), SMALL),
    (LDA(500, max_iter=3, sampler="gibbs"), SMALL),
    (LDA(100, max_iter=3, sampler="warp"), SMALL),
    (LDA(20, max_iter=3, sampler="minibatch"), SMALL),
    (Node2Vec(vector_size=64, epochs=1, p=0.5, q=2.0), PATH),
    (Node2Vec(vector_size=64, epochs=1, p=0.5, q=2.0), 2 * PATH),
    (FastRP(vector_size=64), PATH),
]


def compile_kernels() -> str:
    """Compile the kernels that are not in the cache, with one process per core."""
    n_before = len(cached_kernels())
    start = time.perf_counter()
    n_processes = min(len(TRAININGS), processor_count())
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as processes:
        list(processes.map(train_small, *zip(*TRAININGS, strict=True)))
    n_kernels = len(cached_kernels())
    seconds = time.perf_counter() - start
    return f"{n_kernels - n_before} new kernels, {n_before} were in {cache_folders()[0].parent}; {seconds:.1f} s"


def cached_kernels() -> list[Path]:
    """Return the index files of the compiled kernels of this version."""
    return [index for folder in cache_folders() for index in folder.rglob("*.nbi")]


def train_small(model: Estimator, data: Any) -> None:
    """Train a model, and use it, so that its kernels are compiled.

    ``data`` is a graph, or a number of tokens: then the model trains on texts in chunks of this size.

    The run has files, as a training of real text has.
    """
    if isinstance(data, int):
        data = corpus_from([" ".join(words) for words in documents()], chunk_tokens=data)
    with TemporaryDirectory() as folder:
        with warnings.catch_warnings(action="ignore", category=TrainingWarning):  # more topics than words
            model.set_params(device="cpu").fit(data, run=f"{folder}/run")
        if isinstance(data, Corpus):
            model.transform(data)
            if isinstance(model, TopicModel):
                model.score(data)
