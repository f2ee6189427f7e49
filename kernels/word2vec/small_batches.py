"""Repulsion of a small batch of rows of W_in from negatives that they share, for cells.py.

For B rows V of W_in and n negatives U of W_out, as in batches.py:

    G = −strength σ(V Uᵀ),    W_in[rows] += G U,    W_out[negatives] += Gᵀ V

A batch of cells.py has few rows, so a transpose of U, as in batches.py, would cost as much as the products. Here a tile
of products is the sums of TILE_ROWS rows times four negatives along their dimensions. A tree of additions then reduces
all vectors of the tile to one.

The rows that the next batch needs come from the cache that all cores share, or from memory. While the processor
multiplies, its memory unit is idle. So the rows of the next batch are prefetched between the tiles.

Layout: V is copied into panels (D / STRIP, rows, STRIP), because W_in changes before W_out does. Lists of rows are
padded to whole tiles: the padding is some row, and its gradients are zero.

Reference implementation: tests/helpers/naive_cells.py, `train_cell`.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel
from ..simd.tiles import zeros
from .batches import STRIPS
from .row_tiles import TILE_ROWS, add_products_of_tile, store_sums_of_tile
from .strips import (
    FLOATS_PER_LINE,
    STRIP,
    WIDTH,
    add_strips_to_rows,
    load_strip,
    multiply_add_strips,
    repulsions,
    store_strip,
)
from .updates import prefetch_row

#: Negatives of a tile of products.
TILE_NEGATIVES = 4
#: Rows that are prefetched after a tile.
ROWS_AHEAD = 2


class SmallBatch(NamedTuple):
    """A batch of up to R runs with N negatives; see `empty_small_batch`."""

    rows: np.ndarray  # (R + padding,) uint32: rows of W_in, one for each run
    ends: np.ndarray  # (R + 1,) int64: run b has the pairs ends[b]:ends[b + 1]
    centres: np.ndarray  # (R * pairs of a run + N + 4,) uint32: rows of W_in, one for each pair
    contexts: np.ndarray  # (R * pairs of a run + N + 4,) uint32: rows of W_out, and then the negatives
    negatives: np.ndarray  # (N + padding,) uint32: rows of W_out
    places: np.ndarray  # (N,) uint64: of the negatives in their table


class Workspace(NamedTuple):
    """Buffers for the products of one batch; see `empty_workspace`."""

    V: np.ndarray  # (D / STRIP, R + padding, STRIP) float32: the rows of W_in, strip by strip
    G: np.ndarray  # (R + padding, N + padding) float32: gradients
    strengths: np.ndarray  # (R,) float32: learning rate times weight of each row's repulsion


@kernel
def empty_small_batch(runs: int, pairs: int, negatives: int) -> SmallBatch:
    """Return buffers (any,) uint32 and int64 for a number of runs, of pairs of all runs, and of negatives."""
    return SmallBatch(
        np.zeros(_padded(runs), np.uint32),
        np.zeros(runs + 1, np.int64),
        np.zeros(pairs + negatives + 4, np.uint32),
        np.zeros(pairs + negatives + 4, np.uint32),
        np.zeros(_padded(negatives), np.uint32),
        np.zeros(negatives, np.uint64),
    )


@kernel
def empty_workspace(runs: int, negatives: int, D: int) -> Workspace:
    """Return buffers for a number of runs and of negatives, each (D,) float32."""
    N = -(-_padded(negatives) // FLOATS_PER_LINE) * FLOATS_PER_LINE
    return Workspace(
        _aligned_zeros(D * _padded(runs)).reshape(D // STRIP, _padded(runs), STRIP),
        _aligned_zeros(_padded(runs) * N).reshape(_padded(runs), N),
        np.zeros(runs, np.float32),
    )


@kernel
def _aligned_zeros(n: int) -> np.ndarray:
    """Return zeros (n,) float32 that begin with a cache line. A vector that lies in two lines takes twice as long."""
    zeros = np.zeros(n + FLOATS_PER_LINE, np.float32)
    first = -(zeros.ctypes.data // 4) % FLOATS_PER_LINE
    return zeros[first : first + n]


@kernel(inline="always")
def _padded(n: int) -> int:
    """Return the length of a list of n rows with its padding."""
    return n + max(TILE_ROWS, STRIPS)


@kernel(inline="always")
def _prefetch_some(first: int, last: int, rows: np.ndarray, W: np.ndarray) -> int:
    """Prefetch up to ROWS_AHEAD of the rows first to last of a list, and return the next one."""
    end = min(first + ROWS_AHEAD, last)
    for r in range(first, end):
        prefetch_row(W, rows[r])
    return end


@kernel(_nrt=False)
def repel_small(
    B: int,
    n: int,
    batch: SmallBatch,
    space: Workspace,
    upcoming: np.ndarray,
    W_in: np.ndarray,
    W_out: np.ndarray,
) -> None:
    """Train the B runs of a batch with its n negatives, label 0; a row listed twice moves by both steps.

    Meanwhile the ``upcoming`` rows of W_out (any,) uint32 are prefetched. W_in and W_out are (any, D) float32.
    """
    V, G = space.V, space.G
    D = W_in.shape[1]
    R = V.shape[1]
    N = G.shape[1]
    ahead = 0
    for b in range(B, len(batch.rows)):
        batch.rows[b] = batch.rows[0]
    for b in range(B):
        for d in range(0, D, STRIP):
            store_strip(load_strip(W_in, np.int64(batch.rows[b]) * D + d), V, d * R + b * STRIP)
    for b in range(0, B, TILE_ROWS):
        for o in range(0, n, TILE_NEGATIVES):
            tile = zeros(G, TILE_ROWS)
            for d in range(0, D, WIDTH):
                tile = add_products_of_tile(tile, W_in, batch.rows, b, W_out, batch.negatives, o, D, d)
            store_sums_of_tile(tile, G, b * N + o, N)
            ahead = _prefetch_some(ahead, len(upcoming), upcoming, W_out)
    for b in range(B):
        for o in range(0, n, WIDTH):
            repulsions(G, b * N + o, space.strengths[b])
    G[B:] = 0
    for o in range(n, -(-n // STRIPS) * STRIPS):
        batch.negatives[o] = batch.negatives[0]
        G[:B, o] = 0
    for d in range(0, D, STRIP):
        # The rows of W_in come first, because they need the old rows of W_out, of which there is no copy.
        for b in range(0, B, STRIPS):
            tile = zeros(G, STRIPS)
            for o in range(n):
                tile = multiply_add_strips(tile, G, b * N + o, N, W_out, np.int64(batch.negatives[o]) * D + d)
            add_strips_to_rows(tile, W_in, batch.rows, b, D, d)
            ahead = _prefetch_some(ahead, len(upcoming), upcoming, W_out)
        for o in range(0, n, STRIPS):
            tile = zeros(G, STRIPS)
            for b in range(B):
                tile = multiply_add_strips(tile, G, b * N + o, 1, V, d * R + b * STRIP)
            add_strips_to_rows(tile, W_out, batch.negatives, o, D, d)
            ahead = _prefetch_some(ahead, len(upcoming), upcoming, W_out)
