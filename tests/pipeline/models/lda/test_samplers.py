"""LDA's other samplers through the engine."""

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.io.stores.store import DataError
from corpusmill.pipeline.engine.clusters import open_cluster
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.executors import OnDask
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.lda.samplers import SAMPLERS, is_slow, likelihoods
from helpers.faults import Faulty
from helpers.toy import write_topic_corpus
from hypothesis import given, settings
from hypothesis import strategies as st

OTHERS = sorted(SAMPLERS.keys() - {"esca"})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Documents drawn from five topics, each with words of its own."""
    return write_topic_corpus(tmp_path_factory.mktemp("samplers") / "corpus", n_topics=5, n_chunks=3)


def fitted(corpus, sampler, client=None, run=None, evaluate_every=10, **parameters):
    parameters = {"max_iter": 4, "random_state": 3} | parameters
    model = LDA(5, doc_topic_prior=0.1, sampler=sampler, **parameters)
    return model.fit(corpus, client=client, run=run, evaluate_every=evaluate_every)


@pytest.mark.parametrize("sampler", OTHERS)
def test_counts_stay_the_corpus_and_likelihood_rises(corpus, sampler):
    model = fitted(corpus, sampler, max_iter=15)
    np.testing.assert_array_equal(
        (model.components_ - 0.01).sum(axis=0).round(), corpus.vocabulary["term_frequency"].to_numpy()
    )
    assert model.history_[-1]["log_likelihood"] > model.history_[0]["log_likelihood"] + 0.5


@pytest.fixture
def workers(cluster_of):
    return cluster_of(2)


@pytest.mark.parametrize("sampler", ["auto", "cgs", "minibatch", "uncollapsed"])
def test_same_bits_on_workers_and_however_the_model_is_cut(corpus, workers, sampler):
    here = fitted(corpus, sampler).components_
    np.testing.assert_array_equal(fitted(corpus, sampler, workers).components_, here)
    np.testing.assert_array_equal(fitted(corpus, sampler, n_blocks=3).components_, here)


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_warp_is_the_same_to_the_bit_though_workers_die(corpus, tmp_path, n_workers):
    expected = fitted(corpus, "warp").model_.blocks[0]
    algorithm = LDA(5, doc_topic_prior=0.1, sampler="warp").algorithm(corpus)
    faulty = Faulty(algorithm, ((2, 1, 1, "kill"), (4, 0, 1, "kill")), str(tmp_path))
    run = RunStore(str(tmp_path / "run"))
    with open_cluster("local", n_workers=n_workers, memory_limit="2GiB") as client:
        train(Training(faulty, corpus, run, epochs=4, seed=3), OnDask(client))
    assert faulty.attempts(2, 1) > 1
    for name, values in run.block(4, 0).items():
        np.testing.assert_array_equal(values, expected[name])


def test_auto_is_warp_while_likelihood_rises_fast_and_esca_from_then_on(corpus, tmp_path):
    options = {"max_iter": 12, "evaluate_every": 1}
    auto, warp = (fitted(corpus, sampler, **options) for sampler in ("auto", "warp"))
    curve = likelihoods(auto.history_)
    slow = next(t for t in range(1, 12) if is_slow(curve[:t]))
    assert 2 < slow < 10
    # Its second epoch after that is the first of ESCA: what epoch t shows is known to the finish of epoch t + 1.
    assert curve[: slow + 1] == likelihoods(warp.history_)[: slow + 1]
    assert curve[slow + 1] != likelihoods(warp.history_)[slow + 1]
    assert auto.model_.shared["slow"]
    first = fitted(corpus, "auto", run=str(tmp_path), **options | {"max_iter": slow}).history_
    assert likelihoods(first) == curve[:slow]
    np.testing.assert_array_equal(fitted(corpus, "auto", run=str(tmp_path), **options).components_, auto.components_)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-20, -1), min_size=3, max_size=9), st.floats(0.5, 20), st.integers(-5, 5))
def test_slowness_is_a_matter_of_shape_alone(values, scale, shift):
    curve = list(enumerate(values))
    assert is_slow(curve) == is_slow([(2 * t, v * 4 + shift * 8) for t, v in curve])
    assert not is_slow(curve[:2])
    assert is_slow([(0, 0.0), (1, scale), (2, scale * 1.49)])
    assert not is_slow([(0, 0.0), (1, scale), (3, scale * 2.1)])


def test_auto_leaves_warp_after_thirty_epochs_where_nothing_is_scored(corpus):
    algorithm = LDA(5, sampler="auto").algorithm(corpus)
    slow = [bool(algorithm.update_schedule({"slow": np.bool_(False)}, [{"epoch": 1}] * n)["slow"]) for n in (29, 30)]
    assert slow == [False, True]


def test_without_held_out_documents_training_likelihood_decides():
    assert likelihoods([{"epoch": 1, "log_likelihood": -3.0}, {"epoch": 2}]) == [(1, -3.0)]
    both = {"epoch": 1, "log_likelihood": -3.0, "held_out_log_likelihood": -4.0}
    assert likelihoods([both]) == [(1, -4.0)]
    assert likelihoods([]) == []


@pytest.mark.parametrize("sampler", ["esca", "warp"])
def test_seeds_pull_their_topics_and_are_no_tokens(corpus, sampler):
    groups = [3, 0, 4]
    seeds = [[f"w{20 * g + i:03d}" for i in range(3)] for g in groups]
    model = fitted(corpus, sampler, max_iter=25, seeds=seeds, n_blocks=2)
    found = [{int(w["word"][1:]) // 20 for w in topic["words"]} for topic in model.topics(10)]
    assert found[:3] == [{g} for g in groups]
    weights = np.zeros_like(model.components_)
    for k, words in enumerate(seeds):
        weights[k, [model.words_.index(word) for word in words]] = 20
    tokens = (model.components_ - 0.01 - weights).round()
    assert tokens.min() >= 0
    np.testing.assert_array_equal(tokens.sum(axis=0), corpus.vocabulary["term_frequency"].to_numpy())
    np.testing.assert_allclose(model.topic_sizes_, tokens.sum(axis=1) / corpus.n_tokens)
    again = fitted(corpus, sampler, max_iter=25, seeds=seeds)
    np.testing.assert_array_equal(again.components_, model.components_)
    again.partial_fit(corpus)
    assert again.model_.shared["totals"].sum() == 2 * corpus.n_tokens + weights.sum()
    assert again.topic_sizes_.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"seeds": [["w000", "unheard"]]}, "does not contain unheard"),
        ({"seeds": [["w000"]] * 6}, "give 5 lists at most"),
        ({"seeds": [["w000"]], "seed_weight": 0}, "seed_weight is 0"),
        ({"seeds": [["w000"]], "learn_priors": "symmetric"}, "set learn_priors='none'"),
    ],
)
def test_seeds_that_cannot_be_are_refused(corpus, parameters, message):
    with pytest.raises(ValueError, match=message):
        fitted(corpus, "esca", **parameters)


def test_held_out_documents_of_another_vocabulary_are_refused(corpus):
    other = corpus_from([["apple", "pear"], ["pear", "plum"]])
    with pytest.raises(DataError, match=f"vocabulary {other.vocabulary_hash}, but .* has {corpus.vocabulary_hash}"):
        LDA(5).fit(corpus, held_out=other)


def test_an_unknown_sampler_is_refused_with_the_names(corpus):
    with pytest.raises(ValueError, match="choose one of esca, warp, auto"):
        fitted(corpus, "gibbs")
