"""LDA's samplers as systems that train one pass at a time, and the likelihood of their topics."""

import concurrent.futures

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.lda import collapsed as lda_collapsed
from corpusmill.kernels.lda import esca as lda
from corpusmill.kernels.lda import uncollapsed as lda_uncollapsed

from benchmarks.lda.systems import BETA, Corpusmill, Warp
from benchmarks.papers import atomic_totals

#: Groups of documents, and blocks of words, of sampler "cgs".
PARTS = 8


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


class CurrentCounts(Corpusmill):
    """One chunk, with dense tables of counts that are updated after each token; threads share its tiles."""

    def __init__(self, matrix, n_topics: int, threads: int, documents: int = 0):
        self.documents = documents
        super().__init__(matrix, n_topics, 1)
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)

    def start(self) -> None:
        """Draw the first topics from the prior and count them."""
        super().start()
        (chunk,) = self.chunks
        (self.z,) = self.states
        self.tokens = lda_collapsed.Tokens(chunk.docs, chunk.words[chunk.word_to_doc_order], chunk.word_to_doc_order)
        self.order = np.argsort(chunk.word_to_doc_order)
        self.count_again()

    def count_again(self) -> None:
        """Count the topics into new tables."""
        B = np.zeros((self.n_words, self.n_topics), np.int32)
        np.add.at(B, (self.tokens.words, self.z), 1)
        A = lda_collapsed.document_counts(self.tokens, self.z, self.chunks[0].n_documents, self.n_topics)
        self.tables = lda_collapsed.CountTables(
            A, B, B.sum(axis=0, dtype=np.int32), self.alpha, BETA, self.n_words * BETA
        )

    def run(self) -> None:
        """Train one pass."""
        self.epoch += 1
        self.draw(random.key(1, self.epoch, 0))

    def draw(self, key) -> None:
        """Draw tile by tile."""
        lda_collapsed.diagonals(self.tokens, self.tables, self.z, key, PARTS, self.pool)


class AtomicTotals(CurrentCounts):
    """The same with one array of totals that all threads change."""

    def draw(self, key) -> None:
        """Draw tile by tile."""
        atomic_totals.diagonals(self.tokens, self.tables, self.z, key, PARTS, self.pool)


class Minibatch(CurrentCounts):
    """Counts that are updated after each mini-batch of documents."""

    def draw(self, key) -> None:
        """Draw mini-batch by mini-batch."""
        lda_collapsed.minibatch(self.tokens, self.tables, self.z, key, self.chunks[0].doc_ptr, self.documents)


class Reference(CurrentCounts):
    """The reference sampler that ships."""

    def draw(self, key) -> None:
        """Draw token by token."""
        lda_collapsed.sequential(self.tokens, self.tables, self.z, key)


class Plain(CurrentCounts):
    """Collapsed Gibbs sampling as one would write it down."""

    def draw(self, key) -> None:
        """Draw token by token."""
        A, B, N, *_ = self.tables
        docs, words = self.tokens.docs, self.tokens.words
        plain(self.order, docs, words, self.z, A, B, N, float(self.alpha[0]), BETA, key)


class Uncollapsed(CurrentCounts):
    """The sampler that draws θ and φ as well."""

    def draw(self, key) -> None:
        """Draw topics, then count them."""
        lda_uncollapsed.sample(self.tokens, self.tables, (key, key + np.uint64(1)), self.z)
        self.count_again()


def makers(documents: int = 140) -> dict:
    """Return functions of (matrix, topics, threads) that make each sampler."""
    return {
        "plain": Plain,
        "reference": Reference,
        "cgs": CurrentCounts,
        "cgs, atomic": AtomicTotals,
        "minibatch": lambda *given: Minibatch(*given, documents=documents),
        "uncollapsed": Uncollapsed,
        "esca": Corpusmill,
        "esca, all counts": lambda *given: Corpusmill(*given, leave_out=False),
        "warp": Warp,
    }


def likelihood(system) -> float:
    """Return the log-likelihood of the training data per token (equation 2.4 of Moon's dissertation)."""
    if isinstance(system, CurrentCounts):
        system._merge([system._count(system.chunks[0], system.z)])
        system.states = [system.z]
    total = 0.0
    for chunk, z in zip(system.chunks, system.states, strict=True):
        total += lda.log_likelihood(chunk, lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z), system.model)
    return total / sum(c.n_tokens for c in system.chunks)
