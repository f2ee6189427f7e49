"""What is kept for a host array as long as that array lives: its copy on the device, and values computed from it.

NumPy arrays have no hash, so both caches find an array by its ``id`` and then compare a weak reference with the array
itself: Python may give the ``id`` of a dead array to a new one. Arrays that are used as keys must not be changed.

An array can die in any thread and at any moment, also inside a method of a cache. So the callback of a weak reference
only notes the death in a deque, which is atomic. The next call of a method, with the lock held, removes the entry.
"""

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numba import cuda

from .arrays import DeviceArray, Event
from .launch import new_event, stream

#: Share of the device's memory that cached copies may take.
COPY_SHARE = 0.6

Value = TypeVar("Value")
Arrays = tuple[np.ndarray, ...]
Key = tuple[int, ...]


class ArrayMap(Generic[Value]):
    """A dictionary from tuples of host arrays to values, in order of last use. It does not keep the arrays alive.

    It has no lock of its own: its owner calls it with a lock held.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, tuple[tuple[weakref.ref[np.ndarray], ...], Value]] = OrderedDict()
        self._deaths: deque[tuple[Key, weakref.ref[np.ndarray]]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, arrays: Arrays) -> Value | None:
        """Return the value of these arrays and mark it as used, or None."""
        key = _key(arrays)
        if key not in self._entries:
            return None
        references, value = self._entries[key]
        for reference, array in zip(references, arrays, strict=True):
            if reference() is not array:
                return None  # a new array has the id of a dead one, whose entry has not been removed yet
        self._entries.move_to_end(key)
        return value

    def put(self, arrays: Arrays, value: Value) -> None:
        """Store a value for these arrays. `pop` an older one first."""
        key = _key(arrays)
        deaths = self._deaths

        def note_death(reference: weakref.ref[np.ndarray]) -> None:
            deaths.append((key, reference))

        references = tuple(weakref.ref(array, note_death) for array in arrays)
        self._entries[key] = references, value

    def pop(self, arrays: Arrays) -> Value | None:
        """Remove the entry of these arrays, or of dead arrays that had the same ids, and return its value, or None."""
        _, value = self._entries.pop(_key(arrays), (None, None))
        return value

    def pop_oldest(self) -> Value:
        """Remove the least recently used entry, and return its value."""
        _, (_, value) = self._entries.popitem(last=False)
        return value

    def pop_dead(self) -> Iterator[Value]:
        """Remove the entries of arrays that died, and yield their values."""
        while self._deaths:
            key, reference = self._deaths.popleft()
            references, _ = self._entries.get(key, ((), None))
            # The entry may already belong to a new array with the same id.
            if any(reference is known for known in references):
                _, value = self._entries.pop(key)
                yield value


def _key(arrays: Arrays) -> Key:
    return tuple(id(array) for array in arrays)


class DeviceCopy(NamedTuple):
    """The copy of a host array on the device."""

    array: DeviceArray
    written: Event  # the copy is complete
    nbytes: int


class CopyCache:
    """Copies of host arrays on the device.

    A copy is dropped when its host array dies. When the copies take more than `COPY_SHARE` of the device's memory, the
    least recently used copy is dropped. A dropped copy is freed later, by `free_dropped`, because
    only a thread that uses the device may free its memory. A copy that a kernel still reads stays alive until then:
    `launch.py` holds the arguments of kernels that may be running.
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
        """Return the bytes that copies may take. The device's memory is asked for once: the call is slow."""
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

    The arrays among the values stay the same objects, so their copies on the device serve again, too.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._derived: ArrayMap[_Derived] = ArrayMap()

    def get(self, sources: Arrays, name: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value ``name`` of these arrays; compute it at the first call.

        A second thread that wants the same value waits for the first one instead of computing it again.
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
