"""Topics, coherence and diversity are the same for every model of topics."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from corpusmill import LDA, NMF, RandomIndexing, Word2Vec
from corpusmill.io.errors import DataError
from corpusmill.io.stores.matrix import write_matrix
from corpusmill.pipeline.commands.cli.main import cli
from corpusmill.pipeline.models.base.coherence import topic_coherence, topic_diversity
from corpusmill.pipeline.models.base.topics import TopicModel
from helpers.toy import write_topic_corpus

TWO_TOPICS = np.array([[3, 2, 0, 0], [2, 1, 0, 0], [0, 0, 1, 3], [0, 0, 2, 2]] * 5)

MODELS = [
    pytest.param(LDA(3, doc_topic_prior=0.1, max_iter=10, random_state=1), id="LDA"),
    pytest.param(NMF(3, max_iter=10), id="NMF"),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("corpus") / "c", n_topics=3)


@pytest.mark.parametrize("model", MODELS)
def test_a_topic_model_measures_the_words_of_its_topics(corpus, model):
    model.fit(corpus)
    words = [[entry["word"] for entry in topic["words"]] for topic in model.topics(6)]
    assert model.topic_words(6) == words
    found = model.coherence(corpus, "u_mass", topn=6)
    np.testing.assert_array_equal(found, topic_coherence(corpus, words, "u_mass"))
    assert model.diversity(6) == topic_diversity(words)


@pytest.mark.parametrize("number", [-1, 2.5, "3", None, True])
@pytest.mark.parametrize("model", MODELS)
def test_a_number_of_words_that_cannot_be_is_refused(model, number):
    model.fit(TWO_TOPICS)
    for method in (model.topics, model.topic_words):
        with pytest.raises(ValueError, match=f"n_words is {number!r}: choose an integer of 0 or more"):
            method(number)
    with pytest.raises(ValueError, match=f"topn is {number!r}: choose an integer of 0 or more"):
        model.diversity(number)
    # One word alone has no coherence.
    for too_small in (number, 0, 1):
        with pytest.raises(ValueError, match=f"topn is {too_small!r}: choose an integer of 2 or more"):
            model.coherence(TWO_TOPICS, topn=too_small)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_of_a_matrix_is_measured_on_matrices_with_its_columns_only(model):
    model.fit(TWO_TOPICS)
    assert np.isfinite(model.coherence(TWO_TOPICS, "u_mass", topn=2)).any()
    with pytest.raises(ValueError, match="X has 3 features, but"):
        model.coherence(TWO_TOPICS[:, :3], "u_mass")
    with pytest.raises(ValueError, match="pass a matrix, not documents"):
        model.coherence(["a boat on the sea"], "u_mass")


@pytest.mark.parametrize("model", MODELS)
def test_a_topic_model_takes_a_corpus_its_url_or_documents_in_memory(corpus, model):
    model.fit(corpus)
    documents = [["w000", "w001"], ["w000", "w002", "w001"], ["w020", "w021"]]
    found = model.coherence(documents, "u_mass", topn=20)
    assert found.shape == (3,)
    assert np.isfinite(found).any()
    np.testing.assert_array_equal(model.coherence(corpus.url, topn=5), model.coherence(corpus, topn=5))
    assert getattr(model, "n_features_in_", None) in (None, corpus.n_words)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_the_command_line_measures_the_topics_of_any_topic_model(corpus, model, tmp_path):
    model.fit(corpus).save(str(tmp_path / "model"))
    arguments = ["evaluate", str(tmp_path / "model"), corpus.url, "--part", "train", "--coherence", "u_mass", "--json"]
    facts = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)
    assert facts["mean_coherence_u_mass"] == pytest.approx(model.coherence(corpus, "u_mass").mean())
    assert facts["diversity"] == model.diversity()


@pytest.mark.parametrize("model", MODELS)
def test_a_matrix_is_not_accepted_as_a_reference_corpus(corpus, model, tmp_path):
    model.fit(corpus)
    matrix = write_matrix(str(tmp_path / "matrix"), [np.ones((3, 4))], "float32")
    with pytest.raises(DataError, match="a matrix has no words"):
        model.coherence(matrix)


def test_models_of_vectors_have_no_coherence():
    assert not isinstance(Word2Vec(), TopicModel)
    assert not isinstance(RandomIndexing(), TopicModel)


def test_diversity_is_one_if_no_word_is_shared_and_zero_without_words():
    assert topic_diversity([["a", "b"], ["c"]]) == 1
    assert topic_diversity([["a", "b"], ["a", "b"]]) == 0.5
    assert topic_diversity([]) == 0
