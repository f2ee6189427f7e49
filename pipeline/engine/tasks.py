"""The tasks of an epoch.

Their arguments are names and numbers. They read arrays from the store or from the worker's cache, and write the
results back to the store. A task can therefore run again on another worker when its own worker is lost.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

from ...io.stores.store import Arrays
from ...kernels.cuda.ledger import LEDGER, by_operation
from ...kernels.cuda.residents import RESIDENTS
from ...kernels.errors import DeviceError
from .algorithm import Address, AnyAlgorithm, PreviousModel, add, nbytes
from .cache import CACHE
from .data import DataRef, TrainingData
from .finite import check_finite
from .run import RunStore


@dataclass(frozen=True)
class Job:
    """What every task of a run needs."""

    #: Identifies one call of ``train`` in the cache, because a later call may use the same folder for another run.
    training: str
    run: str
    data: DataRef
    algorithm: AnyAlgorithm
    previous: PreviousModel | None
    seed: int
    cache_bytes: int

    @property
    def store(self) -> RunStore:
        """The run's files, opened once per worker and run."""
        return CACHE.load((self.training, "run", self.run), lambda: RunStore(self.run))

    def open(self, data: DataRef) -> TrainingData:
        """Open a store of data, once per worker and run."""
        return CACHE.load((self.training, "data", *data), data.open)


class SweepProgress(TypedDict):
    """What a worker reports as soon as it has swept a shard."""

    seconds: dict[str, float]
    cached: int
    worker: str


class SweepReport(SweepProgress):
    """The small part of a swept shard, which is sent to the client when the worker has swept all its shards."""

    sums: Arrays
    device: dict[str, int]


@dataclass
class SweptShard:
    """The result of sweeping a shard: one delta per block, and a report."""

    deltas: list[Arrays]
    report: SweepReport


@dataclass
class AppliedBlock:
    """The result of updating one block of the model, without the block itself."""

    totals: Arrays
    measured: dict[str, float]  # copies, launches and waits on the CUDA device; seconds


class Stopwatch:
    """Measures seconds by cause, and counts the reads that the cache made unnecessary."""

    def __init__(self) -> None:
        self.seconds = {"read": 0.0, "kernel": 0.0, "write": 0.0}
        self.cached = 0
        self._last = time.perf_counter()

    def lap(self, cause: str) -> None:
        """Add the time since the last lap to ``cause``."""
        now = time.perf_counter()
        self.seconds[cause] += now - self._last
        self._last = now

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


class StoredModel:
    """The model that one step committed, read from the store on demand. The watch measures the time of reading."""

    def __init__(self, job: Job, step: int, watch: Stopwatch | None = None):
        self._job = job
        self._step = step
        self._watch = watch or Stopwatch()

    @property
    def shared(self) -> Arrays:
        """The shared arrays."""
        return self._load("shared", 0, lambda: self._job.store.shared(self._step))

    def block(self, index: int) -> Arrays:
        """One block of rows."""
        return self._load("block", index, lambda: self._job.store.block(self._step, index))

    def _load(self, kind: str, index: int, read: Callable[[], Arrays]) -> Arrays:
        key = (self._job.training, kind, index)
        with self._watch.reading():
            return CACHE.load(key, read, version=self._step, size=nbytes, budget=self._job.cache_bytes)


def write_shared(job: Job, step: int, arrays: Arrays) -> None:
    """Write the shared arrays of a step. Tasks that run in this process find them in the cache."""
    job.store.write_shared(step, arrays)
    key = (job.training, "shared", 0)
    CACHE.put(key, arrays, version=step, nbytes=nbytes(arrays), budget=job.cache_bytes)


def _read_chunk(job: Job, data: DataRef, index: int, model: StoredModel, watch: Stopwatch) -> Any:
    """Return a chunk in the algorithm's form, from the cache or from the store."""
    store = job.open(data)
    key = (job.training, "chunk", *data, index)
    chunk = CACHE.get(key)
    if chunk is not None:
        watch.cached += 1
        return chunk
    chunk = job.algorithm.load_chunk(store, index, model)
    CACHE.put(key, chunk, nbytes=_chunk_bytes(chunk), budget=job.cache_bytes)
    return chunk


def _chunk_bytes(chunk: Any) -> int:
    if isinstance(chunk, tuple):
        return sum(_chunk_bytes(field) for field in chunk)
    return int(getattr(chunk, "nbytes", 0))


def _read_state(job: Job, index: int, step: int, watch: Stopwatch) -> Arrays | None:
    """Return the chunk's state after ``step``; None before its first sweep."""
    if step < 1 or not job.algorithm.keeps_state:
        return None
    state = CACHE.get((job.training, "state", index), version=step)
    if state is not None:
        watch.cached += 1
        return state
    return job.store.state(step, index)


def begin_blocks(job: Job, first: int, stop: int) -> None:
    """Write the blocks ``first`` to ``stop - 1`` of the model before the first sweep."""
    blocks = range(first, stop)
    begun = job.algorithm.begin_blocks(job.open(job.data), blocks, job.previous)
    for block, arrays in zip(blocks, begun, strict=True):
        write_block(job, 0, block, arrays)


def write_block(job: Job, step: int, block: int, arrays: Arrays) -> None:
    """Write a block's arrays after a step, and keep them in the cache for the next one."""
    job.store.write_block(step, block, arrays)
    key = (job.training, "block", block)
    CACHE.put(key, arrays, version=step, nbytes=nbytes(arrays), budget=job.cache_bytes)


def sweep_shard(job: Job, chunks: Iterable[int], step: int, range_index: int) -> SweptShard:
    """Sweep the chunks of a shard in order and write their next states."""
    watch = Stopwatch()
    algorithm = job.algorithm.for_range(range_index)
    model = StoredModel(job, step - 1, watch)
    deltas: list[Arrays] | None = None
    sums: Arrays = {}
    device: Counter[str] = Counter()
    for index in chunks:
        chunk = _read_chunk(job, job.data, index, model, watch)
        state = _read_state(job, index, step - algorithm.rounds, watch)
        watch.lap("read")
        try:
            with LEDGER.recording() as traffic:
                result = algorithm.sweep(model, chunk, state, deltas, Address(job.seed, step, index))
        except DeviceError as error:
            raise DeviceError(f"chunk {index}: {error}") from error
        device.update(by_operation(traffic))
        deltas = result.deltas
        sums = add(sums, result.sums)
        watch.lap("kernel")
        if result.state is not None:
            _write_state(job, step, index, result.state)
        watch.lap("write")
    assert deltas is not None
    with LEDGER.recording() as traffic:
        RESIDENTS.bring_back(array for delta in deltas for array in delta.values())
    device.update(by_operation(traffic))
    watch.lap("kernel")
    report: SweepReport = {
        "sums": sums,
        "seconds": watch.seconds,
        "device": dict(device),
        "cached": watch.cached,
        "worker": _worker_name(),
    }
    return SweptShard(deltas, report)


def _write_state(job: Job, step: int, chunk: int, state: Arrays) -> None:
    job.store.write_state(step, chunk, state)
    key = (job.training, "state", chunk)
    CACHE.put(key, state, version=step, nbytes=nbytes(state), budget=job.cache_bytes)


def apply_block(job: Job, block: int, step: int, delta: Arrays) -> AppliedBlock:
    """Write a block's next arrays and return its small totals."""
    algorithm = job.algorithm
    model = StoredModel(job, step - 1)
    constant = _constant_delta(job, block)
    if constant is not None:
        delta = algorithm.merge(constant, delta)
    with LEDGER.recording() as traffic:
        arrays, totals = algorithm.apply(model.block(block), delta, model.shared)
    check_finite(algorithm, step, f"block {block} of the model", arrays)
    write_block(job, step, block, arrays)
    return AppliedBlock(totals, dict(by_operation(traffic)))


def _constant_delta(job: Job, block: int) -> Arrays | None:
    def make() -> Arrays | None:
        return job.algorithm.constant_delta(job.open(job.data), block, job.previous)

    def size(delta: Arrays | None) -> int:
        return nbytes(delta or {})

    return CACHE.load((job.training, "constant", block), make, size=size, budget=job.cache_bytes)


def score_chunk(job: Job, data: DataRef, index: int, step: int, state_step: int) -> Arrays:
    """Score a training chunk with its state of ``state_step``, or a held-out chunk (``state_step`` 0)."""
    watch = Stopwatch()
    model = StoredModel(job, step, watch)
    chunk = _read_chunk(job, data, index, model, watch)
    state = _read_state(job, index, state_step, watch)
    return job.algorithm.score(model, chunk, state, Address(job.seed, step, index))


def _worker_name() -> str:
    from distributed import get_worker

    try:
        return str(get_worker().name)
    except ValueError:
        return "this process"
