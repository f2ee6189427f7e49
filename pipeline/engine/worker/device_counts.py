"""Counts of what the threads of a task do on the CUDA device of their worker."""

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

from ....kernels.cuda.ledger import LEDGER, by_operation


class DeviceCounts:
    """The operations of several threads on the device, by the names of `ledger.by_operation`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Context manager: count what this thread does on the device. Errors are not counted."""
        with LEDGER.recording() as traffic:
            yield
        with self._lock:
            self._counts.update(by_operation(traffic))

    @property
    def totals(self) -> dict[str, int]:
        """The counts so far."""
        with self._lock:
            return dict(self._counts)
