"""Values that are kept while a host array lives: its copy on the device, and what was computed from it.

Arrays that are used as keys must not be changed.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from .arrays import DeviceArray, Event
from .launch import new_event, stream
from .residents import ArrayMap, Arrays, Value

#: Share of the device's memory that cached copies may take.
COPY_SHARE = 0.6


class DeviceCopy(NamedTuple):
    """The copy of a host array on the device."""

    array: DeviceArray
    written: Event  # the copy is complete
    nbytes: int


class CopyCache:
    """Copies of host arrays on the device.

    A copy is dropped when its host array dies. When the copies take more than `COPY_SHARE` of the device's memory, the
    least recently used copy is dropped. Only a thread that uses the device may free its memory, so a dropped copy is
    freed later, by `free_dropped`. A copy that a kernel still reads lives until the kernel has ended: `launch.py` holds
    the arguments of kernels that may be running.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._copies: ArrayMap[DeviceCopy] = ArrayMap()
        self._dropped: deque[DeviceCopy] = deque()
        self._nbytes = 0
        self._limit = 0.0

    @property
    def nbytes(self) -> int:
        """The bytes of all copies that were not dropped."""
        with self._lock:
            self._drop_dead()
            return self._nbytes

    def get(self, host: np.ndarray) -> DeviceArray | None:
        """Return the copy, or None. Kernels of this thread's stream wait until it is complete."""
        with self._lock:
            self._drop_dead()
            copy = self._copies.get((host,))
        if copy is None:
            return None
        copy.written.wait(stream())
        return copy.array

    def put(self, host: np.ndarray, array: DeviceArray) -> None:
        """Store ``array`` as the copy of ``host``. The upload must already be queued on this thread's stream."""
        written = new_event()
        written.record(stream())
        with self._lock:
            self._drop_dead()
            self._drop(self._copies.pop((host,)))
            self._copies.put((host,), DeviceCopy(array, written, host.nbytes))
            self._nbytes += host.nbytes
            # The newest copy always stays, even if it is larger than the limit: its caller is about to use it.
            while self._nbytes > self._largest() and len(self._copies) > 1:
                self._drop(self._copies.pop_oldest())

    def drop(self, host: np.ndarray) -> None:
        """Drop the copy of one host array, if there is one."""
        with self._lock:
            self._drop_dead()
            self._drop(self._copies.pop((host,)))

    def clear(self) -> None:
        """Drop and free all copies."""
        with self._lock:
            while len(self._copies):
                self._drop(self._copies.pop_oldest())
            self.free_dropped()

    def free_dropped(self) -> None:
        """Free the copies that were dropped. Only threads that use the device may call this."""
        with self._lock:
            self._drop_dead()
            self._dropped.clear()

    def _drop(self, copy: DeviceCopy | None) -> None:
        if copy is not None:
            self._nbytes -= copy.nbytes
            self._dropped.append(copy)

    def _drop_dead(self) -> None:
        for copy in self._copies.pop_dead():
            self._drop(copy)

    def _largest(self) -> float:
        """Return the bytes that copies may take. The device's size is read once, because the call is slow."""
        if not self._limit:
            self._limit = COPY_SHARE * cuda.current_context().get_memory_info().total
        return self._limit


class _Derived:
    """The values that were computed from the same arrays."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.values: dict[Hashable, Any] = {}


class DerivedValues:
    """Values computed from host arrays, such as an order of the tokens. They are kept as long as all the arrays live.

    The arrays among the values stay the same objects, so their copies on the device can be used again.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._derived: ArrayMap[_Derived] = ArrayMap()

    def get(self, sources: Arrays, name: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value ``name`` of these arrays; compute it at the first call.

        If two threads need the same value, the second one waits for the first instead of computing it again.
        """
        with self._lock:
            for dead in self._derived.pop_dead():
                dead.values.clear()
            derived = self._derived.get(sources)
            if derived is None:
                derived = _Derived()
                self._derived.put(sources, derived)
        # A lock per entry, so that other threads can look up other values during a long computation.
        with derived.lock:
            if name not in derived.values:
                derived.values[name] = compute()
            value: Value = derived.values[name]
            return value


#: The copies and the derived values of this process.
COPIES = CopyCache()
DERIVED = DerivedValues()
