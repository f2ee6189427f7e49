"""An epoch is committed while the workers sweep the next one. It counts as finished when it is committed."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from corpusmill.io.errors import Locked
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.events import EpochFinished, EpochStarted, RunFinished, ShardSwept
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.run import RunStore
from helpers.toy import Tally, model_of, write_toy_corpus

EPOCHS = 3
N_CHUNKS = 6


@dataclass(frozen=True, kw_only=True)
class Noted(Tally):
    """Leaves a file for each sweep."""

    name: ClassVar[str] = "noted"

    folder: str = ""
    seconds: float = 0.0

    def sweep(self, model, chunk, state, deltas, address):
        if self.folder:
            Path(self.folder, f"{address.step}-{chunk.number}").touch()
        time.sleep(self.seconds)
        return super().sweep(model, chunk, state, deltas, address)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_toy_corpus(tmp_path_factory.mktemp("toy") / "corpus", n_chunks=N_CHUNKS)


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory):
    return trained(corpus, tmp_path_factory.mktemp("expected") / "run", Synchronous())


def trained(corpus, folder, executor, algorithm=None, **options):
    run = RunStore(str(folder))
    train(Training(algorithm or Tally(), corpus, run, EPOCHS, seed=7, **options), executor)
    return model_of(run, Tally())


def is_end_of(epoch, event):
    return isinstance(event, EpochFinished) and event.epoch == epoch


def await_sweeps(folder, epoch):
    """Wait until a worker sweeps in an epoch."""
    deadline = time.monotonic() + 60
    while not list(Path(folder).glob(f"{epoch}-*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_workers_sweep_while_a_callback_receives_the_finished_epoch(corpus, expected, tmp_path, cluster_of):
    run = RunStore(str(tmp_path / "run"))
    notes = tmp_path / "notes"
    notes.mkdir()
    events = []

    def look(event):
        events.append(event)
        if isinstance(event, EpochFinished):
            assert run.step == event.epoch
            if event.epoch < EPOCHS:
                await_sweeps(notes, event.epoch + 1)
            if event.epoch == 1:
                time.sleep(1)

    found = trained(corpus, run.url, OnDask(cluster_of(2)), Noted(folder=str(notes)), callbacks=[look])
    np.testing.assert_array_equal(found, expected)
    # The events of an epoch come after the end of the epoch before.
    order = [(event.epoch, type(event)) for event in events if isinstance(event, EpochStarted | EpochFinished)]
    assert order == [(epoch, kind) for epoch in range(1, EPOCHS + 1) for kind in (EpochStarted, EpochFinished)]
    assert [event.epoch for event in events if isinstance(event, ShardSwept)] == sorted([1, 2, 3] * N_CHUNKS)
    # The time of a callback is not the time of an epoch.
    assert run.metrics[1]["seconds"] < 1


@pytest.mark.parametrize("kind", ["in this process", "on workers"])
def test_a_run_that_a_callback_stops_ends_with_that_epoch(corpus, tmp_path, cluster_of, kind):
    executor = OnDask(cluster_of(2)) if kind == "on workers" else Synchronous()
    run = RunStore(str(tmp_path / "run"))
    events = []
    callbacks = [events.append, lambda event: is_end_of(1, event)]
    training = Training(Tally(), corpus, run, EPOCHS, seed=7, callbacks=callbacks)
    assert train(training, executor) == "stopped"
    assert run.step == 1
    assert [row["epoch"] for row in run.metrics] == [1]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].epoch == 1
    assert {event.epoch for event in events if isinstance(event, EpochStarted | ShardSwept | EpochFinished)} == {1}
    # What was swept of the next epoch is deleted.
    assert sorted(path.name for path in (tmp_path / "run" / "epochs").iterdir()) == ["000000-0001", "000001-0001"]


def _sweeps_at(dask_scheduler):
    return [key for key in dask_scheduler.tasks if str(key).startswith("sweep-")]


def test_when_a_stopped_training_returns_no_worker_sweeps_or_holds_deltas(corpus, tmp_path, cluster_of):
    client = cluster_of(2)
    notes = tmp_path / "notes"
    notes.mkdir()

    def stop(event):
        if not is_end_of(1, event):
            return False
        # From the second epoch on, workers take several shards at a time.
        await_sweeps(notes, 2)
        return True

    run = RunStore(str(tmp_path / "run"))
    algorithm = Noted(folder=str(notes), seconds=0.3)
    assert train(Training(algorithm, corpus, run, EPOCHS, seed=7, callbacks=[stop]), OnDask(client)) == "stopped"
    swept = sorted(path.name for path in notes.glob("2-*"))
    assert len(swept) < N_CHUNKS
    deadline = time.monotonic() + 10
    while client.run_on_scheduler(_sweeps_at) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert client.run_on_scheduler(_sweeps_at) == []
    time.sleep(2 * algorithm.seconds)
    assert sorted(path.name for path in notes.glob("2-*")) == swept
    assert sorted(path.name for path in (tmp_path / "run" / "epochs").iterdir()) == ["000000-0001", "000001-0001"]


class Interrupted(OnDask):
    """Has no connection when the second epoch should begin."""

    def sweep(self, phase, positions, tokens, on_swept):
        if phase.step == 2:
            raise TimeoutError("no worker")
        return super().sweep(phase, positions, tokens, on_swept)


def test_an_epoch_is_committed_if_the_next_one_cannot_begin(corpus, expected, tmp_path, cluster_of):
    run = RunStore(str(tmp_path / "run"))
    events = []
    with pytest.raises(TimeoutError, match="no worker"):
        trained(corpus, run.url, Interrupted(cluster_of(2)), callbacks=[events.append])
    assert run.step == 1
    assert any(is_end_of(1, event) for event in events)
    np.testing.assert_array_equal(trained(corpus, run.url, Synchronous()), expected)


def test_an_epoch_that_cannot_be_committed_ends_the_run_with_its_error(corpus, expected, tmp_path, cluster_of):
    run = tmp_path / "run"

    def spoil(event):
        if isinstance(event, ShardSwept) and event.epoch == 2:
            (run / "epochs" / "000002-0001" / "metrics.jsonl" / "folder").mkdir(parents=True, exist_ok=True)

    executor = OnDask(cluster_of(2))
    with pytest.raises(IsADirectoryError, match=r"metrics\.jsonl"):
        trained(corpus, run, executor, callbacks=[spoil])
    assert RunStore(str(run)).step == 1
    np.testing.assert_array_equal(trained(corpus, run, executor), expected)


def test_a_process_that_has_lost_its_run_learns_it_at_the_next_commit(corpus, expected, tmp_path, cluster_of):
    run = RunStore(str(tmp_path / "run"))
    taken = []

    def take(event):
        if isinstance(event, ShardSwept) and event.epoch == 2 and not taken:
            taken.append(run.take_over())

    executor = OnDask(cluster_of(2))
    with pytest.raises(Locked, match="another one has taken over"):
        trained(corpus, run.url, executor, callbacks=[take])
    assert run.step == 1
    np.testing.assert_array_equal(trained(corpus, run.url, executor), expected)


@pytest.mark.slow
def test_workers_may_die_while_an_epoch_is_committed(corpus, expected, tmp_path, cluster_of):
    client = cluster_of(2)
    notes = tmp_path / "notes"
    notes.mkdir()
    killed = []

    def kill(event):
        if is_end_of(1, event):
            await_sweeps(notes, 2)
            killed.extend(client.run(os.getpid).values())
            for process in killed:
                os.kill(process, signal.SIGKILL)

    found = trained(corpus, tmp_path / "run", OnDask(client), Noted(folder=str(notes)), callbacks=[kill])
    np.testing.assert_array_equal(found, expected)
    assert len(killed) == 2
