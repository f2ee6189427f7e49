"""Repulsion of a batch of rows of W_in from negatives that they share, for par.py and cells.py.

For B rows V of W_in and n negatives U of W_out:

    G = −strength σ(V Uᵀ),    W_out[negatives] += Gᵀ V,    W_in[rows] += G U

with one strength per row of V. These are three small matrix products, in place of B n products of vectors.

Layout: U is gathered into panels (D / STRIP, n, STRIP), so that a strip of all negatives is contiguous. The rows V stay
where they are. Products are computed in tiles of PRODUCT_ROWS rows by TILE negatives, moves in tiles of STRIPS strips.
Lists of rows are padded to whole tiles: the padding is some row, and its gradients are zero.

Source: Moon's dissertation (2019), Algorithm 22.

Reference implementations: tests/helpers/naive.py, `word2vec_par`, and tests/helpers/naive_cells.py, `train_cell`.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel
from ..simd.tiles import transpose, zeros
from .strips import (
    PRODUCT_ROWS,
    PRODUCT_VECTORS,
    STRIP,
    WIDTH,
    add_products_of_four,
    add_strips_to_rows,
    load_strip,
    multiply_add_rows,
    multiply_add_strips,
    repulsions,
    store_strip,
    store_sums_of_rows,
    store_tile,
)

#: Negatives of a tile of products.
TILE = PRODUCT_VECTORS * WIDTH
#: Strips of a tile of moves: as many as fit into the registers.
STRIPS = 4 if WIDTH == 16 else 3


class Batch(NamedTuple):
    """Buffers for up to R rows and N negatives; see `empty_batch`."""

    rows: np.ndarray  # (R + padding,) uint32: rows of W_in
    strengths: np.ndarray  # (R,) float32: learning rate times weight of each row's repulsion
    negatives: np.ndarray  # (N + padding,) uint32: rows of W_out
    U: np.ndarray  # (D / STRIP, N + padding, STRIP) float32: the rows of W_out, strip by strip
    turned: np.ndarray  # (D, N + padding) float32: the transpose of U
    G: np.ndarray  # (R + padding, N + padding) float32: gradients


@kernel
def empty_batch(rows: int, negatives: int, D: int) -> Batch:
    """Return buffers for a number of rows and of negatives, each (D,) float32."""
    R = rows + max(PRODUCT_ROWS, STRIPS)
    # Whole tiles of products, and of moves.
    N = (negatives + TILE - 1) // TILE * TILE
    if N % STRIPS:
        N += TILE
    return Batch(
        np.zeros(R, np.uint32),
        np.zeros(rows, np.float32),
        np.zeros(N, np.uint32),
        np.zeros((D // STRIP, N, STRIP), np.float32),
        np.zeros((D, N), np.float32),
        np.zeros((R, N), np.float32),
    )


@kernel(_nrt=False)
def repel(B: int, n: int, batch: Batch, W_in: np.ndarray, W_out: np.ndarray) -> None:
    """Train the first B rows of the batch with its first n negatives, label 0; a row listed twice moves by both steps.

    W_in and W_out are (any, D) float32.
    """
    for b in range(B, len(batch.rows)):
        batch.rows[b] = batch.rows[0]
    _gather(W_out, batch.negatives, n, batch.U)
    _products(B, n, batch, W_in)
    batch.G[B:] = 0
    for o in range(n, -(-n // STRIPS) * STRIPS):
        batch.negatives[o] = batch.negatives[0]
        batch.G[:B, o] = 0
    _move(B, n, batch, W_in, W_out)


@kernel(_nrt=False)
def _gather(W: np.ndarray, rows: np.ndarray, n: int, panels: np.ndarray) -> None:
    """Copy n rows of W to the panels (D / STRIP, any, STRIP)."""
    D = W.shape[1]
    for r in range(n):
        for d in range(0, D, STRIP):
            store_strip(load_strip(W, np.int64(rows[r]) * D + d), panels, d * panels.shape[1] + r * STRIP)


@kernel(_nrt=False)
def _products(B: int, n: int, batch: Batch, W_in: np.ndarray) -> None:
    """Set G = −strength σ(V Uᵀ), up to whole tiles."""
    U, turned, G = batch.U, batch.turned, batch.G
    D, N = turned.shape
    # With the negatives side by side, one vector holds one dimension of several of them.
    for o in range(0, n, WIDTH):
        for d in range(0, D, WIDTH):
            transpose(U, (d - d % STRIP) * N + o * STRIP + d % STRIP, STRIP, turned, d * N + o, N)
    for b in range(0, B, PRODUCT_ROWS):
        for o in range(0, n, TILE):
            tile = zeros(G, 2)
            for d in range(D):
                tile = multiply_add_rows(tile, W_in, batch.rows, b, d, turned, d * N + o)
            store_tile(tile, G, b * N + o, N)
    for b in range(B):
        for o in range(0, n, WIDTH):
            repulsions(G, b * N + o, batch.strengths[b])


@kernel(_nrt=False)
def _move(B: int, n: int, batch: Batch, W_in: np.ndarray, W_out: np.ndarray) -> None:
    """Add Gᵀ V to the negatives' rows of W_out and G U to the batch's rows of W_in."""
    U, G = batch.U, batch.G
    D, N = batch.turned.shape
    for d in range(0, D, STRIP):
        # The negatives come first, because they need the old rows of W_in, of which there is no copy.
        for o in range(0, n, STRIPS):
            tile = zeros(G, STRIPS)
            for b in range(B):
                tile = multiply_add_strips(tile, G, b * N + o, 1, W_in, np.int64(batch.rows[b]) * D + d)
            add_strips_to_rows(tile, W_out, batch.negatives, o, D, d)
        for b in range(0, B, STRIPS):
            tile = zeros(G, STRIPS)
            for o in range(n):
                tile = multiply_add_strips(tile, G, b * N + o, N, U, d * N + o * STRIP)
            add_strips_to_rows(tile, W_in, batch.rows, b, D, d)


@kernel(inline="always")
def dots_by_four(A: np.ndarray, i: int, B: np.ndarray, rows: np.ndarray, first: int, last: int, g: np.ndarray) -> None:
    """Write the products of row i of A with the rows first to last of B (R, D) float32 to g, four at a time.

    Up to three numbers of g after the last are overwritten, and as many rows of the list are read.
    """
    D = A.shape[1]
    for r in range(first, last, 4):
        tile = zeros(A, 2)
        for d in range(0, D, STRIP):
            tile = add_products_of_four(tile, A, np.int64(i) * D + d, B, rows, r, D, d)
        store_sums_of_rows(tile, g, r)
