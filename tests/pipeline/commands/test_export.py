"""Topics as files for other tools, and the commands that measure topics."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from corpusmill import LDA
from corpusmill.pipeline.commands.actions.export import export
from corpusmill.pipeline.commands.cli.main import cli
from helpers.toy import write_topic_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("export") / "corpus", n_topics=5)


@pytest.fixture(scope="module")
def model(corpus):
    return LDA(5, doc_topic_prior=0.1, max_iter=20).fit(corpus)


@pytest.fixture(scope="module")
def model_url(model, tmp_path_factory):
    url = str(tmp_path_factory.mktemp("export") / "model")
    model.save(url)
    return url


def test_a_tsv_file_has_one_line_per_topic_and_word(model, model_url, tmp_path):
    assert export(model_url, str(tmp_path), "tsv")["files"] == "top-words.tsv"
    header, first, *_ = (tmp_path / "top-words.tsv").read_text().splitlines()
    assert header.split("\t") == ["topic", "rank", "word", "probability"]
    best = model.topics(1)[0]["words"][0]
    topic, rank, word, probability = first.split("\t")
    assert (topic, rank, word) == ("0", "1", best["word"])
    assert float(probability) == pytest.approx(best["probability"], rel=1e-5)


def test_mallet_files_have_topic_keys_and_document_weights(corpus, model, model_url, tmp_path):
    facts = export(model_url, str(tmp_path), "mallet", corpus.url)
    assert facts["files"] == "topic-keys.txt, doc-topics.txt"
    keys = [line.split("\t") for line in (tmp_path / "topic-keys.txt").read_text().splitlines()]
    assert [int(key[0]) for key in keys] == [0, 1, 2, 3, 4]
    assert keys[2][2].split() == model.topic_words(20)[2]
    rows = [line.split("\t") for line in (tmp_path / "doc-topics.txt").read_text().splitlines()]
    np.testing.assert_array_equal(np.array([row[2:] for row in rows], np.float32), model.transform(corpus))
    assert rows[3][1] == corpus.documents["key"][3].as_py()


def test_the_command_exports_topics(model_url, tmp_path):
    result = CliRunner().invoke(cli, ["export", model_url, str(tmp_path), "--format", "mallet", "--json"])
    assert json.loads(result.output) == {"out": str(tmp_path), "files": "topic-keys.txt"}


def test_the_command_evaluate_measures_coherence_and_diversity(corpus, model, model_url):
    result = CliRunner().invoke(cli, ["evaluate", model_url, corpus.url, "--coherence", "u_mass", "--json"])
    facts = json.loads(result.output)
    assert facts["coherence_u_mass"] == pytest.approx(model.coherence(corpus.held_out, "u_mass").mean())
    assert facts["diversity"] == model.diversity()
