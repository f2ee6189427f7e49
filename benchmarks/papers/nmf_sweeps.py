"""FAST-HALS as the papers write it down: by columns (Algorithm 1) and in three phases (Algorithm 2 of ALO-NMF).

Source: Moon et al., "ALO-NMF" (KDD 2020). ``corpusmill.kernels.nmf.tiled.update`` makes the same iterates in fewer
passes over memory. X is one factor by rows, W (V, K) or Hᵀ (D, K); P has the shape of X; Q is (K, K); all are float32
or float64.
"""

import numpy as np
from corpusmill.kernels.nmf.tiled import sweep_tile


def update_in_phases(X: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, normalise: bool) -> None:
    """Sweep X (V, K) in place as Algorithm 2: phase 1 uses old values, phase 3 new ones."""
    keep = np.diag(Q) if normalise else np.ones_like(Q[0])
    new = keep * X
    floor = np.finfo(X.dtype).eps
    tiles = [slice(first, min(first + T, X.shape[1])) for first in range(0, X.shape[1], T)]
    for tile in tiles:
        new[:, : tile.start] -= X[:, tile] @ Q[tile, : tile.start]
    for tile in tiles:
        G = np.ascontiguousarray((new[:, tile] + P[:, tile] - X[:, tile] @ Q[tile, tile]).T)
        panel = np.ascontiguousarray(X[:, tile].T)
        sweep_tile(panel, G, np.ascontiguousarray(Q[tile, tile]), floor, normalise)
        X[:, tile] = panel.T
        new[:, tile.stop :] -= X[:, tile] @ Q[tile, tile.stop :]


def update_by_columns(X: np.ndarray, P: np.ndarray, Q: np.ndarray, normalise: bool) -> None:
    """Sweep X (V, K) in place as Algorithm 1: one matrix-vector product per column."""
    floor = np.finfo(X.dtype).eps
    for k in range(X.shape[1]):
        keep = Q[k, k] if normalise else 1
        x = np.maximum(floor, keep * X[:, k] + P[:, k] - X @ Q[:, k])
        X[:, k] = x / np.linalg.norm(x) if normalise else x
