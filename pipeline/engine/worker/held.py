"""Arrays that wait on a worker for the cell that uses them next, in memory or on the worker's disk."""

import itertools
import mmap
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....io.errors import DataError
from ....io.stores.store import Arrays
from ....kernels.simd.aligned import empty_aligned
from ...formatting import format_bytes
from ..algorithm import nbytes
from ..device import any_on_device
from ..memory import UNLIMITED

#: Arrays in a file begin at multiples of this number of bytes.
ALIGNMENT = 64
#: Threads that write and read arrays, and how many are read before they are requested.
MOVERS = 2
AHEAD = 4
#: Kind of arrays ("row" or "column"), number of the block, and number of the stratum whose cell uses them next.
Key = tuple[str, int, int]


class HeldFile(NamedTuple):
    """Arrays in a file, one after another."""

    path: Path
    arrays: dict[str, tuple[tuple[int, ...], np.dtype]]  # shapes and types
    nbytes: int


class HeldArrays:
    """Arrays by key. Each key is put once and requested once, in any order; a request waits for the arrays.

    ``budget`` is the number of bytes that may be in memory, with what cells use. ``place`` returns the place of a key
    in the order of the requests. So it is known which arrays are needed last: these are written to ``folder`` if there
    are too many, and read again shortly before they are needed. Threads of this object do both, while others train.

    What is on a CUDA device stays there.
    """

    def __init__(self, budget: int, folder: Path, place: Callable[[Key], int]):
        self._budget = budget
        self._folder = folder
        self._place = place
        self._changed = threading.Condition()
        self._movers = ThreadPoolExecutor(MOVERS, "corpusmill-move")
        self._arrays: dict[Key, Arrays] = {}
        self._leaving: dict[Key, Arrays] = {}  # are being written
        self._files: dict[Key, HeldFile] = {}
        self._arriving: set[Key] = set()  # are being read
        self._ahead: set[Key] = set()  # were read, or are, before they were requested
        self._requests: dict[Key, Future[Arrays]] = {}
        self._bytes = 0  # in memory, also of what is leaving or arriving
        self._used = 0  # bytes of what cells use
        self._names = itertools.count()
        self._error: BaseException | None = None
        self.written = 0  # bytes, so far

    def use(self, arrays: Arrays, times: int = 1) -> None:
        """Count arrays as in use; with -1, no longer."""
        with self._changed:
            self._used += times * nbytes(arrays)
            self._read_ahead()

    def put(self, key: Key, arrays: Arrays, were_used: bool = True) -> None:
        """Give arrays to the request that waits for them, or hold them until they are requested.

        ``were_used``: by a cell of the caller, who then waits if there is no space until others are written.
        """
        size = nbytes(arrays)
        with self._changed:
            if were_used:
                self._used -= size
            request = self._receive(key, arrays)
            if request is None and were_used:
                self._changed.wait_for(lambda: self._has_space(size))
        if request is not None:
            request.set_result(arrays)

    def request(self, key: Key) -> "Future[Arrays]":
        """Return a future that has the arrays as soon as they are put. Then they are no longer held."""
        future: Future[Arrays] = Future()
        with self._changed:
            if self._error is not None:
                future.set_exception(self._error)
                return future
            self._ahead.discard(key)
            arrays = self._arrays.pop(key, None)
            if arrays is None:
                arrays = self._leaving.pop(key, None)
            if arrays is not None:
                self._bytes -= nbytes(arrays)
            else:
                self._requests[key] = future
                if key in self._files:
                    self._start_reading(key)
            self._changed.notify_all()
        if arrays is not None:
            future.set_result(arrays)
        return future

    def wait_until_empty(self, seconds: float) -> bool:
        """Return whether all arrays have been requested; wait some seconds for it."""
        with self._changed:
            places = (self._arrays, self._leaving, self._files, self._arriving)
            return self._changed.wait_for(lambda: not any(places), seconds)

    def withdraw(self, key: Key) -> bool:
        """Cancel a request; return False if the arrays came before."""
        with self._changed:
            return self._requests.pop(key, None) is not None

    def keep(self, arrays: Arrays) -> Arrays:
        """Return arrays that are only read, each part of them in turn: mapped from a file if there is a budget."""
        if self._budget >= UNLIMITED:
            return arrays
        self._folder.mkdir(parents=True, exist_ok=True)
        return map_deltas([arrays], str(self._folder))[0]

    def fail(self, error: BaseException) -> None:
        """Make all present and later requests raise an error."""
        with self._changed:
            if self._error is None:
                self._error = error
            requests = list(self._requests.values())
            self._requests.clear()
            self._changed.notify_all()
        for request in requests:
            request.set_exception(self._error)

    def close(self) -> None:
        """Wait for the threads that write and read."""
        self._movers.shutdown(cancel_futures=True)

    # --- with the lock ---

    @property
    def _leaving_bytes(self) -> int:
        return sum(nbytes(arrays) for arrays in self._leaving.values())

    def _has_space(self, more: int) -> bool:
        is_full = self._bytes + self._used > self._budget + more
        return not (is_full and self._leaving and self._error is None)

    def _receive(self, key: Key, arrays: Arrays) -> "Future[Arrays] | None":
        """Return the request that waits for arrays. If there is none, hold them, and write what is too much."""
        request = self._requests.pop(key, None)
        if request is None:
            self._arrays[key] = arrays
            self._bytes += nbytes(arrays)
            self._make_room()
        return request

    def _make_room(self) -> None:
        while self._bytes - self._leaving_bytes + self._used > self._budget and self._write_last():
            pass

    def _write_last(self, after: int = -1) -> bool:
        """Begin to write the arrays that are needed last, unless that is before a place; return whether it began."""
        movable = [key for key, arrays in self._arrays.items() if not any_on_device(arrays.values())]
        last = max(movable, key=self._place, default=None)
        if last is None or self._place(last) <= after:
            return False
        self._ahead.discard(last)
        self._leaving[last] = self._arrays.pop(last)
        self._movers.submit(self._write, last, self._leaving[last])
        return True

    def _start_reading(self, key: Key) -> None:
        file = self._files.pop(key)
        self._bytes += file.nbytes
        self._arriving.add(key)
        self._make_room()
        self._movers.submit(self._read, key, file)

    def _read_ahead(self) -> None:
        """Begin to read the arrays that are needed next, in the place of those that are needed later."""
        while self._files and len(self._ahead) < AHEAD:
            key = min(self._files, key=self._place)
            if self._bytes + self._used + self._files[key].nbytes > self._budget:
                if not self._leaving:
                    self._write_last(self._place(key))
                return
            self._ahead.add(key)
            self._start_reading(key)

    # --- in the threads that move arrays ---

    def _write(self, key: Key, arrays: Arrays) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if key not in self._leaving:
                return  # they were requested before this thread had time
            path = self._folder / f"{next(self._names)}.arrays"
            with path.open("wb") as file:
                for array in arrays.values():
                    file.write(np.ascontiguousarray(array).data)
        except OSError as error:
            self.fail(_no_space(str(self._folder), nbytes(arrays), error))
            return
        except BaseException as error:
            self.fail(error)
            return
        with self._changed:
            size = nbytes(arrays)
            self.written += size
            # They may have been requested in the meantime.
            is_held = self._leaving.pop(key, None) is not None
            if is_held:
                layout = {name: (array.shape, array.dtype) for name, array in arrays.items()}
                self._files[key] = HeldFile(path, layout, size)
                self._bytes -= size
            self._read_ahead()
            self._changed.notify_all()
        if not is_held:
            path.unlink()

    def _read(self, key: Key, held: HeldFile) -> None:
        try:
            arrays = {}
            with held.path.open("rb") as file:
                for name, (shape, dtype) in held.arrays.items():
                    arrays[name] = empty_aligned(shape, dtype)
                    content = arrays[name].reshape(-1).view(np.uint8)
                    if file.readinto(content.data) != len(content):
                        raise DataError(f"{held.path}: this file of the scratch folder is cut off; resume the run")
            held.path.unlink()
        except BaseException as error:
            self.fail(error)
            return
        with self._changed:
            self._arriving.discard(key)
            self._bytes -= held.nbytes
            request = self._receive(key, arrays)
            self._read_ahead()
            self._changed.notify_all()
        if request is not None:
            request.set_result(arrays)


def release_mapped(arrays: Arrays) -> None:
    """Let the system count what was read of arrays that are mapped from files as its own memory, not this process's."""
    for array in arrays.values():
        base: object = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)


def _no_space(folder: str, size: int, error: OSError) -> DataError:
    return DataError(
        f"the scratch folder {folder} cannot take {format_bytes(size)} that wait for later tasks "
        f"({error.strerror or error}): free space there, or choose another folder (local_directory of the workers, "
        f"TMPDIR without a cluster), then resume the run: its epochs are safe"
    )


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
        raise _no_space(folder, size, error) from error
    mapped, at = [], 0
    for delta in deltas:
        found = {}
        for name, array in delta.items():
            array = np.asarray(array)
            found[name] = content[at : at + array.nbytes].view(np.ndarray).view(array.dtype).reshape(array.shape)
            at += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        mapped.append(found)
    return mapped
