"""FULL-W2V on a CUDA device: rows of words stay in shared memory while the window passes over them.

Source: FULL-W2V (Randall et al., ICS 2021), sections 3 and 4. A word's row of W_in is read once when the word enters
the window, and written once when it leaves. Each negative meets all words of the window before the next one does, so a
row of W_out is also read and written once per window. As in the paper (section 3.1), this row is in registers, up to
128 columns of it; longer rows have their other columns in shared memory.

Grid. A block is one warp, and trains stretch after stretch. A thread has four columns of each 128. So only the products
need other threads' columns, and barriers cost little.

Shared memory, float32 unless said otherwise, for D columns and S slots, where S is the size of the window:

==================  =======  =====================================================================
``ring.rows``       2 S D    the rows of W_in in the window, then the same rows as they were read
after them          D        the sample's row of W_out from column 128 on; then the changes of the whole row
``gradients``       S        one for each word of the window; first, the products
``ring.slots``      S int32  the slot of each position of the window, in a ring
``ring.users``      S int32  how many positions of the window use a slot
``places``          S int32  where the rows of the window's words begin
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
from ..jit import device, kernel
from ..vectors import load4, store4
from ..warp import ALL_LANES, WARP, first_where, warp_sum
from .updates import ZEROS, dot4, gradient, learning_rate, negative_at, plus4

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
    return (2 * size + 1) * D


def fits_static_arrays(options: TrainingOptions) -> bool:
    """Return whether the window and the samples fit the static shared arrays."""
    return window_size(options.window) <= MAX_SLOTS and options.negative + 1 <= MAX_SAMPLES


# A thread has at most 128 registers, so that the 16 blocks can be active that a multiprocessor has at least.
@kernel(launch_bounds=(WARP, 16))
def train_full(stretches: Any, text: Any, options: Any, D: int, W_in: Any, W_out: Any) -> None:
    """Train on stretches (n, 4) of `cut_stretches`, several per block; W_in and W_out (R * D,) float32."""
    reach = (options.window + 1) // 2
    size = 2 * reach + 1
    rows = cuda.shared.array(0, float32)
    gradients = cuda.shared.array(MAX_SLOTS, float32)
    slots = cuda.shared.array(MAX_SLOTS, int32)
    users = cuda.shared.array(MAX_SLOTS, int32)
    places = cuda.shared.array(MAX_SLOTS, int32)
    samples = cuda.shared.array(MAX_SAMPLES, int32)
    ring = Ring(slots, users, rows, size, D)
    # After each stretch, all slots are free again.
    for slot in range(cuda.threadIdx.x, size, WARP):
        users[slot] = 0
    for s in range(cuda.blockIdx.x, len(stretches), cuda.gridDim.x):
        start, end, first, last = stretches[s, 0], stretches[s, 1], stretches[s, 2], stretches[s, 3]
        oldest = max(start, first - reach)
        for i in range(oldest, min(end, first + reach)):
            _enter(ring, i, oldest, text.words, W_in)
        for i in range(first, last):
            oldest = max(start, i - reach)
            if i + reach < end:
                _enter(ring, i + reach, oldest, text.words, W_in)
            # The slots are complete, and nobody uses the last word's samples any more.
            cuda.syncthreads()
            _draw_samples(i, text, options, samples)
            n = _list_places(ring, oldest, min(end, i + reach + 1), i, places)
            cuda.syncthreads()
            alpha = learning_rate(options, np.int64(text.positions[i]))
            for k in range(options.negative + 1):
                sample = samples[np.uint32(k)]
                # A negative that is the word itself is left out.
                if k == 0 or sample != samples[0]:
                    _train_sample(ring, places, n, np.uint32(sample), float32(k == 0), alpha, W_out, gradients)
            if i - reach >= start:
                _leave(ring, i - reach, text.words, W_in)
        for i in range(max(start, last - reach), min(end, last + reach)):
            _leave(ring, i, text.words, W_in)


@device
def _place_in_ring(i: int, size: int) -> np.uint32:
    """Return i modulo the size of the ring. A division of 64 bits would take many registers, and far more time."""
    return np.uint32(np.uint32(i) % np.uint32(size))


@device
def _enter(ring: Any, i: int, oldest: int, words: Any, W_in: Any) -> None:
    """Give position i a slot: that of the same word if the window has it, else a free one with the word's row."""
    slots, users, rows, size, D = ring
    lane = np.uint32(cuda.threadIdx.x)
    word = words[np.uint64(i)]
    # Other threads may still use the window as it was.
    cuda.syncthreads()
    slot = np.uint32(size)
    for head in range(oldest, i, WARP):
        j = head + lane
        earlier = first_where(j < i and words[np.uint64(j)] == word)
        if earlier < WARP:
            slot = np.uint32(slots[_place_in_ring(head + earlier, size)])
    # There is always a free one: the window has no more positions than the ring has slots.
    first = np.uint32(0)
    is_new = slot == size
    while slot == size:
        free = first_where(first + lane < size and users[np.uint32(first + lane)] == 0)
        slot = np.uint32(first + free) if free < WARP else slot
        first = np.uint32(first + WARP)
    cuda.syncthreads()
    if lane == 0:
        slots[_place_in_ring(i, size)] = slot
        users[slot] = 1 if is_new else users[slot] + 1
    if is_new:
        k = np.uint32(4 * lane)
        while k < D:
            values = load4(W_in, np.int64(word) * D + k)
            store4(rows, np.uint32(slot * D + k), values)
            store4(rows, np.uint32((size + slot) * D + k), values)
            k = np.uint32(k + 4 * WARP)
    # What this function writes is seen by other threads after the next barrier.


@device
def _leave(ring: Any, i: int, words: Any, W_in: Any) -> None:
    """Free the slot of position i. Add what its row has changed by, unless a later position has the same word."""
    slots, users, rows, size, D = ring
    slot = np.uint32(slots[_place_in_ring(i, size)])
    left = np.int32(0)
    if cuda.threadIdx.x == 0:
        left = np.int32(users[slot] - 1)
        users[slot] = left
    if cuda.shfl_sync(ALL_LANES, left, 0) == 0:
        place = slot * D
        head = np.int64(words[np.uint64(i)]) * D
        k = np.uint32(cuda.threadIdx.x)
        while k < D:
            changed = rows[np.uint32(place + k)] - rows[np.uint32(place + size * D + k)]
            cuda.atomic.add(W_in, np.uint64(head + k), changed)
            k = np.uint32(k + WARP)


@device
def _draw_samples(i: int, text: Any, options: Any, samples: Any) -> None:
    """List the word at position i and its negatives; each thread draws one."""
    for k in range(cuda.threadIdx.x, options.negative + 1, cuda.blockDim.x):
        index = np.int64(text.positions[i]) * options.negative + k - 1
        samples[k] = text.words[i] if k == 0 else negative_at(options, index)


@device
def _list_places(ring: Any, first: int, last: int, focus: int, places: Any) -> int:
    """List where the rows of the positions ``first <= i < last`` begin, without ``focus``; return how many they are."""
    for i in range(first + cuda.threadIdx.x, last, WARP):
        if i != focus:
            slot = ring.slots[_place_in_ring(i, ring.size)]
            places[np.uint32(i - first - (1 if i > focus else 0))] = slot * ring.D
    return last - first - 1


@device
def _train_sample(
    ring: Any, places: Any, n: int, sample: np.uint32, label: Any, alpha: Any, W_out: Any, gradients: Any
) -> None:
    """Train one sample with all other words of the window: first the products, then both sides of the updates.

    The rows of the n words begin at ``places``. A thread has every 32nd group of four columns. Its first columns of the
    sample's row are in registers, and further ones in shared memory.
    """
    _, _, rows, size, D = ring
    sample_row = np.uint32(2 * size * D)
    lane = np.uint32(cuda.threadIdx.x)
    own = np.uint32(4 * lane)
    head = np.int64(sample) * D
    values = ZEROS
    # Other threads may still add the last sample's changes, and this sample can be the same.
    cuda.syncthreads()
    if own < D:
        values = load4(W_out, head + own)
    k = np.uint32(own + 4 * WARP)
    while k < D:
        store4(rows, sample_row + k, load4(W_out, head + k))
        k = np.uint32(k + 4 * WARP)
    c = np.uint32(0)
    while c < n:
        place = np.uint32(places[c])
        product = float32(0)
        if own < D:
            product = dot4(product, values, load4(rows, np.uint32(place + own)))
        if D > 4 * WARP:
            for further in range(own + 4 * WARP, D, 4 * WARP):
                product = dot4(product, load4(rows, sample_row + further), load4(rows, place + further))
        gradients[c] = warp_sum(product)
        c = np.uint32(c + 1)
    cuda.syncthreads()
    c = lane
    while c < n:
        gradients[c] = gradient(gradients[c], label, alpha)
        c = np.uint32(c + WARP)
    cuda.syncthreads()
    # A thread reads and writes its own columns only.
    k = own
    while k < D:
        if k >= 4 * WARP:
            values = load4(rows, sample_row + k)
        changes = ZEROS
        c = np.uint32(0)
        while c < n:
            factor = gradients[c]
            place = np.uint32(np.uint32(places[c]) + k)
            row = load4(rows, place)
            changes = plus4(changes, factor, row)
            store4(rows, place, plus4(row, factor, values))
            c = np.uint32(c + 1)
        store4(rows, sample_row + k, changes)
        k = np.uint32(k + 4 * WARP)
    cuda.syncthreads()
    # Threads side by side add to columns side by side.
    k = lane
    while k < D:
        cuda.atomic.add(W_out, np.uint64(head + k), rows[np.uint32(sample_row + k)])
        k = np.uint32(k + WARP)
