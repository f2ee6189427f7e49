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
from ..memory import cached_copies
from ..warp import WARP, warp_sum

#: Blocks of a product, at most.
BLOCKS = 2048

#: The module CuPy or one of its arrays. CuPy is optional, and its types are unknown without it.
Cupy = Any


def has_cupy() -> bool:
    """Return whether CuPy, and with it cuSPARSE and cuBLAS, can be used."""
    return not config.ENABLE_CUDASIM and importlib.util.find_spec("cupy") is not None


@device_errors()
def run_cupy(compute: Callable[..., None], cause: str, *arrays: DeviceArray | np.ndarray) -> None:
    """Call ``compute(cupy, *arrays)``, which changes one of the device arrays. Raises DeviceError.

    CuPy's arrays share the memory of the device arrays. It runs on this thread's stream, and the host does not wait.
    """
    import cupy

    LEDGER.record(Operation.LAUNCH, f"cupy: {cause}")
    with cupy.cuda.ExternalStream(int(stream().handle)):
        compute(cupy, *(cupy.asarray(array) for array in arrays))


def add_sparse_product(A: SparseRows, X: DeviceArray, out: DeviceArray, cause: str) -> None:
    """Add A·X to ``out``, for sparse rows A on the host, and X and ``out`` on the device."""
    rows = cached_copies(A, "A")
    if has_cupy():
        from cupyx.scipy.sparse import csr_matrix

        def by_cusparse(_: Cupy, indptr: Cupy, indices: Cupy, data: Cupy, dense: Cupy, out: Cupy) -> None:
            out += csr_matrix((data, indices, indptr.astype("i4")), (out.shape[0], dense.shape[0])) @ dense

        run_cupy(by_cusparse, cause, *rows, X, out)
        return
    launch(_multiply_rows, min(BLOCKS, len(out)), WARP, rows, X, out)


@kernel
def _multiply_rows(rows: SparseRows, X: DeviceArray, out: DeviceArray) -> None:
    """Add A·X to ``out``. A block is one warp and takes row after row; a thread has every 32nd column."""
    indptr, indices, data = rows
    for i in range(cuda.blockIdx.x, len(out), cuda.gridDim.x):
        for k in range(cuda.threadIdx.x, out.shape[1], WARP):
            total = 0 * X[0, k]
            for j in range(indptr[i], indptr[i + 1]):
                total += data[j] * X[indices[j], k]
            out[i, k] += total


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
