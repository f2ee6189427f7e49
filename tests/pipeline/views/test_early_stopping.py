"""EarlyStopping ends training after the given number of held-out scores without an improvement."""

import pytest
from corpusmill import LDA, EarlyStopping
from corpusmill.pipeline.engine.events import EpochFinished, RunStarted
from helpers.toy import write_topic_corpus
from hypothesis import given
from hypothesis import strategies as st


def start(history=()):
    return RunStarted("run", "lda", len(history), 100, 1, 1, {}, history=tuple(history))


def stops_at(stop, name, scores):
    """Return the number of the score at which training ends, or None."""
    stop(start())
    ends = [stop(EpochFinished(epoch, {name: score})) for epoch, score in enumerate(scores, 1)]
    return ends.index(True) + 1 if True in ends else None


def expected_stop(scores, patience, least):
    best, best_at = scores[0], 0
    for position, score in enumerate(scores):
        if score > best + least:
            best, best_at = score, position
        if position - best_at == patience:
            return position + 1
    return None


@given(
    scores=st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=30),
    patience=st.integers(1, 5),
    least=st.sampled_from([0.0, 1.0, 2.5]),
)
def test_it_stops_after_so_many_scores_without_an_improvement(scores, patience, least):
    expected = expected_stop(scores, patience, least)
    stop = EarlyStopping(patience, least)
    assert stops_at(stop, "held_out_log_likelihood", scores) == expected
    # A loss is better if it is lower. The same object serves a second run.
    assert stops_at(stop, "held_out_loss", [-score for score in scores]) == expected


def test_epochs_without_a_score_do_not_count():
    stop = EarlyStopping(patience=1)
    stop(start())
    assert not stop(EpochFinished(1, {"held_out_log_likelihood": -7.0}))
    assert not stop(EpochFinished(2, {"log_likelihood": -7.0}))
    assert stop(EpochFinished(3, {"held_out_log_likelihood": -7.0}))


def test_a_resumed_run_counts_the_scores_from_before():
    stop = EarlyStopping(patience=2)
    stop(start([{"held_out_log_likelihood": -7.0}, {"held_out_log_likelihood": -7.1}]))
    assert stop(EpochFinished(3, {"held_out_log_likelihood": -7.2}))


def test_a_training_ends_early(tmp_path):
    corpus = write_topic_corpus(tmp_path / "corpus", n_topics=5)
    model = LDA(5, max_iter=400, random_state=1)
    model.fit(corpus, held_out=corpus, evaluate_every=2, callbacks=[EarlyStopping(2, 0.001)])
    scores = [row["held_out_log_likelihood"] for row in model.history_ if "held_out_log_likelihood" in row]
    assert model.n_iter_ < 400
    assert expected_stop(scores, 2, 0.001) == len(scores)


def test_a_run_without_held_out_documents_warns():
    documents = [["boat", "sea"], ["bread", "oven"]] * 10
    with pytest.warns(UserWarning, match="EarlyStopping had no held-out score to compare: pass held_out"):
        LDA(2, max_iter=3).fit(documents, callbacks=[EarlyStopping()])


@pytest.mark.parametrize("arguments, name", [({"patience": 0}, "patience=0"), ({"min_improvement": -1}, "min_imp")])
def test_invalid_parameters_are_refused(arguments, name):
    with pytest.raises(ValueError, match=name):
        EarlyStopping(**arguments)
