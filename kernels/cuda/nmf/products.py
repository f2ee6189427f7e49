"""Matrix products for NMF on a CUDA device: NVIDIA's libraries if CuPy is installed, otherwise plain kernels.

Tested in the simulator and on a device, as parts of the sweeps: tests/kernels/cuda/nmf/test_hals.py.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config, cuda, float64

from ...nmf.products import SparseRows
from ..arrays import DeviceArray
from ..jit import kernel
from ..launch import device_errors, launch, stream
from ..ledger import LEDGER, Operation
from ..memory import allocate, cached_copies, download
from ..warp import WARP, warp_sum

#: Blocks of a product, at most.
BLOCKS = 2048

#: The module CuPy or one of its arrays. CuPy is optional, and its types are unknown without it.
Cupy = Any


def has_cupy() -> bool:
    """Return whether CuPy, and with it cuSPARSE and cuBLAS, can be used."""
    return not config.ENABLE_CUDASIM and importlib.util.find_spec("cupy") is not None


@device_errors()
def multiply(compute: Callable[..., Cupy], cause: str, *arrays: DeviceArray | np.ndarray) -> np.ndarray:
    """Return ``compute(cupy, *arrays)`` of device arrays as an array of the host. Raises DeviceError.

    It runs on this thread's stream. The host waits for the result.
    """
    import cupy

    LEDGER.record(Operation.LAUNCH, f"cupy: {cause}")
    with cupy.cuda.ExternalStream(int(stream().handle)):
        product = compute(cupy, *(cupy.asarray(array) for array in arrays))
        LEDGER.record(Operation.DOWNLOAD, cause, product.nbytes)
        LEDGER.record(Operation.WAIT, cause)
        host: np.ndarray = cupy.asnumpy(product)
        return host


def sparse_product(A: SparseRows, X: DeviceArray, shape: tuple[int, int], cause: str) -> np.ndarray:
    """Return A·X, of this shape and X's type, for sparse rows A on the host and X on the device."""
    rows = cached_copies(A, "A")
    if has_cupy():
        from cupyx.scipy.sparse import csr_matrix

        def by_cusparse(_: Cupy, indptr: Cupy, indices: Cupy, data: Cupy, dense: Cupy) -> Cupy:
            return csr_matrix((data, indices, indptr.astype("i4")), (shape[0], X.shape[0])) @ dense

        return multiply(by_cusparse, cause, *rows, X)
    out = allocate(shape, X.dtype, cause)
    launch(_multiply_rows, min(BLOCKS, shape[0]), WARP, rows, X, out)
    return download(out, cause)


@kernel
def _multiply_rows(rows: SparseRows, X: DeviceArray, out: DeviceArray) -> None:
    """Compute A·X. A block is one warp and takes row after row; a thread has every 32nd column."""
    indptr, indices, data = rows
    for i in range(cuda.blockIdx.x, len(out), cuda.gridDim.x):
        for k in range(cuda.threadIdx.x, out.shape[1], WARP):
            total = 0 * X[0, k]
            for j in range(indptr[i], indptr[i + 1]):
                total += data[j] * X[indices[j], k]
            out[i, k] = total


def upper_gram(X: DeviceArray, cause: str) -> np.ndarray:
    """Return the upper triangle of XᵀX, (K, K) float64, for X (n, K) on the device."""
    if has_cupy():

        def by_cublas(cupy: Cupy, dense: Cupy) -> Cupy:
            wide = dense.astype(cupy.float64)
            return wide.T @ wide

        return np.triu(multiply(by_cublas, cause, X))
    K = X.shape[1]
    out = allocate((K, K), np.float64, cause)
    launch(_multiply_columns, min(BLOCKS, K * K), WARP, X, out)
    return np.triu(download(out, cause))


@kernel
def _multiply_columns(X: DeviceArray, out: DeviceArray) -> None:
    """Compute XᵀX in float64. A block is one warp and takes element after element of the result."""
    K = len(out)
    for element in range(cuda.blockIdx.x, K * K, cuda.gridDim.x):
        row = element // K
        column = element % K
        total = float64(0)
        for d in range(cuda.threadIdx.x, len(X), WARP):
            total += float64(X[d, row]) * float64(X[d, column])
        total = warp_sum(total)
        if cuda.threadIdx.x == 0:
            out[row, column] = total
