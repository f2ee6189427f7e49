"""Repulsion of a batch of rows of W_in from negatives that they share, for par.py and cells.py.

For B rows V of W_in and n negatives U of W_out:

    G = −strength σ(V Uᵀ),    W_in[rows] += G U,    W_out[negatives] += Gᵀ V

with one strength per row of V. These are three small matrix products, in place of B n products of vectors.

A transpose of U would cost a fifth of the products. So a tile of products is the sums of TILE_ROWS rows times four
negatives along their dimensions. A tree of additions then reduces all vectors of the tile to one.

Rows that the next batch needs may come from the cache that all cores share, or from memory. While the processor
multiplies, its memory unit is idle. So these rows are prefetched between the tiles.

Layout: V is copied into panels (D / STRIP, rows, STRIP), because W_in changes before W_out does. Lists of rows are
padded to whole tiles: the padding is some row, and its gradients are zero.

Source: Moon's dissertation (2019), Algorithm 22.

Reference implementations: tests/helpers/naive.py, `word2vec_par`, and tests/helpers/naive_cells.py, `train_cell`.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel
from ..simd.tiles import zeros
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
#: Strips of a tile of moves: as many as fit into the registers.
STRIPS = 4 if WIDTH == 16 else 3
#: Rows that are prefetched after a tile.
ROWS_AHEAD = 2


class Workspace(NamedTuple):
    """Buffers for the products of one batch; see `empty_workspace`."""

    V: np.ndarray  # (D / STRIP, R + padding, STRIP) float32: the rows of W_in, strip by strip
    G: np.ndarray  # (R + padding, N + padding) float32: gradients
    strengths: np.ndarray  # (R,) float32: learning rate times weight of each row's repulsion


@kernel
def empty_list(n: int) -> np.ndarray:
    """Return a list of n rows with its padding: (any,) uint32."""
    return np.zeros(_padded(n), np.uint32)


@kernel
def empty_workspace(rows: int, negatives: int, D: int) -> Workspace:
    """Return buffers for a number of rows of W_in and of negatives, each (D,) float32."""
    N = -(-_padded(negatives) // FLOATS_PER_LINE) * FLOATS_PER_LINE
    return Workspace(
        _aligned_zeros(D * _padded(rows)).reshape(D // STRIP, _padded(rows), STRIP),
        _aligned_zeros(_padded(rows) * N).reshape(_padded(rows), N),
        np.zeros(rows, np.float32),
    )


@kernel
def _aligned_zeros(n: int) -> np.ndarray:
    """Return zeros (n,) float32 that begin with a cache line. A vector in two lines takes twice as long."""
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
def repel(
    B: int,
    rows: np.ndarray,
    n: int,
    negatives: np.ndarray,
    space: Workspace,
    upcoming: np.ndarray,
    W_in: np.ndarray,
    W_out: np.ndarray,
) -> None:
    """Train B rows of W_in with n negatives, label 0; a row listed twice moves by both steps.

    ``rows`` and ``negatives`` are made by `empty_list`. Meanwhile the ``upcoming`` rows of W_out (any,) uint32 are
    prefetched. W_in and W_out are (any, D) float32.
    """
    V, G = space.V, space.G
    D = W_in.shape[1]
    R = V.shape[1]
    N = G.shape[1]
    ahead = 0
    for b in range(B, len(rows)):
        rows[b] = rows[0]
    for b in range(B):
        for d in range(0, D, STRIP):
            store_strip(load_strip(W_in, np.int64(rows[b]) * D + d), V, d * R + b * STRIP)
    for b in range(0, B, TILE_ROWS):
        for o in range(0, n, TILE_NEGATIVES):
            tile = zeros(G, TILE_ROWS)
            for d in range(0, D, WIDTH):
                tile = add_products_of_tile(tile, W_in, rows, b, W_out, negatives, o, D, d)
            store_sums_of_tile(tile, G, b * N + o, N)
            ahead = _prefetch_some(ahead, len(upcoming), upcoming, W_out)
    for b in range(B):
        for o in range(0, n, WIDTH):
            repulsions(G, b * N + o, space.strengths[b])
    G[B:] = 0
    for o in range(n, -(-n // STRIPS) * STRIPS):
        negatives[o] = negatives[0]
        G[:B, o] = 0
    for d in range(0, D, STRIP):
        # The rows of W_in come first, because they need the old rows of W_out, of which there is no copy.
        for b in range(0, B, STRIPS):
            tile = zeros(G, STRIPS)
            for o in range(n):
                tile = multiply_add_strips(tile, G, b * N + o, N, W_out, np.int64(negatives[o]) * D + d)
            add_strips_to_rows(tile, W_in, rows, b, D, d)
            ahead = _prefetch_some(ahead, len(upcoming), upcoming, W_out)
        for o in range(0, n, STRIPS):
            tile = zeros(G, STRIPS)
            for b in range(B):
                tile = multiply_add_strips(tile, G, b * N + o, 1, V, d * R + b * STRIP)
            add_strips_to_rows(tile, W_out, negatives, o, D, d)
            ahead = _prefetch_some(ahead, len(upcoming), upcoming, W_out)
