"""Compile the kernels after an installation, so that the first training does not wait for them."""

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import Any

import scipy.sparse
from dask.system import cpu_count

from .....io.stores.corpus import Corpus
from ....ingest.ingest import corpus_from
from ....models.base.advice import TrainingWarning
from ....models.base.estimator import Estimator
from ....models.base.scored import ScoredEstimator
from ....models.lda.estimator import LDA
from ....models.nmf.estimator import NMF
from ....models.node2vec.estimator import Node2Vec
from ....models.random_indexing.estimator import RandomIndexing
from ....models.word2vec.estimator import Word2Vec
from ...results import Finding
from .finding import fine
from .self_test import documents
from .software import cached_kernels

#: A path of 50 nodes.
PATH = scipy.sparse.eye_array(50, k=1, format="csr")


def several_chunks() -> Corpus:
    """Return documents in several chunks, so that results of a worker are merged."""
    return _corpus(chunk_tokens=500)


def one_chunk() -> Corpus:
    """Return documents in one chunk, which is large enough for the faster of NMF's kernels."""
    return _corpus(chunk_tokens=1_000_000)


def _corpus(chunk_tokens: int) -> Corpus:
    return corpus_from([" ".join(words) for words in documents()], chunk_tokens=chunk_tokens)


#: What the processes train, and on what, in this order. The first four have few kernels in common, so that processes
#: can compile them together. The others use these kernels, and compile their own.
TRAININGS: dict[str, tuple[Estimator[Any], Callable[[], Any]]] = {
    "Word2Vec": (Word2Vec(vector_size=64, epochs=1, min_count=1, device="cpu"), several_chunks),
    "LDA": (LDA(20, max_iter=3, device="cpu"), several_chunks),
    "NMF": (NMF(20, max_iter=3, device="cpu"), several_chunks),
    "random indexing": (RandomIndexing(vector_size=256, retrain=1, device="cpu"), several_chunks),
    "LDA with many topics": (LDA(100, max_iter=3, device="cpu"), several_chunks),
    "NMF of larger chunks": (NMF(20, max_iter=3, device="cpu"), one_chunk),
    "LDA by gibbs": (LDA(20, max_iter=3, sampler="gibbs", device="cpu"), several_chunks),
    "LDA by gibbs with more topics": (LDA(100, max_iter=3, sampler="gibbs", device="cpu"), several_chunks),
    "LDA by gibbs with many topics": (LDA(500, max_iter=3, sampler="gibbs", device="cpu"), several_chunks),
    "LDA by warp": (LDA(100, max_iter=3, sampler="warp", device="cpu"), several_chunks),
    "LDA by cgs": (LDA(20, max_iter=3, sampler="cgs", device="cpu"), several_chunks),
    "Node2Vec": (Node2Vec(vector_size=64, epochs=1, p=0.5, q=2.0, device="cpu"), lambda: PATH),
    "Node2Vec with weights": (Node2Vec(vector_size=64, epochs=1, p=0.5, q=2.0, device="cpu"), lambda: 2 * PATH),
}


def compile_kernels() -> Iterator[Finding]:
    """Compile the kernels that are not in the cache, with one process per core."""
    n_before = len(cached_kernels())
    start = time.perf_counter()
    n_processes = min(len(TRAININGS), cpu_count())
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(train_small, TRAININGS))
    n_kernels = len(cached_kernels())
    seconds = time.perf_counter() - start
    yield fine("compilation", f"{n_kernels - n_before} new kernels, {n_before} were on disk; {seconds:.1f} s")


def train_small(name: str) -> None:
    """Train one of the models with files for the run, as a training of real text does, and use it."""
    model, make_data = TRAININGS[name]
    data = make_data()
    with TemporaryDirectory() as folder:
        with warnings.catch_warnings(action="ignore", category=TrainingWarning):  # more topics than words
            model.fit(data, run=f"{folder}/run")
        if isinstance(data, Corpus):
            model.transform(data)
            if isinstance(model, ScoredEstimator):
                model.score(data)
