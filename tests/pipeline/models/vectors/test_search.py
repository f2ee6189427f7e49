"""Lookups, comparisons and searches give the results of gensim's KeyedVectors."""

import numpy as np
import pytest
from corpusmill.pipeline.models.vectors.vectors import WordVectors
from hypothesis import given
from hypothesis import strategies as st

WORDS = ["king", "queen", "man", "woman", "ärger", "naïve", "日本", "x" * 40]

#: Seeds of random vectors, numbers of words and dimensions.
models = st.tuples(st.integers(0, 1 << 30), st.integers(2, 40), st.integers(2, 8))


def both(model):
    """Return the same random vectors here and in gensim, for words w0, w1, ..."""
    seed, n_words, width = model
    vectors = np.random.default_rng(seed).normal(size=(n_words, width)).astype(np.float32)
    ours = WordVectors([f"w{i}" for i in range(n_words)], vectors, counts=np.arange(n_words, 0, -1))
    return ours, ours.to_gensim()


def assert_same_ranking(found, expected):
    """Compare rankings; words whose similarities are equal but for rounding may come in any order."""
    assert len(found) == len(expected)
    similarity_of = dict(expected)
    np.testing.assert_allclose([s for _, s in found], [s for _, s in expected], rtol=1e-4, atol=1e-5)
    for word, similarity in found:
        assert similarity == pytest.approx(similarity_of.get(word, expected[-1][1]), rel=1e-4, abs=1e-5)


@pytest.fixture
def wv():
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 12)).astype(np.float32)
    return WordVectors(WORDS, vectors)


def test_looks_up_words(wv):
    np.testing.assert_array_equal(wv["queen"], wv.vectors[1])
    np.testing.assert_array_equal(wv[["man", "king"]], wv.vectors[[2, 0]])
    assert "king" in wv
    assert "King" not in wv
    assert None not in wv
    assert wv.index_to_key[wv.key_to_index["日本"]] == "日本"
    assert (len(wv), wv.vector_size) == (8, 12)
    assert list(wv) == WORDS
    with pytest.raises(KeyError, match="'prince' is not among the 8 words"):
        wv["prince"]
    with pytest.raises(KeyError, match="'King' is not among the 8 words of this model; did you mean 'king'"):
        wv.most_similar("King")


def test_row_numbers_are_accepted_as_keys_as_in_gensim(wv):
    peer = wv.to_gensim()
    np.testing.assert_array_equal(wv[3], peer[3])
    np.testing.assert_array_equal(wv[[0, "man"]], peer[[0, "man"]])
    assert (7 in wv, 8 in wv, -1 in wv) == (7 in peer, 8 in peer, -1 in peer) == (True, False, False)
    assert wv.get_index("queen") == wv.get_index(1) == wv.get_index(np.int64(1)) == 1
    assert wv.get_index("prince", default=-5) == -5
    with pytest.raises(KeyError, match="prince"):
        wv.get_index("prince")


def test_a_looked_up_vector_cannot_be_changed_by_accident(wv):
    for vector in (wv["king"], wv.get_vector("king", norm=True)):
        with pytest.raises(ValueError, match="read-only"):
            vector[0] = 1


def test_refuses_words_vectors_and_counts_that_do_not_match():
    with pytest.raises(ValueError, match="2 words, but vectors"):
        WordVectors(["a", "b"], np.zeros((3, 2)))
    with pytest.raises(ValueError, match="1 of 2 words occur more than once"):
        WordVectors(["a", "a"], np.zeros((2, 2)))
    with pytest.raises(ValueError, match="2 words, but counts"):
        WordVectors(["a", "b"], np.zeros((2, 2)), counts=[1, 2, 3])


@given(models, st.data())
def test_most_similar_is_that_of_gensim(model, data):
    ours, theirs = both(model)
    key = st.sampled_from(ours.index_to_key) | st.integers(0, len(ours) - 1)
    vector = st.integers(0, 1 << 30).map(lambda seed: np.random.default_rng(seed).normal(size=ours.vector_size))
    item = key | vector.map(np.float32) | st.tuples(key, st.sampled_from([-2.0, 0.5, 3.0]))
    positive = data.draw(st.lists(item, min_size=1, max_size=4))
    negative = data.draw(st.lists(item, max_size=3))
    topn = data.draw(st.integers(0, 50))
    restrict = data.draw(st.none() | st.integers(1, 50))
    for options in ({}, {"restrict_vocab": restrict}):
        found = ours.most_similar(positive, negative, topn=topn, **options)
        assert_same_ranking(found, theirs.most_similar(positive, negative, topn=topn, **options))


@given(models, st.data())
def test_similarities_are_those_of_gensim(model, data):
    ours, theirs = both(model)
    a, b = data.draw(st.lists(st.sampled_from(ours.index_to_key), min_size=2, max_size=2))
    assert ours.similarity(a, b) == pytest.approx(theirs.similarity(a, b), rel=1e-4, abs=1e-5)


@given(models)
def test_vectors_are_those_of_gensim(model):
    ours, theirs = both(model)
    np.testing.assert_allclose(ours.get_normed_vectors(), theirs.get_normed_vectors(), rtol=1e-5)
    np.testing.assert_allclose(ours.get_vector("w1", norm=True), theirs.get_vector("w1", norm=True), rtol=1e-5)
    assert ours.counts[1] == theirs.get_vecattr("w1", "count") == len(ours) - 1


def test_numbers_of_words_that_are_no_integers_are_refused(wv):
    for topn in (2.5, None):
        with pytest.raises(ValueError, match=f"topn is {topn}: choose an integer"):
            wv.most_similar("king", topn=topn)
    assert len(wv.most_similar("king", topn=np.int64(2))) == 2


def test_a_query_is_one_key_one_vector_one_pair_or_a_list(wv):
    expected = wv.most_similar(["man"], topn=3)
    for query in ("man", 2, ("man", 0.5), ("man", np.float32(2)), [("man", 2)], ("man", "man"), {"man"}):
        assert_same_ranking(wv.most_similar(query, topn=3), expected)
    as_vector = wv.most_similar(wv["man"] * 3, topn=4)
    assert as_vector[0] == ("man", pytest.approx(1, abs=1e-6))
    assert_same_ranking(as_vector[1:], expected)
    assert_same_ranking(wv.most_similar(np.stack([wv["man"]] * 2), topn=4), as_vector)
    assert {word for word, _ in wv.most_similar("king", restrict_vocab=3)} == {"queen", "man"}
    assert len(wv.most_similar("king", topn=100)) == 7


def test_empty_and_unknown_queries_are_refused(wv):
    with pytest.raises(ValueError, match="at least one"):
        wv.most_similar([])
    with pytest.raises(KeyError, match="prince"):
        wv.most_similar(["king", "prince"])


def test_a_vector_of_zeros_is_similar_to_nothing():
    wv = WordVectors(["a", "b"], np.array([[0, 0], [1, 2]]))
    assert wv.similarity("a", "b") == 0
    assert wv.most_similar("b") == [("a", 0)]
    assert wv.most_similar("a") == [("b", 0)]
    np.testing.assert_array_equal(wv.get_normed_vectors()[0], [0, 0])
