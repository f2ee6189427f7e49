"""The kernel of PAR-Word2Vec with another number of words per mini-batch, against its reference implementation."""

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.word2vec import par, skip_gram
from corpusmill.kernels.word2vec.text import Text, TrainingOptions, negative_table, padded
from helpers import naive

from benchmarks.papers.word2vec_batches import train_with_batches

N_WORDS = 20
WINDOW = 3
NEGATIVE = 2


@pytest.mark.slow
def test_mini_batches_of_another_size_make_the_updates_of_the_reference():
    rng = np.random.default_rng(0)
    words = rng.integers(0, N_WORDS, 120).astype(np.uint32)
    text = Text(np.array([0, 50, 120]), words, np.arange(120, dtype=np.uint32))
    table = negative_table(np.arange(N_WORDS, 0, -1), 0.75, 64, random.key(5))
    options = TrainingOptions(WINDOW, NEGATIVE, table, random.key(6), random.key(7), 0.05, 0.0, 0.05)
    W_in, W_out = (rng.normal(0, 0.3, (N_WORDS, padded(16))).astype(np.float32) for _ in range(2))
    expected = W_in.astype(float), W_out.astype(float)
    sentences = [list(enumerate(words[:50].tolist())), list(enumerate(words[50:].tolist(), 50))]
    keys = (int(options.windows_key), int(options.negatives_key))
    naive.word2vec_par(sentences, *expected, WINDOW, NEGATIVE, table.tolist(), keys, lambda position: 0.05, batch=8)
    train_with_batches(8)("par", text, options, W_in, W_out)
    for found, wanted in zip((W_in, W_out), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-5)


def test_the_number_of_the_kernel_needs_no_other_kernel():
    assert train_with_batches(par.BATCH) is skip_gram.train
