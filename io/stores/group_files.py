"""Access to the files of one Zarr group, with few round trips to an object store."""

import io
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from .store import Store


class StoredGroup:
    """The files of one Zarr group in a store.

    ``likely`` are names of files that the group probably has. ``needed`` are those that `fetch` was called with.
    """

    def __init__(self, store: "Store", name: str, likely: Sequence[str] = ()):
        self._store = store
        self._path = store.where(name)
        self._likely = likely
        self._fetched: dict[str, bytes] = {}
        self.needed: Sequence[str] = ()

    def read_small(self, names: Sequence[str]) -> dict[str, bytes]:
        """Read several files at the same time; files that do not exist are left out."""
        if not names:
            return {}
        # Ranges from byte 0: for whole files, some filesystems request each file's size first.
        paths = [f"{self._path}/{name}" for name in names]
        self._store.count("read", len(paths))
        contents = self._store.fs.cat_ranges(paths, 0, None, on_error="return")
        found = {}
        for name, content in zip(names, contents, strict=True):
            if isinstance(content, FileNotFoundError):
                continue
            if isinstance(content, Exception):
                raise content
            found[name] = content
        return found

    def read_first(self, name: str) -> dict[str, bytes]:
        """Read the file that lists the others, and at the same time the files that the group probably has."""
        found = self.read_small([name, *self._likely])
        self._fetched = {likely: found.pop(likely) for likely in self._likely if likely in found}
        return found

    def fetch(self, names: Sequence[str]) -> None:
        """Fetch several files at once, because each request to an object store takes a round trip."""
        if not self._store.is_local:
            self.needed = names
            self._fetched |= self.read_small([name for name in names if name not in self._fetched])

    def open(self, name: str) -> IO[bytes]:
        """Open one file."""
        path = f"{self._path}/{name}"
        if self._store.is_local:
            return open(path, "rb")
        if name in self._fetched:
            return io.BytesIO(self._fetched.pop(name))
        self._store.count("read")
        return io.BytesIO(self._store.fs.cat_file(path))

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Return the bytes ``start`` to ``stop - 1`` of a file."""
        self._store.count("read")
        return self._store.fs.cat_file(f"{self._path}/{name}", start, stop)
