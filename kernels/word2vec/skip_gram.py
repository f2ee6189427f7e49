"""Skip-gram with negative sampling: three orders of the same updates.

``sgns``: one pair at a time, as word2vec (Moon's dissertation, Algorithm 19). ``full``: negatives belong to a window,
and each one meets all context words before the next (FULL-W2V, section 3). ``par``: attraction, then repulsion from
negatives that a mini-batch of words shares, as three small matrix products (Algorithms 20 to 22).

W_in and W_out are (R, D) float32: a row a word; D is a multiple of PAD. A draw belongs to its token's place in the
chunk, so results do not depend on how a chunk's documents are shared out.

Reference implementation: tests/helpers/naive.py, `word2vec_par`, `word2vec_full` and `word2vec_sgns`.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel, vector_kernel
from ..random import draw, uniform, uniform64
from ..simd.aligned import CACHE_LINE_BYTES, empty_aligned
from ..simd.prefetch import prefetch
from ..simd.tiles import transpose, zeros
from .strips import (
    STRIP,
    WIDTH,
    add_products,
    add_strip_to,
    load_strip,
    multiply_add_rows,
    multiply_add_strips,
    pull_strip,
    repulsions,
    store_strip,
    store_tile,
    sum_strips,
)

#: Numbers that a row's length is a multiple of, whatever the processor; what is added to a vector stays zero.
PAD = 64
#: Words that share negatives (dissertation, section 4.5.1).
BATCH = 24
#: Columns of a product with a mini-batch: whole tiles of three AVX2 vectors or of one wider one.
COLUMNS = 32 if WIDTH == 16 else 24
VECTORS = 2 if WIDTH == 16 else 3
TILE = VECTORS * WIDTH
TABLE_BITS = 20
#: Words whose rows are asked for ahead of their window.
AHEAD = 4
FLOATS_PER_LINE = CACHE_LINE_BYTES // 4
SPARE = np.uint64(64 - TABLE_BITS)
#: The share of what it has yet to learn that a row learns from one pair, over the learning rate: as seen in trials.
PULL = 0.03
METHODS = ("par", "full", "sgns")


class Text(NamedTuple):
    """A chunk's words after subsampling. n words, D documents."""

    ptr: np.ndarray  # (D + 1,) int64: words of document d are ptr[d]:ptr[d + 1]
    words: np.ndarray  # (n,) uint32: rows of the matrices
    positions: np.ndarray  # (n,) uint32: where each word stood in the chunk


class TrainingOptions(NamedTuple):
    """How a text is trained."""

    window: int
    negative: int
    table: np.ndarray  # (n,) uint32, n a power of two: rows in proportion to how often they are drawn as negatives
    windows_key: np.uint64
    negatives_key: np.uint64
    alpha: float  # learning rate at the chunk's first token
    slope: float  # by which it falls with each token
    min_alpha: float


def padded(dimension: int) -> int:
    """Return the length of a stored row."""
    return -(-dimension // PAD) * PAD


def empty_rows(rows: int, dimension: int) -> np.ndarray:
    """Return room for (rows, padded dimension) float32."""
    return empty_aligned((rows, padded(dimension)), np.float32)


def keep_probability(frequency: np.ndarray, sample: float) -> np.ndarray:
    """Return the chance of each word to stay: (V,) float32, for frequencies (V,) int64; gensim's formula."""
    if sample <= 0:
        return np.ones(len(frequency), np.float32)
    ratio = sample * frequency.sum() / np.maximum(frequency, 1)
    return np.minimum(1.0, np.sqrt(ratio) + ratio).astype(np.float32)


def merge_weights(pairs: np.ndarray, shards: int, alpha: float) -> np.ndarray:
    """Return what share of the shards' summed changes their rows take: (R,) float32, for pairs (R,) that trained them.

    A row that learns the share p of what it has yet to learn in one shard would learn 1 - (1 - p)^n in n of them one
    after the other, where the sum would be n p. So rare words, for whom p is small, take the sum, and frequent ones,
    whom every shard brings all the way, the mean; the sum of many shards diverges, and the mean of all damps the rare.
    """
    p = np.maximum(-np.expm1(-PULL * alpha * pairs / shards), 1e-6)
    return (-np.expm1(shards * np.log1p(-np.minimum(p, 1 - 1e-6))) / (shards * p)).astype(np.float32)


def negative_table(frequency: np.ndarray, exponent: float, size: int, key: np.uint64) -> np.ndarray:
    """Draw a table of words: (size,) uint32, each in proportion to frequency^exponent.

    Entry i is the quantile at a random point of the i-th of ``size`` equal steps, so that a rare word has its chance.
    """
    return _quantiles(np.cumsum(frequency.astype(np.float64) ** exponent), size, key)


@kernel
def _quantiles(total, size, key):
    out, word = np.empty(size, np.uint32), 0
    for i in range(size):
        point = (i + uniform64(key, i)) / size * total[-1]
        while word < len(total) - 1 and total[word] <= point:
            word += 1
        out[i] = word
    return out


@kernel
def first_vectors(rows, dimension, key):
    """Return small random vectors: (rows, padded dimension) float32 within half of 1 / dimension."""
    out = np.zeros((rows, -(-dimension // PAD) * PAD), np.float32)
    for r in range(rows):
        for d in range(dimension):
            out[r, d] = (uniform(key, r * dimension + d) - np.float32(0.5)) / np.float32(dimension)
    return out


@kernel
def subsample(doc_ptr, words, keep, key):
    """Drop frequent words of documents by chance, and those from the V-th on: words (T,) uint32, keep (V,) float32.

    ``doc_ptr`` may be of some of the documents of ``words``.
    """
    most = doc_ptr[-1] - doc_ptr[0]
    ptr, kept, positions = np.zeros(len(doc_ptr), np.int64), np.empty(most, np.uint32), np.empty(most, np.uint32)
    n = 0
    for d in range(len(doc_ptr) - 1):
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            if words[i] < len(keep) and uniform(key, i) < keep[words[i]]:
                kept[n], positions[n] = words[i], i
                n += 1
        ptr[d + 1] = n
    return Text(ptr, kept[:n], positions[:n])


@kernel
def merge_row_copies(W, first, before, share):
    """Add the share (H,) of what changed in rows first:first + H of W since ``before`` to rows 0:H; copy these back."""
    for r in range(len(before)):
        for d in range(W.shape[1]):
            W[r, d] += share[r] * (W[first + r, d] - before[r, d])
            before[r, d] = W[first + r, d] = W[r, d]


def train(
    method: str,
    text: Text,
    options: TrainingOptions,
    W_in: np.ndarray,
    W_out: np.ndarray,
    documents: slice | None = None,
):
    """Train W_in and W_out (R, D) float32 in place on a text, or on some of its documents."""
    first, last, _ = (documents or slice(None)).indices(len(text.ptr) - 1)
    sweep = {"par": _par, "full": _full, "sgns": _sgns}[method]
    sweep(first, last, text, options, W_in, W_out)


@vector_kernel
def loss(W_in, W_out, pairs, negatives):
    """Sum the negated logarithms of what pairs (n, 2) of rows of W_out and W_in, and negatives (n, N), are held for."""
    total = 0.0
    for i in range(len(pairs)):
        for k in range(-1, negatives.shape[1]):
            row, product = pairs[i, 0] if k < 0 else negatives[i, k], np.float32(0)
            for d in range(W_in.shape[1]):
                product += W_out[row, d] * W_in[pairs[i, 1], d]
            x = -product if k < 0 else product
            total += max(x, 0) + np.log1p(np.exp(-abs(x)))
    return total


# --- what the three have in common ---


@kernel(inline="always")
def _alpha(options, place):
    return np.float32(max(options.min_alpha, options.alpha - options.slope * place))


@kernel(inline="always")
def _negative(options, index):
    return options.table[(draw(options.negatives_key, index) >> SPARE) & np.uint64(len(options.table) - 1)]


@kernel(inline="always")
def _fetch(W, row):
    for line in range(0, W.shape[1], FLOATS_PER_LINE):
        prefetch(W, np.int64(row) * W.shape[1] + line)


@kernel(inline="always")
def _fetch_word(text, i, end, W_in, W_out):
    if i < end:
        _fetch(W_in, text.words[i])
        _fetch(W_out, text.words[i])


@kernel(inline="always")
def _context(words, first, last, i, reach, rows, n):
    """List the words within ``reach`` of place i of the document first:last behind n others; return how many."""
    for j in range(max(first, i - reach), min(last, i + reach + 1)):
        if j != i:
            rows[n] = words[j]
            n += 1
    return n


@kernel(_nrt=False)
def _pull(A, i, B, rows, n, positive, alpha, g):
    """Train row i of A with n rows of B, those before ``positive`` with label 1: products first, then both sides."""
    _dots(A, i, B, rows, 0, n, g)
    for r in range(0, n, WIDTH):
        repulsions(g, r, alpha)
    for r in range(positive):
        g[r] += alpha
    _move(A, i, B, rows, 0, n, g)


@kernel(inline="always")
def _dots(A, i, B, rows, first, last, g):
    """Write the products of row i of A with the listed rows of B to the same positions of g, two at a time."""
    D = A.shape[1]
    a = np.int64(i) * D
    for r in range(first, last - 1, 2):
        b, c = np.int64(rows[r]) * D, np.int64(rows[r + 1]) * D
        total = zeros(A, 2)
        for d in range(0, D, STRIP):
            total = add_products(total, A, a + d, B, b + d, c + d)
        g[r], g[r + 1] = sum_strips(total)
    if (last - first) % 2:
        b, total = np.int64(rows[last - 1]) * D, zeros(A, 2)
        for d in range(0, D, STRIP):
            total = add_products(total, A, a + d, B, b + d, b + d)
        g[last - 1] = sum_strips(total)[0]


@kernel(inline="always")
def _move(A, i, B, rows, first, last, g):
    """Move row i of A and the listed rows of B towards each other by their g, each seeing the other as it was."""
    D = A.shape[1]
    a = np.int64(i) * D
    for d in range(0, D, STRIP):
        held = load_strip(A, a + d)
        total = held
        for r in range(first, last):
            total = pull_strip(total, held, g[r], B, np.int64(rows[r]) * D + d)
        store_strip(total, A, a + d)


# --- one pair at a time ---


@kernel
def _sgns(first, last, text, options, W_in, W_out):
    ptr, words, positions = text
    context, rows = np.empty(2 * options.window, np.uint32), np.empty(options.negative + 1, np.uint32)
    g = np.empty(options.negative + 1 + WIDTH, np.float32)
    for d in range(first, last):
        for i in range(ptr[d], ptr[d + 1]):
            place = np.int64(positions[i])
            reach = options.window - np.int64(draw(options.windows_key, place) % np.uint64(options.window))
            rows[0] = words[i]
            _fetch_word(text, i + reach + AHEAD, ptr[d + 1], W_in, W_out)
            for c in range(_context(words, ptr[d], ptr[d + 1], i, reach, context, 0)):
                base = (place * 2 * options.window + c) * options.negative
                n = _draw_others(options, base, rows, W_out)
                _pull(W_in, context[c], W_out, rows, n, 1, _alpha(options, place), g)


@kernel(inline="always")
def _draw_others(options, base, rows, W_out):
    """Put negatives other than rows[0] behind it; return how many rows there are."""
    n = 1
    for k in range(options.negative):
        word = _negative(options, base + k)
        if word != rows[0]:
            rows[n] = word
            _fetch(W_out, word)
            n += 1
    return n


# --- negatives by window ---


@kernel
def _full(first, last, text, options, W_in, W_out):
    # The first cache level is the ring of FULL-W2V: a context row is touched in 2 * reach windows in a row, so it stays
    # there without a copy, and a word that stands in a window twice sees both updates.
    ptr, words, positions = text
    reach = (options.window + 1) // 2
    context, samples = np.empty(2 * reach, np.uint32), np.empty(options.negative + 1, np.uint32)
    g = np.empty(2 * reach + WIDTH, np.float32)
    for d in range(first, last):
        for i in range(ptr[d], ptr[d + 1]):
            place = np.int64(positions[i])
            samples[0] = words[i]
            _fetch_word(text, i + reach + AHEAD, ptr[d + 1], W_in, W_out)
            m = _draw_others(options, place * options.negative, samples, W_out)
            n = _context(words, ptr[d], ptr[d + 1], i, reach, context, 0)
            for s in range(m):
                _pull(W_out, samples[s], W_in, context, n, n if s == 0 else 0, _alpha(options, place), g)


# --- attraction and repulsion ---


@kernel
def _par(first, last, text, options, W_in, W_out):
    # A mini-batch is attracted, then repelled, before the next one: its rows come from memory once. Algorithm 20 does
    # so sentence by sentence.
    ptr, words, positions = text
    D = W_in.shape[1]
    most = 2 * options.window * options.negative + 3
    most_pairs = 2 * options.window * BATCH
    pairs = np.empty(most_pairs, np.uint32), np.empty(most_pairs + WIDTH, np.float32), np.zeros(BATCH + 1, np.int64)
    negatives, batch = np.empty(most, np.uint32), np.empty(COLUMNS, np.uint32)
    M_in, M_out = np.empty((D // STRIP, COLUMNS, STRIP), np.float32), np.empty((D // STRIP, most, STRIP), np.float32)
    M_turned, G = np.empty((D, COLUMNS), np.float32), np.empty((most, COLUMNS), np.float32)
    for d in range(first, last):
        start, end = ptr[d], ptr[d + 1]
        if end - start < 2:
            continue
        for head in range(start, end, BATCH):
            tail = min(head + BATCH, end)
            alpha = _alpha(options, np.int64(positions[head]))
            n = _shared_negatives(head - start, end - start, np.int64(positions[head]), options, negatives)
            _attract((start, head, tail, end), text, options, alpha, negatives[:n], pairs, W_in, W_out)
            if n:
                _gather(W_in, words[head:tail], COLUMNS, batch, M_in)
                _gather(W_out, negatives[:n], n + 3, negatives, M_out)
                _products((n, tail - head), M_in, M_turned, M_out, G, alpha)
                _repel(n, batch, negatives, M_in, M_out, G, W_in, W_out)


@kernel(_nrt=False)
def _attract(marks, text, options, alpha, negatives, pairs, W_in, W_out):
    """Train a mini-batch's words head:tail of the document start:end with their neighbours: products first."""
    (start, head, tail, end), (rows, g, ends) = marks, pairs
    for i in range(head, tail):
        b = i - head
        reach = options.window - np.int64(
            draw(options.windows_key, np.int64(text.positions[i])) % np.uint64(options.window)
        )
        _fetch_word(text, i + options.window + AHEAD, end, W_in, W_out)
        for k in range(b, len(negatives), BATCH):
            _fetch(W_out, negatives[k])
        ends[b + 1] = _context(text.words, start, end, i, reach, rows, ends[b])
        _dots(W_out, text.words[i], W_in, rows, ends[b], ends[b + 1], g)
    n = ends[tail - head]
    for r in range(0, n, WIDTH):
        repulsions(g, r, alpha)
    for r in range(n):
        g[r] += alpha
    for b in range(tail - head):
        _move(W_out, text.words[head + b], W_in, rows, ends[b], ends[b + 1], g)


@kernel(_nrt=False)
def _shared_negatives(position, length, place, options, negatives):
    """Draw a mini-batch's negatives; return how many."""
    n, base = _range_of_negatives(position, length, place, options)
    for k in range(n):
        negatives[k] = _negative(options, base + k)
    return n


@kernel(inline="always")
def _range_of_negatives(position, length, place, options):
    """How many, by the first word's position as in Algorithm 22, lines 6 to 14, and the first one's index."""
    C = options.window
    reach = C if position <= C - 1 or length - 1 - position <= C - 1 else 2 * C
    base = place * (2 * C * options.negative + 1)
    return np.int64(draw(options.negatives_key, base) % np.uint64(reach)) * options.negative, base + 1


@kernel(_nrt=False)
def _gather(W, rows, n, listed, M):
    """Copy rows of W to the panels M (D / STRIP, any, STRIP) and list them; up to the n-th, zeros and the first row."""
    D, panel = W.shape[1], M.shape[1]
    for r in range(n):
        listed[r] = rows[r if r < len(rows) else 0]
        for d in range(0, D, STRIP):
            held = load_strip(W, np.int64(listed[r]) * D + d) if r < len(rows) else zeros(M, 1)
            store_strip(held, M, d * panel + r * STRIP)


@kernel(_nrt=False)
def _products(size, M_in, M_turned, M_out, G, alpha):
    """G = -alpha * sigmoid(M_out @ M_in.T): (n, B) of the given size, and zeros beyond it."""
    D, panel = len(M_turned), M_out.shape[1]
    n, B = size
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
    for o in range(n + 3):
        for b in range(B if o < n else 0, COLUMNS):
            G[o, b] = 0


@kernel(_nrt=False)
def _repel(n, batch, negatives, M_in, M_out, G, W_in, W_out):
    """W_out[negatives] += G @ M_in and W_in[batch] += G.T @ M_out, a word that is there twice getting both."""
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
def _scatter(tile, rows, r, W, d):
    D = W.shape[1]
    add_strip_to(tile, 0, W, np.int64(rows[r]) * D + d)
    add_strip_to(tile, 1, W, np.int64(rows[r + 1]) * D + d)
    add_strip_to(tile, 2, W, np.int64(rows[r + 2]) * D + d)
