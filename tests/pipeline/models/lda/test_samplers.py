"""The samplers of LDA other than ESCA, and seed words."""

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.io.errors import DataError
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.executors import OnDask
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.lda import samplers
from corpusmill.pipeline.models.lda.samplers import SAMPLERS, is_slow, likelihoods
from helpers.faults import Faulty
from helpers.toy import write_topic_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays


@pytest.fixture(autouse=True)
def few_topics_are_many(monkeypatch):
    """Let "auto" train few topics as it trains many: by WarpLDA and ESCA."""
    monkeypatch.setattr(samplers, "EXACT_TOPICS", 0)


OTHERS = sorted(SAMPLERS.keys() - {"esca"})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Documents drawn from five topics that share no words."""
    return write_topic_corpus(tmp_path_factory.mktemp("samplers") / "corpus", n_topics=5, n_chunks=3)


def fitted(corpus, sampler, client=None, run=None, evaluate_every=10, **parameters):
    parameters = {"max_iter": 4, "random_state": 3} | parameters
    model = LDA(5, doc_topic_prior=0.1, sampler=sampler, **parameters)
    return model.fit(corpus, client=client, run=run, evaluate_every=evaluate_every)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_one_topic_is_the_distribution_of_words(corpus, sampler):
    model = LDA(1, sampler=sampler, max_iter=2).fit(corpus)
    frequency = corpus.vocabulary["term_frequency"].to_numpy()
    np.testing.assert_allclose(model.components_[0], frequency + 0.01, rtol=1e-6)
    np.testing.assert_allclose(model.transform(corpus.held_out), 1, rtol=1e-6)
    shares = frequency / frequency.sum()
    expected = np.log(shares[corpus.held_out.read_chunk(0).words]).mean()
    assert model.score(corpus.held_out) == pytest.approx(expected, rel=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*choose at most")
@pytest.mark.parametrize("sampler", SAMPLERS)
@settings(max_examples=10)
@given(st.data())
def test_each_token_has_one_topic_in_corpora_of_any_shape(sampler, data):
    """One chunk or many, one document, empty documents, a word in every token, more topics than tokens or words."""
    shape = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    counts = data.draw(arrays(np.int64, shape, elements=st.sampled_from([0, 0, 1, 2, 70])))
    n_topics, n_blocks = data.draw(st.sampled_from([1, 3, 66, 400])), data.draw(st.sampled_from(["auto", 64]))
    corpus = corpus_from(counts, chunk_tokens=data.draw(st.sampled_from([1, 3, 1000]))) if counts.any() else counts
    lda = LDA(n_topics, 0.1, sampler=sampler, n_blocks=n_blocks, max_iter=3)
    if not counts.any():
        with pytest.raises(DataError, match="all counts are 0"):
            lda.fit(corpus)
        return
    lda.fit(corpus, evaluate_every=1)
    frequency = corpus.vocabulary["term_frequency"].to_numpy()
    np.testing.assert_allclose((lda.components_ - 0.01).sum(axis=0), frequency, rtol=1e-4)
    np.testing.assert_allclose(lda.transform(corpus).sum(axis=1), 1, rtol=1e-5)
    assert np.isfinite([row["log_likelihood"] for row in lda.history_]).all()


def test_each_sampler_is_another_run(corpus, tmp_path):
    fitted(corpus, "esca", run=str(tmp_path))
    with pytest.raises(DataError, match="another run"):
        fitted(corpus, "minibatch", run=str(tmp_path))


def test_a_mini_batch_has_as_many_documents_as_the_parameter_says(corpus):
    longest = max(chunk.documents for chunk in corpus.chunks)
    each, all_, more = (
        fitted(corpus, "minibatch", minibatch_documents=n).components_ for n in (1, longest, longest + 1)
    )
    np.testing.assert_array_equal(all_, more)
    assert (each != all_).any()


@pytest.mark.parametrize("sampler", OTHERS)
def test_counts_are_those_of_the_corpus_and_the_likelihood_rises(corpus, sampler):
    model = fitted(corpus, sampler, max_iter=15)
    np.testing.assert_array_equal(
        (model.components_ - 0.01).sum(axis=0).round(), corpus.vocabulary["term_frequency"].to_numpy()
    )
    assert model.history_[-1]["log_likelihood"] > model.history_[0]["log_likelihood"] + 0.5


@pytest.fixture
def workers(cluster_of):
    return cluster_of(2)


@pytest.mark.parametrize("sampler", ["auto", "minibatch"])
def test_workers_and_blocks_do_not_change_the_result(corpus, workers, sampler):
    here = fitted(corpus, sampler).components_
    np.testing.assert_array_equal(fitted(corpus, sampler, workers).components_, here)
    np.testing.assert_array_equal(fitted(corpus, sampler, n_blocks=3).components_, here)


@pytest.mark.slow
def test_killed_workers_do_not_change_the_result_of_warp(corpus, tmp_path, cluster_of):
    expected = fitted(corpus, "warp").model_.blocks[0]
    algorithm = LDA(5, doc_topic_prior=0.1, sampler="warp")._algorithm(corpus)
    faulty = Faulty(algorithm, ((2, 1, 1, "kill"), (4, 0, 1, "kill")), str(tmp_path))
    run = RunStore(str(tmp_path / "run"))
    train(Training(faulty, corpus, run, epochs=4, seed=3), OnDask(cluster_of(2)))
    assert faulty.attempts(2, 1) > 1
    for name, values in run.block(4, 0).items():
        np.testing.assert_array_equal(values, expected[name])


def test_auto_is_warp_until_the_likelihood_rises_slowly_and_then_esca(corpus, tmp_path):
    options = {"max_iter": 12, "evaluate_every": 1}
    auto = fitted(corpus, "auto", **options)
    warp = fitted(corpus, "warp", **options)
    curve = likelihoods(auto.history_)
    slow = next(t for t in range(1, 12) if is_slow(curve[:t]))
    assert 2 < slow < 10
    # The score of epoch t is known at the end of epoch t + 1, so epoch t + 2 is the first one of ESCA.
    assert curve[: slow + 1] == likelihoods(warp.history_)[: slow + 1]
    assert curve[slow + 1] != likelihoods(warp.history_)[slow + 1]
    assert auto.model_.shared["slow"]
    first = fitted(corpus, "auto", run=str(tmp_path), **options | {"max_iter": slow}).history_
    assert likelihoods(first) == curve[:slow]
    np.testing.assert_array_equal(fitted(corpus, "auto", run=str(tmp_path), **options).components_, auto.components_)


@pytest.mark.parametrize(
    ("n_topics", "device", "expected"), [(5, "auto", "WordOrderGibbs"), (6, "cpu", "Auto"), (5, "cuda", "Esca")]
)
def test_auto_has_exact_counts_for_few_topics_and_esca_on_a_device(corpus, monkeypatch, n_topics, device, expected):
    monkeypatch.setattr(samplers, "EXACT_TOPICS", 5)
    algorithm = LDA(n_topics, sampler="auto", device=device)._algorithm(corpus)
    assert type(algorithm).__name__ == expected


@settings(max_examples=50)
@given(st.lists(st.floats(-20, -1), min_size=3, max_size=9), st.floats(0.5, 20), st.integers(-5, 5))
def test_whether_a_rise_is_slow_does_not_depend_on_scale_or_offset(values, scale, shift):
    curve = list(enumerate(values))
    assert is_slow(curve) == is_slow([(2 * t, v * 4 + shift * 8) for t, v in curve])
    assert not is_slow(curve[:2])
    assert is_slow([(0, 0.0), (1, scale), (2, scale * 1.49)])
    assert not is_slow([(0, 0.0), (1, scale), (3, scale * 2.1)])


def test_auto_changes_after_thirty_epochs_if_nothing_is_scored(corpus):
    algorithm = LDA(5, sampler="auto")._algorithm(corpus)
    shared = algorithm.begin_shared(corpus, None)
    totals = {"totals": shared["totals"]}
    slow = [bool(algorithm.reduce(shared, totals, {}, [{"epoch": 1}] * n)[0]["slow"]) for n in (29, 30)]
    assert slow == [False, True]


def test_the_likelihood_of_held_out_documents_is_preferred():
    assert likelihoods([{"epoch": 1, "log_likelihood": -3.0}, {"epoch": 2}]) == [(1, -3.0)]
    both = {"epoch": 1, "log_likelihood": -3.0, "held_out_log_likelihood": -4.0}
    assert likelihoods([both]) == [(1, -4.0)]
    assert likelihoods([]) == []


@pytest.mark.parametrize("sampler", ["esca", "gibbs", "warp"])
def test_seeds_shape_their_topics_and_do_not_count_as_tokens(corpus, sampler):
    groups = [3, 0, 4]
    seeds = [[f"w{20 * group + i:03d}" for i in range(3)] for group in groups]
    # With some seeds, two rows of so few tokens end with two groups of words in one topic.
    model = fitted(corpus, sampler, max_iter=25, seeds=seeds, n_blocks=2, random_state=2)
    found = [{int(w["word"][1:]) // 20 for w in topic["words"]} for topic in model.topics(10)]
    assert found[:3] == [{g} for g in groups]
    weights = np.zeros_like(model.components_)
    for k, words in enumerate(seeds):
        weights[k, [model.words_.index(word) for word in words]] = 20
    tokens = (model.components_ - 0.01 - weights).round()
    assert tokens.min() >= 0
    np.testing.assert_array_equal(tokens.sum(axis=0), corpus.vocabulary["term_frequency"].to_numpy())
    np.testing.assert_allclose(model.topic_sizes_, tokens.sum(axis=1) / corpus.n_tokens)


def test_blocks_do_not_change_a_model_with_seeds(corpus):
    seeds = [["w060", "w061"], ["w000"]]
    whole = fitted(corpus, "esca", seeds=seeds)
    blocks = fitted(corpus, "esca", seeds=seeds, n_blocks=2)
    np.testing.assert_array_equal(blocks.components_, whole.components_)


def test_seeds_stay_when_training_continues(corpus):
    model = fitted(corpus, "esca", seeds=[["w060", "w061"], ["w000"]])
    model.partial_fit(corpus)
    assert model.model_.shared["totals"].sum() == 2 * corpus.n_tokens + 3 * 20
    assert model.model_.shared["seeded"].sum() == 3 * 20
    assert model.topic_sizes_.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"seeds": [["w000", "unheard"]]}, "does not contain unheard"),
        ({"seeds": [["w000"]] * 6}, "give 5 lists at most"),
        ({"seeds": [["w000"]], "seed_weight": 0}, "seed_weight is 0"),
        ({"seeds": [["w000"]], "learn_priors": "symmetric"}, "set learn_priors='none'"),
    ],
)
def test_impossible_seeds_are_refused(corpus, parameters, message):
    with pytest.raises(ValueError, match=message):
        fitted(corpus, "esca", **parameters)


def test_held_out_documents_of_another_vocabulary_are_refused(corpus):
    other = corpus_from([["apple", "pear"], ["pear", "plum"]])
    with pytest.raises(DataError, match=f"vocabulary {other.vocabulary_hash}, but .* has {corpus.vocabulary_hash}"):
        LDA(5).fit(corpus, held_out=other)


def test_an_unknown_sampler_is_refused_with_the_names(corpus):
    with pytest.raises(ValueError, match="choose one of esca, gibbs, warp, auto"):
        fitted(corpus, "metropolis")
