"""The uncollapsed Gibbs sampler draw by draw against Algorithm 2, and its Dirichlet draws."""

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.lda.minibatch import CountTables, Tokens
from helpers import naive
from helpers.lda_cases import dense_counts, random_topics, small_chunk, word_order

from benchmarks.papers.kernels import uncollapsed

KEY = random.key(5, 1, 0)
BETA = 0.05
N_WORDS = 12


@pytest.mark.parametrize("seed", range(3))
def test_draws_of_topics_are_those_of_algorithm_2(seed):
    chunk, alpha = small_chunk(seed), np.linspace(0.1, 2, 37).astype(np.float32)
    docs, words, _ = word_order(chunk)
    counts = dense_counts(chunk, random_topics(chunk, len(alpha)), len(alpha), N_WORDS)
    tables = CountTables(*(table.astype(np.int32) for table in counts), alpha, BETA, N_WORDS * BETA)
    tokens, out = Tokens(chunk.docs, words, chunk.word_to_doc_order), np.zeros(chunk.n_tokens, np.uint16)
    theta = uncollapsed.dirichlet(tables.A + tables.alpha, 1, KEY)
    phi = uncollapsed.dirichlet(tables.B + np.float32(BETA), 0, random.key(9))
    expected = naive.lda_uncollapsed(docs, words, theta, phi, naive.lda_uniforms(KEY, chunk.n_tokens))
    uncollapsed.sample(tokens, tables, (KEY, random.key(9)), out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_dirichlet_draws_have_their_mean_and_variance(axis):
    a = np.array([0.3, 0.5, 2, 7])
    parameters = np.tile(a, (40_000, 1)) if axis else np.tile(a[:, None], 40_000)
    drawn = uncollapsed.dirichlet(parameters, axis, KEY)
    drawn = drawn if axis else drawn.T
    np.testing.assert_allclose(drawn.sum(axis=1), 1, atol=1e-5)
    mean = a / a.sum()
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=4e-3)
    np.testing.assert_allclose(drawn.var(axis=0), mean * (1 - mean) / (a.sum() + 1), rtol=0.06)
