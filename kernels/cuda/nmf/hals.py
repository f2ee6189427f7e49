"""FAST-HALS on a CUDA device: all components of a factor in one launch, one thread block per 4 to 32 rows.

Source: ALO-NMF (Moon et al., KDD 2020), section 4.2. The paper launches two kernels per component, because it
normalises each component over all rows, as benchmarks/papers/kernels/tiled_cuda.py does. Here, components are not
normalised during a sweep, so rows do not depend on each other, and a block sweeps its rows alone.

Shared memory holds two arrays (K, rows) of the block's rows: x, the values, and y = r − penalty − S·x, where r is the
row of A·W, of Aᵀ·H or of a given product. A row is a column of the arrays, and a thread has one row. A block has 32
rows, or fewer if K is too large for that.

1. The warps compute r, or read it.
2. The threads of a row compute y, each for some of the components: phase 1 of Algorithm 2 for all tiles at once.
3. Component after component moves to max(floor, keep·x + step·y). Its change is subtracted from y of the other
   components: phases 2 and 3.

A single row per thread means that no lane needs another lane's numbers. The arrays have one column more than rows, so
that threads of a warp use different banks, whether they are on one component or on one row.

The results differ from the CPU's by rounding, since sums have another order. Tests to 1e-5:
tests/kernels/cuda/nmf/test_hals.py. Reference implementation: tests/helpers/naive.py, `nmf_best_rows` and
`nmf_fast_hals`.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from ...nmf.hals import Scratch, UpdateRule
from ...nmf.products import SparseMatrix, SparseRows
from ...simd import tiles
from ..arrays import Compiled, DeviceArray
from ..jit import device, kernel
from ..launch import launch, shared_memory_limit
from ..memory import (
    allocate,
    cached_copies,
    cached_copy,
    download_during,
    on_device,
    readable,
    resident,
    upload_to_workspace,
    workspace,
    zeros,
)
from ..warp import WARP
from .products import add_dense_product, add_gram, add_sparse_product
from .sums import finish_factor

#: Threads per block.
THREADS = 256
#: Rows of a block, at least.
MIN_ROWS = 4


class DeviceRule(NamedTuple):
    """The arrays and numbers of an `UpdateRule`, as kernels of the device take them."""

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
) -> np.ndarray:
    """Sweep H (D, K) for a sparse A (D, V) and a fixed W (V, K), and return the new H. Add its AᵀH to P and HᵀH to Q.

    The update of W needs P (V, K) and Q (K, K) float64. Both stay on the device; `RESIDENTS.bring_back` copies them to
    the host. The device keeps copies of H and of the result for the next call, so neither array may be changed. Raises
    ValueError if K is too large for shared memory, and DeviceError.
    """
    if not len(H):
        return H
    swept = allocate(H.shape, H.dtype, "H")
    _sweep(cached_copies(A.by_row, "A"), readable(W, "W"), rule, cached_copy(H, "H"), swept, sweeps)

    def add_products() -> None:
        add_sparse_product(A.by_column, swept, resident(P, "P"), "P")
        add_gram(swept, resident(Q, "Q"), "Q")

    return download_during(swept, "H", add_products)


def sweep_dense(
    A: np.ndarray,
    W: np.ndarray,
    rule: UpdateRule,
    H: np.ndarray,
    P: np.ndarray,
    Q: np.ndarray,
    sweeps: int,
    scratch: Scratch,
) -> np.ndarray:
    """Update H (D, K) for a dense A (D, V), and return it. Otherwise like `sweep_sparse`."""
    if not len(H):
        return H
    rows = cached_copy(A, "A")
    products = zeros("products", H.shape, H.dtype)
    add_dense_product(rows, readable(W, "W"), products, "products")
    swept = allocate(H.shape, H.dtype, "H")
    _sweep(_no_rows(H.dtype), products, rule, cached_copy(H, "H"), swept, sweeps)

    def add_products() -> None:
        add_dense_product(rows, swept, resident(P, "P"), "P", transposed=True)
        add_gram(swept, resident(Q, "Q"), "Q")

    return download_during(swept, "H", add_products)


def sweep_products(
    R: np.ndarray, rule: UpdateRule, X: np.ndarray, sweeps: int, scratch: Scratch
) -> tuple[np.ndarray, np.ndarray, float]:
    """Update the rows of X (n, K), given their products R (n, K). Return X, XᵀX (K, K) float64, and ⟨R, X⟩.

    R may be on the device. The device keeps copies of X and of the result for the next call, so neither array may be
    changed. Raises ValueError if K is too large for shared memory, and DeviceError.
    """
    products = readable(R, "P")
    swept = allocate(X.shape, X.dtype, "W")
    _sweep(_no_rows(X.dtype), products, rule, cached_copy(X, "W"), swept, sweeps)
    return finish_factor(swept, products, "W")


def _no_rows(dtype: np.dtype[Any]) -> SparseRows:
    """Return the rows for a sweep that takes products instead: parts without elements of one small workspace."""
    nothing = workspace("no rows", 1, np.int64)
    on_host = np.zeros(0, np.int64)
    rows = SparseRows(on_host, on_host, on_host)
    return on_device(rows, indptr=nothing[:0], indices=nothing.view(np.int32)[:0], data=nothing.view(dtype)[:0])


def _sweep(rows: SparseRows, X: DeviceArray, rule: UpdateRule, old: DeviceArray, new: DeviceArray, sweeps: int) -> None:
    """Write the updated rows of ``old`` (n, K) to ``new``.

    The update needs the product of the data with the other factor. If there are ``rows`` of data, X is that factor.
    Otherwise X is the product.
    """
    n, K = new.shape
    block_rows = _rows_per_block(K, new.dtype.itemsize)
    shared = _shared_bytes(K, block_rows, new.dtype.itemsize)
    blocks = -(-n // block_rows)
    device_rule = _to_device_rule(rule, K)
    launch(_SWEEP_BLOCK[block_rows], blocks, THREADS, rows, X, device_rule, old, new, sweeps, shared=shared)


def _shared_bytes(K: int, block_rows: int, itemsize: int) -> int:
    return 2 * K * (block_rows + 1) * itemsize


def _rows_per_block(K: int, itemsize: int) -> int:
    """Return how many rows of a block fit into shared memory: a power of two up to 32. Raises ValueError for none."""
    limit = shared_memory_limit()
    block_rows = WARP
    while _shared_bytes(K, block_rows, itemsize) > limit:
        block_rows //= 2
        if block_rows < MIN_ROWS:
            needed = _shared_bytes(K, MIN_ROWS, itemsize)
            raise ValueError(
                f"{K:,} components take {needed:,} bytes of a block's shared memory, which has {limit:,}: choose "
                f"fewer, or device 'cpu'"
            )
    return block_rows


def _to_device_rule(rule: UpdateRule, K: int) -> DeviceRule:
    """Return the rule on the device, with S as a plain matrix: the CPU's S has four rows side by side."""
    padded = len(rule.keep)
    packed = rule.S.reshape(padded // tiles.ROWS, padded, tiles.ROWS)
    S = packed.transpose(0, 2, 1).reshape(padded, padded)[:K, :K]
    return DeviceRule(
        S=upload_to_workspace(np.ascontiguousarray(S), "S"),
        keep=upload_to_workspace(rule.keep, "keep"),
        step=upload_to_workspace(rule.step, "step"),
        penalty=rule.penalty,
        floor=rule.floor,
    )


@device
def _dot(S: DeviceArray, k: int, x: DeviceArray, columns: int, row: int) -> float:
    """Return row k of S (K, K) times a column of x (K, columns), which is one row of the factor.

    Here and below, indices in loops have no sign: Numba lets the others count from the end, and looks at each of them.
    """
    # A zero of the arrays' type. 0.0 or ``0 * S[0, 0]`` would make the sum of float32 a float64, which is slow.
    total = S.dtype.type(0)
    of_component = S[k]
    place = np.uint64(row)
    for j in range(len(S)):
        total += of_component[np.uint64(j)] * x[place]
        place += np.uint64(columns)
    return total


@device
def _store(new: DeviceArray, x: DeviceArray, first: int, n: int, columns: int) -> None:
    """Write the block's values. A warp has a row, and its lanes have components."""
    for d in range(cuda.threadIdx.x // WARP, n, cuda.blockDim.x // WARP):
        for k in range(cuda.threadIdx.x % WARP, new.shape[1], WARP):
            new[first + d, k] = x[k * columns + d]


def _make_sweep_block(block_rows: int) -> Compiled:
    """Return the kernel that sweeps ``block_rows`` rows in each block. ``old`` and ``new`` may be the same array."""

    @kernel
    def sweep_block(
        rows: SparseRows, X: DeviceArray, rule: DeviceRule, old: DeviceArray, new: DeviceArray, sweeps: int
    ) -> None:
        indptr, indices, data = rows
        S, keep, step, penalty, floor = rule
        K = new.shape[1]
        first = cuda.blockIdx.x * block_rows
        n = min(block_rows, len(new) - first)
        columns = block_rows + 1
        shared = cuda.shared.array(0, new.dtype)
        x = shared[: K * columns]
        y = shared[K * columns :]

        # 1. r − penalty. A warp has a row, and its lanes have components, so that neighbouring lanes read neighbouring
        # numbers of X and H.
        for d in range(cuda.threadIdx.x // WARP, block_rows, cuda.blockDim.x // WARP):
            for k in range(cuda.threadIdx.x % WARP, K, WARP):
                total = -penalty
                if d < n:
                    if len(indptr):
                        for i in range(indptr[first + d], indptr[first + d + 1]):
                            total += data[np.uint64(i)] * X[np.uint64(indices[np.uint64(i)]), np.uint64(k)]
                    else:
                        total += X[first + d, k]
                x[k * columns + d] = old[first + d, k] if d < n else 0
                y[k * columns + d] = total
        cuda.syncthreads()

        # 2. y = r − penalty − S·x. From here on a thread has a row, and the threads of a row share the components.
        row = cuda.threadIdx.x % block_rows
        team = cuda.threadIdx.x // block_rows
        teams = cuda.blockDim.x // block_rows
        for k in range(team, K, teams):
            y[k * columns + row] -= _dot(S, k, x, columns, row)

        # 3. All teams compute the new value of component k; each subtracts its change from y of its own components.
        for turn in range(sweeps):
            for k in range(K):
                cuda.syncthreads()
                before = x[k * columns + row]
                after = max(floor, keep[k] * before + step[k] * y[k * columns + row])
                change = after - before
                # In the last sweep, y of the components up to k is not used any more.
                first_used = k + 1 if turn + 1 == sweeps else 0
                for j in range(first_used + team, K, teams):
                    if j != k:
                        y[np.uint64(j * columns + row)] -= S[np.uint64(k), np.uint64(j)] * change
                # x[k] and y[k] may change only after all teams have read them.
                cuda.syncthreads()
                if team == 0:
                    x[k * columns + row] = after
                    y[k * columns + row] -= S[k, k] * change
        cuda.syncthreads()
        _store(new, x, first, n, columns)

    return sweep_block


#: Kernels by the rows of a block. A constant saves registers, which a division by a variable would take.
_SWEEP_BLOCK = {block_rows: _make_sweep_block(block_rows) for block_rows in (4, 8, 16, 32)}
