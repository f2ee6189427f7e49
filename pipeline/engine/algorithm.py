"""The contract between the engine and a model. The engine trains any `Algorithm` and has no code for a particular one.

It has four parts:

1. What every algorithm says (`Algorithm`): how a model begins, and what one step does with it. In each step, ``sweep``
   updates each chunk against the model of the last step, and returns deltas. The engine adds up the deltas. ``apply``
   updates each block of the model with its summed delta. ``reduce`` updates the small arrays that all blocks share.
2. How deltas are added (`Merge`).
3. What tasks need (`Algorithm.memory` and `Needs`): memory, kernels and devices, and how an epoch is cut into tasks.
4. How a model is scored and shown (`Scores`).

The rows of the model are cut into blocks, so that neither a sweep nor an update has to hold the whole model.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from ...io.stores.store import Arrays
from ..topics import WordList
from .data import TrainingData

#: Numbers by name: one row of metrics.jsonl.
Metrics = dict[str, float]

#: Maximum number of shards of most algorithms.
MAX_SHARDS = 256
#: Parameters of estimators and fields of algorithms that say how to train, and not which model. They may change when a
#: run is resumed. On another device or with other threads, results have the same bits or differ by rounding. A larger
#: ``max_iter`` continues the run for longer.
EXECUTION_PARAMETERS = ("device", "threads", "max_iter")
#: Fields of algorithms that say how the model is cut. See `recut`.
CUT = ("bounds", "n_ranges")

DataT = TypeVar("DataT", bound=TrainingData)
ChunkT = TypeVar("ChunkT")


class Address(NamedTuple):
    """Identifies the random draws of one task: ``random.key(*address)`` is their key.

    A task that runs twice has the same address, so it draws the same numbers.
    """

    seed: int
    step: int  # epochs of several rounds have one step per round
    chunk: int


class ModelView(Protocol):
    """The committed model of one step, read-only. Blocks are loaded on demand."""

    @property
    def shared(self) -> Arrays:
        """Small arrays that belong to no block, by name, such as totals and hyperparameters."""

    def block(self, index: int, rows: np.ndarray | None = None) -> Arrays:
        """Return the arrays of a block of the model, by name. ``index`` is the number of the block, from 0.

        ``rows`` (n,) bool marks the rows of the block that the caller will read; by default, all. The other rows may be
        empty: blocks of a model that is larger than a worker's memory are packed, and unpacking takes time.
        """

    def joined(self, name: str) -> np.ndarray:
        """One array of all blocks, their rows one below the other."""


class PreviousModel(Protocol):
    """A saved model that training continues from. It is read one block at a time."""

    @property
    def digest(self) -> str:
        """Digest of the content. It is part of a run's identity; the place of the files is not."""

    @property
    def shared(self) -> Arrays:
        """The arrays that every task needs whole, such as the totals of LDA's topics."""

    @property
    def vocabulary(self) -> pa.Table:
        """Columns word, term_frequency and document_frequency; one row per row of the model."""

    def blocks(self) -> Iterator[Arrays]:
        """Read the blocks one after another."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that one sweep task holds at the same time, by cause. A state counts twice: before and after the sweep."""

    data: int = 0
    state: int = 0
    model: int = 0
    delta: int = 0
    scratch: int = 0
    device: int = 0  # on the worker's CUDA device

    @property
    def total(self) -> int:
        """Bytes of main memory: everything except ``device``."""
        return self.data + self.state + self.model + self.delta + self.scratch

    @property
    def waiting(self) -> int:
        """Bytes of main memory that a cell of a grid takes while none of its blocks is in transfer."""
        return self.total - self.scratch


# --- part 2: how deltas are added ---


class Merge:
    """How the deltas of one block are added up, wherever they meet: on a worker, or on the way to an update.

    The base class adds arrays of the same name, along a tree of fixed shape, so that floating-point sums always have
    the same bits. A subclass knows the forms in which an algorithm's deltas exist.
    """

    def add(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Return the sum of deltas of the same block, with the bits of adding one after the other.

        With ``may_overwrite``, nobody else needs the deltas, but several blocks may share an array, which must stay as
        it is. Contents may be on the worker's CUDA device.
        """
        return functools.reduce(add, deltas)

    def exact_bytes(self, step: int) -> int | None:
        """Return None if the order of adding a step's deltas matters, as for floating-point numbers.

        Otherwise they are added in any order, which moves fewer bytes. Return how many bytes of deltas wait on a worker
        to be added at once. They also wait until the largest one is no larger than all others together.
        `Algorithm.memory` has to include twice this number: the deltas that wait, and their sum.
        """
        return None

    def pack(self, arrays: Arrays) -> Arrays:
        """Return a delta or a block in a smaller form, for the network and for the store; by default unchanged.

        `engine.packing` has the forms, and undoes them wherever arrays are received or read.
        """
        return arrays


class Shard(NamedTuple):
    """What a sweep knows of the shard of its chunk. A shard is swept chunk by chunk, by one thread."""

    #: What the sweep of the shard's last chunk has returned. None for the first chunk. A sweep may overwrite them.
    deltas: list[Arrays] | None
    #: The blocks whose deltas are wanted: all, unless `Needs.ranges` is more than 1.
    blocks: range
    #: Whether this is the shard's last chunk. Its deltas go to `Merge.add`.
    is_last: bool = True
    #: Whether the step has swept another range before. Then the state is what that sweep has returned, no state is
    #: returned, and sums that cover the whole chunk must not be returned again.
    is_later_range: bool = False

    def plus(self, new: list[Arrays], merge: Merge | None = None) -> list[Arrays]:
        """Return the deltas of the shard so far, and those of one more chunk, added by ``merge``."""
        if self.deltas is None:
            return new
        merge = merge or Merge()
        return [merge.add([old, delta], True) for old, delta in zip(self.deltas, new, strict=True)]


class SweepResult(NamedTuple):
    """What a sweep of one chunk returns."""

    state: Arrays | None  # the chunk's next state; None if the model keeps none
    deltas: list[Arrays]  # one per block of `Shard.blocks`, of all chunks of the shard so far, this one included
    sums: Arrays  # small statistics, added up over all chunks


# --- part 3: what tasks need ---


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What the tasks of a run need besides the memory of one sweep, and how its epochs are cut into tasks.

    Parameters
    ----------
    kernels : collection of str, default=()
        Modules below `corpusmill.kernels` that take most of the time of a sweep, such as "lda.esca". When a run starts,
        the user is told whether they must be compiled first.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where kernels run.
    kept : int, default=0
        Bytes of deltas that a worker keeps until the end of a step. Leave out those that `Algorithm.memory` includes. 0
        is right if adding is exact, and if deltas do not grow when they are added. Otherwise, sums wait for others: see
        `merging.count_waiting`.
    shards : int, default=256
        Maximum number of shards, each some consecutive chunks. It does not depend on the number of workers,
        because the shape of the merge tree, and so the rounding of floating-point sums, depends on it.
    rounds : int, default=1
        Number of steps per epoch, each with its commit. Step r of an epoch sweeps the shards r, r + rounds,
        r + 2 * rounds and so on. Use more than one if the deltas of all shards are too large to be kept at once.
    ranges : int, default=1
        Number of ranges of blocks. A step sweeps its shards once for each range, and updates the blocks of the range
        before it goes on. Use more than one if the deltas of all blocks are too large to be kept at once. In a step,
        a chunk's state changes in the first range only; see `Shard.is_later_range`.
    """

    kernels: Collection[str] = ()
    device: str = "cpu"
    kept: int = 0
    shards: int = MAX_SHARDS
    rounds: int = 1
    ranges: int = 1


# --- part 4: how a model is scored and shown ---


class Scores:
    """How a model is scored and shown. The base class does neither, and trains for the given number of epochs.

    Attributes
    ----------
    most_chunks : int or None, default=None
        Number of training chunks, spread over all of them, that are scored in an evaluation. None means all.
    """

    most_chunks: ClassVar[int | None] = None

    def score(self, model: ModelView, chunk: Any, state: Arrays | None, address: Address, data: Any) -> Arrays:
        """Return small sums that say how well the model fits a chunk. ``state`` is None for held-out documents.

        ``data`` is the store that the chunk belongs to. If the model has more words than it, held-out
        documents were ingested before words were added. They do not contain these words, whatever their text says, so
        a probability that the model gives to such a word must not count as an error.
        """
        return {}

    def metrics(self, sums: Arrays, held_out: bool) -> Metrics:
        """Return metrics. ``sums`` are the scores, added up over all training chunks or all held-out chunks."""
        return {}

    def describe(self, model: ModelView, data: Any) -> list[WordList]:
        """Return a few lists of words that show a person what the model has learned so far."""
        return []

    def converged(self, history: list[Metrics]) -> bool:
        """Return whether training can stop, given the metrics of all steps. It is called after whole epochs only."""
        return False


# --- part 1: what every algorithm says ---


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC, Generic[DataT, ChunkT]):
    """Base class of everything that the engine can train.

    A subclass is a frozen dataclass whose fields are numbers, strings and tuples of these. It is sent with every task
    and written to run.json, where its fields identify the run. File paths must not be among them.

    A subclass defines ``name``, `memory`, `begin`, `sweep` and `apply`. All other methods have defaults.
    docs/how-to/adding-a-model.md develops an algorithm step by step. The two type variables are the store that the
    algorithm reads (``DataT``, such as `Corpus`) and the form in which its sweeps take a chunk (``ChunkT``).

    Parameters
    ----------
    bounds : tuple of int
        First row of each block of the model, followed by the number of rows.

    Attributes
    ----------
    name : str
        Name of the model in configurations and saved models.

    Notes
    -----
    In all methods, parameters with the same name have the same meaning:

    - ``data``: the store that the algorithm reads.
    - ``chunk``: an entry of ``data.chunks`` in `memory`, and what `load_chunk` returns in `sweep` and `Scores.score`.
    - ``index``: number of a chunk.
    - ``model``: the model of the last commit, read-only.
    - ``previous``: the saved model that training continues from, or None for a new model.
    - ``state``: arrays that the last sweep of a chunk returned, by name. None in the chunk's first sweep.
    - ``shard``: what the shard's earlier chunks have returned, and what is wanted of this one.
    - ``address``: seed, step and chunk, which decide the random draws.
    - ``blocks``: numbers of some blocks, in order.
    - ``block``: the arrays of a block by name, after the last commit.
    - ``delta``: the arrays of one block that all sweeps of a step have changed, added up.
    - ``first``: a function that returns the first arrays of the block, as `begin` has made them.
    - ``shared``: small arrays that belong to no block.
    - ``totals``: what `apply` has returned, added up over the blocks.
    - ``sums``: what the sweeps have returned, added up over the chunks.
    - ``history``: the rows of metrics of all earlier steps.
    - ``n_workers``: number of workers that share the sweeps of a step.
    - ``arrays``: the arrays of a block by name.

    Examples
    --------
    The following algorithm counts words. Each sweep counts one chunk, and the model is the sum.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from corpusmill.pipeline.engine.algorithm import Algorithm, MemoryEstimate, SweepResult
    >>> @dataclass(frozen=True, kw_only=True)
    ... class WordCount(Algorithm):
    ...     name = "word-count"
    ...
    ...     def memory(self, data, chunk):
    ...         return MemoryEstimate(data=16 * chunk.tokens, delta=8 * self.n_rows)
    ...
    ...     def begin(self, data, blocks, previous):
    ...         yield {"counts": np.zeros(self.n_rows, np.int64)}
    ...
    ...     def sweep(self, model, chunk, state, shard, address):
    ...         counts = {"counts": np.bincount(chunk.words, minlength=self.n_rows)}
    ...         return SweepResult(None, shard.plus([counts]), {})
    ...
    ...     def apply(self, block, delta, shared, first):
    ...         return delta, {}
    >>> WordCount(bounds=(0, 1000)).n_blocks
    1
    """

    name: ClassVar[str]

    bounds: tuple[int, ...]

    @property
    def n_blocks(self) -> int:
        """Number of blocks that the model's rows are cut into."""
        return len(self.bounds) - 1

    @property
    def n_rows(self) -> int:
        """Number of rows of the model."""
        return self.bounds[-1]

    def recut_block(self, arrays: Arrays, block: int) -> Arrays:
        """Return the arrays of a block whose rows were in blocks of another cut; override it if they name rows."""
        return arrays

    # --- before the first step ---

    @abstractmethod
    def begin(self, data: DataT, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the first arrays of some blocks: of all if the model is new."""

    def begin_shared(self, data: DataT, previous: PreviousModel | None) -> Arrays:
        """Return the first shared arrays; by default none."""
        return {}

    # --- one step ---

    def load_chunk(self, data: DataT, index: int, model: ModelView) -> ChunkT:
        """Read a chunk in the form that sweeps and scores take.

        The result is cached for the whole run. It may depend only on model arrays that training never changes.
        """
        return data.read_chunk(index)

    @abstractmethod
    def sweep(
        self, model: ModelView, chunk: ChunkT, state: Arrays | None, shard: Shard, address: Address
    ) -> SweepResult:
        """Run the kernel on one chunk. ``state`` must stay unchanged."""

    @abstractmethod
    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Return a block's next arrays, and small totals that the engine adds up over the blocks.

        ``first`` may be called again in every step: workers keep its result.
        """

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
        """Return the next shared arrays and the step's metrics; by default the same arrays, and no metrics.

        Nothing may depend on measured times, because a resumed run has to decide in the same way.
        """
        return shared, {}

    # --- the other parts ---

    @property
    def merge(self) -> Merge:
        """How deltas are added."""
        return Merge()

    @abstractmethod
    def memory(self, data: DataT, chunk: Any) -> MemoryEstimate:
        """Return the bytes that a sweep needs for ``chunk``, an entry of ``data.chunks``.

        A model keeps a state for each chunk if the estimates of its chunks have bytes for one.
        """

    def needs(self, data: DataT, n_workers: int) -> Needs:
        """Return what else the tasks need on this data."""
        return Needs()

    @property
    def scores(self) -> Scores:
        """How the model is scored and shown."""
        return Scores()


#: An algorithm for any type of data and chunks, as the engine sees it.
AnyAlgorithm = Algorithm[Any, Any]

AlgorithmT = TypeVar("AlgorithmT", bound=AnyAlgorithm)


def cut_of(algorithm: AnyAlgorithm) -> dict[str, Any]:
    """Return how the model is cut: the values of the algorithm's fields in `CUT`."""
    return {name: getattr(algorithm, name) for name in CUT if hasattr(algorithm, name)}


def recut(algorithm: AlgorithmT, cut: Mapping[str, Any]) -> AlgorithmT:
    """Return the same algorithm with its model cut in another way, by the fields of `CUT` in ``cut``."""
    found = {name: cut[name] for name in cut_of(algorithm) if name in cut}
    return replace(algorithm, **{name: tuple(v) if isinstance(v, list) else v for name, v in found.items()})


def block_range(n_blocks: int, n_ranges: int, index: int) -> range:
    """Return the blocks of one of ``n_ranges`` ranges of about equally many blocks."""
    return range(index * n_blocks // n_ranges, (index + 1) * n_blocks // n_ranges)


def add(left: Arrays, right: Arrays) -> Arrays:
    """Add two dictionaries of arrays by name. A name that only one of them has keeps its array."""
    total = left | right
    for name in left.keys() & right.keys():
        total[name] = left[name] + right[name]
    return total


Number = TypeVar("Number", int, float)


def add_numbers(sums: dict[str, Number], numbers: Mapping[str, Number]) -> None:
    """Add each number to the sum of the same name. A sum that does not exist yet begins at 0."""
    for name, number in numbers.items():
        sums[name] = sums.get(name, 0) + number


def nbytes(arrays: Arrays) -> int:
    """Return the bytes that the arrays occupy."""
    return sum(np.asarray(array).nbytes for array in arrays.values())
