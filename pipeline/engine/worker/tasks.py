"""The job that all tasks of an epoch share, the model as tasks read it, and the small tasks.

The arguments of tasks are names and numbers. Tasks read arrays from the store or from the worker's cache, and write the
results back to the store. A task can therefore run again on another worker when its own worker is lost.
"""

import contextlib
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

import numpy as np

from ....io.errors import DataError
from ....io.stores.store import Arrays
from ....kernels.simd.aligned import aligned_copy, empty_aligned, join_rows
from ..algorithm import Address, AnyAlgorithm, Needs, block_range, nbytes
from ..data import DataRef, TrainingData, count_shards, shard_chunks
from ..grid import CellAlgorithm, ChunkGridAlgorithm
from ..packing import index_rows, join_blocks, rows_of_block, unpack, unpacked_bytes
from ..run import RunStore
from ..training import MemoryPlan, Training
from .buffers import CACHE, Key, WriteBehind


@dataclass(frozen=True)
class Job:
    """A training, and what the engine has planned for its tasks. All tasks of a run share it."""

    #: What to train. Its run has the number of the process that the tasks work for. Tasks of an earlier owner may still
    #: run; they write other files.
    training: Training
    n_chunks: int
    needs: Needs = field(default_factory=Needs)
    plan: MemoryPlan = field(default_factory=MemoryPlan)
    #: Identifies one call of ``train`` in the cache, because a later call may use the same folder for another run.
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def algorithm(self) -> AnyAlgorithm:
        """The algorithm that the run trains, as it is cut now."""
        return self.training.algorithm

    @property
    def data(self) -> DataRef:
        """The data that is trained."""
        found: DataRef = self.training.data
        return found

    @property
    def files(self) -> RunStore:
        """The run's files, opened once per worker and run."""
        # A copy, because a store that is opened here must not travel with the job.
        return CACHE.load((self.name, "run"), lambda: replace(self.training.run))

    def open(self, data: DataRef) -> TrainingData:
        """Open a store of data, once per worker and run."""
        return CACHE.load((self.name, "data", *data), data.open)

    def epoch(self, step: int) -> int:
        """Return the epoch that a step belongs to."""
        return -(-step // self.needs.rounds)

    def address(self, step: int, chunk: int) -> Address:
        """Return the address of the random draws for a chunk."""
        return Address(self.training.seed, step, chunk)

    def first_arrays(self, block: int) -> Arrays:
        """Return the first arrays of a block. A worker keeps them if its cache has space."""

        def begin() -> Arrays:
            return next(self.algorithm.begin(self.open(self.data), range(block, block + 1), self.training.previous))

        return CACHE.load((self.name, "first", block), begin, size=nbytes, budget=self.plan.cache)


@dataclass(frozen=True)
class SweepPhase:
    """The sweeps of one step for one range of blocks. A shard's *position* is its index in ``shards``."""

    job: Job
    step: int
    range_index: int = 0
    #: The shared arrays of the last step, if they travel with the tasks; else the tasks read them from the store.
    shared: Arrays | None = None

    @property
    def name(self) -> str:
        """A name that no other phase has."""
        return f"{self.job.name}-{self.step}-{self.range_index}"

    @property
    def blocks(self) -> range:
        """The blocks of the model that this phase sweeps."""
        return block_range(self.job.algorithm.n_blocks, self.job.needs.ranges, self.range_index)

    @property
    def has_sweeps(self) -> bool:
        """Whether the step sweeps its chunks."""
        return self.step == 1 or not isinstance(self.job.algorithm, ChunkGridAlgorithm)

    @property
    def has_cells(self) -> bool:
        """Whether the step trains the cells of a grid, after its sweeps if it has them."""
        algorithm = self.job.algorithm
        return isinstance(algorithm, CellAlgorithm) and (self.step > 1 or not isinstance(algorithm, ChunkGridAlgorithm))

    @cached_property
    def shards(self) -> range:
        """The numbers of the shards to sweep. Each round sweeps every rounds-th one, so an epoch sweeps all of them."""
        if not self.has_sweeps:
            return range(0)
        rounds = self.job.needs.rounds
        return range((self.step - 1) % rounds, count_shards(self.job.n_chunks, self.job.needs.shards), rounds)

    def chunks(self, position: int) -> range:
        """Return the chunks of a shard."""
        return shard_chunks(self.job.n_chunks, self.job.needs.shards, self.shards[position])


class ShardProgress(TypedDict):
    """What a worker reports as soon as it has swept a shard."""

    seconds: dict[str, float]  # by cause, see `Stopwatch`
    cached: int  # reads that the cache made unnecessary
    worker: str


class ShardReport(ShardProgress):
    """The small part of a swept shard, which is sent to the client when the worker has swept all its shards."""

    sums: Arrays
    device: dict[str, int]
    requests: dict[str, int]  # of this worker to an object store, since its last report


@dataclass
class AppliedBlock:
    """The result of updating one block of the model, without the block itself."""

    totals: Arrays
    measured: dict[str, float]  # copies, launches and waits on the CUDA device; seconds
    sums: Arrays = field(default_factory=dict)  # of the chunks of the grid's row of the same number


class Stopwatch:
    """Measures seconds by cause, and counts the reads that the cache made unnecessary."""

    def __init__(self) -> None:
        self.seconds = {"read": 0.0, "kernel": 0.0, "write": 0.0}
        self.cached = 0
        self._last = time.perf_counter()

    def lap(self, cause: str) -> float:
        """Add the time since the last lap to ``cause``, and return it."""
        now = time.perf_counter()
        elapsed = now - self._last
        self.seconds[cause] += elapsed
        self._last = now
        return elapsed

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Count the time inside as reading, and not as part of the lap."""
        started = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - started
            self.seconds["read"] += elapsed
            self._last += elapsed


class ModelPart(NamedTuple):
    """Names the shared arrays ("shared", 0) or one block ("block", number)."""

    kind: str
    number: int


SHARED = ModelPart("shared", 0)


def read_model(job: Job, step: int, part: ModelPart) -> Arrays:
    """Read a part of a step's model from the store, in the form in which it is cached."""
    if part == SHARED:
        return job.files.shared(step)
    stored = job.files.stored_block(step, part.number)
    if _caches_unpacked(job, stored):
        return unpack(stored)
    return index_rows(stored)


def _caches_unpacked(job: Job, stored: Arrays) -> bool:
    """Return whether the cache has space for all blocks if they are not packed. Blocks are of about the same size."""
    return unpacked_bytes(stored) * job.algorithm.n_blocks <= job.plan.cache


class StepModel:
    """The model that one step committed, read on demand.

    The watch measures the time of reading. ``read`` reads a part that is not in the cache, by default from the store.
    ``shared`` are the shared arrays if the caller has them.
    """

    def __init__(
        self,
        job: Job,
        step: int,
        watch: Stopwatch | None = None,
        read: Callable[[ModelPart], Arrays] | None = None,
        shared: Arrays | None = None,
    ):
        self._job = job
        self._step = step
        self._watch = watch or Stopwatch()
        self._read = read or (lambda part: read_model(job, step, part))
        self._shared = shared

    @property
    def shared(self) -> Arrays:
        """The arrays that every task needs whole."""
        if self._shared is not None:
            return self._shared
        with self._watch.reading():
            return self._cached(SHARED)

    def block(self, index: int, rows: np.ndarray | None = None) -> Arrays:
        """One block of rows. ``rows`` (n,) bool are those that the caller needs; by default, all."""
        with self._watch.reading():
            return unpack(self._cached(ModelPart("block", index)), rows)

    def copies(self, index: int, names: Sequence[str]) -> Arrays:
        """Return copies of some arrays of a block, which the caller may change."""
        with self._watch.reading():
            cached = CACHE.get((self._job.name, "block", index), version=self._step)
            if cached is None:
                # Only these are read.
                return unpack(self._job.files.stored_block(self._step, index, empty_aligned, names))
            return {name: aligned_copy(array) for name, array in unpack(cached).items() if name in names}

    def joined(self, name: str) -> np.ndarray:
        """One array of all blocks. It is cached, because each chunk of a sweep needs it again."""
        n_blocks = self._job.algorithm.n_blocks
        if n_blocks == 1:
            return self.block(0)[name]

        def join() -> np.ndarray:
            # An array that only some steps need would otherwise stay until its next use.
            CACHE.drop_older((self._job.name, "joined"), self._step)
            blocks = [unpack(self._cached(ModelPart("block", index))) for index in range(n_blocks)]
            return join_rows([block[name] for block in blocks])

        key = (self._job.name, "joined", name)
        with self._watch.reading():
            return CACHE.load(
                key,
                join,
                version=self._step,
                size=lambda array: array.nbytes,
                budget=self._job.plan.cache,
                for_every_chunk=True,
            )

    def _cached(self, part: ModelPart) -> Arrays:
        """Return a part from the cache, or read it. Blocks may be packed."""
        return CACHE.load(
            (self._job.name, *part),
            lambda: self._read(part),
            version=self._step,
            size=nbytes,
            budget=self._job.plan.cache,
            for_every_chunk=True,
        )


def write_shared(job: Job, step: int, arrays: Arrays) -> None:
    """Write the shared arrays of a step. Tasks that run in this process find them in the cache."""
    job.files.write_shared(step, arrays)
    key = (job.name, "shared", 0)
    CACHE.put(key, arrays, version=step, nbytes=nbytes(arrays), budget=job.plan.cache, for_every_chunk=True)


def chunk_key(job: Job, data: DataRef, index: int) -> Key:
    """Return the key of a chunk in the cache."""
    return (job.name, "chunk", *data, index)


def state_key(job: Job, index: int) -> Key:
    """Return the key of a chunk's state in the cache. The version is the step that wrote the state."""
    return (job.name, "state", index)


def keep_chunk(job: Job, data: DataRef, index: int, chunk: Any) -> None:
    """Put a chunk into the cache, in the algorithm's form."""
    CACHE.put(chunk_key(job, data, index), chunk, nbytes=_chunk_bytes(chunk), budget=job.plan.cache)


def _chunk_bytes(chunk: Any) -> int:
    if isinstance(chunk, tuple):
        return sum(_chunk_bytes(field) for field in chunk)
    return int(getattr(chunk, "nbytes", 0))


def begin_blocks(job: Job, blocks: range) -> None:
    """Write some blocks of the model before the first sweep."""
    begun = job.algorithm.begin(job.open(job.data), blocks, job.training.previous)
    for block, arrays in zip(blocks, begun, strict=True):
        write_block(job, 0, block, arrays)


def recut_block(
    before: RunStore, after: RunStore, step: int, bounds: Sequence[int], algorithm: AnyAlgorithm, block: int
) -> None:
    """Write a block of a step of the model, which is stored with other ``bounds`` so far."""
    first, stop = algorithm.bounds[block], algorithm.bounds[block + 1]
    parts = []
    for number, (own, end) in enumerate(pairwise(bounds)):
        if own < stop and first < end:
            rows = slice(max(first, own) - own, min(stop, end) - own)
            wanted = np.zeros(end - own, np.bool_)
            wanted[rows] = True
            # The block may be too large to be unpacked as a whole: the worker that wrote it had more memory.
            stored = unpack(index_rows(before.stored_block(step, number)), wanted)
            parts.append(rows_of_block(stored, end - own, rows.start, rows.stop))
    arrays = algorithm.recut_block(join_blocks(parts), block)
    after.write_block(step, block, algorithm.merge.pack(arrays))


def write_block(job: Job, step: int, block: int, arrays: Arrays, behind: WriteBehind | None = None) -> None:
    """Write a block's arrays after a step, and keep them in the cache for the next one."""
    stored = job.algorithm.merge.pack(arrays)

    def write() -> None:
        job.files.write_block(step, block, stored)

    if behind is None:
        write()
    else:
        behind.write(write, nbytes(stored))
    if not _caches_unpacked(job, stored):
        # The same arrays if the algorithm does not pack its blocks.
        arrays = index_rows(stored)
    key = (job.name, "block", block)
    CACHE.put(key, arrays, version=step, nbytes=nbytes(arrays), budget=job.plan.cache, for_every_chunk=True)


def score_chunks(job: Job, data: DataRef, chunks: list[int], step: int, state_steps: list[int]) -> list[Arrays]:
    """Score some chunks; see `_score_chunk`. ``state_steps`` has a number for each chunk."""
    scores = []
    for index, state_step in zip(chunks, state_steps, strict=True):
        scores.append(_score_chunk(job, data, index, step, state_step))
    return scores


def _score_chunk(job: Job, data: DataRef, index: int, step: int, state_step: int) -> Arrays:
    """Score a training chunk with its state of ``state_step``, or a held-out chunk (``state_step`` 0)."""
    model = StepModel(job, step)
    chunk = CACHE.get(chunk_key(job, data, index))
    if chunk is None:
        chunk = job.algorithm.load_chunk(job.open(data), index, model)
        keep_chunk(job, data, index, chunk)
    state = None
    if state_step >= 1 and job.plan.keeps_state:
        state = CACHE.get(state_key(job, index), version=state_step)
        if state is None:
            state = job.files.state(state_step, index)
    return job.algorithm.scores.score(model, chunk, state, job.address(step, index), job.open(data))


#: Stands for the name of a worker where tasks run in the process of the user.
THIS_PROCESS = "this process"


def worker_name() -> str:
    """Return the name of the Dask worker that runs this task."""
    # The import takes a third of a second, and a worker has made it.
    if "distributed" not in sys.modules:
        return THIS_PROCESS
    from distributed import get_worker

    try:
        return str(get_worker().name)
    except ValueError:
        return THIS_PROCESS


class Diverged(DataError):
    """A model has numbers that are not finite. The engine completes the message with advice."""


def check_finite(epoch: int, part: str, arrays: Arrays) -> None:
    """Raise Diverged if an array contains NaN or infinity. ``part`` says which part of the model it is."""
    for name, array in arrays.items():
        if not _is_finite(np.asarray(array)):
            raise Diverged(
                f"training diverged: in epoch {epoch}, the array {name!r} of {part} contains numbers that are not "
                f"finite, so this epoch is not saved"
            )


def _is_finite(array: np.ndarray) -> bool:
    if array.dtype.kind != "f" or not array.size:
        return True
    # Both extremes are NaN if any number is. Unlike np.isfinite, they need no memory for an array of booleans.
    return bool(np.isfinite(array.min()) and np.isfinite(array.max()))
