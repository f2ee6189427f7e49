"""Sums of products over chunks and shards.

kernels/cuda/nmf/sums.py has the same functions for arrays that stay on a CUDA device.
"""

import numpy as np
from numpy.typing import DTypeLike


def zero_sums(n_rows: int, gram_shape: tuple[int, ...], K: int, dtype: DTypeLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums before the first chunk of a shard: zeros P (n_rows, K) of ``dtype`` and Q ``gram_shape`` float64.

    P sums the products of the data with H, and Q the products of H with itself.
    """
    return np.zeros((n_rows, K), dtype), np.zeros(gram_shape)


def add_sums(left: np.ndarray, right: np.ndarray, cause: str) -> np.ndarray:
    """Return the sum of two arrays of one shape. ``cause`` names them in the ledger of a device."""
    return left + right


def gram_matrix(X: np.ndarray) -> np.ndarray:
    """Return XᵀX (K, K) in float64, summed over groups of rows."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for first in range(0, len(X), 1024):
        rows = X[first : first + 1024]
        total += rows.T @ rows
    return total
