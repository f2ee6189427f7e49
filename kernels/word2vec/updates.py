"""Functions for all three orders of updates: learning rate, negatives, contexts, and moving rows towards each other.

A pair of rows a and b with label 1 (words that occur together) or 0 (a negative) moves by

    g = α (label − σ(a·b)),    a ← a + g b,    b ← b + g a

Source: Mikolov et al., "Distributed representations of words and phrases" (NIPS 2013), equation 4, and the code of
word2vec. One row is trained with several others at a time: first all products, then all moves, so that each side sees
the other as it was.

Layout: W_in and W_out are C-contiguous (R, D) float32, one row per word, D a multiple of `text.PAD`.

Reference implementation: tests/helpers/naive.py, `word2vec_step`.
"""

import numpy as np

from ..jit import kernel
from ..random import draw
from ..simd.tiles import zeros
from .strips import (
    STRIP,
    WIDTH,
    add_products,
    add_products_of_four,
    load_strip,
    prefetch_strip,
    pull_strip,
    repulsions,
    store_strip,
    store_sums_of_rows,
    sum_strips,
)
from .text import Text, TrainingOptions

#: Bits of a draw that are used as an index into the table of negatives, and so its largest size.
TABLE_BITS = 20
TABLE_SHIFT = np.uint64(64 - TABLE_BITS)
#: Words between the prefetch of a word's rows and its window.
AHEAD = 4


# --- draws, also of the CUDA kernels ---


@kernel(inline="always")
def learning_rate(options: TrainingOptions, position: int) -> np.float32:
    """Return the learning rate at a token of the chunk: float32."""
    return np.float32(max(options.min_alpha, options.alpha - options.slope * position))


@kernel(inline="always")
def negative_at(options: TrainingOptions, index: int) -> np.uint32:
    """Return the row at draw ``index`` of the negatives: uint32."""
    return options.table[(draw(options.negatives_key, index) >> TABLE_SHIFT) & np.uint64(len(options.table) - 1)]


@kernel(inline="always")
def number_of_negatives(first: int, last: int, length: int, options: TrainingOptions) -> int:
    """Return how many negatives the words first to last of a document of ``length`` words share: int64.

    It is ``negative`` times the expected number of context words of one of them, so that a word has as many products
    with negatives as in word-by-word training. A reach is drawn from 1 to C, so a side with m words has
    m (2C − m + 1) / 2C context words on average for m up to C.
    """
    C = options.window
    doubled = 0
    for k in range(first, last):
        left = min(C, k)
        right = min(C, length - 1 - k)
        doubled += left * (2 * C - left + 1) + right * (2 * C - right + 1)
    parts = 2 * C * (last - first)
    return (options.negative * doubled + parts // 2) // parts


@kernel(inline="always")
def first_negative(position: int, options: TrainingOptions) -> int:
    """Return the index of the first negative's draw of a mini-batch: int64; ``position`` is its first word's token."""
    return position * (2 * options.window * options.negative + 1) + 1


# --- contexts ---


@kernel(inline="always")
def prefetch_row(W: np.ndarray, row: int) -> None:
    """Prefetch all cache lines of one row of W (R, D) float32."""
    D = W.shape[1]
    for d in range(0, D, STRIP):
        prefetch_strip(W, np.int64(row) * D + d)


@kernel(inline="always")
def prefetch_word(text: Text, i: int, end: int, W_in: np.ndarray, W_out: np.ndarray) -> None:
    """Prefetch both rows (D,) float32 of word i, unless its document ends before it."""
    if i < end:
        prefetch_row(W_in, text.words[i])
        prefetch_row(W_out, text.words[i])


@kernel(inline="always")
def add_context(words: np.ndarray, first: int, last: int, i: int, reach: int, rows: np.ndarray, n: int) -> int:
    """Write the words within ``reach`` of word i to ``rows`` (any,) uint32, after its first n; return the new n.

    ``first`` and ``last`` bound the document.
    """
    for j in range(max(first, i - reach), min(last, i + reach + 1)):
        if j != i:
            rows[n] = words[j]
            n += 1
    return n


@kernel(inline="always")
def add_negatives(options: TrainingOptions, base: int, rows: np.ndarray, W_out: np.ndarray) -> int:
    """Write negatives to ``rows`` (any,) uint32 after rows[0], without those equal to it; return how many rows it has.

    Their draws begin at index ``base``.
    """
    n = 1
    for k in range(options.negative):
        word = negative_at(options, base + k)
        if word != rows[0]:
            rows[n] = word
            prefetch_row(W_out, word)
            n += 1
    return n


# --- products and moves ---


@kernel(_nrt=False)
def train_row(
    A: np.ndarray, i: int, B: np.ndarray, rows: np.ndarray, n: int, positive: int, alpha: np.float32, g: np.ndarray
) -> None:
    """Train row i of A with n rows of B (R, D) float32, the first ``positive`` of them with label 1.

    ``g`` (n + WIDTH,) float32 is scratch. ``_nrt=False`` leaves out numba's counting of references.
    """
    dot_products(A, i, B, rows, 0, n, g)
    for r in range(0, n, WIDTH):
        repulsions(g, r, alpha)
    for r in range(positive):
        g[r] += alpha
    move_rows(A, i, B, rows, 0, n, g)


@kernel(inline="always")
def dot_products(A: np.ndarray, i: int, B: np.ndarray, rows: np.ndarray, first: int, last: int, g: np.ndarray) -> None:
    """Write the products of row i of A with the rows first to last of B to g (any,) float32, two at a time."""
    D = A.shape[1]
    a = np.int64(i) * D
    for r in range(first, last - 1, 2):
        b, c = np.int64(rows[r]) * D, np.int64(rows[r + 1]) * D
        total = zeros(A, 2)
        for d in range(0, D, STRIP):
            total = add_products(total, A, a + d, B, b + d, c + d)
        g[r], g[r + 1] = sum_strips(total)
    # The last one of an odd number is computed twice and written once.
    if (last - first) % 2:
        b = np.int64(rows[last - 1]) * D
        total = zeros(A, 2)
        for d in range(0, D, STRIP):
            total = add_products(total, A, a + d, B, b + d, b + d)
        g[last - 1] = sum_strips(total)[0]


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


@kernel(inline="always")
def move_rows(A: np.ndarray, i: int, B: np.ndarray, rows: np.ndarray, first: int, last: int, g: np.ndarray) -> None:
    """Move row i of A and the rows first to last of B (R, D) float32 towards each other, by their g.

    Strip by strip: the strip of A stays in registers, and those of B change by its old value.
    """
    D = A.shape[1]
    a = np.int64(i) * D
    for d in range(0, D, STRIP):
        held = load_strip(A, a + d)
        total = held
        for r in range(first, last):
            total = pull_strip(total, held, g[r], B, np.int64(rows[r]) * D + d)
        store_strip(total, A, a + d)
