"""FAST-HALS over whole factors, tile by tile: Algorithm 2 of ALO-NMF (KDD 2020), and its left-looking form.

The columns of W are normalised one after the other over all rows, which couples the rows: what the block scheme of
nmf.py cannot do. X is a factor by rows, W (V, K) or Hᵀ (D, K); P is its product, (V, K) or (D, K), and Q (K, K) the
other factor's product with itself; all are of one type, float32 or float64.
"""

import numpy as np

from ..jit import vector_kernel


@vector_kernel
def _phase_2(X, G, q, floor, normalise):
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
        _phase_2(columns[tile], G, np.ascontiguousarray(Q[tile, tile]), floor, normalise)
    X[:] = columns.T


def update_in_phases(X: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, normalise: bool) -> None:
    """Sweep X (V, K) in place as Algorithm 2 has it: old values go left (phase 1), new ones right (phase 3)."""
    keep = np.diag(Q) if normalise else np.ones_like(Q[0])
    new = keep * X
    floor = np.finfo(X.dtype).eps
    tiles = [slice(first, min(first + T, X.shape[1])) for first in range(0, X.shape[1], T)]
    for tile in tiles:
        new[:, : tile.start] -= X[:, tile] @ Q[tile, : tile.start]
    for tile in tiles:
        G = np.ascontiguousarray((new[:, tile] + P[:, tile] - X[:, tile] @ Q[tile, tile]).T)
        panel = np.ascontiguousarray(X[:, tile].T)
        _phase_2(panel, G, np.ascontiguousarray(Q[tile, tile]), floor, normalise)
        X[:, tile] = panel.T
        new[:, tile.stop :] -= X[:, tile] @ Q[tile, tile.stop :]


def update_by_columns(X: np.ndarray, P: np.ndarray, Q: np.ndarray, normalise: bool) -> None:
    """Sweep X (V, K) in place as Algorithm 1 has it: a matrix-vector product a column."""
    floor = np.finfo(X.dtype).eps
    for k in range(X.shape[1]):
        keep = Q[k, k] if normalise else 1
        x = np.maximum(floor, keep * X[:, k] + P[:, k] - X @ Q[:, k])
        X[:, k] = x / np.linalg.norm(x) if normalise else x
