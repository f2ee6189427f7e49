"""Counts the requests of this process to object stores. Each takes a round trip and costs money."""

import threading
from collections import Counter


class RequestCounter:
    """Counts requests by kind: read, write, list and delete. Several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, kind: str, number: int = 1) -> None:
        """Count requests."""
        with self._lock:
            self._counts[kind] += number

    def take(self) -> dict[str, int]:
        """Return the counts since the last call, as ``requests_<kind>``. So each request is reported once."""
        with self._lock:
            counts = self._counts
            self._counts = Counter()
        return {f"requests_{kind}": number for kind, number in sorted(counts.items())}


#: The counter of this process.
REQUESTS = RequestCounter()
