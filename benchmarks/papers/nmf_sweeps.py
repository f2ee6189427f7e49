"""FAST-HALS as the papers write it down: by columns (Algorithm 1) and in three phases (Algorithm 2 of ALO-NMF).

Source: Moon et al., "ALO-NMF" (KDD 2020). ``update`` in kernels/tiled.py makes the same iterates in fewer
passes over memory. X is one factor by rows, W (V, K) or Hᵀ (D, K); P has the shape of X; Q is (K, K); all are float32
or float64.
"""

import numpy as np

from .kernels.tiled import sweep_tile


def update_in_phases(X: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, normalise: bool) -> None:
    """Sweep X (V, K) in place as Algorithm 2: phase 1 uses old values, phase 3 new ones."""
    phases_2_and_3(X, phase_1(X, Q, T, normalise), P, Q, T, normalise)


def phase_1(X: np.ndarray, Q: np.ndarray, T: int, normalise: bool) -> np.ndarray:
    """Return what the old values of X (V, K) contribute to the tiles on their left, and X itself: (V, K)."""
    keep = np.diag(Q) if normalise else np.ones_like(Q[0])
    new = keep * X
    for tile in tiles_of(X.shape[1], T):
        new[:, : tile.start] -= X[:, tile] @ Q[tile, : tile.start]
    return new


def phases_2_and_3(X: np.ndarray, new: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, normalise: bool) -> None:
    """Sweep each tile of X (V, K), and add what its new values contribute to the tiles on its right to ``new``."""
    floor = np.finfo(X.dtype).eps
    for tile in tiles_of(X.shape[1], T):
        G = np.ascontiguousarray((new[:, tile] + P[:, tile] - X[:, tile] @ Q[tile, tile]).T)
        panel = np.ascontiguousarray(X[:, tile].T)
        sweep_tile(panel, G, np.ascontiguousarray(Q[tile, tile]), floor, normalise)
        X[:, tile] = panel.T
        new[:, tile.stop :] -= X[:, tile] @ Q[tile, tile.stop :]


def tiles_of(K: int, T: int) -> list[slice]:
    """Return the columns of each tile."""
    return [slice(first, min(first + T, K)) for first in range(0, K, T)]


def update_by_columns(X: np.ndarray, P: np.ndarray, Q: np.ndarray, normalise: bool) -> None:
    """Sweep X (V, K) in place as Algorithm 1: one matrix-vector product per column."""
    floor = np.finfo(X.dtype).eps
    for k in range(X.shape[1]):
        keep = Q[k, k] if normalise else 1
        x = np.maximum(floor, keep * X[:, k] + P[:, k] - X @ Q[:, k])
        X[:, k] = x / np.linalg.norm(x) if normalise else x
