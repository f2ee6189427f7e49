"""Products of sparse rows with a dense factor, for NMF.

    R = A·W and P = AᵀH, as R_i += a_ij W_j and P_j += a_ij H_i over the non-zeros of A

Both take one pass over the non-zeros. A non-zero costs one multiplication and one addition per component. Rows have few
components, so loops over them would cost more than the arithmetic. Kernels are therefore compiled for the number of
vectors of a row, see `simd.rows`, and keep a row in registers.

Each entry is summed in the order of the non-zeros, with one rounding per non-zero. So the sums do not depend on the
order of the loops, nor on the width of the vectors.

Reference implementation: tests/helpers/naive.py, `sparse_products`.
"""

from typing import Any, NamedTuple

import numpy as np

from ..jit import kernel, vector_kernel
from ..simd.rows import Panel, RowShape, add_multiple, add_multiple_to, load_row, panels, prefetch_row, store_row

#: Bytes of rows between a prefetch and its use, and the fewest non-zeros between them.
AHEAD_BYTES = 5 << 10
MIN_AHEAD = 4
#: A dense factor of at most this size stays in the second-level cache.
CACHED_BYTES = 1 << 19
#: Bounds of blocks of a factor are multiples of this number of rows, if possible: whole groups of rows of
#: `hals.sweep_rows` and of `sums.gram_matrix`. Sums over the rows then have the same parts, however many blocks there
#: are.
GROUP_ROWS = 3072


class SparseRows(NamedTuple):
    """Sparse rows (CSR) of A with n non-zeros."""

    indptr: np.ndarray  # (D + 1,) int64
    indices: np.ndarray  # (n,) int32
    data: np.ndarray  # (n,) float32 or float64

    def part(self, first: int, stop: int) -> "SparseRows":
        """Return the rows ``first`` to ``stop - 1``, as a view."""
        return self._replace(indptr=self.indptr[first : stop + 1])


class SparseMatrix(NamedTuple):
    """Sparse A (D, V) in both orders, so that its products with W and with H both run row by row."""

    by_row: SparseRows
    by_column: SparseRows  # the rows of Aᵀ


def add_dense_products(A: np.ndarray, X: np.ndarray, out: np.ndarray) -> None:
    """Add A·X to ``out`` (n, K), for dense A (n, m) and X (m, K).

    The sum has one part for each GROUP_ROWS columns of A, so that X may be given in blocks, with the same bits.
    """
    for first in range(0, len(X), GROUP_ROWS):
        out += A[:, first : first + GROUP_ROWS] @ X[first : first + GROUP_ROWS]


def add_dense_column_products(A: np.ndarray, H: np.ndarray, P: np.ndarray) -> None:
    """Add AᵀH to P (m, K), for dense A (n, m) and H (n, K).

    Each GROUP_ROWS rows of P are a product of their own, so that P may be made in blocks, with the same bits.
    """
    for first in range(0, len(P), GROUP_ROWS):
        P[first : first + GROUP_ROWS] += A[:, first : first + GROUP_ROWS].T @ H


def check_layout(dtype: np.dtype[Any], *factors: np.ndarray) -> None:
    """Raise ValueError unless the factors are C-contiguous and of this type. Kernels read them by flat index."""
    for factor in factors:
        if not factor.flags.c_contiguous or factor.dtype != dtype:
            raise ValueError(
                f"a factor of shape {factor.shape} and type {factor.dtype} is not a C-contiguous array of type "
                f"{dtype}: convert it with np.ascontiguousarray"
            )


def add_products(A: SparseRows, X: np.ndarray, out: np.ndarray) -> None:
    """Add A·X to ``out`` (n, K), for n sparse rows and X (m, K), all float32 or all float64 and C-contiguous.

    Raises ValueError for other factors.
    """
    check_layout(A.data.dtype, X, out)
    for panel in panels(X.shape[1], X.dtype):
        _add_products(A, X, out, panel.start, panel.shape, _ahead(panel, X))


def add_finished_products(A: SparseRows, X: np.ndarray, out: np.ndarray) -> None:
    """Add A·X to ``out`` as `add_products` does, but round each sum of products before it is added.

    The result is that of ``out + B`` for a B of zeros that `add_products` has added A·X to, bit for bit. Rows of A
    without an entry take no time.
    """
    check_layout(A.data.dtype, X, out)
    zeros = np.zeros(X.shape[1], X.dtype)
    for panel in panels(X.shape[1], X.dtype):
        _add_finished_products(A, X, zeros, out, panel.start, panel.shape, _ahead(panel, X))


def add_transposed_products(A: SparseRows, X: np.ndarray, out: np.ndarray) -> None:
    """Add Aᵀ·X to ``out`` (m, K), for n sparse rows with m columns and X (n, K), of types as in `add_products`.

    The result is that of ``add_products(transposed(A, m), X, out)``, bit for bit. This order is faster if ``out`` fits
    the cache and X does not.
    """
    check_layout(A.data.dtype, X, out)
    for panel in panels(X.shape[1], X.dtype):
        _add_transposed_products(A, X, out, panel.start, panel.shape, _ahead(panel, X))


def add_column_products(A: SparseMatrix, H: np.ndarray, P: np.ndarray) -> None:
    """Add AᵀH to P (V, K), for H (D, K), in the order that reads the smaller of both factors at random."""
    # Rows of P are read and written, those of H only read. While H fits the cache, it is the better one in any case.
    if H.nbytes > CACHED_BYTES and 2 * len(P) < len(H):
        add_transposed_products(A.by_row, H, P)
    else:
        add_products(A.by_column, H, P)


def _ahead(panel: Panel, X: np.ndarray) -> int:
    """Return how many non-zeros before its use a row of a panel is prefetched."""
    return max(MIN_AHEAD, AHEAD_BYTES // (panel.shape.columns * X.itemsize))


@vector_kernel
def _add_products(A: SparseRows, X: np.ndarray, out: np.ndarray, start: int, shape: RowShape, ahead: int) -> None:
    """Add A·X to the columns of ``out`` from ``start`` on: one row of sums after another, each in registers."""
    K = X.shape[1]
    final = len(A.indices) - 1
    for i in range(len(A.indptr) - 1):
        row = load_row(out, i * K + start, shape)
        for j in range(A.indptr[i], A.indptr[i + 1]):
            prefetch_row(X, np.int64(A.indices[min(j + ahead, final)]) * K + start, shape)
            row = add_multiple(row, A.data[j], X, np.int64(A.indices[j]) * K + start, shape)
        store_row(row, out, i * K + start, shape)


@vector_kernel
def _add_finished_products(
    A: SparseRows, X: np.ndarray, zeros: np.ndarray, out: np.ndarray, start: int, shape: RowShape, ahead: int
) -> None:
    """Add A·X to the columns of ``out`` from ``start`` on. ``zeros`` is a row of zeros."""
    K = X.shape[1]
    final = len(A.indices) - 1
    one = X.dtype.type(1)
    for i in range(len(A.indptr) - 1):
        if A.indptr[i] == A.indptr[i + 1]:
            continue
        row = load_row(zeros, start, shape)
        for j in range(A.indptr[i], A.indptr[i + 1]):
            prefetch_row(X, np.int64(A.indices[min(j + ahead, final)]) * K + start, shape)
            row = add_multiple(row, A.data[j], X, np.int64(A.indices[j]) * K + start, shape)
        add_multiple_to(out, i * K + start, shape, one, row)


@vector_kernel
def _add_transposed_products(
    A: SparseRows, X: np.ndarray, out: np.ndarray, start: int, shape: RowShape, ahead: int
) -> None:
    """Add Aᵀ·X to the columns of ``out`` from ``start`` on.

    A row of X stays in registers while its multiples are added to rows of ``out``.
    """
    K = X.shape[1]
    final = len(A.indices) - 1
    for i in range(len(A.indptr) - 1):
        row = load_row(X, i * K + start, shape)
        for j in range(A.indptr[i], A.indptr[i + 1]):
            prefetch_row(out, np.int64(A.indices[min(j + ahead, final)]) * K + start, shape)
            add_multiple_to(out, np.int64(A.indices[j]) * K + start, shape, A.data[j], row)


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
