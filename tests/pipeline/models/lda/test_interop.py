"""Trained topics converted for pyLDAvis and gensim."""

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.io.errors import DataError
from corpusmill.pipeline.models.lda.interop import word_probabilities
from helpers.toy import write_topic_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("interop") / "corpus", n_topics=5)


@pytest.fixture(scope="module")
def model(corpus):
    return LDA(5, doc_topic_prior=0.1, max_iter=20, n_blocks=2, learn_priors="asymmetric").fit(corpus)


def test_the_arguments_of_pyldavis_are_distributions_and_counts(corpus, model):
    arguments = model.to_pyldavis(corpus)
    assert arguments["topic_term_dists"].shape == (5, 100)
    np.testing.assert_allclose(arguments["topic_term_dists"].sum(axis=1), 1)
    np.testing.assert_allclose(arguments["doc_topic_dists"].sum(axis=1), 1)
    assert arguments["doc_lengths"].sum() == corpus.n_tokens
    assert arguments["term_frequency"].sum() == corpus.n_tokens
    assert arguments["vocab"] == model.words_


def test_pyldavis_accepts_its_arguments(corpus, model):
    pyldavis = pytest.importorskip("pyLDAvis")
    prepared = pyldavis.prepare(**model.to_pyldavis(corpus), sort_topics=False, n_jobs=1)
    np.testing.assert_allclose(prepared.topic_coordinates["Freq"].sum(), 100)


def test_documents_without_tokens_are_left_out_for_pyldavis(model):
    arguments = model.to_pyldavis([["w000", "w001"], ["unknown"], ["w020"]])
    np.testing.assert_array_equal(arguments["doc_lengths"], [2, 1])
    assert arguments["doc_topic_dists"].shape == (2, 5)


def test_documents_with_only_unknown_words_are_refused(model):
    with pytest.raises(DataError, match="no document contains a word of the model"):
        model.to_pyldavis([["unheard"], ["unknown", "words"]])


def test_gensim_has_the_same_topics(model):
    pytest.importorskip("gensim")
    lda = model.to_gensim()
    np.testing.assert_allclose(lda.get_topics(), word_probabilities(model.model_), rtol=1e-4)
    np.testing.assert_allclose(lda.alpha, model.model_.shared["alpha"])
    for ours, (_, theirs) in zip(model.topics(5), lda.show_topics(5, 5, formatted=False), strict=True):
        expected = [probability for _, probability in theirs]
        np.testing.assert_allclose([word["probability"] for word in ours["words"]], expected, rtol=1e-4)


def test_gensim_applies_the_topics_to_documents(model):
    pytest.importorskip("gensim")
    lda = model.to_gensim()
    document = lda.id2word.doc2bow(["w000", "w001", "w002"] * 5)
    weights = dict(lda.get_document_topics(document))
    assert max(weights.values()) > 0.9
