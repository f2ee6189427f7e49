"""The status of a run follows its events, and events are sent as plain values."""

import json

import pytest
from corpusmill.pipeline.engine.events import (
    CellsTrained,
    Described,
    EpochFinished,
    EpochStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    ShardSwept,
)
from corpusmill.pipeline.topics import WordList
from corpusmill.pipeline.views.status import RunStatus, event_from_message, event_message

EVENTS = [
    RunStarted("runs/news", "lda", 0, 10, 3, 900, {"total": 1}),
    EpochStarted(1, (0, 1, 2)),
    ShardSwept(1, 0, 300, "w0", {"read": 1.0, "kernel": 2.0, "write": 0.0}, 0),
    ShardSwept(1, 1, 300, "w1", {"read": 0.0, "kernel": 2.0, "write": 0.0}, 2),
]


def status_after(events):
    status = RunStatus()
    for event in events:
        status.update(event)
    return status


def test_a_status_follows_the_events():
    status = status_after(EVENTS)
    assert status.shards == ["done", "cached", "waiting"]
    assert status.state == "running"
    assert status.workers["w0"] == {"tokens": 300, "seconds": 3.0, "shards": 1}
    status.update(EpochFinished(1, {"epoch": 1, "seconds": 400.0, "tokens_per_second": 225.0}))
    assert status.eta == 3600.0
    status.update(RunFinished("runs/news", 10, "converged"))
    assert status.state == "converged"
    assert status.eta is None


def test_cells_of_a_grid_move_the_progress_of_a_long_epoch():
    status = status_after([*EVENTS, CellsTrained(1, 8, 150.0, "w1", {"kernel": 2.0})])
    assert status.done == pytest.approx(750 / 900)
    assert status.workers["w1"] == {"tokens": 450, "seconds": 4.0, "shards": 1}
    # A row of a round, which trained half of an epoch.
    status.update(EpochFinished(1, {"epoch": 1, "tokens": 450, "seconds": 200.0, "tokens_per_second": 225.0}))
    assert (status.done, status.eta) == (0.0, 3600.0)
    status.update(CellsTrained(2, 8, 450.0, "w1", {"kernel": 2.0}))
    assert (status.epochs_done, status.eta) == (1.5, 3400.0)


def test_a_new_run_replaces_the_status_of_the_last_one():
    status = status_after([*EVENTS, RunStarted("runs/other", "lda", 4, 10, 2, 50, {})])
    assert status.shards == ["waiting", "waiting"]
    assert status.workers == {}
    assert status.rows == []
    assert status.epoch == 4


def test_a_run_that_could_not_start_leaves_the_status_of_the_last_one():
    status = status_after([*EVENTS, RunFinished("runs/news", 10, "converged")])
    expected = status.as_json()
    status.update(RunFailed("runs/other", 0, "failed"))
    assert status.as_json() == expected
    status.update(RunFailed("runs/news", 10, "failed"))
    assert status.state == "failed"


def test_a_run_that_is_resumed_shows_its_earlier_epochs():
    history = ({"epoch": 1, "seconds": 4.0}, {"epoch": 2, "seconds": 2.0})
    status = status_after([RunStarted("runs/news", "lda", 2, 10, 3, 900, {}, history=history)])
    assert [row["epoch"] for row in status.rows] == [1, 2]
    assert status.eta == 24.0


def test_the_first_epochs_count_only_if_they_took_long():
    status = status_after([RunStarted("runs/news", "lda", 0, 10, 1, 900, {})])
    expected = [None, None, 14.0, 12.0]
    for epoch, (seconds, eta) in enumerate(zip((30.0, 5.0, 2.0, 2.0), expected, strict=True), start=1):
        status.update(EpochFinished(epoch, {"epoch": epoch, "seconds": seconds, "tokens_per_second": 1.0}))
        assert status.eta == eta
    status = status_after([RunStarted("runs/news", "lda", 0, 10, 1, 900, {})])
    status.update(EpochFinished(1, {"epoch": 1, "seconds": 400.0, "tokens_per_second": 1.0}))
    assert status.eta == 3600.0


def test_a_slow_first_epoch_after_a_pause_does_not_count():
    history = tuple({"epoch": epoch, "seconds": 2.0} for epoch in range(1, 5))
    status = status_after([RunStarted("runs/news", "lda", 4, 10, 1, 900, {}, history=history)])
    status.update(EpochFinished(5, {"epoch": 5, "seconds": 50.0, "tokens_per_second": 1.0}))
    assert status.eta == 10.0


@pytest.mark.parametrize(
    "event", [*EVENTS, Described(1, [WordList("8.4%", ["sea", "boat"])]), RunFinished("runs/news", 10, "converged")]
)
def test_an_event_travels_as_plain_values(event):
    message = json.loads(json.dumps(event_message(event)))
    status, received = status_after(EVENTS), status_after(EVENTS)
    status.update(event, at=7.0)
    received.update(event_from_message(message), at=7.0)
    assert received == status


def test_an_event_of_another_version_is_ignored():
    assert event_from_message({"type": "Invented", "time": 1.0, "fields": {}}) is None


def test_the_status_of_a_run_is_json():
    status = status_after(EVENTS)
    read_back = json.loads(json.dumps(status.as_json()))
    assert read_back["state"] == status.state == "running"
    assert read_back["epoch"] == status.epoch
    assert read_back["workers"] == status.workers


def test_the_place_in_a_run_names_the_epoch_that_is_being_trained():
    assert status_after(EVENTS[:1]).describe_epoch() == "epoch 0 of 10 done"
    assert status_after(EVENTS).describe_epoch() == "epoch 0 of 10 done, epoch 1 at 67%"
    assert status_after([*EVENTS, RunFinished("runs/news", 0, "stopped")]).describe_epoch() == "epoch 0 of 10"
