"""The memory plan of a run: how many bytes a worker will hold. It is made, and checked, before the first task."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...io.errors import DataError
from ...kernels.cuda.busy import BUSY_TOKENS
from ...kernels.cuda.host_memory import pinned_bytes
from ...kernels.jit import cache_folder
from ..formatting import format_bytes
from .algorithm import AnyAlgorithm, MemoryEstimate, Needs
from .data import TrainingData
from .device import sends_device_memory
from .executors import Executor
from .grid import has_grid
from .memory import PLANNED_SHARE, PROCESS_BYTES, Capacity, limit_for, usable_bytes
from .training import Advice
from .worker.overlap import MAX_AHEAD

#: Share of the memory that tasks leave, for buffers.
BUFFERS_SHARE = 0.25
#: Maximum number of bytes of a run that is kept in memory, and the part of the memory limit that it may occupy. Nobody
#: resumes such a run, so files would only cost time.
IN_MEMORY_BYTES = 512 << 20
IN_MEMORY_SHARE = 1 / 16
#: What gives memory to arrays on a device, by the names of kernels/cuda/allocator.py.
MEMORY_MANAGERS = {
    "default": "cuMemAlloc",
    "rmm.allocators.numba": "RMM's stream-ordered pool",
}


@dataclass(frozen=True)
class MemoryPlan:
    """The bytes that one worker is expected to hold, and its limit (0: none)."""

    process: int
    threads: int
    task: MemoryEstimate
    buffers: int
    cache: int
    limit: int
    held: int = 0  # what was swept in a step, and arrays that wait for later tasks
    pinned: int = 0  # memory for copies from and to a CUDA device, besides the results that it holds
    keeps_state: bool = True  # whether each chunk has a state

    @property
    def total(self) -> int:
        """Expected peak of the worker's memory in bytes."""
        own = self.process + self.pinned + self.buffers + self.held + self.cache
        return own + self.threads * self.task.total

    def as_numbers(self) -> dict[str, int]:
        """The plan as plain numbers, for events and reports."""
        parts = ("data", "state", "model", "delta", "scratch", "device")
        causes = {f"task_{k}": int(getattr(self.task, k)) for k in parts}
        return causes | {
            "process": self.process,
            "threads": self.threads,
            "buffers": self.buffers,
            "held": self.held,
            "pinned": self.pinned,
            "cache": self.cache,
            "total": self.total,
            "limit": self.limit,
        }


def make_plan(
    algorithm: AnyAlgorithm, data: TrainingData, capacity: Capacity, n_workers: int = 1, advice: Advice | None = None
) -> MemoryPlan:
    """Return the plan of one of ``n_workers`` workers; raise DataError, with the numbers, if its tasks do not fit."""
    advice = advice or Advice()
    needs = algorithm.needs(data, n_workers)
    estimates = [algorithm.memory(data, chunk) for chunk in data.chunks]
    largest = max(estimates, key=lambda estimate: estimate.total)
    # Blocks of a grid wait on a worker for their next cell.
    held_share = 0.0
    waiting = 0
    if has_grid(algorithm):
        cell = algorithm.cell_memory(data)
        largest = max(largest, cell, key=lambda estimate: estimate.total)
        held_share = algorithm.held_share
        waiting = algorithm.n_blocks * cell.total
    available = usable_bytes(capacity.memory, held_share)
    if needs.device != "cpu":
        _check_device(needs, max(estimate.device for estimate in estimates), capacity, advice)
    pinned = 0
    if not capacity.device:
        largest = replace(largest, device=0)
    elif needs.device != "cpu":
        results = largest.state + largest.model + largest.delta
        pinned = pinned_bytes(capacity.threads, capacity.threads * results)
    left = available - pinned - needs.kept - largest.total * capacity.threads
    if left < 0:
        raise DataError(_too_large(largest, capacity, available, pinned, needs.kept, held_share, advice=advice))
    # Buffers for reading ahead and for writing behind: as many chunks as the slowest store needs, or a share of what is
    # left, because a cache saves more.
    in_transit = max(estimate.data + estimate.state for estimate in estimates) + largest.model
    buffers = min(2 * MAX_AHEAD * capacity.threads * in_transit, int(left * BUFFERS_SHARE))
    # The cache never needs more than all chunks, all states and one model. A task has one block of it at least.
    everything = sum(estimate.data + estimate.state for estimate in estimates) + largest.model * algorithm.n_blocks
    cache = min(everything, left - buffers)
    held = needs.kept + min(int(capacity.memory * held_share), waiting)
    return MemoryPlan(
        process=PROCESS_BYTES,
        threads=capacity.threads,
        task=largest,
        buffers=int(buffers),
        cache=int(cache),
        limit=capacity.memory,
        held=held,
        pinned=pinned,
        keeps_state=any(estimate.state for estimate in estimates),
    )


def _check_device(needs: Needs, needed: int, capacity: Capacity, advice: Advice) -> None:
    if needs.device == "cuda" and not capacity.device:
        raise ValueError(
            f"device is 'cuda', but {capacity.title} has no CUDA device that works: use a machine that has one "
            f"(pip install 'corpusmill[cuda12]', and `numba -s` to see what is missing), or device 'auto' or 'cpu'"
        )
    each = int(capacity.device * PLANNED_SHARE) // capacity.threads
    # Without a device, device 'auto' runs on the CPU, and there is nothing to check.
    if capacity.device and needed > each:
        raise DataError(
            f"a task needs {format_bytes(needed)} of device memory, but {capacity.title} has "
            f"{format_bytes(each)} for each of its {capacity.threads} threads ({format_bytes(capacity.device)} free): "
            f"use fewer threads per worker, {advice.size}, ingest with a smaller chunk_tokens, or choose "
            f"device 'cpu'"
        )


def must_compile(modules: Iterable[str], on_device: bool) -> bool:
    """Return whether sweeps compile their kernels first, because the cache of this machine does not have them."""
    for module in modules:
        path = module.split(".")
        folder = cache_folder("cuda" if on_device else path[0])
        # Numba names the files of a kernel by its module and its function. One file shows that sweeps ran before on
        # this machine, because nothing else compiles kernels of these modules.
        if not any(folder.rglob(f"{path[-1]}.*.nbi")):
            return True
    return False


def describe_devices(needs: Needs, data: TrainingData, workers: Sequence[Capacity], has_cells: bool = False) -> str:
    """Return how many devices train, and how their deltas are merged; nothing if no worker has a device to use.

    It also says where device memory comes from, and whether the chunks are too small.

    Each worker has one device, where it keeps the state of its shards (``kernels/cuda/residents.py``). At the end of a
    shard, its deltas are copied to the memory of the host, unless the algorithm merges them on the device. Workers
    fetch from each other what they need by the cluster's protocol. UCX sends what is on a device to the other device.
    """
    devices = [worker for worker in workers if worker.device]
    if needs.device == "cpu" or not devices:
        return ""
    parts = [
        _describe_merging(has_cells, devices),
        _describe_memory(devices),
        _describe_chunks(needs, data, len(devices)),
    ]
    return "; ".join(part for part in parts if part)


def _describe_memory(devices: Sequence[Capacity]) -> str:
    names = {worker.device_manager for worker in devices if worker.device_manager}
    if not names:
        return ""
    managers = " and ".join(sorted(MEMORY_MANAGERS.get(name, name) for name in names))
    return f"arrays take device memory from {managers}"


def _describe_chunks(needs: Needs, data: TrainingData, n_devices: int) -> str:
    """Return advice if the chunks are so small that launches take longer than kernels, and larger ones are possible."""
    tokens = sum(chunk.tokens for chunk in data.chunks)
    best = max((BUSY_TOKENS.get(module, 0) for module in needs.kernels), default=0)
    if tokens < best:
        return ""  # the whole data is small, and trains in moments
    mean = tokens // len(data.chunks)
    enough = min(best, -(-tokens // n_devices))
    # Twice as large chunks at least, or it is not worth another ingest.
    if enough < 2 * mean:
        return ""
    return (
        f"chunks of about {mean:,} tokens are small for a device, which then mostly waits for launches: "
        f"ingest with chunk_tokens={enough}"
    )


def _describe_merging(has_cells: bool, devices: Sequence[Capacity]) -> str:
    if len(devices) == 1 and has_cells:
        return "1 device; its deltas are merged in the memory of the host"
    if len(devices) == 1:
        return "1 device, where its deltas are merged"
    protocols = " and ".join(sorted({worker.address.partition("://")[0] for worker in devices}))
    what = "their deltas"
    if has_cells:
        what = "the blocks that they exchange"
    way = "through the memory of the host"
    if all(sends_device_memory(worker.address) for worker in devices):
        way = "from device to device"
    return f"{len(devices)} devices, one per worker; {what} move {way} ({protocols})"


def _too_large(
    need: MemoryEstimate,
    capacity: Capacity,
    available: int,
    pinned: int,
    swept: int,
    held_share: float,
    *,
    advice: Advice,
) -> str:
    parts = ", ".join(f"{k} {format_bytes(getattr(need, k))}" for k in ("data", "state", "model", "delta", "scratch"))
    enough = limit_for(need.total * capacity.threads + pinned + swept, held_share)
    tasks = "its task"
    fewer_threads = ""
    if capacity.threads > 1:
        tasks = f"each of its {capacity.threads} threads"
        fewer_threads = "use fewer threads per worker, "
    less = [
        f"{1 - PLANNED_SHARE + held_share:.0%} as a reserve",
        f"{format_bytes(PROCESS_BYTES)} for Python with its libraries",
    ]
    if pinned:
        less.append(f"{format_bytes(pinned)} for copies from and to the GPU")
    more_workers = ""
    if swept:
        less.append(f"{format_bytes(swept)} for what it keeps until the end of a step")
        more_workers = "use more workers, "
    each = max(0, available - pinned - swept) // capacity.threads
    return (
        f"a task needs {format_bytes(need.total)} ({parts}), but {capacity.title} has {format_bytes(each)} "
        f"for {tasks} ({format_bytes(capacity.memory)} memory limit, less {', '.join(less[:-1])} and {less[-1]}): "
        f"raise memory_limit to {enough} or more, "
        f"{more_workers}{fewer_threads}{advice.size}, or ingest with a smaller chunk_tokens"
    )


def fits_in_memory(algorithm: AnyAlgorithm, data: TrainingData, executor: Executor) -> bool:
    """Return whether a run may be kept in memory: it is trained in this process, and its model and states are small.

    Training of small data would otherwise spend most of its time on files.
    """
    if not executor.runs_here or not data.chunks:
        return False
    estimates = [algorithm.memory(data, chunk) for chunk in data.chunks]
    # Two steps are kept while the next one is written.
    needed = sum(2 * estimate.state for estimate in estimates) + 3 * max(estimate.model for estimate in estimates)
    (worker,) = executor.capacities()
    limit = IN_MEMORY_BYTES
    if worker.memory:
        limit = min(limit, int(IN_MEMORY_SHARE * worker.memory))
    return needed <= limit
