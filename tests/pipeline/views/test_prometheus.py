"""The file of gauges that a batch job writes for Prometheus: after a success, an error and a signal."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from corpusmill.pipeline.engine.run import RunStore
from helpers.nightly import BOATS, BREAD, call, write_configuration, write_day

parser = pytest.importorskip("prometheus_client.parser")
COMMAND = [sys.executable, "-c", "from corpusmill.pipeline.commands.cli.main import main; main()"]
FILE = Path("figures/corpusmill.prom")


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """Write two days of documents and a configuration with a metrics file into the working directory."""
    monkeypatch.chdir(tmp_path)
    write_day(1, [BOATS, BREAD] * 8)
    write_day(2, [BOATS] * 4)
    write_configuration("lda", run={"metrics_file": str(FILE), "url": "run", "evaluate_every": 1})


def figures(run):
    """Read the file as Prometheus does; return the values by name. All of them have the job's labels."""
    samples = [s for f in parser.text_string_to_metric_families(FILE.read_text()) for s in f.samples]
    assert all(s.labels == {"run": run, "algorithm": "lda"} for s in samples)
    assert list(FILE.parent.iterdir()) == [FILE]
    return {s.name.removeprefix("corpusmill_"): s.value for s in samples}


def test_the_file_has_the_metrics_of_the_last_epoch():
    began = time.time()
    assert call("run", "my.yaml", "--json") == 0
    found, row = figures("run"), RunStore("run").metrics[-1]
    assert (found["epoch"], found["epochs"], found["running"], found["exit_status"]) == (3, 3, 0, 0)
    assert found["held_out_log_likelihood"] == pytest.approx(row["held_out_log_likelihood"])
    assert found["tokens_per_second"] == pytest.approx(row["tokens_per_second"])
    assert began <= found["success_timestamp_seconds"] <= time.time()


def test_the_file_has_every_metric_of_the_grafana_dashboard():
    assert call("run", "my.yaml", "--json") == 0
    board = json.loads((Path(__file__).parents[3] / "configs" / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    words = " ".join(queries).replace("{", " ").split()
    asked = {word for word in words if word.startswith("corpusmill_")}
    assert len(asked) >= 7
    assert {name.removeprefix("corpusmill_") for name in asked} <= figures("run").keys()


def test_all_nights_have_the_same_labels_and_a_failure_keeps_the_time_of_the_last_success():
    assert call("retrain", "my.yaml", "--json") == 0
    published = figures("models")
    assert (published["epoch"], published["exit_status"]) == (3, 0)
    assert call("retrain", "my.yaml", "--json") == 0
    unchanged = figures("models")
    assert unchanged["exit_status"] == 0
    assert "epoch" not in unchanged
    write_day(3, [BREAD + " zebra"] * 4)
    before = FILE.read_bytes()
    assert call("retrain", "my.yaml", "--json", "--dry-run") == 0
    assert FILE.read_bytes() == before
    Path("days/2026-11-03.jsonl").write_text("{broken\n")
    assert call("retrain", "my.yaml", "--json") == 4
    failed = figures("models")
    assert failed["exit_status"] == 4
    assert unchanged["success_timestamp_seconds"] <= failed["success_timestamp_seconds"]
    assert failed["success_timestamp_seconds"] < failed["end_timestamp_seconds"]


@pytest.mark.slow
def test_a_terminated_run_leaves_its_exit_status():
    long = [*COMMAND, "run", "my.yaml", "--set", "model.max_iter=100000"]
    with subprocess.Popen(long, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while RunStore("run").step < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    found = figures("run")
    assert found["exit_status"] == 143
    assert found["success_timestamp_seconds"] == 0
    assert 2 <= found["epoch"] < found["epochs"]


def test_a_file_that_cannot_be_written_does_not_change_how_the_job_ends(capsys):
    # Prometheus's library writes to a longer name first, which is too long for a file system.
    options = ["--set", f"run.metrics_file={'x' * 249}.prom"]
    assert call("retrain", "my.yaml", *options) == 0
    assert "x.prom cannot be written (File name too long), and has" in capsys.readouterr().err
    Path("days/2026-11-03.jsonl").write_text("{broken\n")
    assert call("retrain", "my.yaml", *options) == 4
    assert "2026-11-03.jsonl, line 1: not valid JSON" in capsys.readouterr().err


def test_a_file_name_that_prometheus_ignores_is_refused_before_any_work(capsys):
    assert call("run", "my.yaml", "--set", "run.metrics_file=figures.txt") == 2
    assert "end in .prom" in capsys.readouterr().err
    assert not Path("corpus").exists()
