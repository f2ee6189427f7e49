"""FAST-HALS over whole factors on a CUDA device, tile by tile: the three phases of ALO-NMF (KDD 2020), section 4.2.

Phases 1 and 3 are one matrix product per tile. Phase 2 (`_sweep_tile`) is one launch per tile. For one component after
another, it does what the papers do in two launches:

1. Algorithm 5 computes the new values and the sum of their squares: in each warp by shuffles, in each block through
   shared memory, and then each block writes its part.
2. Algorithm 6 scales the values. Then the component's change is subtracted from the tile's later components, in place
   of the sums of Algorithm 5, lines 6 to 10.

A component is normalised over all rows. So between the two steps, all blocks wait for each other (`_wait_for_grid`),
and each of them adds up all parts, in the same order in every run. That takes a few microseconds, and a launch ten
times as long. A thread has the same rows in all steps, so it needs nothing else of other threads. The factor is
transposed, so that neighbouring threads read neighbouring numbers.

The results differ from the CPU's by rounding. Tests to 1e-5:
tests/benchmarks/papers/test_tiled_cuda.py. Reference implementation: tests/helpers/naive.py, `nmf_fast_hals`.
"""

import math
from typing import NamedTuple

import numpy as np
from corpusmill.kernels.cuda.arrays import DeviceArray
from corpusmill.kernels.cuda.jit import device, kernel
from corpusmill.kernels.cuda.launch import launch, multiprocessors
from corpusmill.kernels.cuda.memory import allocate, cached_copy, readable, upload, workspace, zeros
from corpusmill.kernels.cuda.nmf.products import Cupy, has_cupy, run_cupy
from corpusmill.kernels.cuda.nmf.sums import finish_factor
from corpusmill.kernels.cuda.warp import WARP, block_sum, warp_sum
from corpusmill.kernels.cuda.word2vec.cells import active_blocks
from numba import cuda, float64

#: Threads per block.
THREADS = 256


class Factor(NamedTuple):
    """A factor and what its sweep needs, on the device."""

    X: DeviceArray  # (K, V): the factor, transposed
    P: DeviceArray  # (K, V): its product with the data, transposed
    Q: DeviceArray  # (K, K): the other factor's product with itself
    keep: DeviceArray  # (K,): the weight of a component's old value


def sweep_columns(
    X: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, sweeps: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Sweep X (V, K) in tiles of T columns, as the CPU function of this name does. Return X, XᵀX and ⟨P, X⟩.

    P may be on the device. The device keeps copies of X and of the result for the next call, so neither array may be
    changed. Raises DeviceError.
    """
    floor = X.dtype.type(np.finfo(X.dtype).eps)
    # All blocks of a sweep must be active at the same time, because they wait for each other. With one for two
    # multiprocessors, two host threads may sweep at a time, and others wait.
    blocks = min(max(1, multiprocessors() // 2), -(-len(X) // THREADS))
    with active_blocks(blocks, multiprocessors()):
        return _sweep(X, P, Q, T, sweeps, floor, blocks)


def _sweep(
    X: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, sweeps: int, floor: np.floating, blocks: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Do what `sweep_columns` does with a number of blocks. When this returns, all of them have ended."""
    products = readable(P, "P")
    factor = Factor(
        X=_transposed("X", cached_copy(X, "W")),
        P=_transposed("transposed P", products),
        Q=upload(Q, "Q"),
        keep=upload(np.diag(Q), "keep"),
    )
    for _ in range(sweeps):
        squares = workspace("squares", (X.shape[1], blocks), np.float64)
        arrived = zeros("arrived", 1, np.int32)
        for first in range(0, X.shape[1], T):
            tile = first, min(first + T, X.shape[1])
            G = _tile_product(factor, *tile)
            launch(_sweep_tile, blocks, THREADS, factor.X, G, factor.Q, tile, floor, squares, arrived)
    swept = allocate(X.shape, X.dtype, "W")
    launch(_transpose, X.shape[1], THREADS, factor.X, swept)
    return finish_factor(swept, products, "W")


def _transposed(name: str, array: DeviceArray) -> DeviceArray:
    """Return the transpose of a device array, in the workspace ``name``, whose memory later calls use again."""
    out = workspace(name, array.shape[::-1], array.dtype)
    launch(_transpose, len(array), THREADS, array, out)
    return out


@kernel
def _transpose(source: DeviceArray, out: DeviceArray) -> None:
    """Write each row of ``source`` to a column of ``out``, one in each block."""
    for k in range(cuda.threadIdx.x, source.shape[1], cuda.blockDim.x):
        out[k, cuda.blockIdx.x] = source[cuda.blockIdx.x, k]


def _tile_product(factor: Factor, first: int, last: int) -> DeviceArray:
    """Return keep·X + P − Q·X of a tile's components, (T, V). X is new before the tile, and old from the tile on."""
    G = workspace("G", (last - first, factor.X.shape[1]), factor.P.dtype)
    if has_cupy():

        def by_cublas(_: Cupy, X: Cupy, P: Cupy, Q: Cupy, keep: Cupy, G: Cupy) -> None:
            G[:] = keep[first:last, None] * X[first:last] + P[first:last] - Q[first:last] @ X

        run_cupy(by_cublas, "G", *factor, G)
        return G
    launch(_multiply, -(-factor.X.shape[1] // THREADS), THREADS, *factor, first, G)
    return G


@kernel
def _multiply(X: DeviceArray, P: DeviceArray, Q: DeviceArray, keep: DeviceArray, first: int, G: DeviceArray) -> None:
    """Set G (T, V) to what `_tile_product` returns, without CuPy. A thread has one row of the factor, a column of G."""
    i = cuda.grid(1)
    if i < X.shape[1]:
        for t in range(len(G)):
            total = keep[first + t] * X[first + t, i] + P[first + t, i]
            for k in range(len(X)):
                total -= Q[first + t, k] * X[k, i]
            G[t, i] = total


@kernel
def _sweep_tile(
    X: DeviceArray,
    G: DeviceArray,
    Q: DeviceArray,
    tile: tuple[int, int],
    floor: DeviceArray,
    squares: DeviceArray,
    arrived: DeviceArray,
) -> None:
    """Update the components ``tile[0] <= t < tile[1]`` of X (K, V) one after another; see the top of this file.

    ``squares`` (K, blocks) float64 is scratch, and ``arrived`` (1,) int32 is zero before the first tile.
    """
    first, last = tile
    n_rows = X.shape[1]
    for t in range(first, last):
        own = float64(0)
        for i in range(cuda.grid(1), n_rows, cuda.gridsize(1)):
            value = max(floor, G[t - first, i])
            G[t - first, i] = value
            own += float64(value) * float64(value)
        own = block_sum(own)
        if cuda.threadIdx.x == 0:
            squares[t, cuda.blockIdx.x] = own
        _wait_for_grid(t, arrived)
        length = math.sqrt(_sum_of_parts(squares, t))
        for i in range(cuda.grid(1), n_rows, cuda.gridsize(1)):
            value = G[t - first, i] / length
            change = value - X[t, i]
            X[t, i] = value
            for j in range(t + 1, last):
                G[j - first, i] -= Q[t, j] * change


@device
def _wait_for_grid(t: int, arrived: DeviceArray) -> None:
    """Wait until all blocks have written what they have of component t. All threads call this.

    The first thread has written the block's part, so it is also the one that counts the block as arrived. The fences
    let the block see what others have written before they arrived.

    ``arrived`` counts on from component to component and is never set back. A block that sets it back could do so
    before another one has seen that all had arrived. All components have this barrier, so component t is complete when
    t + 1 times as many arrivals as blocks are counted.
    """
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        cuda.atomic.add(arrived, 0, 1)
        everybody = (t + 1) * cuda.gridDim.x
        while cuda.atomic.add(arrived, 0, 0) < everybody:
            pass
        cuda.threadfence()
    cuda.syncthreads()


@device
def _sum_of_parts(squares: DeviceArray, t: int) -> float:
    """Return the sum of ``squares[t]``, (blocks,). Each warp adds up all numbers, in the same order."""
    total = float64(0)
    for part in range(cuda.threadIdx.x % WARP, cuda.gridDim.x, WARP):
        total += squares[t, part]
    return warp_sum(total)
