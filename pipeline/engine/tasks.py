"""The tasks of an epoch. They take names and numbers, read from the store or the worker's cache, write to the store."""

import time
from dataclasses import dataclass
from typing import Any

from ...io.stores.open import open_data
from ...io.stores.store import Arrays
from ...kernels.errors import DeviceError
from .algorithm import Address, Algorithm, Swept, add, nbytes
from .cache import CACHE
from .run import RunStore


@dataclass(frozen=True)
class Job:
    """What every task of a run is told."""

    #: Names one call of ``train`` and what it caches: another run may come to the same folder, or the same data change.
    training: str
    run: str
    data: str
    part: str
    algorithm: Algorithm
    seed: int
    cache_bytes: int

    @property
    def store(self) -> RunStore:
        """The run's files."""
        return RunStore(self.run)


@dataclass
class ShardResult:
    """A swept shard: its deltas stay on the worker until merged, its report goes to the client."""

    deltas: list[Arrays]
    report: dict[str, Any]


class StoredModel:
    """The model of one step, read from the store as it is asked for."""

    def __init__(self, job: Job, step: int):
        self._job, self._step = job, step

    @property
    def shared(self) -> Arrays:
        """The shared arrays."""
        return self._load("shared", 0, lambda: self._job.store.shared(self._step))

    def block(self, index: int) -> Arrays:
        """One block of rows."""
        return self._load("block", index, lambda: self._job.store.block(self._step, index))

    def _load(self, what: str, index: int, read: Any) -> Arrays:
        return CACHE.load((self._job.training, what, index), self._step, read, nbytes, self._job.cache_bytes)


class Clock:
    """Seconds by cause, and hits of the cache."""

    def __init__(self) -> None:
        self.seconds = {"read": 0.0, "kernel": 0.0, "write": 0.0}
        self.cached = 0
        self._since = time.perf_counter()

    def lap(self, cause: str) -> None:
        """Charge the time since the last lap to a cause."""
        now = time.perf_counter()
        self.seconds[cause] += now - self._since
        self._since = now


def read_chunk(job: Job, place: tuple[str, str], index: int, model: StoredModel, clock: Clock) -> Any:
    """Return a prepared chunk of the data at ``place``, a URL and a part, from the cache or the store."""
    data = CACHE.load((job.training, "data", *place), 0, lambda: open_data(*place), lambda _: 0, job.cache_bytes)
    held = CACHE.get((job.training, "chunk", *place, index), 0)
    if held is not None:
        clock.cached += 1
        return held
    chunk = job.algorithm.prepare(job.algorithm.read(data, index), model)
    CACHE.put((job.training, "chunk", *place, index), 0, chunk, _chunk_bytes(chunk), job.cache_bytes)
    return chunk


def _chunk_bytes(chunk: Any) -> int:
    if isinstance(chunk, tuple):
        return sum(_chunk_bytes(field) for field in chunk)
    return int(getattr(chunk, "nbytes", 0))


def read_state(job: Job, index: int, step: int, clock: Clock) -> Arrays | None:
    """Return the chunk's state after ``step`` from the cache or the store; None before its first sweep."""
    if step < 1 or not job.algorithm.keeps_state:
        return None
    held = CACHE.get((job.training, "state", index), step)
    if held is not None:
        clock.cached += 1
        return held
    return job.store.state(step, index)


def sweep_shard(job: Job, chunks: tuple[int, ...], step: int, part: int) -> ShardResult:
    """Sweep a shard's chunks in order, write their next states and return the shard's deltas of a part's blocks."""
    clock = Clock()
    algorithm, rounds = job.algorithm.part(part), job.algorithm.rounds
    model = StoredModel(job, step - 1)
    deltas: list[Arrays] | None = None
    sums: Arrays = {}
    for index in chunks:
        chunk = read_chunk(job, (job.data, job.part), index, model, clock)
        state = read_state(job, index, step - rounds, clock)
        clock.lap("read")
        try:
            swept: Swept = algorithm.sweep(model, chunk, state, deltas, Address(job.seed, step, index))
        except DeviceError as error:
            raise DeviceError(f"chunk {index}: {error}") from error
        deltas, sums = swept.deltas, add(sums, swept.sums)
        clock.lap("kernel")
        if swept.state is not None:
            job.store.write_state(step, index, swept.state)
            CACHE.put((job.training, "state", index), step, swept.state, nbytes(swept.state), job.cache_bytes)
        clock.lap("write")
    assert deltas is not None
    report = {"sums": sums, "seconds": clock.seconds, "cached": clock.cached, "worker": _worker_name()}
    return ShardResult(deltas, report)


def take_report(result: ShardResult) -> dict[str, Any]:
    """Return the small part of a shard's result."""
    return result.report


def take_delta(result: ShardResult, block: int) -> Arrays:
    """Return a shard's delta of one block."""
    return result.deltas[block]


def merge_deltas(algorithm: Algorithm, left: Arrays, right: Arrays) -> Arrays:
    """Add two deltas of the same block."""
    return algorithm.merge(left, right)


def begin_block(job: Job, block: int) -> None:
    """Write a block of the model before the first sweep."""
    arrays = job.algorithm.begin(block)
    job.store.write_block(0, block, arrays)
    CACHE.put((job.training, "block", block), 0, arrays, nbytes(arrays), job.cache_bytes)


def apply_block(job: Job, block: int, step: int, delta: Arrays) -> Arrays:
    """Write a block's next arrays and return its small totals."""
    model = StoredModel(job, step - 1)
    arrays, totals = job.algorithm.apply(model.block(block), delta, model.shared)
    job.store.write_block(step, block, arrays)
    CACHE.put((job.training, "block", block), step, arrays, nbytes(arrays), job.cache_bytes)
    return totals


def score_chunk(job: Job, place: tuple[str, str], index: int, step: int, state_step: int) -> Arrays:
    """Score a chunk under a committed model: a training chunk with its state of ``state_step``, or a held-out one."""
    clock, model = Clock(), StoredModel(job, step)
    chunk = read_chunk(job, place, index, model, clock)
    state = read_state(job, index, state_step, clock)
    return job.algorithm.score(model, chunk, state, Address(job.seed, step, index))


def _worker_name() -> str:
    from distributed import get_worker

    try:
        return str(get_worker().name)
    except ValueError:
        return "this process"
