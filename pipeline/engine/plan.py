"""The memory of a run, before it begins: what a worker will hold, and whether that fits."""

from dataclasses import dataclass
from typing import Any

from dask.utils import format_bytes

from ...io.stores.store import DataError
from .algorithm import Algorithm, Need
from .executors import Capacity

#: Share of a worker's memory limit that is planned with: Dask pauses a worker at 80%.
PLANNED_SHARE = 0.7
#: Bytes of a worker process before it does anything: interpreter, libraries, compiled kernels.
PROCESS_BYTES = 320 << 20


@dataclass(frozen=True)
class Plan:
    """Bytes of one worker: what it is projected to hold, and its limit (0: none)."""

    process: int
    threads: int
    task: Need
    cache: int
    limit: int

    @property
    def total(self) -> int:
        """Projected peak."""
        return self.process + self.threads * self.task.total + self.cache

    def as_numbers(self) -> dict[str, int]:
        """The plan as plain numbers, for events and reports."""
        parts = ("data", "state", "model", "delta", "scratch", "device")
        causes = {f"task_{k}": int(getattr(self.task, k)) for k in parts}
        return causes | {
            "process": self.process,
            "threads": self.threads,
            "cache": self.cache,
            "total": self.total,
            "limit": self.limit,
        }


def plan(algorithm: Algorithm, data: Any, capacity: Capacity) -> Plan:
    """Project a worker's memory; raise DataError, with the numbers, when its tasks do not fit."""
    largest = max((algorithm.need(data, c) for c in data.chunks), key=lambda n: n.total)
    if algorithm.device != "cpu":
        _check_device(algorithm, max(algorithm.need(data, c).device for c in data.chunks), capacity)
    limit = capacity.memory
    room = int(limit * PLANNED_SHARE) if limit else 1 << 62
    tasks_bytes = PROCESS_BYTES + capacity.threads * largest.total
    if tasks_bytes > room:
        raise DataError(_too_large(largest, capacity, room))
    whole = sum(algorithm.need(data, c).data + algorithm.need(data, c).state for c in data.chunks)
    cache = min(whole + largest.model, room - tasks_bytes)
    return Plan(PROCESS_BYTES, capacity.threads, largest, int(cache), limit)


def _check_device(algorithm: Algorithm, needed: int, capacity: Capacity) -> None:
    if algorithm.device == "cuda" and not capacity.device:
        raise ValueError(
            f"device is 'cuda', but worker {capacity.name} has no CUDA device that works: use a machine that has one "
            f"(pip install 'corpusmill[cuda12]', and `numba -s` to see what is missing), or device 'auto' or 'cpu'"
        )
    each = int(capacity.device * PLANNED_SHARE) // capacity.threads
    if capacity.device and needed > each:
        raise DataError(
            f"a task needs {format_bytes(needed)} of device memory, but worker {capacity.name} has "
            f"{format_bytes(each)} for each of its {capacity.threads} threads ({format_bytes(capacity.device)} free): "
            f"use fewer threads a worker, cut the model with n_blocks, ingest with a smaller chunk_tokens, or choose "
            f"device 'cpu'"
        )


def _too_large(need: Need, capacity: Capacity, room: int) -> str:
    parts = ", ".join(f"{k} {format_bytes(getattr(need, k))}" for k in ("data", "state", "model", "delta", "scratch"))
    each = max(0, room - PROCESS_BYTES) // capacity.threads
    return (
        f"a task needs {format_bytes(need.total)} ({parts}), but worker {capacity.name} has {format_bytes(each)} "
        f"for each of its {capacity.threads} threads ({format_bytes(capacity.memory)} memory limit): raise "
        f"memory_limit, use fewer threads a worker, cut the model with n_blocks, or ingest with a smaller chunk_tokens"
    )
