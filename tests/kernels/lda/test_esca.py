"""The ESCA sampler draw by draw against its reference implementation, and against its equation."""

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda import esca
from corpusmill.kernels.lda.counts import count_documents, count_words
from helpers.lda_cases import (
    chi_square,
    dense_counts,
    empty_model,
    model_of,
    trained_topics,
    word_order,
    zipf_chunk,
)
from helpers.naive import lda_log_likelihood, lda_sweep, lda_uniforms, lda_weights

BETA = 0.01


def rows_of(chunk, z):
    return count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)


def reference_sweep(chunk, z, alpha, n_words, key, leave_out, dense):
    """The next topics by the reference implementation; the kernels hold alpha in single precision."""
    docs, words, positions = word_order(chunk)
    prior = alpha.astype(np.float32).astype(float), BETA
    counts = dense_counts(chunk, z, len(alpha), n_words)
    return lda_sweep(docs, words, positions, z, counts, prior, lda_uniforms(key, len(z)), leave_out, dense)


@pytest.mark.parametrize("leave_out", [True, False])
@pytest.mark.parametrize("n_topics", [1, 7, 100, 600])
def test_every_draw_is_that_of_the_reference_implementation(n_topics, leave_out):
    n_words = 400
    alpha = np.random.default_rng(1).uniform(0.05, 0.6, n_topics)
    chunk = zipf_chunk(60, 12_000, n_words, group_tokens=5_000)
    z = trained_topics(chunk, alpha, n_words, sweeps=4, leave_out=leave_out)
    rows = rows_of(chunk, z)
    dense = esca.is_dense(rows, n_topics)
    assert dense == (n_topics <= 100)
    expected = reference_sweep(chunk, z, alpha, n_words, random.key(3), leave_out, dense)
    found = esca.sample(chunk, rows, model_of(chunk, z, alpha, n_words), z, random.key(3), leave_out)
    assert np.count_nonzero(found != expected) == 0
    assert n_topics == 1 or np.count_nonzero(found != z) > 1000


@pytest.mark.parametrize("n_topics", [100, 600])
def test_draws_of_a_real_corpus_are_those_of_the_reference_implementation(real_data, n_topics):
    n_words, entries = 6906, np.loadtxt(real_data("uci-kos/docword.kos.txt"), skiprows=3, dtype=np.int64)
    doc, word, count = entries[entries[:, 0] <= 130].T
    words = np.repeat(word - 1, count).astype(np.uint32)
    doc_ptr = np.searchsorted(np.repeat(doc - 1, count), np.arange(131))
    chunk = make_chunk(0, doc_ptr, words, 8_000)
    alpha = np.full(n_topics, 50 / n_topics)
    z = trained_topics(chunk, alpha, n_words, sweeps=6)
    rows = rows_of(chunk, z)
    dense = esca.is_dense(rows, n_topics)
    assert dense == (n_topics <= 100)
    expected = reference_sweep(chunk, z, alpha, n_words, random.key(5), True, dense)
    found = esca.sample(chunk, rows, model_of(chunk, z, alpha, n_words), z, random.key(5))
    assert np.count_nonzero(found != expected) == 0


@pytest.mark.parametrize("n_topics", [12, 260])
@pytest.mark.parametrize("leave_out", [True, False])
def test_draws_of_one_token_follow_equation_1(n_topics, leave_out):
    n_words, draws, token = 6, 6_000, 11
    rng = np.random.default_rng(2)
    chunk = make_chunk(0, np.array([0, 15, 40]), rng.integers(0, n_words, 40).astype(np.uint32))
    alpha = np.full(n_topics, 2 / n_topics)
    z = rng.integers(0, 9, 40).astype(np.uint16)
    docs, words, _ = word_order(chunk)
    A, B, N = dense_counts(chunk, z, n_topics, n_words)
    rows, model = rows_of(chunk, z), model_of(chunk, z, alpha, n_words)
    found = [esca.sample(chunk, rows, model, z, random.key(1, t), leave_out)[token] for t in range(draws)]
    left_out = z[token] if leave_out else None
    weights = lda_weights(A[docs[token]], B[words[token]], N, alpha, BETA, n_words, left_out)
    expected = weights / weights.sum() * draws
    observed = np.bincount(found, minlength=n_topics)
    assert chi_square(observed, expected) > 1e-4


@pytest.mark.parametrize("n_topics", [50, 300])
def test_blocks_of_words_give_the_draws_of_the_whole_model(n_topics):
    n_words, alpha = 90, np.full(n_topics, 0.1)
    chunk = zipf_chunk(30, 4_000, n_words, group_tokens=1_000)
    z = trained_topics(chunk, alpha, n_words, sweeps=3)
    rows, model = rows_of(chunk, z), model_of(chunk, z, alpha, n_words)
    by_blocks, first = np.zeros_like(z), np.zeros_like(z)
    likelihood = 0.0
    for words in ((0, 1), (1, 40), (40, 40), (40, 90)):
        block = model_of(chunk, z, alpha, n_words, words)
        esca.sample(chunk, rows, block, z, random.key(1), out=by_blocks)
        esca.draw_initial(chunk, block, random.key(2), out=first)
        likelihood += esca.log_likelihood(chunk, rows, block)
    np.testing.assert_array_equal(by_blocks, esca.sample(chunk, rows, model, z, random.key(1)))
    np.testing.assert_array_equal(first, esca.draw_initial(chunk, model, random.key(2)))
    assert likelihood == pytest.approx(esca.log_likelihood(chunk, rows, model))


def test_first_topics_follow_the_model():
    n_words, n_topics = 5, 300
    alpha = np.linspace(0.1, 1.0, n_topics)
    small = zipf_chunk(10, 400, n_words)
    model = model_of(small, trained_topics(small, alpha, n_words, 2), alpha, n_words)
    chunk = make_chunk(0, np.array([0, 20_000]), np.full(20_000, 3, np.uint32))
    row = np.zeros(n_topics)
    entries = slice(model.row_ptr[3], model.row_ptr[4])
    row[model.topics[entries]] = model.counts[entries]
    for table, counts, totals in ((model, row, model.totals), (empty_model(alpha, n_words), 0 * row, 0 * row)):
        weights = alpha * (counts + BETA) / (totals + n_words * BETA)
        z = esca.draw_initial(chunk, table, random.key(4))
        observed = np.bincount(z, minlength=n_topics)
        assert chi_square(observed, weights / weights.sum() * len(z)) > 1e-4


@pytest.mark.parametrize("n_topics", [3, 300])
def test_draws_in_a_document_longer_than_an_entry_can_count_follow_equation_1(n_topics):
    n_words, n_tokens = 2, 150_000
    chunk = make_chunk(0, np.array([0, n_tokens]), (np.arange(n_tokens) % n_words).astype(np.uint32))
    z = (np.arange(n_tokens) % 10 == 0).astype(np.uint16)
    alpha = np.full(n_topics, 0.1)
    new = esca.sample(chunk, rows_of(chunk, z), model_of(chunk, z, alpha, n_words), z, random.key(2))
    _, words, _ = word_order(chunk)
    A, B, N = dense_counts(chunk, z, n_topics, n_words)
    for v in range(n_words):
        for old in (0, 1):
            same = (words == v) & (z == old)
            weights = lda_weights(A[0], B[v], N, alpha, BETA, n_words, old)
            observed = np.bincount(new[same], minlength=n_topics)
            if same.any():
                assert chi_square(observed, weights / weights.sum() * same.sum()) > 1e-4


@pytest.mark.slow
def test_the_largest_possible_number_of_topics():
    n_topics, n_words = 32_768, 50
    alpha = np.full(n_topics, 50 / n_topics)
    chunk = zipf_chunk(3, 600, n_words)
    z = esca.draw_initial(chunk, empty_model(alpha, n_words), random.key(1))
    assert z.max() > 32_000
    z[:3] = n_topics - 1
    found = esca.sample(chunk, rows_of(chunk, z), model_of(chunk, z, alpha, n_words), z, random.key(2))
    expected = reference_sweep(chunk, z, alpha, n_words, random.key(2), True, dense=False)
    np.testing.assert_array_equal(found, expected)


def test_the_training_log_likelihood_is_equation_2_3():
    n_words, n_topics = 100, 40
    alpha = np.linspace(0.05, 0.5, n_topics)
    chunk = zipf_chunk(30, 3_000, n_words, group_tokens=1_000)
    z = trained_topics(chunk, alpha, n_words, sweeps=3)
    docs, words, _ = word_order(chunk)
    counts = dense_counts(chunk, z, n_topics, n_words)
    found = esca.log_likelihood(chunk, rows_of(chunk, z), model_of(chunk, z, alpha, n_words))
    assert found == pytest.approx(lda_log_likelihood(docs, words, counts, (alpha, BETA)), rel=1e-6)


def test_a_chunk_without_tokens():
    chunk = make_chunk(0, np.array([0, 0, 0]), np.zeros(0, np.uint32))
    model = empty_model(np.full(4, 0.5), 3)
    z = esca.draw_initial(chunk, model, random.key(1))
    assert len(esca.sample(chunk, rows_of(chunk, z), model, z, random.key(2))) == 0
    assert count_words(chunk.word_ids, chunk.word_ptr, z, (0, 3), 4).row_ptr.tolist() == [0, 0, 0, 0]
