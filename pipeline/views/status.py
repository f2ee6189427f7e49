"""The current state of a run, built from its events. The live page, its JSON and the metrics show a RunStatus."""

import statistics
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TypedDict, get_args

from ...io.stores.store import JsonObject
from ..engine.events import (
    CellsTrained,
    Described,
    EpochFinished,
    EpochStarted,
    Event,
    RunFailed,
    RunFinished,
    RunStarted,
    ShardSwept,
)
from ..topics import WordList

#: Number of rows of metrics kept, which is also the largest number of points that the page draws.
MAX_ROWS = 2000
#: Number of the last epochs that the remaining time is estimated from.
_RECENT_EPOCHS = 10
#: Number of first epochs of a process that are slower, because workers compile or load kernels and fill their caches,
#: and the most seconds that this takes.
_WARM_UP_EPOCHS = 2
_WARM_UP_SECONDS = 60.0
_EVENT_TYPES: dict[str, type[Event]] = {event_type.__name__: event_type for event_type in get_args(Event)}


class WorkerTotals(TypedDict):
    """What one worker has done since training began."""

    tokens: float
    seconds: float
    shards: float


@dataclass
class RunStatus:
    """The current state of one run."""

    run: str = ""
    algorithm: str = ""
    epoch: int = 0
    epochs: int = 0
    #: Finished share of the current epoch, from 0 to 1.
    done: float = 0.0
    tokens: int = 0
    unit: str = "tokens"
    #: "waiting" before training, "running", and then the reason why training ended.
    state: str = "waiting"
    #: The state of each shard in this epoch: "waiting", "done", or "cached" if the worker had some of it in memory.
    #: The live page shows waiting ones that a worker has begun as "running".
    shards: list[str] = field(default_factory=list)
    #: The latest rows of metrics.jsonl.
    rows: list[dict[str, float]] = field(default_factory=list)
    workers: dict[str, WorkerTotals] = field(default_factory=dict)
    #: The model so far: lists of words, such as one for each of the largest topics.
    lists: list[WordList] = field(default_factory=list)
    #: Memory that a worker needs in bytes, by cause.
    plan: dict[str, int] = field(default_factory=dict)
    #: The epoch after which this process began.
    began: int = 0
    #: Number of workers that were lost since the run began. Their shards were swept by others.
    workers_lost: int = 0
    #: Time of the last event in seconds since 1970.
    updated: float = 0.0

    @property
    def eta(self) -> float | None:
        """Seconds that the remaining epochs will take at the pace of the last few; None if unknown.

        The first epochs of a process count only as long as there are no others, and if they took much longer than it
        takes to warm up. Evaluations are not counted.
        """
        if self.state != "running":
            return None
        recent = self.rows[-_RECENT_EPOCHS:]
        others = [row for row in recent if not self.began < row["epoch"] <= self.began + _WARM_UP_EPOCHS]
        if not others and sum(row["seconds"] for row in recent) < _WARM_UP_SECONDS:
            return None
        # A row may be that of a round, which trains a part of the tokens.
        paces = [row["seconds"] / max(1, row.get("tokens", self.tokens)) for row in others or recent]
        return (self.epochs - self.epochs_done) * self.tokens * statistics.median(paces)

    @property
    def epochs_done(self) -> float:
        """Number of finished epochs, plus the finished share of the current one."""
        return min(self.epochs, self.epoch + self.done)

    @property
    def share(self) -> float:
        """Share of all epochs that is finished, from 0 to 1."""
        return self.epochs_done / max(1, self.epochs)

    def worker_speeds(self) -> dict[str, float]:
        """Return the tokens per second of each worker's own time, for workers that have finished some work."""
        return {
            name: worker["tokens"] / worker["seconds"] for name, worker in self.workers.items() if worker["seconds"]
        }

    def describe_epoch(self) -> str:
        """Describe how far the training is: epoch 3 of 50 done, epoch 4 at 20%."""
        text = f"epoch {self.epoch:,} of {self.epochs:,}"
        if self.state != "running":
            return text
        return f"{text} done" + (f", epoch {self.epoch + 1:,} at {self.done:.0%}" if self.done else "")

    def as_json(self) -> dict[str, object]:
        """Return all fields and the ETA as plain values."""
        return asdict(self) | {"eta_seconds": self.eta}

    def summary(self) -> dict[str, object]:
        """Return what `as_json` has, but only the last row of metrics, and the number of shards in each state."""
        found = self.as_json()
        del found["rows"]
        found["metrics"] = self.rows[-1] if self.rows else {}
        found["shards"] = dict(Counter(self.shards))
        return found

    def update(self, event: Event, at: float | None = None) -> None:
        """Apply one event. ``at``: its time in seconds since 1970, by default now."""
        if isinstance(event, RunFailed) and event.run != self.run:
            # A callback refused the start of that run before it came here. This status is of an earlier run.
            return
        match event:
            case RunStarted():
                self._start(event)
            case EpochStarted():
                # A client that had lost its connection for a while goes on.
                self.state = "running"
                for shard in event.shards:
                    self.shards[shard] = "waiting"
            case ShardSwept():
                self._add_shard(event)
            case CellsTrained():
                self._add_work(event)
            case EpochFinished():
                self.epoch = event.epoch
                self.done = 0.0
                # The list is replaced, not changed, because the page may iterate over it in another thread.
                self.rows = [*self.rows, dict(event.metrics)][-MAX_ROWS:]
            case Described():
                self.lists = [WordList(*one) for one in event.lists]
            case RunFinished() | RunFailed():
                self.state = event.reason
        self.updated = time.time() if at is None else at

    def _start(self, event: RunStarted) -> None:
        """Replace the status of the previous run: a client may train several, one after another."""
        self.run = event.run
        self.algorithm = event.algorithm
        self.epoch = event.epoch
        self.epochs = event.epochs
        self.done = 0.0
        self.tokens = event.tokens
        self.unit = event.unit
        self.plan = dict(event.plan)
        self.began = event.epoch
        self.state = "running"
        self.shards = ["waiting"] * event.shards
        self.rows = [dict(row) for row in event.history[-MAX_ROWS:]]
        self.workers = {}
        self.workers_lost = 0
        self.lists = []

    def _add_shard(self, event: ShardSwept) -> None:
        self.shards[event.shard] = "cached" if event.cached else "done"
        self._add_work(event)
        self.workers[event.worker]["shards"] += 1

    def _add_work(self, event: ShardSwept | CellsTrained) -> None:
        worker = self.workers.setdefault(event.worker, {"tokens": 0.0, "seconds": 0.0, "shards": 0.0})
        worker["tokens"] += event.tokens
        worker["seconds"] += sum(event.seconds.values())
        self.done = min(1.0, self.done + event.tokens / max(1, self.tokens))


# --- events as messages ---


def event_message(event: Event) -> JsonObject:
    """Return an event and the time, in seconds since 1970, as plain values for the scheduler."""
    return {"type": type(event).__name__, "time": time.time(), "fields": asdict(event)}


def event_from_message(message: JsonObject) -> Event | None:
    """Return the event of a message, or None if this version has no such event."""
    event_type = _EVENT_TYPES.get(message["type"])
    if event_type is None:
        return None
    return event_type(**message["fields"])
