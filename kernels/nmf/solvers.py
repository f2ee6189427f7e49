"""Other updates of a factor's rows, to compare FAST-HALS with: multiplicative, and block principal pivoting.

X (n, K) are rows of a factor, R (n, K) their products with A, S (K, K) the other factor's product with itself.
"""

import numpy as np

from ..jit import vector_kernel


def multiplicative_update(X: np.ndarray, R: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Lee and Seung (2001), Frobenius norm: X·R / (X·S); returns (n, K)."""
    return X * (R / np.maximum(X @ S, np.finfo(X.dtype).tiny))


@vector_kernel
def kullback_leibler_ratios(A, X, Y, ratio):
    """Set ratio (non-zeros) to A / XYᵀ for A (n, m) sparse, X (n, K), Y (m, K); return Σ a·ln(a / xyᵀ) in float64.

    The update of X that goes with it: X·(ratio·Y) / ΣY (Lee and Seung 2001, Kullback-Leibler), and likewise of Y.
    """
    total, K, least = 0.0, X.shape[1], np.finfo(X.dtype).tiny
    for i in range(len(A.indptr) - 1):
        x = X[i]
        for j in range(A.indptr[i], A.indptr[i + 1]):
            y, modelled = Y[A.indices[j]], X.dtype.type(0)
            for k in range(K):
                modelled += x[k] * y[k]
            ratio[j] = A.data[j] / max(modelled, least)
            if A.data[j] > 0:
                total += A.data[j] * np.log(np.float64(ratio[j]))
    return total


def block_principal_pivoting(R: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Return the X >= 0 with least ½xᵀSx − rᵀx in each row (n, K), float64.

    Block principal pivoting of Kim and Park (SIAM J. Sci. Comput. 2011): all wrong variables change sides at once,
    three times at most without progress, then the last wrong one alone; rows of equal sides are solved together.
    """
    n, K = R.shape
    S, R = S + np.eye(K) * np.finfo(float).eps * np.trace(S), R.astype(float)
    free, X, Y = np.zeros((n, K), bool), np.zeros((n, K)), -R
    rounding = 1e-12 * np.abs(R).max(initial=0)
    tries, least = np.full(n, 3), np.full(n, K + 1)
    for _ in range(5 * K):
        wrong = np.where(free, X, Y + rounding) < 0
        count = wrong.sum(axis=1)
        rows = np.flatnonzero(count)
        if not len(rows):
            break
        better = count[rows] < least[rows]
        least[rows[better]], tries[rows[better]] = count[rows[better]], 3
        tries[rows[~better]] -= 1
        for i in rows[tries[rows] < 0]:
            wrong[i, : np.flatnonzero(wrong[i])[-1]] = False
        free[rows] ^= wrong[rows]
        _solve(X, Y, R, S, free, rows)
    return np.maximum(X, 0)


def _solve(X: np.ndarray, Y: np.ndarray, R: np.ndarray, S: np.ndarray, free: np.ndarray, rows: np.ndarray) -> None:
    patterns, which = np.unique(np.packbits(free[rows], axis=1), axis=0, return_inverse=True)
    for p in range(len(patterns)):
        mine = rows[which.ravel() == p]
        on = free[mine[0]]
        X[mine], Y[mine] = 0, 0
        if on.any():
            X[np.ix_(mine, on)] = np.linalg.solve(S[np.ix_(on, on)], R[np.ix_(mine, on)].T).T
        Y[np.ix_(mine, ~on)] = X[np.ix_(mine, on)] @ S[np.ix_(on, ~on)] - R[np.ix_(mine, ~on)]
