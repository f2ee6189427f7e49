"""LDA with learned priors: reproducible on any number of workers, and a better fit."""

import numpy as np
import pytest
from corpusmill import LDA
from helpers.models import bits
from helpers.toy import write_topic_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("priors") / "corpus", n_topics=5, seed=4)


@pytest.fixture(scope="module")
def many_documents(tmp_path_factory):
    """A corpus of 1,000 documents, whose priors are learned by default."""
    return write_topic_corpus(tmp_path_factory.mktemp("many") / "corpus", n_topics=5, documents=250, length=20, seed=4)


@pytest.mark.slow
def test_learned_priors_are_the_same_on_any_number_of_workers_and_fit_better(corpus, cluster_of):
    parameters = {"n_components": 5, "doc_topic_prior": 10.0, "max_iter": 30, "random_state": 3, "learn_every": 5}
    fixed = LDA(**parameters, learn_priors="none").fit(corpus)
    learned = LDA(**parameters, learn_priors="asymmetric").fit(corpus)
    assert learned.score(corpus.held_out) > fixed.score(corpus.held_out) + 0.01
    assert len(set(learned.model_.shared["alpha"])) == 5
    assert learned.history_[-1]["alpha_sum"] == pytest.approx(learned.model_.shared["alpha"].sum())
    client = cluster_of(2)
    again = LDA(**parameters, learn_priors="asymmetric").fit(corpus, client=client)
    assert bits(again) == bits(learned)
    assert again.model_.shared["alpha"].tobytes() == learned.model_.shared["alpha"].tobytes()


def test_a_symmetric_alpha_stays_symmetric(corpus):
    model = LDA(5, max_iter=6, learn_priors="symmetric", learn_every=3, sampler="warp").fit(corpus)
    assert len(set(model.model_.shared["alpha"])) == 1
    assert model.model_.shared["alpha"][0] != np.float32(0.1)


@pytest.mark.parametrize(
    "parameters, learned",
    [
        ({}, "asymmetric"),
        ({"n_components": 50}, "asymmetric"),
        ({"n_components": 51}, "none"),
        ({"n_components": 200, "sampler": "auto"}, "asymmetric"),  # ten for each token of a document
        ({"n_components": 201, "sampler": "gibbs"}, "none"),
        ({"doc_topic_prior": 0.1}, "none"),
        ({"topic_word_prior": 0.01}, "none"),
        ({"seeds": [["w000"]]}, "none"),
        ({"n_components": 51, "learn_priors": "symmetric"}, "symmetric"),
        ({"doc_topic_prior": 0.1, "learn_priors": "asymmetric"}, "asymmetric"),
        ({"learn_priors": "none"}, "none"),
    ],
)
def test_priors_of_few_topics_are_learned_unless_they_are_given(many_documents, parameters, learned):
    assert LDA(**{"n_components": 5} | parameters)._algorithm(many_documents).learn_priors == learned


def test_priors_of_few_documents_are_not_learned():
    boats = ["the boat sails over the sea", "the sea carries the boat", "sails and sea"]
    bread = ["bread and butter from the oven", "an oven bakes bread", "butter on bread"]
    model = LDA(2, random_state=1).fit(boats + bread)
    assert model.model_.shared["alpha"].tolist() == [np.float32(0.1)] * 2
    assert np.ptp(model.transform(boats)[:, 0]) < 0.5


def test_a_model_that_is_continued_keeps_the_priors_that_it_has_learned(many_documents):
    model = LDA(5, max_iter=12, random_state=3).fit(many_documents)
    priors = {name: model.model_.shared[name] for name in ("alpha", "beta")}
    assert len(set(priors["alpha"])) == 5
    assert priors["beta"] != 0.01
    # The later documents are of one topic, and would change the priors if they were learned again.
    model.partial_fit([["w000", "w001"] * 5] * 20)
    for name, values in priors.items():
        np.testing.assert_array_equal(model.model_.shared[name], values)


@pytest.mark.parametrize(
    "parameters, message", [({"learn_priors": "all"}, "auto, none, symmetric"), ({"learn_every": 0}, "1 or more")]
)
def test_learning_out_of_range_is_refused(corpus, parameters, message):
    with pytest.raises(ValueError, match=message):
        LDA(5, **parameters).fit(corpus)


def test_the_priors_of_a_model_are_attributes(many_documents):
    model = LDA(5, max_iter=4, learn_priors="asymmetric", learn_every=2).fit(many_documents)
    assert model.doc_topic_prior_.shape == (5,)
    assert len(set(model.doc_topic_prior_)) == 5
    np.testing.assert_array_equal(model.doc_topic_prior_, model.to_gensim().alpha)
    given = LDA(2, doc_topic_prior=0.5, topic_word_prior=0.25, max_iter=1).fit(many_documents)
    assert (given.doc_topic_prior_.tolist(), given.topic_word_prior_) == ([0.5, 0.5], 0.25)
