"""Folders that transform writes to: results of different models or documents are not mixed."""

import json

import numpy as np
import pandas
import pytest
from corpusmill import LDA, RandomIndexing, ingest
from corpusmill.io.errors import DataError
from corpusmill.pipeline.commands.cli.main import main

TEXTS = [text.split() for text in ("ship sea boat", "bread oven cake", "sea boat storm", "oven bread flour")] * 3


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    return ingest(TEXTS, str(folder / "corpus"), chunk_tokens=12)


@pytest.fixture(scope="module")
def other_corpus(tmp_path_factory):
    return ingest(TEXTS[:4], str(tmp_path_factory.mktemp("weights") / "corpus"))


@pytest.fixture(scope="module")
def models(corpus):
    return [LDA(2, max_iter=3, random_state=seed, device="cpu").fit(corpus) for seed in (0, 1)]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_call_may_be_repeated(models, corpus, tmp_path):
    models[0].transform_to(corpus, str(tmp_path / "out"))
    before = contents(tmp_path / "out")
    assert len(before) > 2
    # An interrupted call has not written all files.
    (tmp_path / "out" / "part-000001.parquet").unlink()
    models[0].transform_to(corpus, str(tmp_path / "out"))
    assert contents(tmp_path / "out") == before
    assert len(pandas.read_parquet(tmp_path / "out")) == len(TEXTS)


def test_a_folder_of_an_earlier_version_is_continued(models, corpus, tmp_path):
    models[0].transform_to(corpus, str(tmp_path))
    path = tmp_path / "_transform.json"
    description = json.loads(path.read_text())
    del description["top"]
    path.write_text(json.dumps(description))
    models[0].transform_to(corpus, str(tmp_path))
    del description["corpus"]
    path.write_text(json.dumps(description))
    with pytest.raises(DataError, match="has weights of other documents"):
        models[0].transform_to(corpus, str(tmp_path))


def test_weights_are_written_for_whatever_transform_accepts(models, corpus, tmp_path):
    for name, data in (("corpus", corpus), ("path", corpus.url), ("memory", TEXTS[:4])):
        models[0].transform_to(data, str(tmp_path / name))
        weights = np.stack(pandas.read_parquet(tmp_path / name)["weights"])
        np.testing.assert_array_equal(weights, models[0].transform(data))


def test_the_largest_weights_alone_are_written_with_their_topics(corpus, tmp_path):
    model = LDA(4, max_iter=3, device="cpu").fit(corpus)
    model.transform_to(corpus, str(tmp_path / "out"), top=2)
    table = pandas.read_parquet(tmp_path / "out")
    assert list(table.columns) == ["document", "topics", "weights"]
    expected = model.transform(corpus)
    order = np.argsort(-expected, axis=1, kind="stable")[:, :2]
    np.testing.assert_array_equal(np.stack(table["topics"]), order)
    np.testing.assert_array_equal(np.stack(table["weights"]), np.take_along_axis(expected, order, axis=1))
    with pytest.raises(DataError, match="has weights of these documents with other columns"):
        model.transform_to(corpus, str(tmp_path / "out"))
    # More topics than the model has are all of them.
    model.transform_to(corpus, str(tmp_path / "all"), top=9)
    assert len(pandas.read_parquet(tmp_path / "all")["topics"][0]) == 4


def test_the_number_of_topics_to_write_is_checked(models, corpus, tmp_path):
    for top in (0, True, 1.5, "2"):
        with pytest.raises(ValueError, match=f"top is {top!r}: choose an integer of 1 or more"):
            models[0].transform_to("no corpus", str(tmp_path / "out"), top=top)
    table = {"text": ["ship sea", "bread oven"], "topics": ["sea", "kitchen"]}
    kept = ingest(pandas.DataFrame(table), str(tmp_path / "kept"), keep=["topics"])
    with pytest.raises(DataError, match="has a column topics of its own: leave top out"):
        models[0].transform_to(kept, str(tmp_path / "out"), top=1)
    vectors = RandomIndexing(64, seed_length=4).fit(corpus)
    with pytest.raises(ValueError, match="top is 3, but random-indexing models have no topics"):
        vectors.transform_to(corpus, str(tmp_path / "out"), top=3)


def test_weights_of_another_model_or_of_other_documents_are_not_replaced(models, corpus, other_corpus, tmp_path):
    out = str(tmp_path / "out")
    models[0].transform_to(corpus, out)
    before = contents(tmp_path / "out")
    with pytest.raises(DataError, match=r"out: has weights of another model; choose another folder, or .*--replace"):
        models[1].transform_to(corpus, out)
    with pytest.raises(DataError, match="out: has weights of other documents; "):
        models[0].transform_to(other_corpus, out)
    assert contents(tmp_path / "out") == before
    models[1].transform_to(other_corpus, out, replace=True)
    # No file of the larger corpus is left.
    assert len(pandas.read_parquet(out)) == len(other_corpus.documents)


def test_weights_are_not_written_among_other_files(models, corpus, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".DS_Store").write_text("")
    with pytest.raises(DataError, match=r"has files that transform did not write \(notes\.txt\)"):
        models[0].transform_to(corpus, str(tmp_path))
    models[0].transform_to(corpus, str(tmp_path), replace=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_files_without_a_description_are_of_an_unknown_model(models, corpus, tmp_path):
    (tmp_path / "part-000000.parquet").write_bytes(b"")
    with pytest.raises(DataError, match="has weights of an unknown model"):
        models[0].transform_to(corpus, str(tmp_path))


def test_the_command_has_the_option_replace(models, corpus, tmp_path, capsys):
    for number, model in enumerate(models):
        model.save(str(tmp_path / str(number)))
    arguments = [corpus.url, str(tmp_path / "out"), "--set=cluster.kind=synchronous"]
    main(["transform", str(tmp_path / "0"), *arguments])
    with pytest.raises(SystemExit) as stopped:
        main(["transform", str(tmp_path / "1"), *arguments])
    assert stopped.value.code == 4
    assert (
        "has weights of another model; choose another folder, or replace them with --replace" in capsys.readouterr().err
    )
    main(["transform", str(tmp_path / "1"), *arguments, "--replace"])
