"""Names that users give to topics, in what every command prints and writes."""

import json
from pathlib import Path

import h5py
import pyarrow.parquet as pq
import pytest
from corpusmill import LDA
from corpusmill.pipeline.explorer.model import ExploredModel
from helpers.cells import COUNTS, write_h5ad

NAME = "Sea travel"


@pytest.fixture
def named(trained, call):
    """Name a topic of the trained model, as the explorer does."""
    ExploredModel("run").name_topic(1, NAME)


def test_commands_print_the_names_of_topics(named, call):
    for command in (["topics", "run/model"], ["transform", "run/model", "corpus", "weights", "--config", "my.yaml"]):
        code, out, _ = call(*command)
        assert (code, NAME in out) == (0, True)
        found = json.loads(call(*command, "--json")[1])
        names = found.get("topic_names") or {str(t["topic"]): t["name"] for t in found["topics"] if "name" in t}
        assert names == {"1": NAME}


def test_files_of_transform_have_the_names_of_topics(named, call):
    assert call("transform", "run/model", "corpus", "weights", "--config", "my.yaml")[0] == 0
    for file in Path("weights").glob("*.parquet"):
        assert json.loads(pq.read_schema(file).metadata[b"topic_names"]) == {"1": NAME}
    # A dataset of all files has the metadata, too.
    assert b"topic_names" in pq.read_table("weights").schema.metadata


def test_reports_of_the_run_and_of_the_model_have_the_names_of_topics(named, call):
    for url in ("run", "run/model"):
        assert call("report", url, "--out", "page.html")[0] == 0
        assert NAME in Path("page.html").read_text()


def test_training_that_ends_with_the_same_model_keeps_the_names_of_topics(named, call):
    assert call("train", "my.yaml")[0] == 0
    assert LDA.load("run/model").topic_names_ == {1: NAME}
    assert NAME in Path("run/report.html").read_text()
    # Another model has other topics.
    assert call("train", "my.yaml", "--set", "model.max_iter=9")[0] == 0
    assert LDA.load("run/model").topic_names_ == {}


def test_exports_have_the_names_of_topics(named, call):
    for form, file in {"tsv": "topics.tsv", "mallet": "topics.tsv", "card": "README.md"}.items():
        assert call("export", "run/model", form, "--format", form)[0] == 0
        assert NAME in Path(form, file).read_text()


def test_anndata_files_have_the_names_of_topics(project, call):
    write_h5ad("cells.h5ad", COUNTS)
    settings = ("--set", "cluster.kind=synchronous")
    assert call("ingest", "cells.h5ad", "cells", *settings)[0] == 0
    LDA(3, max_iter=2).fit("cells").save("model")
    ExploredModel("model").name_topic(2, NAME)
    assert call("transform", "model", "cells.h5ad", "--into", "cells.h5ad", *settings[:2])[0] == 0
    with h5py.File("cells.h5ad") as file:
        assert [name.decode() for name in file["uns/corpusmill/topics/topic_names"]] == ["", "", NAME]
