"""FAST-HALS over whole factors on a CUDA device, tile by tile: the three phases of ALO-NMF (KDD 2020), section 4.2.

Phases 1 and 3 are one matrix product per tile. Phase 2 takes two launches per component, since a component is
normalised over all rows:

1. `_values` (Algorithm 5) computes the new values and the sum of their squares: in each warp by shuffles, in each block
   through shared memory, over the blocks by atomic additions.
2. `_normalise` (Algorithm 6) scales the values, and subtracts the component's change from the tile's later components.

In both, a thread has one row. The factor is transposed, so that neighbouring threads read neighbouring numbers.

The results differ from the CPU's by rounding. Tested to 1e-5 in the simulator and on a device:
tests/kernels/cuda/nmf/test_hals.py. Reference implementation: tests/helpers/naive.py, `nmf_fast_hals`.
"""

from typing import NamedTuple

import numpy as np
from numba import cuda, float64

from ..arrays import DeviceArray
from ..jit import kernel
from ..launch import launch
from ..memory import allocate, download, upload
from ..warp import WARP, warp_sum
from .products import Cupy, has_cupy, run_cupy

#: Threads per block.
THREADS = 256


class Factor(NamedTuple):
    """A factor and what its sweep needs, on the device."""

    X: DeviceArray  # (K, V): the factor, transposed
    P: DeviceArray  # (K, V): its product with the data, transposed
    Q: DeviceArray  # (K, K): the other factor's product with itself
    keep: DeviceArray  # (K,): the weight of a component's old value


def update(X: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, normalise: bool) -> None:
    """Update X (V, K) in place, T columns at a time, as the CPU function of this name does. Raises DeviceError."""
    floor = X.dtype.type(np.finfo(X.dtype).eps)
    blocks = -(-len(X) // THREADS)
    keep = np.diag(Q) if normalise else np.ones_like(Q[0])
    factor = Factor(
        X=upload(np.ascontiguousarray(X.T), "X"),
        P=upload(np.ascontiguousarray(P.T), "P"),
        Q=upload(Q, "Q"),
        keep=upload(keep, "keep"),
    )
    squares = upload(np.zeros(X.shape[1]), "squares")
    for first in range(0, X.shape[1], T):
        last = min(first + T, X.shape[1])
        G = _tile_product(factor, first, last)
        for t in range(first, last):
            square = squares[t : t + 1]
            launch(_values, blocks, THREADS, G, t - first, floor, square)
            launch(_normalise, blocks, THREADS, factor.X, G, factor.Q, (first, last, t), square, normalise)
    X[:] = download(factor.X, "X").T


def _tile_product(factor: Factor, first: int, last: int) -> DeviceArray:
    """Return keep·X + P − Q·X of a tile's components, (T, V). X is new before the tile, and old from the tile on."""
    G = allocate((last - first, factor.X.shape[1]), factor.P.dtype, "G")
    if has_cupy():

        def by_cublas(_: Cupy, X: Cupy, P: Cupy, Q: Cupy, keep: Cupy, G: Cupy) -> None:
            G[:] = keep[first:last, None] * X[first:last] + P[first:last] - Q[first:last] @ X

        run_cupy(by_cublas, "G", *factor, G)
        return G
    launch(_multiply, -(-factor.X.shape[1] // THREADS), THREADS, *factor, first, G)
    return G


@kernel
def _multiply(X: DeviceArray, P: DeviceArray, Q: DeviceArray, keep: DeviceArray, first: int, G: DeviceArray) -> None:
    i = cuda.grid(1)
    if i < X.shape[1]:
        for t in range(len(G)):
            total = keep[first + t] * X[first + t, i] + P[first + t, i]
            for k in range(len(X)):
                total -= Q[first + t, k] * X[k, i]
            G[t, i] = total


@kernel
def _values(G: DeviceArray, t: int, floor: DeviceArray, square: DeviceArray) -> None:
    """Raise the values of component t to at least ``floor``, and add their squares to ``square[0]``."""
    lane = cuda.threadIdx.x % WARP
    warp = cuda.threadIdx.x // WARP
    sums = cuda.shared.array(WARP, float64)  # of each warp of the block
    i = cuda.grid(1)
    own = float64(0)
    if i < G.shape[1]:
        value = max(floor, G[t, i])
        G[t, i] = value
        own = float64(value) * float64(value)
    own = warp_sum(own)
    if lane == 0:
        sums[warp] = own
    cuda.syncthreads()
    if warp == 0:
        own = warp_sum(sums[lane] if lane < cuda.blockDim.x // WARP else float64(0))
        if lane == 0:
            cuda.atomic.add(square, 0, own)


@kernel
def _normalise(
    X: DeviceArray, G: DeviceArray, Q: DeviceArray, places: tuple[int, int, int], square: DeviceArray, normalise: bool
) -> None:
    """Scale component t, and subtract its change from the products of the tile's later components."""
    first, last, t = places
    i = cuda.grid(1)
    if i < X.shape[1]:
        value = G[t - first, i] / (square[0] ** 0.5 if normalise else 1.0)
        change = value - X[t, i]
        X[t, i] = value
        for j in range(t + 1, last):
            G[j - first, i] -= Q[t, j] * change
