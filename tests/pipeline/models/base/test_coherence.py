"""Coherence against gensim's CoherenceModel on the same topics and documents, and counted by hand."""

import warnings

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.io.errors import DataError
from corpusmill.kernels import coherence as kernels
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.base.coherence import topic_coherence
from helpers.naive import window_pairs
from helpers.toy import write_topic_corpus
from hypothesis import given, settings
from hypothesis import strategies as st

TOPICS = [["w0", "w1", "w2", "w3"], ["w4", "w5", "w6", "w7"], ["w0", "w5", "w8", "w9"]]


@pytest.fixture(scope="module")
def texts():
    """Documents without repeated words: gensim drops a word from a window as soon as its first occurrence leaves."""
    rng = np.random.default_rng(0)
    return [[f"w{v}" for v in rng.permutation(40)[: rng.integers(1, 30)]] for _ in range(120)]


def gensim_figures(texts, measure, window):
    models = pytest.importorskip("gensim.models.coherencemodel")
    from gensim.corpora import Dictionary

    dictionary = Dictionary(texts)
    data = {"corpus": [dictionary.doc2bow(t) for t in texts]} if measure == "u_mass" else {"texts": texts}
    model = models.CoherenceModel(
        topics=TOPICS, dictionary=dictionary, coherence=measure, window_size=window, processes=1, **data
    )
    return model.get_coherence_per_topic()


@pytest.mark.parametrize(
    "measure, theirs, window",
    [("u_mass", "u_mass", 0), ("npmi", "c_npmi", 10), ("npmi", "c_npmi", 0), ("c_v", "c_v", 7)],
)
def test_coherence_is_that_of_gensim(texts, measure, theirs, window):
    found = topic_coherence(corpus_from(texts, chunk_tokens=400), TOPICS, measure, window)
    np.testing.assert_allclose(found, gensim_figures(texts, theirs, window or 10_000), rtol=1e-9)


@pytest.mark.parametrize("measure, theirs, window", [("u_mass", "u_mass", 0), ("npmi", "c_npmi", 3)])
def test_coherence_is_that_of_tomotopy(texts, measure, theirs, window):
    """Tomotopy's windows are one word shorter, and it does not count windows of documents without a topic word.

    Its c_v compares each word with the other words of the topic only, so that its figures differ.
    """
    tomotopy = pytest.importorskip("tomotopy")
    words = sorted({word for topic in TOPICS for word in topic})
    texts = [text for text in texts if set(text) & set(words)]
    documents = tomotopy.utils.Corpus()
    for text in texts:
        documents.add_doc(["first", *text])
    found = topic_coherence(corpus_from(texts, chunk_tokens=400), TOPICS, measure, window)
    model = tomotopy.coherence.Coherence(documents, coherence=theirs, window_size=window + 1, targets=words)
    np.testing.assert_allclose(found, [model.get_score(words=topic) for topic in TOPICS], rtol=1e-5)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_pairs_are_counted_as_a_naive_count_of_windows(seed, window):
    rng = np.random.default_rng(seed)
    documents = [rng.integers(-2, 4, rng.integers(0, 25)) for _ in range(5)]
    doc_ptr = np.r_[0, np.cumsum([len(d) for d in documents])]
    pairs, contexts = kernels.count_pairs(doc_ptr, np.concatenate(documents), 4, window)
    expected, number = window_pairs(documents, 4, window)
    np.testing.assert_array_equal(pairs, expected)
    assert contexts == number


def test_words_that_never_occur_together_have_the_lowest_npmi():
    pairs = np.eye(4, dtype=np.int64)
    assert kernels.npmi(np.arange(4), pairs, 4) == pytest.approx(-1, abs=0.15)


def test_topics_of_a_model_cohere_more_than_mixed_ones_and_the_same_on_workers(tmp_path, cluster_of):
    corpus = write_topic_corpus(tmp_path / "corpus", n_topics=4)
    model = LDA(4, doc_topic_prior=0.1, max_iter=30, random_state=1).fit(corpus)
    found = model.coherence(corpus, "npmi", topn=8)
    mixed = [[f"w{20 * k + i:03d}" for k in range(4)] for i in range(4)]
    assert found.mean() > topic_coherence(corpus, mixed, "npmi").mean() + 0.05
    assert found.shape == (4,)
    client = cluster_of(2)
    np.testing.assert_array_equal(model.coherence(corpus, "npmi", topn=8, client=client), found)
    assert model.diversity(8) == len({w["word"] for t in model.topics(8) for w in t["words"]}) / 32


def test_words_that_do_not_occur_are_left_out(texts):
    corpus = corpus_from(texts)
    longer = [["unheard", *TOPICS[0]], ["w1", "unheard"]]
    with pytest.warns(
        UserWarning, match=r"1 of 2 topics have fewer than two words here, .* 1 of 5 words are missing: 'unheard'"
    ):
        found = topic_coherence(corpus, longer, "npmi")
    assert found[0] == topic_coherence(corpus, TOPICS[:1], "npmi")[0]
    assert np.isnan(found[1])


def test_a_topic_that_training_has_emptied_is_nan_without_a_warning(texts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = topic_coherence(corpus_from(texts), [TOPICS[0], []], "npmi")
    np.testing.assert_array_equal(np.isnan(found), [False, True])


def test_unknown_measures_and_windows_over_bags_of_words_are_refused(texts):
    corpus = corpus_from(texts)
    with pytest.raises(ValueError, match="choose one of u_mass, npmi, c_v"):
        topic_coherence(corpus, TOPICS, "uci")
    with pytest.raises(ValueError, match="window is -1"):
        topic_coherence(corpus, TOPICS, "npmi", -1)
    bag = corpus_from(np.ones((3, 4), int))
    with pytest.raises(DataError, match="bag of words has no windows"):
        topic_coherence(bag, TOPICS, "c_v")
