"""Killed and concurrent calls, and power cuts."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from corpusmill import Word2Vec
from corpusmill.io.errors import Locked
from corpusmill.io.stores import locks
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.models.registry import load_model
from corpusmill.pipeline.publishing.build import Listeners
from corpusmill.pipeline.publishing.retrain import retrain
from corpusmill.pipeline.publishing.versions import Versions
from helpers.nightly import (
    BREAD,
    MODELS,
    Killed,
    break_off,
    call,
    configuration,
    write_configuration,
    write_day,
)

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[3]


def test_a_version_is_on_the_disk_before_head_names_it(monkeypatch):
    flushed, fsync, named = [], os.fsync, lambda file: str(Path(f"/proc/self/fd/{file}").readlink())
    monkeypatch.setattr(os, "fsync", lambda file: (flushed.append(named(file)), fsync(file)))
    facts = retrain(configuration("lda"))
    head = max(i for i, name in enumerate(flushed) if name.endswith("-HEAD"))
    needed = [path for folder in ("versions", "batches") for path in Path("models", folder).rglob("*")]
    assert facts["status"] == "published"
    assert {str(path.resolve()) for path in needed} <= set(flushed[:head])


def test_after_a_kill_at_any_point_the_next_call_gives_the_same_bytes(tmp_path):
    command = [sys.executable, "-m", "helpers.nightly", "5", tmp_path / "killed"]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert len(outcomes) >= 20
    assert [outcome for outcome in outcomes if outcome["killed"] != signal.SIGKILL] == []
    assert [outcome for outcome in outcomes if outcome["ended"] != 0 or not outcome["same"]] == []


def test_an_interrupted_partial_fit_continues_after_its_last_epoch(tmp_path):
    from corpusmill.pipeline.ingest.ingest import ingest

    days = [ingest(f"days/2026-11-0{day}.jsonl", f"day{day}") for day in (1, 2)]
    Word2Vec(**MODELS["word2vec"]).fit(days[0]).save("model")
    with pytest.raises(Killed):
        Word2Vec.load("model").partial_fit(days[1], run="run", callbacks=[break_off])
    epochs = []
    resumed = Word2Vec.load("model").partial_fit(days[1], run="run", callbacks=[epochs.append])
    assert [event.epoch for event in epochs if isinstance(event, EpochFinished)] == [2]
    at_once = Word2Vec.load("model").partial_fit(days[1])
    np.testing.assert_array_equal(resumed.wv.vectors, at_once.wv.vectors)


def test_a_second_process_is_refused_with_exit_code_75(capsys):
    write_configuration("lda")
    with Versions("models").locked():
        with pytest.raises(Locked, match="another process is retraining"):
            retrain(configuration("lda"))
        assert call("retrain", "my.yaml", "--json") == 75
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert json.loads(line)["status"] == "locked"


def test_a_process_that_lost_its_lock_reports_that(bucket, tmp_path, monkeypatch):
    config = configuration("word2vec", url=f"{bucket}/{tmp_path.name}")

    def be_stopped_for_long(event):
        # As if the process was stopped and another one took the lock and deleted the unfinished run.
        if isinstance(event, EpochFinished):
            later = time.monotonic() + 1000
            monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=lambda: later, time=time.time))
            Store(config.retrain.url).delete("runs")

    with pytest.raises(Locked, match="lost its lock"):
        retrain(config, None, None, Listeners(train=[be_stopped_for_long]))


def test_versions_on_an_object_store_equal_local_ones(bucket, tmp_path):
    config = configuration("word2vec", url=f"{bucket}/{tmp_path.name}")
    assert retrain(config)["version"] == 1
    write_day(3, [BREAD + " zebra"] * 4)
    with pytest.raises(Killed):
        retrain(config, None, None, Listeners(train=[break_off]))
    assert Versions(config.retrain.url).head.version == 1
    assert retrain(config)["version"] == 2
    local = configuration("word2vec")
    Path("days/2026-11-03.jsonl").rename("later")
    retrain(local)
    Path("later").rename("days/2026-11-03.jsonl")
    retrain(local)
    there, here = (load_model(c.retrain.url).wv for c in (config, local))
    np.testing.assert_array_equal(there.vectors, here.vectors)
    assert Versions(config.retrain.url).rollback()["version"] == 1
