"""LDA's samplers as systems that train one pass at a time."""

import concurrent.futures
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.dealing import deal
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.lda import minibatch as lda_minibatch
from corpusmill.pipeline.engine.algorithm import Address
from corpusmill.pipeline.engine.grid import Cell, Grid
from corpusmill.pipeline.models.lda.gibbs import WordOrderGibbs
from corpusmill.pipeline.models.lda.word_topics import gather_rows

from benchmarks.lda.systems import Corpusmill, Warp
from benchmarks.papers import atomic_totals, update_times

from .kernels import every_token
from .kernels import uncollapsed as lda_uncollapsed

#: Groups of documents, and blocks of words.
PARTS = 8


def count_tables(tokens, z, n_documents, n_words, alpha, beta) -> lda_minibatch.CountTables:
    """Return the tables of the topics ``z`` (T,), given alpha (K,) and beta."""
    n_topics = len(alpha)
    A = lda_minibatch.document_counts(tokens, z, n_documents, n_topics)
    B = np.zeros((n_words, n_topics), np.int32)
    np.add.at(B, (tokens.words, z), 1)
    return lda_minibatch.CountTables(A, B, B.sum(axis=0, dtype=np.int32), alpha, beta, n_words * beta)


@kernel
def plain(order, docs, words, z, A, B, N, alpha, beta, key):
    """Collapsed Gibbs sampling as one would write it down: running sums and a linear search."""
    K, mass = len(N), beta * len(B)
    p = np.empty(K, np.float64)
    for i in order:
        d, v = docs[i], words[i]
        A[d, z[i]] -= 1
        B[v, z[i]] -= 1
        N[z[i]] -= 1
        total = 0.0
        for k in range(K):
            total += (A[d, k] + alpha) * (B[v, k] + beta) / (N[k] + mass)
            p[k] = total
        u = random.uniform64(key, i) * total
        new = 0
        while p[new] <= u:
            new += 1
        z[i] = new
        A[d, new] += 1
        B[v, new] += 1
        N[new] += 1


class Tiles(Corpusmill):
    """The product's sampler "gibbs" in P rows of documents by P blocks of words; threads share the tiles of a stratum.

    P is a power of two.
    """

    def __init__(self, matrix, n_topics: int, threads: int = 1, parts: int = PARTS, **options):
        frequency = matrix.sum(axis=0).A1
        blocks = deal(frequency, parts, random.key(0), len(frequency))
        order = np.argsort(blocks, kind="stable")
        self.row_of_word = np.argsort(order)
        super().__init__(matrix.tocsc()[:, order].tocsr(), n_topics, threads, chunks=parts, **options)
        self.algorithm = WordOrderGibbs(
            n_words=len(frequency),
            n_topics=n_topics,
            alpha=(float(self.alpha[0]),),
            beta=self.beta,
            bounds=(0, *np.cumsum(np.bincount(blocks, minlength=parts)).tolist()),
        )

    def _merge(self, tables) -> None:
        """Keep the model in the order of the blocks beside that in the order of the words."""
        super()._merge(tables)
        self.by_block = self.model
        counts = {"row_ptr": self.model.row_ptr, "topics": self.model.topics, "counts": self.model.counts}
        self.model = self.model._replace(**gather_rows(self.row_of_word, [counts]))

    def run(self) -> None:
        """Train one pass."""
        self.epoch += 1
        algorithm, model = self.algorithm, self.by_block
        shared = {"totals": model.totals, "alpha": model.alpha, "beta": model.beta}

        def begin(number: int):
            address = Address(self.seed, self.epoch, number)
            return algorithm.begin_row([self.chunks[number]], [{"z": self.states[number]}], shared, address)

        rows = list(self.pool.map(begin, range(algorithm.n_blocks)))
        columns = []
        for first, stop in pairwise(algorithm.bounds):
            part = slice(model.row_ptr[first], model.row_ptr[stop])
            row_ptr = model.row_ptr[first : stop + 1] - part.start
            block = {"row_ptr": row_ptr, "topics": model.topics[part], "counts": model.counts[part]}
            columns.append(algorithm.begin_column(block))
        grid = Grid(self.seed, self.epoch, algorithm.n_blocks, 1)
        for stratum in range(grid.n_strata):

            def draw(row: int, stratum: int = stratum) -> None:
                cell = Cell(0, stratum, row, grid.partner(stratum, row))
                arrays, prepared = rows[row]
                algorithm.train_cell(arrays, columns[cell.column], prepared, shared, cell, self.epoch)

            list(self.pool.map(draw, range(algorithm.n_blocks)))
        self.states = [arrays["z"] for arrays, _ in rows]
        self._merge(self.pool.map(self._count, self.chunks, self.states))


class CurrentCounts(Corpusmill):
    """One chunk, with dense tables of counts that are updated after each token; threads share its tiles."""

    def __init__(self, matrix, n_topics: int, threads: int = 1, parts: int = PARTS, **options):
        self.parts = parts
        super().__init__(matrix, n_topics, 1, **options)
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)

    def start(self) -> None:
        """Draw the first topics from the prior and count them."""
        super().start()
        (chunk,) = self.chunks
        (self.z,) = self.states
        self.tokens = lda_minibatch.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)
        self.order = np.argsort(chunk.word_to_doc_order)
        self.count_again()

    def count_again(self) -> None:
        """Count the topics into new tables."""
        n_documents = self.chunks[0].n_documents
        self.tables = count_tables(self.tokens, self.z, n_documents, self.n_words, self.alpha, self.beta)

    def run(self) -> None:
        """Train one pass."""
        self.epoch += 1
        self.draw(random.key(self.seed, self.epoch, 0))

    def draw(self, key) -> None:
        """Draw tile by tile."""
        every_token.diagonals(self.tokens, self.tables, self.z, key, self.parts, self.pool)

    def finish(self) -> None:
        """Bring the sparse model up to date with the topics."""
        self.states = [self.z]
        self._merge([self._count(self.chunks[0], self.z)])


class AtomicTotals(CurrentCounts):
    """The same with one array of totals that all threads change."""

    def draw(self, key) -> None:
        """Draw tile by tile."""
        atomic_totals.diagonals(self.tokens, self.tables, self.z, key, self.parts, self.pool)


class Minibatch(CurrentCounts):
    """Counts that are updated after each mini-batch of documents."""

    def __init__(self, *given, documents: int = 140, **others):
        self.documents = documents
        super().__init__(*given, **others)

    def draw(self, key) -> None:
        """Draw mini-batch by mini-batch."""
        lda_minibatch.minibatch(self.tokens, self.tables, self.z, key, self.chunks[0].doc_ptr, self.documents)


class UpdateTimes(Minibatch):
    """Tables that change after each token or after each mini-batch, each table as chosen."""

    def __init__(self, *given, immediate: update_times.Immediate, **others):
        self.immediate = immediate
        super().__init__(*given, **others)

    def draw(self, key) -> None:
        """Draw mini-batch by mini-batch."""
        doc_ptr = self.chunks[0].doc_ptr
        update_times.minibatches(self.tokens, self.tables, self.z, key, doc_ptr, self.documents, self.immediate)


class Sequential(CurrentCounts):
    """Sequential sampling with vector registers."""

    def draw(self, key) -> None:
        """Draw token by token."""
        every_token.sequential(self.tokens, self.tables, self.z, key)


class Plain(CurrentCounts):
    """Collapsed Gibbs sampling as one would write it down."""

    def draw(self, key) -> None:
        """Draw token by token."""
        A, B, N, *_ = self.tables
        docs, words = self.tokens.docs, self.tokens.words
        plain(self.order, docs, words, self.z, A, B, N, float(self.alpha[0]), self.beta, key)


class Uncollapsed(CurrentCounts):
    """The sampler that draws θ and φ as well."""

    def draw(self, key) -> None:
        """Draw topics, then count them."""
        lda_uncollapsed.sample(self.tokens, self.tables, (key, key + np.uint64(1)), self.z)
        self.count_again()


#: Systems by name. Each takes a matrix, the number of topics, the number of threads, and options by name.
SAMPLERS: dict[str, Callable[..., Corpusmill]] = {
    "plain": Plain,
    "sequential": Sequential,
    "tiles": Tiles,
    "copies": CurrentCounts,
    "cgs, atomic": AtomicTotals,
    "minibatch": Minibatch,
    "uncollapsed": Uncollapsed,
    "esca": Corpusmill,
    "warp": Warp,
}
