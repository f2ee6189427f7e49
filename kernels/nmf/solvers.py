"""Multiplicative updates of a factor's rows.

    X ← X · (R / (X S))                     multiplicative update, Frobenius norm
    X ← X · ((A / XYᵀ) Y) / ΣY              multiplicative update, Kullback-Leibler divergence

Source: Lee and Seung, "Algorithms for non-negative matrix factorization" (NIPS 2001).

Layout: X (n, K) are rows of a factor, R (n, K) the product of A with the other factor, S (K, K) the product of the
other factor with itself.

Tests: tests/pipeline/models/nmf compares them with scikit-learn.
"""

import numpy as np

from ..jit import vector_kernel
from .products import SparseRows


def multiplicative_update(X: np.ndarray, R: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Return X·R / (X·S): (n, K)."""
    return X * (R / np.maximum(X @ S, np.finfo(X.dtype).tiny))


@vector_kernel
def kullback_leibler_ratios(A: SparseRows, X: np.ndarray, Y: np.ndarray, ratio: np.ndarray) -> float:
    """Set ``ratio`` (non-zeros,) to A / XYᵀ at the non-zeros of A (n, m), for X (n, K) and Y (m, K).

    Returns Σ a·ln(a / xyᵀ) in float64, the part of the divergence that depends on the non-zeros.
    """
    total = 0.0
    K = X.shape[1]
    least = np.finfo(X.dtype).tiny
    for i in range(len(A.indptr) - 1):
        x = X[i]
        for j in range(A.indptr[i], A.indptr[i + 1]):
            y = Y[A.indices[j]]
            modelled = X.dtype.type(0)
            for k in range(K):
                modelled += x[k] * y[k]
            ratio[j] = A.data[j] / max(modelled, least)
            if A.data[j] > 0:
                total += A.data[j] * np.log(np.float64(ratio[j]))
    return total
