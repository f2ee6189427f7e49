"""FAST-HALS on a CUDA device: all components of a factor in one launch, one thread block per 32 rows.

Source: ALO-NMF (Moon et al., KDD 2020), section 4.2. The paper launches two kernels per component, because it
normalises each component over all rows; that form is in `tiled.py`. Here components are not normalised during a sweep,
so rows do not depend on each other, and a block sweeps its rows alone.

Shared memory holds two arrays (K, 32) of the block's rows: x, the values, and y = r − penalty − S·x, where r is the
row of A·W, of Aᵀ·H or of a given product. A row is a column of the arrays, and a warp's lane has one row.

1. The warps compute r, or read it.
2. The warps compute y, each for some of the components: phase 1 of Algorithm 2 for all tiles at once.
3. Component after component moves to max(floor, keep·x + step·y). Its change is subtracted from y of the other
   components: phases 2 and 3.

A single row per lane means that no lane needs another lane's numbers. The arrays have 33 columns, so that threads of a
warp use different banks, whether they are on one component or on one row.

The results differ from the CPU's by rounding, since sums have another order. Tested to 1e-5 in the simulator and on a
device: tests/kernels/cuda/nmf/test_hals.py. Reference implementation: tests/helpers/naive.py, `nmf_best_rows` and
`nmf_fast_hals`.
"""

from typing import NamedTuple

import numpy as np
from numba import cuda

from ...nmf.hals import Scratch, UpdateRule
from ...nmf.products import SparseMatrix, SparseRows
from ...simd import tiles
from ..arrays import DeviceArray
from ..jit import kernel
from ..launch import launch, shared_memory_limit
from ..memory import cached_copies, cached_copy, download, upload
from ..warp import WARP
from .products import sparse_product, upper_gram

#: Threads per block.
THREADS = 256
#: Columns of the arrays in shared memory: 32 rows and one column that is not used.
COLUMNS = WARP + 1


class DeviceRule(NamedTuple):
    """An `UpdateRule` on the device."""

    S: DeviceArray  # (K, K)
    keep: DeviceArray  # (K,)
    step: DeviceArray  # (K,)
    penalty: float
    floor: float


def sweep_sparse(
    A: SparseMatrix,
    W: np.ndarray,
    rule: UpdateRule,
    H: np.ndarray,
    P: np.ndarray,
    Q: np.ndarray,
    sweeps: int,
    scratch: Scratch,
) -> None:
    """Update the rows of H (D, K), given a sparse A and W (V, K), and add what the update of W needs to P and Q.

    P (V, K) receives AᵀH, and Q (K, K) float64 the upper triangle of HᵀH, with the new H. As on the CPU, all three
    change in place. Raises ValueError if K is too large for shared memory, and DeviceError.
    """
    if not len(H):
        return
    swept = _sweep(cached_copies(A.by_row, "A"), cached_copy(W, "W"), rule, H, sweeps)
    P += sparse_product(A.by_column, swept, P.shape, "P")
    Q += upper_gram(swept, "Q")
    H[:] = download(swept, "H")


def sweep_rows(R: np.ndarray, rule: UpdateRule, H: np.ndarray, Q: np.ndarray, sweeps: int, scratch: Scratch) -> float:
    """Update the rows of H (D, K) in place, given the products R = A·W (D, K).

    Q (K, K) float64 receives the upper triangle of HᵀH. Returns the sum of R · H over all entries, with the new H.
    Raises ValueError if K is too large for shared memory, and DeviceError.
    """
    if not len(H):
        return 0.0
    no_rows = SparseRows(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, R.dtype))
    swept = _sweep(cached_copies(no_rows, "no rows"), cached_copy(R, "R"), rule, H, sweeps)
    Q += upper_gram(swept, "Q")
    H[:] = download(swept, "H")
    return float(np.einsum("dk,dk->", R, H, dtype=np.float64))


def _sweep(rows: SparseRows, X: DeviceArray, rule: UpdateRule, H: np.ndarray, sweeps: int) -> DeviceArray:
    """Return the updated H on the device. Its products are those of the rows with X or, without rows, X itself."""
    K = H.shape[1]
    shared = 2 * K * COLUMNS * H.itemsize
    if shared > shared_memory_limit():
        raise ValueError(
            f"{K:,} components take {shared:,} bytes of a block's shared memory, which has "
            f"{shared_memory_limit():,}: choose fewer, or device 'cpu'"
        )
    swept = upload(H, "H")
    blocks = -(-len(H) // WARP)
    launch(_sweep_block, blocks, THREADS, rows, X, _to_device_rule(rule, K), swept, sweeps, shared=shared)
    return swept


def _to_device_rule(rule: UpdateRule, K: int) -> DeviceRule:
    """Return the rule on the device, with S as a plain matrix: the CPU's S has four rows side by side."""
    padded = len(rule.keep)
    packed = rule.S.reshape(padded // tiles.ROWS, padded, tiles.ROWS)
    S = packed.transpose(0, 2, 1).reshape(padded, padded)[:K, :K]
    return DeviceRule(
        S=upload(np.ascontiguousarray(S), "S"),
        keep=upload(rule.keep, "keep"),
        step=upload(rule.step, "step"),
        penalty=rule.penalty,
        floor=rule.floor,
    )


@kernel
def _sweep_block(rows: SparseRows, X: DeviceArray, rule: DeviceRule, H: DeviceArray, sweeps: int) -> None:
    """Sweep 32 rows in each block."""
    indptr, indices, data = rows
    S, keep, step, penalty, floor = rule
    K = H.shape[1]
    first = cuda.blockIdx.x * WARP
    lane = cuda.threadIdx.x % WARP
    warp = cuda.threadIdx.x // WARP
    warps = cuda.blockDim.x // WARP
    n = min(WARP, len(H) - first)
    shared = cuda.shared.array(0, H.dtype)
    x = shared[: K * COLUMNS]
    y = shared[K * COLUMNS :]

    # 1. r − penalty. A warp has a row, and its lanes have components, so that neighbouring lanes read neighbouring
    # numbers of X and H.
    for d in range(warp, WARP, warps):
        for k in range(lane, K, WARP):
            total = -penalty
            if d < n:
                if len(indptr):
                    for i in range(indptr[first + d], indptr[first + d + 1]):
                        total += data[i] * X[indices[i], k]
                else:
                    total += X[first + d, k]
            x[k * COLUMNS + d] = H[first + d, k] if d < n else 0
            y[k * COLUMNS + d] = total
    cuda.syncthreads()

    # 2. y = r − penalty − S·x. From here on a lane has a row, and a warp has components.
    for k in range(warp, K, warps):
        total = y[k * COLUMNS + lane]
        for j in range(K):
            total -= S[k, j] * x[j * COLUMNS + lane]
        y[k * COLUMNS + lane] = total

    # 3. All warps compute the new value of component k; each subtracts its change from y of its own components.
    for turn in range(sweeps):
        for k in range(K):
            cuda.syncthreads()
            old = x[k * COLUMNS + lane]
            new = max(floor, keep[k] * old + step[k] * y[k * COLUMNS + lane])
            # In the last sweep, y of the components up to k is not used any more.
            first_used = k + 1 if turn + 1 == sweeps else 0
            for j in range(first_used + warp, K, warps):
                if j != k:
                    y[j * COLUMNS + lane] -= S[k, j] * (new - old)
            # x[k] and y[k] may change only after all warps have read them.
            cuda.syncthreads()
            if warp == 0:
                x[k * COLUMNS + lane] = new
                y[k * COLUMNS + lane] -= S[k, k] * (new - old)
    cuda.syncthreads()
    for d in range(warp, n, warps):
        for k in range(lane, K, WARP):
            H[first + d, k] = x[k * COLUMNS + d]
