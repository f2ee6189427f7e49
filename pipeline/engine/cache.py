"""A worker's memory of what the store holds: never needed for a right answer, only for a quick one."""

import threading
from collections.abc import Callable
from typing import Any

_Key = tuple[Any, ...]


class Cache:
    """Values by (owner, what, which), one version of each. What one owner left is forgotten when another one comes.

    A full cache refuses newcomers instead of evicting: an epoch scans all chunks in turn, where evicting the oldest
    would evict just what is needed next.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loading: dict[_Key, threading.Lock] = {}
        self._values: dict[_Key, tuple[int, int, Any]] = {}
        self._bytes = 0
        self._owner = ""

    @property
    def nbytes(self) -> int:
        """Bytes of all values held."""
        return self._bytes

    def get(self, key: _Key, version: int) -> Any | None:
        """Return the value if this version is held."""
        with self._lock:
            held = self._values.get(key)
            return held[2] if held is not None and held[0] == version else None

    def put(self, key: _Key, version: int, value: Any, nbytes: int, budget: int) -> None:
        """Hold this version instead of the one before, if it fits into the budget."""
        with self._lock:
            self._belong_to(key[0])
            held = self._values.pop(key, None)
            self._bytes -= held[1] if held else 0
            if self._bytes + nbytes <= budget:
                self._values[key] = (version, nbytes, value)
                self._bytes += nbytes

    def load(self, key: _Key, version: int, read: Callable[[], Any], size: Callable[[Any], int], budget: int) -> Any:
        """Return the value, reading it once however many threads ask."""
        with self._lock:
            self._belong_to(key[0])
            lock = self._loading.setdefault(key, threading.Lock())
        with lock:
            value = self.get(key, version)
            if value is None:
                value = read()
                self.put(key, version, value, size(value), budget)
            return value

    def _belong_to(self, owner: str) -> None:
        if owner != self._owner:
            self._values.clear()
            self._loading.clear()
            self._bytes, self._owner = 0, owner


#: The cache of this worker process.
CACHE = Cache()
