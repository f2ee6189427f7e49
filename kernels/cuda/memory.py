"""Device copies of host arrays, which live as long as these, and transfers through pinned memory.

Kernels' callers take NumPy arrays and return NumPy arrays. A host array is written once and then only read, so its copy
on the device stays good: an array that comes back, a chunk in the next epoch or a state that the last sweep returned,
is not sent again. What the device has no room for is forgotten, the longest unused first.
"""

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from ..errors import DeviceError
from .jit import named, stream, synchronize

#: Bytes of a pinned buffer; each thread has two, one filled while the other travels.
PIECE = 4 << 20
#: Share of the device's memory that may hold copies, at most.
COPIES = 0.6

_here = threading.local()


class Copies:
    """Device arrays by the host arrays that they are copies of, in the order of their last use.

    A host array may end in any thread, but only one that has the device's context frees memory: what is dropped waits
    for the next thread that asks for some.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held: OrderedDict[int, tuple[weakref.ref, Any, Any, int]] = OrderedDict()
        self._dropped: deque[tuple[weakref.ref, Any, Any, int]] = deque()
        self.nbytes = 0

    def get(self, host: np.ndarray) -> Any | None:
        """Return the copy, ready for this thread's stream; None where there is none."""
        with self._lock:
            if id(host) not in self._held:
                return None
            self._held.move_to_end(id(host))
            _, copy, written, _ = self._held[id(host)]
        written.wait(stream())
        return copy

    def put(self, host: np.ndarray, copy: Any) -> None:
        """Hold a copy that this thread's stream has been told to write."""
        written, key = cuda.event(), id(host)
        written.record(stream())
        with self._lock:
            self.drop(key)
            self._held[key] = weakref.ref(host, lambda _: self.drop(key)), copy, written, host.nbytes
            self.nbytes += host.nbytes
            limit = COPIES * cuda.current_context().get_memory_info().total
            while self.nbytes > limit and len(self._held) > 1:
                self.drop(next(iter(self._held)))

    def drop(self, key: int) -> None:
        """Forget one copy, in any thread."""
        with self._lock:
            held = self._held.pop(key, None)
            if held is not None:
                self.nbytes -= held[3]
                self._dropped.append(held)

    def clear(self) -> None:
        """Forget all copies."""
        with self._lock:
            for key in list(self._held):
                self.drop(key)
        self.free()

    def free(self) -> None:
        """Free the memory of what was dropped and no sweep uses any more."""
        self._dropped.clear()


#: The copies of this process.
COPIED = Copies()


_DERIVED: dict[int, dict[Any, Any]] = {}


def derived(host: np.ndarray, what: Any, make: Callable[[], Any]) -> Any:
    """Return what was made of a host array, and keep it as long as that lives, so that its copies serve again."""
    made = _DERIVED.get(id(host))
    if made is None:
        made = _DERIVED.setdefault(id(host), {})
        weakref.finalize(host, _DERIVED.pop, id(host), None).atexit = False
    if what not in made:
        made[what] = make()
    return made[what]


def new(shape: Any, dtype: Any) -> Any:
    """Return an array on the device, not filled; raise DeviceError with the numbers where it does not fit."""
    shape = tuple(int(n) for n in np.atleast_1d(shape))
    COPIED.free()
    try:
        return cuda.device_array(shape, dtype, stream=stream())
    except Exception:
        COPIED.clear()
        synchronize()  # which raises where the fault is a kernel's, and lets go of what kernels were given
    try:
        return cuda.device_array(shape, dtype, stream=stream())
    except Exception as error:
        wanted = int(np.prod(shape)) * np.dtype(dtype).itemsize
        free, total = cuda.current_context().get_memory_info()
        raise DeviceError(f"{wanted:,} bytes do not fit the device: {free:,} of {total:,} are free") from error


def reused(what: str, shape: Any, dtype: Any) -> Any:
    """Return an array on the device, not filled, that this thread had under this name before, if it still fits.

    For what is done with when this thread's next kernel of the same kind is launched: nothing is allocated, which would
    have all streams wait.
    """
    shape = tuple(int(n) for n in np.atleast_1d(shape))
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if not size:
        return new(shape, dtype)
    held = _here.__dict__.setdefault("reused", {})
    if what not in held or held[what].size < size:
        held.pop(what, None)
        held[what] = new(size + size // 8, np.uint8)
    return held[what][:size].view(dtype).reshape(shape)


@named()
def filled(host: np.ndarray) -> Any:
    """Return a copy on the device that kernels may change; it is not remembered. Raises DeviceError."""
    copy = new(host.shape, host.dtype)
    if not host.size:
        return copy
    flat, target = np.ascontiguousarray(host).reshape(-1), copy.reshape(host.size)
    step = PIECE // host.itemsize
    for turn, start in enumerate(range(0, host.size, step)):
        piece = flat[start : start + step]
        buffer, sent = _buffer(turn % 2, host.dtype, len(piece))
        np.copyto(buffer, piece)
        target[start : start + len(piece)].copy_to_device(buffer, stream=stream())
        sent.record(stream())
    return copy


@named()
def resident(host: np.ndarray) -> Any:
    """Return the copy of a host array on the device, for reading; it is sent the first time."""
    copy = COPIED.get(host)
    if copy is None:
        copy = filled(host)
        COPIED.put(host, copy)
    return copy


def residents(arrays: Any) -> Any:
    """Return a named tuple with its arrays on the device."""
    return type(arrays)(*(resident(a) if isinstance(a, np.ndarray) else a for a in arrays))


@named()
def fetched(array: Any, remember: bool = False) -> np.ndarray:
    """Return a device array's numbers; ``remember`` it as the copy of what is returned.

    Raises DeviceError, which names the kernel, for what went wrong since the last fetch.
    """
    host = np.empty(array.shape, array.dtype)
    if not host.size:
        return host
    flat, source = host.reshape(-1), array.reshape(host.size)
    step = PIECE // host.itemsize
    starts = range(0, host.size, step)
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    for turn, start in enumerate(starts):
        piece = flat[start : start + step]
        buffer, sent = _buffer(turn % 2, host.dtype, len(piece))
        if turn > 1:
            np.copyto(*waiting.pop(0))
        source[start : start + len(piece)].copy_to_host(buffer, stream=stream())
        sent.record(stream())
        waiting.append((piece, buffer))
    synchronize()
    for piece, buffer in waiting:
        np.copyto(piece, buffer)
    if remember:
        COPIED.put(host, array)
    return host


def _buffer(which: int, dtype: Any, size: int) -> tuple[np.ndarray, Any]:
    """Return a pinned buffer of this thread once its last journey has ended, and the event to mark the next one's."""
    if not hasattr(_here, "buffers"):
        _here.buffers = [(cuda.pinned_array(PIECE, np.uint8), cuda.event()) for _ in range(2)]
    bytes_, sent = _here.buffers[which]
    sent.synchronize()
    return bytes_[: size * np.dtype(dtype).itemsize].view(dtype), sent
