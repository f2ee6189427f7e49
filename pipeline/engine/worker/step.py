"""The work of one worker in a step: sweep the chunks of a shard, and update a block."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ....io.stores.object_stores import REQUESTS
from ....io.stores.store import Arrays
from ....kernels.errors import DeviceError
from ..algorithm import Shard, SweepResult, add
from ..device import DeviceCounts, share_deltas
from .tasks import (
    AppliedBlock,
    Job,
    ShardReport,
    Stopwatch,
    SweepPhase,
    check_finite,
    worker_name,
    write_block,
)
from .transfers import Transfers


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
    for position, index in enumerate(chunks):
        transfers.read_chunks_ahead(list(chunks[position:]), upcoming())
        chunk = transfers.chunk(index, watch)
        state = transfers.state(index, watch)
        watch.lap("read")
        try:
            with device.counting():
                shard = Shard(deltas, phase.blocks, index == chunks[-1])
                if phase.range_index and state is not None:
                    result = SweepResult(None, job.algorithm.later_deltas(model, chunk, state, shard), {})
                else:
                    result = job.algorithm.sweep(model, chunk, state, shard, job.address(phase.step, index))
                if shard.is_last:
                    share_deltas(result.deltas)
        except DeviceError as error:
            raise DeviceError(f"chunk {index}: {error}") from error
        deltas = result.deltas
        sums = add(sums, result.sums)
        transfers.pace.note_kernel(watch.lap("kernel"))
        if result.state is not None:
            _check_state(job)
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


def _check_state(job: Job) -> None:
    if not job.keeps_state:
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
        arrays, totals = job.algorithm.apply(model.block(block), delta, model.shared, first)
        check_finite(job.epoch(phase.step), f"block {block} of the model", arrays)
        write_block(job, phase.step, block, arrays, transfers.behind)
    return AppliedBlock(totals, {**device.totals, **REQUESTS.take()})
