"""The memory plan of a run: how many bytes a worker will hold. It is made, and checked, before the first task."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

from ...io.errors import DataError
from ...kernels.cuda.host_memory import BUSY_TOKENS, pinned_bytes
from ...kernels.jit import cache_folder
from ..formatting import format_bytes
from .algorithm import AnyAlgorithm, MemoryEstimate, Needs
from .data import TrainingData
from .device import sends_device_memory
from .executors import Executor
from .grid import CellAlgorithm
from .memory import PLANNED_SHARE, PROCESS_BYTES, UNLIMITED, Capacity, limit_for, usable_bytes
from .training import Alternative, Cut, MemoryPlan
from .worker.buffers import AHEAD

#: Share of the memory that tasks leave, for buffers.
BUFFERS_SHARE = 0.25
#: Share of a CUDA device's free memory that tasks may use.
DEVICE_SHARE = 0.7
#: Maximum number of bytes of a run that is kept in memory, and the part of the memory limit that it may occupy. Nobody
#: resumes such a run, so files would only cost time.
IN_MEMORY_BYTES = 512 << 20
IN_MEMORY_SHARE = 1 / 16
#: Shares of the memory that tasks leave for blocks of a grid that wait for their next cell, and of the rest for what it
#: keeps from its sweeps. The others wait on the worker's disk.
HELD_OF_REST = 0.9
KEPT_OF_REST = 0.5
#: How many remedies a refusal names, how many times as many workers one of them may be, and the words for each.
MOST_REMEDIES = 2
MOST_WORKERS = 16
ADVICE = {
    "threads": "use at most {} thread(s) per worker",
    "memory": "raise memory_limit to {}MiB or more",
    "n_workers": "use {} workers",
}


class TooLarge(DataError):
    """Tasks do not fit into the memory of a worker."""

    def __init__(self, message: str, limit: int = UNLIMITED, remedies: Mapping[str, int] = MappingProxyType({})):
        super().__init__(message)
        self.limit = limit  # bytes of the smallest memory limit that is enough; UNLIMITED if a CUDA device is too small
        self.remedies = remedies  # "memory", "threads" or "n_workers", and its value


def plan_run(
    algorithm: AnyAlgorithm,
    cut: Cut | None,
    data: TrainingData,
    workers: Sequence[Capacity],
    smaller: Callable[[], Iterator[Alternative]] | None = None,
) -> tuple[AnyAlgorithm, MemoryPlan]:
    """Return the algorithm, cut into the least number of blocks with which its tasks fit the workers, and the plan.

    ``algorithm`` is taken as it is if it fits, or if there is no ``cut``: its results then depend on the blocks, or
    the user has chosen them. If nothing fits, raises DataError with the best remedies, of which the largest of the
    ``smaller`` models that fits may be one.
    """
    try:
        return algorithm, _fitting(algorithm, data, workers)
    except TooLarge as error:
        best = error
    fitting, best = _least_cut(cut, data, workers, best)
    if fitting is not None:
        return fitting
    remedies = _remedies(algorithm, cut, data, workers, best)
    advised = [ADVICE[name].format(value >> 20 if name == "memory" else value) for name, value in remedies.items()]
    if len(advised) < MOST_REMEDIES and smaller is not None:
        others = (other for other in smaller() if _fits(other.algorithm, other.cut, data, workers))
        advised += [other.advice for other in islice(others, 1)]
    if best.limit == UNLIMITED:
        advised.append("choose device 'cpu'")
    raise TooLarge(f"{best}: {', or '.join(advised)}", best.limit, remedies)


def _least_cut(
    cut: Cut | None, data: TrainingData, workers: Sequence[Capacity], best: TooLarge
) -> tuple[tuple[AnyAlgorithm, MemoryPlan] | None, TooLarge]:
    """Return what `plan_run` does, or None and the error of the cut that needs least, of those and ``best``."""
    if cut is None:
        return None, best
    found: tuple[AnyAlgorithm, MemoryPlan] | None = None
    tried: AnyAlgorithm | None = None
    n = 1
    while found is None:
        algorithm = cut(n)
        if tried is not None and algorithm == tried:
            return None, best
        tried = algorithm
        try:
            found = algorithm, _fitting(algorithm, data, workers)
        except TooLarge as error:
            best = min(error, best, key=lambda error: error.limit)
            n *= 2
    # Half as many were not enough. Fewer blocks are faster.
    least = n // 2 + 1
    while least < n:
        middle = (least + n) // 2
        try:
            algorithm = cut(middle)
            found = algorithm, _fitting(algorithm, data, workers)
            n = middle
        except TooLarge:
            least = middle + 1
    return found, best


def _fitting(algorithm: AnyAlgorithm, data: TrainingData, workers: Sequence[Capacity]) -> MemoryPlan:
    """Return the tightest plan of the workers; raise TooLarge for the one that lacks most."""
    # Most workers are equal, and a plan looks at all chunks.
    kinds = {(worker.threads, worker.memory, worker.device): worker for worker in workers}
    plans, errors = [], []
    for worker in kinds.values():
        try:
            plans.append(make_plan(algorithm, data, worker, len(workers)))
        except TooLarge as error:
            errors.append(error)
    if errors:
        raise max(errors, key=lambda error: error.limit)
    return min(plans, key=lambda plan: plan.cache)


def _fits(algorithm: AnyAlgorithm, cut: Cut | None, data: TrainingData, workers: Sequence[Capacity]) -> bool:
    """Return whether tasks fit the workers, perhaps with the model cut."""
    try:
        _fitting(algorithm, data, workers)
    except TooLarge as error:
        return _least_cut(cut, data, workers, error)[0] is not None
    return True


def _remedies(
    algorithm: AnyAlgorithm, cut: Cut | None, data: TrainingData, workers: Sequence[Capacity], best: TooLarge
) -> dict[str, int]:
    """Return at most two remedies by name, the best first. Each was tried: the run fits if nothing else changes."""

    def fits(changed: Sequence[Capacity]) -> bool:
        return _fits(algorithm, cut, data, changed)

    def too_many(threads: int) -> bool:
        return not fits([replace(worker, threads=min(worker.threads, threads)) for worker in workers])

    remedies = {}
    # A search, because a plan looks at all chunks, and a worker may have a hundred threads.
    threads = bisect_left(range(1, max(worker.threads for worker in workers)), True, key=too_many)
    if threads:
        remedies["threads"] = threads
    if best.limit < UNLIMITED:
        remedies["memory"] = best.limit
    smallest = min(workers, key=lambda worker: worker.memory)
    n_workers = len(workers)
    while len(remedies) < MOST_REMEDIES and n_workers < MOST_WORKERS * len(workers):
        n_workers *= 2
        if fits([*workers, *[smallest] * (n_workers - len(workers))]):
            remedies["n_workers"] = n_workers
    return remedies


def make_plan(algorithm: AnyAlgorithm, data: TrainingData, capacity: Capacity, n_workers: int = 1) -> MemoryPlan:
    """Return the plan of one of ``n_workers`` workers; raise TooLarge, with the numbers, if its tasks do not fit."""
    needs = algorithm.needs(data, n_workers)
    estimates = [algorithm.memory(data, chunk) for chunk in data.chunks]
    largest = max(estimates, key=lambda estimate: estimate.total)
    kept = needs.kept
    waiting = cells = 0
    if isinstance(algorithm, CellAlgorithm):
        cell = algorithm.cell_memory(data)
        largest = max(largest, cell, key=lambda estimate: estimate.total)
        # Blocks of a grid wait on a worker for their next cell.
        cells = capacity.threads * cell.waiting
        waiting = max(0, algorithm.n_blocks * cell.waiting - cells)
        # What has no space waits on its disk.
        kept = 0
    available = usable_bytes(capacity.memory)
    if needs.device != "cpu":
        _check_device(needs, max(estimate.device for estimate in estimates), capacity)
    pinned = 0
    if not capacity.device:
        largest = replace(largest, device=0)
    elif needs.device != "cpu":
        results = largest.state + largest.model + largest.delta
        copying = capacity.threads
        if isinstance(algorithm, CellAlgorithm):
            copying = algorithm.cells_at_once(copying, True)
        pinned = pinned_bytes(copying, capacity.threads * results)
    needed = pinned + kept + largest.total * capacity.threads
    left = available - needed
    if left < 0:
        raise TooLarge(_too_large(largest, capacity, available, pinned, kept), limit_for(needed))
    held = 0
    if isinstance(algorithm, CellAlgorithm):
        # Pairs are written and read once in a step, blocks many times.
        held = min(waiting, int(left * HELD_OF_REST))
        kept = min(needs.kept, int((left - held) * KEPT_OF_REST))
        left -= kept + held
    # Buffers for reading ahead and for writing behind, or a share of what is left, because a cache saves more.
    in_transit = AHEAD * capacity.threads * max(estimate.data + estimate.state for estimate in estimates)
    blocks = min(AHEAD, algorithm.n_blocks - 1) * largest.model
    buffers = min(2 * (in_transit + blocks), int(left * BUFFERS_SHARE))
    # The cache never needs more than all chunks, all states and one model. A task has a state before and after a sweep.
    everything = sum(estimate.data + estimate.state // 2 for estimate in estimates) + largest.model * algorithm.n_blocks
    cache = min(everything, left - buffers)
    return MemoryPlan(
        process=PROCESS_BYTES,
        threads=capacity.threads,
        task=largest,
        buffers=int(buffers),
        cache=int(cache),
        limit=capacity.memory,
        kept=kept,
        held=held,
        cells=cells,
        pinned=pinned,
        keeps_state=any(estimate.state for estimate in estimates),
        blocks=algorithm.n_blocks,
    )


def _check_device(needs: Needs, needed: int, capacity: Capacity) -> None:
    if needs.device == "cuda" and not capacity.device:
        raise ValueError(
            f"device is 'cuda', but {capacity.title} has no CUDA device that works: use a machine that has one "
            f"(pip install 'corpusmill[cuda12]', and `numba -s` to see what is missing), or device 'auto' or 'cpu'"
        )
    each = int(capacity.device * DEVICE_SHARE) // capacity.threads
    # Without a device, device 'auto' runs on the CPU, and there is nothing to check.
    if capacity.device and needed > each:
        raise TooLarge(
            f"a task needs {format_bytes(needed)} of device memory, but {capacity.title} has "
            f"{format_bytes(each)} for each of its {capacity.threads} threads ({format_bytes(capacity.device)} free)"
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

    It also says whether the chunks are too small.

    Each worker has one device, where it keeps the state of its shards (``kernels/cuda/residents.py``). At the end of a
    shard, its deltas are copied to the memory of the host, unless the algorithm merges them on the device. Workers
    fetch from each other what they need by the cluster's protocol. UCX sends what is on a device to the other device.
    """
    devices = [worker for worker in workers if worker.device]
    if needs.device == "cpu" or not devices:
        return ""
    parts = [_describe_merging(has_cells, devices), _describe_chunks(needs, data, len(devices))]
    if len(devices) < len(workers):
        where = f"{len(devices)} of {len(workers)} workers have a device, and the others train on the CPU"
        if has_cells:
            where += (
                ", so the model depends on where each part is trained: choose device 'cuda' or 'cpu' for equal bits"
            )
        parts.append(where)
    return "; ".join(part for part in parts if part)


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


def _too_large(need: MemoryEstimate, capacity: Capacity, available: int, pinned: int, kept: int) -> str:
    parts = ", ".join(f"{k} {format_bytes(getattr(need, k))}" for k in ("data", "state", "model", "delta", "scratch"))
    tasks = "its task"
    if capacity.threads > 1:
        tasks = f"each of its {capacity.threads} threads"
    less = [
        f"{1 - PLANNED_SHARE:.0%} as a reserve",
        f"{format_bytes(PROCESS_BYTES)} for Python with its libraries",
    ]
    if pinned:
        less.append(f"{format_bytes(pinned)} for copies from and to the GPU")
    if kept:
        less.append(f"{format_bytes(kept)} for what it keeps until the end of a step")
    each = max(0, available - pinned - kept) // capacity.threads
    return (
        f"a task needs {format_bytes(need.total)} ({parts}), but {capacity.title} has {format_bytes(each)} "
        f"for {tasks} ({format_bytes(capacity.memory)} memory limit, less {', '.join(less[:-1])} and {less[-1]})"
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
