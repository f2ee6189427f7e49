"""Latent Dirichlet allocation with counts that follow every token, or every mini-batch of documents.

Source: Moon's dissertation (2019), chapter 2:

- ``sequential``: Algorithm 1, collapsed Gibbs sampling, tokens in document order;
- ``diagonals``: Algorithm 3, the same over document groups x word blocks, tiles of a wrapped diagonal at once. They
  share no document and no word, but all of them use N: each tile has a copy of N, and the differences are added after
  the diagonal (section 2.4.1.4), so the topics do not depend on the number of threads;
- ``minibatch``: Algorithms 4 to 7, counts stand still within a mini-batch, (A_dk + α_k) / (N_k + Vβ) is computed once
  a document.

Rows are dense: A takes 4DK bytes and B 4WK bytes, for a chunk of D documents and W words.

Reference implementation: tests/helpers/naive.py, `lda_collapsed` and `lda_minibatch`.
"""

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from .. import random
from ..jit import kernel, vector_kernel

#: Weights whose sum is kept, so that a draw searches among sums first.
STRIDE = 16


class CountTables(NamedTuple):
    """Counts that the samplers change in place, and priors."""

    A: np.ndarray  # (D, K) int32
    B: np.ndarray  # (W, K) int32: of the whole corpus
    N: np.ndarray  # (K,) int32: over all words
    alpha: np.ndarray  # (K,) float32
    beta: float
    mass: float  # Vβ


class Tokens(NamedTuple):
    """A chunk's tokens in word order; ``words`` are rows of B."""

    docs: np.ndarray  # (T,) uint32
    words: np.ndarray  # (T,) uint32
    word_to_doc_order: np.ndarray  # (T,) uint32


def document_counts(tokens: Tokens, z: np.ndarray, n_documents: int, n_topics: int) -> np.ndarray:
    """Count topics by document: (D, K) int32."""
    flat = tokens.docs.astype(np.int64) * n_topics + z
    return np.bincount(flat, minlength=n_documents * n_topics).reshape(n_documents, n_topics).astype(np.int32)


def document_order(tokens: Tokens) -> np.ndarray:
    """Return the place in word order of each token of document order: (T,) int64."""
    order = np.empty(len(tokens.word_to_doc_order), np.int64)
    order[tokens.word_to_doc_order] = np.arange(len(order))
    return order


def sequential(tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64) -> None:
    """Draw ``z`` (T,) uint16, in word order, one token after the other in document order; update it and the tables.

    The draw of token i of word order is ``random.uniform64(key, i)``, here and below.
    """
    _collapsed(document_order(tokens), tokens, tables, z, key)


def diagonals(tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64, parts: int, pool: Executor) -> None:
    """Draw ``z`` (T,) uint16 tile by tile, ``parts`` x ``parts`` of them; a thread takes a tile when it is free."""
    order, tile_ptr = cut_into_tiles(tokens, parts)
    for step in range(parts):
        mine = [g * parts + (g + step) % parts for g in range(parts)]
        own = [tables._replace(N=tables.N.copy()) for _ in mine]
        jobs = [
            pool.submit(_collapsed, order[tile_ptr[t] : tile_ptr[t + 1]], tokens, mine_tables, z, key)
            for t, mine_tables in zip(mine, own, strict=True)
        ]
        for job in jobs:
            job.result()
        tables.N[:] += sum(each.N - tables.N for each in own)


def cut_into_tiles(tokens: Tokens, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Order tokens by (document group, word block), then as they stand: (T,) int64 and first tokens (parts**2 + 1,).

    Groups and blocks hold about equal numbers of tokens.
    """
    group, block = (_cut(ids, parts) for ids in (tokens.docs, tokens.words))
    # Of 16 bits, since NumPy sorts such numbers in linear time.
    tile = (group * parts + block).astype(np.uint16 if parts <= 256 else np.int64)
    order = np.argsort(tile, kind="stable")
    return order, np.searchsorted(tile[order], np.arange(parts * parts + 1))


def _cut(ids: np.ndarray, parts: int) -> np.ndarray:
    counts = np.bincount(ids, minlength=1)
    before = np.cumsum(counts) - counts
    return (before * parts // max(1, len(ids)))[ids]


def minibatch(
    tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64, doc_ptr: np.ndarray, documents: int
) -> None:
    """Draw ``z`` (T,) uint16 by mini-batches of ``documents``, each token left out of its own counts."""
    order = document_order(tokens)
    for first in range(0, len(doc_ptr) - 1, documents):
        last = min(first + documents, len(doc_ptr) - 1)
        batch = order[doc_ptr[first] : doc_ptr[last]]
        old = z[batch]
        _delayed(batch, tokens, tables, z, key)
        _move(batch, tokens, tables, old, z)


@kernel
def _collapsed(batch, tokens, tables, z, key):
    docs, words, (A, B, N, alpha, beta, mass) = tokens.docs, tokens.words, tables
    K, mass = len(alpha), np.float32(mass)
    p = np.zeros((K + STRIDE - 1) // STRIDE * STRIDE, np.float32)
    inverse = np.empty(K, np.float32)
    _invert(N, mass, inverse)
    for i in batch:
        a, b, old = A[docs[i]], B[words[i]], z[i]
        _add(a, b, N, old, -1)
        inverse[old] = 1 / (np.float32(N[old]) + mass)
        _weigh(a, b, inverse, alpha, np.float32(beta), p)
        new = z[i] = min(draw_index(p, random.uniform64(key, i)), K - 1)
        _add(a, b, N, new, 1)
        inverse[new] = 1 / (np.float32(N[new]) + mass)


@vector_kernel
def _invert(N, mass, inverse):
    for k in range(len(N)):
        inverse[k] = np.float32(1) / (np.float32(N[k]) + mass)


@kernel
def _add(a, b, N, k, step):
    a[k] += step
    b[k] += step
    N[k] += step


@vector_kernel
def _weigh(a, b, inverse, alpha, beta, p):
    for k in range(len(alpha)):
        p[k] = (np.float32(a[k]) + alpha[k]) * (np.float32(b[k]) + beta) * inverse[k]


@vector_kernel
def draw_index(p, u):
    """Return the place of a uniform number among weights, (n * STRIDE,) float32."""
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
def _delayed(batch, tokens, tables, z, key):
    docs, words, (A, B, N, alpha, beta, mass) = tokens.docs, tokens.words, tables
    share = np.empty(len(alpha), np.float32)
    p = np.zeros((len(alpha) + STRIDE - 1) // STRIDE * STRIDE, np.float32)
    last = np.int64(-1)
    for i in batch:
        d, old = np.int64(docs[i]), z[i]
        a, b = A[d], B[words[i]]
        if d != last:
            _share(a, N, alpha, np.float32(mass), share)
            last = d
        weigh_topics(b, share, np.float32(beta), p)
        p[old] = (a[old] - 1 + alpha[old]) * (b[old] - 1 + beta) / (N[old] - 1 + mass)
        z[i] = min(draw_index(p, random.uniform64(key, i)), len(alpha) - 1)


@vector_kernel
def _share(a, N, alpha, mass, share):
    for k in range(len(alpha)):
        share[k] = (np.float32(a[k]) + alpha[k]) / (np.float32(N[k]) + mass)


@vector_kernel
def weigh_topics(b, share, beta, p):
    """Weigh topics: ``p`` (at least K,) float32 becomes (b_k + β) share_k, of (K,) rows."""
    for k in range(len(share)):
        p[k] = (np.float32(b[k]) + beta) * share[k]


@kernel
def _move(batch, tokens, tables, old, z):
    """Bring the tables up to date behind a mini-batch."""
    for j in range(len(batch)):
        i = batch[j]
        a, b = tables.A[tokens.docs[i]], tables.B[tokens.words[i]]
        _add(a, b, tables.N, old[j], -1)
        _add(a, b, tables.N, z[i], 1)
