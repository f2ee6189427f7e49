"""What the engine needs to know of a model: an algorithm is data and five functions; the engine knows no model by name.

An epoch is: ``sweep`` every chunk against the model of the last epoch, ``merge`` the shards' deltas by a tree of fixed
shape, ``apply`` the sum to each block of the model, ``finish`` what the blocks share. The model's rows are cut into
``blocks`` of words, so that neither a sweep nor an apply need hold all of it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ...io.stores.store import Arrays


class Address(NamedTuple):
    """Where a random draw belongs; ``random.key(*address)`` makes it a stream, so a task may run twice."""

    seed: int
    epoch: int
    chunk: int


class Model(Protocol):
    """The committed model of one epoch, as a sweep or a score sees it: read-only, loaded block by block on demand."""

    @property
    def shared(self) -> Arrays:
        """Small arrays that belong to no block: totals, hyperparameters, Gram matrices."""

    def block(self, index: int) -> Arrays:
        """The arrays of one block of rows."""


class Swept(NamedTuple):
    """What a sweep of one chunk returns."""

    state: Arrays | None  # the chunk's next state; None where the model keeps none
    deltas: list[Arrays]  # one a block: the shard's change so far, this chunk added
    sums: Arrays  # small statistics, added over chunks


@dataclass(frozen=True)
class Need:
    """Bytes that one sweep task holds at once, by cause."""

    data: int = 0
    state: int = 0
    model: int = 0
    delta: int = 0
    scratch: int = 0
    device: int = 0  # on the worker's CUDA device

    @property
    def total(self) -> int:
        """All of them but the device's."""
        return self.data + self.state + self.model + self.delta + self.scratch


class Algorithm(ABC):
    """A frozen dataclass of numbers and short strings: it travels with every task and stands in run.json."""

    #: The estimator's name in configs.
    name: ClassVar[str]
    #: Blocks that the model's rows are cut into.
    blocks: int = 1
    #: Tasks that the sweep of a shard is cut into, each of a range of blocks, where the deltas of all blocks are too
    #: many to be held at once. Only for models without a state: a chunk's next state is one task's.
    parts: int = 1
    #: Shards that the chunks are grouped into, at most, each swept by one task; None: the engine's own number.
    shards: int | None = None
    #: Commits an epoch: round r sweeps shards r, r + rounds, r + 2 * rounds and so on.
    rounds: int = 1
    #: Where kernels run: "cpu", "cuda", or "auto". Not part of what is trained: a run may go on elsewhere.
    device: str = "cpu"
    #: What lets more workers train at a time, where a round has fewer tasks than they have threads.
    more_at_once: ClassVar[str] = "ingest with a smaller chunk_tokens"
    #: Whether chunks have a state that a sweep hands to the next one.
    keeps_state: ClassVar[bool] = True

    def part(self, index: int) -> "Algorithm":
        """Return the algorithm whose sweep gives the deltas of part ``index`` alone, and sums for part 0 alone."""
        return self

    def blocks_of(self, part: int) -> range:
        """Blocks that a part sweeps."""
        return range(part * self.blocks // self.parts, (part + 1) * self.blocks // self.parts)

    @abstractmethod
    def need(self, data: Any, chunk: Any) -> Need:
        """Return the bytes that sweeping ``chunk`` (its info) of ``data`` takes."""

    @abstractmethod
    def begin(self, block: int) -> Arrays:
        """Return a block of the model before the first sweep."""

    @abstractmethod
    def begin_shared(self) -> Arrays:
        """Return the shared arrays before the first sweep."""

    def read(self, data: Any, index: int) -> Any:
        """Read a chunk, or what of it is needed; by default all of it."""
        return data.read_chunk(index)

    def prepare(self, chunk: Any, model: Model) -> Any:
        """Return what sweeps and scores take for ``chunk``, made once while memory holds it; by default the chunk.

        It may depend on what training leaves as ``begin`` and ``begin_shared`` made it, and on no more of the model.
        """
        return chunk

    @abstractmethod
    def sweep(
        self, model: Model, chunk: Any, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> Swept:
        """Run the kernel on one prepared chunk; ``state``, ``deltas`` are None the first time, ``deltas`` reusable."""

    @abstractmethod
    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Add two shards' deltas of one block; may reuse neither."""

    @abstractmethod
    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """Return a block's next arrays, and its small totals, which are added over blocks."""

    @abstractmethod
    def finish(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, dict[str, float]]:
        """Return the next shared arrays, from the blocks' totals and the chunks' sums, and the epoch's metrics."""

    def steer(self, shared: Arrays, history: list[dict[str, float]]) -> Arrays:
        """Return the next shared arrays in view of the metrics of all epochs before this one; by default as they are.

        What it looks at must not depend on the clock: the run goes on from stored metrics and must do the same.
        """
        return shared

    def score(self, model: Model, chunk: Any, state: Arrays | None, address: Address) -> Arrays:
        """Return small sums that say how well the model fits a training chunk with its state, or a held-out chunk."""
        return {}

    def rate(self, sums: Arrays, held_out: bool) -> dict[str, float]:
        """Turn the summed scores of the training chunks or of the held-out ones into metrics."""
        return {}

    def describe(self, model: Model, data: Any) -> list[str]:
        """Return a few lines that show a person what has been learned so far."""
        return []

    def converged(self, history: list[dict[str, float]]) -> bool:
        """Say whether to stop early, from all epochs' metrics so far."""
        return False


def add(left: Arrays, right: Arrays) -> Arrays:
    """Add two dictionaries of arrays by name."""
    return {k: left[k] + right[k] if k in left and k in right else left.get(k, right.get(k)) for k in {**left, **right}}


def nbytes(arrays: Arrays) -> int:
    """Bytes held by the arrays."""
    return sum(np.asarray(a).nbytes for a in arrays.values())
