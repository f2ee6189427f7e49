"""Collapsed Gibbs sampling by mini-batches, draw by draw against its reference implementation."""

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.lda import minibatch
from helpers import naive
from helpers.lda_cases import assert_counts, random_topics, small_chunk, tables_of, tokens_of, word_order

KEY = random.key(5, 1, 0)
BETA = 0.05
N_WORDS = 12
ALPHAS = [np.full(3, 0.25), np.linspace(0.1, 2, 37)]


@pytest.mark.parametrize("documents", [1, 4, 100])
def test_draws_of_mini_batches_are_those_of_algorithm_4(documents):
    chunk, alpha = small_chunk(7), ALPHAS[1]
    docs, words, _ = word_order(chunk)
    z = random_topics(chunk, len(alpha))
    tables, expected = tables_of(chunk, z, alpha, N_WORDS, BETA), z.copy()
    batches = [np.flatnonzero((docs >= d) & (docs < d + documents)) for d in range(0, chunk.n_documents, documents)]
    uniforms = naive.lda_uniforms(KEY, len(z))
    naive.lda_minibatch(batches, docs, words, expected, (alpha, BETA), uniforms, N_WORDS)
    minibatch.minibatch(tokens_of(chunk), tables, z, KEY, chunk.doc_ptr, documents)
    np.testing.assert_array_equal(z, expected)
    assert_counts(tables, chunk, z)
