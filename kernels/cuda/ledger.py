"""Counts of what this process does on its CUDA device: copies, allocations, frees, launches and waits, by cause.

For most kernels here, copies and launches take longer than the arithmetic, so they have to be visible. Every operation
on the device goes through ``memory.py`` or ``launch.py``. These two files record it in `LEDGER`, on a device and in the
simulator alike. Tests compare the counts of a sweep with a formula.
"""

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple


class Operation(StrEnum):
    """One kind of operation on the device."""

    UPLOAD = "upload"  # a copy from the host to the device
    DOWNLOAD = "download"  # a copy from the device to the host
    RECEIVE = "receive"  # a copy from the device of another worker, which replaces a download there and an upload here
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


#: What was done: calls and bytes by entry.
Traffic = dict[Entry, Total]


class _Recordings(threading.local):
    """The recordings that are open in a thread; see `Ledger.recording`."""

    def __init__(self) -> None:
        self.open: list[Traffic] = []


class Ledger:
    """Calls and bytes by `Entry`. Any thread may record."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recordings = _Recordings()
        self._calls: Counter[Entry] = Counter()
        self._nbytes: Counter[Entry] = Counter()
        self._freed: deque[tuple[str, int]] = deque()

    def record(self, operation: Operation, cause: str, nbytes: int = 0) -> None:
        """Count one operation."""
        entry = Entry(operation, cause)
        with self._lock:
            self._calls[entry] += 1
            self._nbytes[entry] += nbytes
        self.include(entry, Total(1, nbytes))

    def include(self, entry: Entry, total: Total) -> None:
        """Add to the recordings of this thread what the process of another worker has done for it."""
        for recording in self._recordings.open:
            old = recording.get(entry, Total(0, 0))
            recording[entry] = Total(old.calls + total.calls, old.nbytes + total.nbytes)

    @contextmanager
    def recording(self) -> Iterator[Traffic]:
        """Context manager: yield a dictionary that collects what this thread does inside.

        Frees are missing: Python may run a finalizer in any thread.
        """
        recording: Traffic = {}
        self._recordings.open.append(recording)
        try:
            yield recording
        finally:
            # Not `remove`, which compares contents: two recordings may be equal.
            self._recordings.open.pop()

    def record_free(self, cause: str, nbytes: int) -> None:
        """Count one free. Finalizers call this.

        The garbage collector can run a finalizer at any allocation, also while this thread holds the lock. So this
        method takes no lock: appending to a deque is atomic.
        """
        self._freed.append((cause, nbytes))

    def totals(self) -> Traffic:
        """Return the counts since the process began."""
        while self._freed:
            cause, nbytes = self._freed.popleft()
            entry = Entry(Operation.FREE, cause)
            with self._lock:
                self._calls[entry] += 1
                self._nbytes[entry] += nbytes
        with self._lock:
            return {entry: Total(calls, self._nbytes[entry]) for entry, calls in self._calls.items()}


def difference(after: Traffic, before: Traffic) -> Traffic:
    """Return the counts between two calls of `Ledger.totals`, without entries that did not occur."""
    found = {}
    for entry, total in after.items():
        old = before.get(entry, Total(0, 0))
        if total.calls > old.calls:
            found[entry] = Total(total.calls - old.calls, total.nbytes - old.nbytes)
    return found


def by_operation(totals: Traffic) -> dict[str, int]:
    """Add up the causes of each operation: "device_upload_calls", "device_upload_bytes" and so on.

    Only copies and allocations have bytes. A copy between the devices of two workers is counted by the receiver.
    """
    found: Counter[str] = Counter()
    for entry, total in totals.items():
        found[f"device_{entry.operation}_calls"] += total.calls
        if total.nbytes:
            found[f"device_{entry.operation}_bytes"] += total.nbytes
    return dict(sorted(found.items()))


#: The ledger of this process.
LEDGER = Ledger()
