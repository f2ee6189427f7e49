"""Random indexing: a term vector is the sum of the rotated seed vectors of the term's neighbours.

    T_w = Σ_(occurrences i of w) Σ_j weight_j · rotate(S_(neighbour i + j), shift_j)    (equation 2.7)

Source: Polok and Smrž, "Implementing Random Indexing on GPU" (2011), Algorithm 2.1 and equations 2.4 to 2.7.

How: T_w is a sum over the occurrences of w. So tokens are taken in word order, and the sums of the current word stay in
one row in the first-level cache. The row is copied to the result when the word is complete. So the memory of the result
is written once, and need not be cleared before. Neighbours of frequent words are counted before they are added: for all
occurrences of one neighbour at one offset, its seed is added once, times the count. That is exact, because the sums are
integers.

A rotation adds the shift to the index, without a test or a modulo. The index may therefore lie up to ``halo`` cells
before or after the word's sums. When the word is complete, `_finish` adds these cells to the other end.

Numbers of 16 bits halve the memory of the result. A word that is too frequent for them has several rows.

Layout: the occurrences of a word are cut into pieces of at most PIECE. A sparse seed is ``pairs`` uint32, each with the
position of a +1 in its lower half and of a -1 in its upper half. The null term's seed has both at position 0, so that
it adds nothing. Dense seeds are slabs of WIDTH columns, so that the frequent rows of a slab stay in the second-level
cache.

Reference implementation: tests/helpers/naive.py, `ri_train`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..jit import kernel, vector_kernel
from ..simd.lanes import load, splat, store
from ..simd.prefetch import prefetch
from .rows import sum_at
from .text import Tokens, Window

#: Occurrences of one word that are summed in one row. Their neighbours fill one row of the buffer per offset. All rows
#: stay in the second-level cache.
PIECE = 1 << 13
#: The length of a row of the buffer. At a power of two, all rows would compete for the same sets of the cache.
BUFFER_STRIDE = PIECE + 16
#: Columns of a slab of dense seeds: eight vectors of eight. A chunk's slab stays in L3, its frequent rows in L2.
WIDTH = 64
#: Occurrences whose neighbours are listed at once if seeds are dense.
BATCH = 1 << 19
#: Neighbours of pieces with fewer occurrences are added one by one, which takes less time than counting them.
COUNTED = 32
#: Sums have 32 bits if so few occurrences of a word could exceed 16 bits.
FEW = 1000
#: Steps between the prefetch of a sparse seed and its use.
AHEAD = 10
#: The same for a dense row, and for a position in the text.
ROWS_AHEAD = 16
TEXT_AHEAD = 24
#: Pairs of a seed in a cache line.
PAIRS_PER_LINE = 16
#: Mask of the +1, and shift of the -1, in a pair of positions.
LOW = np.uint32(0xFFFF)
HALF = np.uint32(16)
INT32_MAX = 2**31 - 1


class PieceSums(NamedTuple):
    """The sums of P pieces of words' occurrences. A frequent word has several pieces."""

    words: np.ndarray  # (P,) int64: the number of each piece's word
    rows: np.ndarray  # (P, D) int16 or int32


class NeighbourLists(NamedTuple):
    """The counted neighbours of a batch of pieces: one list per piece and shift, L in all."""

    ptr: np.ndarray  # (L + 1,) int64
    items: np.ndarray  # (entries,) uint32
    counts: np.ndarray  # (entries,) float32


# --- counting neighbours ---


def cut_pieces(occurrence_ptr: np.ndarray, size: int = PIECE) -> np.ndarray:
    """Cut the occurrences of each word into pieces ``occurrences[first:stop]``: (P, 3) int64, word, first and stop.

    A piece has at most ``size`` occurrences.
    """
    words = np.repeat(np.arange(len(occurrence_ptr) - 1), -(-np.diff(occurrence_ptr) // size))
    nth = np.arange(len(words)) - np.searchsorted(words, words)
    first = occurrence_ptr[words] + nth * size
    return np.stack([words, first, np.minimum(first + size, occurrence_ptr[words + 1])], axis=1)


@kernel
def _collect(text: np.ndarray, occurrences: np.ndarray, offsets: np.ndarray, buffer: np.ndarray) -> None:
    """Copy the neighbours of all occurrences to ``buffer``, one row per offset, in one pass over the text."""
    last = len(occurrences) - 1
    for i in range(len(occurrences)):
        prefetch(text, np.int64(occurrences[min(i + TEXT_AHEAD, last)]))
        for j in range(len(offsets)):
            buffer[j, i] = text[np.int64(occurrences[i]) + offsets[j]]


@kernel
def _tally(neighbours: np.ndarray, n: int, weight: int, count: np.ndarray, touched: np.ndarray, n_touched: int) -> int:
    """Add ``weight`` to the count of each of n neighbours; return the new length of the list ``touched``."""
    for i in range(n):
        w = neighbours[i]
        c = count[w]
        # Write always and advance only for a new neighbour, without a branch that would be mispredicted.
        touched[n_touched] = w
        n_touched += c == 0
        count[w] = c + weight
    return n_touched


# --- sparse seeds ---


def accumulate(tokens: Tokens, window: Window, seeds: np.ndarray, dimension: int) -> np.ndarray:
    """Sum equation 2.7 over the words of ``tokens.occurrence_ptr``: (words, dimension) int32, exactly.

    ``seeds`` (items, pairs) uint32, one row per number that occurs in the text. Raises OverflowError if a sum exceeds
    2^31 - 1.
    """
    n_words = len(tokens.occurrence_ptr) - 1
    return sum_at(n_words, [sum_pieces(tokens, window, with_null(seeds), dimension, np.ones(n_words, bool))])


def with_null(seeds: np.ndarray) -> np.ndarray:
    """Return seeds (items, pairs) with the seed of the null term as the last one."""
    return np.concatenate([seeds, np.zeros((1, seeds.shape[1]), seeds.dtype)])


class Scratch(NamedTuple):
    """Memory of `_accumulate` for I items, the null term included. It is left as it was, except for the last two."""

    row: np.ndarray  # (D + 2 * halo,) int16 or int32: zeros
    counts: np.ndarray  # (I,), the same type, because the largest sum bounds the counts too: zeros
    touched: np.ndarray  # (I + 1,) uint32
    buffer: np.ndarray  # (J, BUFFER_STRIDE) uint32


def make_scratch(window: Window, n_items: int, dimension: int) -> Scratch:
    """Return scratch for sums over this window."""
    dtype, _ = _type_and_size(window)
    return Scratch(
        row=np.zeros(dimension + 2 * window.halo, dtype),
        counts=np.zeros(n_items, dtype),
        touched=np.empty(n_items + 1, np.uint32),
        buffer=np.empty((len(window.offsets), BUFFER_STRIDE), np.uint32),
    )


def sum_pieces(
    tokens: Tokens,
    window: Window,
    seeds: np.ndarray,
    dimension: int,
    wanted: np.ndarray,
    scratch: Scratch | None = None,
) -> PieceSums:
    """Sum equation 2.7 over the pieces of some words, those of the mask ``wanted`` (words,) bool. See `accumulate`.

    The last of the ``seeds`` is that of the null term.
    """
    if scratch is None:
        scratch = make_scratch(window, len(seeds), dimension)
    _, size = _type_and_size(window)
    pieces = cut_pieces(tokens.occurrence_ptr, size)
    pieces = pieces[wanted[pieces[:, 0]]]
    rows = np.empty((len(pieces), dimension), scratch.row.dtype)
    # A tuple, because its length is part of its type: the compiler unrolls the loop over a seed.
    pairs = tuple(range(seeds.shape[1]))
    _accumulate(tokens, pieces, window, seeds.ravel(), pairs, scratch, rows)
    return PieceSums(pieces[:, 0], rows)


def _type_and_size(window: Window) -> tuple[type[np.signedinteger], int]:
    """Return the type of sums, and how many occurrences of a word cannot exceed it. Positions of a seed differ."""
    weight = int(window.weights.sum(dtype=np.int64))
    for dtype in (np.int16, np.int32):
        size = int(np.iinfo(dtype).max) // weight
        if size >= FEW:
            return dtype, min(size, PIECE)
    raise OverflowError(f"the weights of a window sum up to {weight}: make the window smaller, or weigh uniformly")


@kernel
def _accumulate(
    tokens: Tokens,
    pieces: np.ndarray,
    window: Window,
    seeds: np.ndarray,
    pairs: tuple[int, ...],
    scratch: Scratch,
    out: np.ndarray,
) -> None:
    """Sum each piece (P, 3) into a row of ``out`` (P, D). The last of the ``seeds`` is that of the null term."""
    row, counts, touched, buffer = scratch
    halo = (len(row) - out.shape[1]) // 2
    null = len(counts) - 1
    for p in range(len(pieces)):
        lo, hi = pieces[p, 1], pieces[p, 2]
        occurrences = tokens.occurrences[lo:hi]
        if len(occurrences) < COUNTED:
            _add_each(tokens.text, occurrences, window, seeds, pairs, row, halo)
            _finish(row, halo, out[p])
            continue
        _collect(tokens.text, occurrences, window.offsets, buffer)
        # The null term has a count from the start. So it is never new, and is not listed.
        counts[null] = 1
        # A literal 0 would be a type of its own, for which `_tally` would be compiled once more.
        n_touched = np.int64(0)
        for j in range(len(window.offsets)):
            n_touched = _tally(buffer[j], hi - lo, window.weights[j], counts, touched, n_touched)
            # Offsets with the same shift follow one another, and are added together.
            if j + 1 == len(window.offsets) or window.shifts[j + 1] != window.shifts[j]:
                _scatter(row, window.shifts[j] + halo, seeds, pairs, touched, n_touched, counts)
                n_touched = np.int64(0)
        _finish(row, halo, out[p])


@kernel
def _add_each(
    text: np.ndarray,
    occurrences: np.ndarray,
    window: Window,
    seeds: np.ndarray,
    pairs: tuple[int, ...],
    row: np.ndarray,
    halo: int,
) -> None:
    """Add the rotated seeds of the neighbours of each occurrence, times their weights."""
    last = len(occurrences) - 1
    for i in range(len(occurrences)):
        # The seeds of the next occurrence are loaded into the cache while those of this one are added.
        ahead = np.int64(occurrences[min(i + 1, last)])
        for j in range(len(window.offsets)):
            prefetch(seeds, np.int64(text[ahead + window.offsets[j]]) * len(pairs))
        here = np.int64(occurrences[i])
        for j in range(len(window.offsets)):
            first = np.int64(text[here + window.offsets[j]]) * len(pairs)
            first_cell = np.uint32(window.shifts[j] + halo)
            weight = window.weights[j]
            for k in range(len(pairs)):
                pair = seeds[first + k]
                row[(pair & LOW) + first_cell] += weight
                row[(pair >> HALF) + first_cell] -= weight


@kernel
def _scatter(
    row: np.ndarray,
    shift: int,
    seeds: np.ndarray,
    pairs: tuple[int, ...],
    touched: np.ndarray,
    n_touched: int,
    count: np.ndarray,
) -> None:
    """Add the rotated seeds of the listed neighbours, times their counts, and clear the counts."""
    first_cell = np.uint32(shift)
    for t in range(n_touched):
        # The seeds of a later neighbour are loaded into the cache while this one is added.
        ahead = np.int64(touched[min(t + AHEAD, n_touched - 1)]) * len(pairs)
        for line in range(0, len(pairs), PAIRS_PER_LINE):
            prefetch(seeds, ahead + line)
        w = touched[t]
        c = count[w]
        count[w] = 0
        first = np.int64(w) * len(pairs)
        for k in range(len(pairs)):
            pair = seeds[first + k]
            row[(pair & LOW) + first_cell] += c
            row[(pair >> HALF) + first_cell] -= c


@kernel
def _finish(row: np.ndarray, halo: int, out: np.ndarray) -> None:
    """Move the sums beyond either end of the row to its other end, copy the row to ``out`` (D,), and clear it."""
    dimension = len(out)
    for k in range(halo):
        row[halo + (k - halo) % dimension] += row[k]
        row[halo + k % dimension] += row[halo + dimension + k]
    sums = row[halo : halo + dimension]
    for k in range(dimension):
        out[k] = sums[k]
    for k in range(len(row)):
        row[k] = 0


# --- dense seeds ---


def make_slabs(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Normalise some rows of several blocks, and cut them by columns: (slabs, n, WIDTH) float32.

    Each part has a block (V, D), and which of its rows are wanted. The last slab is padded with zeros.
    """
    n = sum(len(rows) for _, rows in parts)
    dimension = parts[0][0].shape[1]
    slabs = np.zeros((-(-dimension // WIDTH), n, WIDTH), np.float32)
    first = 0
    for block, rows in parts:
        _fill_slabs(block, rows, slabs, first)
        first += len(rows)
    return slabs


@vector_kernel
def _fill_slabs(block: np.ndarray, rows: np.ndarray, slabs: np.ndarray, first: int) -> None:
    """Write the normalised rows ``rows`` (n,) of a block (V, D) to the rows of the slabs from ``first`` on."""
    dimension = block.shape[1]
    for r in range(len(rows)):
        row = block[rows[r]]
        scale = _scale(row)
        for s in range(len(slabs)):
            for k in range(min(WIDTH, dimension - s * WIDTH)):
                slabs[s, first + r, k] = row[s * WIDTH + k] * scale


@vector_kernel
def _scale(row: np.ndarray) -> np.float32:
    """Return 1 / length of a row (D,), summed in float64; 0 for a row of zeros."""
    square = 0.0
    for k in range(len(row)):
        square += np.float64(row[k]) * np.float64(row[k])
    return np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(0.0)


def accumulate_dense(tokens: Tokens, window: Window, slabs: np.ndarray, first: int, out: np.ndarray) -> None:
    """Add equation 2.7 with dense seeds to ``out`` (words, D) float32.

    ``slabs`` hold the words from number ``first`` on. Other neighbours add nothing, so seeds may come in blocks. Sums
    run in a fixed order.
    """
    pieces = cut_pieces(tokens.occurrence_ptr)
    # Offsets with the same rotation share one list of neighbours. `groups` has the last offset of each.
    groups = np.r_[np.flatnonzero(np.diff(window.shifts)), len(window.shifts) - 1]
    shifts = window.shifts[groups]
    ends = np.cumsum(pieces[:, 2] - pieces[:, 1])
    start = 0
    while start < len(pieces):
        done = ends[start - 1] if start else 0
        # About BATCH occurrences at a time bound the memory of the lists.
        stop = max(start + 1, int(np.searchsorted(ends, done + BATCH, side="right")))
        lists = _list_neighbours(tokens, pieces[start:stop], window, first, slabs.shape[1])
        for s, slab in enumerate(slabs):
            _multiply(lists, pieces[start:stop, 0], shifts, window.halo, slab.ravel(), s * WIDTH, out)
        start = stop


@kernel
def _list_neighbours(tokens: Tokens, pieces: np.ndarray, window: Window, first: int, n_seeds: int) -> NeighbourLists:
    """Count the neighbours of pieces (P, 3) that have the numbers first to first + n_seeds, for each shift."""
    null = len(tokens.ids)
    n_offsets = len(window.offsets)
    count = np.zeros(null + 1, np.int32)
    touched = np.empty(null + 2, np.uint32)
    buffer = np.empty((n_offsets, BUFFER_STRIDE), np.uint32)
    bound = n_offsets * (pieces[-1, 2] - pieces[0, 1])
    ptr = np.zeros(len(pieces) * n_offsets + 1, np.int64)
    items = np.empty(bound, np.uint32)
    counts = np.empty(bound, np.float32)
    n_lists = 0
    n_touched = 0
    end = 0
    for p in range(len(pieces)):
        lo, hi = pieces[p, 1], pieces[p, 2]
        _collect(tokens.text, tokens.occurrences[lo:hi], window.offsets, buffer)
        # The null word must not be listed as a neighbour. A count above 0 means that a word is listed already.
        count[null] = 1
        for j in range(n_offsets):
            n_touched = _tally(buffer[j], hi - lo, window.weights[j], count, touched, n_touched)
            # The next offset has the same rotation, so its neighbours join this list.
            if j + 1 < n_offsets and window.shifts[j + 1] == window.shifts[j]:
                continue
            for t in range(n_touched):
                w = np.int64(touched[t])
                if first <= w < first + n_seeds:
                    items[end] = w - first
                    counts[end] = count[w]
                    end += 1
                count[w] = 0
            n_touched = 0
            n_lists += 1
            ptr[n_lists] = end
    return NeighbourLists(ptr[: n_lists + 1], items[:end], counts[:end])


@kernel
def _multiply(
    lists: NeighbourLists,
    words: np.ndarray,
    shifts: np.ndarray,
    halo: int,
    slab: np.ndarray,
    column: int,
    out: np.ndarray,
) -> None:
    """Add the rows of one slab, times their counts, to the columns from ``column`` on of each piece's word (P,)."""
    acc = np.zeros(WIDTH + 2 * halo, np.float32)
    for p in range(len(words)):
        for g in range(len(shifts)):
            index = p * len(shifts) + g
            _add_list(lists, lists.ptr[index], lists.ptr[index + 1], slab, acc, shifts[g] + halo)
        # Rotated columns that left the slab are in the halo. They belong to other columns of the row.
        _fold_slab(acc, column - halo, out[words[p]])


@kernel
def _add_list(lists: NeighbourLists, lo: int, hi: int, slab: np.ndarray, acc: np.ndarray, at: int) -> None:
    """Add the rows of one list, times their counts, to ``acc[at:at + WIDTH]``, which stays in eight registers."""
    a, b, c, d = load(acc, at), load(acc, at + 8), load(acc, at + 16), load(acc, at + 24)
    e, f, g, h = load(acc, at + 32), load(acc, at + 40), load(acc, at + 48), load(acc, at + 56)
    last = len(lists.items) - 1
    for i in range(lo, hi):
        ahead = np.int64(lists.items[min(i + ROWS_AHEAD, last)]) * WIDTH
        for line in (0, 16, 32, 48):
            prefetch(slab, ahead + line)
        x = splat(lists.counts[i])
        r = np.int64(lists.items[i]) * WIDTH
        a = a + x * load(slab, r)
        b = b + x * load(slab, r + 8)
        c = c + x * load(slab, r + 16)
        d = d + x * load(slab, r + 24)
        e = e + x * load(slab, r + 32)
        f = f + x * load(slab, r + 40)
        g = g + x * load(slab, r + 48)
        h = h + x * load(slab, r + 56)
    store(acc, at, a), store(acc, at + 8, b), store(acc, at + 16, c), store(acc, at + 24, d)
    store(acc, at + 32, e), store(acc, at + 40, f), store(acc, at + 48, g), store(acc, at + 56, h)


@kernel
def _fold_slab(acc: np.ndarray, first: int, row: np.ndarray) -> None:
    """Move a slab's sums to the columns of a row (D,) from ``first`` on, wrapped around at both ends."""
    dimension = len(row)
    if first >= 0 and first + len(acc) <= dimension:
        for k in range(len(acc)):
            row[first + k] += acc[k]
    else:
        for k in range(len(acc)):
            row[(first + k) % dimension] += acc[k]
    acc[:] = 0


@vector_kernel
def normalised(rows: np.ndarray) -> np.ndarray:
    """Divide rows (n, D) int32 or float32 by their Euclidean length: (n, D) float32. Rows of zeros stay zero."""
    out = np.empty(rows.shape, np.float32)
    for r in range(len(rows)):
        scale = _scale(rows[r])
        for k in range(rows.shape[1]):
            out[r, k] = rows[r, k] * scale
    return out
