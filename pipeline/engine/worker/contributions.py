"""Sweeping many shards on one worker, and merging what the workers have swept.

The result of a worker's sweeps is a `Contribution`. The deltas stay on the worker (`SweptDeltas`). A task that updates
a block of the model fetches the block's deltas from all workers and merges them.
"""

import contextlib
import tempfile
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor as ThreadPool
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from ....io.stores.filesystems import REQUESTS
from ....io.stores.store import Arrays
from ....kernels.errors import DeviceError
from ..algorithm import Shard, add, add_numbers, nbytes
from ..device import DeviceCounts, any_on_device, bring_back, share_deltas
from ..packing import unpack
from .buffers import AHEAD, start
from .held import map_deltas
from .merging import Node, PartialSums
from .tasks import (
    SHARED,
    AppliedBlock,
    Job,
    ModelPart,
    ShardProgress,
    ShardReport,
    Stopwatch,
    SweepPhase,
    check_finite,
    worker_name,
    write_block,
)
from .transfers import Transfers, pace_of

#: Contributions that a task fetches from at the same time. More would hide more latency and need more memory.
FETCHES_AT_ONCE = 4
#: Bytes of one fetch. A task with more blocks than that fetches and updates them in several batches.
FETCH_BYTES = 32 << 20


#: The deltas of some blocks of a contribution, by node of the merge tree.
Pieces = list[tuple[Node, list[Arrays]]]


class Source(NamedTuple):
    """Names the deltas that a worker has swept, and the worker. If a task runs twice, their identifiers differ."""

    identifier: str
    address: str
    nbytes: int  # of the deltas of all blocks
    on_device: bool = False  # whether deltas are on the CUDA device of the worker


@dataclass
class Contribution:
    """What one worker has swept: one report per shard, and where the merged deltas are.

    The deltas stay on the worker, see `SweptDeltas`.
    """

    source: Source
    reports: dict[int, ShardReport]  # by position of the shard
    #: The results of updating all blocks of the range, if this worker has swept all shards.
    applied: list[AppliedBlock] | None = None
    seconds_update: float = 0.0


class ContributionLost(Exception):
    """The worker at this address no longer has its deltas. Its shards have to be swept again."""

    def __init__(self, address: str):
        super().__init__(address)
        self.address = address


class SweptDeltas:
    """The deltas that one worker has swept. It keeps them until its next phase of the same run.

    Dask does not know them. It copies the results of tasks, drops one of two copies, and writes results to disk.

    Those of a grid have a budget, see `MemoryPlan.kept`. The others are mapped from files in ``folder``.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._kept: dict[str, tuple[SweepPhase, Pieces]] = {}  # by identifier

    def keep(self, phase: SweepPhase, address: str, pieces: Pieces) -> Source:
        """Keep the deltas that this worker has swept in one task."""
        identifier = uuid.uuid4().hex
        self._kept[identifier] = (phase, pieces)
        size = sum(nbytes(delta) for _, deltas in pieces for delta in deltas)
        return Source(identifier, address, size, any_on_device(_arrays_of(pieces)))

    def place(self, deltas: list[Arrays], taken: int, budget: int) -> tuple[list[Arrays], int]:
        """Return a shard's deltas, in memory or mapped from a file, and the bytes of the budget that are taken now."""
        size = sum(nbytes(delta) for delta in deltas)
        if taken + size <= budget or any_on_device(array for delta in deltas for array in delta.values()):
            return deltas, taken + size
        return map_deltas(deltas, self._folder or tempfile.gettempdir()), taken

    def forget(self, run: str, but: str = "") -> None:
        """Forget the deltas of a run, except those of the phase ``but``. The blocks have the others."""
        for identifier, (phase, _) in list(self._kept.items()):
            if phase.job.name == run and phase.name != but:
                del self._kept[identifier]

    def fetch(self, source: Source, indices: Iterable[int]) -> Pieces:
        """Return the deltas of some blocks, for each node of the merge tree. Raises ContributionLost.

        ``indices`` are the positions of the blocks in the range of blocks that was swept.
        """
        if source.identifier not in self._kept:
            raise ContributionLost(source.address)
        chosen = list(indices)
        _, pieces = self._kept[source.identifier]
        return [(node, [deltas[index] for index in chosen]) for node, deltas in pieces]

    def fetch_packed(self, source: Source, indices: Iterable[int]) -> Pieces:
        """Return the same in the form in which deltas travel through the memory of the host."""
        pieces = self.fetch(source, indices)
        phase, _ = self._kept[source.identifier]
        pack = phase.job.algorithm.merge.pack
        pieces = [(node, [pack(delta) for delta in deltas]) for node, deltas in pieces]
        if source.on_device:
            bring_back(_arrays_of(pieces))
        return pieces


def _arrays_of(pieces: Pieces) -> Iterator[np.ndarray]:
    for _, deltas in pieces:
        for delta in deltas:
            yield from delta.values()


#: Returns the pieces of some blocks of a contribution; raises ContributionLost.
Fetch = Callable[[Source, list[int]], Pieces]


#: Receives the position of a shard that was swept, and the report.
OnSwept = Callable[[int, ShardProgress], None]


class SweepOutcome(NamedTuple):
    """The result of a sweep."""

    contributions: list[Contribution]
    #: Seconds in which nothing was swept because the client did something else.
    seconds_waited: float


# --- sweeping ---


def shard_seconds(phase: SweepPhase) -> float:
    """Return how long a thread of this worker computes for a shard, on average; 0 if it has not swept any yet."""
    return pace_of(phase.job).kernel * len(phase.chunks(0))


class ShardQueue(ABC):
    """Gives the threads of a worker the positions of their next shards."""

    @abstractmethod
    def next(self) -> int | None:
        """Return the position of the next shard, or None if there is none left."""

    @abstractmethod
    def upcoming(self) -> list[int]:
        """Return the positions of the shards that will probably be next, without taking them."""


class ShardList(ShardQueue):
    """A list of positions, for one thread."""

    def __init__(self, positions: Iterable[int]):
        self._positions = deque(positions)

    def next(self) -> int | None:
        """Return the position of the next shard."""
        return self._positions.popleft() if self._positions else None

    def upcoming(self) -> list[int]:
        """Return the positions that are left."""
        return list(islice(self._positions, AHEAD))


def sweep_shards(
    phase: SweepPhase,
    queue: ShardQueue,
    on_swept: OnSwept,
    swept_deltas: SweptDeltas,
    address: str = "",
    helpers: tuple[ThreadPool, int] | None = None,
) -> Contribution:
    """Sweep the shards of a queue.

    ``swept_deltas`` are those of this worker, and ``address`` is that of a Dask worker. ``helpers`` are further
    threads, and how many of them sweep too. All states are on disk when this function returns.
    """
    swept_deltas.forget(phase.job.name, but=phase.name)
    sums = partial_sums(phase, may_overwrite=True)
    n_helpers = helpers[1] if helpers is not None else 0
    transfers = Transfers(phase, 1 + n_helpers)
    reports: dict[int, ShardReport] = {}
    failed = threading.Event()
    is_grid = phase.has_cells
    kept = 0
    lock = threading.Lock()

    def sweep_all() -> None:
        nonlocal kept
        try:
            while not failed.is_set():
                position = queue.next()
                if position is None:
                    return
                chunks = phase.chunks(position)
                deltas, report = sweep_shard(phase, transfers, chunks, lambda: _chunks_of(phase, queue.upcoming()))
                if is_grid:
                    with lock:
                        deltas, kept = swept_deltas.place(deltas, kept, phase.job.plan.kept)
                with _measuring(report):
                    sums.add((position, position + 1), deltas)
                reports[position] = report
                on_swept(position, report)
        except BaseException:
            failed.set()
            raise

    with transfers.opened():
        # Sweeps read the same parts of the model in each step.
        transfers.read_parts_ahead(list(transfers.pace.model_parts))
        helping = []
        if helpers is not None:
            threads, _ = helpers
            helping = [start(threads, sweep_all) for _ in range(n_helpers)]
        try:
            sweep_all()
        finally:
            # A helper that has not begun would find no shard. The threads may be busy with other tasks.
            begun = [helper for helper in helping if not helper.cancel()]
            for helper in begun:
                helper.exception()  # waits
        for helper in begun:
            helper.result()
    with contextlib.ExitStack() as merging:
        if reports:
            merging.enter_context(_measuring(next(iter(reports.values()))))
        pieces = sums.items()
    return Contribution(swept_deltas.keep(phase, address, pieces), reports)


@contextlib.contextmanager
def _measuring(report: ShardReport) -> Iterator[None]:
    """Context manager: add the time of merging deltas to a report, and what this thread does on the CUDA device.

    The time counts as that of kernels: some deltas of LDA are topics, which are counted when they are merged.
    """
    device = DeviceCounts()
    started = time.perf_counter()
    with device.counting():
        yield
    report["seconds"]["kernel"] += time.perf_counter() - started
    add_numbers(report["device"], device.totals)


def update_if_complete(phase: SweepPhase, contribution: Contribution, fetch: Fetch) -> None:
    """Update the blocks here if this worker has swept all shards. No other worker has deltas of these blocks then."""
    if len(contribution.reports) < len(phase.shards):
        return
    # Cells are trained by all workers.
    if phase.has_cells:
        return
    started = time.perf_counter()
    contribution.applied = update_blocks(phase, list(phase.blocks), [contribution.source], fetch)
    contribution.seconds_update = time.perf_counter() - started


def _chunks_of(phase: SweepPhase, positions: Iterable[int]) -> Iterator[int]:
    for position in positions:
        yield from phase.chunks(position)


# --- merging ---


def partial_sums(phase: SweepPhase, may_overwrite: bool = False) -> PartialSums:
    """Return an empty sum of the deltas of a phase. ``may_overwrite``: nobody else needs the deltas that are added."""
    merge = phase.job.algorithm.merge

    def add(deltas: Sequence[Arrays]) -> Arrays:
        total = merge.add(deltas, may_overwrite)
        # Another thread may use the sum.
        share_deltas([total])
        return total

    return PartialSums(len(phase.shards), add, merge.exact_bytes(phase.step))


def merge_blocks(
    phase: SweepPhase, blocks: list[int], sources: list[Source], fetch: Fetch, device: DeviceCounts
) -> list[Arrays]:
    """Return the sum of the deltas of all shards, one per block. Raises ContributionLost.

    What merging does on the CUDA device is added to ``device``.
    """
    indices = [block - phase.blocks.start for block in blocks]
    sums = partial_sums(phase)

    def add_pieces(source: Source) -> None:
        with device.counting():
            for node, deltas in fetch(source, indices):
                sums.add(node, [unpack(delta) for delta in deltas])

    if len(sources) == 1:
        add_pieces(sources[0])
    else:
        with ThreadPoolExecutor(FETCHES_AT_ONCE) as threads:
            adding = [start(threads, add_pieces, source) for source in sources]
            try:
                for added in adding:
                    added.result()
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
    with device.counting():
        return sums.total()


def blocks_at_once(sources: list[Source], n_blocks: int) -> int:
    """Return of how many blocks the deltas are fetched at the same time: about FETCH_BYTES from the largest source."""
    largest = max(source.nbytes for source in sources)
    return max(1, FETCH_BYTES * n_blocks // max(1, largest))


def update_blocks(phase: SweepPhase, blocks: list[int], sources: list[Source], fetch: Fetch) -> list[AppliedBlock]:
    """Merge the deltas of some blocks, and write the blocks' next arrays. Raises ContributionLost."""
    applied = []
    at_once = blocks_at_once(sources, len(phase.blocks))
    device = DeviceCounts()
    transfers = Transfers(phase)
    with transfers.opened():
        for first in range(0, len(blocks), at_once):
            fetched = blocks[first : first + at_once]
            # The blocks are read while their deltas are fetched.
            transfers.read_parts_ahead([SHARED, *(ModelPart("block", block) for block in fetched)])
            for block, delta in zip(fetched, merge_blocks(phase, fetched, sources, fetch, device), strict=True):
                applied.append(update_block(phase, transfers, block, delta))
    add_numbers(applied[0].measured, device.totals)
    return applied


def sweep_shard(
    phase: SweepPhase, transfers: Transfers, chunks: Sequence[int], upcoming: Callable[[], Iterable[int]]
) -> tuple[list[Arrays], ShardReport]:
    """Sweep the chunks of a shard in order, and write their next states. Return a delta for each block, and a report.

    ``upcoming`` returns the chunks of shards that this worker will probably sweep next.
    """
    job = phase.job
    watch = Stopwatch()
    model = transfers.model(watch, transfers.pace.model_parts)
    deltas: list[Arrays] | None = None
    sums: Arrays = {}
    device = DeviceCounts()
    for n_swept, index in enumerate(chunks):
        transfers.read_chunks_ahead(list(chunks[n_swept:]), upcoming())
        chunk = transfers.chunk(index, watch)
        state = transfers.state(index, watch)
        watch.lap("read")
        try:
            with device.counting():
                shard = Shard(deltas, phase.blocks, index == chunks[-1], phase.range_index > 0)
                result = job.algorithm.sweep(model, chunk, state, shard, job.address(phase.step, index))
                if shard.is_last:
                    share_deltas(result.deltas)
        except DeviceError as error:
            raise DeviceError(f"chunk {index}: {error}") from error
        deltas = result.deltas
        sums = add(sums, result.sums)
        transfers.pace.note_kernel(watch.lap("kernel"))
        if result.state is not None:
            _check_state(job, shard)
            transfers.write_state(index, result.state)
        watch.lap("write")
    assert deltas is not None
    report: ShardReport = {
        "sums": sums,
        "seconds": watch.seconds,
        "device": device.totals,
        "requests": REQUESTS.take(),
        "cached": watch.cached,
        "worker": worker_name(),
    }
    return deltas, report


def _check_state(job: Job, shard: Shard) -> None:
    if shard.is_later_range:
        raise ValueError(
            f"{type(job.algorithm).__name__}.sweep returned a state for a later range of blocks, which would replace "
            f"that of the first one: if shard.is_later_range, return no state, and the deltas that follow from it"
        )
    if not job.plan.keeps_state:
        raise ValueError(
            f"{type(job.algorithm).__name__}.sweep returned a state, but memory() has no bytes for one, so no sweep "
            f"would receive it: give MemoryEstimate the bytes of a chunk's state"
        )


def update_block(phase: SweepPhase, transfers: Transfers, block: int, delta: Arrays) -> AppliedBlock:
    """Update a block with its merged delta, write its next arrays, and return its small totals."""
    job = phase.job
    model = transfers.model()
    device = DeviceCounts()
    with device.counting():
        first = partial(job.first_arrays, block)
        before, shared = model.block(block), model.shared
        started = time.perf_counter()
        arrays, totals = job.algorithm.apply(before, delta, shared, first)
        seconds = time.perf_counter() - started
        check_finite(job.epoch(phase.step), f"block {block} of the model", arrays)
        write_block(job, phase.step, block, arrays, transfers.behind)
    return AppliedBlock(totals, {**device.totals, **REQUESTS.take(), "seconds_kernel": seconds})
