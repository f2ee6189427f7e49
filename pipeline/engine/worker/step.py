"""The work of one worker in a step: sweep chunks, and update blocks."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ....io.stores.object_stores import REQUESTS
from ....io.stores.store import Arrays
from ....kernels.errors import DeviceError
from ..algorithm import Shard, add
from ..device import DeviceCounts, share_deltas
from .tasks import (
    SHARED,
    AppliedBlock,
    Job,
    ModelPart,
    ShardReport,
    Stopwatch,
    SweptShard,
    check_finite,
    worker_name,
    write_block,
)
from .transfers import Transfers


class ShardSweeper:
    """Sweeps shards with the threads of one worker."""

    def __init__(self, job: Job, step: int, blocks: range, transfers: Transfers):
        self._job = job
        self._step = step
        self._blocks = blocks
        self._transfers = transfers

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, job: Job, step: int, blocks: range, shared: Arrays | None, n_threads: int
    ) -> Iterator["ShardSweeper"]:
        """Context manager: at its end, the states of all chunks are on disk. ``shared``: see `SweepPhase`."""
        transfers = Transfers(job, step, shared, n_threads)
        with transfers.opened():
            # Sweeps read the same parts of the model in each step.
            transfers.read_parts_ahead(list(transfers.pace.model_parts))
            yield cls(job, step, blocks, transfers)

    def shard(self, chunks: Sequence[int], upcoming: Callable[[], Iterable[int]]) -> SweptShard:
        """Sweep the chunks of a shard in order and write their next states.

        ``upcoming`` returns the chunks of shards that this worker will probably sweep next.
        """
        watch = Stopwatch()
        transfers = self._transfers
        model = transfers.model(watch, transfers.pace.model_parts)
        deltas: list[Arrays] | None = None
        sums: Arrays = {}
        device = DeviceCounts()
        for position, index in enumerate(chunks):
            transfers.read_chunks_ahead(list(chunks[position:]), upcoming())
            chunk = transfers.chunk(index, watch)
            state = transfers.state(index, watch)
            watch.lap("read")
            try:
                with device.counting():
                    shard = Shard(deltas, self._blocks, index == chunks[-1])
                    address = self._job.address(self._step, index)
                    result = self._job.algorithm.sweep(model, chunk, state, shard, address)
                    if shard.is_last:
                        share_deltas(result.deltas)
            except DeviceError as error:
                raise DeviceError(f"chunk {index}: {error}") from error
            deltas = result.deltas
            sums = add(sums, result.sums)
            transfers.pace.note_kernel(watch.lap("kernel"))
            if result.state is not None:
                self._check_state()
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
        return SweptShard(deltas, report)

    def _check_state(self) -> None:
        if not self._job.keeps_state:
            raise ValueError(
                f"{type(self._job.algorithm).__name__}.sweep returned a state, but memory() has no bytes for one, so "
                f"no sweep would receive it: give MemoryEstimate the bytes of a chunk's state"
            )


class BlockUpdater:
    """Updates blocks of the model with their merged deltas."""

    def __init__(self, job: Job, step: int, transfers: Transfers):
        self._job = job
        self._step = step
        self._transfers = transfers
        self._model = transfers.model()

    @classmethod
    @contextlib.contextmanager
    def opened(cls, job: Job, step: int, shared: Arrays | None) -> Iterator["BlockUpdater"]:
        """Context manager: at its end, all updated blocks are on disk. ``shared``: see `SweepPhase`."""
        transfers = Transfers(job, step, shared)
        with transfers.opened():
            yield cls(job, step, transfers)

    def read_ahead(self, blocks: Iterable[int]) -> None:
        """Start to read what the updates of some blocks need."""
        self._transfers.read_parts_ahead([SHARED, *(ModelPart("block", block) for block in blocks)])

    def apply(self, block: int, delta: Arrays) -> AppliedBlock:
        """Write a block's next arrays and return its small totals."""
        job = self._job
        device = DeviceCounts()
        with device.counting():
            first = partial(job.first_arrays, block)
            arrays, totals = job.algorithm.apply(self._model.block(block), delta, self._model.shared, first)
            check_finite(job.epoch(self._step), f"block {block} of the model", arrays)
            write_block(self._job, self._step, block, arrays, self._transfers.behind)
        measured: dict[str, float] = {**device.totals, **REQUESTS.take()}
        return AppliedBlock(totals, measured)
