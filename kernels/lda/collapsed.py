"""LDA by collapsed Gibbs sampling: the counts follow every token, or every mini-batch of documents.

    p(k) ∝ (A_dk + α_k) (B_vk + β) / (N_k + Vβ), with the token itself left out of A, B and N

Source: Moon's dissertation (2019), chapter 2:

- ``sequential``: Algorithm 1, one token after the other in document order.
- ``diagonals``: Algorithm 3, in tiles of a document group times a word block. The tiles of one wrapped diagonal are
  drawn in parallel, since they share no document and no word. They do share N. Section 2.4.1.4 keeps one difference per
  thread, and adds it once per iteration. Here each tile has its own, added after the diagonal, so that topics do not
  depend on the number of threads. Parts have equal numbers of tokens; Algorithm 3 cuts equal ranges.
- ``minibatch``: Algorithms 4, 5 and 7. Counts do not change within a mini-batch of documents, so DNT, which is
  (A_dk + α_k) / (N_k + Vβ), is computed once per document. The dissertation does not leave the token out. On a GPU,
  Algorithms 9 and 10 leave it out of B and N, but not of DNT. Here it is left out of all three. Arrays of old and new
  topics stand for TOPICS_delta and PERM (Algorithm 6).

Layout: A and B are dense, 4DK and 4WK bytes for a chunk of D documents and W distinct words.

Reference implementation: tests/helpers/naive.py, `lda_collapsed` and `lda_minibatch`.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from .. import random
from ..jit import kernel, vector_kernel

#: Number of consecutive weights that `draw_index` sums in one step, and skips if the random number lies beyond them.
#: Arrays of weights are padded to a multiple of it.
STRIDE = 16


class CountTables(NamedTuple):
    """Counts that the samplers change in place, and the priors."""

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


def sequential(tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64) -> None:
    """Draw ``z`` (T,) uint16, in word order, one token after the other in document order; update it and the tables.

    Here and below, token i in word order takes the draw ``random.uniform64(key, i)``.
    """
    _collapsed(document_order(tokens), tokens, tables, z, key)


def diagonals(tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64, parts: int, pool: Executor) -> None:
    """Draw ``z`` (T,) uint16 in ``parts`` x ``parts`` tiles, the tiles of one diagonal in parallel on the pool."""
    order, tile_ptr = cut_into_tiles(tokens, parts)
    for step in range(parts):
        own = []
        jobs = []
        for group in range(parts):
            tile = group * parts + (group + step) % parts
            batch = order[tile_ptr[tile] : tile_ptr[tile + 1]]
            # Tiles of a diagonal share no document and no word, so they change different rows of A and B. Only N is
            # common to all, so each tile has its own copy.
            own.append(tables._replace(N=tables.N.copy()))
            jobs.append(pool.submit(_collapsed, batch, tokens, own[-1], z, key))
        for job in jobs:
            job.result()
        # Add up what each tile changed.
        tables.N[:] += sum(each.N - tables.N for each in own)


def cut_into_tiles(tokens: Tokens, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort tokens by (document group, word block), keeping word order inside a tile.

    Groups and blocks have about equal numbers of tokens. Returns the tokens (T,) int64 and the first token of each tile
    (parts**2 + 1,) int64.
    """
    group = _cut(tokens.docs, parts)
    block = _cut(tokens.words, parts)
    # NumPy sorts 16-bit numbers in linear time.
    tile = (group * parts + block).astype(np.uint16 if parts <= 256 else np.int64)
    order = np.argsort(tile, kind="stable")
    return order, np.searchsorted(tile[order], np.arange(parts * parts + 1))


def _cut(ids: np.ndarray, parts: int) -> np.ndarray:
    """Cut ids (T,) into ranges with about equal numbers of tokens; return the range of each token: (T,) int64."""
    counts = np.bincount(ids, minlength=1)
    before = np.cumsum(counts) - counts
    return (before * parts // max(1, len(ids)))[ids]


def minibatches(tokens: Tokens, doc_ptr: np.ndarray, documents: int) -> Iterator[np.ndarray]:
    """Yield the tokens of each mini-batch of ``documents`` documents, in document order: (n,) int64."""
    order = document_order(tokens)
    for first in range(0, len(doc_ptr) - 1, documents):
        last = min(first + documents, len(doc_ptr) - 1)
        yield order[doc_ptr[first] : doc_ptr[last]]


def minibatch(
    tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64, doc_ptr: np.ndarray, documents: int
) -> None:
    """Draw ``z`` (T,) uint16 by mini-batches of ``documents``, each token left out of its own counts."""
    for batch in minibatches(tokens, doc_ptr, documents):
        old = z[batch]
        # All tokens of the batch are drawn from the same counts, which are updated afterwards.
        _delayed(batch, tokens, tables, z, key)
        _move(batch, tokens, tables, old, z)


# --- counts that follow every token ---


@kernel
def _collapsed(batch: np.ndarray, tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64) -> None:
    """Draw the tokens ``batch`` (n,) one after the other, and update z and the tables after each."""
    docs = tokens.docs
    words = tokens.words
    A, B, N, alpha, beta, _ = tables
    K = len(alpha)
    mass = np.float32(tables.mass)
    p = np.zeros((K + STRIDE - 1) // STRIDE * STRIDE, np.float32)
    # A token changes N at two topics, so that two divisions replace K.
    inverse = np.empty(K, np.float32)
    invert_totals(N, mass, inverse)
    for i in batch:
        a = A[docs[i]]
        b = B[words[i]]
        old = z[i]
        _add(a, b, N, old, -1)
        inverse[old] = 1 / (np.float32(N[old]) + mass)
        weigh_counts(a, b, inverse, alpha, np.float32(beta), p)
        new = z[i] = min(draw_index(p, random.uniform64(key, i)), K - 1)
        _add(a, b, N, new, 1)
        inverse[new] = 1 / (np.float32(N[new]) + mass)


@vector_kernel
def invert_totals(N: np.ndarray, mass: np.float32, inverse: np.ndarray) -> None:
    """Set inverse_k to 1 / (N_k + Vβ)."""
    for k in range(len(N)):
        inverse[k] = np.float32(1) / (np.float32(N[k]) + mass)


@kernel
def _add(a: np.ndarray, b: np.ndarray, N: np.ndarray, k: int, step: int) -> None:
    """Change the counts of topic k in a row of A, a row of B and N by ``step``."""
    a[k] += step
    b[k] += step
    N[k] += step


@vector_kernel
def weigh_counts(
    a: np.ndarray, b: np.ndarray, inverse: np.ndarray, alpha: np.ndarray, beta: np.float32, p: np.ndarray
) -> None:
    """Set p_k to (a_k + α_k) (b_k + β) / (N_k + Vβ)."""
    for k in range(len(alpha)):
        p[k] = (np.float32(a[k]) + alpha[k]) * (np.float32(b[k]) + beta) * inverse[k]


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


# --- counts that follow every mini-batch ---


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
        _add(a, b, tables.N, old[j], -1)
        _add(a, b, tables.N, z[i], 1)
