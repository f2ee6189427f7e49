"""Small texts and matrices for the tests of skip-gram's kernels."""

import numpy as np
from corpusmill.kernels import random
from corpusmill.kernels.word2vec.text import Text, TrainingOptions, negative_table, padded

#: Lengths of documents, some of them without a pair, some as long as a mini-batch of "par".
LENGTHS = (60, 1, 0, 2, 25, 24, 7, 49)


def make_text(lengths, n_words, seed=0):
    """Return documents of random words, of these lengths."""
    rng = np.random.default_rng(seed)
    ptr = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    words = np.minimum(rng.geometric(0.1, ptr[-1]) - 1, n_words - 1).astype(np.uint32)
    positions = np.cumsum(rng.integers(1, 3, ptr[-1])).astype(np.uint32)
    return Text(ptr, words, positions)


def make_model(n_words, dimension, seed=1):
    """Return random W_in and W_out (n_words, padded dimension)."""
    rng = np.random.default_rng(seed)
    pair = [np.zeros((n_words, padded(dimension)), np.float32) for _ in range(2)]
    for W in pair:
        W[:, :dimension] = rng.normal(0, 0.3, (n_words, dimension))
    return pair


def make_options(window, negative, n_words, size=64):
    """Return options with a table of negatives."""
    table = negative_table(np.arange(n_words, 0, -1), 0.75, size, random.key(5))
    return TrainingOptions(window, negative, table, random.key(6), random.key(7), 0.05, 1e-4, 0.03)


def sentences_of(text):
    """Return a text as lists of pairs of position and word."""
    pairs = list(zip(text.positions.tolist(), text.words.tolist(), strict=True))
    return [pairs[a:b] for a, b in zip(text.ptr[:-1], text.ptr[1:], strict=True)]


def reference_training(reference, text, options, W_in, W_out):
    """Return copies of W_in and W_out, trained by a reference implementation."""
    W_in, W_out = W_in.astype(float), W_out.astype(float)

    def rate(position):
        return max(options.min_alpha, options.alpha - options.slope * position)

    keys = (int(options.windows_key), int(options.negatives_key))
    reference(sentences_of(text), W_in, W_out, options.window, options.negative, options.table.tolist(), keys, rate)
    return W_in, W_out
