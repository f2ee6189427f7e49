"""FAST-HALS over whole factors, tile by tile: Algorithm 2 of ALO-NMF (KDD 2020), and its left-looking form.

The columns of W are normalised one after the other over all rows, which couples the rows: what the block scheme of
nmf.py cannot do. X is a factor by rows, W (V, K) or Hᵀ (D, K); P is its product, (V, K) or (D, K), and Q (K, K) the
other factor's product with itself; all are of one type, float32 or float64.

Reference implementation: tests/helpers/naive.py, `nmf_fast_hals`.
"""

import math

import numpy as np

from ..jit import vector_kernel


def best_tile(K: int, C: float) -> float:
    """Equation 11 of ALO-NMF: the tile width T that moves the fewest numbers, for a cache of C > 4 numbers."""
    root = math.sqrt(C)
    return math.sqrt(K * root / (root - 2))


def tile_size(K: int, C: float) -> int:
    """Return the best tile width as a whole number from 1 to K."""
    return max(1, min(K, round(best_tile(K, C))))


@vector_kernel
def sweep_tile(X, G, q, floor, normalise):
    """Update the T rows of X (T, V) from G (T, V) = keep·X + P − Q·X, where all of X is old; q (T, T) of Q."""
    T, V = X.shape
    for t in range(T):
        x, g, total = X[t], G[t], 0.0
        for i in range(V):
            g[i] = max(floor, g[i])
            total += g[i] * g[i]
        scale = X.dtype.type(1 / np.sqrt(total)) if normalise else X.dtype.type(1)
        for i in range(V):
            new = g[i] * scale
            g[i], x[i] = new - x[i], new
        for j in range(t + 1, T):
            factor, later = q[t, j], G[j]
            for i in range(V):
                later[i] -= factor * g[i]


def update(X: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, normalise: bool) -> None:
    """Sweep X (V, K) in place in tiles of T columns, one matrix product a tile.

    The product takes all of X, new to the left of the tile and old from the tile on: phases 1 and 3 at once.
    ``normalise``: W's rule of Algorithm 1 (lines 10 and 11), else H's (line 6).
    """
    keep = np.diag(Q) if normalise else np.ones_like(Q[0])
    floor = np.finfo(X.dtype).eps
    columns, products = np.ascontiguousarray(X.T), np.ascontiguousarray(P.T)  # what a tile reads lies together
    for first in range(0, X.shape[1], T):
        tile = slice(first, first + T)
        G = Q[tile] @ columns
        np.subtract(products[tile], G, out=G)
        G += keep[tile, None] * columns[tile]
        sweep_tile(columns[tile], G, np.ascontiguousarray(Q[tile, tile]), floor, normalise)
    X[:] = columns.T
