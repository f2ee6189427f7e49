"""Split the pairs of a chunk by the blocks of their words, for training in cells.

A pair is a word (the centre, a row of W_in) and one of its neighbours (the context, a row of W_out). Each word draws
how far its window reaches, from 1 to ``window``, as in sgns.py and par.py. Cell (i, j) has the pairs whose centre lies
in block i and whose context lies in block j.

Steps, per chunk:

1. `_thin`: drop tokens of frequent words at random, look up the places of the others, and clip each window to its
   document.
2. `_sort_by_row`: counting sort of the kept tokens by word.
3. Per row block i: `_windows` writes the contexts of all its words, one word after the other, and `_spread` deals
   them to the cells. So the pairs of a cell come out sorted by centre, without a sort of pairs.

Layout: a pair is a uint32, the centre's row in its block << 16 | the context's row in its block.

Reference implementation: tests/helpers/naive_cells.py, `pairs_of`.
"""

import numpy as np

from ..jit import kernel
from ..random import draw, uniform
from ..simd.lanes import LANES, load, store
from ..simd.prefetch import prefetch

#: Tokens between the prefetch of a window and its copy.
AHEAD = 12
LOW = np.uint32(0xFFFF)
SHIFT = np.uint32(16)


@kernel
def split_pairs(
    ptr: np.ndarray,
    words: np.ndarray,
    places: np.ndarray,
    keep: np.ndarray,
    window: int,
    subsampling_key: np.uint64,
    windows_key: np.uint64,
    n_blocks: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of a chunk, cell after cell: (n,) uint32, and how many each cell has: (P, P) int64.

    ``ptr`` (D + 1,) int64 are the bounds of some or all of the chunk's documents, ``words`` (T,) uint32 its tokens in
    document order; words from V on are dropped. ``places`` (V,) uint32 is block << 16 | row in the block, ``keep``
    (V,) float32 the probability that a token is kept. ``window`` is at most 255. The cells (0, 0), (0, 1), ... follow
    one another; within a cell, pairs are sorted by centre, and pairs of a centre are in the order of the text.
    """
    codes, spans, n, n_pairs = _thin(ptr, words, places, keep, window, subsampling_key, windows_key)
    first_rows = _first_rows(places, n_blocks)
    row_ends, entries = _sort_by_row(codes, spans, n, first_rows)
    pairs = np.empty(n_pairs, np.uint32)
    counts = np.zeros((n_blocks, n_blocks), np.int64)
    ends = np.zeros(n_blocks, np.int64)
    contexts = np.empty(0, np.uint32)
    totals = np.empty(0, np.int64)
    done = 0
    for i in range(n_blocks):
        first, last = first_rows[i], first_rows[i + 1]
        bound = _pairs_of_rows(entries, row_ends, first, last)
        # The copy of a window writes whole vectors, so it may write LANES numbers too many.
        if len(contexts) < bound + LANES:
            contexts = np.empty(bound + bound // 8 + LANES, np.uint32)
        if len(totals) < last - first:
            totals = np.empty(last - first, np.int64)
        _windows(codes, entries, row_ends, first, last, contexts, totals)
        for r in range(bound):
            counts[i, np.int64(contexts[r] >> SHIFT)] += 1
        for j in range(n_blocks):
            ends[j] = done
            done += counts[i, j]
        _spread(contexts, totals, last - first, ends, pairs)
    return pairs, counts


@kernel
def _thin(
    ptr: np.ndarray,
    words: np.ndarray,
    places: np.ndarray,
    keep: np.ndarray,
    window: int,
    subsampling_key: np.uint64,
    windows_key: np.uint64,
) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Return the places of the kept tokens, their windows, their number, and the number of pairs.

    A window is left << 8 | right: how many neighbours a token has on each side. Documents with fewer than two tokens
    are dropped.
    """
    bound = ptr[-1] - ptr[0]
    codes = np.empty(bound + LANES, np.uint32)
    spans = np.empty(bound + 1, np.uint16)
    n = 0
    n_pairs = 0
    for d in range(len(ptr) - 1):
        start = n
        for i in range(ptr[d], ptr[d + 1]):
            word = words[i]
            if word < len(keep) and uniform(subsampling_key, i) < keep[word]:
                codes[n] = places[word]
                spans[n] = window - np.int64(draw(windows_key, i) % np.uint64(window))
                n += 1
        if n - start < 2:
            n = start
        for k in range(start, n):
            span = _clipped(np.int64(spans[k]), k - start, n - 1 - k)
            spans[k] = span
            n_pairs += (span >> 8) + (span & 255)
    return codes, spans, n, n_pairs


@kernel(inline="always")
def _clipped(reach: int, before: int, after: int) -> int:
    """Return the window of a token with ``before`` and ``after`` tokens of its document on its two sides."""
    return min(reach, before) << 8 | min(reach, after)


@kernel
def _first_rows(places: np.ndarray, n_blocks: int) -> np.ndarray:
    """Return the bounds of the blocks if their rows follow one another: (P + 1,) int64."""
    first_rows = np.zeros(n_blocks + 1, np.int64)
    for word in range(len(places)):
        first_rows[np.int64(places[word] >> SHIFT) + 1] += 1
    for block in range(n_blocks):
        first_rows[block + 1] += first_rows[block]
    return first_rows


@kernel
def _sort_by_row(codes: np.ndarray, spans: np.ndarray, n: int, first_rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of all rows' tokens (V + 1,) int64, row 0 at index 1, and the tokens by row: (n,) int64.

    A token is its position among the kept ones << 16 | its window.
    """
    ends = np.zeros(first_rows[-1] + 2, np.int64)
    for k in range(n):
        ends[first_rows[np.int64(codes[k] >> SHIFT)] + np.int64(codes[k] & LOW) + 2] += 1
    for r in range(1, len(ends)):
        ends[r] += ends[r - 1]
    entries = np.empty(n, np.int64)
    # During the loop, ends[row + 1] is where the next token of the row goes. In the end it is the row's end.
    for k in range(n):
        row = first_rows[np.int64(codes[k] >> SHIFT)] + np.int64(codes[k] & LOW)
        entries[ends[row + 1]] = k << 16 | np.int64(spans[k])
        ends[row + 1] += 1
    return ends[:-1], entries


@kernel
def _pairs_of_rows(entries: np.ndarray, row_ends: np.ndarray, first: int, last: int) -> int:
    """Return the number of pairs whose centres are the rows first to last."""
    n = 0
    for t in range(row_ends[first], row_ends[last]):
        n += (entries[t] >> 8 & 255) + (entries[t] & 255)
    return n


@kernel
def _windows(
    codes: np.ndarray,
    entries: np.ndarray,
    row_ends: np.ndarray,
    first: int,
    last: int,
    contexts: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Write the contexts of the rows first to last, row by row, and the number of each row's pairs to ``totals``."""
    n = 0
    end = row_ends[last]
    for r in range(first, last):
        before = n
        for t in range(row_ends[r], row_ends[r + 1]):
            if t + AHEAD < end:
                prefetch(codes, entries[t + AHEAD] >> 16)
            k = entries[t] >> 16
            left = entries[t] >> 8 & 255
            right = entries[t] & 255
            # Whole vectors are copied: the next copy overwrites what was too much.
            for q in range(0, left, LANES):
                store(contexts, n + q, load(codes, k - left + q))
            n += left
            for q in range(0, right, LANES):
                store(contexts, n + q, load(codes, k + 1 + q))
            n += right
        totals[r - first] = n - before


@kernel
def _spread(contexts: np.ndarray, totals: np.ndarray, n_rows: int, ends: np.ndarray, pairs: np.ndarray) -> None:
    """Append the pairs of a row block to its cells, whose next pairs go to ``ends`` (P,) int64."""
    c = 0
    for r in range(n_rows):
        centre = np.uint32(r) << SHIFT
        for _ in range(totals[r]):
            block = np.int64(contexts[c] >> SHIFT)
            pairs[ends[block]] = centre | (contexts[c] & LOW)
            ends[block] += 1
            c += 1


@kernel
def join_cells(
    pairs: np.ndarray, counts: np.ndarray, passes: np.ndarray, n_passes: int, n_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Join the pairs of a row of cells from several segments of the text: return the pairs and the cells' bounds.

    ``pairs`` (n,) uint32 has the segments in the order of the text, each with its cells one after the other. ``counts``
    (segments, P) int64 are the numbers of their pairs, and ``passes`` (segments,) int64 is the pass that each segment
    is trained in. The result (n,) uint32 has the cells of pass 0, then those of pass 1, and so on; each is sorted
    stably by its centres, which are rows below ``n_rows``. The bounds are (n_passes * P + 1,) int64. The result depends
    on the order of the text alone, not on how it is cut into chunks and shards.
    """
    n_segments, n_blocks = counts.shape
    starts = np.empty((n_segments, n_blocks), np.int64)
    n = 0
    for s in range(n_segments):
        for column in range(n_blocks):
            starts[s, column] = n
            n += counts[s, column]
    joined = np.empty(len(pairs), np.uint32)
    bounds = np.zeros(n_passes * n_blocks + 1, np.int64)
    # Where the next pair of each row goes, and the row before it at index 0.
    row_ends = np.empty(n_rows + 1, np.int64)
    done = 0
    for grid_pass in range(n_passes):
        for column in range(n_blocks):
            row_ends[:] = 0
            for s in range(n_segments):
                if passes[s] == grid_pass:
                    for p in range(starts[s, column], starts[s, column] + counts[s, column]):
                        row_ends[np.int64(pairs[p] >> SHIFT) + 1] += 1
            row_ends[0] = done
            for r in range(n_rows):
                row_ends[r + 1] += row_ends[r]
            done = row_ends[n_rows]
            bounds[grid_pass * n_blocks + column + 1] = done
            for s in range(n_segments):
                if passes[s] == grid_pass:
                    for p in range(starts[s, column], starts[s, column] + counts[s, column]):
                        centre = np.int64(pairs[p] >> SHIFT)
                        joined[row_ends[centre]] = pairs[p]
                        row_ends[centre] += 1
    return joined, bounds
