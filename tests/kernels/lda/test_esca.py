"""LDA's kernels against the oracles of naive.py."""

from collections import Counter

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels import random
from corpusmill.kernels.lda import esca as lda
from corpusmill.kernels.lda import inference
from helpers.naive import lda_counts, lda_folded_in, lda_log_likelihood, lda_sweep, lda_uniforms, lda_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

BETA = 0.01


def model_of(chunk, z, alpha, n_words, words=None, beta=BETA):
    """The model that a chunk's topics make, for a block of words."""
    first, behind = words or (0, n_words)
    n_topics = len(alpha)
    whole = lda.count_words(chunk.word_ids, chunk.word_ptr, z, (0, n_words), n_topics)
    block = lda.count_words(chunk.word_ids, chunk.word_ptr, z, (first, behind), n_topics)
    totals = lda.topic_totals(whole.topics, whole.counts, n_topics)
    return lda.ModelBlock(*block, first, totals, np.asarray(alpha, np.float32), beta, n_words)


def empty_model(alpha, n_words):
    counts = np.zeros(n_words + 1, np.int64), np.zeros(0, np.uint16), np.zeros(0, np.int32)
    return lda.ModelBlock(*counts, 0, np.zeros(len(alpha), np.int64), np.asarray(alpha, np.float32), BETA, n_words)


def zipf_chunk(n_documents, n_tokens, n_words, group_tokens=1 << 20, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.multinomial(n_tokens, rng.dirichlet(np.full(n_documents, 2.0)))
    weights = 1 / np.arange(1, n_words + 1)
    words = rng.choice(n_words, n_tokens, p=weights / weights.sum()).astype(np.uint32)
    return make_chunk(0, np.r_[0, np.cumsum(lengths)], words, group_tokens)


def trained(chunk, alpha, n_words, sweeps, leave_out=True):
    """Topics after a few sweeps: rows become as sparse as they are in use."""
    z = lda.draw_initial(chunk, empty_model(alpha, n_words), random.key(7))
    for t in range(sweeps):
        rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
        z = lda.sample(chunk, rows, model_of(chunk, z, alpha, n_words), z, random.key(7, t), leave_out)
    return z


def by_token(chunk, z, n_words, n_topics):
    words = chunk.words[chunk.word_to_doc_order]
    return words, lda_counts(chunk.docs, words, z, chunk.n_documents, n_words, n_topics)


@pytest.mark.parametrize("leave_out", [True, False])
@pytest.mark.parametrize("n_topics", [1, 7, 100, 600])
def test_every_draw_is_the_oracles(n_topics, leave_out):
    n_words = 400
    alpha = np.random.default_rng(1).uniform(0.05, 0.6, n_topics).astype(np.float32)
    chunk = zipf_chunk(60, 12_000, n_words, group_tokens=5_000)
    z = trained(chunk, alpha, n_words, sweeps=4, leave_out=leave_out)
    words, counts = by_token(chunk, z, n_words, n_topics)
    uniforms = lda_uniforms(random.key(3), len(z))
    prior = alpha.astype(float), BETA
    rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    dense = lda.is_dense(rows, n_topics)
    assert dense == (n_topics <= 100)
    expected = lda_sweep(chunk.docs, words, chunk.word_to_doc_order, z, counts, prior, uniforms, leave_out, dense)
    found = lda.sample(chunk, rows, model_of(chunk, z, alpha, n_words), z, random.key(3), leave_out)
    assert np.count_nonzero(found != expected) == 0
    assert n_topics == 1 or np.count_nonzero(found != z) > 1000


@pytest.mark.parametrize("n_topics", [100, 600])
def test_draws_of_a_real_corpus_are_the_oracles(real_data, n_topics):
    n_words, entries = 6906, np.loadtxt(real_data("uci-kos/docword.kos.txt"), skiprows=3, dtype=np.int64)
    doc, word, count = entries[entries[:, 0] <= 130].T
    words = np.repeat(word - 1, count).astype(np.uint32)
    doc_ptr = np.searchsorted(np.repeat(doc - 1, count), np.arange(131))
    chunk = make_chunk(0, doc_ptr, words, 8_000)
    alpha = np.full(n_topics, 50 / n_topics)
    z = trained(chunk, alpha, n_words, sweeps=6)
    by_word, counts = by_token(chunk, z, n_words, n_topics)
    uniforms = lda_uniforms(random.key(5), len(z))
    prior = alpha.astype(np.float32).astype(float), BETA
    rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    dense = lda.is_dense(rows, n_topics)
    assert dense == (n_topics <= 100)
    expected = lda_sweep(chunk.docs, by_word, chunk.word_to_doc_order, z, counts, prior, uniforms, True, dense)
    found = lda.sample(chunk, rows, model_of(chunk, z, alpha, n_words), z, random.key(5))
    assert np.count_nonzero(found != expected) == 0


@pytest.mark.parametrize("n_topics", [12, 260])
@pytest.mark.parametrize("leave_out", [True, False])
def test_draws_of_one_token_follow_equation_1(n_topics, leave_out):
    n_words, draws, token = 6, 6_000, 11
    rng = np.random.default_rng(2)
    chunk = make_chunk(0, np.array([0, 15, 40]), rng.integers(0, n_words, 40).astype(np.uint32))
    alpha = np.full(n_topics, 2 / n_topics)
    z = rng.integers(0, 9, 40).astype(np.uint16)
    words, (A, B, N) = by_token(chunk, z, n_words, n_topics)
    rows, model = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z), model_of(chunk, z, alpha, n_words)
    found = [lda.sample(chunk, rows, model, z, random.key(1, t), leave_out)[token] for t in range(draws)]
    lowered = z[token] if leave_out else None
    weights = lda_weights(A[chunk.docs[token]], B[words[token]], N, alpha, BETA, n_words, lowered)
    expected = weights / weights.sum() * draws
    observed = np.bincount(found, minlength=n_topics)
    assert chi_square(observed, expected) > 1e-4


def chi_square(observed, expected):
    """The p-value, all bins of fewer than five pooled."""
    rare = expected < 5
    pooled = [np.r_[counts[~rare], counts[rare].sum()] for counts in (observed, expected)]
    if pooled[1][-1] < 1:
        pooled = [p[:-1] for p in pooled]
        pooled[1] *= pooled[0].sum() / pooled[1].sum()
    return stats.chisquare(*pooled).pvalue


@pytest.mark.parametrize("n_topics", [50, 300])
def test_blocks_of_words_give_the_draws_of_the_whole(n_topics):
    n_words, alpha = 90, np.full(n_topics, 0.1)
    chunk = zipf_chunk(30, 4_000, n_words, group_tokens=1_000)
    z = trained(chunk, alpha, n_words, sweeps=3)
    rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    whole = lda.sample(chunk, rows, model_of(chunk, z, alpha, n_words), z, random.key(1))
    parts, first = np.zeros_like(z), np.zeros_like(z)
    likelihood = 0.0
    for words in ((0, 1), (1, 40), (40, 40), (40, 90)):
        block = model_of(chunk, z, alpha, n_words, words)
        lda.sample(chunk, rows, block, z, random.key(1), out=parts)
        lda.draw_initial(chunk, block, random.key(2), out=first)
        likelihood += lda.log_likelihood(chunk, rows, block)
    np.testing.assert_array_equal(parts, whole)
    np.testing.assert_array_equal(first, lda.draw_initial(chunk, model_of(chunk, z, alpha, n_words), random.key(2)))
    assert likelihood == pytest.approx(lda.log_likelihood(chunk, rows, model_of(chunk, z, alpha, n_words)))


def test_first_topics_follow_the_model():
    n_words, n_topics = 5, 300
    alpha = np.linspace(0.1, 1.0, n_topics)
    small = zipf_chunk(10, 400, n_words)
    model = model_of(small, trained(small, alpha, n_words, 2), alpha, n_words)
    chunk = make_chunk(0, np.array([0, 20_000]), np.full(20_000, 3, np.uint32))
    row = np.zeros(n_topics)
    entries = slice(model.row_ptr[3], model.row_ptr[4])
    row[model.topics[entries]] = model.counts[entries]
    for table, counts, totals in ((model, row, model.totals), (empty_model(alpha, n_words), 0 * row, 0 * row)):
        weights = alpha * (counts + BETA) / (totals + n_words * BETA)
        z = lda.draw_initial(chunk, table, random.key(4))
        observed = np.bincount(z, minlength=n_topics)
        assert chi_square(observed, weights / weights.sum() * len(z)) > 1e-4


@st.composite
def corpora(draw):
    lengths = draw(st.lists(st.integers(0, 12), min_size=1, max_size=12))
    n_words, n_topics = draw(st.integers(1, 9)), draw(st.sampled_from([1, 3, 64, 65, 5000, 32768]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    doc_ptr = np.r_[0, np.cumsum(lengths)]
    chunk = make_chunk(0, doc_ptr, rng.integers(0, n_words, doc_ptr[-1]).astype(np.uint32), draw(st.integers(1, 40)))
    return chunk, rng.integers(0, n_topics, doc_ptr[-1]).astype(np.uint16), n_words, n_topics


def unpacked(rows, d):
    """The topics of a document with their counts, surplus entries added."""
    found = Counter()
    for entry in rows.entries[rows.row_ptr[d] : rows.row_ptr[d + 1]].tolist():
        if entry & 0xFFFF:
            found[entry >> 16 & 0x7FFF] += entry & 0xFFFF
    return found


def table_row(table, v):
    part = slice(table.row_ptr[v], table.row_ptr[v + 1])
    assert np.all(np.diff(table.topics[part].astype(int)) > 0)
    return dict(zip(table.topics[part].tolist(), table.counts[part].tolist(), strict=True))


@settings(deadline=None, max_examples=60)
@given(corpora())
def test_counts_are_exact(case):
    chunk, z, n_words, n_topics = case
    rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    assert np.all(rows.row_ptr % 8 == 0)
    for d in range(chunk.n_documents):
        assert unpacked(rows, d) == Counter(z[chunk.docs == d].tolist())
    table = lda.count_words(chunk.word_ids, chunk.word_ptr, z, (0, n_words), n_topics)
    words = chunk.words[chunk.word_to_doc_order]
    for v in range(n_words):
        assert table_row(table, v) == Counter(z[words == v].tolist())
    totals = lda.topic_totals(table.topics, table.counts, n_topics)
    np.testing.assert_array_equal(totals, np.bincount(z, minlength=n_topics))


@settings(deadline=None, max_examples=60)
@given(corpora(), st.integers(0, 2**32))
def test_merged_counts_are_those_of_the_union(case, seed):
    chunk, z, n_words, n_topics = case
    keep = np.random.default_rng(seed).random(len(chunk.word_ids)) < 0.5
    whole = lda.count_words(chunk.word_ids, chunk.word_ptr, z, (0, n_words), n_topics)
    outside = np.uint32(n_words)
    left, right = (
        lda.count_words(np.where(part, chunk.word_ids, outside), chunk.word_ptr, z, (0, n_words), n_topics)
        for part in (keep, ~keep)
    )
    for merged in (lda.merge_counts(left, right), lda.merge_counts(right, left)):
        for found, expected in zip(merged, whole, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n_topics", [3, 300])
def test_a_document_may_have_any_length(n_topics):
    n_words, n_tokens = 2, 150_000
    chunk = make_chunk(0, np.array([0, n_tokens]), (np.arange(n_tokens) % n_words).astype(np.uint32))
    z = (np.arange(n_tokens) % 10 == 0).astype(np.uint16)
    rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    assert unpacked(rows, 0) == Counter(z.tolist())
    alpha = np.full(n_topics, 0.1)
    new = lda.sample(chunk, rows, model_of(chunk, z, alpha, n_words), z, random.key(2))
    words, (A, B, N) = by_token(chunk, z, n_words, n_topics)
    for v in range(n_words):
        for old in (0, 1):
            same = (words == v) & (z == old)
            weights = lda_weights(A[0], B[v], N, alpha, BETA, n_words, old)
            observed = np.bincount(new[same], minlength=n_topics)
            if same.any():
                assert chi_square(observed, weights / weights.sum() * same.sum()) > 1e-4


def test_most_topics_that_fit():
    n_topics, n_words = 32_768, 50
    alpha = np.full(n_topics, 50 / n_topics)
    chunk = zipf_chunk(3, 600, n_words)
    z = lda.draw_initial(chunk, empty_model(alpha, n_words), random.key(1))
    assert z.max() > 32_000
    z[:3] = n_topics - 1
    words, counts = by_token(chunk, z, n_words, n_topics)
    rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    new = lda.sample(chunk, rows, model_of(chunk, z, alpha, n_words), z, random.key(2))
    prior = alpha.astype(np.float32).astype(float), BETA
    uniforms = lda_uniforms(random.key(2), len(z))
    expected = lda_sweep(chunk.docs, words, chunk.word_to_doc_order, z, counts, prior, uniforms, True, dense=False)
    np.testing.assert_array_equal(new, expected)


def test_training_log_likelihood_is_equation_2_3():
    n_words, n_topics = 100, 40
    alpha = np.linspace(0.05, 0.5, n_topics)
    chunk = zipf_chunk(30, 3_000, n_words, group_tokens=1_000)
    z = trained(chunk, alpha, n_words, sweeps=3)
    words, counts = by_token(chunk, z, n_words, n_topics)
    rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    found = lda.log_likelihood(chunk, rows, model_of(chunk, z, alpha, n_words))
    assert found == pytest.approx(lda_log_likelihood(chunk.docs, words, counts, (alpha, BETA)), rel=1e-6)


def separated(n_topics, words_per_topic):
    """A model whose topics share no word."""
    n_words = n_topics * words_per_topic
    topics = np.repeat(np.arange(n_topics), words_per_topic).astype(np.uint16)
    counts = np.full(n_words, 100, np.int32)
    totals = np.full(n_topics, 100 * words_per_topic)
    alpha = np.full(n_topics, 0.1, np.float32)
    return lda.ModelBlock(np.arange(n_words + 1), topics, counts, 0, totals, alpha, BETA, n_words)


@pytest.mark.parametrize("n_topics", [5, 300])
def test_folding_in_finds_the_topics_of_new_documents(n_topics):
    model = separated(n_topics, 4)
    doc_ptr = np.array([0, 100, 100, 200])
    words = np.r_[np.arange(100) % 4, 4 + np.arange(75) % 4, 8 + np.arange(25) % 4].astype(np.uint32)
    theta = inference.fold_in(doc_ptr, words, inference.word_weights(model))
    assert theta.shape == (3, n_topics) and theta.dtype == np.float32
    np.testing.assert_allclose(theta.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(theta[1], model.alpha / model.alpha.sum(), rtol=1e-5)
    mass = 100 + model.alpha.sum()
    assert theta[0, 0] == pytest.approx(100.1 / mass, rel=0.03)
    assert theta[2, 1] == pytest.approx(75.1 / mass, rel=0.05)


@pytest.fixture(scope="module", params=[3, 20, 300])
def inferred(request):
    """Documents, a model of theirs, φ of that model in float64, and the documents' folded-in topics."""
    n_topics, n_words = request.param, 200
    alpha = np.random.default_rng(2).uniform(0.05, 0.5, n_topics)
    chunk = zipf_chunk(20, 4_000, n_words)
    z = trained(chunk, alpha, n_words, 3)
    _, (_, B, N) = by_token(chunk, z, n_words, n_topics)
    model = inference.word_weights(model_of(chunk, z, alpha, n_words))
    return chunk, model, (B + BETA) / (N + n_words * BETA), inference.fold_in(chunk.doc_ptr, chunk.words, model)


def test_folding_in_is_the_oracles_and_does_not_depend_on_a_documents_company(inferred):
    chunk, model, phi, theta = inferred
    for d in range(chunk.n_documents):
        own = chunk.words[chunk.doc_ptr[d] : chunk.doc_ptr[d + 1]]
        np.testing.assert_allclose(theta[d], lda_folded_in(own, phi, model.alpha.astype(float)), rtol=1e-3, atol=1e-6)
        np.testing.assert_array_equal(inference.fold_in(np.array([0, len(own)]), own, model)[0], theta[d])


def test_completion_is_the_predictive_likelihood(inferred):
    chunk, model, phi, theta = inferred
    scored = chunk.doc_ptr // 2, chunk.words[::2][: chunk.doc_ptr[-1] // 2]
    docs = np.repeat(np.arange(20), np.diff(scored[0]))
    expected = np.log((theta[docs].astype(float) * phi[scored[1]]).sum(axis=1)).sum()
    found = inference.score_completion((chunk.doc_ptr, chunk.words), scored, model)
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_chunk_without_tokens():
    chunk = make_chunk(0, np.array([0, 0, 0]), np.zeros(0, np.uint32))
    alpha = np.full(4, 0.5)
    model = empty_model(alpha, 3)
    z = lda.draw_initial(chunk, model, random.key(1))
    rows = lda.count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    assert len(lda.sample(chunk, rows, model, z, random.key(2))) == 0
    assert lda.count_words(chunk.word_ids, chunk.word_ptr, z, (0, 3), 4).row_ptr.tolist() == [0, 0, 0, 0]
    theta = inference.fold_in(chunk.doc_ptr, chunk.words, inference.word_weights(model))
    np.testing.assert_allclose(theta, 0.25)
