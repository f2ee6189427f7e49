"""Random indexing in passes of work-items on a CUDA device, as in the paper, to compare with the shipped kernel.

Source: Polok and Smrž, Implementing Random Indexing on GPU (2011), section 4. Three of its optimisations are missing:
kernels with a bitwise AND for dimensions that are powers of two, Duff's device in the unaligned passes, and first
passes in which all work-items have equal lengths.

A work-item is up to `SLICE` occurrences of one word. A thread sums one work-item in device memory. There are three
kinds of passes:

- Unaligned primary passes come first. They have what remains of each word beside its whole work-items.
- Aligned primary passes have one whole work-item of each word, so that no two threads add to the same row.
- Secondary passes have the rest, once too few words have work-items left. Each work-item is added to a dummy vector of
  its own. Then `_add_banks` adds the dummy vectors to the rows.

Tested against the CPU's sums: tests/benchmarks/papers/test_random_indexing_passes.py.
"""

from typing import NamedTuple

import numpy as np
from corpusmill.kernels.cuda.jit import device, kernel
from corpusmill.kernels.cuda.launch import launch
from corpusmill.kernels.cuda.memory import cached_copy, download, upload
from corpusmill.kernels.cuda.random_indexing.accumulate import (
    HALF,
    LOW,
    THREADS,
    check_sums,
    rotated,
    text_on_device,
    upload_window,
    zeros,
)
from corpusmill.kernels.random_indexing.text import Tokens, Window
from numba import cuda

#: Occurrences of a work-item.
SLICE = 32
#: Work-items of a pass, at most.
LARGEST = 12_500
#: Words with a work-item left, at least, for another aligned pass (section 7), and for the last one.
SMALLEST = 2_000
SMALLEST_LAST = 200
#: Dummy vectors of a secondary pass.
BANKS = 10_000


class Pass(NamedTuple):
    """n work-items that run in one launch."""

    words: np.ndarray  # (n,) int64
    first: np.ndarray  # (n,) int64: their first occurrences
    lengths: np.ndarray  # (n,) int64: their occurrences
    primary: bool  # whether they are added to the words' own rows

    @property
    def aligned(self) -> bool:
        """Whether all work-items are whole."""
        return bool((self.lengths == SLICE).all())


def passes_of(occurrence_ptr: np.ndarray) -> list[Pass]:
    """Divide words' occurrences, (n + 1,) int64, into passes as in figure 4.2."""
    occurrences = np.diff(occurrence_ptr)
    left = occurrences // SLICE  # whole work-items of each word
    rest = occurrences % SLICE
    words = np.flatnonzero(rest)
    # Work-items of similar length lie side by side, so that the threads of a warp end together.
    words = words[np.argsort(rest[words], kind="stable")]
    found = _cut(Pass(words, occurrence_ptr[words], rest[words], True), LARGEST)

    next_first = occurrence_ptr[:-1] + rest
    while np.count_nonzero(left) >= SMALLEST:
        words = np.flatnonzero(left)
        found += _cut(_whole_items(words, next_first[words], True), LARGEST)
        next_first[words] += SLICE
        left[words] -= 1

    last = np.flatnonzero(left == 1)
    if len(last) < SMALLEST_LAST:
        last = last[:0]
    left[last] = 0
    words = np.repeat(np.arange(len(left)), left)
    nth = np.arange(len(words)) - np.searchsorted(words, words)
    found += _cut(_whole_items(words, next_first[words] + nth * SLICE, False), BANKS)
    found += _cut(_whole_items(last, next_first[last], True), LARGEST)
    return found


def _whole_items(words: np.ndarray, first: np.ndarray, primary: bool) -> Pass:
    return Pass(words, first, np.full(len(words), SLICE), primary)


def _cut(whole: Pass, most: int) -> list[Pass]:
    """Cut a pass into passes of up to ``most`` work-items."""
    found = []
    for start in range(0, len(whole.words), most):
        part = slice(start, start + most)
        found.append(Pass(whole.words[part], whole.first[part], whole.lengths[part], whole.primary))
    return found


def accumulate(tokens: Tokens, window: Window, seeds: np.ndarray, dimension: int) -> np.ndarray:
    """Return the sums of the shipped function of this name: (words, dimension) int32, exactly."""
    check_sums(tokens, window)
    out = zeros((len(tokens.occurrence_ptr) - 1, dimension), np.int32, "sums")
    text = text_on_device(tokens), upload_window(window, dimension), cached_copy(seeds, "seeds")
    for items in passes_of(tokens.occurrence_ptr):
        n = len(items.words)
        words = upload(items.words, "work-items")
        if items.primary:
            rows = words
            target = out
        else:
            rows = upload(np.arange(n), "work-items")
            target = zeros((n, dimension), np.int32, "dummy vectors")
        work = rows, upload(items.first, "work-items"), upload(items.lengths, "work-items")
        function = _aligned if items.aligned else _unaligned
        launch(function, -(-n // THREADS), THREADS, *text, work, target)
        if not items.primary:
            launch(_add_banks, -(-n * dimension // THREADS), THREADS, words, target, out)
    return download(out, "sums")


@kernel
def _aligned(text, window, seeds, work, out):
    """Sum whole work-items. The compiler knows how long the loop is."""
    rows, first, _ = work
    item = cuda.grid(1)
    if item < len(rows):
        for i in range(SLICE):
            _add_occurrence(text, window, seeds, first[item] + i, rows[item], out)


@kernel
def _unaligned(text, window, seeds, work, out):
    """Sum work-items of any length."""
    rows, first, lengths = work
    item = cuda.grid(1)
    if item < len(rows):
        for i in range(lengths[item]):
            _add_occurrence(text, window, seeds, first[item] + i, rows[item], out)


@device
def _add_occurrence(text, window, seeds, i, row, out):
    words, occurrences = text
    offsets, shifts, weights = window
    dimension = np.int64(out.shape[1])
    for j in range(len(offsets)):
        w = words[np.int64(occurrences[i]) + offsets[j]]
        if w < len(seeds):
            for k in range(seeds.shape[1]):
                out[row, rotated(np.int64(seeds[w, k] & LOW), shifts[j], dimension)] += weights[j]
                out[row, rotated(np.int64(seeds[w, k] >> HALF), shifts[j], dimension)] -= weights[j]


@kernel
def _add_banks(words, banks, out):
    """Add the dummy vectors to the rows of their words, one number per thread."""
    dimension = banks.shape[1]
    i = cuda.grid(1)
    if i < banks.size and banks[i // dimension, i % dimension]:
        cuda.atomic.add(out, (words[i // dimension], i % dimension), banks[i // dimension, i % dimension])
