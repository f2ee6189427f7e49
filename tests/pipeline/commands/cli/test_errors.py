"""Errors: one sentence, an exit code, and one JSON object with --json."""

import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from corpusmill import LDA
from corpusmill.io.errors import DataError, StoreFailed
from corpusmill.pipeline.commands.cli.errors import ExitCode, Failure, explain
from corpusmill.pipeline.commands.cli.signals import Terminated
from corpusmill.pipeline.engine.cluster.open import ClusterUnreachable
from corpusmill.pipeline.engine.run import RunStore
from helpers.command_line import error_line
from helpers.documents import BOATS_AND_BREAD


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
def test_with_json_an_error_is_one_json_object(project, call, arguments, code, words):
    found_code, out, err = call(*arguments, "--json")
    found = json.loads(out)
    assert (found_code, found["exit_code"], found["status"]) == (code, code, "failed")
    assert words in found["error"]
    assert words in err


def test_a_bad_configuration_has_exit_code_2(project, call):
    code, _, err = call("run", "my.yaml", "--set", "model.n_component=3")
    assert code == 2
    assert "did you mean n_components?" in error_line(err)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "raise memory_limit, or ingest with chunk_tokens=500.",
            "raise cluster.memory_limit, or ingest with corpus.chunk_tokens=500.",
        ),
        ("raise corpus.held_out or lower min_df.", "raise corpus.held_out or lower source.min_df."),
        ("max_iter/min_df.txt, 'n_blocks' and --max-iter", "max_iter/min_df.txt, 'n_blocks' and --max-iter"),
        # Users choose the names of columns and folders.
        (
            "the columns ('held_out', \"max_df\") are not n_blocks",
            "the columns ('held_out', \"max_df\") are not model.n_blocks",
        ),
        ("the columns are 'my max_df', 'x'", "the columns are 'my max_df', 'x'"),
        ("held_out: no corpus here", "held_out: no corpus here"),
        ("max_df, line 3: lower min_df", "max_df, line 3: lower source.min_df"),
        ("data/held_out and max_df\\\\x, not n_blocks", "data/held_out and max_df\\\\x, not model.n_blocks"),
        ("read it with delimiter=';' and quote=none", "read it with source.delimiter=';' and source.quote=none"),
        ("key applies to csv, but the text is not", "source.key applies to csv, but the text is not"),
        ("(in Python, ingest_graph(..., quote='none'))", "(in Python, ingest_graph(..., quote='none'))"),
        # Sources and models have stop words.
        ("shorten stop_words: held_out_loss is 3", "shorten stop_words: held_out_loss is 3"),
    ],
)
def test_an_error_names_keys_of_the_configuration_instead_of_parameters_of_python(message, shown):
    assert explain(DataError(message)).message == shown


def test_names_of_columns_are_shown_as_they_are(project, call):
    Path("table.csv").write_text("held_out,max_df\n1,2\n")
    code, _, err = call("ingest", "table.csv", "x")
    assert (code, "'held_out', 'max_df'" in err) == (4, True)


def test_a_bad_command_line_has_exit_code_2(call):
    for arguments in (["run"], ["frobnicate"], ["run", "quickstart", "--frob"]):
        code, _, err = call(*arguments)
        assert (code, "Traceback" in err) == (2, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ingest", "none.jsonl", "x"], "none.jsonl"),
        (["graph", "none.tsv", "x"], "none.tsv"),
        (["graph", "my.yaml", "x"], "my.yaml: its name ends in .yaml; convert it"),
        (["train", "my.yaml", "--set", "corpus.url=none"], "none: no corpus here"),
        (["topics", "none"], "none: no model here"),
        (["resume", "none"], "none: no run here"),
        (["report", "none"], "none: no run here"),
        (["inspect", "none"], "none: there is nothing here"),
        (["inspect", "."], "no corpus, matrix, graph, run or model here"),
    ],
)
def test_bad_data_has_exit_code_4(project, call, arguments, words):
    if arguments[0] == "ingest":
        arguments = [*arguments, "--set", "cluster.kind=synchronous"]
    code, _, err = call(*arguments)
    assert code == 4
    assert words in error_line(err)


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
        (
            ["topics", "begun"],
            "begun: no model here (no model.json); this run has not saved its model yet: 'corpusmill ",
        ),
        (["transform", "run/model", "corpus", "", "--config", "my.yaml"], "the path is empty"),
        (["resume", "damaged"], "damaged/HEAD: damaged; restore it, or delete the run and train again"),
    ],
)
def test_a_folder_that_holds_something_else_is_not_overwritten(trained, call, arguments, words):
    shutil.copytree("run", "damaged")
    Path("damaged/HEAD").write_text("{}")
    Path("begun").mkdir()
    shutil.copy("run/run.json", "begun")
    code, _, err = call(*arguments)
    assert code == 4
    assert words in error_line(err.splitlines(keepends=True)[-1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--set", "corpus.url=none"], "none: no corpus here"),
        (["train", "--set", "model.kind=node2vec", "--set", "corpus.url=none"], "none: no file matches"),
        (["train", "--set", "run.url=corpus"], "corpus: this folder already holds a corpus"),
        (["train", "--set", "run.model=corpus"], "corpus: this folder already holds a corpus"),
        (["run", "--set", "source.path=none"], "none: no file matches"),
        (["run", "--set", "source.stop_words=null"], "corpus: already holds a corpus"),
        (["evaluate", "none", "corpus", "--config"], "none: no model here"),
        (["transform", "run", "none", "weights", "--config"], "none: no corpus here"),
        (["train", "--set", "corpus.url=texts.jsonl"], "this is a file, and a corpus is needed here"),
    ],
)
def test_data_and_folders_are_checked_before_a_cluster_starts(trained, call, arguments, words):
    # Nobody listens there, so a command that connects first has another error.
    elsewhere = ["--set", "cluster={kind: address, address: 'tcp://127.0.0.1:9'}"]
    code, _, err = call(*arguments, "my.yaml", *elsewhere)
    assert (code, words in error_line(err)) == (4, True), err


def test_inspect_names_the_folders_below_that_hold_something(trained, call):
    assert "in each of its folders corpus, run" in error_line(call("inspect", ".")[2])


def test_another_model_replaces_a_run_only_with_overwrite(trained, call):
    Path("run/mine.txt").write_text("kept")
    other = ("train", "my.yaml", "--set", "model.n_components=3")
    code, _, err = call(*other)
    assert code == 4
    assert "holds another run (lda on corpus), which differs in model.n_components (2 there, 3 here)" in error_line(err)
    code, out, _ = call(*other, "--overwrite", "--json")
    assert (code, len(json.loads(out)["topics"])) == (0, 3)
    assert Path("run/mine.txt").read_text() == "kept"


def test_a_run_that_another_process_trains_has_exit_code_75(trained, call):
    with RunStore("run").locked():
        code, _, err = call("train", "my.yaml", "--set", "model.max_iter=9")
    assert code == 75
    assert "another process" in error_line(err)


def test_resume_says_how_to_name_a_corpus_that_was_moved(trained, call):
    shutil.move("corpus", "elsewhere")
    code, _, err = call("resume", "run", "--set", "model.max_iter=9")
    assert code == 4
    assert "if the data was moved, name its new place with --set corpus.url=" in error_line(err)
    assert call("resume", "run", "--set", "model.max_iter=9", "--set", "corpus.url=elsewhere")[0] == 0


def test_resume_of_a_run_of_documents_in_memory_names_the_way_out(tmp_path, call):
    LDA(2, max_iter=1).fit(BOATS_AND_BREAD, run=str(tmp_path / "run"))
    code, _, err = call("resume", str(tmp_path / "run"))
    assert code == 4
    assert "was trained on data that is not stored (documents in memory): in Python, fit with the same" in error_line(
        err
    )


def test_a_folder_is_no_configuration(project, call):
    code, _, err = call("train", ".")
    assert code == 2
    assert ".: this is a folder; name a YAML file" in error_line(err)


def test_debug_shows_the_traceback(project, call):
    with pytest.raises(DataError, match="no corpus here"):
        call("train", "my.yaml", "--set", "corpus.url=none", "--debug")


def test_an_error_while_a_stopped_command_cleans_up_counts_as_the_stop():
    for stop, code in ((Terminated(143), 143), (KeyboardInterrupt(), 130)):
        with pytest.raises(OSError, match="gone") as caught:
            try:
                raise stop
            finally:
                raise OSError("the cluster is gone")
        assert explain(caught.value).code == code
    assert explain(OSError("no such file")) == Failure("no such file", ExitCode.DATA)


def test_an_error_that_may_pass_is_no_bad_data_so_that_a_schedule_may_repeat_the_call():
    full = [OSError(number, "no space") for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]
    others = (TimeoutError("late"), ConnectionError("late"), StoreFailed("late"), ClusterUnreachable("late"))
    for error in (*full, *others):
        assert explain(error).code == ExitCode.FAILED


@pytest.mark.parametrize(("stop", "word"), [(Terminated(143), "terminated"), (KeyboardInterrupt(), "interrupted")])
def test_only_commands_that_continue_are_said_to_continue(stop, word):
    assert explain(stop, "explore").message == explain(stop, "evaluate").message == word
    for command in ("run", "ingest", "train", "resume", "retrain", "cistopic", "cnmf"):
        assert explain(stop, command).message == f"{word}; the same command continues where this one stopped"


def test_a_misspelt_key_is_named_before_the_libraries_of_training_are_loaded():
    program = """
import sys
from corpusmill.pipeline.commands.cli.main import main
for line in (
    "run quickstart", "train quickstart", "ingest articles.jsonl corpus", "retrain quickstart", "evaluate model corpus",
    "transform model corpus out",
):
    command = line.split()
    try:
        main([*command, "--set", "run.ur=x"])
    except SystemExit as stop:
        heavy = {"dask", "distributed", "numba", "scipy", "pyarrow"} & set(sys.modules)
        assert (stop.code, heavy) == (2, set()), (command, heavy)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no such key; did you mean url?") == 6
