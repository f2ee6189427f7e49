"""What to train, and how: the one object of options between an estimator's ``fit`` and the tasks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ...io.stores.store import JsonObject
from .algorithm import AnyAlgorithm, PreviousModel
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
