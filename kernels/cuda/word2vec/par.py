"""PAR-Word2Vec on a CUDA device: attraction, then repulsion from negatives that a mini-batch of words shares.

Source: Moon's dissertation (2019), section 4.5, Algorithms 23 to 26, with the differences that the CPU's par.py lists.

Grid. A block trains stretch after stretch, mini-batch by mini-batch. For attraction, a warp has a pair of rows at a
time; for updates, a thread has four columns, so that no thread reads what another thread of the block writes.

Repulsion (Algorithm 26) is three products of small matrices: of rows of words, of rows of negatives, and of gradients.
Each negative is drawn once, and its row is read once into shared memory, `NEGATIVES` at a time. In the first product, a
thread computes four numbers, and reads five vectors of four numbers for sixteen additions. In the others, it computes
four by four numbers, and reads two vectors, or a vector and four numbers, for sixteen additions.

Shared memory, float32 unless said otherwise, for D columns and a mini-batch of B words with n negatives:

=============  ============  ===========================================================================
``rows``       B (D + 4)     the words' rows of W_in
``negatives``  N (D + 4)     the rows of up to N = NEGATIVES negatives
``gradients``  n B           of repulsion; or one per pair, of attraction
``drawn``      n int32       the negatives
=============  ============  ===========================================================================

Rows are four numbers longer than D. So they begin at multiples of 16 bytes, as vectors must. Eight threads that read
vectors of eight rows use different banks.

Tests against the CPU's rows: tests/kernels/cuda/word2vec/test_skip_gram.py.
Reference implementation: tests/helpers/naive.py, `word2vec_par`.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, int32

from ...word2vec.text import TrainingOptions
from ..jit import device, kernel
from ..random import draw
from ..vectors import load4, store4
from ..warp import WARP
from .updates import (
    ZEROS,
    add4,
    dot,
    dot4,
    first_negative,
    gradient,
    learning_rate,
    negative_at,
    number_of_negatives,
    plus4,
)

#: Negatives whose rows are in shared memory at a time. With windows of five and five negatives, these are all.
NEGATIVES = 32
#: Rows of a product that a thread computes at once. A mini-batch has a multiple of it.
TILE = 4


class Batch(NamedTuple):
    """A mini-batch in shared memory; see the table above."""

    rows: Any
    negatives: Any
    gradients: Any
    drawn: Any


def shared_floats(options: TrainingOptions, D: int) -> int:
    """Return how many numbers a block has in dynamic shared memory."""
    drawn = _most_negatives(options)
    B = options.minibatch
    gradients = B * max(2 * options.window + 1, drawn)  # of attraction or of repulsion
    return (B + NEGATIVES) * (D + 4) + gradients + drawn


def _most_negatives(options: TrainingOptions) -> int:
    """Return the largest `number_of_negatives`, rounded up to a multiple of `TILE`."""
    most = (options.window + 1) * options.negative
    return (most + TILE - 1) // TILE * TILE


_most_negatives_device = device(_most_negatives)


# Two blocks can be active on a multiprocessor, so a thread has at most 128 registers.
@kernel(launch_bounds=(256, 2))
def train_par(stretches: Any, text: Any, options: Any, D: int, W_in: Any, W_out: Any) -> None:
    """Train on stretches (n, 4) of `cut_stretches`, several per block; W_in and W_out (R * D,) float32."""
    shared = cuda.shared.array(0, float32)
    integers = cuda.shared.array(0, int32)  # the same memory
    B = options.minibatch
    first_negative_row = B * (D + 4)
    first_gradient = first_negative_row + NEGATIVES * (D + 4)
    most = _most_negatives_device(options)
    first_drawn = first_gradient + B * max(2 * options.window + 1, most)
    memory = Batch(
        rows=shared[:first_negative_row],
        negatives=shared[first_negative_row:first_gradient],
        gradients=shared[first_gradient:first_drawn],
        drawn=integers[first_drawn : first_drawn + most],
    )
    for s in range(cuda.blockIdx.x, len(stretches), cuda.gridDim.x):
        start, end, first, last = stretches[s, 0], stretches[s, 1], stretches[s, 2], stretches[s, 3]
        if end - start < 2:
            continue  # a document of one word has no pairs
        for head in range(first, last, B):
            batch = start, head, min(head + B, end), end
            position = np.int64(text.positions[head])
            alpha = learning_rate(options, position)
            _attract(batch, text, options, alpha, D, W_in, W_out, memory.gradients)
            n = number_of_negatives(head - start, batch[2] - start, end - start, options)
            base = first_negative(position, options)
            _repel(batch, text.words, options, (n, base, alpha), D, W_in, W_out, memory)


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
    # A thread has four columns, so that no thread reads what another one writes.
    for k in range(4 * cuda.threadIdx.x, D, 4 * cuda.blockDim.x):
        for i in range(head, tail):
            first, last = _context_of(batch, i, text, options)
            place_out = np.int64(text.words[i]) * D + k
            values = load4(W_out, place_out)
            changes = ZEROS
            for j in range(first, last):
                if j != i:
                    g = gradients[(i - head) * width + j - i + options.window]
                    place_in = np.int64(text.words[j]) * D + k
                    changes = plus4(changes, g, load4(W_in, place_in))
                    add4(W_in, place_in, plus4(ZEROS, g, values))
            add4(W_out, place_out, changes)
    cuda.syncthreads()


@device
def _repel(batch: Any, words: Any, options: Any, negatives: Any, D: int, W_in: Any, W_out: Any, memory: Batch) -> None:
    """Train the words of a mini-batch with the negatives that they share (Algorithm 26), in three products.

    ``negatives``: how many, the index of the first one's draw, and the learning rate.
    """
    _, head, tail, _ = batch
    n, base, alpha = negatives
    B = options.minibatch
    size = tail - head
    for o in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        memory.drawn[o] = negative_at(options, base + o)
    quarter = D // 4
    for e in range(cuda.threadIdx.x, B * quarter, cuda.blockDim.x):
        b = e // quarter
        k = e % quarter * 4
        values = ZEROS
        if b < size:
            values = load4(W_in, np.int64(words[head + b]) * D + k)
        # Rows after the last word are zero, and so are their gradients.
        store4(memory.rows, b * (D + 4) + k, values)
    cuda.syncthreads()
    # All negatives' rows are read before any of them changes, because a word may be drawn twice.
    for first in range(0, n, NEGATIVES):
        last = min(first + NEGATIVES, n)
        _read_negatives(memory, first, last, D, W_out)
        _compute_gradients(memory, first, last, B, size, alpha, D)
        _move_words(memory, first, last, head, B, size, words, D, W_in)
    _move_negatives(memory, n, B, D, W_out)
    cuda.syncthreads()


@device
def _read_negatives(memory: Batch, first: int, last: int, D: int, W_out: Any) -> None:
    """Copy the rows of some negatives to shared memory."""
    quarter = D // 4
    for e in range(cuda.threadIdx.x, (last - first) * quarter, cuda.blockDim.x):
        o = e // quarter
        k = e % quarter * 4
        values = load4(W_out, np.int64(memory.drawn[first + o]) * D + k)
        store4(memory.negatives, o * (D + 4) + k, values)
    cuda.syncthreads()


@device
def _compute_gradients(memory: Batch, first: int, last: int, B: int, size: int, alpha: Any, D: int) -> None:
    """Compute the gradients of some negatives with all words: the first product. A thread has one negative, four words.

    Threads side by side have different negatives and the same words.
    """
    count = last - first
    for e in range(cuda.threadIdx.x, count * (B // TILE), cuda.blockDim.x):
        o = e % count
        b = e // count * TILE
        products = ZEROS
        for k in range(0, D, 4):
            values = load4(memory.negatives, o * (D + 4) + k)
            row = b * (D + 4) + k
            products = (
                dot4(products[0], values, load4(memory.rows, row)),
                dot4(products[1], values, load4(memory.rows, row + D + 4)),
                dot4(products[2], values, load4(memory.rows, row + 2 * (D + 4))),
                dot4(products[3], values, load4(memory.rows, row + 3 * (D + 4))),
            )
        gradients = (
            _repulsion(products[0], b, size, alpha),
            _repulsion(products[1], b + 1, size, alpha),
            _repulsion(products[2], b + 2, size, alpha),
            _repulsion(products[3], b + 3, size, alpha),
        )
        store4(memory.gradients, (first + o) * B + b, gradients)
    cuda.syncthreads()


@device
def _repulsion(product: Any, b: int, size: int, alpha: Any) -> Any:
    """Return the gradient of word b with label 0, or zero after the last word."""
    if b >= size:
        return float32(0)
    return gradient(product, float32(0), alpha)


@device
def _move_words(
    memory: Batch, first: int, last: int, head: int, B: int, size: int, words: Any, D: int, W_in: Any
) -> None:
    """Add the changes of W_in by some negatives: the second product. A thread has four columns of four words."""
    quarter = D // 4
    for e in range(cuda.threadIdx.x, (size + TILE - 1) // TILE * quarter, cuda.blockDim.x):
        b = e // quarter * TILE
        k = e % quarter * 4
        # Four changes each of the words b to b + 3.
        changes = (ZEROS, ZEROS, ZEROS, ZEROS)
        for o in range(first, last):
            factors = load4(memory.gradients, o * B + b)
            values = load4(memory.negatives, (o - first) * (D + 4) + k)
            changes = _plus_products(changes, factors, values)
        _add_rows(W_in, words, head + b, head + size, D, k, changes)
    cuda.syncthreads()


@device
def _move_negatives(memory: Batch, n: int, B: int, D: int, W_out: Any) -> None:
    """Add the changes of W_out: the third product. A thread has four columns of four negatives."""
    quarter = D // 4
    for e in range(cuda.threadIdx.x, (n + TILE - 1) // TILE * quarter, cuda.blockDim.x):
        o = e // quarter * TILE
        k = e % quarter * 4
        # Four changes each of the negatives o to o + 3.
        changes = (ZEROS, ZEROS, ZEROS, ZEROS)
        # After the last negative, its gradients are read again. `_add_rows` does not use the result.
        second = min(o + 1, n - 1) * B
        third = min(o + 2, n - 1) * B
        fourth = min(o + 3, n - 1) * B
        for b in range(B):
            factors = (
                memory.gradients[o * B + b],
                memory.gradients[second + b],
                memory.gradients[third + b],
                memory.gradients[fourth + b],
            )
            changes = _plus_products(changes, factors, load4(memory.rows, b * (D + 4) + k))
        _add_rows(W_out, memory.drawn, o, n, D, k, changes)


@device
def _plus_products(sums: Any, factors: Any, values: Any) -> Any:
    """Return four vectors of four numbers to which the products of four factors and a vector are added."""
    return (
        plus4(sums[0], factors[0], values),
        plus4(sums[1], factors[1], values),
        plus4(sums[2], factors[2], values),
        plus4(sums[3], factors[3], values),
    )


@device
def _add_rows(W: Any, words: Any, first: int, last: int, D: int, k: int, changes: Any) -> None:
    """Add to the columns k to k + 3 of the rows of ``words[first:first + 4]``, up to the word before ``last``."""
    add4(W, np.int64(words[first]) * D + k, changes[0])
    if first + 1 < last:
        add4(W, np.int64(words[first + 1]) * D + k, changes[1])
    if first + 2 < last:
        add4(W, np.int64(words[first + 2]) * D + k, changes[2])
    if first + 3 < last:
        add4(W, np.int64(words[first + 3]) * D + k, changes[3])
