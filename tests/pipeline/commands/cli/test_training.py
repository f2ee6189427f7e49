"""The commands run, ingest, graph, train and resume."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from corpusmill import LDA, NMF
from corpusmill.configs.redact import redact
from corpusmill.io.stores.graph import Graph
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.formatting import model_title
from corpusmill.pipeline.models.registry import MODEL_KINDS
from helpers.command_line import COMMAND


def test_doubtful_parameters_and_data_are_warned_of(project, call):
    settings = ("--set", "model.n_components=14", "--set", "model.max_iter=1")
    code, _, err = call("run", "my.yaml", *settings)
    warnings = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert (code, len(warnings)) == (0, 1)
    assert "corpus: 43 documents and 13 words" in warnings[0]
    assert "but n_components is 14" in warnings[0]
    settings = ("--set", "model={kind: node2vec, epochs: 1}", "--set", "run.url=walks")
    code, _, err = call("train", "my.yaml", *settings)
    assert code == 0
    assert "warning: corpus: Node2Vec takes each document of this corpus for a walk" in err


@pytest.mark.parametrize("command", [("run", "my.yaml"), ("ingest", "days", "other")])
def test_what_is_noticed_while_the_source_is_opened_has_no_place_in_the_code(project, call, command):
    Path("days").mkdir()
    for name in ("days/a.jsonl", "days/a.jsonl~"):
        Path(name).write_bytes(Path("texts.jsonl").read_bytes())
    source = () if command[0] == "ingest" else ("--set", "source.path=days")
    code, _, err = call(*command, *source)
    assert code == 0
    assert [line for line in err.splitlines() if "left out" in line] == [
        f"warning: {project}/days: 1 file left out, such as {project}/days/a.jsonl~: names that begin with _, and "
        "backup copies, are read if a pattern names them"
    ]


def test_run_writes_a_model_and_a_report_and_prints_the_topics(project, call):
    code, out, err = call("run", "my.yaml", "--set", "model.max_iter=40")
    assert code == 0
    assert "corpus    corpus: " in out
    assert "trained   40 epochs" in out
    assert "log-likelihood per token" in out
    topics = [line.split()[2:] for line in out.splitlines() if "%" in line]
    assert len(topics) == 2
    for words in topics:
        assert not {"boat", "bread"} <= set(words)
    assert "ingest: reading text" in err
    assert "train: epoch 40/40" in err
    assert "Log-likelihood per token" in Path("run/report.html").read_text()
    assert Path("run/model/model.json").exists()


def test_a_second_run_changes_nothing(trained, call):
    before = {path: path.stat().st_mtime_ns for path in Path("run/epochs").rglob("*")}
    code, out, err = call("run", "my.yaml")
    assert code == 0
    assert out.count("already complete") == 2
    assert "train: 4 epochs already complete" in err
    assert {path: path.stat().st_mtime_ns for path in Path("run/epochs").rglob("*")} == before


def test_more_epochs_continue_after_the_last_one(trained, call):
    code, _, err = call("train", "my.yaml", "--set", "model.max_iter=6")
    assert code == 0
    assert "resuming after epoch 4 of 6" in err
    assert [row["epoch"] for row in RunStore("run").metrics] == [1, 2, 3, 4, 5, 6]


def test_a_run_is_not_continued_with_fewer_epochs(trained, call):
    before = {path: path.stat().st_mtime_ns for path in Path("run").rglob("*")}
    code, _, err = call("train", "my.yaml", "--set", "model.max_iter=3")
    assert code == 4
    assert "run: has 4 epochs already, and model.max_iter is 3: raise model.max_iter to 4, choose another folder" in err
    assert "use 'corpusmill train CONFIG --overwrite'" in err
    before.pop(Path("run/run.lock"), None)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert call("train", "my.yaml", "--set", "model.max_iter=3", "--overwrite")[0] == 0
    assert RunStore("run").step == 3


def test_json_output_is_one_object_with_the_results(trained):
    assert trained["corpus"]["documents"] + trained["corpus"]["held_out_documents"] == 60
    assert trained["epochs"] == trained["trained_epochs"] == 4
    assert trained["held_out_log_likelihood"] < 0
    assert len(trained["topics"]) == 2


def test_a_run_stores_its_configuration(trained):
    remembered = RunStore("run").meta["config"]
    assert remembered["model"]["n_components"] == 2
    assert remembered["corpus"]["url"] == "corpus"


def test_ingest_and_train_together_do_what_run_does(project, call):
    assert call("ingest", "texts.jsonl", "corpus", "--config", "my.yaml")[0] == 0
    code, out, _ = call("train", "my.yaml", "--json")
    assert code == 0
    assert json.loads(out)["epochs"] == 4


def test_run_without_a_source_trains_on_the_existing_corpus(trained, call):
    again = ("my.yaml", "--set", "source=null")
    assert json.loads(call("run", *again, "--json")[1])["corpus"] is None
    assert call("run", *again)[0] == 0


def test_ingest_works_without_a_configuration(project, call, monkeypatch):
    monkeypatch.setenv("CORPUSMILL_CORPUS__URL", "elsewhere")
    code, out, _ = call("ingest", "texts.jsonl", "other", "--set", "cluster.kind=synchronous", "--json")
    found = json.loads(out)
    assert (code, found["url"], found["changed"]) == (0, "other", True)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("--set", "cluster.n_workers=1")])
def test_ingest_of_a_small_file_starts_only_workers_that_were_asked_for(tmp_path, workers):
    (tmp_path / "texts.jsonl").write_text('{"text": "one fish two fish"}\n')
    program = f"""
import sys
from corpusmill.pipeline.commands.cli.main import cli
cli(["ingest", "texts.jsonl", "corpus", *{workers}], standalone_mode=False)
print("distributed" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(bool(workers))


def test_resume_completes_a_run_with_the_configuration_that_it_stores(trained, call):
    code, out, _ = call("resume", "run", "--set", "model.max_iter=5", "--json")
    assert code == 0
    assert (json.loads(out)["epochs"], json.loads(out)["trained_epochs"]) == (5, 1)


def test_resume_uses_the_settings_of_the_last_call(trained, call):
    assert call("train", "my.yaml", "--set", "model.max_iter=6")[0] == 0
    for name in ("report.html", "model"):
        RunStore("run").store.delete(name)
    assert call("watch", "run", "--once")[1].count("epoch 6 of 6") == 1
    assert json.loads(call("resume", "run", "--json")[1])["epochs"] == 6


def test_resume_asks_for_the_variables_of_a_cluster_whose_values_are_not_stored(trained, call):
    store = RunStore("run").store
    meta = store.read_json("run.json")
    meta["config"]["cluster"] = redact(
        {"kind": "dask_kubernetes.operator:KubeCluster", "options": {"env": {"MY_PAT": "hunter2"}}}
    )
    store.write_json("run.json", meta)
    code, _, err = call("resume", "run")
    assert code == 2
    assert "run/run.json: cluster.options.env.MY_PAT: secrets and values of environment variables are not stored" in err
    assert call("resume", "run", "--set", "cluster.kind=synchronous")[0] == 0


def test_resume_continues_a_run_that_was_started_from_python(trained, call, monkeypatch):
    LDA(n_components=2, max_iter=2).fit("corpus", run="here")
    monkeypatch.setenv("CORPUSMILL_RUN__URL", "elsewhere")
    settings = ("--set", "model.max_iter=3", "--set", "cluster.kind=synchronous")
    assert json.loads(call("resume", "here", *settings, "--json")[1])["trained_epochs"] == 1
    assert not Path("elsewhere").exists()


def test_all_numbers_of_components_are_in_the_summary_and_the_report(project, call):
    settings = ("model.kind=nmf", "model.n_components=2", "model.restart_components=[2,3]", "model.max_iter=5")
    code, out, err = call("run", "my.yaml", *(part for setting in settings for part in ("--set", setting)))
    assert code == 0, err
    page = Path("run/report.html").read_text()
    assert "left-out" not in out + page
    for components in (2, 3):
        assert f"restart   {components} components, seed 0: error " in out
        assert f"<tr><th>k{components}-seed0</th><td>{components}</td><td>0</td>" in page


def test_errors_of_left_out_entries_are_in_the_summary_and_the_report(project, call):
    settings = ("model.kind=nmf", "model.n_components=2", "model.restart_components=[2,3]", "model.max_iter=5")
    settings += ("model.validation_fraction=0.2",)
    code, out, err = call("run", "my.yaml", *(part for setting in settings for part in ("--set", setting)))
    assert code == 0, err
    page = Path("run/report.html").read_text()
    assert re.search(r"restart   3 components, seed 0: error [\d.]+, of left-out entries [\d.]+, after 5 epochs", out)
    assert "<th>error of left-out entries</th>" in page
    assert "Error of left-out entries <small>by components</small>" in page
    assert "<small>by epoch</small>" in page


def test_restarts_are_saved_one_folder_each_and_the_model_is_the_best(project, call):
    settings = ("model.extrapolate=false", "model.restarts=3", "model.n_components=2", "model.random_state=5")
    settings += ("cluster.kind=synchronous", "source=null")
    arguments = [argument for setting in settings for argument in ("--set", setting)]
    call("ingest", "texts.jsonl", "corpus", "--config", "my.yaml")
    code, out, _ = call("train", "nmf", *arguments, "--set", "run.url=run", "--json")
    assert code == 0
    found = json.loads(out)["restarts"]
    assert [restart["model"] for restart in found] == [f"run/restarts/k2-seed{seed}" for seed in (5, 6, 7)]
    best = min(found, key=lambda restart: restart["error"])
    components = NMF.load("run/model").components_
    assert (components == NMF.load(best["model"]).components_).all()
    assert [restart["epochs"] for restart in found] == [NMF.load(restart["model"]).n_iter_ for restart in found]


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_every_kind_of_model_can_be_trained_and_reported(project, call, kind):
    small = {
        "lda": ["n_components=2", "max_iter=2"],
        "nmf": ["n_components=2", "max_iter=2"],
        "word2vec": ["vector_size=8", "min_count=1", "epochs=1"],
        "node2vec": ["vector_size=8", "num_walks=2", "walk_length=5", "epochs=1"],
        "random-indexing": ["vector_size=64"],
        "fastrp": ["vector_size=8"],
    }
    settings = [f"model.{setting}" for setting in (f"kind={kind}", *small[kind])]
    if kind in ("node2vec", "fastrp"):
        Path("edges.txt").write_text("from to\n" + "".join(f"{a} {b}\n" for a in range(6) for b in range(a)))
        code, out, _ = call("graph", "edges.txt", "links", "--directed", "--json")
        assert (code, json.loads(out)["edges"], json.loads(out)["directed"]) == (0, 15, True)
        settings += ["source=null", "corpus.url=links"]
    code, out, err = call("run", "my.yaml", *(f"--set={setting}" for setting in settings), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["kind"] == kind
    page = Path("run/report.html").read_text()
    assert "Tokens per second" in page
    assert f"<h1>{model_title(kind)} of " in page
    for place in ("run", "run/model"):
        code, out, _ = call("inspect", place, "--json")
        assert (code, json.loads(out)["kind"]) == (0, kind)
    assert call("watch", "run", "--once")[1].startswith(f"{kind} run: finished")


def test_a_graph_in_the_folder_of_a_run_is_replaced_only_if_the_run_made_it(project, call):
    settings = ["source=null", "corpus.url=edges.txt", "model={kind: fastrp, vector_size: 8}"]
    train = ["train", "my.yaml", *(f"--set={setting}" for setting in settings)]
    for last in (6, 7):
        Path("edges.txt").write_text("".join(f"{a} {b}\n" for a in range(last) for b in range(a)))
        code, _, err = call(*train, "--overwrite")
        assert code == 0, err
        assert Graph("run/graph").n_nodes == last
        assert RunStore("run").meta["data"]["url"] == "run/graph"
        assert call("resume", "run")[0] == 0
    for url in ("run/graph", "links"):
        assert call("graph", "edges.txt", "links", "--overwrite")[0] == 0
        assert call(*train, f"--set=corpus.url={url}", "--overwrite")[0] == 0
        assert Path("run/graph").exists() is (url == "run/graph")


def test_the_column_of_the_weights_of_edges_can_be_named(project, call):
    Path("edges.csv").write_text("id,source,target,score\n1,a,b,2\n2,b,c,3\n")
    for options, is_weighted in (((), False), (("--weight", "score"), True)):
        assert call("graph", "edges.csv", "links", "--overwrite", *options)[0] == 0
        assert Graph("links").is_weighted is is_weighted
    assert "no column 'size' among" in call("graph", "edges.csv", "links", "--overwrite", "--weight", "size")[2]


@pytest.mark.slow
def test_the_quick_start_on_two_workers_announces_the_live_page_also_without_bokeh(tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "bokeh.py").write_text("raise ModuleNotFoundError('bokeh', name='bokeh')")
    environment = os.environ | {"PYTHONPATH": str(hidden)}
    quick = [*COMMAND, "run", "quickstart", "--set", "model.max_iter=6", "--set", "run.evaluate_every=3"]
    done = subprocess.run(quick, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    # The first word comes before Dask and the workers, which take seconds.
    assert done.stderr.startswith("cluster: local; starting\n")
    assert "train: live page http://" in done.stderr
    assert "1,069 documents and 120 held out" in done.stdout
    assert done.stdout.count("%") == 20
    assert "train: epoch 6/6" in done.stderr
    assert "Warning" not in done.stderr
    assert (tmp_path / "demo/report.html").stat().st_size > 20_000


@pytest.mark.slow
def test_dask_logs_only_what_is_critical():
    program = """
import logging
from corpusmill.pipeline.commands.cli.session import _quiet_libraries
with _quiet_libraries(debug=False):
    import distributed
    print(logging.getLogger("distributed.nanny").getEffectiveLevel() == logging.CRITICAL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
