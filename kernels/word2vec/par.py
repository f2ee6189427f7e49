"""PAR-Word2Vec: attraction of neighbours, then repulsion from negatives that a mini-batch of words shares.

For a mini-batch of B words with rows M_in of W_in, and n shared negatives with rows M_out of W_out:

1. Attraction: the word's row of W_out is trained with the rows of its context words in W_in, label 1. All products of
   the mini-batch come before all moves.
2. Repulsion: G = −α σ(M_in M_outᵀ), then W_out[negatives] += Gᵀ M_in and W_in[words] += G M_out: three small matrix
   products, in place of B n products of vectors.

Source: Moon's dissertation (2019), Algorithms 20 to 22. What differs:

- Algorithm 20 attracts and then repels sentence by sentence. Here it is mini-batch by mini-batch, so that rows come
  from memory once.
- Algorithm 21 moves the rows of a pair before the next product. Here all products of a mini-batch come first.
- Algorithm 22 draws any word as a negative with equal probability (line 13). Here negatives are drawn in proportion to
  frequency^0.75.
- Algorithm 22 draws n at random: with window 5, on average three quarters of what pair-by-pair training has, and a
  third near the ends of a sentence. That costs analogies, and most of the quality in short sentences. Here n is what
  pair-by-pair training has; see `updates.number_of_negatives`.

Reference implementation: tests/helpers/naive.py, `word2vec_par`.
"""

import numpy as np

from ..jit import kernel
from ..random import draw
from .batches import empty_list, empty_workspace, repel
from .strips import WIDTH, repulsions
from .text import Text, TrainingOptions
from .updates import (
    AHEAD,
    add_context,
    dots_by_four,
    first_negative,
    learning_rate,
    move_rows,
    negative_at,
    number_of_negatives,
    prefetch_row,
    prefetch_word,
)


@kernel
def train_par(first: int, last: int, text: Text, options: TrainingOptions, W_in: np.ndarray, W_out: np.ndarray) -> None:
    """Train W_in and W_out (R, D) float32 in place on the documents first to last."""
    ptr, words, positions = text
    B = options.minibatch
    most_pairs = 2 * options.window * B
    pairs = (
        np.zeros(most_pairs + 4, np.uint32),
        np.zeros(most_pairs + 4 + WIDTH, np.float32),
        np.zeros(B + 1, np.int64),
    )
    most_negatives = (options.window + 1) * options.negative
    batch, negatives = empty_list(B), empty_list(most_negatives)
    space = empty_workspace(B, most_negatives, W_in.shape[1])
    for d in range(first, last):
        start, end = ptr[d], ptr[d + 1]
        if end - start < 2:
            continue
        for head in range(start, end, B):
            tail = min(head + B, end)
            position = np.int64(positions[head])
            alpha = learning_rate(options, position)
            n = number_of_negatives(head - start, tail - start, end - start, options)
            base = first_negative(position, options)
            for k in range(n):
                negatives[k] = negative_at(options, base + k)
            _attract((start, head, tail, end), text, options, alpha, negatives[:n], pairs, W_in, W_out)
            for b in range(tail - head):
                batch[b] = words[head + b]
                space.strengths[b] = alpha
            if n:
                repel(tail - head, batch, n, negatives, space, negatives[:0], W_in, W_out)


@kernel(_nrt=False)
def _attract(
    bounds: tuple[int, int, int, int],
    text: Text,
    options: TrainingOptions,
    alpha: np.float32,
    negatives: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray],
    W_in: np.ndarray,
    W_out: np.ndarray,
) -> None:
    """Train the words head:tail of the document start:end with their context words; ``bounds`` are these four.

    ``pairs`` is scratch: the context words of all words of the mini-batch, their gradients, and each word's end.
    """
    start, head, tail, end = bounds
    rows, g, ends = pairs
    for i in range(head, tail):
        b = i - head
        position = np.int64(text.positions[i])
        reach = options.window - np.int64(draw(options.windows_key, position) % np.uint64(options.window))
        prefetch_word(text, i + options.window + AHEAD, end, W_in, W_out)
        # The negatives' rows are needed by the repulsion. Each word prefetches its share of them.
        for k in range(b, len(negatives), options.minibatch):
            prefetch_row(W_out, negatives[k])
        ends[b + 1] = add_context(text.words, start, end, i, reach, rows, ends[b])
        dots_by_four(W_out, text.words[i], W_in, rows, ends[b], ends[b + 1], g)
    n = ends[tail - head]
    for r in range(0, n, WIDTH):
        repulsions(g, r, alpha)
    for r in range(n):
        g[r] += alpha
    for b in range(tail - head):
        move_rows(W_out, text.words[head + b], W_in, rows, ends[b], ends[b + 1], g)
