"""The commands retrain, versions, rollback and diff."""

import json
import os
import re
from pathlib import Path

import pytest
from corpusmill import LDA
from corpusmill.pipeline.commands.cli.errors import ExitCode
from corpusmill.pipeline.publishing.retrain import retrain
from helpers.nightly import (
    BREAD,
    call,
    configuration,
    worse,
    write_configuration,
    write_day,
    write_first_days,
)
from helpers.shell_cluster import shell_cluster


@pytest.fixture(autouse=True)
def days(tmp_path, monkeypatch):
    """A folder with two days of documents, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    write_first_days()


@pytest.mark.slow
def test_a_night_on_a_cluster_announces_the_live_page(capsys):
    cluster = {"kind": "local", "n_workers": 1, "memory_limit": "2GiB", "dashboard_address": "127.0.0.1:0"}
    write_configuration("lda", cluster=cluster)
    assert call("retrain", "my.yaml") == 0
    assert re.search(r"train: live page http://127\.0\.0\.1:\d+/training\n", capsys.readouterr().err)


@pytest.mark.slow
def test_workers_with_another_version_are_named(tmp_path, monkeypatch, capsys):
    other = tmp_path / "other" / "corpusmill-0.0.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: corpusmill\nVersion: 0.0.9\n")
    # A worker finds this distribution before the installed one.
    paths = [str(other.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    with shell_cluster(tmp_path) as (_, file):
        write_configuration("lda", cluster={"kind": "address", "scheduler_file": str(file)})
        assert call("retrain", "my.yaml") == 0
        retrained = capsys.readouterr()
        settings = ("--set", "cluster.kind=address", "--set", f"cluster.scheduler_file={file}")
        assert call("doctor", "--no-self-test", *settings) == 1
        checked = capsys.readouterr()
    message = r"corpusmill is \S+ here and 0\.0\.9 on \S+ and 1 more: "
    assert re.search(f"cluster: {message}results may differ, so install the same", retrained.err)
    # It is a finding of its own there.
    assert len(re.findall(message, checked.out + checked.err)) == 1


@pytest.mark.parametrize("command", [("retrain", "my.yaml", "--dry-run"), ("retrain", "my.yaml"), ("run", "my.yaml")])
def test_a_model_of_graphs_refuses_documents_before_they_are_read(command, capsys):
    write_configuration("lda")
    assert call(*command, "--set=model={kind: fastrp}") == ExitCode.DATA
    assert "fastrp takes a graph, not documents: leave out the section source" in capsys.readouterr().err
    assert not list(Path().rglob("corpus.json"))


def test_retrain_versions_diff_topics_and_rollback_work_together(capsys):
    write_configuration("lda")
    assert call("retrain", "my.yaml", "--dry-run") == 0
    assert "would train the first version on 2 files" in capsys.readouterr().out
    assert call("retrain", "my.yaml") == 0
    assert "published models: version 1" in capsys.readouterr().out
    assert call("retrain", "my.yaml", "--unchanged", "99", "--json") == 99
    assert json.loads(capsys.readouterr().out)["status"] == "unchanged"
    write_day(3, [BREAD + " zebra"] * 4)
    assert call("retrain", "my.yaml", "--json") == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out)["version"] == 2
    call("versions", "models")
    assert "in use" in capsys.readouterr().out.splitlines()[1]
    call("diff", "models")
    assert "1 word: zebra" in capsys.readouterr().out
    call("topics", "models", "--json")
    assert len(json.loads(capsys.readouterr().out)["topics"]) == 2
    call("rollback", "models", "--json")
    assert json.loads(capsys.readouterr().out)["version"] == 1


def test_a_version_that_is_not_published_has_its_own_exit_code(capsys):
    Path("first.yaml").write_text(json.dumps(configuration("word2vec").model_dump(mode="json")))
    Path("my.yaml").write_text(json.dumps(worse(tolerance=0.001).model_dump(mode="json")))
    call("retrain", "first.yaml")
    write_day(3, [BREAD + " boat oven sea"] * 30)
    assert call("retrain", "my.yaml") == 3
    assert "version 1 stays in use" in capsys.readouterr().out


def test_a_job_that_fails_prints_one_json_line(capsys):
    write_configuration("lda")
    Path("days/2026-11-03.jsonl").write_bytes(b"no json\n")
    assert call("retrain", "my.yaml", "--json") == 4
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "failed"
    assert "2026-11-03.jsonl, line 1" in found["error"]


@pytest.mark.parametrize("kind, note", [("lda", "the model keeps what it learned"), ("random-indexing", "subtracted")])
def test_retrain_says_what_becomes_of_a_removed_file(kind, note, capsys):
    write_configuration(kind)
    call("retrain", "my.yaml")
    Path("days/2026-11-02.jsonl").unlink()
    capsys.readouterr()
    for arguments in (["--dry-run"], []):
        call("retrain", "my.yaml", *arguments)
        (removed,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("removed")]
        assert "2026-11-02.jsonl" in removed
        assert note in removed


def test_the_help_of_retrain_lists_every_exit_code_that_it_can_have(capsys):
    call("retrain", "--help")
    listed = {int(code) for code in re.findall(r"^  +(\d+)  +", capsys.readouterr().out, re.MULTILINE)}
    assert listed == {int(code) for code in ExitCode}


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_commands_about_versions_fail_where_there_are_none(capsys):
    assert call("versions", "nothing") == 4
    assert "there are no versions here" in capsys.readouterr().err
    LDA(2, max_iter=1).fit([["a", "b"]], run="run")
    assert call("versions", "run") == 4
    assert "there are no versions here" in capsys.readouterr().err
    retrain(configuration("lda"))
    assert call("rollback", "models") == 4
    assert "version 1 is the first one" in capsys.readouterr().err


def test_inspect_describes_versions(capsys):
    retrain(configuration("lda"))
    call("inspect", "models", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["what"], found["kind"], found["kept"], found["in_use"]) == ("versions of a model", "lda", [1], 1)
    assert found["model"] == "models/versions/000001-0001/model"
    assert found["partitions"] == 2


@pytest.mark.parametrize("code", ["-1", "256"])
def test_a_code_that_no_shell_can_see_is_refused(capsys, code):
    assert call("retrain", "my.yaml", "--unchanged", code) == 2
    assert f"{code} is not in the range 0<=x<=255" in capsys.readouterr().err
