"""FAST-HALS over whole factors, tile by tile: Algorithm 2 of ALO-NMF in its left-looking form.

    w_k ← max(ε, w_k q_kk + p_k − Σ_j q_kj w_j), then scaled to length 1

Source: Moon et al., "ALO-NMF" (KDD 2020), Algorithms 1 and 2 and equation 11. Each column of W is scaled to length 1
before the next column uses it. That couples all rows, so the blocks of rows of kernels/nmf/hals.py cannot do it. They
can sweep H, by `rule_of_documents`.

Layout: X is a factor by rows, W (V, K) or Hᵀ (D, K). P is the product of A with the other factor, of the same shape as
X. Q (K, K) is the product of the other factor with itself. All are of one type, float32 or float64.

Reference implementation: tests/helpers/naive.py, `nmf_fast_hals`.
"""

import math

import numpy as np
from corpusmill.kernels.jit import vector_kernel
from corpusmill.kernels.nmf.hals import UpdateRule, inner_product, update_rule
from corpusmill.kernels.nmf.sums import gram_matrix
from corpusmill.kernels.simd.aligned import aligned_copy
from numpy.typing import DTypeLike

#: Size of the cache that the width of a tile is chosen for, in numbers.
CACHE = 32 << 20


def best_tile(K: int, C: float = CACHE) -> float:
    """Return the tile width that moves the fewest numbers, for a cache of C > 4 numbers: equation 11."""
    root = math.sqrt(C)
    return math.sqrt(K * root / (root - 2))


def tile_size(K: int, C: float = CACHE) -> int:
    """Return the best tile width as a whole number from 1 to K."""
    return max(1, min(K, round(best_tile(K, C))))


def rule_of_documents(S: np.ndarray, dtype: DTypeLike = np.float32) -> UpdateRule:
    """Return the rule of Algorithm 1 for H, given S = WᵀW (K, K). It takes S_kk to be 1: columns of W have length 1."""
    rule = update_rule(S, dtype=dtype)
    return rule._replace(step=np.ones_like(rule.step), floor=np.finfo(dtype).eps)


@vector_kernel
def sweep_tile(X: np.ndarray, G: np.ndarray, q: np.ndarray, floor: float, normalise: bool) -> None:
    """Update the T rows of X (T, V) one after the other: phase 2 of Algorithm 2.

    It runs in one thread. Algorithm 2 divides V among threads (lines 12 and 23).

    On entry, G (T, V) holds keep·X + P − Q·X, computed from X before the call. q (T, T) is the tile's part of Q. X and
    G are changed in place.
    """
    T, V = X.shape
    for t in range(T):
        x = X[t]
        g = G[t]
        total = 0.0
        for i in range(V):
            g[i] = max(floor, g[i])
            total += g[i] * g[i]
        scale = X.dtype.type(1 / np.sqrt(total)) if normalise else X.dtype.type(1)
        # g becomes the change of x, by which the rows of G that follow are corrected.
        for i in range(V):
            new = g[i] * scale
            g[i] = new - x[i]
            x[i] = new
        for j in range(t + 1, T):
            factor = q[t, j]
            later = G[j]
            for i in range(V):
                later[i] -= factor * g[i]


def update(X: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, normalise: bool) -> None:
    """Sweep X (V, K) in place in tiles of T columns, with one matrix product per tile.

    The product takes all of X, which has new values left of the tile and old ones from the tile on. So it is phases 1
    and 3 of Algorithm 2 at once. ``normalise``: use the rule for W (Algorithm 1, lines 10 and 11), not that
    for H (line 6).
    """
    keep = np.diag(Q) if normalise else np.ones_like(Q[0])
    floor = np.finfo(X.dtype).eps
    # By columns, so that a tile is contiguous.
    columns = np.ascontiguousarray(X.T)
    products = np.ascontiguousarray(P.T)
    for first in range(0, X.shape[1], T):
        tile = slice(first, first + T)
        G = Q[tile] @ columns
        np.subtract(products[tile], G, out=G)
        G += keep[tile, None] * columns[tile]
        sweep_tile(columns[tile], G, np.ascontiguousarray(Q[tile, tile]), floor, normalise)
    X[:] = columns.T


def sweep_columns(
    X: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, sweeps: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return W, here X (V, K), after `update` was called ``sweeps`` times, its XᵀX (K, K) float64, and ⟨P, X⟩."""
    swept = aligned_copy(X)
    for _ in range(sweeps):
        update(swept, P, Q, T, normalise=True)
    return swept, gram_matrix(swept), inner_product(P.reshape(-1), swept.reshape(-1))
