"""Compile the kernels after an installation, so that the first training does not wait for them."""

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tempfile import TemporaryDirectory

from dask.system import cpu_count

from ....ingest.ingest import corpus_from
from ....models.base.estimator import Estimator
from ....models.lda.estimator import LDA
from ....models.nmf.estimator import NMF
from ....models.random_indexing.estimator import RandomIndexing
from ....models.word2vec.estimator import Word2Vec
from ...results import Finding
from .finding import fine
from .self_test import documents
from .software import cached_kernels

#: One model of each family. Their kernels have little in common, so that processes can compile them at the same time.
#: The slowest one comes first.
MODELS: dict[str, Estimator] = {
    "Word2Vec": Word2Vec(vector_size=64, epochs=1, min_count=1, device="cpu"),
    "LDA": LDA(20, max_iter=3, device="cpu"),
    "NMF": NMF(20, max_iter=3, device="cpu"),
    "random indexing": RandomIndexing(vector_size=256, device="cpu"),
}
#: A worker has several chunks, whose results are merged.
CHUNK_TOKENS = 500


def compile_kernels() -> Iterator[Finding]:
    """Compile what a first training needs if the cache is empty, with one process per model and core."""
    if cached_kernels():
        return
    start = time.perf_counter()
    n_processes = min(len(MODELS), cpu_count())
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(train_small, MODELS))
    n_kernels = len(cached_kernels())
    seconds = time.perf_counter() - start
    yield fine("compilation", f"{n_kernels} kernels in {seconds:.1f} s; processes: {n_processes}")


def train_small(name: str) -> None:
    """Train one of the models on a small corpus with files for the run, as a training of real text does."""
    texts = [" ".join(words) for words in documents()]
    with TemporaryDirectory() as folder:
        corpus = corpus_from(texts, chunk_tokens=CHUNK_TOKENS)
        MODELS[name].fit(corpus, run=f"{folder}/run")
