"""How two models differ."""

import numpy as np
import pytest
from corpusmill import LDA, NMF, Word2Vec
from corpusmill.pipeline.publishing.compare import compare_models
from helpers.nightly import BOATS, BREAD, MODELS


def test_topics_are_matched_by_their_words(tmp_path):
    old = LDA(3, doc_topic_prior=0.1, max_iter=20, random_state=1).fit(
        [["apple", "pear"] * 6, ["car", "road"] * 6, ["sea", "ship"] * 6] * 5
    )
    old.save(str(tmp_path))
    new = LDA.load(str(tmp_path))
    order = np.array([2, 0, 1])
    block = new.model_.blocks[0]
    block["topics"] = np.argsort(order)[block["topics"]].astype(np.uint16)
    new.model_.shared["totals"] = new.model_.shared["totals"][order]
    found = compare_models(old, new)
    assert {row["topic"]: row["was"] for row in found["topics"]} == dict(enumerate(order.tolist()))
    assert found["mean_drift"] < 1e-6
    # A fresh model has no names, and the old ones say which topic this is.
    old._topic_names = {2: "Fruit"}
    new._topic_names = {}
    changes = {row["topic"]: row.get("name_before") for row in compare_models(old, new)["topics"]}
    assert changes == {0: "Fruit", 1: None, 2: None}
    assert all(not row["entered"] and not row["left"] for row in found["topics"])


def test_drift_is_one_where_no_word_is_shared():
    options = {"n_components": 2, "doc_topic_prior": 0.1, "topic_word_prior": 1e-9, "max_iter": 5}
    old = LDA(**options).fit([["apple", "pear"] * 6] * 4)
    new = LDA(**options).fit([["car", "road"] * 6] * 4)
    found = compare_models(old, new)
    assert found["mean_drift"] == pytest.approx(1.0)
    assert (found["words_added"]["number"], found["words_removed"]["first"]) == (2, ["apple", "pear"])


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_the_share_of_kept_neighbours_is_measured():
    model = Word2Vec(**MODELS["word2vec"]).fit([BOATS.split(), BREAD.split()] * 10)
    assert compare_models(model, model)["kept_neighbours"] == 1.0
    other = Word2Vec(**MODELS["word2vec"] | {"seed": 2}).fit([BOATS.split(), BREAD.split()] * 10)
    assert 0 < compare_models(model, other)["kept_neighbours"] < 1.0
    with pytest.raises(ValueError, match="cannot compare a model of kind word2vec with one of kind lda"):
        compare_models(model, LDA(2, max_iter=1).fit([["a", "b"]]))


@pytest.mark.parametrize("kind", [LDA, NMF])
def test_topics_of_matrices_are_compared_by_the_names_of_columns(kind):
    pandas = pytest.importorskip("pandas")
    counts = np.random.default_rng(0).poisson(np.repeat(np.eye(2), 6, axis=1).repeat(20, axis=0) * range(12))
    old = pandas.DataFrame(counts, columns=[f"c{column}" for column in range(12)])
    options = {"n_components": 2, "max_iter": 20, "random_state": 1}
    # The columns without counts are not in the vocabulary of LDA.
    new = old[old.columns[::-1]].assign(new=0)
    found = compare_models(kind(**options).fit(old), kind(**options).fit(new))
    assert found["mean_drift"] < 0.01
    assert (found["words"], found["words_added"]["first"]) == ([12, 13], ["new"])
    numbered = kind(**options).fit(counts)
    found = compare_models(numbered, numbered)
    assert (found["words"], found["mean_drift"]) == ([12, 12], pytest.approx(0.0, abs=1e-6))
