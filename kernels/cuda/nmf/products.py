"""Matrix products for NMF on a CUDA device: NVIDIA's libraries if CuPy is installed, otherwise plain kernels.

Tests as parts of the sweeps: tests/kernels/cuda/nmf/test_hals.py.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, float64

from ...chunk import as_int32
from ...nmf.products import SparseRows
from ..arrays import Compiled, DeviceArray
from ..jit import kernel
from ..launch import Launch, device_errors, hold, launch, stream
from ..ledger import LEDGER, Operation
from ..memory import cached_copies, derived
from ..warp import WARP, warp_sum

#: Blocks of a product, at most.
BLOCKS = 2048
#: Rows and columns of a block's square of a dense product.
TILE = 16
#: Numbers from row to row of such a square in shared memory. With one more than a row has, threads that read a column
#: use different banks.
STRIDE = TILE + 1

#: The module CuPy or one of its arrays. CuPy is optional, and its types are unknown without it.
Cupy = Any


def has_cupy() -> bool:
    """Return whether CuPy, and with it cuSPARSE and cuBLAS, can be used."""
    return importlib.util.find_spec("cupy") is not None


@device_errors()
def run_cupy(compute: Callable[..., None], cause: str, *arrays: DeviceArray | np.ndarray) -> None:
    """Call ``compute(cupy, *arrays)``, which changes one of the device arrays. Raises DeviceError.

    CuPy's arrays share the memory of the device arrays. It runs on this thread's stream, and the host does not wait.
    """
    import cupy

    LEDGER.record(Operation.LAUNCH, f"cupy: {cause}")
    with cupy.cuda.ExternalStream(int(stream().handle)):
        compute(cupy, *(cupy.asarray(_InStream(array)) for array in arrays))
    hold(Launch(compute, 0, 0, arrays, 0))


class _InStream:
    """A device array for CuPy. It names no stream: the host would wait for that stream, which is the one CuPy uses."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": None}


def add_sparse_product(A: SparseRows, X: DeviceArray, out: DeviceArray, cause: str) -> None:
    """Add A·X to ``out``, for sparse rows A on the host, and X and ``out`` on the device."""
    if has_cupy():
        from cupyx.scipy.sparse import csr_matrix

        # cuSPARSE's pointers have 32 bits.
        narrow = derived(A.indptr, "narrow", lambda: as_int32(A.indptr, "non-zeros of a chunk"))
        rows = cached_copies(A._replace(indptr=narrow), "A")

        def by_cusparse(_: Cupy, indptr: Cupy, indices: Cupy, data: Cupy, dense: Cupy, out: Cupy) -> None:
            matrix = csr_matrix((data, indices, indptr), (out.shape[0], dense.shape[0]))
            # Each row has a column once. CuPy would look, and the host would wait for the answer.
            matrix.has_canonical_format = True
            out += matrix @ dense

        run_cupy(by_cusparse, cause, *rows, X, out)
        return
    launch(_multiply_rows, min(BLOCKS, len(out)), WARP, cached_copies(A, "A"), X, out)


@kernel
def _multiply_rows(rows: SparseRows, X: DeviceArray, out: DeviceArray) -> None:
    """Add A·X to ``out``. A block is one warp and takes row after row; a thread has every 32nd column."""
    indptr, indices, data = rows
    for i in range(cuda.blockIdx.x, len(out), cuda.gridDim.x):
        for k in range(cuda.threadIdx.x, out.shape[1], WARP):
            total = X.dtype.type(0)  # float32 or float64
            for j in range(indptr[i], indptr[i + 1]):
                # Indices without a sign, as in hals.py.
                total += data[np.uint64(j)] * X[np.uint64(indices[np.uint64(j)]), np.uint64(k)]
            out[i, k] += total


def add_dense_product(A: DeviceArray, X: DeviceArray, out: DeviceArray, cause: str, transposed: bool = False) -> None:
    """Add A·X, or AᵀX if ``transposed``, to ``out``. All are dense and on the device."""
    if has_cupy():

        def by_cublas(_: Cupy, left: Cupy, dense: Cupy, out: Cupy) -> None:
            out += (left.T if transposed else left) @ dense

        run_cupy(by_cublas, cause, A, X, out)
        return
    n, K = out.shape
    function = _multiply_dense_transposed if transposed else _multiply_dense
    launch(function, -(-n // TILE) * -(-K // TILE), TILE * TILE, A, X, out)


def _make_multiply_dense(transposed: bool) -> Compiled:
    """Return the kernel that adds A·X or AᵀX to ``out``. A block has a square of ``out``, and a thread one number."""

    @kernel
    def multiply_dense(A: DeviceArray, X: DeviceArray, out: DeviceArray) -> None:
        n, K = out.shape
        depth = len(X)
        squares = (K + TILE - 1) // TILE  # in a row
        first = cuda.blockIdx.x // squares * TILE
        column = cuda.blockIdx.x % squares * TILE
        i = cuda.threadIdx.x // TILE
        k = cuda.threadIdx.x % TILE
        left = cuda.shared.array((TILE, STRIDE), out.dtype)
        right = cuda.shared.array((TILE, STRIDE), out.dtype)
        total = X.dtype.type(0)  # float32 or float64
        for start in range(0, depth, TILE):
            left[i, k] = 0
            right[i, k] = 0
            # A thread writes zeros and numbers to different places.
            cuda.syncthreads()
            # Neighbouring threads read neighbouring numbers of A in both cases.
            if transposed:
                if start + i < depth and first + k < n:
                    left[k, i] = A[start + i, first + k]
            elif first + i < n and start + k < depth:
                left[i, k] = A[first + i, start + k]
            if start + i < depth and column + k < K:
                right[i, k] = X[start + i, column + k]
            cuda.syncthreads()
            for d in range(TILE):
                total += left[i, d] * right[d, k]
            cuda.syncthreads()
        if first + i < n and column + k < K:
            out[first + i, column + k] += total

    return multiply_dense


_multiply_dense = _make_multiply_dense(False)
_multiply_dense_transposed = _make_multiply_dense(True)


def add_gram(X: DeviceArray, out: DeviceArray, cause: str) -> None:
    """Add XᵀX to ``out`` (K, K) float64, for X (n, K); both on the device."""
    if has_cupy():

        def by_cublas(cupy: Cupy, dense: Cupy, out: Cupy) -> None:
            wide = dense.astype(cupy.float64)
            out += wide.T @ wide

        run_cupy(by_cublas, cause, X, out)
        return
    K = X.shape[1]
    launch(_multiply_columns, min(BLOCKS, K * K), WARP, X, out)


@kernel
def _multiply_columns(X: DeviceArray, out: DeviceArray) -> None:
    """Add XᵀX to ``out``, summed in float64. A block is one warp and takes element after element of the result."""
    K = len(out)
    for element in range(cuda.blockIdx.x, K * K, cuda.gridDim.x):
        row = element // K
        column = element % K
        total = float64(0)
        for d in range(cuda.threadIdx.x, len(X), WARP):
            total += float64(X[d, row]) * float64(X[d, column])
        total = warp_sum(total)
        if cuda.threadIdx.x == 0:
            out[row, column] += total
