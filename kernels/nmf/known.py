"""Least squares over the known entries of sparse rows A (n, m), of which entries that are not stored are unknown.

Each row x of a factor has a problem of its own, because each row of A has other known entries a_j. With the rows y_j
of the other factor (m, K), it minimises xᵀGx / 2 − bᵀx:

    b = Σ a_j y_j,  G = Σ y_j y_jᵀ
    x_k ← max(0, x_k + (b_k − n l1 − (Gx)_k − n l2 x_k) / (G_kk + n l2))    for k = 0, 1, ..., K − 1, several times

with penalties l1 and l2 for each of the row's n known entries.

Source: Zhou et al., "Large-scale parallel collaborative filtering for the Netflix prize" (AAIM 2008), with coordinate
descent in place of the solution without bounds.

Layout: a row of ``terms`` has n, b, and the upper triangle of G row by row. The rows y may come in blocks. Each sum
adds its terms in the order of the entries, so its bits do not depend on that.

Reference implementation: tests/helpers/naive.py, `nmf_known_row`.
"""

import numpy as np

from .. import random
from ..jit import kernel, vector_kernel
from .products import SparseRows


def n_terms(K: int) -> int:
    """Return the number of terms of a row of a factor with K columns: n, b and half of G."""
    return 1 + K + K * (K + 1) // 2


@vector_kernel
def add_terms(A: SparseRows, Y: np.ndarray, first: int, terms: np.ndarray) -> None:
    """Add to the ``terms`` (D, n_terms) of the rows of A; Y (L, K) are rows of the other factor, from ``first`` on."""
    K = Y.shape[1]
    for i in range(len(A.indptr) - 1):
        row = terms[i]
        b = row[1 : 1 + K]
        for j in range(A.indptr[i], A.indptr[i + 1]):
            at = A.indices[j] - first
            if at < 0 or at >= len(Y):
                continue
            y = Y[at]
            row[0] += 1
            for k in range(K):
                b[k] += A.data[j] * y[k]
            start = 1 + K
            for k in range(K):
                g = row[start : start + K - k]
                others = y[k:]
                for m in range(K - k):
                    g[m] += y[k] * others[m]
                start += K - k


@vector_kernel
def sweep_terms(terms: np.ndarray, l1: float, l2: float, sweeps: int, X: np.ndarray) -> tuple[float, float]:
    """Sweep over the coordinates of each row of X (n, K) in place. A row without a known entry becomes 0.

    Returns Σ 2bᵀx − xᵀGx, which is what the rows explain of the squares of A, and their penalties.
    """
    n, K = X.shape
    G = np.zeros((K, K))
    x = np.zeros(K)
    gradient = np.zeros(K)
    explained = 0.0
    penalty = 0.0
    for i in range(n):
        row = terms[i]
        known = np.float64(row[0])
        if known == 0:
            X[i] = 0
            continue
        start = 1 + K
        for k in range(K):
            for m in range(k, K):
                G[k, m] = G[m, k] = row[start + m - k]
            start += K - k
            G[k, k] += l2 * known
            x[k] = X[i, k]
        for k in range(K):
            gradient[k] = row[1 + k] - l1 * known
        for k in range(K):
            for m in range(K):
                gradient[m] -= x[k] * G[k, m]
        for _ in range(sweeps):
            for k in range(K):
                # A coordinate that no known entry depends on has no minimum, so it does not change.
                if G[k, k] <= 0:
                    continue
                step = max(gradient[k] / G[k, k], -x[k])
                x[k] += step
                for m in range(K):
                    gradient[m] -= step * G[k, m]
        for k in range(K):
            X[i, k] = x[k]
            linear = l1 * known * x[k]
            square = l2 * known * x[k] * x[k]
            penalty += linear + square / 2
            # Without the penalties, the gradient is b − Gx.
            explained += x[k] * (row[1 + k] + gradient[k]) + linear + square
    return explained, penalty


# --- entries that training leaves out ---


@kernel
def left_out(A: SparseRows, keys: np.ndarray, share: float) -> np.ndarray:
    """Return which stored entries are left out: (n,) bool. Each is drawn by the key of its row and its column."""
    found = np.empty(len(A.indices), np.bool_)
    for i in range(len(A.indptr) - 1):
        for j in range(A.indptr[i], A.indptr[i + 1]):
            found[j] = random.uniform64(keys[i], A.indices[j]) < share
    return found


@kernel
def left_out_columns(key: np.uint64, share: float, n: int) -> np.ndarray:
    """Return which of the n entries of a row are left out, stored or not: their columns, int32."""
    return np.array([v for v in range(n) if random.uniform64(key, v) < share], np.int32)


@vector_kernel
def predict(A: SparseRows, marked: np.ndarray, X: np.ndarray, Y: np.ndarray, data: np.ndarray) -> float:
    """Set ``data`` (n,) to A, and at the ``marked`` entries to X·Yᵀ; return their sum of squared differences."""
    total = 0.0
    for i in range(len(A.indptr) - 1):
        x = X[i]
        for j in range(A.indptr[i], A.indptr[i + 1]):
            data[j] = A.data[j]
            if marked[j]:
                y = Y[A.indices[j]]
                modelled = X.dtype.type(0)
                for k in range(len(x)):
                    modelled += x[k] * y[k]
                data[j] = modelled
                total += np.float64(A.data[j] - modelled) ** 2
    return total
