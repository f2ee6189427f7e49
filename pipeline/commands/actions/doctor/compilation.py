"""Compile the kernels after an installation, so that the first training does not wait for them."""

import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tempfile import TemporaryDirectory

import scipy.sparse
from dask.system import cpu_count

from ....ingest.ingest import corpus_from
from ....models.base.advice import TrainingWarning
from ....models.base.estimator import Estimator
from ....models.lda.estimator import LDA
from ....models.nmf.estimator import NMF
from ....models.node2vec.estimator import Node2Vec
from ....models.random_indexing.estimator import RandomIndexing
from ....models.word2vec.estimator import Word2Vec
from ...results import Finding
from .finding import fine
from .self_test import documents
from .software import cached_kernels

#: What the processes train, in this order. The first four have few kernels in common, so that processes can compile
#: them together. The others use these kernels, and compile their own.
MODELS: dict[str, Estimator] = {
    "Word2Vec": Word2Vec(vector_size=64, epochs=1, min_count=1, device="cpu"),
    "LDA": LDA(20, max_iter=3, device="cpu"),
    "NMF": NMF(20, max_iter=3, device="cpu"),
    "random indexing": RandomIndexing(vector_size=256, device="cpu"),
    "LDA with many topics": LDA(100, max_iter=3, device="cpu"),
    "LDA by gibbs": LDA(20, max_iter=3, sampler="gibbs", device="cpu"),
    "LDA by gibbs with more topics": LDA(100, max_iter=3, sampler="gibbs", device="cpu"),
    "LDA by gibbs with many topics": LDA(500, max_iter=3, sampler="gibbs", device="cpu"),
    "LDA by warp": LDA(100, max_iter=3, sampler="warp", device="cpu"),
    "Node2Vec": Node2Vec(vector_size=64, epochs=1, p=0.5, q=2.0, device="cpu"),
}
#: A path of 50 nodes.
GRAPH = scipy.sparse.eye_array(50, k=1, format="csr")
#: A worker has several chunks, whose results are merged.
CHUNK_TOKENS = 500


def compile_kernels() -> Iterator[Finding]:
    """Compile the kernels that are not in the cache, with one process per core."""
    n_before = len(cached_kernels())
    start = time.perf_counter()
    n_processes = min(len(MODELS), cpu_count())
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(train_small, MODELS))
    n_kernels = len(cached_kernels())
    seconds = time.perf_counter() - start
    yield fine("compilation", f"{n_kernels - n_before} new kernels, {n_before} were on disk; {seconds:.1f} s")


def train_small(name: str) -> None:
    """Train one of the models on a small corpus with files for the run, as a training of real text does."""
    model = MODELS[name]
    texts = [" ".join(words) for words in documents()]
    with TemporaryDirectory() as folder:
        data = GRAPH if isinstance(model, Node2Vec) else corpus_from(texts, chunk_tokens=CHUNK_TOKENS)
        with warnings.catch_warnings(action="ignore", category=TrainingWarning):  # more topics than words
            model.fit(data, run=f"{folder}/run")
