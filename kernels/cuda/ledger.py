"""Counts of what this process does on its CUDA device: copies, allocations, launches and waits, by cause.

For most kernels here, copies and launches take longer than the arithmetic, so they have to be visible. Every operation
on the device goes through ``memory.py`` or ``launch.py``. These two files record it in `LEDGER`. Tests compare the
counts of a sweep with a formula.
"""

import threading
from collections import Counter
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
    LAUNCH = "launch"  # a kernel, or a call of an NVIDIA library
    WAIT = "wait"  # the host waits for the device


class Entry(NamedTuple):
    """One line of the ledger: an operation and the reason for it."""

    operation: Operation
    cause: str  # the array that is copied or allocated; the kernel that is launched


class Total(NamedTuple):
    """How often an entry occurred, and how many bytes it moved."""

    calls: int
    nbytes: int


#: What was done: calls and bytes by entry.
Traffic = dict[Entry, Total]


class Ledger(threading.local):
    """Collects what a thread does, as calls and bytes by `Entry`, while recordings are open in the thread."""

    def __init__(self) -> None:
        self._open: list[Traffic] = []

    def record(self, operation: Operation, cause: str, nbytes: int = 0) -> None:
        """Count one operation."""
        self.include(Entry(operation, cause), Total(1, nbytes))

    def include(self, entry: Entry, total: Total) -> None:
        """Add to the recordings of this thread what the process of another worker has done for it."""
        for recording in self._open:
            old = recording.get(entry, Total(0, 0))
            recording[entry] = Total(old.calls + total.calls, old.nbytes + total.nbytes)

    @contextmanager
    def recording(self) -> Iterator[Traffic]:
        """Context manager: yield a dictionary that collects what this thread does inside."""
        recording: Traffic = {}
        self._open.append(recording)
        try:
            yield recording
        finally:
            # Not `remove`, which compares contents: two recordings may be equal.
            self._open.pop()


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
