"""What to train, and how: the one object of options between an estimator's ``fit`` and the tasks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ...io.stores.store import JsonObject
from .algorithm import AnyAlgorithm, MemoryEstimate, PreviousModel
from .data import TrainingData, reference
from .events import Callback
from .run import RunStore

#: Returns the algorithm with its model cut into a number of blocks.
Cut = Callable[[int], AnyAlgorithm]


class Alternative(NamedTuple):
    """A model that a user may train instead of one that is too large."""

    advice: str  # what the user has to change, for a message
    algorithm: AnyAlgorithm
    cut: Cut | None  # see `Training.cut`


@dataclass(frozen=True)
class Advice:
    """What a user can do about a problem. The engine's messages end with it. An estimator knows its own parameters.

    Parameters
    ----------
    divergence : str
        For a model with numbers that are not finite.
    idle : str
        For a cluster that has more threads than a round has tasks.
    names : mapping of str to str
        What users call the fields of the algorithm that have another name there, for a run of other parameters.
    """

    divergence: str = "look for extreme numbers in the data and in the parameters"
    idle: str = "to use more, ingest with a smaller chunk_tokens"
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class MemoryPlan:
    """The bytes that one worker is expected to hold, and its limit (0: none)."""

    process: int = 0
    threads: int = 1
    task: MemoryEstimate = field(default_factory=MemoryEstimate)
    buffers: int = 0  # data that is read before sweeps need it, and results that are not written yet
    cache: int = 0
    limit: int = 0
    kept: int = 0  # what a grid keeps from its sweeps; the rest waits on the worker's disk
    held: int = 0  # arrays that wait for later cells of a grid; the rest waits on the worker's disk
    cells: int = 0  # arrays of the cells that threads train, which are a part of their tasks
    compiling: int = 0  # the compiler, if kernels are compiled first
    pinned: int = 0  # memory for copies from and to a CUDA device, besides the results that it holds
    keeps_state: bool = True  # whether each chunk has a state that one sweep passes to the next
    blocks: int = 1  # of the model

    @property
    def total(self) -> int:
        """Expected peak of the worker's memory in bytes."""
        later = self.buffers + self.kept + self.held + self.cache
        # The compiler is first, and half of what it took stays.
        most = max(later + self.compiling // 2, self.compiling)
        task = self.task.total
        if self.blocks == 1 and self.cache >= self.task.model:
            # All threads read the block that is in the cache.
            task -= self.task.model
        return self.process + self.pinned + most + self.threads * task

    def as_numbers(self) -> dict[str, int]:
        """The plan as plain numbers, for events and reports."""
        parts = ("data", "state", "model", "delta", "scratch", "device")
        causes = {f"task_{k}": int(getattr(self.task, k)) for k in parts}
        return causes | {
            "process": self.process,
            "compiling": self.compiling,
            "threads": self.threads,
            "blocks": self.blocks,
            "buffers": self.buffers,
            "held": self.kept + self.held,
            "pinned": self.pinned,
            "cache": self.cache,
            "total": self.total,
            "limit": self.limit,
        }


@dataclass(frozen=True)
class Training:
    """What to train, on which data and for how long.

    ``config`` is written to run.json for people and reports. ``previous`` is a saved model to continue from.
    """

    algorithm: AnyAlgorithm
    data: Any  # TrainingData; a DataRef in tasks
    run: RunStore
    epochs: int
    seed: int = 0
    held_out: TrainingData | None = None
    evaluate_every: int = 10
    config: JsonObject = field(default_factory=dict)
    callbacks: Sequence[Callback] = ()
    previous: PreviousModel | None = None
    advice: Advice = field(default_factory=Advice)
    #: Returns the algorithm with its model cut into a number of blocks. None if results depend on the blocks, or if
    #: the user has chosen them. Otherwise, the engine cuts the model so that tasks fit the workers.
    cut: Cut | None = None
    #: Returns smaller models, the largest first. None if there is none.
    smaller: Callable[[], Iterator[Alternative]] | None = None

    def for_tasks(self, run: RunStore) -> "Training":
        """Return what tasks need: the data by name, and nothing that only the client uses. ``run`` has its owner."""
        plain = replace(self, held_out=None, config={}, callbacks=(), cut=None, smaller=None)
        return replace(plain, data=reference(self.data), run=run)
