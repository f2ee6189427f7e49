"""How much of a worker's memory limit its tasks may use, which limit is enough, and how workers reuse memory."""

import ctypes
import math

#: Share of a worker's memory limit that a plan may use. Dask pauses a worker at 80%.
PLANNED_SHARE = 0.7
#: Bytes of a worker process before its first task: interpreter, libraries, compiled kernels.
PROCESS_BYTES = 320 << 20
#: Arrays of at most this size reuse the memory of others. glibc allows no more.
REUSED_BYTES = 32 << 20
#: Bytes of free memory at the end of the heap that a process keeps.
KEPT_BYTES = 64 << 20

_MIB = 1 << 20
#: The numbers of glibc's options.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def usable_bytes(limit: int, held_share: float = 0.0) -> int:
    """Return the bytes that the tasks of a worker may use if its memory limit is ``limit`` bytes.

    ``held_share`` is the share of the limit for results that wait for other tasks.
    """
    return max(0, int(limit * (PLANNED_SHARE - held_share)) - PROCESS_BYTES)


def limit_for(usable: int, held_share: float = 0.0) -> str:
    """Return the smallest memory limit that lets tasks use ``usable`` bytes, as settings take it, such as 640MiB."""
    limit = math.ceil((usable + PROCESS_BYTES) / (PLANNED_SHARE - held_share) / _MIB)
    # Rounding may have lost a byte.
    while usable_bytes(limit * _MIB, held_share) < usable:
        limit += 1
    return f"{limit}MiB"


def keep_freed_memory() -> None:
    """Let this process keep the memory of freed arrays for the next ones, if its C library is glibc.

    Dask starts workers with a setting that returns all memory to the system at once. The system then provides new pages
    for each array, which takes up to a quarter of an epoch. Large arrays are still returned at once, so that the memory
    limit sees what is really in use.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, REUSED_BYTES)
        set_option(_M_TRIM_THRESHOLD, KEPT_BYTES)
