"""Trained topics in the hands of pyLDAvis and gensim, and as files."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from corpusmill import LDA
from corpusmill.io.stores.store import DataError
from corpusmill.pipeline.commands.cli.main import cli
from corpusmill.pipeline.models.lda.export import export, word_probabilities
from helpers.toy import write_topic_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("interop") / "corpus", n_topics=5)


@pytest.fixture(scope="module")
def model(corpus):
    return LDA(5, doc_topic_prior=0.1, max_iter=20, n_blocks=2, learn_priors="asymmetric").fit(corpus)


def test_what_pyldavis_takes_adds_up(corpus, model):
    found = model.to_pyldavis(corpus)
    assert found["topic_term_dists"].shape == (5, 100)
    np.testing.assert_allclose(found["topic_term_dists"].sum(axis=1), 1)
    np.testing.assert_allclose(found["doc_topic_dists"].sum(axis=1), 1)
    assert found["doc_lengths"].sum() == corpus.n_tokens == found["term_frequency"].sum()
    assert found["vocab"] == model.words_


def test_pyldavis_takes_it(corpus, model):
    pyldavis = pytest.importorskip("pyLDAvis")
    prepared = pyldavis.prepare(**model.to_pyldavis(corpus), sort_topics=False, n_jobs=1)
    np.testing.assert_allclose(prepared.topic_coordinates["Freq"].sum(), 100)


def test_documents_of_unknown_words_are_nothing_to_see(model):
    with pytest.raises(DataError, match="no document has a word"):
        model.to_pyldavis([["unheard"], ["unknown", "words"]])


def test_gensim_gets_the_same_topics(model):
    pytest.importorskip("gensim")
    found = model.to_gensim()
    np.testing.assert_allclose(found.get_topics(), word_probabilities(model), rtol=1e-4)
    np.testing.assert_allclose(found.alpha, model.model_.shared["alpha"])
    best = max(dict(found.get_document_topics(found.id2word.doc2bow(["w000", "w001", "w002"] * 5))).values())
    assert best > 0.9
    for ours, theirs in zip(model.topics(5), found.show_topics(5, 5, formatted=False), strict=True):
        np.testing.assert_allclose([w["probability"] for w in ours["words"]], [p for _, p in theirs[1]], rtol=1e-4)


def test_files_hold_the_topics(corpus, model, tmp_path):
    assert export(model, str(tmp_path), "tsv") == ["top-words.tsv"]
    head, first, *_ = (tmp_path / "top-words.tsv").read_text().splitlines()
    assert head.split("\t") == ["topic", "rank", "word", "probability"]
    word = model.topics(1)[0]["words"][0]
    assert first.split("\t")[:3] == ["0", "1", word["word"]]
    assert float(first.split("\t")[3]) == pytest.approx(word["probability"], rel=1e-5)


def test_mallets_files_hold_keys_and_documents(corpus, model, tmp_path):
    assert export(model, str(tmp_path), "mallet", corpus) == ["topic-keys.txt", "doc-topics.txt"]
    keys = [line.split("\t") for line in (tmp_path / "topic-keys.txt").read_text().splitlines()]
    assert [int(k[0]) for k in keys] == [0, 1, 2, 3, 4]
    assert keys[2][2].split() == [w["word"] for w in model.topics(20)[2]["words"]]
    rows = [line.split("\t") for line in (tmp_path / "doc-topics.txt").read_text().splitlines()]
    np.testing.assert_array_equal(np.array([row[2:] for row in rows], np.float32), model.transform(corpus))
    assert rows[3][1] == corpus.documents["key"][3].as_py()


def test_another_form_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match="choose one of tsv, mallet"):
        export(model, str(tmp_path), "pdf")


def test_the_command_line_exports_and_scores(corpus, model, tmp_path):
    model.save(str(tmp_path / "model"))
    arguments = ["export", str(tmp_path / "model"), str(tmp_path / "out"), "--format", "mallet", "--json"]
    found = CliRunner().invoke(cli, arguments)
    assert json.loads(found.output) == {"out": str(tmp_path / "out"), "files": "topic-keys.txt"}
    arguments = ["evaluate", str(tmp_path / "model"), corpus.url, "--coherence", "u_mass", "--json"]
    facts = json.loads(CliRunner().invoke(cli, arguments).output)
    assert facts["coherence_u_mass"] == pytest.approx(model.coherence(corpus.held_out, "u_mass").mean())
    assert facts["diversity"] == model.diversity()
