"""LDA by collapsed Gibbs sampling whose counts follow every token.

    p(k) ∝ (A_dk + α_k) (B_vk + β) / (N_k + Vβ), with the token itself left out of A, B and N

Source: Moon's dissertation (2019), chapter 2:

- ``sequential``: Algorithm 1, one token after the other in document order.
- ``diagonals``: Algorithm 3, in tiles of a document group times a word block. The tiles of one wrapped diagonal are
  drawn in parallel, since they share no document and no word. They do share N. Section 2.4.1.4 keeps one difference per
  thread, and adds it once per iteration. Here each tile has its own, added after the diagonal, so that topics do not
  depend on the number of threads. Parts have equal numbers of tokens; Algorithm 3 cuts equal ranges. The product's
  sampler "gibbs" has such tiles too. This one, with dense counts, is compared with atomic additions.

Reference implementation: tests/helpers/naive.py, `lda_collapsed`.
"""

from concurrent.futures import Executor

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.jit import kernel, vector_kernel
from corpusmill.kernels.lda.minibatch import STRIDE, CountTables, Tokens, change_counts, document_order, draw_index


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
    group = cut(tokens.docs, parts)
    block = cut(tokens.words, parts)
    # NumPy sorts 16-bit numbers in linear time.
    tile = (group * parts + block).astype(np.uint16 if parts <= 256 else np.int64)
    order = np.argsort(tile, kind="stable")
    return order, np.searchsorted(tile[order], np.arange(parts * parts + 1))


def cut(ids: np.ndarray, parts: int) -> np.ndarray:
    """Cut ids (T,) into ranges with about equal numbers of tokens; return the range of each token: (T,) int64."""
    counts = np.bincount(ids, minlength=1)
    before = np.cumsum(counts) - counts
    return (before * parts // max(1, len(ids)))[ids]


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
        change_counts(a, b, N, old, -1)
        inverse[old] = 1 / (np.float32(N[old]) + mass)
        weigh_counts(a, b, inverse, alpha, np.float32(beta), p)
        new = z[i] = min(draw_index(p, random.uniform64(key, i)), K - 1)
        change_counts(a, b, N, new, 1)
        inverse[new] = 1 / (np.float32(N[new]) + mass)


@vector_kernel
def invert_totals(N: np.ndarray, mass: np.float32, inverse: np.ndarray) -> None:
    """Set inverse_k to 1 / (N_k + Vβ)."""
    for k in range(len(N)):
        inverse[k] = np.float32(1) / (np.float32(N[k]) + mass)


@vector_kernel
def weigh_counts(
    a: np.ndarray, b: np.ndarray, inverse: np.ndarray, alpha: np.ndarray, beta: np.float32, p: np.ndarray
) -> None:
    """Set p_k to (a_k + α_k) (b_k + β) / (N_k + Vβ)."""
    for k in range(len(alpha)):
        p[k] = (np.float32(a[k]) + alpha[k]) * (np.float32(b[k]) + beta) * inverse[k]
