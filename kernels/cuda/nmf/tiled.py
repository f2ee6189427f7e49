"""FAST-HALS over whole factors on a CUDA device: ALO-NMF, section 4.2, in its three phases.

Phases 1 and 3 are one matrix product a tile, cuBLAS's where CuPy is. Phase 2 takes two launches a component, since its
column is normalised over all rows: new values and the sum of their squares, by warp, by block and by atomics; then
their scale, and what their change leaves for the components behind them.
"""

import numpy as np
from numba import cuda, float64

from ..jit import kernel, launch
from ..memory import fetched, filled, new
from ..warp import WARP
from .hals import has_cupy, multiply, warp_sum

#: Threads a block.
THREADS = 256


def update(X: np.ndarray, P: np.ndarray, Q: np.ndarray, T: int, normalise: bool) -> None:
    """Sweep X (V, K) in place in tiles of T columns, as the CPU's function of this name; raise DeviceError."""
    keep = np.diag(Q) if normalise else np.ones_like(Q[0])
    floor, blocks = np.finfo(X.dtype).eps, -(-len(X) // THREADS)
    there = filled(np.ascontiguousarray(X.T)), filled(np.ascontiguousarray(P.T)), filled(Q), filled(keep)
    for first in range(0, X.shape[1], T):
        last = min(first + T, X.shape[1])
        g = _phase_1_and_3(there, first, last)
        for t in range(first, last):
            total = filled(np.zeros(1))
            launch(_values, blocks, THREADS, g, t - first, X.dtype.type(floor), total)
            launch(_phase_2, blocks, THREADS, there[0], g, there[2], (first, last, t), total, normalise)
    X[:] = fetched(there[0]).T


def _phase_1_and_3(there, first: int, last: int):
    """keep·X + P − Q·X of a tile's components, where X is new to the left and old from the tile on: (T, V)."""
    X, P, Q, keep = there
    if has_cupy():
        return filled(
            multiply(
                lambda cupy, X, P, Q, keep: keep[first:last, None] * X[first:last] + P[first:last] - Q[first:last] @ X,
                *there,
            )
        )
    g = new((last - first, X.shape[1]), P.dtype)
    launch(_multiply, -(-X.shape[1] // THREADS), THREADS, X, P, Q, keep, first, g)
    return g


@kernel
def _multiply(X, P, Q, keep, first, g):
    i = cuda.grid(1)
    if i < X.shape[1]:
        for t in range(len(g)):
            total = keep[first + t] * X[first + t, i] + P[first + t, i]
            for k in range(len(X)):
                total -= Q[first + t, k] * X[k, i]
            g[t, i] = total


@kernel
def _values(g, t, floor, total):
    """Cut a component's values off below, and sum their squares: in a warp, in the block, over blocks."""
    lane, warp = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
    parts = cuda.shared.array(WARP, float64)
    i, square = cuda.grid(1), float64(0)
    if i < g.shape[1]:
        value = max(floor, g[t, i])
        g[t, i] = value
        square = float64(value) * float64(value)
    square = warp_sum(square)
    if lane == 0:
        parts[warp] = square
    cuda.syncthreads()
    if warp == 0:
        square = warp_sum(parts[lane] if lane < cuda.blockDim.x // WARP else float64(0))
        if lane == 0:
            cuda.atomic.add(total, 0, square)


@kernel
def _phase_2(X, g, Q, places, total, normalise):
    """Scale a component, and subtract its change from the products of the tile's components behind it."""
    first, last, t = places
    i = cuda.grid(1)
    if i < X.shape[1]:
        value = g[t - first, i] / (total[0] ** 0.5 if normalise else 1.0)
        change = value - X[t, i]
        X[t, i] = value
        for j in range(t + 1, last):
            g[j - first, i] -= Q[t, j] * change
