"""Host arrays whose contents live on the device for a while.

The chunks of a shard change the same arrays one after another: the sums of the shard, or a matrix in training. If each
chunk copied them to the device and back, the copies would take longer than the kernels. So a kernel may move such an
array to the device (`memory.resident`). From then on the host array only names the array on the device, and its own
contents are out of date. The engine calls `bring_back` when the shard ends. Deltas that are merged on the device stay
there (`memory.share_residents`) until a block of the model is updated with them, or another worker fetches them. If the
workers can send device memory, they go to the device of the other worker directly (`peers.py`).

This file does not import Numba, so that the engine can call `bring_back` in processes without a device.
"""

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from .arrays import DeviceArray

#: Largest part of the device's memory that sums of shards may take while they wait to be merged. The plan of a run
#: leaves 30% of the memory free.
RESIDENT_SHARE = 0.2

Value = TypeVar("Value")
Arrays = tuple[np.ndarray, ...]
Key = tuple[int, ...]


class ArrayMap(Generic[Value]):
    """A dictionary from tuples of host arrays to values, in order of last use. It does not keep the arrays alive.

    It has no lock of its own: its owner calls it with a lock held. NumPy arrays have no hash, so it finds an array by
    its ``id`` and then compares a weak reference with the array itself: Python may give the ``id`` of a dead array to a
    new one. An array can die in any thread and at any moment, also inside a method of the map. So the callback of a
    weak reference only notes the death in a deque, which is atomic, and the next call of `pop_dead` removes the entry.
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

    def values(self) -> list[Value]:
        """Return the values of all entries, that of the last use at the end."""
        return [value for _, value in self._entries.values()]

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


class Resident(NamedTuple):
    """The array on the device, and a function that copies it to the host array."""

    array: DeviceArray
    copy_to: Callable[[np.ndarray, bool], None]  # with whether the device array stays as a cached copy


class Residents:
    """The host arrays of this process whose contents are on its device.

    If a host array dies, for example because a later chunk failed, its device array is dropped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrays: ArrayMap[Resident] = ArrayMap()

    def get(self, host: np.ndarray) -> DeviceArray | None:
        """Return the device array of a host array, or None if the host array has its contents itself."""
        with self._lock:
            self._drop_dead()
            found = self._arrays.get((host,))
        return None if found is None else found.array

    def find(self, host: np.ndarray) -> DeviceArray | None:
        """Return what `get` returns; for some rows of a resident array, the same rows on the device."""
        if not len(self._arrays):
            return None
        found = self.get(host)
        base = host.base
        if found is not None or not isinstance(base, np.ndarray):
            return found
        whole = self.get(base)
        if whole is None:
            return None
        first = (host.ctypes.data - base.ctypes.data) // base.itemsize
        part: DeviceArray = whole.reshape(base.size)[first : first + host.size]
        return part.reshape(host.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all residents."""
        with self._lock:
            self._drop_dead()
            return sum(resident.array.size * resident.array.dtype.itemsize for resident in self._arrays.values())

    def put(self, host: np.ndarray, resident: Resident) -> None:
        """Note that the contents of a host array are on the device."""
        with self._lock:
            self._drop_dead()
            self._arrays.pop((host,))
            self._arrays.put((host,), resident)

    def bring_back(self, arrays: Iterable[np.ndarray], keep: bool = False) -> None:
        """Copy the contents of these arrays to the host, if they are on the device. Raises DeviceError.

        With ``keep``, the device arrays become the cached copies of the arrays, which must then not be changed.
        An array may be a part of the array that a kernel has moved: then the whole array is brought back.
        Only the thread that ran the kernels may call this, because kernels of other threads may still be running.
        After `memory.share_residents`, any thread may.
        """
        for array in arrays:
            for host in (array, array.base):
                if not isinstance(host, np.ndarray):
                    continue
                # The lock is held during the copy: another thread that needs the same array waits for its contents.
                with self._lock:
                    found = self._arrays.get((host,))
                    if found is not None:
                        found.copy_to(host, keep)
                        self._arrays.pop((host,))

    def _drop_dead(self) -> None:
        for _ in self._arrays.pop_dead():
            pass


#: The residents of this process.
RESIDENTS = Residents()
