"""What happens in a run, told to whoever listens: progress bar, live page and metrics are subscribers."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RunStarted:
    """Training begins, or goes on after epoch ``epoch``."""

    run: str
    algorithm: str
    epoch: int
    epochs: int
    shards: int
    tokens: int
    plan: dict[str, int]
    idle: str = ""  # that workers will wait for want of shards, and the way out


@dataclass(frozen=True)
class EpochStarted:
    """All tasks of an epoch (or of one of its rounds) are about to be submitted."""

    epoch: int
    shards: tuple[int, ...]


@dataclass(frozen=True)
class ShardSwept:
    """One shard of the epoch is done, or a part of it: ``tokens`` is its share."""

    epoch: int
    shard: int
    tokens: int
    worker: str
    seconds: dict[str, float]  # read, kernel and write
    cached: int  # chunks and states that came from the worker's cache


@dataclass(frozen=True)
class EpochFinished:
    """An epoch is committed; ``metrics`` is its row of metrics.jsonl."""

    epoch: int
    metrics: dict[str, float]


@dataclass(frozen=True)
class Described:
    """What the model looks like so far: a line a topic, factor or word."""

    epoch: int
    lines: list[str]


@dataclass(frozen=True)
class RunFinished:
    """Training is over: ``reason`` is "epochs", "converged" or "stopped"."""

    run: str
    epoch: int
    reason: str
    metrics: dict[str, float] = field(default_factory=dict)


Event = RunStarted | EpochStarted | ShardSwept | EpochFinished | Described | RunFinished
Subscriber = Callable[[Event], None]
