"""The least squares problems of ANLS, by block principal pivoting.

    x ← argmin over x >= 0 of ½ xᵀSx − rᵀx

Source: Kim and Park, "Fast nonnegative matrix factorization" (SIAM J. Sci. Comput. 2011).

Layout: X (n, K) are rows of a factor, R (n, K) the product of A with the other factor, S (K, K) the product of the
other factor with itself.

Tests: tests/benchmarks/papers/test_pivoting.py checks the conditions of optimality.
"""

import numpy as np


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
