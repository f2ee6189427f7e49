"""Topic models side by side. Each trains one pass at a time, and returns its topics as rows of probabilities.

``alpha`` is the prior of each topic of a document, 50 / K if 0.
"""

import concurrent.futures
import warnings

import numpy as np
import scipy.sparse
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda import esca as lda
from corpusmill.kernels.lda import gibbs
from corpusmill.kernels.lda import warp as lda_warp
from corpusmill.kernels.lda.counts import WordCounts, count_documents, count_words, merge_counts, topic_totals
from corpusmill.kernels.lda.model import ModelBlock
from corpusmill.pipeline.models.lda.samplers import is_slow

from benchmarks.lda.data import tokens_of

#: The prior of words, the same for all systems.
BETA = 0.01


class Corpusmill:
    """The kernels without the engine: some chunks per thread, counts merged after each pass.

    ``chunks`` is their number, one per thread if 0. ``seed`` is that of all draws.
    """

    name = "corpusmill"

    def __init__(
        self,
        matrix,
        n_topics: int,
        threads: int,
        leave_out: bool = True,
        chunks: int = 0,
        alpha: float = 0.0,
        beta: float = BETA,
        seed: int = 1,
    ):
        self.n_topics = n_topics
        self.seed = seed
        self.n_words = matrix.shape[1]
        self.leave_out = leave_out
        self.beta = beta
        doc_ptr, words = tokens_of(matrix)
        n_chunks = chunks or threads
        cuts = np.searchsorted(doc_ptr, np.arange(n_chunks + 1) * (len(words) / n_chunks))
        self.chunks = []
        for number, (first, last) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
            start, end = doc_ptr[first], doc_ptr[last]
            self.chunks.append(make_chunk(number, doc_ptr[first : last + 1] - start, words[start:end]))
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)
        self.alpha = np.full(n_topics, alpha or 50 / n_topics, np.float32)
        self.start()

    def start(self) -> None:
        """Draw the first topics from the prior and count them."""
        self.epoch = 0
        row_ptr = np.zeros(self.n_words + 1, np.int64)
        self.model = self._model(WordCounts(row_ptr, np.zeros(0, np.uint16), np.zeros(0, np.int32)))
        self.states = list(self.pool.map(self._draw_initial, self.chunks))
        self._merge(self.pool.map(self._count, self.chunks, self.states))

    def run(self) -> None:
        """Train one pass: sweep every chunk, merge the counts."""
        self.epoch += 1
        swept = list(self.pool.map(self._sweep, self.chunks, self.states))
        self.states = [z for z, _ in swept]
        self._merge(counts for _, counts in swept)

    def _draw_initial(self, chunk):
        return lda.draw_initial(chunk, self.model, random.key(self.seed, 0, chunk.number))

    def _sweep(self, chunk, z):
        z = self._draw(chunk, z, random.key(self.seed, self.epoch, chunk.number))
        return z, self._count(chunk, z)

    def _draw(self, chunk, z, key):
        rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
        return lda.sample(chunk, rows, self.model, z, key, self.leave_out, np.empty_like(z))

    def _count(self, chunk, z):
        return count_words(chunk.word_ids, chunk.word_ptr, z, (0, self.n_words), self.n_topics)

    def _merge(self, tables) -> None:
        first, *others = tables
        for table in others:
            first = merge_counts(first, table)
        self.model = self._model(first)

    def _model(self, table: WordCounts) -> ModelBlock:
        totals = topic_totals(table.topics, table.counts, self.n_topics)
        return ModelBlock(*table, 0, totals, self.alpha, self.beta, self.n_words)

    def phi(self, words=slice(None)) -> np.ndarray:
        """Return each topic's probabilities of some words, or of all words: (K, n) float32."""
        model = self.model
        shape = (self.n_words, self.n_topics)
        counts = scipy.sparse.csr_matrix((model.counts, model.topics.astype(np.int32), model.row_ptr), shape)
        dense = counts[words].toarray().T.astype(np.float32) + np.float32(self.beta)
        return dense / (model.totals + self.n_words * self.beta).astype(np.float32)[:, None]


class Warp(Corpusmill):
    """The kernels of sampler "warp"."""

    name = "warp"

    def _draw(self, chunk, z, key):
        return lda_warp.sample(chunk, self.model, z, key)


class Gibbs(Corpusmill):
    """The kernels of sampler "gibbs". It updates the counts after each draw, so more chunks would need more passes."""

    name = "gibbs"

    def _draw(self, chunk, z, key):
        z, model = z.copy(), self.model
        A = gibbs.document_rows(chunk, z, self.n_topics)
        B = gibbs.word_rows(WordCounts(model.row_ptr, model.topics, model.counts), self.n_topics)
        gibbs.draw(chunk, A, B, model.totals.astype(np.int64), model, z, key)
        return z


class Auto(Warp):
    """The kernels of sampler "auto", which changes from "warp" to "esca" when the likelihood rises slowly."""

    name = "auto"
    slow = False

    def observe(self, curve) -> None:
        """Choose the sampler by the (pass, held-out log-likelihood) so far."""
        self.slow = self.slow or is_slow(curve)

    def _draw(self, chunk, z, key):
        if self.slow:
            return Corpusmill._draw(self, chunk, z, key)
        return Warp._draw(self, chunk, z, key)


class Tomotopy:
    """tomotopy's collapsed Gibbs sampler with fixed priors."""

    name = "tomotopy"

    def __init__(self, matrix, n_topics: int, threads: int, alpha: float = 0.0, seed: int = 1):
        import tomotopy

        self.threads = threads
        self.n_words = matrix.shape[1]
        self.model = tomotopy.LDAModel(k=n_topics, alpha=alpha or 50 / n_topics, eta=BETA, seed=seed)
        self.model.optim_interval = 0
        doc_ptr, words = tokens_of(matrix)
        names = np.array([str(v) for v in range(self.n_words)], dtype=object)[words]
        for start, end in zip(doc_ptr[:-1], doc_ptr[1:], strict=True):
            if end > start:
                self.model.add_doc(names[start:end].tolist())
        self.model.train(0)

    def run(self) -> None:
        """Train one pass."""
        self.model.train(1, workers=self.threads)

    def phi(self, words=slice(None)) -> np.ndarray:
        """Return the probabilities of some words, or of all: (K, n) float32."""
        columns = np.array([int(v) for v in self.model.used_vocabs])
        row = np.zeros(self.n_words, np.float32)
        rows = []
        for k in range(self.model.k):
            row[columns] = self.model.get_topic_word_dist(k)
            rows.append(row[words].copy())
        return np.array(rows)


class Gensim:
    """gensim's online variational Bayes in worker processes."""

    name = "gensim"

    def __init__(self, matrix, n_topics: int, threads: int, alpha: float = 0.0):
        from gensim.matutils import Sparse2Corpus
        from gensim.models import LdaMulticore

        self.corpus = Sparse2Corpus(matrix.tocsr().T.tocsc(), documents_columns=True)
        self.model = LdaMulticore(
            id2word={v: str(v) for v in range(matrix.shape[1])},
            num_topics=n_topics,
            alpha=np.full(n_topics, alpha or 50 / n_topics, np.float32),
            eta=BETA,
            workers=threads,
            chunksize=max(1, min(2000, matrix.shape[0] // 4)),
            eval_every=None,
            random_state=1,
        )

    def run(self) -> None:
        """Train one pass."""
        self.model.update(self.corpus)

    def phi(self, words=slice(None)) -> np.ndarray:
        """Return the probabilities of some words, or of all: (K, n) float32."""
        return self.model.get_topics()[:, words]


class ScikitLearn:
    """scikit-learn's batch variational Bayes."""

    name = "scikit-learn"

    def __init__(self, matrix, n_topics: int, threads: int, alpha: float = 0.0):
        from sklearn.decomposition import LatentDirichletAllocation

        self.matrix = matrix
        self.model = LatentDirichletAllocation(
            n_topics,
            doc_topic_prior=min(1.0, alpha or 50 / n_topics),
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
        """Train one pass."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.partial_fit(self.matrix)

    def phi(self, words=slice(None)) -> np.ndarray:
        """Return the probabilities of some words, or of all: (K, n)."""
        return self.model.components_[:, words] / self.model.components_.sum(axis=1, keepdims=True)


SYSTEMS = {system.name: system for system in (Corpusmill, Warp, Auto, Gibbs, Tomotopy, Gensim, ScikitLearn)}
#: Systems of others.
PEERS = ("tomotopy", "gensim", "scikit-learn")
#: Systems whose passes are slow, and alike from the first on.
VARIATIONAL = ("gensim", "scikit-learn")
#: Threads of every system, if no option changes them.
THREADS = 2
