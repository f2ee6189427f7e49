"""The work of one worker in a step: sweep chunks, and update blocks."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from ....io.stores.request_counter import REQUESTS
from ....io.stores.store import Arrays
from ....kernels.cuda.residents import RESIDENTS
from ....kernels.errors import DeviceError
from ..algorithm import Address, add, nbytes
from ..device import share_deltas
from ..finite import check_finite
from .cache import CACHE
from .device_counts import DeviceCounts
from .tasks import (
    SHARED,
    AppliedBlock,
    ModelPart,
    ShardReport,
    Stopwatch,
    SweptShard,
    TrainingJob,
    worker_name,
    write_block,
)
from .transfers import Transfers


class ShardSweeper:
    """Sweeps shards with the threads of one worker."""

    def __init__(self, job: TrainingJob, step: int, range_index: int, transfers: Transfers):
        self._job = job
        self._step = step
        self._algorithm = job.algorithm.for_range(range_index)
        self._transfers = transfers

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, job: TrainingJob, step: int, range_index: int, shared: Arrays | None, n_threads: int
    ) -> Iterator["ShardSweeper"]:
        """Context manager: at its end, the states of all chunks are on disk. ``shared``: see `SweepPhase`."""
        transfers = Transfers(job, step, shared, n_threads)
        with transfers.opened():
            # Sweeps read the same parts of the model in each step.
            transfers.read_parts_ahead(list(transfers.pace.model_parts))
            yield cls(job, step, range_index, transfers)

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
                    address = Address(self._job.seed, self._step, index)
                    result = self._algorithm.sweep(model, chunk, state, deltas, address)
            except DeviceError as error:
                raise DeviceError(f"chunk {index}: {error}") from error
            deltas = result.deltas
            sums = add(sums, result.sums)
            transfers.pace.note_kernel(watch.lap("kernel"))
            if result.state is not None:
                transfers.write_state(index, result.state)
            watch.lap("write")
        assert deltas is not None
        with device.counting():
            deltas = self._algorithm.finish_shard(deltas)
            if self._algorithm.merges_on_device:
                share_deltas(deltas)
            else:
                RESIDENTS.bring_back(array for delta in deltas for array in delta.values())
        watch.lap("kernel")
        report: ShardReport = {
            "sums": sums,
            "seconds": watch.seconds,
            "device": device.totals,
            "requests": REQUESTS.take(),
            "cached": watch.cached,
            "worker": worker_name(),
        }
        return SweptShard(deltas, report)


class BlockUpdater:
    """Updates blocks of the model with their merged deltas."""

    def __init__(self, job: TrainingJob, step: int, transfers: Transfers):
        self._job = job
        self._step = step
        self._transfers = transfers
        self._model = transfers.model()

    @classmethod
    @contextlib.contextmanager
    def opened(cls, job: TrainingJob, step: int, shared: Arrays | None) -> Iterator["BlockUpdater"]:
        """Context manager: at its end, all updated blocks are on disk. ``shared``: see `SweepPhase`."""
        transfers = Transfers(job, step, shared)
        with transfers.opened():
            yield cls(job, step, transfers)

    def read_ahead(self, blocks: Iterable[int]) -> None:
        """Start to read what the updates of some blocks need."""
        self._transfers.read_parts_ahead([SHARED, *(ModelPart("block", block) for block in blocks)])

    def apply(self, block: int, delta: Arrays) -> AppliedBlock:
        """Write a block's next arrays and return its small totals."""
        algorithm = self._job.algorithm
        constant = _constant_delta(self._job, block)
        device = DeviceCounts()
        with device.counting():
            if constant is not None:
                delta = algorithm.merge(constant, delta)
            arrays, totals = algorithm.apply(self._model.block(block), delta, self._model.shared)
            check_finite(algorithm, self._step, f"block {block} of the model", arrays)
            write_block(self._job, self._step, block, arrays, self._transfers.behind)
        measured: dict[str, float] = {**device.totals, **REQUESTS.take()}
        return AppliedBlock(totals, measured)


def _constant_delta(job: TrainingJob, block: int) -> Arrays | None:
    def make() -> Arrays | None:
        return job.algorithm.constant_delta(job.open(job.data), block, job.previous)

    def size(delta: Arrays | None) -> int:
        return nbytes(delta or {})

    return CACHE.load((job.training, "constant", block), make, size=size, budget=job.cache_bytes)
