"""FULL-W2V on a CUDA device: rows of words stay in shared memory while the window passes over them.

Source: FULL-W2V (Randall et al., ICS 2021), sections 3 and 4. A word's row of W_in is read once when the word enters
the window, and written once when it leaves. Each negative meets all words of the window before the next one does, so a
row of W_out is also read and written once per window. The paper keeps this row in registers (section 3.1). Here it is
in shared memory, because each warp needs the whole row for its products.

Grid. A block trains stretch after stretch. For updates, a thread has a column. For products, a warp has a row. Rows are
read from device memory, and for products, four numbers at a time.

Shared memory, float32 unless said otherwise, for D columns and S slots, where S is the size of the window:

==================  =======  =====================================================================
``ring.rows``       2 S D    the rows of W_in in the window, then the same rows as they were read
``sample_row``      D        the sample's row of W_out
``gradients``       S        one for each word of the window
``ring.slots``      S int32  the slot of each position of the window, in a ring
``ring.users``      S int32  how many positions of the window use a slot
``samples``         int32    the word itself and its negatives
==================  =======  =====================================================================

A word that occurs twice in the window has one slot. When the last of its positions leaves, the difference between its
row and the row as it was read is added to W_in, by atomic additions, since other blocks may have changed the row.

Tests against the CPU's rows: tests/kernels/cuda/word2vec/test_skip_gram.py.
Reference implementation: tests/helpers/naive.py, `word2vec_full`.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, int32

from ...word2vec.text import TrainingOptions
from ..jit import device, medium_kernel
from ..vectors import load4, store4
from ..warp import WARP
from .updates import dot, gradient, learning_rate, negative_at

#: The largest window, and the most samples of a word: sizes of static shared arrays. They are multiples of four, so
#: that dynamic shared memory, which follows, begins on a multiple of 16 bytes.
MAX_SLOTS = 68
MAX_SAMPLES = 68


class Ring(NamedTuple):
    """The words of the window in shared memory; see the table above."""

    slots: Any
    users: Any
    rows: Any
    size: int
    D: int


def window_size(window: int) -> int:
    """Return the number of words that are held for a centre: itself and W = ⌈window / 2⌉ on each side."""
    return 2 * ((window + 1) // 2) + 1


def shared_floats(options: TrainingOptions, D: int) -> int:
    """Return how many numbers a block has in dynamic shared memory."""
    size = window_size(options.window)
    return (2 * size + 1) * D + size


def fits_static_arrays(options: TrainingOptions) -> bool:
    """Return whether the window and the samples fit the static shared arrays."""
    return window_size(options.window) <= MAX_SLOTS and options.negative + 1 <= MAX_SAMPLES


@medium_kernel
def train_full(stretches: Any, text: Any, options: Any, D: int, W_in: Any, W_out: Any) -> None:
    """Train on stretches (n, 4) of `cut_stretches`, several per block; W_in and W_out (R * D,) float32."""
    reach = (options.window + 1) // 2
    size = 2 * reach + 1
    shared = cuda.shared.array(0, float32)
    rows = shared[: 2 * size * D]
    sample_row = shared[2 * size * D : (2 * size + 1) * D]
    gradients = shared[(2 * size + 1) * D : (2 * size + 1) * D + size]
    slots = cuda.shared.array(MAX_SLOTS, int32)
    users = cuda.shared.array(MAX_SLOTS, int32)
    samples = cuda.shared.array(MAX_SAMPLES, int32)
    ring = Ring(slots, users, rows, size, D)
    for s in range(cuda.blockIdx.x, len(stretches), cuda.gridDim.x):
        start, end, first, last = stretches[s, 0], stretches[s, 1], stretches[s, 2], stretches[s, 3]
        for slot in range(cuda.threadIdx.x, size, cuda.blockDim.x):
            users[slot] = 0
        oldest = max(start, first - reach)
        for i in range(oldest, min(end, first + reach)):
            _enter(ring, i, oldest, text.words, W_in)
        for i in range(first, last):
            oldest = max(start, i - reach)
            if i + reach < end:
                _enter(ring, i + reach, oldest, text.words, W_in)
            _draw_samples(i, text, options, samples)
            window = oldest, min(end, i + reach + 1), i
            alpha = learning_rate(options, np.int64(text.positions[i]))
            for k in range(options.negative + 1):
                # A negative that is the word itself is left out.
                if k == 0 or samples[k] != samples[0]:
                    _train_sample(
                        ring, window, np.int64(samples[k]), float32(k == 0), alpha, W_out, sample_row, gradients
                    )
            if i - reach >= start:
                _leave(ring, i - reach, text.words, W_in)
        for i in range(max(start, last - reach), min(end, last + reach)):
            _leave(ring, i, text.words, W_in)


@device
def _place_in_ring(i: int, size: int) -> np.int64:
    """Return i modulo the size of the ring. A division of 64 bits would take many registers, and far more time."""
    return np.int64(np.uint32(i) % np.uint32(size))


@device
def _enter(ring: Any, i: int, oldest: int, words: Any, W_in: Any) -> None:
    """Give position i a slot: that of the same word if the window has it, else a free one with the word's row."""
    slots, users, rows, size, D = ring
    # Other threads may still use the window as it was. What this function writes is seen after the next barrier.
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        slot = np.int64(-1)
        for j in range(oldest, i):
            if words[j] == words[i]:
                slot = slots[_place_in_ring(j, size)]
        if slot < 0:
            # There is always a free one: the window has no more positions than the ring has slots.
            slot = np.int64(0)
            while users[slot] > 0:
                slot += 1
        slots[_place_in_ring(i, size)] = slot
        users[slot] += 1
    cuda.syncthreads()
    slot = np.int64(slots[_place_in_ring(i, size)])
    if users[slot] == 1:
        for k in range(4 * cuda.threadIdx.x, D, 4 * cuda.blockDim.x):
            values = load4(W_in, np.int64(words[i]) * D + k)
            store4(rows, slot * D + k, values)
            store4(rows, (size + slot) * D + k, values)


@device
def _leave(ring: Any, i: int, words: Any, W_in: Any) -> None:
    """Free the slot of position i. Add what its row has changed by, unless a later position has the same word."""
    slots, users, rows, size, D = ring
    slot = np.int64(slots[_place_in_ring(i, size)])
    if users[slot] == 1:
        for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
            cuda.atomic.add(W_in, np.int64(words[i]) * D + k, rows[slot * D + k] - rows[(size + slot) * D + k])
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        users[slot] -= 1
    cuda.syncthreads()


@device
def _draw_samples(i: int, text: Any, options: Any, samples: Any) -> None:
    """List the word at position i and its negatives; each thread draws one."""
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, options.negative + 1, cuda.blockDim.x):
        index = np.int64(text.positions[i]) * options.negative + k - 1
        samples[k] = text.words[i] if k == 0 else negative_at(options, index)
    cuda.syncthreads()


@device
def _train_sample(
    ring: Any, window: Any, sample: int, label: Any, alpha: Any, W_out: Any, sample_row: Any, gradients: Any
) -> None:
    """Train one sample with all other words of the window: first the products, then both sides of the updates."""
    slots, _, rows, size, D = ring
    first, last, focus = window
    thread = cuda.threadIdx.x
    lane = thread % WARP
    # Other threads may still use the last sample's row.
    cuda.syncthreads()
    for k in range(4 * thread, D, 4 * cuda.blockDim.x):
        store4(sample_row, k, load4(W_out, sample * D + k))
    cuda.syncthreads()
    # Products: a warp has a word of the window.
    for c in range(thread // WARP, last - first, cuda.blockDim.x // WARP):
        if first + c != focus:
            product = dot(rows, np.int64(slots[_place_in_ring(first + c, size)]) * D, sample_row, 0, D, lane)
            if lane == 0:
                gradients[c] = gradient(product, label, alpha)
    cuda.syncthreads()
    # Updates: a thread has a column, so no thread reads what another one writes. With four columns, a thread would need
    # more registers than it has.
    for k in range(thread, D, cuda.blockDim.x):
        value = sample_row[k]
        change = float32(0)
        for c in range(last - first):
            if first + c != focus:
                place = np.int64(slots[_place_in_ring(first + c, size)]) * D + k
                change += gradients[c] * rows[place]
                rows[place] += gradients[c] * value
        cuda.atomic.add(W_out, sample * D + k, change)
