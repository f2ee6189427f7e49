"""Topics as text files for other tools, and the scores of topic models, by the command line."""

import json

import numpy as np
import pytest
from corpusmill import LDA, NMF, Word2Vec, WordVectors, ingest
from corpusmill.pipeline.commands.actions.export import export
from helpers.nightly import call
from helpers.toy import write_topic_corpus

N_TOPICS = 5
MODELS = {
    "lda": LDA(N_TOPICS, doc_topic_prior=0.1, max_iter=20, n_blocks=2, learn_priors="asymmetric"),
    "nmf": NMF(N_TOPICS, max_iter=5),
    "word2vec": Word2Vec(vector_size=8, epochs=1, min_count=1),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("export") / "corpus", n_topics=N_TOPICS)


@pytest.fixture(scope="module")
def saved(corpus, tmp_path_factory):
    """Return a function that gives the URL of a saved model of a kind."""
    folder = tmp_path_factory.mktemp("models")

    def url(kind):
        if not (folder / kind).exists():
            MODELS[kind].fit(corpus).save(str(folder / kind))
        return str(folder / kind)

    return url


@pytest.mark.parametrize(("kind", "value"), [("lda", "probability"), ("nmf", "weight")])
def test_the_tsv_file_has_the_heaviest_words_of_each_topic(saved, tmp_path, kind, value):
    assert export(saved(kind), str(tmp_path), "tsv") == {"out": str(tmp_path), "files": "top-words.tsv, topics.tsv"}
    head, *lines = (tmp_path / "top-words.tsv").read_text().splitlines()
    assert head.split("\t") == ["topic", "rank", "word", value]
    rows = [line.split("\t") for line in lines]
    for topic in MODELS[kind].topics(100):
        found = [row for row in rows if row[0] == str(topic["topic"])]
        assert [row[2] for row in found] == [entry["word"] for entry in topic["words"]]
        assert [float(row[3]) for row in found] == pytest.approx([entry[value] for entry in topic["words"]], rel=1e-5)


def test_the_mallet_files_have_topic_keys_and_document_weights(corpus, saved, tmp_path):
    assert export(saved("lda"), str(tmp_path), "mallet", corpus.url)["files"] == "topic-keys.txt, doc-topics.txt"
    keys = [line.split("\t") for line in (tmp_path / "topic-keys.txt").read_text().splitlines()]
    assert [int(k[0]) for k in keys] == [0, 1, 2, 3, 4]
    assert keys[2][2].split() == [entry["word"] for entry in MODELS["lda"].topics(20)[2]["words"]]
    rows = [line.split("\t") for line in (tmp_path / "doc-topics.txt").read_text().splitlines()]
    weights = MODELS["lda"].transform(corpus)
    np.testing.assert_array_equal(np.array([row[2:] for row in rows], np.float32), weights)
    assert rows[3][1] == corpus.documents["key"][3].as_py()


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.bin", "vectors.parquet"])
def test_the_vectors_are_written_in_the_format_of_the_ending(saved, tmp_path, name):
    out = str(tmp_path / name)
    wv = MODELS["word2vec"].load(saved("word2vec")).wv
    assert export(saved("word2vec"), out, "vectors") == {"out": out, "words": len(wv), "dimensions": 8}
    found = WordVectors.load(out)
    assert found.index_to_key == wv.index_to_key
    np.testing.assert_array_equal(found.vectors, wv.vectors)


def test_a_field_with_a_tab_or_a_line_break_stays_one_field(tmp_path):
    rows = [{"words": ["new\tyork", "a\nb"], "title": "two\r\nlines"}] * 4
    corpus = ingest(rows, str(tmp_path / "corpus"), tokens="words", key="title")
    LDA(1, max_iter=1).fit(corpus).save(str(tmp_path / "model"))
    for file_format in ("tsv", "mallet"):
        export(str(tmp_path / "model"), str(tmp_path / "out"), file_format, corpus.url)
    words = [line.split("\t") for line in (tmp_path / "out/top-words.tsv").read_text().split("\n")]
    assert sorted(row[2] for row in words[1:-1]) == ["a b", "new york"]
    documents = [line.split("\t") for line in (tmp_path / "out/doc-topics.txt").read_text().split("\n")]
    assert documents[:-1] == [[str(number), "two  lines", "1.0"] for number in range(4)]


def test_the_command_line_exports(saved, tmp_path, capsys):
    assert call("export", saved("nmf"), tmp_path / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"out": str(tmp_path / "out"), "files": "top-words.tsv, topics.tsv"}


@pytest.mark.parametrize("kind", ["lda", "nmf"])
def test_evaluate_measures_coherence_and_diversity_of_every_topic_model(corpus, saved, kind, capsys):
    arguments = ("--coherence", "u_mass", "--set", "cluster.kind=synchronous", "--json")
    assert call("evaluate", saved(kind), corpus.url, *arguments) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["coherence_counted_in"] == f"{corpus.held_out.n_documents} held-out documents"
    coherence = MODELS[kind].coherence(corpus.held_out, "u_mass")
    assert [topic["coherence"]["u_mass"] for topic in facts["topics"]] == pytest.approx(coherence)
    assert facts["mean_coherence_u_mass"] == pytest.approx(coherence.mean())
    assert facts["diversity"] == MODELS[kind].diversity()
    assert facts["log_likelihood"] < 0


def test_evaluate_prints_the_coherence_of_each_topic_and_the_mean_last(corpus, saved, capsys):
    measures = ("--coherence", "u_mass", "--coherence", "npmi", "--set", "cluster.kind=synchronous")
    assert call("evaluate", saved("lda"), corpus.url, *measures) == 0
    lines = capsys.readouterr().out.splitlines()
    head = lines.index(" topic    u_mass    npmi  words")
    found = {name: MODELS["lda"].coherence(corpus.held_out, name) for name in ("u_mass", "npmi")}
    for k, words in enumerate(MODELS["lda"].topic_words()):
        row = lines[head + 1 + k].split()
        assert row == [str(k), f"{found['u_mass'][k]:.4f}", f"{found['npmi'][k]:.4f}", *words]
    means = [f"mean coherence {name} {found[name].mean():.4f}" for name in found]
    assert [" ".join(line.split()) for line in lines[-2:]] == means


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "word2vec"], "lda and nmf models do; for word vectors, call"),
        (["topics", "word2vec"], "word2vec models have no topics, and give documents no likelihood; lda and"),
        (["export", "nmf", "--format", "mallet"], "MALLET's files are for LDA models"),
        (["export", "lda", "--format", "vectors"], "lda models have no word vectors; word2vec, "),
        (["export", "word2vec", "--format", "vectors"], "ends in one of .txt, .vec, .bin,"),
        (["similar", "nmf", "w0"], "nmf models have no word vectors"),
        (["evaluate", "nmf", "--method", "completion"], "--method applies to lda models"),
        (["evaluate", "word2vec"], "in Python, wv.evaluate_word_pairs"),
    ],
)
def test_a_model_that_lacks_a_capability_is_refused_with_one_sentence(
    corpus, saved, tmp_path, capsys, arguments, message
):
    command, kind, *options = arguments
    positional = {"export": [tmp_path / "out"], "evaluate": [corpus.url, "--set", "cluster.kind=synchronous"]}
    assert call(command, saved(kind), *positional.get(command, []), *options) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("kind", MODELS)
def test_a_card_has_data_results_parameters_and_topics(saved, corpus, tmp_path, kind):
    assert export(saved(kind), str(tmp_path), "card") == {"out": str(tmp_path), "files": "README.md"}
    card = (tmp_path / "README.md").read_text()
    assert f"# {kind} model" in card
    assert f"| documents | {corpus.n_documents:,} for training" in card
    for name, value in MODELS[kind].get_params().items():
        assert f"| {name.replace('_', chr(92) + '_')} | " in card, name
        if isinstance(value, int) and not isinstance(value, bool):
            assert f"| {value} |" in card
    name = type(MODELS[kind]).__name__
    assert f'from corpusmill import {name}\n\nmodel = {name}.load("FOLDER")' in card
    has_topics = kind != "word2vec"
    assert ("## Topics" in card) == has_topics
    if has_topics:
        assert card.count("% | ") == N_TOPICS
        assert MODELS[kind].topics(1)[0]["words"][0]["word"] in card


def test_words_of_strangers_are_text_in_a_card(tmp_path):
    evil = "<script>ran()</script>|`*"
    LDA(2, max_iter=2).fit([[evil, "sea"], ["sea", evil]]).save(str(tmp_path / "model"))
    export(str(tmp_path / "model"), str(tmp_path / "card"), "card")
    card = (tmp_path / "card" / "README.md").read_text()
    assert "<script>" not in card
    assert r"&lt;script&gt;ran()&lt;/script&gt;\|\`\*" in card


def test_a_card_names_the_kept_columns(tmp_path):
    rows = [{"text": "ship sea boat", "date": "2026-11-01", "author": "x"}] * 4
    corpus = ingest(rows, str(tmp_path / "corpus"), keep=["date", "author"])
    LDA(2, max_iter=2).fit(corpus).save(str(tmp_path / "model"))
    export(str(tmp_path / "model"), str(tmp_path / "model"), "card")
    assert "| kept columns | date, author |" in (tmp_path / "model" / "README.md").read_text()
