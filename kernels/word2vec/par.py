"""PAR-Word2Vec: attraction of neighbours, then repulsion from negatives that a mini-batch of words shares.

For a mini-batch of 24 words with rows M_in of W_in, and n shared negatives with rows M_out of W_out:

1. Attraction: the word's row of W_out is trained with the rows of its context words in W_in, label 1. All products of
   the mini-batch come before all moves.
2. Repulsion: G = −α σ(M_out M_inᵀ), then W_out[negatives] += G M_in and W_in[words] += Gᵀ M_out: three small matrix
   products, in place of 24 n products of vectors.

Source: Moon's dissertation (2019), Algorithms 20 to 22; 24 words per mini-batch by section 4.5.1. Algorithm 20 attracts
and then repels sentence by sentence. Here it is mini-batch by mini-batch, so that rows come from memory once.

Layout: the gathered rows are panels (D / STRIP, rows, STRIP), so that a strip of all rows is contiguous. Products are
computed in tiles of four negatives by COLUMNS words. Words and negatives are padded to whole tiles: padding has
gradient zero and is added to a row that exists.

Reference implementation: tests/helpers/naive.py, `word2vec_par`.
"""

import numpy as np

from ..jit import kernel
from ..random import draw
from ..simd.tiles import Tile, transpose, zeros
from .strips import (
    STRIP,
    WIDTH,
    add_strip_to,
    load_strip,
    multiply_add_rows,
    multiply_add_strips,
    repulsions,
    store_strip,
    store_tile,
)
from .text import Text, TrainingOptions
from .updates import (
    AHEAD,
    add_context,
    dot_products,
    learning_rate,
    move_rows,
    negative_at,
    prefetch_row,
    prefetch_word,
    range_of_negatives,
)

#: Words of a mini-batch, which share negatives.
BATCH = 24
#: Columns of a product with a mini-batch: a multiple of a tile, which is three vectors of AVX2 or two wider ones.
COLUMNS = 32 if WIDTH == 16 else 24
VECTORS = 2 if WIDTH == 16 else 3
TILE = VECTORS * WIDTH


@kernel
def train_par(first: int, last: int, text: Text, options: TrainingOptions, W_in: np.ndarray, W_out: np.ndarray) -> None:
    """Train W_in and W_out (R, D) float32 in place on the documents first to last."""
    ptr, words, positions = text
    D = W_in.shape[1]
    # Three more negatives than can be drawn, for products of four and moves of three at a time.
    most = 2 * options.window * options.negative + 3
    most_pairs = 2 * options.window * BATCH
    pairs = np.empty(most_pairs, np.uint32), np.empty(most_pairs + WIDTH, np.float32), np.zeros(BATCH + 1, np.int64)
    negatives = np.empty(most, np.uint32)
    batch = np.empty(COLUMNS, np.uint32)
    M_in = np.empty((D // STRIP, COLUMNS, STRIP), np.float32)
    M_out = np.empty((D // STRIP, most, STRIP), np.float32)
    M_turned = np.empty((D, COLUMNS), np.float32)
    G = np.empty((most, COLUMNS), np.float32)
    for d in range(first, last):
        start, end = ptr[d], ptr[d + 1]
        if end - start < 2:
            continue
        for head in range(start, end, BATCH):
            tail = min(head + BATCH, end)
            alpha = learning_rate(options, np.int64(positions[head]))
            n = _draw_negatives(head - start, end - start, np.int64(positions[head]), options, negatives)
            _attract((start, head, tail, end), text, options, alpha, negatives[:n], pairs, W_in, W_out)
            if n:
                _gather(W_in, words[head:tail], COLUMNS, batch, M_in)
                _gather(W_out, negatives[:n], n + 3, negatives, M_out)
                _products((n, tail - head), M_in, M_turned, M_out, G, alpha)
                _repel(n, batch, negatives, M_in, M_out, G, W_in, W_out)


@kernel(_nrt=False)
def _draw_negatives(
    position_in_document: int, length: int, position: int, options: TrainingOptions, negatives: np.ndarray
) -> int:
    """Draw a mini-batch's negatives; return their number."""
    n, base = range_of_negatives(position_in_document, length, position, options)
    for k in range(n):
        negatives[k] = negative_at(options, base + k)
    return n


# --- attraction ---


@kernel(_nrt=False)
def _attract(
    bounds: tuple[int, int, int, int],
    text: Text,
    options: TrainingOptions,
    alpha: np.float32,
    negatives: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray],
    W_in: np.ndarray,
    W_out: np.ndarray,
) -> None:
    """Train the words head:tail of the document start:end with their context words; ``bounds`` are these four.

    ``pairs`` is scratch: the context words of all words of the mini-batch, their gradients, and each word's end.
    """
    start, head, tail, end = bounds
    rows, g, ends = pairs
    for i in range(head, tail):
        b = i - head
        position = np.int64(text.positions[i])
        reach = options.window - np.int64(draw(options.windows_key, position) % np.uint64(options.window))
        prefetch_word(text, i + options.window + AHEAD, end, W_in, W_out)
        # The negatives' rows are needed by the repulsion. Each word prefetches its share of them.
        for k in range(b, len(negatives), BATCH):
            prefetch_row(W_out, negatives[k])
        ends[b + 1] = add_context(text.words, start, end, i, reach, rows, ends[b])
        dot_products(W_out, text.words[i], W_in, rows, ends[b], ends[b + 1], g)
    n = ends[tail - head]
    for r in range(0, n, WIDTH):
        repulsions(g, r, alpha)
    for r in range(n):
        g[r] += alpha
    for b in range(tail - head):
        move_rows(W_out, text.words[head + b], W_in, rows, ends[b], ends[b + 1], g)


# --- repulsion ---


@kernel(_nrt=False)
def _gather(W: np.ndarray, rows: np.ndarray, n: int, listed: np.ndarray, M: np.ndarray) -> None:
    """Copy rows of W to the panels M (D / STRIP, any, STRIP), and their numbers to ``listed``.

    Up to the n-th, panels are padded with zeros, and ``listed`` with the first row.
    """
    D = W.shape[1]
    panel = M.shape[1]
    for r in range(n):
        listed[r] = rows[r if r < len(rows) else 0]
        for d in range(0, D, STRIP):
            held = load_strip(W, np.int64(listed[r]) * D + d) if r < len(rows) else zeros(M, 1)
            store_strip(held, M, d * panel + r * STRIP)


@kernel(_nrt=False)
def _products(
    size: tuple[int, int], M_in: np.ndarray, M_turned: np.ndarray, M_out: np.ndarray, G: np.ndarray, alpha: np.float32
) -> None:
    """Set G = −alpha σ(M_out M_inᵀ) for ``size`` (n, B), and zeros beyond it."""
    D = len(M_turned)
    panel = M_out.shape[1]
    n, B = size
    # M_turned is M_in with the words side by side, so that one vector holds one dimension of several words.
    for b in range(0, COLUMNS, WIDTH):
        for d in range(0, D, WIDTH):
            at = (d - d % STRIP) * COLUMNS + b * STRIP + d % STRIP
            transpose(M_in, at, STRIP, M_turned, d * COLUMNS + b, COLUMNS)
    for o in range(0, n, 4):
        for b in range(0, COLUMNS, TILE):
            tile = zeros(G, VECTORS)
            for first in range(0, D, STRIP):
                for d in range(STRIP):
                    at = first * panel + o * STRIP + d
                    tile = multiply_add_rows(tile, M_out, at, STRIP, M_turned, (first + d) * COLUMNS + b)
            store_tile(tile, G, o * COLUMNS + b, COLUMNS)
        for b in range(0, 4 * COLUMNS, WIDTH):
            repulsions(G, o * COLUMNS + b, alpha)
    # The gradient of a product 0 is not 0, so the padding is cleared.
    for o in range(n + 3):
        for b in range(B if o < n else 0, COLUMNS):
            G[o, b] = 0


@kernel(_nrt=False)
def _repel(
    n: int,
    batch: np.ndarray,
    negatives: np.ndarray,
    M_in: np.ndarray,
    M_out: np.ndarray,
    G: np.ndarray,
    W_in: np.ndarray,
    W_out: np.ndarray,
) -> None:
    """Add G M_in to W_out[negatives] and Gᵀ M_out to W_in[batch]; a row that is listed twice gets both."""
    panel = M_out.shape[1]
    for d in range(0, W_in.shape[1], STRIP):
        for o in range(0, n, 3):
            tile = zeros(G, 3)
            for b in range(BATCH):
                tile = multiply_add_strips(tile, G, o * COLUMNS + b, COLUMNS, M_in, d * COLUMNS + b * STRIP)
            _scatter(tile, negatives, o, W_out, d)
        for b in range(0, BATCH, 3):
            tile = zeros(G, 3)
            for o in range(n):
                tile = multiply_add_strips(tile, G, o * COLUMNS + b, 1, M_out, d * panel + o * STRIP)
            _scatter(tile, batch, b, W_in, d)


@kernel(inline="always")
def _scatter(tile: Tile, rows: np.ndarray, r: int, W: np.ndarray, d: int) -> None:
    """Add the three strips of a tile to the rows r to r + 2 of the list, from column d on."""
    D = W.shape[1]
    add_strip_to(tile, 0, W, np.int64(rows[r]) * D + d)
    add_strip_to(tile, 1, W, np.int64(rows[r + 1]) * D + d)
    add_strip_to(tile, 2, W, np.int64(rows[r + 2]) * D + d)
