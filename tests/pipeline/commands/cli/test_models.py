"""The commands that use models and runs: topics, similar, evaluate, transform, inspect, report."""

import json
from pathlib import Path

import click
import numpy as np
import pyarrow.parquet as pq
import pytest
from corpusmill import LDA, NMF, ingest
from corpusmill.pipeline.commands.actions.models import check_stored
from corpusmill.pipeline.commands.cli.main import cli
from corpusmill.pipeline.commands.cli.session import load_config, open_session
from corpusmill.pipeline.engine import memory
from corpusmill.pipeline.engine.run import RunStore
from helpers.command_line import error_line


def test_evaluate_scores_and_transform_writes_weights(trained, call):
    code, out, _ = call("evaluate", "run/model", "corpus", "--config", "my.yaml", "--json")
    score = json.loads(out)
    assert code == 0
    assert score["documents"] == trained["corpus"]["held_out_documents"]
    assert score["log_likelihood"] == pytest.approx(trained["held_out_log_likelihood"], abs=0.5)
    code, out, _ = call("transform", "run/model", "corpus", "weights", "--config", "my.yaml")
    assert code == 0
    rows = pq.read_table("weights")
    assert rows.column_names == ["document", "weights"]
    assert rows.num_rows == trained["corpus"]["documents"]
    assert all(sum(weights) == pytest.approx(1, abs=1e-5) for weights in rows["weights"].to_pylist())
    assert len(list(Path("weights").iterdir())) > 1
    assert call("transform", "run/model", "corpus", "largest", "--top", "1", "--config", "my.yaml")[0] == 0
    largest = pq.read_table("largest")
    assert largest.column_names == ["document", "topics", "weights"]
    assert largest["weights"].to_pylist() == [[max(weights)] for weights in rows["weights"].to_pylist()]
    Path("few.txt").write_text("a plane over the sea\n")
    settings = ("--set", "cluster.kind=synchronous")
    assert call("ingest", "few.txt", "few", *settings)[0] == 0
    assert call("transform", "run/model", "few", "weights", "--replace", *settings[:2])[0] == 0
    assert pq.read_table("weights").num_rows == 1
    code, _, err = call("evaluate", "run/model", "few", "--part", "train", *settings[:2])
    assert (code, "few: nothing to score: no document has two words" in error_line(err)) == (4, True)


def test_a_model_that_no_worker_can_hold_is_mapped_by_one_process(trained, call, monkeypatch):
    expected = json.loads(call("evaluate", "run/model", "corpus", "--config", "my.yaml", "--json")[1])
    size = check_stored("run/model")
    monkeypatch.setattr(memory, "memory_limit", lambda: 3 * size)
    code, _, err = call("evaluate", "run/model", "corpus")
    assert (code, "cluster" in err) == (0, False)
    assert json.loads(call("evaluate", "run/model", "corpus", "--json")[1]) == expected


@pytest.mark.slow
def test_no_more_workers_start_than_can_hold_the_model(trained, call, monkeypatch):
    monkeypatch.setattr(memory, "memory_limit", lambda: 4 << 30)
    monkeypatch.setattr(memory, "processor_count", lambda: 3)
    with click.Context(cli) as context:
        context.params["debug"] = False
        with open_session(load_config((), ()), True, model_bytes=500 << 20) as session:
            workers = session.client.scheduler_info()["workers"].values()
            assert [worker["nthreads"] for worker in workers] == [1, 1]


def test_a_finished_run_stands_for_its_model(trained, call):
    Path("run/model").rename("elsewhere")
    assert call("topics", "run")[0] == 4
    meta = json.loads(Path("run/run.json").read_text())
    meta["config"]["run"]["model"] = "elsewhere"
    Path("run/run.json").write_text(json.dumps(meta))
    assert LDA.load("run")._saved_at == str(Path("elsewhere").absolute())
    Path("elsewhere").rename("run/model")
    assert LDA.load("run")._saved_at == str(Path("run/model").absolute())
    code, out, _ = call("topics", "run", "--json")
    assert (code, json.loads(out)["topics"]) == (0, json.loads(call("topics", "run/model", "--json")[1])["topics"])
    assert call("evaluate", "run", "corpus", "--config", "my.yaml")[0] == 0
    assert call("transform", "run", "corpus", "weights", "--config", "my.yaml")[0] == 0
    assert call("similar", "run", "boat", "--documents", "corpus")[0] == 0
    assert call("export", "run", "exported")[0] == 0


def test_topics_are_printed_and_a_report_is_written(trained, call):
    code, out, _ = call("topics", "run/model", "--words", "3")
    assert code == 0
    assert [len(line.split()) for line in out.splitlines() if "%" in line] == [5, 5]
    assert out.splitlines()[-1].split() == ["model", "run/model,", "after", "4", "epochs"]
    code, out, _ = call("report", "run", "--out", "page.html")
    assert code == 0
    assert "Topic 1" in Path("page.html").read_text()


def test_report_describes_an_incomplete_run_and_a_model_and_compares_two_runs(trained, call):
    settings = (f"--set={setting}" for setting in ("run.url=other", "model.max_iter=2", "report=null"))
    assert call("train", "my.yaml", *settings)[0] == 0
    store = RunStore("other").store
    store.delete("model")
    for url, out in (("other", "other/report.html"), ("run/model", "model.html")):
        code, _, _ = call("report", url, "--out", out)
        assert (code, Path(out).read_text().count('class="card topic"')) == (0, 2)
    code, out, _ = call("report", "run", "other", "--json")
    assert (code, json.loads(out)) == (0, {"report": "comparison.html"})
    page = Path("comparison.html").read_text()
    assert "model.max_iter" in page
    assert "source.path" not in page.partition("How it was made")[0]
    code, _, err = call("report", "run", "run")
    assert (code, "both arguments are the same run" in error_line(err)) == (2, True)


def test_similar_finds_words_by_vectors_and_documents_by_any_model_of_text(trained, call):
    vectors = ("run", "my.yaml", "--set", "model.kind=random-indexing", "--set", "model.vector_size=64")
    code, out, _ = call(*vectors, "--set", "run.url=vectors")
    assert (code, "measured" in out) == (0, True)
    code, out, _ = call("similar", "vectors/model", "boat", "--number", "3")
    assert code == 0
    assert [len(line.split()) for line in out.splitlines()] == [2, 2, 2]
    code, _, err = call("similar", "vectors/model", "boat", "--without", "plane")
    assert (code, "'plane' is not in the vocabulary" in error_line(err)) == (4, True)
    code, _, err = call("similar", "run/model", "boat")
    assert (code, "have no word vectors" in error_line(err)) == (2, True)
    for model, part in (("vectors", "train"), ("vectors", "held_out"), ("run", "train")):
        wanted = ("similar", f"{model}/model", "boat", "--documents", "corpus", "--part", part, "--json")
        code, out, _ = call(*wanted)
        nearest = json.loads(out)["similar"]
        assert (code, len(nearest)) == (0, 10)
        # Boats are on odd lines.
        assert int(nearest[0]["document"].removeprefix("texts.jsonl:")) % 2 == 1
    code, _, err = call("similar", "run/model", "boat", "--without", "plane", "--documents", "corpus")
    assert (code, "'plane' is not in the vocabulary" in error_line(err)) == (4, True)
    code, _, err = call("similar", "vectors/model", "boat", "--documents", "none")
    assert (code, "none: no corpus here" in error_line(err)) == (4, True)
    code, _, err = call("topics", "vectors/model")
    assert (code, "have no topics" in err) == (2, True)


def test_a_mean_coherence_that_is_unknown_is_null(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ingest(["bread boat boat", "oven boat boat"], "corpus")
    LDA(2, max_iter=1).fit(["sea boat storm"] * 4).save("model")
    command = ("evaluate", "model", "corpus", "--part", "train", "--coherence", "npmi")
    settings = ("--set", "cluster.kind=synchronous")
    code, out, _ = call(*command, *settings, "--json")
    assert (code, json.loads(out, parse_constant=pytest.fail)["mean_coherence_npmi"]) == (0, None)
    assert "mean coherence npmi   unknown" in call(*command, *settings)[1]


def test_documents_cannot_be_searched_with_a_model_of_a_matrix(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ingest(["sea boat"], "corpus")
    NMF(1, max_iter=1).fit(np.eye(3)).save("model")
    code, _, err = call("similar", "model", "sea", "--documents", "corpus")
    assert (code, "was fitted on a matrix, whose columns are not words" in error_line(err)) == (4, True)


@pytest.mark.parametrize(
    ("where", "what", "version"), [("corpus", "corpus", 2), ("run", "run", 3), ("run/model", "model", 1)]
)
def test_inspect_describes_corpora_runs_and_models(trained, call, where, what, version):
    code, out, _ = call("inspect", where, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["what"], found["format"]) == (what, version)
    assert found["bytes"] == sum(p.stat().st_size for p in Path(where).rglob("*") if p.is_file())
