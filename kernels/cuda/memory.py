"""Memory of the CUDA device: who allocates it, what is copied, and how long it lives.

The functions that launch kernels take and return NumPy arrays. They use five kinds of device arrays:

- `allocate` returns an uninitialised array. It lives until its last reference is dropped.
- `upload` returns a copy of a host array. Kernels may change it. It lives until its last reference is dropped.
- `cached_copy` also returns a copy of a host array, but the same one again at the next call. Neither the copy nor the
  host array may be changed. It lives until the host array dies, or until the cache drops it (`caches.CopyCache`).
- `resident` returns an array that takes the place of a host array. Kernels may change it. It lives until the engine
  brings its contents back (`residents.py`): at the end of a shard, or when another worker fetches a delta.
- `workspace` returns an uninitialised array for intermediate results. It belongs to the host thread, which gets the
  same memory again when it requests the same name again. It lives as long as the thread.

Chunks are only read, and so are the topics that a sweep returns. So the next sweep uses their cached copies, and
nothing is uploaded again.

Copies pass through pinned memory, which the device reads and writes directly. Large results stay in pinned memory
(`pinned.py`). Every function takes the cause that the ledger shows, in general the name of the array.
"""

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import device_memset
from numpy.typing import DTypeLike

from ..errors import DeviceError
from .allocator import set_memory_manager
from .arrays import DeviceArray, Event, Shape, Stream
from .caches import COPIES, DERIVED
from .host_memory import BUFFER_BYTES, BUFFERS_PER_THREAD
from .launch import copy_stream, device_errors, new_event, stream, synchronize
from .ledger import LEDGER, Operation
from .pinned import PINNED_RESULTS
from .residents import RESIDENT_SHARE, RESIDENTS, Arrays, Resident, Value

#: Dead arrays whose memory waits to be freed, at most, and the largest part of the device's memory that they may have.
MANY_DEAD = 256
DEAD_SHARE = 0.1

Fields = TypeVar("Fields", bound=tuple[Any, ...])

# Before anything makes a context on the device.
set_memory_manager()


# --- allocation ---


@device_errors()
def allocate(shape: Shape, dtype: DTypeLike, cause: str) -> DeviceArray:
    """Return an uninitialised device array. Raises DeviceError with the numbers if it does not fit."""
    shape = _as_tuple(shape)
    nbytes = _nbytes(shape, dtype)
    COPIES.free_dropped()
    _DEAD.free_if_many()
    try:
        array: DeviceArray = cuda.device_array(shape, dtype, stream=stream())
    except Exception:
        # The memory may be taken by cached copies, and by arguments of kernels that have ended. A kernel's fault can
        # show here, too: then `synchronize` raises it.
        COPIES.clear()
        synchronize("memory is short")
        _DEAD.free()
        array = _allocate_or_explain(shape, dtype, nbytes)
    LEDGER.record(Operation.ALLOCATE, cause, nbytes)
    weakref.finalize(array, _DEAD.nbytes.append, nbytes).atexit = False
    return array


class _DeadArrays:
    """Arrays that have died, and whose memory Numba has not freed yet.

    The whole device waits when memory is freed. So it is freed only when there is much of it, and by one thread at a
    time, because Numba's list of such memory has no lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Of each array. Finalizers append to it, which is atomic: they may run while this thread holds the lock.
        self.nbytes: deque[int] = deque()

    def free_if_many(self) -> None:
        """Free the memory if there are many arrays, or if it is a large part of the device's memory."""
        waiting = list(self.nbytes)
        if len(waiting) >= MANY_DEAD or sum(waiting) > DEAD_SHARE * device_memory():
            self.free()

    def free(self) -> None:
        """Free the memory."""
        with self._lock:
            self.nbytes.clear()
            cuda.current_context().deallocations.clear()


_DEAD = _DeadArrays()


def _allocate_or_explain(shape: tuple[int, ...], dtype: DTypeLike, nbytes: int) -> DeviceArray:
    try:
        array: DeviceArray = cuda.device_array(shape, dtype, stream=stream())
    except Exception as error:
        free, total = cuda.current_context().get_memory_info()
        raise DeviceError(f"{nbytes:,} bytes do not fit the device: {free:,} of {total:,} are free") from error
    return array


@functools.cache
def device_memory() -> int:
    """Return the bytes of the device's whole memory. It is read once, because the call is slow."""
    return int(cuda.current_context().get_memory_info().total)


class _Workspaces(threading.local):
    """The workspaces of a host thread by name: arrays of bytes."""

    def __init__(self) -> None:
        self.by_name: dict[str, DeviceArray] = {}


_WORKSPACES = _Workspaces()


def workspace(name: str, shape: Shape, dtype: DTypeLike) -> DeviceArray:
    """Return an uninitialised device array for intermediate results.

    When this thread requests the same name again, the memory is reused and the contents are lost. Reuse avoids
    allocations, for which all streams of the device wait.
    """
    shape = _as_tuple(shape)
    nbytes = _nbytes(shape, dtype)
    if not nbytes:
        return allocate(shape, dtype, name)
    held = _WORKSPACES.by_name
    if name not in held or held[name].size < nbytes:
        held.pop(name, None)  # free the smaller one first
        # A little more than needed, since the next chunk may be a little larger.
        held[name] = allocate(nbytes + nbytes // 8, np.uint8, name)
    return held[name][:nbytes].view(dtype).reshape(shape)


def zeros(name: str, shape: Shape, dtype: DTypeLike) -> DeviceArray:
    """Return a workspace of zeros. The device clears it after this thread's kernels so far; the host does not wait."""
    array = workspace(name, shape, dtype)
    clear(array)
    return array


@device_errors()
def clear(array: DeviceArray) -> None:
    """Set a contiguous device array to zeros, after this thread's kernels so far."""
    if array.size:
        LEDGER.record(Operation.LAUNCH, "clear")
        device_memset(array, 0, array.size * array.dtype.itemsize, stream=stream())


def _as_tuple(shape: Shape) -> tuple[int, ...]:
    return tuple(int(n) for n in np.atleast_1d(shape))


def _nbytes(shape: tuple[int, ...], dtype: DTypeLike) -> int:
    return int(np.prod(shape)) * np.dtype(dtype).itemsize


# --- copies ---


class _Buffer(NamedTuple):
    """A pinned buffer, and the event that marks the end of the last copy from or to it."""

    data: np.ndarray  # (BUFFER_BYTES,) uint8
    copied: Event


class _PinnedBuffers(threading.local):
    """The pinned buffers of each host thread, which copies use in turn."""

    def __init__(self) -> None:
        self.buffers: list[_Buffer] = []

    def take(self, turn: int, like: np.ndarray) -> tuple[np.ndarray, Event]:
        """Return a buffer of the size of ``like`` once its last copy has ended, and its event."""
        while len(self.buffers) < BUFFERS_PER_THREAD:
            self.buffers.append(_Buffer(cuda.pinned_array(BUFFER_BYTES, np.uint8), new_event()))
        buffer = self.buffers[turn % BUFFERS_PER_THREAD]
        LEDGER.record(Operation.WAIT, "pinned buffer")
        buffer.copied.synchronize()
        return buffer.data[: like.nbytes].view(like.dtype), buffer.copied


_PINNED = _PinnedBuffers()


def _parts(flat: np.ndarray, array: DeviceArray) -> Iterator[tuple[np.ndarray, DeviceArray]]:
    """Cut a host array and a device array, both of one dimension, into parts that fit a pinned buffer."""
    step = BUFFER_BYTES // flat.itemsize
    for start in range(0, len(flat), step):
        part = flat[start : start + step]
        yield part, array[start : start + len(part)]


@device_errors()
def upload(host: np.ndarray, cause: str) -> DeviceArray:
    """Return a new device copy of a host array. Kernels may change it. Raises DeviceError."""
    copy = allocate(host.shape, host.dtype, cause)
    # Nothing else uses the new memory yet, so the upload need not wait for the kernels of this thread.
    _copy_from_host(host, copy, cause, copy_stream())
    return copy


@device_errors()
def upload_to_workspace(host: np.ndarray, name: str) -> DeviceArray:
    """Return a copy of a host array in the workspace of this name, so that nothing is allocated again and again.

    The next upload of this host thread to the same name overwrites it, after the kernels that the thread has launched.
    """
    copy = workspace(name, host.shape, host.dtype)
    _copy_from_host(host, copy, name, stream())
    return copy


def _copy_from_host(host: np.ndarray, copy: DeviceArray, cause: str, order: Stream) -> None:
    """Queue a copy of a host array to a contiguous device array of the same shape, in the order of a stream.

    Kernels and copies that this thread submits later wait for it.
    """
    if not host.size:
        return
    flat = np.ascontiguousarray(host).reshape(-1)
    for turn, (part, target) in enumerate(_parts(flat, copy.reshape(host.size))):
        buffer, copied = _PINNED.take(turn, part)
        # `take` has waited until the copy that used this buffer before is complete.
        np.copyto(buffer, part)
        target.copy_to_device(buffer, stream=order)
        copied.record(order)
    copied.wait(stream())
    LEDGER.record(Operation.UPLOAD, cause, host.nbytes)


@device_errors()
def cached_copy(host: np.ndarray, cause: str) -> DeviceArray:
    """Return the read-only device copy of a host array. The first call uploads it. Raises DeviceError."""
    copy = COPIES.get(host)
    if copy is None:
        copy = upload(host, cause)
        COPIES.put(host, copy)
    return copy


def on_device(arrays: Fields, **copies: DeviceArray | tuple[object, ...]) -> Fields:
    """Return a named tuple with device arrays in some fields. Its annotations remain those of host arrays."""
    return arrays._replace(**copies)  # type: ignore[attr-defined]  # a NamedTuple's


def cached_copies(arrays: Fields, cause: str) -> Fields:
    """Return a named tuple with the cached copies of its arrays; numbers stay as they are."""
    copies = {}
    for field, value in zip(arrays._fields, arrays, strict=True):  # type: ignore[attr-defined]  # a NamedTuple's
        if isinstance(value, np.ndarray):
            copies[field] = cached_copy(value, f"{cause}.{field}")
    return on_device(arrays, **copies)


def resident(host: np.ndarray, cause: str) -> DeviceArray:
    """Return the device array that has the contents of a host array until `RESIDENTS.bring_back`. Raises DeviceError.

    The first call uploads them. Kernels may change the device array. The host array must be contiguous.
    """
    array = RESIDENTS.get(host)
    if array is None:
        array = upload(host, cause)
        RESIDENTS.put(host, Resident(array, functools.partial(_bring_back, array, cause)))
    return array


def leave_on_device(array: DeviceArray, cause: str) -> np.ndarray:
    """Return a host array that has the contents of a device array after `RESIDENTS.bring_back`."""
    # The operating system gives it memory only when somebody writes to it.
    host = np.empty(array.shape, array.dtype)
    RESIDENTS.put(host, Resident(array, functools.partial(_bring_back, array, cause)))
    return host


def _bring_back(array: DeviceArray, cause: str, host: np.ndarray, keep: bool) -> None:
    """Copy a resident to its host array; see `Residents.bring_back`."""
    _copy_to_host(array, cause, host)
    if keep and host.size:
        COPIES.put(host, array)


def readable(host: np.ndarray, cause: str) -> DeviceArray:
    """Return a device array with the contents of a host array, which kernels must not change. Raises DeviceError.

    It is the resident array, or its rows if the host array is a part of one, otherwise the cached copy.
    """
    found = RESIDENTS.find(host)
    return cached_copy(host, cause) if found is None else found


def joined(parts: Sequence[np.ndarray], cause: str) -> np.ndarray:
    """Return a host array that has the rows of all parts after `RESIDENTS.bring_back`, the same one for the same parts.

    The rows are copied from device to device. Only parts without a copy on the device are uploaded. The parts must not
    be changed. Any thread may use the result. Raises DeviceError.
    """
    if len(parts) == 1:
        return parts[0]
    return derived(tuple(parts), f"joined {cause}", functools.partial(_join, parts, cause))


@device_errors()
def _join(parts: Sequence[np.ndarray], cause: str) -> np.ndarray:
    n_rows = sum(len(part) for part in parts)
    whole = allocate((n_rows, *parts[0].shape[1:]), parts[0].dtype, cause)
    flat = whole.reshape(whole.size)
    # They live until the host has waited. Otherwise another thread might drop a copy that is still being read.
    copies = [readable(part, cause).reshape(part.size) for part in parts if part.size]
    first = 0
    for copy in copies:
        flat[first : first + copy.size].copy_to_device(copy, stream=stream())
        LEDGER.record(Operation.LAUNCH, "join")
        first += copy.size
    found = leave_on_device(whole, cause)
    share_residents([found], cause)
    return found


def share_residents(arrays: Iterable[np.ndarray], cause: str) -> None:
    """Let other threads read the device arrays of these residents, until any thread calls `RESIDENTS.bring_back`.

    If the residents of this process take more than `RESIDENT_SHARE` of the device's memory, they are brought back now.
    Raises DeviceError.
    """
    if RESIDENTS.nbytes > RESIDENT_SHARE * device_memory():
        RESIDENTS.bring_back(arrays)
    else:
        synchronize(cause)


def download(array: DeviceArray, cause: str, keep: bool = False) -> np.ndarray:
    """Return the contents of a device array.

    With ``keep``, the device array becomes the cached copy of the returned array, which must then not be changed. Waits
    for this thread's stream. If one of the kernels since the last wait failed, raises DeviceError, which names them.
    """
    host = PINNED_RESULTS.empty(array.shape, array.dtype)
    if host is None:
        host = np.empty(array.shape, array.dtype)
        _copy_to_host(array, cause, host)
    else:
        _copy_to_pinned(array, cause, host)
    if keep and host.size:
        COPIES.put(host, array)
    return host


def download_during(array: DeviceArray, cause: str, submit: Callable[[], None]) -> np.ndarray:
    """Return the contents of a device array, which stays as their cached copy: see `download`.

    The copy runs at the same time as the kernels that ``submit`` launches. They must not change the array.
    """
    host = PINNED_RESULTS.empty(array.shape, array.dtype)
    if host is None:
        submit()
        return download(array, cause, keep=True)
    _wait_for(stream(), copy_stream())
    with device_errors():
        array.reshape(host.size).copy_to_host(host.reshape(-1), stream=copy_stream())
    LEDGER.record(Operation.DOWNLOAD, cause, host.nbytes)
    try:
        submit()
    finally:
        # If a launch failed, too: the memory of `host` is used again as soon as the caller drops it.
        _wait_for(copy_stream(), stream())
        synchronize(cause)
    COPIES.put(host, array)
    return host


def _wait_for(first: Stream, second: Stream) -> None:
    """Let ``second`` wait until ``first`` has done all that it was given so far. The host does not wait."""
    event = new_event()
    event.record(first)
    event.wait(second)


@device_errors()
def _copy_to_host(array: DeviceArray, cause: str, host: np.ndarray) -> None:
    """Copy a device array to a contiguous host array of the same shape, and wait for this thread's stream."""
    if not host.size:
        return
    LEDGER.record(Operation.DOWNLOAD, cause, host.nbytes)
    # Parts that are being copied or in a pinned buffer: at most one for each buffer.
    under_way: list[tuple[np.ndarray, np.ndarray]] = []
    for turn, (part, source) in enumerate(_parts(host.reshape(-1), array.reshape(host.size))):
        buffer, copied = _PINNED.take(turn, part)
        if turn >= BUFFERS_PER_THREAD:
            # This buffer's last part has arrived.
            np.copyto(*under_way.pop(0))
        source.copy_to_host(buffer, stream=stream())
        copied.record(stream())
        under_way.append((part, buffer))
    synchronize(cause)
    for part, buffer in under_way:
        np.copyto(part, buffer)


@device_errors()
def _copy_to_pinned(array: DeviceArray, cause: str, host: np.ndarray) -> None:
    """Copy a device array to a pinned host array of the same shape, and wait for this thread's stream."""
    LEDGER.record(Operation.DOWNLOAD, cause, host.nbytes)
    array.reshape(host.size).copy_to_host(host.reshape(-1), stream=stream())
    synchronize(cause)


def derived(sources: np.ndarray | Arrays, name: Hashable, compute: Callable[[], Value]) -> Value:
    """Return the result of ``compute``, a function of one or several host arrays. It is called only once.

    The result is kept under ``name`` as long as all the arrays live. They must not be changed.
    """
    if isinstance(sources, np.ndarray):
        sources = (sources,)
    return DERIVED.get(sources, name, compute)
