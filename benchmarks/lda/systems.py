"""Topic models side by side: each trains one pass at a time and gives its topics as rows of probabilities."""

import concurrent.futures
import contextlib
import time
import warnings

import numpy as np
import psutil
import scipy.sparse
from corpusmill.io.stores.corpus import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda import esca as lda
from corpusmill.kernels.lda import warp as lda_warp
from corpusmill.pipeline.models.lda.samplers import is_slow

BETA = 0.01


def load(path: str, tokens: int = 0, seed: int = 0) -> scipy.sparse.csr_matrix:
    """Read a (D, V) matrix of counts from .npz or UCI docword; keep a random choice of documents of about ``tokens``.

    Columns are the words that occur, by falling frequency.
    """
    matrix = scipy.sparse.csr_matrix(scipy.sparse.load_npz(path)) if path.endswith(".npz") else _docword(path)
    matrix = matrix.astype(np.int32)
    if 0 < tokens < matrix.sum():
        order = np.random.default_rng(seed).permutation(matrix.shape[0])
        ends = np.cumsum(matrix.sum(axis=1).A1[order])
        matrix = matrix[np.sort(order[: np.searchsorted(ends, tokens)])]
    frequency = matrix.sum(axis=0).A1
    kept = np.argsort(-frequency, kind="stable")[: np.count_nonzero(frequency)]
    matrix = matrix[:, kept].tocsr()
    matrix.sort_indices()
    return matrix


def _docword(path: str) -> scipy.sparse.csr_matrix:
    document, word, count = np.loadtxt(path, skiprows=3, dtype=np.int64).T
    return scipy.sparse.csr_matrix((count, (document - 1, word - 1)))


def zipf_matrix(n_words: int, tokens: int, length: int = 200):
    """Return documents of ``length`` words drawn by Zipf's law, every word at least once: (D, V) counts."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, n_words + 1)
    words = np.r_[rng.permutation(n_words), rng.choice(n_words, tokens - n_words, p=share / share.sum())]
    documents = rng.permutation(tokens) // length
    return scipy.sparse.csr_matrix((np.ones(tokens, np.int32), (documents, words)))


def tokens_of(matrix: scipy.sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return ``doc_ptr`` (D + 1,) and ``words`` (T,) of a matrix of counts."""
    words = np.repeat(matrix.indices, matrix.data).astype(np.uint32)
    return np.r_[0, np.cumsum(matrix.data)][matrix.indptr].astype(np.int64), words


class Corpusmill:
    """The bare kernels: one chunk a thread, counts merged after each pass."""

    name = "corpusmill"

    def __init__(self, matrix, n_topics: int, threads: int, leave_out: bool = True):
        self.n_topics, self.n_words, self.leave_out = n_topics, matrix.shape[1], leave_out
        doc_ptr, words = tokens_of(matrix)
        cuts = np.searchsorted(doc_ptr, np.arange(threads + 1) * (len(words) / threads))
        self.chunks = [
            make_chunk(c, doc_ptr[a : b + 1] - doc_ptr[a], words[doc_ptr[a] : doc_ptr[b]])
            for c, (a, b) in enumerate(zip(cuts[:-1], cuts[1:], strict=True))
        ]
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)
        self.alpha = np.full(n_topics, 50 / n_topics, np.float32)
        self.start()

    def start(self) -> None:
        """Draw first topics and count them."""
        self.epoch = 0
        empty = np.zeros(self.n_words + 1, np.int64), np.zeros(0, np.uint16), np.zeros(0, np.int32)
        self.model = self._model(lda.WordCounts(*empty))
        self.states = list(
            self.pool.map(lambda c: lda.draw_initial(c, self.model, random.key(1, 0, c.number)), self.chunks)
        )
        self._merge(self.pool.map(self._count, self.chunks, self.states))

    def run(self) -> None:
        """One pass: sweep every chunk, merge the counts."""
        self.epoch += 1
        swept = list(self.pool.map(self._sweep, self.chunks, self.states))
        self.states = [z for z, _ in swept]
        self._merge(counts for _, counts in swept)

    def _sweep(self, chunk, z):
        z = self._draw(chunk, z, random.key(1, self.epoch, chunk.number))
        return z, self._count(chunk, z)

    def _draw(self, chunk, z, key):
        rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
        return lda.sample(chunk, rows, self.model, z, key, self.leave_out, np.empty_like(z))

    def _count(self, chunk, z):
        return lda.count_words(chunk.word_ids, chunk.word_ptr, z, (0, self.n_words), self.n_topics)

    def _merge(self, tables) -> None:
        first, *others = tables
        for table in others:
            first = lda.merge_counts(first, table)
        self.model = self._model(first)

    def _model(self, table: lda.WordCounts) -> lda.ModelBlock:
        totals = lda.topic_totals(table.topics, table.counts, self.n_topics)
        return lda.ModelBlock(*table, 0, totals, self.alpha, BETA, self.n_words)

    def phi(self) -> np.ndarray:
        """Return (K, V) float32 probabilities."""
        table = self.model
        dense = np.full((self.n_topics, self.n_words), BETA, np.float32)
        dense[table.topics, np.repeat(np.arange(self.n_words), np.diff(table.row_ptr))] += table.counts
        return dense / dense.sum(axis=1, keepdims=True)


class Warp(Corpusmill):
    """The bare kernels of sampler "warp"."""

    name = "warp"

    def _draw(self, chunk, z, key):
        return lda_warp.sample(chunk, self.model, z, key)


class Auto(Warp):
    """The bare kernels of sampler "auto"; it looks at the held-out likelihood that the race shows it."""

    name = "auto"
    slow = False

    def look(self, curve) -> None:
        """See (pass, held-out log-likelihood) so far."""
        self.slow = self.slow or is_slow(curve)

    def _draw(self, chunk, z, key):
        return (Corpusmill if self.slow else Warp)._draw(self, chunk, z, key)


class Tomotopy:
    """tomotopy's collapsed Gibbs sampler, priors fixed."""

    name = "tomotopy"

    def __init__(self, matrix, n_topics: int, threads: int):
        import tomotopy

        self.threads, self.n_words = threads, matrix.shape[1]
        self.model = tomotopy.LDAModel(k=n_topics, alpha=50 / n_topics, eta=BETA, seed=1)
        self.model.optim_interval = 0
        doc_ptr, words = tokens_of(matrix)
        names = np.array([str(v) for v in range(self.n_words)], dtype=object)[words]
        for start, end in zip(doc_ptr[:-1], doc_ptr[1:], strict=True):
            if end > start:
                self.model.add_doc(names[start:end].tolist())
        self.model.train(0)

    def run(self) -> None:
        """One pass."""
        self.model.train(1, workers=self.threads)

    def phi(self) -> np.ndarray:
        """Return (K, V) float32 probabilities."""
        columns = [int(v) for v in self.model.used_vocabs]
        dense = np.zeros((self.model.k, self.n_words), np.float32)
        for k in range(self.model.k):
            dense[k, columns] = self.model.get_topic_word_dist(k)
        return dense


class Gensim:
    """gensim's online variational Bayes in worker processes."""

    name = "gensim"

    def __init__(self, matrix, n_topics: int, threads: int):
        from gensim.matutils import Sparse2Corpus
        from gensim.models import LdaMulticore

        self.corpus = Sparse2Corpus(matrix.tocsr().T.tocsc(), documents_columns=True)
        self.model = LdaMulticore(
            id2word={v: str(v) for v in range(matrix.shape[1])},
            num_topics=n_topics,
            alpha=np.full(n_topics, 50 / n_topics, np.float32),
            eta=BETA,
            workers=threads,
            chunksize=max(1, min(2000, matrix.shape[0] // 4)),
            eval_every=None,
            random_state=1,
        )

    def run(self) -> None:
        """One pass."""
        self.model.update(self.corpus)

    def phi(self) -> np.ndarray:
        """Return (K, V) float32 probabilities."""
        return self.model.get_topics()


class ScikitLearn:
    """scikit-learn's batch variational Bayes."""

    name = "scikit-learn"

    def __init__(self, matrix, n_topics: int, threads: int):
        from sklearn.decomposition import LatentDirichletAllocation

        self.matrix = matrix
        self.model = LatentDirichletAllocation(
            n_topics,
            doc_topic_prior=min(1.0, 50 / n_topics),
            topic_word_prior=BETA,
            total_samples=matrix.shape[0],
            batch_size=matrix.shape[0],
            # With these, one partial_fit of all documents is one pass of the batch algorithm.
            learning_decay=0.0,
            learning_offset=1.0,
            n_jobs=threads,
            random_state=1,
        )

    def run(self) -> None:
        """One pass."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.partial_fit(self.matrix)

    def phi(self) -> np.ndarray:
        """Return (K, V) probabilities."""
        return self.model.components_ / self.model.components_.sum(axis=1, keepdims=True)


SYSTEMS = {system.name: system for system in (Corpusmill, Warp, Auto, Tomotopy, Gensim, ScikitLearn)}


class Clock:
    """Seconds and CPU-seconds of this process and its children, summed over the passes that it is asked to time."""

    def __init__(self):
        self.process, self.wall, self.cpu = psutil.Process(), 0.0, 0.0

    def time(self, action) -> tuple[float, float]:
        """Run ``action``; return its seconds and CPU-seconds."""
        wall, cpu = time.perf_counter(), self._cpu()
        action()
        wall, cpu = time.perf_counter() - wall, self._cpu() - cpu
        self.wall, self.cpu = self.wall + wall, self.cpu + cpu
        return wall, cpu

    def _cpu(self) -> float:
        ended = self.process.cpu_times()
        total = time.process_time() + ended.children_user + ended.children_system
        for child in self.process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                times = child.cpu_times()
                total += times.user + times.system
        return total


def split(matrix, seed: int = 0, held_out: float = 0.1, most: int = 300):
    """Return training rows and the held-out documents as two halves of their tokens."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(matrix.shape[0])
    count = min(most, max(1, int(held_out * matrix.shape[0])))
    test = matrix[order[:count]]
    first = test.copy()
    first.data = rng.binomial(test.data, 0.5).astype(test.data.dtype)
    second = (test - first).tocsr()
    train = matrix[np.sort(order[int(held_out * matrix.shape[0]) :])]
    seen = np.flatnonzero(train.sum(axis=0).A1)
    return train[:, seen], first[:, seen].tocsr(), second[:, seen].tocsr()


def score(phi: np.ndarray, first, second, sweeps: int = 50) -> float:
    """Held-out log-likelihood per token by document completion, one function for every system.

    theta of a document comes from its first half by ``sweeps`` steps of expectation-maximisation under the prior 50/K.
    """
    alpha, total = 50 / len(phi), 0.0
    phi = np.ascontiguousarray(phi.T, np.float32)
    for d in range(first.shape[0]):
        seen, asked = slice(*first.indptr[d : d + 2]), slice(*second.indptr[d : d + 2])
        words, counts = phi[first.indices[seen]], first.data[seen].astype(np.float32)
        theta = np.full(phi.shape[1], 1 / phi.shape[1], np.float32)
        for _ in range(sweeps):
            theta = alpha + theta * ((counts / (words @ theta)) @ words)
            theta /= theta.sum()
        total += second.data[asked] @ np.log(phi[second.indices[asked]].astype(float) @ theta)
    return total / second.sum()
