"""How much of a worker's memory limit its tasks may use, and which limit is enough."""

import math

#: Share of a worker's memory limit that a plan may use. Dask pauses a worker at 80%.
PLANNED_SHARE = 0.7
#: Bytes of a worker process before its first task: interpreter, libraries, compiled kernels.
PROCESS_BYTES = 320 << 20

_MIB = 1 << 20


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
