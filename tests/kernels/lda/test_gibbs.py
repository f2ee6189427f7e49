"""Collapsed Gibbs sampling in word order, against a plain implementation and against its distribution."""

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda import esca, gibbs
from corpusmill.kernels.lda.counts import count_documents
from helpers.lda_cases import chi_square, dense_counts, model_of, small_chunk, trained_topics, word_order, zipf_chunk
from helpers.naive import lda_uniforms, lda_weights
from helpers.naive_gibbs import lda_gibbs_sweep

BETA = 0.01
KEY = random.key(5)


def is_dense(chunk, z, n_topics):
    return esca.is_dense(count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z), n_topics)


def reference_sweep(chunk, z, alpha, n_words):
    n_topics = len(alpha)
    counts = dense_counts(chunk, z, n_topics, n_words)
    uniforms = lda_uniforms(KEY, chunk.n_tokens)
    dense = is_dense(chunk, z, n_topics)
    # The kernels hold alpha in single precision.
    prior = alpha.astype(np.float32).astype(float), BETA
    return lda_gibbs_sweep(*word_order(chunk), z, counts, prior, uniforms, dense)


@pytest.mark.parametrize("n_topics", [2, 7, 24, 150, 600])
@pytest.mark.parametrize("group_tokens", [1 << 20, 500])
def test_topics_are_those_of_the_reference(n_topics, group_tokens):
    n_words = 60
    alpha = np.linspace(0.05, 0.2, n_topics)
    chunk = zipf_chunk(40, 3_000, n_words, group_tokens)
    z = trained_topics(chunk, alpha, n_words, sweeps=2)
    assert is_dense(chunk, z, n_topics) == (n_topics < 100)
    found = gibbs.sweep(chunk, [model_of(chunk, z, alpha, n_words)], z, KEY)
    assert np.count_nonzero(found != z) > 100
    np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


@pytest.mark.parametrize("n_topics", [6, 90])
def test_empty_documents_and_documents_of_one_token(n_topics):
    n_words, alpha = 12, np.full(n_topics, 0.1)
    for seed in range(5):
        chunk = small_chunk(seed)
        z = trained_topics(chunk, alpha, n_words, sweeps=1)
        found = gibbs.sweep(chunk, [model_of(chunk, z, alpha, n_words)], z, KEY)
        np.testing.assert_array_equal(found, reference_sweep(chunk, z, alpha, n_words))


@pytest.mark.parametrize("n_topics", [12, 260])
def test_draws_of_the_first_token_follow_the_full_conditional(n_topics):
    n_words, draws = 6, 6_000
    rng = np.random.default_rng(2)
    chunk = make_chunk(0, np.array([0, 15, 40]), rng.integers(0, n_words, 40).astype(np.uint32))
    alpha = np.full(n_topics, 2 / n_topics)
    z = rng.integers(0, 9, 40).astype(np.uint16)
    docs, words, _ = word_order(chunk)
    A, B, N = dense_counts(chunk, z, n_topics, n_words)
    model = model_of(chunk, z, alpha, n_words)
    found = [gibbs.sweep(chunk, [model], z, random.key(1, t))[0] for t in range(draws)]
    weights = lda_weights(A[docs[0]], B[words[0]], N, alpha, BETA, n_words, z[0])
    assert chi_square(np.bincount(found, minlength=n_topics), weights / weights.sum() * draws) > 1e-4


@pytest.mark.parametrize("n_topics", [40, 300])
def test_blocks_of_words_give_the_topics_of_the_whole_model(n_topics):
    n_words, alpha = 90, np.full(n_topics, 0.1)
    chunk = zipf_chunk(30, 4_000, n_words, group_tokens=1_000)
    z = trained_topics(chunk, alpha, n_words, sweeps=3)
    blocks = [model_of(chunk, z, alpha, n_words, words) for words in ((0, 1), (1, 40), (40, 40), (40, 90))]
    whole = gibbs.sweep(chunk, [model_of(chunk, z, alpha, n_words)], z, KEY)
    np.testing.assert_array_equal(gibbs.sweep(chunk, blocks, z, KEY), whole)


@pytest.mark.parametrize("n_topics", [3, 300])
def test_a_document_longer_than_a_packed_entry_can_count(n_topics):
    n_tokens = 150_000
    chunk = make_chunk(0, np.array([0, n_tokens]), (np.arange(n_tokens) % 2).astype(np.uint32))
    z = (np.arange(n_tokens) % 10 == 0).astype(np.uint16)
    alpha = np.full(n_topics, 0.1)
    found = gibbs.sweep(chunk, [model_of(chunk, z, alpha, 2)], z, KEY)
    # Topics 0 and 1 have the same words, so that tokens change between them, but their shares change slowly.
    assert np.mean(found == 0) == pytest.approx(0.9, abs=0.05)
