"""A worker's cache of data that it has read from stores. It makes tasks faster and never changes their results."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

#: The run, the kind of value, and further names that distinguish values of one kind.
Key = tuple[object, ...]
Value = TypeVar("Value")


class Cache:
    """Maps keys to one version of a value each. The first key of a new run clears the entries of the previous run.

    A full cache refuses new values instead of evicting old ones. An epoch reads all chunks in turn, so evicting the
    oldest value would always evict the one that is needed next.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loading: dict[Key, threading.Lock] = {}
        self._values: dict[Key, tuple[int, int, Any]] = {}
        self._bytes = 0
        self._run: object = ""

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self._bytes

    def get(self, key: Key, version: int = 0) -> Any | None:
        """Return the value if the cache has this version of it, else None."""
        with self._lock:
            entry = self._values.get(key)
        if entry is None or entry[0] != version:
            return None
        return entry[2]

    def put(self, key: Key, value: Any, *, version: int = 0, nbytes: int, budget: int) -> None:
        """Replace the previous version by this one, if the cache then occupies at most ``budget`` bytes.

        Values of 0 bytes, such as opened stores, always fit.
        """
        with self._lock:
            self._enter_run(key[0])
            previous = self._values.pop(key, None)
            # The previous version goes even if the new one does not fit: no task reads it again.
            if previous is not None:
                self._bytes -= previous[1]
            if nbytes == 0 or self._bytes + nbytes <= budget:
                self._values[key] = (version, nbytes, value)
                self._bytes += nbytes

    def load(
        self,
        key: Key,
        read: Callable[[], Value],
        *,
        version: int = 0,
        size: Callable[[Value], int] = lambda value: 0,
        budget: int = 0,
    ) -> Value:
        """Return the value of a key; if the cache does not have this version of it, ``read`` it first.

        If several threads need the same value, only one of them reads it.
        """
        with self._lock:
            self._enter_run(key[0])
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            # Another thread may have read it while this one waited for the lock.
            value = self.get(key, version)
            if value is None:
                value = read()
                self.put(key, value, version=version, nbytes=size(value), budget=budget)
            return value

    def _enter_run(self, run: object) -> None:
        if run != self._run:
            self._values.clear()
            self._loading.clear()
            self._bytes = 0
            self._run = run


#: The cache of this worker process.
CACHE = Cache()
