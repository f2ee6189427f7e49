"""Folding in new documents against its reference implementation, and completion of documents."""

import numpy as np
import pytest
from corpusmill.io.stores.chunk import make_chunk
from corpusmill.kernels.lda import inference
from corpusmill.kernels.lda.model import ModelBlock
from helpers.lda_cases import dense_counts, empty_model, model_of, trained_topics, zipf_chunk
from helpers.naive import lda_folded_in

BETA = 0.01


def separated(n_topics, words_per_topic):
    """A model whose topics share no word."""
    n_words = n_topics * words_per_topic
    topics = np.repeat(np.arange(n_topics), words_per_topic).astype(np.uint16)
    counts = np.full(n_words, 100, np.int32)
    totals = np.full(n_topics, 100 * words_per_topic)
    alpha = np.full(n_topics, 0.1, np.float32)
    return ModelBlock(np.arange(n_words + 1), topics, counts, 0, totals, alpha, BETA, n_words)


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
    """Documents, a model of them, its φ in float64, and the documents' folded-in topics."""
    n_topics, n_words = request.param, 200
    alpha = np.random.default_rng(2).uniform(0.05, 0.5, n_topics)
    chunk = zipf_chunk(20, 4_000, n_words)
    z = trained_topics(chunk, alpha, n_words, 3)
    _, B, N = dense_counts(chunk, z, n_topics, n_words)
    model = inference.word_weights(model_of(chunk, z, alpha, n_words))
    return chunk, model, (B + BETA) / (N + n_words * BETA), inference.fold_in(chunk.doc_ptr, chunk.words, model)


def test_folding_in_is_the_reference_implementation_for_each_document_alone(inferred):
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


def test_documents_without_tokens_have_the_shares_of_the_prior():
    chunk = make_chunk(0, np.array([0, 0, 0]), np.zeros(0, np.uint32))
    model = inference.word_weights(empty_model(np.full(4, 0.5), 3))
    np.testing.assert_allclose(inference.fold_in(chunk.doc_ptr, chunk.words, model), 0.25)
