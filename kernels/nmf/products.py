"""Products of sparse rows with a dense factor, for NMF."""

from typing import NamedTuple

import numpy as np

from ..jit import kernel, vector_kernel
from ..simd.aligned import CACHE_LINE_BYTES
from ..simd.prefetch import prefetch


class SparseRows(NamedTuple):
    """Sparse rows (CSR) of A with n non-zeros."""

    indptr: np.ndarray  # (D + 1,) int64
    indices: np.ndarray  # (n,) int32
    data: np.ndarray  # (n,) float32 or float64


class SparseMatrix(NamedTuple):
    """Sparse A (D, V) in both orders, so that its products with W and with H both run row by row."""

    by_row: SparseRows
    by_column: SparseRows  # the rows of Aᵀ


@vector_kernel
def _prefetch_row(X: np.ndarray, i: int) -> None:
    """Prefetch row ``i`` of X."""
    K = X.shape[1]
    for k in range(0, K, CACHE_LINE_BYTES // X.itemsize):
        prefetch(X, np.int64(i) * K + k)


@vector_kernel
def add_row_product(row: np.ndarray, A: SparseRows, i: int, X: np.ndarray) -> None:
    """Add Σ a·X[index] over the non-zeros of row ``i`` of A to ``row`` (K,).

    Four non-zeros at a time, so that ``row`` is read and written a quarter as often. Meanwhile the next four rows of X
    are prefetched, also those of A's next row.
    """
    j = A.indptr[i]
    last = A.indptr[i + 1]
    K = X.shape[1]
    while j + 4 <= last:
        for ahead in range(j + 4, min(j + 8, len(A.indices))):
            _prefetch_row(X, A.indices[ahead])
        a, b, c, d = A.data[j], A.data[j + 1], A.data[j + 2], A.data[j + 3]
        s, t = X[A.indices[j]], X[A.indices[j + 1]]
        u, v = X[A.indices[j + 2]], X[A.indices[j + 3]]
        for k in range(K):
            row[k] += a * s[k] + b * t[k] + c * u[k] + d * v[k]
        j += 4
    while j < last:
        a = A.data[j]
        s = X[A.indices[j]]
        for k in range(K):
            row[k] += a * s[k]
        j += 1


@vector_kernel
def add_products(A: SparseRows, X: np.ndarray, out: np.ndarray) -> None:
    """Add A·X to ``out`` (n, K), for n sparse rows and X (m, K), all float32 or all float64."""
    for i in range(len(A.indptr) - 1):
        add_row_product(out[i], A, i, X)


@vector_kernel
def transposed(A: SparseRows, n: int) -> SparseRows:
    """Return the transpose of sparse rows with ``n`` columns: (n,) sparse rows of int64, int32 and float."""
    indptr = np.zeros(n + 1, np.int64)
    for v in A.indices:
        indptr[v + 1] += 1
    for v in range(n):
        indptr[v + 1] += indptr[v]
    at = indptr.copy()
    indices = np.empty(len(A.indices), np.int32)
    data = np.empty_like(A.data)
    for d in range(len(A.indptr) - 1):
        for i in range(A.indptr[d], A.indptr[d + 1]):
            v = A.indices[i]
            indices[at[v]] = d
            data[at[v]] = A.data[i]
            at[v] += 1
    return SparseRows(indptr, indices, data)


def sparse_matrix(A: SparseRows, n: int) -> SparseMatrix:
    """Return sparse rows with ``n`` columns in both orders."""
    return SparseMatrix(A, transposed(A, n))


@vector_kernel
def count_tokens(word_ptr: np.ndarray, docs: np.ndarray) -> SparseRows:
    """Count the tokens of each segment in each document: (S,) sparse rows of int32 documents and float32 counts.

    ``word_ptr`` (S + 1,) int64 and ``docs`` (T,) uint32 in word order, in which a word's tokens of one document follow
    one another.
    """
    indptr = np.zeros(len(word_ptr), np.int64)
    indices = np.empty(len(docs), np.int32)
    data = np.empty(len(docs), np.float32)
    n = 0
    for s in range(len(word_ptr) - 1):
        for i in range(word_ptr[s], word_ptr[s + 1]):
            if i > word_ptr[s] and docs[i] == docs[i - 1]:
                data[n - 1] += 1
            else:
                indices[n] = docs[i]
                data[n] = 1
                n += 1
        indptr[s + 1] = n
    return SparseRows(indptr, indices[:n].copy(), data[:n].copy())


@kernel
def apply_tfidf(A: SparseRows, idf: np.ndarray) -> None:
    """Multiply sparse rows by idf (V,) float64 and scale each row to Euclidean length 1, in place."""
    for d in range(len(A.indptr) - 1):
        total = 0.0
        for i in range(A.indptr[d], A.indptr[d + 1]):
            A.data[i] *= idf[A.indices[i]]
            total += A.data[i] * A.data[i]
        for i in range(A.indptr[d], A.indptr[d + 1]):
            A.data[i] /= np.sqrt(total)
