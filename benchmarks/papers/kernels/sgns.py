"""Skip-gram with negative sampling, one pair at a time: the order of word2vec and gensim.

For each word, and each of its context words c: row c of W_in is trained with the word (label 1) and with ``negative``
negatives (label 0) in W_out.

Source: Moon's dissertation (2019), Algorithm 19. There, each negative is any word with equal probability (line 17), and
may be the word itself. Here it is drawn in proportion to frequency^0.75, and left out if it is the word itself, as in
the program word2vec.

Reference implementation: tests/helpers/naive.py, `word2vec_sgns`.
"""

import numpy as np
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.random import draw
from corpusmill.kernels.word2vec.strips import WIDTH
from corpusmill.kernels.word2vec.text import Text, TrainingOptions
from corpusmill.kernels.word2vec.updates import (
    AHEAD,
    add_context,
    add_negatives,
    learning_rate,
    prefetch_word,
    train_row,
)


@kernel
def train_sgns(
    first: int, last: int, text: Text, options: TrainingOptions, W_in: np.ndarray, W_out: np.ndarray
) -> None:
    """Train W_in and W_out (R, D) float32 in place on the documents first to last."""
    ptr, words, positions = text
    context = np.empty(2 * options.window, np.uint32)
    rows = np.empty(options.negative + 1, np.uint32)
    g = np.empty(options.negative + 1 + WIDTH, np.float32)
    for d in range(first, last):
        for i in range(ptr[d], ptr[d + 1]):
            position = np.int64(positions[i])
            reach = options.window - np.int64(draw(options.windows_key, position) % np.uint64(options.window))
            rows[0] = words[i]
            prefetch_word(text, i + reach + AHEAD, ptr[d + 1], W_in, W_out)
            for c in range(add_context(words, ptr[d], ptr[d + 1], i, reach, context, 0)):
                base = (position * 2 * options.window + c) * options.negative
                n = add_negatives(options, base, rows, W_out)
                train_row(W_in, context[c], W_out, rows, n, 1, learning_rate(options, position), g)
