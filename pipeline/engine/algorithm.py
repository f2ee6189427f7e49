"""The contract between the engine and a model. The engine trains any `Algorithm` and has no code for a particular one.

In each step, the engine calls four methods. ``sweep`` updates each chunk against the model of the previous step, and
returns deltas. ``merge`` adds up the deltas along a tree of fixed shape. ``apply`` updates each block of the model with
its summed delta. ``reduce_shared`` updates the small arrays that all blocks share.

The rows of the model are cut into blocks, so that neither a sweep nor an update has to hold the whole model.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from ...io.stores.store import Arrays
from ..topics import WordGroup
from .data import TrainingData

#: Numbers by name: one row of metrics.jsonl.
Metrics = dict[str, float]

#: Maximum number of shards of most algorithms.
MAX_SHARDS = 256
#: Parameters of estimators and fields of algorithms that say how to train, and not which model. They may change when a
#: run is resumed. On another device or with other threads, results have the same bits or differ by rounding. A larger
#: ``max_iter`` continues the run for longer.
EXECUTION_PARAMETERS = ("device", "threads", "max_iter")

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
        """Small arrays that belong to no block: totals, hyperparameters, Gram matrices."""

    def block(self, index: int, rows: np.ndarray | None = None) -> Arrays:
        """The arrays of one block of rows.

        A caller that reads some rows only passes ``rows`` (n,) bool: the others may be empty. If the model is larger
        than the memory of a worker, this saves unpacking them.
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


class SweepResult(NamedTuple):
    """What a sweep of one chunk returns."""

    state: Arrays | None  # the chunk's next state; None if the model keeps none
    # Those of all chunks of the shard so far, this one included. After `finish_shard`, there is one for each block.
    deltas: list[Arrays]
    sums: Arrays  # small statistics, added up over all chunks


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that one sweep task holds at the same time, by cause."""

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
    n_ranges : int, default=1
        Number of tasks that sweep one shard, each for a range of blocks. Use more than one if the deltas of all
        blocks are too large to be held at once. Only for models without a state.
    max_shards : int or None, default=None
        Maximum number of shards, which are groups of consecutive chunks. None takes ``default_max_shards``.
    rounds : int, default=1
        Number of commits per epoch, at most the number of shards. Round r sweeps the shards r, r + rounds,
        r + 2 * rounds and so on.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where kernels run. It is one of `EXECUTION_PARAMETERS`, so a run may be continued on another device.

    Attributes
    ----------
    name : str
        Name of the model in configurations and saved models.
    keeps_state : bool
        Whether each chunk has a state that one sweep passes to the next.
    default_max_shards : int
        Maximum number of shards if ``max_shards`` is None. It is a constant and does not depend on the number of
        workers, because the shape of the merge tree, and so the rounding of floating-point sums, depends on it.
    held_share : float
        Share of a worker's memory for results that wait on the worker for other tasks.
    parallelism_hint : str
        Advice at the end of the warning that a round has fewer tasks than the cluster has threads.
    merges_on_device : bool
        Whether `merge_many`, `apply` and `pack` take deltas whose contents are on the worker's CUDA device. Otherwise
        the engine brings the deltas of each shard back to the host.
    device_chunk_tokens : int
        Tokens of a chunk for whose sweep a CUDA device needs about as long as the host for its launches. Smaller chunks
        leave the device idle most of the time. 0 if the size makes no difference.
    kernel_module : str
        Module below `corpusmill.kernels` whose kernels take most of the time of a sweep, such as "lda.esca". When a run
        starts, the user is told whether it must be compiled first. If empty, the user is not told. Override
        `kernel_modules` if the module depends on the data.
    sweep_share : float
        Share of the sweeps in the time of a step, for the display of progress. Cells take the rest; see `n_cells`.
    divergence_hint : str
        Advice that completes the error that the model has numbers that are not finite.
    size_hint : str
        Advice that completes the error that a task needs more memory than a worker has.
    setting_names : mapping of str to str
        What users call the fields that have another name here, for the error that a run has other parameters.

    Notes
    -----
    In all methods, parameters with the same name have the same meaning:

    - ``data``: the store that the algorithm reads.
    - ``chunk``: an entry of ``data.chunks`` in `memory`, and what `load_chunk` returns in `sweep` and `score`.
    - ``index``: number of a chunk.
    - ``model``: the model of the last commit, read-only.
    - ``previous``: the saved model that training continues from, or None for a new model.
    - ``state``: arrays that the last sweep of a chunk returned, by name. None in a chunk's first epoch.
    - ``block``: number of a block in `begin` and `constant_delta`, and its arrays by name in `apply`.
    - ``blocks``: numbers of several blocks.
    - ``range_index``: number of a range of blocks, below ``n_ranges``.
    - ``delta``: the arrays of one block that all sweeps of a step have changed, merged.
    - ``deltas``: one delta per block in `sweep` and `finish_shard`, and several deltas of one block in `merge_many`.
    - ``left``: the earlier one of two deltas of a block.
    - ``right``: the later one of two deltas of a block.
    - ``may_overwrite``: whether nobody else needs the deltas.
    - ``arrays``: a delta or a block.
    - ``shared``: small arrays that belong to no block.
    - ``totals``: what `apply` has returned, added up over the blocks.
    - ``sums``: what the sweeps or scores have returned, added up over the chunks.
    - ``address``: seed, step and chunk, which decide the random draws.
    - ``n_workers``: number of workers that share the sweeps of a step.
    - ``n_words``: number of words of the data that a chunk belongs to, at most that of the model.
    - ``step``: number of the step.
    - ``history``: the rows of metrics of all steps so far.
    - ``held_out``: whether the documents are held out.
    - ``n_shards``: number of shards of a step.
    - ``threads``: number of tasks that Dask runs at a time on a worker.

    Examples
    --------
    The following algorithm counts words. Each sweep counts one chunk, and the model is the sum.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from corpusmill.pipeline.engine.algorithm import Algorithm, MemoryEstimate, SweepResult, add
    >>> @dataclass(frozen=True, kw_only=True)
    ... class WordCount(Algorithm):
    ...     name = "word-count"
    ...     keeps_state = False
    ...
    ...     def memory(self, data, chunk):
    ...         return MemoryEstimate(data=16 * chunk.tokens, delta=8 * self.n_rows)
    ...
    ...     def begin(self, data, block, previous):
    ...         return {"counts": np.zeros(self.n_rows, np.int64)}
    ...
    ...     def sweep(self, model, chunk, state, deltas, address):
    ...         counts = {"counts": np.bincount(chunk.words, minlength=self.n_rows)}
    ...         return SweepResult(None, [counts if deltas is None else add(deltas[0], counts)], {})
    ...
    ...     def apply(self, block, delta, shared):
    ...         return delta, {}
    >>> WordCount(bounds=(0, 1000)).n_blocks
    1
    """

    name: ClassVar[str]
    keeps_state: ClassVar[bool] = True
    default_max_shards: ClassVar[int] = MAX_SHARDS
    held_share: ClassVar[float] = 0.0
    parallelism_hint: ClassVar[str] = "to use more, ingest with a smaller chunk_tokens"
    merges_on_device: ClassVar[bool] = False
    device_chunk_tokens: ClassVar[int] = 0
    kernel_module: ClassVar[str] = ""
    sweep_share: ClassVar[float] = 1
    divergence_hint: ClassVar[str] = "look for extreme numbers in the data and in the parameters"
    size_hint: ClassVar[str] = "cut the model with n_blocks"
    setting_names: ClassVar[Mapping[str, str]] = MappingProxyType({})

    bounds: tuple[int, ...]
    n_ranges: int = 1
    max_shards: int | None = None
    rounds: int = 1
    device: str = "cpu"

    # --- what each algorithm defines ---

    @abstractmethod
    def memory(self, data: DataT, chunk: Any) -> MemoryEstimate:
        """Return the bytes that a sweep needs for ``chunk``, an entry of ``data.chunks``."""

    @abstractmethod
    def begin(self, data: DataT, block: int, previous: PreviousModel | None) -> Arrays:
        """Return a block of the model before the first sweep.

        ``previous`` is the model that training continues from, or None for a new model.
        """

    @abstractmethod
    def sweep(
        self, model: ModelView, chunk: ChunkT, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Run the kernel on one chunk.

        ``state`` is None in the chunk's first epoch. ``deltas`` is what the sweep of the shard's previous chunk
        returned, or None for its first chunk. The sweep may overwrite ``deltas`` but not ``state``.
        """

    @abstractmethod
    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """Return a block's next arrays, and small totals that the engine adds up over the blocks."""

    # --- shared arrays, deltas and chunks ---

    def begin_shared(self, data: DataT, previous: PreviousModel | None) -> Arrays:
        """Return the shared arrays before the first sweep; by default none."""
        return {}

    def reduce_shared(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, Metrics]:
        """Return the next shared arrays and the step's metrics, from the blocks' totals and the chunks' sums.

        By default, the shared arrays stay as they are, and there are no metrics.
        """
        return shared, {}

    def update_schedule(self, shared: Arrays, history: list[Metrics]) -> Arrays:
        """Adapt the shared arrays to the metrics of all earlier steps; by default leave them as they are.

        The decision must not depend on measured times, because a resumed run has to make the same one.
        """
        return shared

    def merge(self, left: Arrays, right: Arrays) -> Arrays:
        """Add two deltas of the same block; by default with `add`. Both must stay unchanged."""
        return add(left, right)

    def finish_shard(self, deltas: list[Arrays]) -> list[Arrays]:
        """Return the deltas of a shard in the form that `merge_many` takes; by default as the last sweep returned them.

        Override it if sweeps add to deltas in another form. Afterwards, the engine brings arrays back to the host that
        kernels have left on a CUDA device, unless `merges_on_device`.
        """
        return deltas

    def constant_delta(self, data: DataT, block: int, previous: PreviousModel | None) -> Arrays | None:
        """Return a delta that belongs to no chunk and is merged into the sum of every commit; by default None.

        LDA returns the counts of the documents that the previous model was trained on.
        """
        return None

    def load_chunk(self, data: DataT, index: int, model: ModelView) -> ChunkT:
        """Read a chunk in the form that sweeps and scores take.

        The result is cached for the whole run. It may depend only on model arrays that training never changes.
        """
        return data.read_chunk(index)

    # --- evaluation ---

    def score(self, model: ModelView, chunk: ChunkT, state: Arrays | None, address: Address, n_words: int) -> Arrays:
        """Return small sums that say how well the model fits a chunk. ``state`` is None for held-out documents.

        ``n_words`` is the number of words of the data that the chunk belongs to. If the model has more, held-out
        documents were ingested before words were added. They do not contain these words, whatever their text says, so
        a probability that the model gives to such a word must not count as an error.
        """
        return {}

    def metrics_from_sums(self, sums: Arrays, held_out: bool) -> Metrics:
        """Return metrics. ``sums`` are the scores, added up over all training chunks or all held-out chunks."""
        return {}

    def describe(self, model: ModelView, data: DataT) -> list[WordGroup]:
        """Return a few groups of words that show a person what the model has learned so far."""
        return []

    def converged(self, history: list[Metrics]) -> bool:
        """Return whether training has converged and can stop. It is called after whole epochs only."""
        return False

    # --- blocks and ranges of blocks ---

    @property
    def n_blocks(self) -> int:
        """Number of blocks that the model's rows are cut into."""
        return len(self.bounds) - 1

    @property
    def n_rows(self) -> int:
        """Number of rows of the model."""
        return self.bounds[-1]

    def blocks_of(self, range_index: int) -> range:
        """Return the blocks that belong to one of the ``n_ranges`` ranges."""
        first = range_index * self.n_blocks // self.n_ranges
        last = (range_index + 1) * self.n_blocks // self.n_ranges
        return range(first, last)

    def for_range(self, range_index: int) -> Self:
        """Return the algorithm whose sweeps return the deltas of one range of blocks.

        Only range 0 returns sums. An algorithm with more than one range overrides this method.
        """
        return self

    def begin_ranges(self) -> list[range]:
        """Return the ranges of blocks that one task begins: by default one task per block."""
        return [range(block, block + 1) for block in range(self.n_blocks)]

    def begin_blocks(self, data: DataT, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the first arrays of several blocks. Override it if they share work; see ``begin_ranges``."""
        for block in blocks:
            yield self.begin(data, block, previous)

    # --- faster merging, with the same result ---

    def merge_many(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Add deltas of the same block, with the bits of `merge` from the first to the last, which is the default.

        The engine merges with this method: two deltas at a time, or more if `is_exact`. Override it if adding all of
        them at once is faster, or for dense deltas, where a new array for each sum takes longer than adding. If they
        may be overwritten, nobody else needs them, but several blocks may share an array, which must stay as it is.
        """
        return reduce(self.merge, deltas)

    def is_exact(self, step: int) -> bool:
        """Return whether the order of merging a step's deltas makes no difference, as for sums of integers.

        By default False: the engine merges along a tree of fixed shape, so that rounding is always the same. If True,
        it merges in any order, which moves fewer bytes.
        """
        return False

    @property
    def wait_bytes(self) -> int | None:
        """Smallest number of bytes of exact deltas that are merged at once; by default None.

        Exact deltas wait on a worker until they have this many bytes together, and until the largest one is no larger
        than all others together. With None, two deltas are merged as soon as both are there. `memory` has to include
        twice this number: the deltas that wait, and the result of merging them.
        """
        return None

    def pack(self, arrays: Arrays) -> Arrays:
        """Return a delta or a block in a smaller form, for the network and for the store; by default unchanged.

        `engine.packing` has the forms, and undoes them wherever arrays are received or read.
        """
        return arrays

    # --- what the engine plans with ---

    def kernel_modules(self, data: DataT) -> Collection[str]:
        """Return the modules below `corpusmill.kernels` whose kernels sweep this data; by default `kernel_module`."""
        return {self.kernel_module} if self.kernel_module else ()

    @property
    def n_cells(self) -> int:
        """Number of cells that a step trains after its sweeps. With 0, the summed deltas update the blocks.

        Only a `GridAlgorithm` (engine/grid.py) has cells.
        """
        return 0

    def count_parallel(self, n_shards: int) -> int:
        """Return how many tasks of a step can run at the same time, if the step has ``n_shards`` shards."""
        return n_shards * self.n_ranges

    def worker_threads(self, threads: int) -> int:
        """Return how many threads train on a worker whose Dask runs ``threads`` tasks at a time."""
        return threads

    def largest_task(self, data: DataT) -> MemoryEstimate:
        """Return the memory of the largest task."""
        return max((self.memory(data, chunk) for chunk in data.chunks), key=lambda estimate: estimate.total)

    def held_memory(self, data: DataT) -> int:
        """Return the bytes of all arrays that may wait on a worker for later tasks, such as blocks for their next cell.

        Those that exceed the share ``held_share`` of its memory wait on its disk.
        """
        return 0

    @property
    def most_shards(self) -> int:
        """The largest number of shards of an epoch."""
        return self.max_shards or self.default_max_shards

    def count_shards(self, data: DataT) -> int:
        """Return an upper bound of the number of shards of an epoch over this data."""
        return min(len(data.chunks), self.most_shards)

    def swept_memory(self, data: DataT, n_workers: int) -> int:
        """Return the bytes of deltas that one of ``n_workers`` workers keeps until the end of a step.

        Leave out those that `memory` includes. The default, 0, is right if steps are exact (see `is_exact`), and if
        deltas do not grow when they are merged. Otherwise, sums wait for others: see `merging.count_waiting`.
        """
        return 0


#: An algorithm for any type of data and chunks, as the engine sees it.
AnyAlgorithm = Algorithm[Any, Any]


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
