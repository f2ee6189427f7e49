"""Random indexing: term vectors as sums of rotated seed vectors (Polok, Smrž: Random indexing on GPU, 2011).

The context of a word is a sum over its occurrences, so tokens are taken in word order and one row is summed in the L1
cache. Neighbours are counted before they are added: a seed is added once for all occurrences of the same neighbour at
the same offset, exactly, since sums are integers. A rotated seed may reach beyond either end of its row, into cells
that are put back when the word is done, so that rotation is an addition, without mask or comparison, in any dimension.

Reference implementation: tests/helpers/naive.py, `ri_train`.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel, vector_kernel
from ..simd.lanes import load, splat, store
from ..simd.prefetch import prefetch
from .text import Tokens, Window

#: Occurrences of one word that are counted together: their neighbours, one line an offset, stay in L2.
BLOCK = 1 << 13
#: A line's length: lines that began a power of two apart would take each other's place in the cache.
BUFFER_STRIDE = BLOCK + 16
#: Columns of a slab of dense seeds, eight registers of eight: a chunk's slab stays in L3, its frequent rows in L2.
WIDTH = 64
#: Occurrences whose neighbour lists are held at once when seeds are dense.
BATCH = 1 << 19
#: Seeds and rows are asked for this many steps before they are needed.
AHEAD, ROWS_AHEAD, TEXT_AHEAD = 10, 16, 24
#: Pairs of a seed in a line of the cache.
PAIRS_A_LINE = 16
LOW, HALF = np.uint32(0xFFFF), np.uint32(16)
INT32_MAX = 2**31 - 1


class NeighbourLists(NamedTuple):
    """Neighbours of a batch of blocks, counted: list l is of one piece and one shift."""

    ptr: np.ndarray  # (L + 1,) int64
    items: np.ndarray  # (entries,) uint32
    counts: np.ndarray  # (entries,) float32


# --- counting neighbours ---


def cut_blocks(ptr: np.ndarray) -> np.ndarray:
    """Cut words' occurrences into blocks of at most BLOCK: (P, 3) int64, word, first and last + 1 of ``at``."""
    words = np.repeat(np.arange(len(ptr) - 1), -(-np.diff(ptr) // BLOCK))
    nth = np.arange(len(words)) - np.searchsorted(words, words)
    first = ptr[words] + nth * BLOCK
    return np.stack([words, first, np.minimum(first + BLOCK, ptr[words + 1])], axis=1)


@kernel
def _collect(text, at, offsets, buffer):
    """Copy the neighbours of all occurrences, one line of ``buffer`` an offset: the text is read once."""
    last = len(at) - 1
    for i in range(len(at)):
        prefetch(text, np.int64(at[min(i + TEXT_AHEAD, last)]))
        for j in range(len(offsets)):
            buffer[j, i] = text[np.int64(at[i]) + offsets[j]]


@kernel
def _tally(line, n, weight, count, touched, n_touched):
    """Add ``weight`` to the count of each neighbour; ``touched`` lists those that had none."""
    for i in range(n):
        w = line[i]
        c = count[w]
        touched[n_touched] = w
        n_touched += c == 0
        count[w] = c + weight
    return n_touched


# --- sparse seeds ---


def accumulate(tokens: Tokens, window: Window, seeds: np.ndarray, dimension: int) -> np.ndarray:
    """Sum equation 2.7 over the words of ``ptr``: (words, dimension) int32, exactly.

    ``seeds`` (items, L / 2) uint32 by number in text.
    Raises OverflowError when a word is so frequent in the chunk that a sum might pass 2^31.
    """
    most = int(np.diff(tokens.occurrence_ptr).max(initial=0)) * int(window.weights.sum())
    if most > INT32_MAX:
        raise OverflowError(f"a word's sums in one chunk can reach {most}, above 2^31 - 1: cut the corpus smaller")
    saved = np.zeros(window.halo, np.int32)
    cells = np.zeros((len(tokens.occurrence_ptr) - 1) * dimension + 2 * window.halo, np.int32)
    pairs = tuple(range(seeds.shape[1]))
    _accumulate(tokens, cut_blocks(tokens.occurrence_ptr), window, seeds.ravel(), pairs, dimension, saved, cells)
    return cells[window.halo : len(cells) - window.halo].reshape(-1, dimension)


@kernel
def _accumulate(tokens, blocks, window, seeds, pairs, dimension, saved, cells):
    halo = len(saved)
    null = max(len(tokens.ids), len(seeds) // len(pairs))
    count, touched = np.zeros(null + 1, np.int32), np.empty(null + 2, np.uint32)
    buffer = np.empty((len(window.offsets), BUFFER_STRIDE), np.uint32)
    for p in range(len(blocks)):
        word, lo, hi = blocks[p]
        row = cells[word * dimension : (word + 1) * dimension + 2 * halo]
        saved[:] = row[:halo]
        _collect(tokens.text, tokens.occurrences[lo:hi], window.offsets, buffer)
        count[null] = 1  # so that the null term is never new, hence never touched
        n_touched = 0
        for j in range(len(window.offsets)):
            n_touched = _tally(buffer[j], hi - lo, window.weights[j], count, touched, n_touched)
            if j + 1 == len(window.offsets) or window.shifts[j + 1] != window.shifts[j]:
                _scatter(row, window.shifts[j] + halo, seeds, pairs, touched, n_touched, count)
                n_touched = 0
        _wrap(row, saved)


@kernel
def _scatter(row, shift, seeds, pairs, touched, n_touched, count):
    """Add the rotated seeds of the touched neighbours, times their counts, and clear the counts.

    ``pairs`` is a tuple for its length alone, which the compiler then knows: the loop over a seed is unrolled.
    """
    shift = np.uint32(shift)
    for t in range(n_touched):
        ahead = np.int64(touched[min(t + AHEAD, n_touched - 1)]) * len(pairs)
        for line in range(0, len(pairs), PAIRS_A_LINE):
            prefetch(seeds, ahead + line)
        w = touched[t]
        c = count[w]
        count[w] = 0
        first = np.int64(w) * len(pairs)
        for k in range(len(pairs)):
            pair = seeds[first + k]
            row[(pair & LOW) + shift] += c
            row[(pair >> HALF) + shift] -= c


@kernel
def _wrap(row, saved):
    """Bring in at the other end what was added beyond either; those cells are other words' and get their sums back.

    Before the row they are done, and ``saved``; after it they are not begun, and zero.
    """
    halo = len(saved)
    dimension = len(row) - 2 * halo
    for k in range(halo):
        row[halo + (k - halo) % dimension] += row[k] - saved[k]
        row[k] = saved[k]
        row[halo + k % dimension] += row[halo + dimension + k]
        row[halo + dimension + k] = 0


# --- dense seeds ---


@vector_kernel
def make_slabs(matrix, rows):
    """Normalise the rows ``rows`` of (V, D) and cut them by columns: (D / WIDTH rounded up, n, WIDTH) float32."""
    n, dimension = len(rows), matrix.shape[1]
    slabs = np.zeros((-(-dimension // WIDTH), n, WIDTH), np.float32)
    for r in range(n):
        row = matrix[rows[r]]
        scale = _scale(row)
        for s in range(len(slabs)):
            for k in range(min(WIDTH, dimension - s * WIDTH)):
                slabs[s, r, k] = row[s * WIDTH + k] * scale
    return slabs


@vector_kernel
def _scale(row):
    square = 0.0
    for k in range(len(row)):
        square += np.float64(row[k]) * np.float64(row[k])
    return np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(0.0)


def accumulate_dense(tokens: Tokens, window: Window, slabs: np.ndarray, first: int, out: np.ndarray) -> None:
    """Add equation 2.7 with dense seeds to ``out`` (words, D) float32; slabs hold the words from number ``first`` on.

    Neighbours outside of the slabs add nothing, so that seeds may come in blocks. Sums run in a fixed order.
    """
    blocks = cut_blocks(tokens.occurrence_ptr)
    groups = np.r_[np.flatnonzero(np.diff(window.shifts)), len(window.shifts) - 1]
    shifts = window.shifts[groups]
    ends = np.cumsum(blocks[:, 2] - blocks[:, 1])
    start = 0
    while start < len(blocks):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + BATCH, side="right")))
        lists = _list_neighbours(tokens, blocks[start:stop], window, first, slabs.shape[1])
        for s, slab in enumerate(slabs):
            _multiply(lists, blocks[start:stop, 0], shifts, window.halo, slab.ravel(), s * WIDTH, out)
        start = stop


@kernel
def _list_neighbours(tokens, blocks, window, first, n_seeds):
    null = len(tokens.ids)
    n_offsets = len(window.offsets)
    count, touched = np.zeros(null + 1, np.int32), np.empty(null + 2, np.uint32)
    buffer = np.empty((n_offsets, BUFFER_STRIDE), np.uint32)
    bound = n_offsets * (blocks[-1, 2] - blocks[0, 1])
    ptr = np.zeros(len(blocks) * n_offsets + 1, np.int64)
    items, counts = np.empty(bound, np.uint32), np.empty(bound, np.float32)
    n_lists, n_touched, end = 0, 0, 0
    for p in range(len(blocks)):
        lo, hi = blocks[p, 1], blocks[p, 2]
        _collect(tokens.text, tokens.occurrences[lo:hi], window.offsets, buffer)
        count[null] = 1
        for j in range(n_offsets):
            n_touched = _tally(buffer[j], hi - lo, window.weights[j], count, touched, n_touched)
            if j + 1 < n_offsets and window.shifts[j + 1] == window.shifts[j]:
                continue
            for t in range(n_touched):
                w = np.int64(touched[t])
                if first <= w < first + n_seeds:
                    items[end], counts[end] = w - first, count[w]
                    end += 1
                count[w] = 0
            n_touched = 0
            n_lists += 1
            ptr[n_lists] = end
    return NeighbourLists(ptr[: n_lists + 1], items[:end], counts[:end])


@kernel
def _multiply(lists, words, shifts, halo, slab, column, out):
    """Add the lists' rows of one slab, times their counts; a list is summed in registers."""
    acc = np.zeros(WIDTH + 2 * halo, np.float32)
    for p in range(len(words)):
        for g in range(len(shifts)):
            index = p * len(shifts) + g
            _add_list(lists, lists.ptr[index], lists.ptr[index + 1], slab, acc, shifts[g] + halo)
        _fold_slab(acc, column - halo, out[words[p]])


@kernel
def _add_list(lists, lo, hi, slab, acc, at):
    a, b, c, d = load(acc, at), load(acc, at + 8), load(acc, at + 16), load(acc, at + 24)
    e, f, g, h = load(acc, at + 32), load(acc, at + 40), load(acc, at + 48), load(acc, at + 56)
    last = len(lists.items) - 1
    for i in range(lo, hi):
        ahead = np.int64(lists.items[min(i + ROWS_AHEAD, last)]) * WIDTH
        for line in (0, 16, 32, 48):
            prefetch(slab, ahead + line)
        x, r = splat(lists.counts[i]), np.int64(lists.items[i]) * WIDTH
        a, b, c, d = (
            a + x * load(slab, r),
            b + x * load(slab, r + 8),
            c + x * load(slab, r + 16),
            d + x * load(slab, r + 24),
        )
        e, f, g, h = (
            e + x * load(slab, r + 32),
            f + x * load(slab, r + 40),
            g + x * load(slab, r + 48),
            h + x * load(slab, r + 56),
        )
    store(acc, at, a), store(acc, at + 8, b), store(acc, at + 16, c), store(acc, at + 24, d)
    store(acc, at + 32, e), store(acc, at + 40, f), store(acc, at + 48, g), store(acc, at + 56, h)


@kernel
def _fold_slab(acc, first, row):
    """Move a slab's sums to the columns from ``first`` on; what lies past either end comes in at the other."""
    dimension = len(row)
    if first >= 0 and first + len(acc) <= dimension:
        for k in range(len(acc)):
            row[first + k] += acc[k]
    else:
        for k in range(len(acc)):
            row[(first + k) % dimension] += acc[k]
    acc[:] = 0


# --- rows ---


@kernel
def add_rows(out, rows, sums, sign):
    """Add ``sign`` times ``sums`` (n, D) to the rows ``rows`` (n,) int64 of ``out`` (V, D), all of them integers.

    Returns False where a sum overflows: int64 holds any two int32, so that it is seen before anything wraps.
    """
    exact = True
    for r in range(len(rows)):
        row = out[rows[r]]
        for k in range(len(row)):
            total = np.int64(row[k]) + sign * np.int64(sums[r, k])
            row[k] = total
            exact &= row[k] == total
    return exact


@vector_kernel
def normalised(rows):
    """Divide rows by their Euclidean length: (n, D) float32 of (n, D) int32 or float32; rows of zeros stay."""
    out = np.empty(rows.shape, np.float32)
    for r in range(len(rows)):
        scale = _scale(rows[r])
        for k in range(rows.shape[1]):
            out[r, k] = rows[r, k] * scale
    return out


@vector_kernel
def sum_documents(doc_ptr, words, weights, vectors):
    """Sum weighted term vectors (V, D) float32 by document: (documents, D) float32."""
    out = np.zeros((len(doc_ptr) - 1, vectors.shape[1]), np.float32)
    for d in range(len(out)):
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            w, row = weights[words[i]], vectors[words[i]]
            for k in range(len(row)):
                out[d, k] += w * row[k]
    return out
