"""PAR-Word2Vec on a CUDA device: attraction, then repulsion from negatives that a mini-batch of words shares.

Source: Moon's dissertation (2019), section 4.5, Algorithms 23 to 26.

Grid. A block trains stretch after stretch, mini-batch by mini-batch. For products, a warp has a pair of rows; for
updates, a thread has a column, so that no thread reads what another thread of the block writes.

Shared memory, float32, for D columns and a mini-batch of B words: the words' rows of W_in (B, D), their changes (B, D),
and the gradients of the products that are being computed.

Tested in the simulator and on a device against the CPU's rows: tests/kernels/cuda/word2vec/test_skip_gram.py.
Reference implementation: tests/helpers/naive.py, `word2vec_par`.
"""

from typing import Any

import numpy as np
from numba import cuda, float32

from ...word2vec.skip_gram import BATCH, TrainingOptions
from ..jit import device, kernel
from ..random import draw
from ..warp import WARP
from .updates import dot, first_negative, gradient, learning_rate, negative_at, number_of_negatives


def shared_floats(options: TrainingOptions, D: int) -> int:
    """Return how many numbers a block has in dynamic shared memory."""
    attractions = 2 * options.window + 1  # per word
    repulsions = (options.window + 1) * options.negative  # the largest `number_of_negatives`
    return 2 * BATCH * D + BATCH * max(repulsions, attractions)


@kernel
def train_par(stretches: Any, text: Any, options: Any, D: int, W_in: Any, W_out: Any) -> None:
    """Train on ``stretches`` (n, 4) int64, one after another in each block; W_in and W_out (R * D,) float32."""
    shared = cuda.shared.array(0, float32)
    rows = shared[: 2 * BATCH * D]
    gradients = shared[2 * BATCH * D :]
    for s in range(cuda.blockIdx.x, len(stretches), cuda.gridDim.x):
        start, end, first, last = stretches[s, 0], stretches[s, 1], stretches[s, 2], stretches[s, 3]
        if end - start < 2:
            continue  # a document of one word has no pairs
        for head in range(first, last, BATCH):
            batch = start, head, min(head + BATCH, end), end
            position = np.int64(text.positions[head])
            alpha = learning_rate(options, position)
            _attract(batch, text, options, alpha, D, W_in, W_out, gradients)
            n = number_of_negatives(head - start, batch[2] - start, end - start, options)
            base = first_negative(position, options)
            _repel(batch, text.words, options, (n, base, alpha), D, W_in, W_out, rows, gradients)


@device
def _context_of(batch: Any, i: int, text: Any, options: Any) -> Any:
    """Return the first and the last + 1 position within the drawn reach of position i."""
    drawn = draw(options.windows_key, np.int64(text.positions[i]))
    reach = options.window - np.int64(drawn % np.uint64(options.window))
    return max(batch[0], i - reach), min(batch[3], i + reach + 1)


@device
def _attract(batch: Any, text: Any, options: Any, alpha: Any, D: int, W_in: Any, W_out: Any, gradients: Any) -> None:
    """Train the words of a mini-batch with their neighbours (Algorithm 25)."""
    _, head, tail, _ = batch
    lane = cuda.threadIdx.x % WARP
    width = 2 * options.window + 1
    for e in range(cuda.threadIdx.x // WARP, (tail - head) * width, cuda.blockDim.x // WARP):
        i = head + e // width
        first, last = _context_of(batch, i, text, options)
        j = i - options.window + e % width
        if first <= j < last and j != i:
            product = dot(W_out, np.int64(text.words[i]) * D, W_in, np.int64(text.words[j]) * D, D, lane)
            if lane == 0:
                gradients[e] = gradient(product, float32(1), alpha)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
        for i in range(head, tail):
            first, last = _context_of(batch, i, text, options)
            place_out = np.int64(text.words[i]) * D + k
            value = W_out[place_out]
            change = float32(0)
            for j in range(first, last):
                if j != i:
                    g = gradients[(i - head) * width + j - i + options.window]
                    place_in = np.int64(text.words[j]) * D + k
                    change += g * W_in[place_in]
                    cuda.atomic.add(W_in, place_in, g * value)
            cuda.atomic.add(W_out, place_out, change)
    cuda.syncthreads()


@device
def _repel(
    batch: Any,
    words: Any,
    options: Any,
    negatives: Any,
    D: int,
    W_in: Any,
    W_out: Any,
    rows: Any,
    gradients: Any,
) -> None:
    """Train the words of a mini-batch with the negatives that they share (Algorithm 26), in three products.

    ``negatives``: how many, the index of the first one's draw, and the learning rate.
    """
    _, head, tail, _ = batch
    n, base, alpha = negatives
    size = tail - head
    lane = cuda.threadIdx.x % WARP
    for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
        for b in range(size):
            rows[b * D + k] = W_in[np.int64(words[head + b]) * D + k]
            rows[(BATCH + b) * D + k] = 0
    cuda.syncthreads()
    # First product: gradients (n, size).
    for e in range(cuda.threadIdx.x // WARP, n * size, cuda.blockDim.x // WARP):
        o = e // size
        product = dot(W_out, np.int64(negative_at(options, base + o)) * D, rows, e % size * D, D, lane)
        if lane == 0:
            gradients[e] = gradient(product, float32(0), alpha)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
        # Second product: the changes of W_in. It reads all negatives' rows before any of them changes, because a word
        # may be drawn twice.
        for o in range(n):
            value = W_out[np.int64(negative_at(options, base + o)) * D + k]
            for b in range(size):
                rows[(BATCH + b) * D + k] += gradients[o * size + b] * value
        # Third product: the changes of W_out.
        for o in range(n):
            change = float32(0)
            for b in range(size):
                change += gradients[o * size + b] * rows[b * D + k]
            cuda.atomic.add(W_out, np.int64(negative_at(options, base + o)) * D + k, change)
        for b in range(size):
            cuda.atomic.add(W_in, np.int64(words[head + b]) * D + k, rows[(BATCH + b) * D + k])
    cuda.syncthreads()
