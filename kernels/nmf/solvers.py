"""Other updates of a factor's rows, to compare FAST-HALS with.

    X ← X · (R / (X S))                     multiplicative update, Frobenius norm
    X ← X · ((A / XYᵀ) Y) / ΣY              multiplicative update, Kullback-Leibler divergence
    X ← argmin over X >= 0 of ½ xᵀSx − rᵀx   block principal pivoting (ANLS-BPP)

Sources: Lee and Seung, "Algorithms for non-negative matrix factorization" (NIPS 2001); Kim and Park, "Fast nonnegative
matrix factorization" (SIAM J. Sci. Comput. 2011).

Layout: X (n, K) are rows of a factor, R (n, K) the product of A with the other factor, S (K, K) the product of the
other factor with itself.

Tests: tests/pipeline/models/nmf compares the multiplicative updates with scikit-learn, and pivoting with its conditions
of optimality.
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


def block_principal_pivoting(R: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Return the X >= 0 (n, K) float64 that minimises ½xᵀSx − rᵀx in each row.

    A variable is free, or fixed at zero. All variables that violate the conditions of optimality change sides at once.
    If their number does not fall for three rounds, only the last of them changes, which cannot cycle. Rows with
    the same free variables are solved together.
    """
    n, K = R.shape
    # A little of the identity, so that S is regular.
    S = S + np.eye(K) * np.finfo(float).eps * np.trace(S)
    R = R.astype(float)
    free = np.zeros((n, K), bool)
    X = np.zeros((n, K))
    Y = -R
    rounding = 1e-12 * np.abs(R).max(initial=0)
    tries = np.full(n, 3)
    least = np.full(n, K + 1)
    for _ in range(5 * K):
        wrong = np.where(free, X, Y + rounding) < 0
        count = wrong.sum(axis=1)
        rows = np.flatnonzero(count)
        if not len(rows):
            break
        better = count[rows] < least[rows]
        least[rows[better]] = count[rows[better]]
        tries[rows[better]] = 3
        tries[rows[~better]] -= 1
        for i in rows[tries[rows] < 0]:
            wrong[i, : np.flatnonzero(wrong[i])[-1]] = False
        free[rows] ^= wrong[rows]
        _solve(X, Y, R, S, free, rows)
    return np.maximum(X, 0)


def _solve(X: np.ndarray, Y: np.ndarray, R: np.ndarray, S: np.ndarray, free: np.ndarray, rows: np.ndarray) -> None:
    """Solve for the free variables of the given rows, and set the gradient Y of the fixed ones."""
    patterns, which = np.unique(np.packbits(free[rows], axis=1), axis=0, return_inverse=True)
    for p in range(len(patterns)):
        mine = rows[which.ravel() == p]
        on = free[mine[0]]
        X[mine] = 0
        Y[mine] = 0
        if on.any():
            X[np.ix_(mine, on)] = np.linalg.solve(S[np.ix_(on, on)], R[np.ix_(mine, on)].T).T
        Y[np.ix_(mine, ~on)] = X[np.ix_(mine, on)] @ S[np.ix_(on, ~on)] - R[np.ix_(mine, ~on)]
