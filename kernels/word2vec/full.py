"""FULL-W2V: the negatives belong to a window, and each is trained with all context words before the next one.

For each word: its row of W_out (label 1), and then each of ``negative`` negatives (label 0), is trained with the rows
of all context words in W_in. The window has a fixed width: on each side half of ``window``, rounded up. For an odd
``window`` that is the mean of a random reach.

Source: Randall et al., "FULL-W2V" (ICS 2021), section 3. The paper copies context rows to a ring buffer in the
GPU's shared memory. On a CPU the first-level cache does that: a context row is used in 2 * reach windows in a row, so
it stays there without a copy, and a word that is twice in a window sees both updates. The paper's windows pass over the
ends of sentences (section 4.1). Here they do so only with the parameter ``ignore_sentence_ends``.

Reference implementation: tests/helpers/naive.py, `word2vec_full`.
"""

import numpy as np

from ..jit import kernel
from .strips import WIDTH
from .text import Text, TrainingOptions
from .updates import AHEAD, add_context, add_negatives, learning_rate, prefetch_word, train_row


@kernel
def train_full(
    first: int, last: int, text: Text, options: TrainingOptions, W_in: np.ndarray, W_out: np.ndarray
) -> None:
    """Train W_in and W_out (R, D) float32 in place on the documents first to last."""
    ptr, words, positions = text
    reach = (options.window + 1) // 2
    context = np.empty(2 * reach, np.uint32)
    samples = np.empty(options.negative + 1, np.uint32)
    g = np.empty(2 * reach + WIDTH, np.float32)
    for d in range(first, last):
        for i in range(ptr[d], ptr[d + 1]):
            position = np.int64(positions[i])
            samples[0] = words[i]
            prefetch_word(text, i + reach + AHEAD, ptr[d + 1], W_in, W_out)
            m = add_negatives(options, position * options.negative, samples, W_out)
            n = add_context(words, ptr[d], ptr[d + 1], i, reach, context, 0)
            for s in range(m):
                positive = n if s == 0 else 0
                train_row(W_out, samples[s], W_in, context, n, positive, learning_rate(options, position), g)
