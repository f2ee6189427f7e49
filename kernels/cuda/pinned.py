"""Pinned host arrays for results of the device.

The device writes pinned memory at the full rate of the bus, while an ordinary array needs a second copy by the
processor, which is several times slower. But pinned memory takes long to allocate. So a result's memory is used again
for another one when no array refers to it any more.

Tests: tests/kernels/cuda/test_pinned.py.
"""

import threading
import weakref
from collections import deque

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from .host_memory import FREE_BYTES, LIMIT_BYTES, MIN_FILL

#: Bytes of the smallest result that is worth it: below, a copy takes as long as the calls around it.
MIN_BYTES = 64 << 10


class _Lease:
    """Makes a buffer an array, and marks by its death that no array refers to the buffer.

    NumPy lets each view of an array refer to the array's owner. If the owner were the buffer itself, a view would not
    keep the buffer from being used again.
    """

    def __init__(self, buffer: np.ndarray, shape: tuple[int, ...], dtype: np.dtype):
        self.__array_interface__ = {
            "version": 3,
            "data": (buffer.ctypes.data, False),
            "shape": shape,
            "typestr": dtype.str,
        }


class PinnedResults:
    """The pinned results of a process. Any thread with a context may request one."""

    def __init__(self, limit: int = LIMIT_BYTES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._free: list[np.ndarray] = []
        self._returned: deque[np.ndarray] = deque()  # by finalizers; to append to it is atomic
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, in use or free."""
        return self._nbytes

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray | None:
        """Return an uninitialised pinned array; None if it is too small, or if the limit is reached."""
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if nbytes < MIN_BYTES:
            return None
        with self._lock:
            buffer = self._take(nbytes)
        if buffer is None:
            return None
        lease = _Lease(buffer, shape, np.dtype(dtype))
        weakref.finalize(lease, self._returned.append, buffer).atexit = False
        return np.asarray(lease)

    def _take(self, nbytes: int) -> np.ndarray | None:
        while self._returned:
            self._free.append(self._returned.popleft())
        self._free.sort(key=len)
        buffer = self._pop_fitting(nbytes)
        if buffer is not None:
            self._shrink(FREE_BYTES)
            return buffer
        self._shrink(min(FREE_BYTES, max(0, self._limit - nbytes - self._used)))
        if self._nbytes + nbytes > self._limit:
            return None
        self._nbytes += nbytes
        new: np.ndarray = cuda.pinned_array(nbytes, np.uint8)
        return new

    @property
    def _used(self) -> int:
        """Bytes of the buffers that hold a result."""
        return self._nbytes - sum(len(buffer) for buffer in self._free)

    def _pop_fitting(self, nbytes: int) -> np.ndarray | None:
        for index, buffer in enumerate(self._free):
            if MIN_FILL * len(buffer) <= nbytes <= len(buffer):
                return self._free.pop(index)
        return None

    def _shrink(self, most: int) -> None:
        """Give free buffers back, the smallest ones first, until they have at most this many bytes."""
        while self._nbytes - self._used > most:
            self._nbytes -= len(self._free.pop(0))


#: The pinned results of this process.
PINNED_RESULTS = PinnedResults()
