"""Random indexing in passes of work-items: the paper's own form (sections 4 and 5), to compare with.

A thread sums one work-item, up to SLICE occurrences of one word, in device memory. Work-items of a primary pass are of
different words, so that they need no atomics. What remains of a word beside whole work-items comes first, in unaligned
passes; aligned ones follow, slice by slice. Where a slice has too few words, the work-items that remain go into a bank
of dummy vectors each, in secondary passes, and the banks are added up.
"""

from typing import NamedTuple

import numpy as np
from corpusmill.kernels.cuda.jit import device, kernel, launch
from corpusmill.kernels.cuda.memory import fetched, filled, resident
from corpusmill.kernels.cuda.random_indexing.accumulate import (
    HALF,
    LOW,
    THREADS,
    check_sums,
    rotated,
    text_of,
    window_of,
    zeros,
)
from corpusmill.kernels.random_indexing.text import Tokens, Window
from numba import cuda

#: Occurrences of a work-item.
SLICE = 32
#: Work-items of a pass at most, of a primary pass at least, and of the last primary one (section 7).
LARGEST, SMALLEST, SMALLEST_LAST = 12_500, 2_000, 200
#: Vectors of the dummy banks.
BANKS = 10_000


class Pass(NamedTuple):
    """Work-items that threads do side by side."""

    words: np.ndarray  # (n,) int64
    first: np.ndarray  # (n,) int64: their first occurrences
    lengths: np.ndarray  # (n,) int64: their occurrences
    primary: bool  # whether they are added to the words' own rows

    @property
    def aligned(self) -> bool:
        """Whether all work-items are whole."""
        return bool((self.lengths == SLICE).all())


def passes_of(ptr: np.ndarray) -> list[Pass]:
    """Divide words' occurrences, (n + 1,) int64, into passes as figure 4.2 has it."""
    left, rest = np.diff(ptr) // SLICE, np.diff(ptr) % SLICE
    words = np.flatnonzero(rest)
    # Items of alike lengths are side by side: the threads of a warp end together.
    words = words[np.argsort(rest[words], kind="stable")]
    found = _cut(Pass(words, ptr[words], rest[words], True), LARGEST)
    at = ptr[:-1] + rest
    while np.count_nonzero(left) >= SMALLEST:
        words = np.flatnonzero(left)
        found += _cut(_whole(words, at[words], True), LARGEST)
        at[words] += SLICE
        left[words] -= 1
    last = np.flatnonzero(left == 1)
    last = last if len(last) >= SMALLEST_LAST else last[:0]
    left[last] = 0
    words = np.repeat(np.arange(len(left)), left)
    nth = np.arange(len(words)) - np.searchsorted(words, words)
    found += _cut(_whole(words, at[words] + nth * SLICE, False), BANKS)
    return found + _cut(_whole(last, at[last], True), LARGEST)


def _whole(words: np.ndarray, first: np.ndarray, primary: bool) -> Pass:
    return Pass(words, first, np.full(len(words), SLICE), primary)


def _cut(whole: Pass, most: int) -> list[Pass]:
    parts = [slice(first, first + most) for first in range(0, len(whole.words), most)]
    return [Pass(whole.words[p], whole.first[p], whole.lengths[p], whole.primary) for p in parts]


def accumulate(tokens: Tokens, window: Window, seeds: np.ndarray, dimension: int) -> np.ndarray:
    """Return what random_indexing.py's function does, to the bit."""
    check_sums(tokens, window)
    out = zeros((len(tokens.occurrence_ptr) - 1, dimension), np.int32)
    where = text_of(tokens), window_of(window, dimension), resident(seeds)
    for items in passes_of(tokens.occurrence_ptr):
        n, words = len(items.words), filled(items.words)
        rows, target = (words, out) if items.primary else (filled(np.arange(n)), zeros((n, dimension), np.int32))
        function = _aligned if items.aligned else _unaligned
        work = rows, filled(items.first), filled(items.lengths)
        launch(function, -(-n // THREADS), THREADS, *where, work, target)
        if not items.primary:
            launch(_add_banks, -(-n * dimension // THREADS), THREADS, words, target, out)
    return fetched(out)


@kernel
def _aligned(text, window, seeds, work, out):
    """Sum whole work-items: the loop's length is known to the compiler."""
    rows, first, _ = work
    item = cuda.grid(1)
    if item < len(rows):
        for i in range(SLICE):
            _add_occurrence(text, window, seeds, first[item] + i, rows[item], out)


@kernel
def _unaligned(text, window, seeds, work, out):
    rows, first, lengths = work
    item = cuda.grid(1)
    if item < len(rows):
        for i in range(lengths[item]):
            _add_occurrence(text, window, seeds, first[item] + i, rows[item], out)


@device
def _add_occurrence(text, window, seeds, i, row, out):
    (words, at), (offsets, shifts, weights) = text, window
    dimension = np.int64(out.shape[1])
    for j in range(len(offsets)):
        w = words[np.int64(at[i]) + offsets[j]]
        if w < len(seeds):
            for k in range(seeds.shape[1]):
                out[row, rotated(np.int64(seeds[w, k] & LOW), shifts[j], dimension)] += weights[j]
                out[row, rotated(np.int64(seeds[w, k] >> HALF), shifts[j], dimension)] -= weights[j]


@kernel
def _add_banks(words, banks, out):
    """Add the dummy banks to the rows of their words, a thread an element: the summation step."""
    dimension = banks.shape[1]
    i = cuda.grid(1)
    if i < banks.size and banks[i // dimension, i % dimension]:
        cuda.atomic.add(out, (words[i // dimension], i % dimension), banks[i // dimension, i % dimension])
