"""The threads and the memory of workers: how much of a limit tasks may use, and how freed memory is used again."""

import contextlib
import math
from dataclasses import dataclass
from pathlib import Path

from ...io.stores.local_files import c_function

#: Share of a worker's memory limit that a plan may use. Dask pauses a worker at 80%.
PLANNED_SHARE = 0.7
#: Bytes of a worker process before its first task: interpreter, libraries, compiled kernels.
PROCESS_BYTES = 320 << 20
#: Stands for memory without a limit.
UNLIMITED = 1 << 62
#: The memory of arrays of at most this size is kept. glibc allows no more.
KEPT_ARRAY_BYTES = 32 << 20
#: Share of a worker's memory limit that is kept for larger arrays.
KEPT_SHARE = 0.05

_MIB = 1 << 20
#: The numbers of glibc's options.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3


@dataclass(frozen=True)
class Capacity:
    """The threads and the memory of one worker, in bytes; ``memory`` is 0 if there is no limit."""

    name: str
    address: str  # "" for this process
    threads: int
    memory: int
    device: int = 0  # bytes of its CUDA device; 0 if it has none or if nobody requested the figure

    @property
    def title(self) -> str:
        """What messages call the worker."""
        return f"worker {self.name}" if self.address else self.name


def usable_bytes(limit: int) -> int:
    """Return the bytes that the tasks of a worker may use if its memory limit is ``limit`` bytes; 0 is no limit."""
    if not limit:
        return UNLIMITED
    return max(0, int(limit * PLANNED_SHARE) - PROCESS_BYTES)


def limit_for(usable: int) -> int:
    """Return the smallest memory limit that lets tasks use ``usable`` bytes, in whole MiB."""
    limit = math.ceil((usable + PROCESS_BYTES) / PLANNED_SHARE / _MIB)
    # Rounding may have lost a byte.
    while usable_bytes(limit * _MIB) < usable:
        limit += 1
    return limit * _MIB


def keep_freed_memory(limit: int) -> bool:
    """Let this process keep the memory of freed arrays for the next ones. Return whether its C library can: glibc can.

    Dask starts workers with a setting that returns all memory to the system at once. The system then provides new pages
    for each array, which takes up to a quarter of an epoch. An array of more than KEPT_ARRAY_BYTES is kept only if
    there was a gap for it. So the end of the heap, in bytes a share of the memory limit, ``limit``, is kept for such
    arrays. Gaps below other arrays stay until `return_freed_memory`.
    """
    set_option = c_function("mallopt")
    if set_option is None:
        return False
    # At the end of the heap. glibc takes a number of 32 bits.
    kept = max(2 * KEPT_ARRAY_BYTES, min(int(limit * KEPT_SHARE), 1 << 30))
    set_option(_M_MMAP_THRESHOLD, KEPT_ARRAY_BYTES)
    set_option(_M_TRIM_THRESHOLD, kept)
    set_option(_M_TOP_PAD, kept)
    return True


def begin_peak() -> None:
    """Forget the peak of this process's memory so far, where the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Return the peak of this process's memory since `begin_peak`; 0 if the system does not tell it."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) << 10
    except (OSError, IndexError):
        return 0


def return_freed_memory() -> None:
    """Return all memory that this process has kept to the system, if its C library can."""
    trim = c_function("malloc_trim")
    if trim is not None:
        trim(0)
