"""Split the pairs of a chunk by the blocks of their words, for training in cells.

A pair is a word (the centre, a row of W_in) and one of its neighbours (the context, a row of W_out). In par.py
and full.py the matrices are the other way round, see cells.py. Each word draws how far its window reaches, from 1 to
``window``, as there. Cell (i, j) has the pairs whose centre is in block i and whose context is in block j.

Repetitions can be thinned: the n-th occurrence of a word among ``passage`` kept words of a document is a centre only
with the probability n^-1/2. In the order of the text, vectors adapt to the topic of a passage, and its further pairs
move them little. Cells train the pairs of a passage far apart, so without thinning all of its repetitions count fully.

Steps, per chunk:

1. `_thin`: drop tokens of frequent words at random, look up the places of the others, and clip each window to its
   document.
2. Per pass: `_sort_by_row`, a counting sort of the kept tokens by word.
3. Per pass and row block i: `_windows` writes the contexts of all its words, one word after the other, and `_spread`
   deals them to the cells. So the pairs of a cell come out sorted by centre, without a sort of pairs.

Layout: a pair is a uint32, the centre's row in its block << 16 | the context's row in its block.

Reference implementation: tests/helpers/naive_cells.py, `pairs_of`.
"""

import numpy as np

from ..jit import kernel
from ..random import FLOAT32_STEP, S40, draw, uniform
from ..simd.lanes import LANES, load, store
from ..simd.prefetch import prefetch

#: Tokens between the prefetch of a window and its copy.
AHEAD = 12
LOW = np.uint32(0xFFFF)
SHIFT = np.uint32(16)


@kernel
def split_pairs(
    ptr: np.ndarray,
    passes: np.ndarray,
    words: np.ndarray,
    places: np.ndarray,
    keep: np.ndarray,
    window: int,
    subsampling_key: np.uint64,
    windows_key: np.uint64,
    n_blocks: int,
    passage: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of a chunk (n,) uint32, and how many each cell has in each pass: (passes, P, P) int64.

    ``ptr`` (D + 1,) int64 are the bounds of some or all of the chunk's documents, ``words`` (T,) uint32 its tokens in
    document order; words from V on are dropped. Pass p is trained with the documents ``passes[p]:passes[p + 1]``.
    ``places`` (V,) uint32 is block << 16 | row in the block, ``keep`` (V,) float32 the probability that a token is
    kept. ``window`` is at most 255. With a ``passage`` of 0, all repetitions are centres.

    The pairs of row block 0 come first, then those of row block 1, and so on. Those of a row block come pass by pass,
    and those of a pass cell by cell. Within a cell, pairs are sorted by centre, and pairs of a centre are in the order
    of the text.
    """
    n_passes = len(passes) - 1
    keys = (subsampling_key, windows_key)
    codes, spans, bounds, sizes = _thin(ptr, passes, words, places, keep, window, keys, n_blocks, passage)
    first_rows = _first_rows(places, n_blocks)
    starts, most_pairs = _starts(sizes)
    pairs = np.empty(starts[-1], np.uint32)
    counts = np.zeros((n_passes, n_blocks, n_blocks), np.int64)
    ends = np.zeros(n_blocks, np.int64)
    # The copy of a window writes whole vectors, so it may write LANES numbers too many.
    contexts = np.empty(most_pairs + LANES, np.uint32)
    totals = np.empty(_most_rows(first_rows), np.int64)
    for p in range(n_passes):
        row_ends, entries = _sort_by_row(codes, spans, bounds[p], bounds[p + 1], first_rows)
        for i in range(n_blocks):
            first, last = first_rows[i], first_rows[i + 1]
            _windows(codes, entries, row_ends, first, last, contexts, totals)
            for r in range(sizes[i, p]):
                counts[p, i, np.int64(contexts[r] >> SHIFT)] += 1
            done = starts[i * n_passes + p]
            for j in range(n_blocks):
                ends[j] = done
                done += counts[p, i, j]
            _spread(contexts, totals, last - first, ends, pairs)
    return pairs, counts


@kernel
def _thin(
    ptr: np.ndarray,
    passes: np.ndarray,
    words: np.ndarray,
    places: np.ndarray,
    keep: np.ndarray,
    window: int,
    keys: tuple[np.uint64, np.uint64],
    n_blocks: int,
    passage: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the places of the kept tokens, their windows, each pass's bounds, and numbers of pairs (P, passes) int64.

    A window is left << 8 | right: how many neighbours a token has on each side, none if the token is no centre.
    Documents with fewer than two tokens are dropped. The bounds (passes + 1,) int64 are those of the kept tokens. The
    pairs are counted by the block of their centres.
    """
    subsampling_key, windows_key = keys
    most = ptr[-1] - ptr[0]
    codes = np.empty(most + LANES, np.uint32)
    spans = np.empty(most + 1, np.uint16)
    bounds = np.zeros(len(passes), np.int64)
    sizes = np.zeros((n_blocks, len(passes) - 1), np.int64)
    # The number of the last passage that has a word, and how often it has it. The first passage is number 1.
    last_passages = np.zeros(len(keep) if passage else 0, np.uint32)
    occurrences = np.empty(len(last_passages), np.uint32)
    passages = 0
    n = 0
    for p in range(len(passes) - 1):
        for d in range(passes[p], passes[p + 1]):
            start = n
            for i in range(ptr[d], ptr[d + 1]):
                word = words[i]
                if word < len(keep) and uniform(subsampling_key, i) < keep[word]:
                    drawn = draw(windows_key, i)
                    codes[n] = places[word]
                    spans[n] = window - np.int64(drawn % np.uint64(window))
                    if passage:
                        if (n - start) % passage == 0:
                            passages += 1
                        if not _is_centre(drawn, _count(word, passages, last_passages, occurrences)):
                            spans[n] = 0
                    n += 1
            if n - start < 2:
                n = start
            for k in range(start, n):
                span = _clipped(np.int64(spans[k]), k - start, n - 1 - k)
                spans[k] = span
                sizes[np.int64(codes[k] >> SHIFT), p] += (span >> 8) + (span & 255)
        bounds[p + 1] = n
    return codes, spans, bounds, sizes


@kernel(inline="always")
def _count(word: np.uint32, passage: int, last_passages: np.ndarray, occurrences: np.ndarray) -> np.int64:
    """Count one more occurrence of a word, and return how many the passage has so far."""
    if last_passages[word] != passage:
        last_passages[word] = passage
        occurrences[word] = 0
    occurrences[word] += np.uint32(1)
    return np.int64(occurrences[word])


@kernel(inline="always")
def _is_centre(drawn: np.uint64, occurrence: np.int64) -> bool:
    """Decide by the upper bits of a draw, with the probability n^-1/2 for the n-th occurrence of a word."""
    u = np.float64(drawn >> S40) * FLOAT32_STEP
    return bool(u * u * occurrence < 1)


@kernel(inline="always")
def _clipped(reach: int, before: int, after: int) -> int:
    """Return the window of a token with ``before`` and ``after`` tokens of its document on its two sides."""
    return min(reach, before) << 8 | min(reach, after)


@kernel
def _first_rows(places: np.ndarray, n_blocks: int) -> np.ndarray:
    """Return the first row of each block, for blocks that are stored one after another: (P + 1,) int64."""
    first_rows = np.zeros(n_blocks + 1, np.int64)
    for word in range(len(places)):
        first_rows[np.int64(places[word] >> SHIFT) + 1] += 1
    for block in range(n_blocks):
        first_rows[block + 1] += first_rows[block]
    return first_rows


@kernel
def _starts(sizes: np.ndarray) -> tuple[np.ndarray, np.int64]:
    """Return where the pairs of each row block and pass begin, for ``sizes`` (P, passes) int64, and the largest size.

    The starts are (P * passes + 1,) int64; the last one is the number of all pairs. Loops, because Numba takes seconds
    to compile NumPy's sums and differences for the first time.
    """
    n_blocks, n_passes = sizes.shape
    starts = np.zeros(n_blocks * n_passes + 1, np.int64)
    most = np.int64(0)
    for i in range(n_blocks):
        for p in range(n_passes):
            at = i * n_passes + p
            starts[at + 1] = starts[at] + sizes[i, p]
            most = max(most, sizes[i, p])
    return starts, most


@kernel
def _most_rows(first_rows: np.ndarray) -> np.int64:
    """Return the number of rows of the largest block."""
    most = np.int64(0)
    for block in range(len(first_rows) - 1):
        most = max(most, first_rows[block + 1] - first_rows[block])
    return most


@kernel
def _sort_by_row(
    codes: np.ndarray, spans: np.ndarray, first: int, last: int, first_rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sort the kept tokens ``first`` to ``last - 1`` by the row of their word.

    Returns ``ends`` (V + 1,) int64 and ``entries`` (n,) int64. Row r has the entries ``ends[r]:ends[r + 1]``. An entry
    is the token's position among all kept tokens << 16 | its window.
    """
    ends = np.zeros(first_rows[-1] + 2, np.int64)
    for k in range(first, last):
        ends[first_rows[np.int64(codes[k] >> SHIFT)] + np.int64(codes[k] & LOW) + 2] += 1
    for r in range(1, len(ends)):
        ends[r] += ends[r - 1]
    entries = np.empty(last - first, np.int64)
    # During the loop, ends[row + 1] is the index of the row's next entry. At the end of the loop, it is the row's end.
    for k in range(first, last):
        row = first_rows[np.int64(codes[k] >> SHIFT)] + np.int64(codes[k] & LOW)
        entries[ends[row + 1]] = k << 16 | np.int64(spans[k])
        ends[row + 1] += 1
    return ends[:-1], entries


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
            # Whole vectors are copied. The next copy overwrites the numbers after the end of the window.
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
