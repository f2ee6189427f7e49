"""Arrays that wait on a worker for the cell that uses them next, in memory or on the worker's disk."""

import contextlib
import itertools
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path

import numpy as np

from ....io.errors import DataError
from ....io.stores.store import Arrays
from ...formatting import format_bytes
from ..algorithm import nbytes

#: Arrays in a file begin at multiples of this number of bytes.
ALIGNMENT = 64
#: Kind of arrays ("row" or "column"), number of the block, and number of the stratum whose cell uses them next.
Key = tuple[str, int, int]


class HeldArrays:
    """Arrays by key. Each key is put once and requested once, in any order; a request waits for the arrays.

    ``budget`` is the number of bytes that may wait in memory. Arrays that do not fit are written to ``folder``. From
    then on they are mapped from their files and changed in place, so that a cell reads and writes only the rows that it
    trains, and the system keeps in memory what it has space for. New arrays are written rather than old ones, because
    blocks are used in turn: the oldest one is needed next.
    """

    def __init__(self, budget: int, folder: Path):
        self._budget = budget
        self._folder = folder
        self._lock = threading.Lock()
        self._taken = threading.Condition(self._lock)
        self._arrays: dict[Key, Arrays] = {}
        self._files: dict[Key, dict[str, Path]] = {}
        self._requests: dict[Key, Future[Arrays]] = {}
        self._bytes = 0
        self._names = itertools.count()
        self._error: BaseException | None = None
        self.written = 0  # bytes, so far

    def put(self, key: Key, arrays: Arrays, soon: bool = False) -> None:
        """Give arrays to the request that waits for them, or hold them until they are requested.

        ``soon``: the request will come soon, so they stay in memory even if they exceed the budget.
        """
        size = nbytes(arrays)
        files = _files_of(arrays)
        with self._lock:
            request = self._requests.pop(key, None)
            if request is None and files:
                self._files[key] = files
                return
            if request is None and (soon or self._bytes + size <= self._budget):
                self._arrays[key] = arrays
                self._bytes += size
                return
        if request is not None:
            request.set_result(arrays)
            return
        files = self._write(arrays)
        with self._lock:
            # They may have been requested in the meantime.
            request = self._requests.pop(key, None)
            if request is None:
                self._files[key] = files
        if request is not None:
            request.set_result(_map(files))

    def request(self, key: Key) -> "Future[Arrays]":
        """Return a future that has the arrays as soon as they are put. Then they are no longer held."""
        future: Future[Arrays] = Future()
        with self._lock:
            if self._error is not None:
                future.set_exception(self._error)
                return future
            arrays = self._arrays.pop(key, None)
            files = self._files.pop(key, None)
            self._taken.notify_all()
            if arrays is not None:
                self._bytes -= nbytes(arrays)
            elif files is None:
                self._requests[key] = future
                return future
        if arrays is None:
            assert files is not None
            arrays = _map(files)
        future.set_result(arrays)
        return future

    def wait_until_empty(self, seconds: float) -> bool:
        """Return whether all arrays have been requested; wait some seconds for it."""
        with self._taken:
            return self._taken.wait_for(lambda: not self._arrays and not self._files, seconds)

    def withdraw(self, key: Key) -> bool:
        """Cancel a request; return False if the arrays came before."""
        with self._lock:
            return self._requests.pop(key, None) is not None

    def keep(self, arrays: Arrays) -> Arrays:
        """Return arrays that are only read: the same if they fit into the budget, otherwise mapped from a file.

        They count against the budget for as long as this object exists.
        """
        size = nbytes(arrays)
        with self._lock:
            if self._bytes + size <= self._budget:
                self._bytes += size
                return arrays
        return _map(self._write(arrays))

    def fail(self, error: BaseException) -> None:
        """Make all present and later requests raise an error."""
        with self._lock:
            if self._error is None:
                self._error = error
            requests = list(self._requests.values())
            self._requests.clear()
        for request in requests:
            request.set_exception(self._error)

    def _write(self, arrays: Arrays) -> dict[str, Path]:
        self._folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for name, array in arrays.items():
            with self._lock:
                files[name] = self._folder / f"{next(self._names)}.npy"
                self.written += np.asarray(array).nbytes
            np.save(files[name], array)
        return files


def map_deltas(deltas: list[Arrays], folder: str) -> list[Arrays]:
    """Return the same arrays, mapped from a file in a folder. Its space is free again when they are no longer used.

    Raises DataError if the folder is full or missing.
    """
    size = sum(nbytes(delta) for delta in deltas)
    try:
        with tempfile.TemporaryFile(prefix="corpusmill-", dir=folder) as file:
            for delta in deltas:
                for array in delta.values():
                    file.write(np.ascontiguousarray(array).data)
                    file.write(bytes(-np.asarray(array).nbytes % ALIGNMENT))
            file.flush()
            content = np.memmap(file, np.uint8, "r") if size else np.empty(0, np.uint8)
    except OSError as error:
        raise DataError(
            f"the scratch folder {folder} cannot take {format_bytes(size)} that wait for later tasks "
            f"({error.strerror or error}): free space there, or choose another folder (local_directory of the "
            f"workers, TMPDIR without a cluster), then resume the run: its epochs are safe"
        ) from error
    mapped, at = [], 0
    for delta in deltas:
        found = {}
        for name, array in delta.items():
            array = np.asarray(array)
            found[name] = content[at : at + array.nbytes].view(np.ndarray).view(array.dtype).reshape(array.shape)
            at += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        mapped.append(found)
    return mapped


def _map(files: dict[str, Path]) -> Arrays:
    return {name: np.load(path, mmap_mode="r+") for name, path in files.items()}


def _files_of(arrays: Arrays) -> dict[str, Path]:
    """Return the files that the arrays are mapped from; none if they are in memory."""
    return {name: Path(str(array.filename)) for name, array in arrays.items() if isinstance(array, np.memmap)}


def release_files(arrays: Arrays) -> Arrays:
    """Delete the files that arrays are mapped from. The arrays can still be read."""
    for path in _files_of(arrays).values():
        # Windows does not delete mapped files. They go with the scratch folder.
        with contextlib.suppress(PermissionError):
            path.unlink()
    return {name: np.asarray(array) for name, array in arrays.items()}
