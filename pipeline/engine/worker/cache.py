"""A worker's cache of data that it has read from stores. It makes tasks faster and never changes their results."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

#: The run, the kind of value, and further names that distinguish values of one kind.
Key = tuple[object, ...]
Value = TypeVar("Value")


class _Entry(NamedTuple):
    version: int
    nbytes: int
    value: Any
    for_every_chunk: bool


class Cache:
    """Maps keys to one version of a value each. The first key of a new run clears the entries of the previous run.

    A full cache refuses new values instead of evicting old ones. An epoch reads all chunks in turn, so evicting the
    oldest value would always evict the one that is needed next. Only values that are read for every chunk evict others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loading: dict[Key, threading.Lock] = {}
        self._values: dict[Key, _Entry] = {}
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
        if entry is None or entry.version != version:
            return None
        return entry.value

    def put(
        self,
        key: Key,
        value: Any,
        *,
        version: int = 0,
        nbytes: int,
        budget: int,
        for_every_chunk: bool = False,
    ) -> None:
        """Replace the previous version by this one, if the cache then occupies at most ``budget`` bytes.

        Values of 0 bytes, such as opened stores, always fit. With ``for_every_chunk``, values that are not read for
        every chunk are evicted if there is no space otherwise.
        """
        with self._lock:
            self._enter_run(key[0])
            # The previous version goes even if the new one does not fit: no task reads it again.
            self._remove(key)
            if for_every_chunk:
                self._evict(self._bytes + nbytes - budget)
            if nbytes == 0 or self._bytes + nbytes <= budget:
                self._values[key] = _Entry(version, nbytes, value, for_every_chunk)
                self._bytes += nbytes

    def drop_older(self, beginning: Key, version: int) -> None:
        """Remove the values of versions before ``version`` whose keys begin with ``beginning``."""
        with self._lock:
            for key in list(self._values):
                if key[: len(beginning)] == beginning and self._values[key].version < version:
                    self._remove(key)

    def forget(self, run: object) -> None:
        """Remove all values of a run that is over. The next run would remove them, but there may be none for long."""
        with self._lock:
            if run == self._run:
                self._enter_run("")

    def _remove(self, key: Key) -> None:
        entry = self._values.pop(key, None)
        if entry is not None:
            self._bytes -= entry.nbytes

    def _evict(self, excess: int) -> None:
        """Remove ``excess`` bytes of values that are not read for every chunk. If there are fewer, remove nothing."""
        evictable = [key for key, entry in self._values.items() if entry.nbytes and not entry.for_every_chunk]
        if sum(self._values[key].nbytes for key in evictable) < excess:
            return
        target = self._bytes - excess
        while self._bytes > target:
            self._remove(evictable.pop())

    def load(
        self,
        key: Key,
        read: Callable[[], Value],
        *,
        version: int = 0,
        size: Callable[[Value], int] = lambda value: 0,
        budget: int = 0,
        for_every_chunk: bool = False,
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
                self.put(
                    key,
                    value,
                    version=version,
                    nbytes=size(value),
                    budget=budget,
                    for_every_chunk=for_every_chunk,
                )
            return value

    def _enter_run(self, run: object) -> None:
        if run != self._run:
            self._values.clear()
            self._loading.clear()
            self._bytes = 0
            self._run = run


#: The cache of this worker process.
CACHE = Cache()
