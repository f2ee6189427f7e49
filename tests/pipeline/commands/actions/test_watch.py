"""Watching a run of another process: its status is read from its files, and no file is changed."""

import json
import re
import subprocess
import threading
from pathlib import Path

import pytest
from corpusmill import LDA
from corpusmill.io.errors import DataError
from corpusmill.pipeline.commands.actions.watch import describe, follow, look
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.models.registry import model_of_run
from corpusmill.pipeline.publishing.retrain import Listeners, retrain
from corpusmill.pipeline.views.status import RunStatus
from helpers.clock import replace_clock
from helpers.command_line import COMMAND
from helpers.nightly import configuration, write_first_days
from helpers.toy import write_topic_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("watch") / "corpus", 2)


def lda():
    return LDA(2, doc_topic_prior=0.1, max_iter=4, random_state=1)


def test_a_run_can_be_watched_while_it_trains_and_afterwards(corpus, tmp_path):
    run, seen = str(tmp_path / "run"), []

    def note(event):
        if isinstance(event, EpochFinished):
            seen.append(look(run))

    fitted = lda().fit(corpus, run=run, callbacks=[note], evaluate_every=1)
    assert [(s.state, s.epoch, s.epochs) for s in seen] == [("running", e, 4) for e in (1, 2, 3, 4)]
    assert seen[1].shards == ["waiting"] * 4
    # The first two epochs say nothing about the others.
    assert seen[1].eta is None
    assert seen[2].eta > 0
    status = look(run)
    assert (status.state, status.epoch, status.eta) == ("finished", 4, None)
    assert status.rows == fitted.history_
    assert [s.state for s in follow(run)] == ["finished"]


def test_shards_with_all_states_on_disk_are_done(corpus, tmp_path):
    run = str(tmp_path / "run")
    lda().set_params(max_iter=1).fit(corpus, run=run)
    RunStore(run).write_state(2, 1, {})
    assert look(run).shards == ["waiting", "done", "waiting", "waiting"]


def test_an_interrupted_run_is_stopped_and_its_model_can_be_read(corpus, tmp_path):
    run = str(tmp_path / "run")

    def interrupt(event):
        if isinstance(event, EpochFinished) and event.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lda().fit(corpus, run=run, callbacks=[interrupt])
    assert look(run).state == "stopped"
    found = model_of_run(run)
    assert (found.n_iter_, len(found.history_), len(found.topics())) == (2, 2, 2)
    two = lda().set_params(max_iter=2).fit(corpus)
    assert found.components_.tolist() == two.components_.tolist()
    with pytest.raises(DataError, match="no epoch is committed"):
        RunStore(run).store.write_json("HEAD", {"step": 0, "owner": 1, "owners": {}})
        LDA.from_run(run)


def test_a_run_with_parameters_of_another_version_is_refused(corpus, tmp_path):
    run = str(tmp_path / "run")
    lda().fit(corpus, run=run)
    meta = RunStore(run).meta
    meta["config"]["model"]["dimension"] = 3
    RunStore(run).store.write_json("run.json", meta)
    for read in (model_of_run, LDA.from_run, look):
        with pytest.raises(DataError, match="run: a model with the parameters 'dimension', which this version of"):
            read(run)


def test_watching_never_prevents_training(corpus, tmp_path):
    run, done = RunStore(str(tmp_path / "run")), threading.Event()
    with run.locked():
        pass

    def look():
        while not done.is_set():
            run.is_held  # noqa: B018

    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(20):
            with run.locked():
                assert run.is_held
    finally:
        done.set()
        for watcher in watchers:
            watcher.join()
    assert not run.is_held


@pytest.mark.slow
def test_a_line_is_printed_and_one_object_for_programs(corpus, tmp_path):
    run = str(tmp_path / "run")
    lda().fit(corpus, run=run)
    done = subprocess.run([*COMMAND, "watch", run], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"lda \S+: finished, epoch 4 of 4, .* tokens/s, held out -[\d.]+\n", done.stdout)
    status = json.loads(
        subprocess.run([*COMMAND, "watch", run, "--json"], capture_output=True, text=True, check=True).stdout
    )
    assert (status["state"], status["epoch"], status["eta_seconds"]) == ("finished", 4, None)
    # One line for programs: the last row of metrics, and how many shards are in which state.
    assert (status["metrics"]["epoch"], "rows" in status) == (4, False)
    assert set(status["shards"]) <= {"done", "waiting"}


def test_watching_something_else_than_a_run_fails():
    with pytest.raises(DataError, match="no run here"):
        look("nowhere")
    assert not Path("nowhere").exists()
    with pytest.raises(DataError, match=r"^http://127\.0\.0\.1:8787/training: a page, .* in a browser"):
        look("http://127.0.0.1:8787/training")


def test_the_folder_of_a_retrained_model_shows_the_run_of_the_night(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_first_days()
    seen, followed = [], follow("models")

    def note(event):
        if isinstance(event, EpochFinished):
            seen.append(next(followed))

    retrain(configuration("lda"), listeners=Listeners(train=[note]))
    assert [(status.state, status.epoch) for status in seen] == [("running", 1), ("running", 2), ("running", 3)]
    assert not list(followed), "the run was deleted between two looks"
    with pytest.raises(DataError, match=r"^models: no call of retrain trains now; `corpusmill versions models` lists"):
        look("models")


def test_a_line_describes_the_state_of_a_run(monkeypatch):
    rows = [{"epoch": 3, "seconds": 3.0, "tokens_per_second": 2e6, "held_out_log_likelihood": -7.5}]
    rows.append({"epoch": 4, "seconds": 3.0, "tokens_per_second": 2e6, "log_likelihood": -7.6})
    status = RunStatus("runs/a", "lda", 4, 14, tokens=9, state="running", rows=rows, updated=1000.0)
    replace_clock(monkeypatch, time=lambda: 1012.0)
    assert describe(status) == (
        "lda runs/a: running, epoch 4 of 14 done, 2 M tokens/s, held out -7.500 of epoch 3, about 30 s left, "
        "last epoch 12 s ago"
    )
    assert describe(RunStatus("runs/a", "lda", 0, 14)) == "lda runs/a: waiting, epoch 0 of 14"
