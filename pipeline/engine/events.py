"""The events of a run and of an ingest, and the callbacks that receive them: progress bars, the live page, metrics."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ..topics import WordList
from .algorithm import Metrics


@dataclass(frozen=True)
class RunStarted:
    """Training begins, or continues after epoch ``epoch``."""

    run: str
    algorithm: str
    epoch: int
    epochs: int
    shards: int
    tokens: int
    plan: dict[str, int]
    idle: str = ""  # warning that some workers will be idle (too few shards), with advice; empty if none
    history: tuple[Metrics, ...] = ()  # metrics of the epochs that were committed before
    devices: str = ""  # how many CUDA devices train, and how their deltas are merged; empty if none
    unit: str = "tokens"  # what ``tokens`` are: the edges of a graph
    compiles: bool = False  # whether the kernels are compiled first: the cache of this machine does not have them


@dataclass(frozen=True)
class EpochStarted:
    """All tasks of an epoch (or of one of its rounds) are about to be submitted."""

    epoch: int
    shards: tuple[int, ...]


@dataclass(frozen=True)
class ShardSwept:
    """One task has swept a shard, or one range of its blocks; ``tokens`` is its share of the shard's tokens."""

    epoch: int
    shard: int
    tokens: float
    worker: str
    seconds: dict[str, float]  # read, kernel and write
    cached: int  # chunks and states that were found in the worker's cache


@dataclass(frozen=True)
class CellsTrained:
    """A worker has trained some cells of a grid; ``tokens`` is their share of the epoch's tokens.

    In a run that trains a grid, ``tokens`` of `ShardSwept` and of this event together are the tokens of the epoch.
    """

    epoch: int
    cells: int
    tokens: float
    worker: str
    seconds: dict[str, float]  # kernel


@dataclass(frozen=True)
class EpochFinished:
    """An epoch is committed; ``metrics`` is its row of metrics.jsonl."""

    epoch: int
    metrics: Metrics


@dataclass(frozen=True)
class Described:
    """The model so far, for people to read: one list of words per topic, component or word."""

    epoch: int
    lists: list[WordList]


@dataclass(frozen=True)
class RunFinished:
    """Training is over: ``reason`` is "epochs", "converged" or "stopped"."""

    run: str
    epoch: int
    reason: str
    metrics: Metrics = field(default_factory=dict)


@dataclass(frozen=True)
class RunFailed:
    """Training ended by an error after epoch ``epoch``, or was interrupted."""

    run: str
    epoch: int
    reason: str  # "failed", or "stopped" if it was interrupted


Event = RunStarted | EpochStarted | ShardSwept | CellsTrained | EpochFinished | Described | RunFinished | RunFailed

#: A function that receives every event of a run. If it returns True for `EpochFinished`, training stops.
Callback = Callable[[Event], bool | None]


@dataclass(frozen=True)
class IngestProgress:
    """How far an ingest is.

    Parameters
    ----------
    stage : str
        The current stage: "tokens", "words", "ids" or "chunks". At the end "finished", or "unchanged" if the corpus was
        complete already.
    done, total : int
        Number of finished tasks of the stage, and of all its tasks.
    bytes_read, bytes_in_all : int
        Bytes of the source that have been read, and bytes of all its files. Both are 0 for data in memory.
    """

    stage: str
    done: int
    total: int
    bytes_read: int = 0
    bytes_in_all: int = 0


#: A function that receives the progress of an ingest.
IngestListener = Callable[[IngestProgress], None]
