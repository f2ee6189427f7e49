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
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from .array_map import ArrayMap
from .arrays import DeviceArray

#: Largest part of the device's memory that sums of shards may take while they wait to be merged. The plan of a run
#: leaves 30% of the memory free.
RESIDENT_SHARE = 0.2


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
