"""LDA's other samplers through the engine."""

import numpy as np
import pytest
from corpusmill.pipeline import LDA
from corpusmill.pipeline.clusters import open_cluster
from corpusmill.pipeline.lda_samplers import SAMPLERS
from toy import write_topic_corpus

OTHERS = sorted(SAMPLERS.keys() - {"esca"})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Documents drawn from five topics, each with words of its own."""
    return write_topic_corpus(tmp_path_factory.mktemp("samplers") / "corpus", n_topics=5, n_chunks=3)


def fitted(corpus, sampler, client=None, **parameters):
    parameters = {"max_iter": 4, "random_state": 3} | parameters
    return LDA(5, doc_topic_prior=0.1, sampler=sampler, **parameters).fit(corpus, client=client)


@pytest.mark.parametrize("sampler", OTHERS)
def test_counts_stay_the_corpus_and_likelihood_rises(corpus, sampler):
    model = fitted(corpus, sampler, max_iter=15)
    np.testing.assert_array_equal(
        (model.components_ - 0.01).sum(axis=0).round(), corpus.vocabulary["term_frequency"].to_numpy()
    )
    assert model.history_[-1]["log_likelihood"] > model.history_[0]["log_likelihood"] + 0.5


@pytest.fixture(scope="module")
def workers():
    with open_cluster("local", n_workers=2, memory_limit="2GiB") as client:
        yield client


@pytest.mark.parametrize("sampler", ["auto", "cgs", "minibatch"])
def test_same_bits_on_workers_and_however_the_model_is_cut(corpus, workers, sampler):
    here = fitted(corpus, sampler).components_
    np.testing.assert_array_equal(fitted(corpus, sampler, workers).components_, here)
    np.testing.assert_array_equal(fitted(corpus, sampler, n_blocks=3).components_, here)


def test_auto_begins_as_warp_and_ends_as_esca(corpus):
    auto, warp = (fitted(corpus, sampler, max_iter=4).history_ for sampler in ("auto", "warp"))
    assert auto[0]["log_likelihood"] == warp[0]["log_likelihood"]
    assert auto[-1]["log_likelihood"] != warp[-1]["log_likelihood"]


def test_an_unknown_sampler_is_refused_with_the_names(corpus):
    with pytest.raises(ValueError, match="choose one of esca, warp, auto"):
        fitted(corpus, "gibbs")
