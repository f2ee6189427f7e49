"""Word2Vec on a CUDA device: FULL-W2V and PAR-Word2Vec, the updates of kernels/word2vec.py.

Blocks train stretches of documents side by side, without locks: a row's changes are added by atomics, so that none is
lost, and a block may read a row before another's changes. Threads of a block have the columns of a row. Negatives are
drawn here, each by the address of its word: the same as on the CPU, and no batch of them is ever sent.
"""

import math

import numpy as np
from numba import cuda, float32, int64

from ...word2vec import skip_gram as cpu
from ...word2vec.skip_gram import BATCH, Text, TrainingOptions
from ..jit import device, kernel, launch, shared_limit
from ..memory import fetched, filled, resident
from ..port import ported
from ..random import draw
from ..warp import FULL, WARP

#: Threads a block, at most: one a column.
THREADS = 256
#: Blocks under way, at most: the more there are, the older the rows that a block reads.
BLOCKS = 2048
#: Words of a stretch: longer documents are cut, between mini-batches.
STRETCH = 40 * BATCH
#: Products beyond it are taken for it: its exponential is still a number.
FAR = 80.0
#: Places of FULL-W2V's ring, and rows that a window meets, at most.
MOST_PLACES, MOST_SAMPLES = 65, 65

_alpha = ported(cpu._alpha)
_negative = ported(cpu._negative, draw=draw)
_range_of_negatives = ported(cpu._range_of_negatives, draw=draw)


def train(
    method: str,
    text: Text,
    options: TrainingOptions,
    W_in: np.ndarray,
    W_out: np.ndarray,
    documents: slice | None = None,
) -> None:
    """Train W_in and W_out (R, D) float32 in place on a text, or on some of its documents; ``method`` full or par.

    Raises ValueError where a window's or a mini-batch's rows do not fit a block's shared memory; DeviceError.
    """
    first, last, _ = (documents or slice(None)).indices(len(text.ptr) - 1)
    stretches = stretches_of(text.ptr[first : last + 1])
    if not len(stretches):
        return
    D = W_in.shape[1]
    function, room = (_full, _full_room(options, D)) if method == "full" else (_par, _par_room(options, D))
    wide = method == "full" and (_places(options.window) > MOST_PLACES or options.negative >= MOST_SAMPLES)
    if wide or 4 * room > shared_limit():
        raise ValueError(
            f"{D} columns, window {options.window} and {options.negative} negatives take {4 * room:,} bytes of a "
            f"block's shared memory, which has {shared_limit():,}: choose smaller ones, or device 'cpu'"
        )
    on = filled(W_in), filled(W_out)
    there = Text(*(resident(a) for a in text)), options._replace(table=resident(options.table))
    blocks = min(BLOCKS, len(stretches))
    flat = [W.reshape(W.size) for W in on]
    launch(function, blocks, min(THREADS, D), filled(stretches), *there, D, *flat, shared=4 * room)
    W_in[:], W_out[:] = fetched(on[0]), fetched(on[1])


def stretches_of(ptr: np.ndarray) -> np.ndarray:
    """Cut documents into stretches: (n, 4) int64, first and last + 1 word of the document and of the stretch."""
    pieces = -(-np.diff(ptr) // STRETCH)
    document = np.repeat(np.arange(len(ptr) - 1), pieces)
    nth = np.arange(len(document)) - np.searchsorted(document, document)
    first = ptr[document] + nth * STRETCH
    last = np.minimum(first + STRETCH, ptr[document + 1])
    return np.stack([ptr[document], ptr[document + 1], first, last], axis=1).astype(np.int64)


@device
def _product(A, a, B, b, D, lane):
    """Return the product of D numbers of A from ``a`` on and of B from ``b`` on; all of a warp do, and get it."""
    total = float32(0)
    for k in range(lane, D, WARP):
        total += A[a + k] * B[b + k]
    for bits in (16, 8, 4, 2, 1):
        total += cuda.shfl_xor_sync(FULL, total, bits)
    return total


# Gradients and updates of rows are written twice: the CPU's (word2vec_tiles.py) are vector instructions, for eight or
# sixteen numbers at a time, where a plain function for both sides would take one.
@device
def _gradient(product, label, alpha):
    """(label − sigmoid(product)) · alpha."""
    x = min(max(product, float32(-FAR)), float32(FAR))
    return alpha * (label - float32(1) / (float32(1) + math.exp(-x)))


# --- negatives by window ---


def _places(window: int) -> int:
    return 2 * ((window + 1) // 2) + 1


def _full_room(options: TrainingOptions, D: int) -> int:
    """Numbers in shared memory: the ring, its rows as they were, a sample's row, and its gradients."""
    return (2 * _places(options.window) + 1) * D + _places(options.window)


@kernel
def _full(stretches, text, options, D, W_in, W_out):
    """Train a stretch a block: rows of words stay in a ring in shared memory while the window passes over them."""
    reach = (options.window + 1) // 2
    size = 2 * reach + 1
    room = cuda.shared.array(0, float32)
    rows = room[: 2 * size * D]
    held, g = room[2 * size * D : (2 * size + 1) * D], room[(2 * size + 1) * D : (2 * size + 1) * D + size]
    slots = cuda.shared.array(MOST_PLACES, int64)
    users = cuda.shared.array(MOST_PLACES, int64)
    samples = cuda.shared.array(MOST_SAMPLES, int64)
    ring = slots, users, rows, size, D
    for s in range(cuda.blockIdx.x, len(stretches), cuda.gridDim.x):
        start, end, first, last = stretches[s, 0], stretches[s, 1], stretches[s, 2], stretches[s, 3]
        for slot in range(cuda.threadIdx.x, size, cuda.blockDim.x):
            users[slot] = 0
        cuda.syncthreads()
        oldest = max(start, first - reach)
        for i in range(oldest, min(end, first + reach)):
            _enter(ring, i, oldest, text.words, W_in)
        for i in range(first, last):
            oldest = max(start, i - reach)
            if i + reach < end:
                _enter(ring, i + reach, oldest, text.words, W_in)
            _draw_samples(i, text, options, samples)
            window = oldest, min(end, i + reach + 1), i
            alpha = _alpha(options, np.int64(text.positions[i]))
            for k in range(options.negative + 1):
                if k == 0 or samples[k] != samples[0]:
                    _meet(ring, window, samples[k], float32(k == 0), alpha, W_out, held, g)
            if i - reach >= start:
                _leave(ring, i - reach, text.words, W_in)
        for i in range(max(start, last - reach), min(end, last + reach)):
            _leave(ring, i, text.words, W_in)


@device
def _enter(ring, i, oldest, words, W_in):
    """Give place i a slot: that of the same word where it is in the ring, else a free one with the word's row."""
    slots, users, rows, size, D = ring
    if cuda.threadIdx.x == 0:
        slot = np.int64(-1)
        for j in range(oldest, i):
            if words[j] == words[i]:
                slot = slots[j % size]
        if slot < 0:
            slot = np.int64(0)
            while users[slot] > 0:
                slot += 1
        slots[i % size] = slot
        users[slot] += 1
    cuda.syncthreads()
    slot = slots[i % size]
    if users[slot] == 1:
        for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
            value = W_in[np.int64(words[i]) * D + k]
            rows[slot * D + k] = value
            rows[(size + slot) * D + k] = value
    cuda.syncthreads()


@device
def _leave(ring, i, words, W_in):
    """Free the slot of place i; add what its row has changed by, unless a later place has the same word."""
    slots, users, rows, size, D = ring
    slot = slots[i % size]
    if users[slot] == 1:
        for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
            cuda.atomic.add(W_in, np.int64(words[i]) * D + k, rows[slot * D + k] - rows[(size + slot) * D + k])
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        users[slot] -= 1
    cuda.syncthreads()


@device
def _draw_samples(i, text, options, samples):
    """List the word at place i and its negatives, each drawn by a thread."""
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, options.negative + 1, cuda.blockDim.x):
        index = np.int64(text.positions[i]) * options.negative + k - 1
        samples[k] = text.words[i] if k == 0 else _negative(options, index)
    cuda.syncthreads()


@device
def _meet(ring, window, sample, label, alpha, W_out, held, g):
    """Train one sample with all words of the window: products first, then both sides, a thread a column.

    The sample's row is in shared memory for the products, and in registers for the changes.
    """
    slots, _, rows, size, D = ring
    first, last, focus = window
    thread, lane = cuda.threadIdx.x, cuda.threadIdx.x % WARP
    for k in range(thread, D, cuda.blockDim.x):
        held[k] = W_out[sample * D + k]
    cuda.syncthreads()
    for c in range(thread // WARP, last - first, cuda.blockDim.x // WARP):
        if first + c != focus:
            product = _product(rows, slots[(first + c) % size] * D, held, 0, D, lane)
            if lane == 0:
                g[c] = _gradient(product, label, alpha)
    cuda.syncthreads()
    for k in range(thread, D, cuda.blockDim.x):
        value, change = held[k], float32(0)
        for c in range(last - first):
            if first + c != focus:
                place = slots[(first + c) % size] * D + k
                change += g[c] * rows[place]
                rows[place] += g[c] * value
        cuda.atomic.add(W_out, sample * D + k, change)


# --- attraction and repulsion ---


def _par_room(options: TrainingOptions, D: int) -> int:
    """Numbers in shared memory: a mini-batch's rows and their changes, and its gradients."""
    return 2 * BATCH * D + BATCH * max(2 * options.window * options.negative, 2 * options.window + 1)


@kernel
def _par(stretches, text, options, D, W_in, W_out):
    """Train a stretch a block, mini-batch by mini-batch (Algorithm 24)."""
    room = cuda.shared.array(0, float32)
    rows, g = room[: 2 * BATCH * D], room[2 * BATCH * D :]
    for s in range(cuda.blockIdx.x, len(stretches), cuda.gridDim.x):
        start, end, first, last = stretches[s, 0], stretches[s, 1], stretches[s, 2], stretches[s, 3]
        if end - start < 2:
            continue
        for head in range(first, last, BATCH):
            batch = start, head, min(head + BATCH, end), end
            place = np.int64(text.positions[head])
            alpha = _alpha(options, place)
            _attract(batch, text, options, alpha, D, W_in, W_out, g)
            n, base = _range_of_negatives(head - start, end - start, place, options)
            _repel(batch, text.words, options, (n, base, alpha), D, W_in, W_out, rows, g)


@device
def _context_of(batch, i, text, options):
    """Return the first and last + 1 place within the drawn reach of place i."""
    reach = options.window - np.int64(
        draw(options.windows_key, np.int64(text.positions[i])) % np.uint64(options.window)
    )
    return max(batch[0], i - reach), min(batch[3], i + reach + 1)


@device
def _attract(batch, text, options, alpha, D, W_in, W_out, g):
    """Train a mini-batch's words with their neighbours (Algorithm 25): a warp a product, then a thread a column."""
    _, head, tail, _ = batch
    lane, width = cuda.threadIdx.x % WARP, 2 * options.window + 1
    for e in range(cuda.threadIdx.x // WARP, (tail - head) * width, cuda.blockDim.x // WARP):
        i = head + e // width
        first, last = _context_of(batch, i, text, options)
        j = i - options.window + e % width
        if first <= j < last and j != i:
            x = _product(W_out, np.int64(text.words[i]) * D, W_in, np.int64(text.words[j]) * D, D, lane)
            if lane == 0:
                g[e] = _gradient(x, float32(1), alpha)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
        for i in range(head, tail):
            first, last = _context_of(batch, i, text, options)
            at = np.int64(text.words[i]) * D + k
            value, change = W_out[at], float32(0)
            for j in range(first, last):
                if j != i:
                    x, place = g[(i - head) * width + j - i + options.window], np.int64(text.words[j]) * D + k
                    change += x * W_in[place]
                    cuda.atomic.add(W_in, place, x * value)
            cuda.atomic.add(W_out, at, change)
    cuda.syncthreads()


@device
def _repel(batch, words, options, drawn, D, W_in, W_out, rows, g):
    """Train a mini-batch's words with the negatives that they share (Algorithm 26): three products.

    The negatives' rows are read before any is changed: one may be drawn twice.
    """
    _, head, tail, _ = batch
    n, base, alpha = drawn
    size, lane = tail - head, cuda.threadIdx.x % WARP
    for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
        for b in range(size):
            rows[b * D + k] = W_in[np.int64(words[head + b]) * D + k]
            rows[(BATCH + b) * D + k] = 0
    cuda.syncthreads()
    for e in range(cuda.threadIdx.x // WARP, n * size, cuda.blockDim.x // WARP):
        o = e // size
        x = _product(W_out, np.int64(_negative(options, base + o)) * D, rows, e % size * D, D, lane)
        if lane == 0:
            g[e] = _gradient(x, float32(0), alpha)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
        for o in range(n):
            value = W_out[np.int64(_negative(options, base + o)) * D + k]
            for b in range(size):
                rows[(BATCH + b) * D + k] += g[o * size + b] * value
        for o in range(n):
            change = float32(0)
            for b in range(size):
                change += g[o * size + b] * rows[b * D + k]
            cuda.atomic.add(W_out, np.int64(_negative(options, base + o)) * D + k, change)
        for b in range(size):
            cuda.atomic.add(W_in, np.int64(words[head + b]) * D + k, rows[(BATCH + b) * D + k])
    cuda.syncthreads()
