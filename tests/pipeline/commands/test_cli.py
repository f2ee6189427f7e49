"""The command line as its users meet it: what it prints, what it leaves, how it fails and how it is stopped."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pyarrow.parquet as pq
import pytest
from corpusmill import LDA
from corpusmill.io.stores.store import DataError
from corpusmill.pipeline.commands.cli.errors import ExitCode, Failure, explain
from corpusmill.pipeline.commands.cli.main import cli, main
from corpusmill.pipeline.commands.cli.signals import Terminated
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.models.registry import MODEL_KINDS

BOATS = "the boat sails over the sea and the sailor steers the boat to the harbour"
BREAD = "the baker bakes bread from flour and the oven browns the bread and the cake"
COMMAND = [sys.executable, "-c", "from corpusmill.pipeline.commands.cli.main import main; main()"]


@pytest.fixture
def call(capsys, monkeypatch):
    """Return a function that runs a command in this process: (exit code, stdout, stderr)."""
    for name in list(os.environ):
        if name.startswith("CORPUSMILL_") and "__" in name:
            monkeypatch.delenv(name)

    def run(*arguments):
        code = 0
        try:
            main([str(a) for a in arguments])
        except SystemExit as error:
            code = error.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with documents and a configuration, and the working directory in it."""
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"text": text}) for _ in range(30) for text in (BOATS, BREAD)]
    Path("texts.jsonl").write_text("\n".join(lines))
    Path("my.yaml").write_text(
        "source: {path: texts.jsonl, stop_words: english}\n"
        "corpus: {url: corpus, held_out: 0.2, chunk_tokens: 100}\n"
        "model: {kind: lda, n_components: 2, doc_topic_prior: 0.1, max_iter: 4}\n"
        "run: {url: run, evaluate_every: 2}\n"
        "cluster: {kind: synchronous}\n"
    )
    return tmp_path


@pytest.fixture
def trained(project, call):
    code, out, err = call("run", "my.yaml", "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def sentence(err):
    """The one line of an error."""
    assert err.startswith("corpusmill: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


# --- the whole path ---


def test_run_leaves_a_model_and_a_report_and_shows_topics(project, call):
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


def test_a_second_run_finds_everything_there(trained, call):
    before = {path: path.stat().st_mtime_ns for path in Path("run/epochs").rglob("*")}
    code, out, err = call("run", "my.yaml")
    assert code == 0
    assert out.count("already complete") == 2
    assert "all 4 epochs are already complete" in err
    assert {path: path.stat().st_mtime_ns for path in Path("run/epochs").rglob("*")} == before


def test_more_epochs_go_on_from_the_last_one(trained, call):
    code, _, err = call("train", "my.yaml", "--set", "model.max_iter=6")
    assert code == 0
    assert "resuming after epoch 4 of 6" in err
    assert [row["epoch"] for row in RunStore("run").metrics] == [1, 2, 3, 4, 5, 6]


def test_json_is_one_object_and_nothing_else(trained):
    assert trained["corpus"]["documents"] + trained["corpus"]["held_out_documents"] == 60
    assert trained["epochs"] == trained["trained_epochs"] == 4
    assert trained["held_out_log_likelihood"] < 0
    assert len(trained["topics"]) == 2


def test_the_run_remembers_its_configuration(trained):
    remembered = RunStore("run").meta["config"]
    assert remembered["model"]["n_components"] == 2
    assert remembered["corpus"]["url"] == "corpus"


def test_ingest_then_train_is_what_run_does(project, call):
    assert call("ingest", "texts.jsonl", "corpus", "--config", "my.yaml")[0] == 0
    code, out, _ = call("train", "my.yaml", "--json")
    assert code == 0
    assert json.loads(out)["epochs"] == 4


def test_a_run_without_a_source_trains_on_what_is_there(trained, call):
    again = ("my.yaml", "--set", "source=null")
    assert json.loads(call("run", *again, "--json")[1])["corpus"] is None
    assert call("run", *again)[0] == 0


def test_an_ingest_needs_no_configuration(project, call, monkeypatch):
    monkeypatch.setenv("CORPUSMILL_CORPUS__URL", "elsewhere")
    code, out, _ = call("ingest", "texts.jsonl", "other", "--set", "cluster.kind=synchronous", "--json")
    found = json.loads(out)
    assert (code, found["url"], found["changed"]) == (0, "other", True)


def test_resume_finishes_a_run_with_its_own_configuration(trained, call):
    code, out, _ = call("resume", "run", "--set", "model.max_iter=5", "--json")
    assert code == 0
    assert (json.loads(out)["epochs"], json.loads(out)["trained_epochs"]) == (5, 1)


def test_resume_remembers_what_was_said_last(trained, call):
    assert call("train", "my.yaml", "--set", "model.max_iter=6")[0] == 0
    for name in ("report.html", "model"):
        RunStore("run").store.delete(name)
    assert call("watch", "run", "--once")[1].count("epoch 6 of 6") == 1
    assert json.loads(call("resume", "run", "--json")[1])["epochs"] == 6


def test_a_run_that_began_in_python_is_resumed(trained, call, monkeypatch):
    LDA(n_components=2, max_iter=2).fit("corpus", run="here")
    monkeypatch.setenv("CORPUSMILL_RUN__URL", "elsewhere")
    settings = ("--set", "model.max_iter=3", "--set", "cluster.kind=synchronous")
    assert json.loads(call("resume", "here", *settings, "--json")[1])["trained_epochs"] == 1
    assert not Path("elsewhere").exists()


def test_evaluate_and_transform(trained, call):
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
    Path("few.txt").write_text("a plane over the sea\n")
    settings = ("--set", "cluster.kind=synchronous", "--set", "corpus.held_out=0")
    assert call("ingest", "few.txt", "few", *settings)[0] == 0
    assert call("transform", "run/model", "few", "weights", *settings[:2])[0] == 0
    assert pq.read_table("weights").num_rows == 1
    code, _, err = call("evaluate", "run/model", "few", "--part", "train", *settings[:2])
    assert (code, "few: nothing to score: no document has two words" in sentence(err)) == (4, True)


def test_topics_and_report(trained, call):
    code, out, _ = call("topics", "run/model", "--words", "3")
    assert code == 0
    assert [len(line.split()) for line in out.splitlines() if "%" in line] == [5, 5]
    code, out, _ = call("report", "run", "--out", "page.html")
    assert code == 0
    assert "Topic 1" in Path("page.html").read_text()


def test_reports_of_a_run_that_goes_on_of_a_model_and_of_two(trained, call):
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
    assert (code, "both arguments are the same run" in sentence(err)) == (2, True)


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_every_kind_of_model_trains_and_is_reported(project, call, kind):
    small = {
        "lda": ["n_components=2", "max_iter=2"],
        "nmf": ["n_components=2", "max_iter=2"],
        "word2vec": ["vector_size=8", "min_count=1", "epochs=1"],
        "node2vec": ["vector_size=8", "num_walks=2", "walk_length=5", "epochs=1"],
        "random-indexing": ["dimension=64"],
    }
    settings = [f"model.{setting}" for setting in (f"kind={kind}", *small[kind])]
    if kind == "node2vec":
        Path("edges.txt").write_text("from to\n" + "".join(f"{a} {b}\n" for a in range(6) for b in range(a)))
        code, out, _ = call("graph", "edges.txt", "links", "--directed", "--json")
        assert (code, json.loads(out)["n_edges"], json.loads(out)["directed"]) == (0, 15, True)
        settings += ["source=null", "corpus.url=links"]
    code, out, err = call("run", "my.yaml", *(f"--set={setting}" for setting in settings), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["kind"] == kind
    assert "Tokens per second" in Path("run/report.html").read_text()
    assert call("inspect", "run/model")[0] == 0


def test_word_vectors_have_neighbours_and_every_model_of_text_finds_documents(trained, call):
    vectors = ("run", "my.yaml", "--set", "model.kind=random-indexing", "--set", "model.dimension=64")
    code, out, _ = call(*vectors, "--set", "run.url=vectors")
    assert (code, "measured" in out) == (0, True)
    code, out, _ = call("similar", "vectors/model", "boat", "--number", "3")
    assert code == 0
    assert [len(line.split()) for line in out.splitlines()] == [2, 2, 2]
    code, _, err = call("similar", "vectors/model", "boat", "--without", "plane")
    assert (code, "'plane' is not in the vocabulary" in sentence(err)) == (4, True)
    code, _, err = call("similar", "run/model", "boat")
    assert (code, "have no word vectors" in sentence(err)) == (2, True)
    for model, part in (("vectors", "train"), ("vectors", "held_out"), ("run", "train")):
        wanted = ("similar", f"{model}/model", "boat", "--documents", "corpus", "--part", part, "--json")
        code, out, _ = call(*wanted)
        nearest = json.loads(out)["similar"]
        assert (code, len(nearest)) == (0, 10)
        # Boats are on odd lines.
        assert int(nearest[0]["document"].removeprefix("texts.jsonl:")) % 2 == 1
    code, _, err = call("similar", "run/model", "boat", "--without", "plane", "--documents", "corpus")
    assert (code, "'plane' is not in the vocabulary" in sentence(err)) == (4, True)
    code, _, err = call("similar", "vectors/model", "boat", "--documents", "none")
    assert (code, "none: no corpus here" in sentence(err)) == (4, True)
    code, _, err = call("topics", "vectors/model")
    assert (code, "have no topics" in err) == (2, True)


@pytest.mark.parametrize(("where", "what"), [("corpus", "corpus"), ("run", "run"), ("run/model", "model")])
def test_inspect_says_what_is_there(trained, call, where, what):
    code, out, _ = call("inspect", where, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["what"], found["format"]) == (what, 1)
    assert found["bytes"] == sum(p.stat().st_size for p in Path(where).rglob("*") if p.is_file())


# --- configurations ---


def test_config_show_prints_what_a_command_would_use(call, monkeypatch, tmp_path):
    monkeypatch.setenv("CORPUSMILL_MODEL__MAX_ITER", "9")
    code, out, _ = call("config", "show", "quickstart", "--set", "model.n_components=5", "--json")
    model = json.loads(out)["model"]
    assert (code, model["max_iter"], model["n_components"]) == (0, 9, 5)
    shown = tmp_path / "shown.yaml"
    shown.write_text(call("config", "show", "quickstart")[1])
    assert call("config", "show", shown, "--json")[1] == call("config", "show", "quickstart", "--json")[1]


def test_config_example_keeps_the_comments(call):
    code, out, _ = call("config", "example", "lda")
    assert code == 0
    assert out.startswith("# Latent Dirichlet allocation")


def test_config_schema_is_json(call):
    assert "LDAConfig" in json.loads(call("config", "schema")[1])["$defs"]


def test_every_configuration_that_is_listed_can_be_printed(call):
    names = call("config", "list")[1].split()
    assert "quickstart" in names
    assert all(call("config", "example", name)[0] == 0 for name in names)


# --- help ---


def command_names():
    """Return the words of every command, such as ("config", "show")."""
    names = []
    for name, command in cli.commands.items():
        if isinstance(command, click.Group):
            names += [(name, below) for below in command.commands]
        else:
            names.append((name,))
    return names


@pytest.mark.parametrize("command", command_names(), ids=" ".join)
def test_help_teaches_by_example(call, command):
    code, out, _ = call(*command, "--help")
    assert code == 0
    usage, _, rest = out.partition("Example")
    assert usage.startswith("Usage: corpusmill")
    assert f"corpusmill {' '.join(command)}" in rest


def test_the_list_of_commands_has_every_command_and_cuts_no_sentence(call):
    code, out, _ = call("--help")
    assert code == 0
    for name in cli.commands:
        assert re.search(rf"^  {name} +[A-Z].*\.$", out, re.MULTILINE), name


@pytest.mark.parametrize("command", [(), *command_names()], ids=" ".join)
def test_help_imports_nothing_heavy(command):
    program = f"""
import sys
from corpusmill.pipeline.commands.cli.main import main
main({[*command, "--help"]})
heavy = {{"numpy", "dask", "numba", "pydantic", "rich", "distributed", "pyarrow", "yaml"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- errors ---


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "my.yaml", "--set", "model.n_component=3"], 2, "did you mean n_components?"),
        (["train", "my.yaml", "--frob"], 2, "No such option"),
        (["topics"], 2, "Missing argument 'MODEL'"),
        (["topics", "none"], 4, "none: no model here"),
        (["inspect", "none"], 4, "none: there is nothing here"),
        (["versions", "none"], 4, "none: there are no versions here"),
        (["watch", "none"], 4, "none: no run here"),
        (["config", "show", "none"], 2, "none: no such file"),
    ],
)
def test_with_json_an_error_is_one_json_object_too(project, call, arguments, code, words):
    found_code, out, err = call(*arguments, "--json")
    found = json.loads(out)
    assert (found_code, found["exit_code"], found["status"]) == (code, code, "failed")
    assert words in found["error"]
    assert words in err


def test_bad_configuration_is_2(project, call):
    code, _, err = call("run", "my.yaml", "--set", "model.n_component=3")
    assert code == 2
    assert "did you mean n_components?" in sentence(err)


def test_bad_command_is_2(call):
    for arguments in (["run"], ["frobnicate"], ["run", "quickstart", "--frob"]):
        code, _, err = call(*arguments)
        assert (code, "Traceback" in err) == (2, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ingest", "none.jsonl", "x"], "none.jsonl"),
        (["graph", "none.tsv", "x"], "none.tsv"),
        (["graph", "my.yaml", "x"], "my.yaml, line 2: two names are needed"),
        (["train", "my.yaml", "--set", "corpus.url=none"], "none: no corpus here"),
        (["topics", "none"], "none: no model here"),
        (["resume", "none"], "none: no run here"),
        (["report", "none"], "none: no run here"),
        (["inspect", "none"], "none: there is nothing here"),
        (["inspect", "."], "no corpus, run, model, matrix or graph here"),
    ],
)
def test_bad_data_is_4(project, call, arguments, words):
    if arguments[0] == "ingest":
        arguments = [*arguments, "--set", "cluster.kind=synchronous"]
    code, _, err = call(*arguments)
    assert code == 4
    assert words in sentence(err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["ingest", "texts.jsonl", "run", "--config", "my.yaml"],
            "run: this folder already holds a run; choose another folder",
        ),
        (
            ["ingest", "texts.jsonl", "texts.jsonl", "--config", "my.yaml"],
            "this is a file, and a folder is needed",
        ),
        (
            ["train", "my.yaml", "--set", "run.url=corpus"],
            "corpus: this folder already holds a corpus; choose another folder",
        ),
        (["topics", "run"], "run: no model here (no model.json); there is one at run/model"),
        (["transform", "run/model", "corpus", "", "--config", "my.yaml"], "the path is empty"),
        (["resume", "damaged"], "damaged/HEAD: damaged; restore it, or start the run anew"),
    ],
)
def test_what_is_there_already_is_respected(trained, call, arguments, words):
    shutil.copytree("run", "damaged")
    Path("damaged/HEAD").write_text("{}")
    code, _, err = call(*arguments)
    assert code == 4
    assert words in sentence(err.splitlines(keepends=True)[-1])


def test_inspect_points_to_what_lies_below(trained, call):
    assert "in each of its folders corpus, run" in sentence(call("inspect", ".")[2])


def test_another_model_in_the_same_run_is_refused_and_overwritten_on_demand(trained, call):
    Path("run/mine.txt").write_text("kept")
    other = ("train", "my.yaml", "--set", "model.n_components=3")
    code, _, err = call(*other)
    assert code == 4
    assert "holds another run" in sentence(err)
    code, out, _ = call(*other, "--overwrite", "--json")
    assert (code, len(json.loads(out)["topics"])) == (0, 3)
    assert Path("run/mine.txt").read_text() == "kept"


def test_a_run_held_by_another_process_is_75(trained, call):
    with RunStore("run").locked():
        code, _, err = call("train", "my.yaml", "--set", "model.max_iter=9")
    assert code == 75
    assert "another process" in sentence(err)


def test_debug_shows_the_traceback(project, call):
    with pytest.raises(DataError, match="no corpus here"):
        call("train", "my.yaml", "--set", "corpus.url=none", "--debug")


# --- stopping, in a process of its own ---


@pytest.mark.parametrize(
    ("signum", "code", "cluster"),
    [(signal.SIGTERM, 143, "synchronous"), (signal.SIGTERM, 143, "local"), (signal.SIGINT, 130, "local")],
)
def test_a_stopped_run_can_be_resumed(trained, call, signum, code, cluster):
    long = [*COMMAND, "train", "my.yaml", "--set", "run.url=long", "--set", "model.max_iter=100000"]
    long += ["--set", f"cluster.kind={cluster}"]
    # Where the tests run in the background of a shell, they ignore Ctrl-C, and their children would too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(long, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    signal.signal(signal.SIGINT, before)
    with process:
        deadline = time.monotonic() + 120
        while RunStore("long").step < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        # A terminal sends Ctrl-C to all processes of the group, workers too.
        os.killpg(process.pid, signum) if signum == signal.SIGINT else process.send_signal(signum)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    # Not a word of any worker's.
    assert all(line.startswith(("train: ", "corpusmill: ")) for line in filter(None, err.splitlines())), err
    assert err.count("; the same command continues where this one stopped") == 1
    epochs = RunStore("long").step
    assert epochs >= 2
    once_more = ("--set", f"model.max_iter={epochs + 1}", "--set", "cluster.kind=synchronous")
    finished = json.loads(call("resume", "long", *once_more, "--json")[1])
    assert finished["trained_epochs"] == 1


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stop_that_comes_while_an_object_is_freed_is_not_lost(signum, code):
    program = f"""
import signal, time
from corpusmill.pipeline.commands.cli.main import cli, main
class Freed:
    def __del__(self):
        signal.raise_signal({int(signum)})
@cli.command()
def wait():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Freed()
    time.sleep(30)
main(["wait"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip().count("\n")) == (code, 0), done.stderr


def test_what_fails_while_a_stopped_command_closes_does_not_hide_that():
    for stop, code in ((Terminated(143), 143), (KeyboardInterrupt(), 130)):
        with pytest.raises(OSError, match="gone") as caught:
            try:
                raise stop
            finally:
                raise OSError("the cluster is gone")
        assert explain(caught.value).code == code
    assert explain(OSError("no such file")) == Failure("no such file", ExitCode.DATA)
    assert explain(TimeoutError()) == Failure("TimeoutError", ExitCode.DATA)


# --- the quick start ---


def test_the_quick_start_on_two_workers(tmp_path):
    pytest.importorskip("pythonbible", reason="needs the extra 'demo'")
    quick = [*COMMAND, "run", "quickstart", "--set", "model.max_iter=6", "--set", "run.evaluate_every=3"]
    done = subprocess.run(quick, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "1,069 documents and 120 held out" in done.stdout
    assert done.stdout.count("%") == 20
    assert "train: epoch 6/6" in done.stderr
    assert "Warning" not in done.stderr
    assert (tmp_path / "demo/report.html").stat().st_size > 20_000
