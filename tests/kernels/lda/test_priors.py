"""Learned priors: histograms of counts, and the fixed point against its reference implementation."""

import numpy as np
import pytest
from corpusmill.kernels.lda import priors as lda_priors
from corpusmill.kernels.lda.counts import count_documents
from helpers.naive import lda_learned_alpha
from hypothesis import given, settings
from hypothesis import strategies as st


def histograms(A, n_bins):
    columns = [lda_priors.histogram(column[column > 0], n_bins) for column in A.T]
    numbers, sums = (np.stack(parts) for parts in zip(*columns, strict=True))
    return lda_priors.Histogram(numbers, sums.sum(axis=0)), lda_priors.histogram(A.sum(axis=1), n_bins)


@given(st.integers(0, 1 << 30))
def test_larger_counts_have_no_smaller_bins(count):
    here, next_one = lda_priors.bins_of(np.array([count, count + 1]))
    assert 0 <= next_one - here <= 1
    assert here == count or count > 64


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1 << 32), st.integers(1, 30), st.integers(2, 9))
def test_histograms_of_rows_are_those_of_the_counts(seed, documents, n_topics):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 200, documents)
    z = rng.integers(0, n_topics, lengths.sum()).astype(np.uint16)
    doc_ptr = np.r_[0, np.cumsum(lengths)]
    A = np.stack([np.bincount(z[a:b], minlength=n_topics) for a, b in zip(doc_ptr, doc_ptr[1:], strict=False)])
    rows = count_documents(doc_ptr, np.arange(len(z), dtype=np.uint32), z)
    for found, expected in zip(lda_priors.topic_histogram(rows, n_topics, 90), histograms(A, 90)[0], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_topic_of_more_tokens_than_an_entry_holds_is_one_document():
    z = np.zeros(200_000, np.uint16)
    rows = count_documents(np.array([0, len(z)]), np.arange(len(z), dtype=np.uint32), z)
    expected = lda_priors.histogram(np.array([len(z)]), 180)
    found = lda_priors.topic_histogram(rows, 2, 180)
    np.testing.assert_array_equal(found.numbers, [expected.numbers, np.zeros(180)])
    np.testing.assert_array_equal(found.sums, expected.sums)


@pytest.mark.parametrize("symmetric", [True, False])
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1 << 32))
def test_alpha_is_that_of_the_reference_implementation(symmetric, seed):
    rng = np.random.default_rng(seed)
    A = np.stack([rng.multinomial(n, rng.dirichlet([0.2, 0.5, 1.5])) for n in rng.integers(0, 60, 30)])
    start = np.full(3, 0.7)
    found = lda_priors.learn_alpha(start, *histograms(A, 64), symmetric)
    np.testing.assert_allclose(found, lda_learned_alpha(start, A, symmetric), rtol=2e-3)


def test_the_prior_that_documents_were_drawn_from_is_found():
    rng = np.random.default_rng(0)
    alpha = np.array([0.1, 0.4, 2.0])
    A = np.stack([rng.multinomial(300, rng.dirichlet(alpha)) for _ in range(4000)])
    found = np.ones(3)
    for _ in range(10):
        found = lda_priors.learn_alpha(found, *histograms(A, 120), False)
    np.testing.assert_allclose(found, alpha, rtol=0.1)


def test_the_beta_that_words_were_drawn_from_is_found():
    rng = np.random.default_rng(0)
    B = np.stack([rng.multinomial(5000, rng.dirichlet(np.full(400, 0.07))) for _ in range(50)])
    found = lda_priors.learn_beta(0.5, lda_priors.histogram(B[B > 0], 200), B.sum(axis=1), 400)
    assert found == pytest.approx(0.07, rel=0.05)
