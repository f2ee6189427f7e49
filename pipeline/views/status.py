"""The current state of a run, built from its events. The live page, its JSON and the metrics show a RunStatus."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..engine.events import Event

#: Rows of metrics that a status remembers; a page draws no more points than that.
ROWS = 2000


@dataclass
class RunStatus:
    """The present state of one run."""

    run: str = ""
    algorithm: str = ""
    epoch: int = 0
    epochs: int = 0
    tokens: int = 0
    state: str = "waiting"  # then "running", at last why it ended
    shards: list[str] = field(default_factory=list)  # waiting, done or cached, in this epoch
    rows: list[dict[str, float]] = field(default_factory=list)
    workers: dict[str, dict[str, float]] = field(default_factory=dict)  # tokens, seconds and shards of each worker
    lines: list[str] = field(default_factory=list)
    plan: dict[str, int] = field(default_factory=dict)
    updated: float = 0.0

    def update(self, event: Mapping[str, Any]) -> None:
        """Take in one event, as ``event_message`` makes it."""
        told = getattr(self, f"_{event['type']}", None)
        if told is not None:
            told(event)
            self.updated = float(event["time"])

    @property
    def eta(self) -> float | None:
        """Seconds that the remaining epochs take at the pace of the last few."""
        last = [row["seconds"] for row in self.rows[-5:]]
        return (self.epochs - self.epoch) * sum(last) / len(last) if last and self.state == "running" else None

    def as_json(self) -> dict[str, Any]:
        """Everything, for machines."""
        return asdict(self) | {"eta_seconds": self.eta}

    def _RunStarted(self, event: Mapping[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.run, self.algorithm = event["run"], event["algorithm"]
        self.epoch, self.epochs, self.tokens = event["epoch"], event["epochs"], event["tokens"]
        self.plan, self.state = event["plan"], "running"
        self.shards = ["waiting"] * event["shards"]

    def _EpochStarted(self, event: Mapping[str, Any]) -> None:
        for shard in event["shards"]:
            self.shards[shard] = "waiting"

    def _ShardSwept(self, event: Mapping[str, Any]) -> None:
        self.shards[event["shard"]] = "cached" if event["cached"] else "done"
        worker = self.workers.setdefault(event["worker"], {"tokens": 0.0, "seconds": 0.0, "shards": 0.0})
        worker["tokens"] += event["tokens"]
        worker["seconds"] += sum(event["seconds"].values())
        worker["shards"] += 1

    def _EpochFinished(self, event: Mapping[str, Any]) -> None:
        self.epoch = event["epoch"]
        self.rows = [*self.rows[-ROWS + 1 :], dict(event["metrics"])]

    def _Described(self, event: Mapping[str, Any]) -> None:
        self.lines = list(event["lines"])

    def _RunFinished(self, event: Mapping[str, Any]) -> None:
        self.state = event["reason"]


def event_message(event: Event) -> dict[str, Any]:
    """Return an event as plain values that travel as a message."""
    return {"type": type(event).__name__, "time": time.time(), **asdict(event)}
