"""Sums of products over chunks and shards on a CUDA device.

The products P and Q of a shard are NumPy arrays whose contents stay on the device: sweeps add to them, shards are added
there, and the update of W reads them there. They go through the host only if another worker needs them.

Tests: tests/kernels/cuda/nmf/test_sums.py and tests/kernels/cuda/test_traffic.py.
"""

import numpy as np
from numba import cuda, float64
from numpy.typing import DTypeLike

from ..arrays import DeviceArray
from ..jit import kernel
from ..launch import launch
from ..memory import (
    allocate,
    clear,
    download,
    download_during,
    leave_on_device,
    readable,
    zeros,
)
from ..residents import RESIDENTS
from ..warp import block_sum
from .products import add_gram

#: Threads per block.
THREADS = 256
#: Blocks of a sum, at most.
BLOCKS = 1024
#: Blocks that add up an inner product. Each of them writes one number.
PARTS = 256


def zero_sums(n_rows: int, gram_shape: tuple[int, ...], K: int, dtype: DTypeLike) -> tuple[np.ndarray, np.ndarray]:
    """Return zeros for the sums of a shard on the device: P (n_rows, K) of ``dtype`` and Q ``gram_shape`` float64."""
    P = allocate((n_rows, K), dtype, "P")
    Q = allocate(gram_shape, np.float64, "Q")
    for array in (P, Q):
        clear(array)
    return leave_on_device(P, "P"), leave_on_device(Q, "Q")


def add_sums(left: np.ndarray, right: np.ndarray, cause: str) -> np.ndarray:
    """Return the sum of two arrays of one shape: on the device if one of them is there. The bits are those of the CPU.

    Raises DeviceError.
    """
    if RESIDENTS.find(left) is None and RESIDENTS.find(right) is None:
        return left + right
    total = allocate(left.shape, left.dtype, cause)
    flat = [array.reshape(left.size) for array in (readable(left, cause), readable(right, cause), total)]
    launch(_add, min(BLOCKS, -(-left.size // THREADS)), THREADS, *flat)
    return leave_on_device(total, cause)


@kernel
def _add(left: DeviceArray, right: DeviceArray, total: DeviceArray) -> None:
    """Set ``total`` to the sum of two arrays, all (n,). Each number is one addition, so the bits are the CPU's."""
    for i in range(cuda.grid(1), len(total), cuda.gridsize(1)):
        total[i] = left[i] + right[i]


def finish_factor(swept: DeviceArray, products: DeviceArray, cause: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Download a factor X (n, K) after its sweep. Return X, XᵀX (K, K) float64, and ⟨products, X⟩."""
    K = swept.shape[1]
    found = zeros(f"{cause} sums", K * K + PARTS, np.float64)

    def add_up() -> None:
        add_gram(swept, found[: K * K].reshape((K, K)), cause)
        # Each block writes a number of its own, so that the sum does not depend on the order in which blocks end.
        flat = [array.reshape(swept.size) for array in (swept, products)]
        launch(_multiply_and_add, PARTS, THREADS, *flat, found[K * K :])

    X = download_during(swept, cause, add_up)
    host = download(found, f"{cause} sums")
    return X, host[: K * K].reshape(K, K), float(host[K * K :].sum())


@kernel
def _multiply_and_add(X: DeviceArray, Y: DeviceArray, parts: DeviceArray) -> None:
    """Set ``parts[i]`` to the part of ⟨X, Y⟩ that block i has."""
    total = float64(0)
    for i in range(cuda.grid(1), len(X), cuda.gridsize(1)):
        total += float64(X[i]) * float64(Y[i])
    total = block_sum(total)
    if cuda.threadIdx.x == 0:
        parts[cuda.blockIdx.x] = total
