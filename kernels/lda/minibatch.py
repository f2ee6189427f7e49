"""LDA by collapsed Gibbs sampling whose counts follow every mini-batch of documents.

    p(k) ∝ (A_dk + α_k) (B_vk + β) / (N_k + Vβ), with the token itself left out of A, B and N

Source: Moon's dissertation (2019), chapter 2, Algorithms 4, 5 and 7. Counts do not change within a mini-batch of
documents, so DNT, which is (A_dk + α_k) / (N_k + Vβ), is computed once per document. The dissertation does not leave
the token out. On a GPU, Algorithms 9 and 10 leave it out of B and N, but not of DNT. Here it is left out of all three.
Arrays of old and new topics stand for TOPICS_delta and PERM (Algorithm 6).

Layout: A and B are dense, 4DK and 4WK bytes for a chunk of D documents and W distinct words.

Reference implementation: tests/helpers/naive.py, `lda_minibatch`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .. import random
from ..jit import kernel, vector_kernel

#: Number of consecutive weights that `draw_index` sums in one step, and skips if the random number lies beyond them.
#: Arrays of weights are padded to a multiple of it.
STRIDE = 16


class CountTables(NamedTuple):
    """Counts that a sampler changes in place, and the priors."""

    A: np.ndarray  # (D, K) int32
    B: np.ndarray  # (W, K) int32: of the whole corpus
    N: np.ndarray  # (K,) int32: over all words
    alpha: np.ndarray  # (K,) float32
    beta: float
    mass: float  # Vβ


class Tokens(NamedTuple):
    """A chunk's tokens in word order."""

    docs: np.ndarray  # (T,) uint32
    words: np.ndarray  # (T,) uint32: rows of B
    word_to_doc_order: np.ndarray  # (T,) uint32


def document_counts(tokens: Tokens, z: np.ndarray, n_documents: int, n_topics: int) -> np.ndarray:
    """Count the topics ``z`` (T,) uint16 of each document: (D, K) int32."""
    flat = tokens.docs.astype(np.int64) * n_topics + z
    counts = np.bincount(flat, minlength=n_documents * n_topics)
    return counts.reshape(n_documents, n_topics).astype(np.int32)


def document_order(tokens: Tokens) -> np.ndarray:
    """Return the position in word order of each token of document order: (T,) int64."""
    order = np.empty(len(tokens.word_to_doc_order), np.int64)
    order[tokens.word_to_doc_order] = np.arange(len(order))
    return order


# --- samplers ---


def minibatches(tokens: Tokens, doc_ptr: np.ndarray, documents: int) -> Iterator[np.ndarray]:
    """Yield the tokens of each mini-batch of ``documents`` documents, in document order: (n,) int64."""
    order = document_order(tokens)
    for first in range(0, len(doc_ptr) - 1, documents):
        last = min(first + documents, len(doc_ptr) - 1)
        yield order[doc_ptr[first] : doc_ptr[last]]


def minibatch(
    tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64, doc_ptr: np.ndarray, documents: int
) -> None:
    """Draw ``z`` (T,) uint16, in word order, by mini-batches of ``documents``, each token left out of its own counts.

    Token i in word order takes the draw ``random.uniform64(key, i)``.
    """
    for batch in minibatches(tokens, doc_ptr, documents):
        old = z[batch]
        # All tokens of the batch are drawn from the same counts, which are updated afterwards.
        _delayed(batch, tokens, tables, z, key)
        _move(batch, tokens, tables, old, z)


@kernel
def change_counts(a: np.ndarray, b: np.ndarray, N: np.ndarray, k: int, step: int) -> None:
    """Change the counts of topic k in a row of A, a row of B and N, all (K,) int32, by ``step``."""
    a[k] += step
    b[k] += step
    N[k] += step


@vector_kernel
def draw_index(p: np.ndarray, u: float) -> int:
    """Return the index of the weight that a uniform number u falls on; weights are (n * STRIDE,) float32.

    Whole strides are skipped by their sums, which run in vector registers, and only the last stride is searched.
    """
    total = np.float32(0)
    for k in range(len(p)):
        total += p[k]
    x = np.float64(u) * total
    last = len(p) - STRIDE
    start = 0
    while start < last:
        part = np.float32(0)
        for k in range(start, start + STRIDE):
            part += p[k]
        if x < part:
            break
        x -= part
        start += STRIDE
    for k in range(start, start + STRIDE - 1):
        x -= p[k]
        if x < 0:
            return k
    return start + STRIDE - 1


@kernel
def _delayed(batch: np.ndarray, tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64) -> None:
    """Draw the tokens ``batch`` (n,), which are in document order, from tables that do not change."""
    docs = tokens.docs
    words = tokens.words
    A, B, N, alpha, beta, mass = tables
    share = np.empty(len(alpha), np.float32)
    p = np.zeros((len(alpha) + STRIDE - 1) // STRIDE * STRIDE, np.float32)
    last = np.int64(-1)
    for i in batch:
        d = np.int64(docs[i])
        old = z[i]
        a = A[d]
        b = B[words[i]]
        if d != last:
            _share(a, N, alpha, np.float32(mass), share)
            last = d
        weigh_topics(b, share, np.float32(beta), p)
        # Only the weight of the old topic depends on leaving the token out.
        p[old] = (a[old] - 1 + alpha[old]) * (b[old] - 1 + beta) / (N[old] - 1 + mass)
        z[i] = min(draw_index(p, random.uniform64(key, i)), len(alpha) - 1)


@vector_kernel
def _share(a: np.ndarray, N: np.ndarray, alpha: np.ndarray, mass: np.float32, share: np.ndarray) -> None:
    """Set the document's factor of each topic: (a_k + α_k) / (N_k + Vβ)."""
    for k in range(len(alpha)):
        share[k] = (np.float32(a[k]) + alpha[k]) / (np.float32(N[k]) + mass)


@vector_kernel
def weigh_topics(b: np.ndarray, share: np.ndarray, beta: np.float32, p: np.ndarray) -> None:
    """Set the first K weights of ``p`` float32 to (b_k + β) share_k; ``b`` and ``share`` are (K,)."""
    for k in range(len(share)):
        p[k] = (np.float32(b[k]) + beta) * share[k]


@kernel
def _move(batch: np.ndarray, tokens: Tokens, tables: CountTables, old: np.ndarray, z: np.ndarray) -> None:
    """Bring the tables up to date after a mini-batch whose tokens had the topics ``old`` (n,) and now have z."""
    for j in range(len(batch)):
        i = batch[j]
        a = tables.A[tokens.docs[i]]
        b = tables.B[tokens.words[i]]
        change_counts(a, b, tables.N, old[j], -1)
        change_counts(a, b, tables.N, z[i], 1)
