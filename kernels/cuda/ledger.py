"""Counts of what this process does on its CUDA device: copies, allocations, frees, launches and waits, by cause.

For most kernels here, copies and launches take longer than the arithmetic, so they have to be visible. Every operation
on the device goes through ``memory.py`` or ``launch.py``. These two files record it in `LEDGER`, on a device and in the
simulator alike. Tests compare the counts of a sweep with a formula.
"""

import threading
from collections import Counter, deque
from enum import StrEnum
from typing import NamedTuple


class Operation(StrEnum):
    """One kind of operation on the device."""

    UPLOAD = "upload"  # a copy from the host to the device
    DOWNLOAD = "download"  # a copy from the device to the host
    ALLOCATE = "allocate"  # device memory reserved
    FREE = "free"  # device memory given back
    LAUNCH = "launch"  # a kernel, or a call of an NVIDIA library
    WAIT = "wait"  # the host waits for the device


class Entry(NamedTuple):
    """One line of the ledger: an operation and the reason for it."""

    operation: Operation
    cause: str  # the array that is copied, allocated or freed; the kernel that is launched


class Total(NamedTuple):
    """How often an entry occurred, and how many bytes it moved."""

    calls: int
    nbytes: int


class Ledger:
    """Calls and bytes by `Entry`. Any thread may record."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[Entry] = Counter()
        self._nbytes: Counter[Entry] = Counter()
        self._freed: deque[tuple[str, int]] = deque()

    def record(self, operation: Operation, cause: str, nbytes: int = 0) -> None:
        """Count one operation."""
        entry = Entry(operation, cause)
        with self._lock:
            self._calls[entry] += 1
            self._nbytes[entry] += nbytes

    def record_free(self, cause: str, nbytes: int) -> None:
        """Count one free. Finalizers call this.

        The garbage collector can run a finalizer at any allocation, also while this thread holds the lock. So this
        method takes no lock: appending to a deque is atomic.
        """
        self._freed.append((cause, nbytes))

    def totals(self) -> dict[Entry, Total]:
        """Return the counts since the process began."""
        while self._freed:
            self.record(Operation.FREE, *self._freed.popleft())
        with self._lock:
            return {entry: Total(calls, self._nbytes[entry]) for entry, calls in self._calls.items()}


def difference(after: dict[Entry, Total], before: dict[Entry, Total]) -> dict[Entry, Total]:
    """Return what was counted between two calls of `Ledger.totals`, without entries that did not occur."""
    found = {}
    for entry, total in after.items():
        old = before.get(entry, Total(0, 0))
        if total.calls > old.calls:
            found[entry] = Total(total.calls - old.calls, total.nbytes - old.nbytes)
    return found


#: The ledger of this process.
LEDGER = Ledger()
