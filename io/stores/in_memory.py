"""Stores in the memory of this process, for small runs that nobody resumes.

Files are in fsspec's filesystem ``memory``. Arrays are kept as arrays, because encoding and decoding them would take
longer than training on small data.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import DataError
from .store import Arrays, Store

#: What the URLs of these stores begin with.
PREFIX = "memory://corpusmill-"

#: The groups of arrays of all stores, by URL and name.
_GROUPS: dict[str, dict[str, Arrays]] = {}


class StoreInMemory(Store):
    """The files and arrays below one URL of this process."""

    @property
    def _groups(self) -> dict[str, Arrays]:
        return _GROUPS.get(self.url, {})

    def exists(self, name: str = "") -> bool:
        """Return whether a file, a folder or a group of arrays exists."""
        return name in self._groups or bool(self._below(name)) or super().exists(name)

    def names(self, name: str = "") -> list[str]:
        """List what is directly below ``name``, sorted."""
        groups = {below.split("/")[0] for below in self._below(name)}
        return sorted(groups.union(super().names(name)))

    def _below(self, name: str) -> list[str]:
        """Return the names of the groups below a folder, relative to that folder."""
        prefix = f"{name}/" if name else ""
        return [found.removeprefix(prefix) for found in self._groups if found.startswith(prefix)]

    def delete(self, name: str) -> None:
        """Remove files and groups that have this name or are below it."""
        for found in list(self._groups):
            if found == name or found.startswith(f"{name}/") or not name:
                del self._groups[found]
        super().delete(name)

    def read_arrays(
        self, name: str, only: Sequence[str] | None = None, empty: Callable[..., np.ndarray] = np.empty
    ) -> Arrays:
        """Return copies of all arrays of a group, or of those named in ``only`` that it has."""
        if name not in self._groups:
            raise DataError(f"{self.where(name)}: missing from its store, which is in memory; train again")
        group = self._groups[name]
        found = {key: empty(array.shape, array.dtype) for key, array in group.items() if only is None or key in only}
        for key, array in found.items():
            array[...] = group[key]
        return found

    def write_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Keep copies of the arrays of a group, so that the caller may change his own."""
        _GROUPS.setdefault(self.url, {})[name] = {key: np.array(array, order="C") for key, array in arrays.items()}

    def write_constant_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Keep a group of arrays, without copies of those that are contiguous. Nobody may change them afterwards."""
        _GROUPS.setdefault(self.url, {})[name] = {key: np.asarray(array, order="C") for key, array in arrays.items()}


def open_store(url: str) -> Store:
    """Open the store at a URL: one in memory if the URL begins with `PREFIX`."""
    if url.startswith(PREFIX):
        return StoreInMemory(url)
    return Store(url)


@contextmanager
def url_in_memory() -> Iterator[str]:
    """Yield the URL of a new store in memory, which is deleted afterwards."""
    url = f"{PREFIX}{uuid.uuid4().hex}"
    try:
        yield url
    finally:
        StoreInMemory(url).delete("")
        _GROUPS.pop(url, None)
