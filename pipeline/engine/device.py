"""Where a task computes: on the processor, or on the CUDA device of the worker that runs it.

A model's kernels are in ``kernels/<model>``. Those that also run on a device have a module of the same name, with the
same functions, in ``kernels/cuda/<model>``. An algorithm calls `kernels` inside its task. So the process that submits
the tasks never loads CUDA, and needs no device.
"""

import contextlib
import ctypes
import functools
import importlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from ...kernels.cuda.ledger import LEDGER, Entry, Operation, Total, by_operation
from ...kernels.cuda.residents import RESIDENTS
from ...kernels.errors import DeviceError

if TYPE_CHECKING:
    from ...io.stores.store import Arrays
    from ...kernels.interfaces import (
        CellKernels,
        EscaKernels,
        FactorSums,
        HalsKernels,
        MiniBatchKernels,
        PackingKernels,
        RandomIndexingKernels,
        SkipGramKernels,
        WalkKernels,
    )

Value = TypeVar("Value")

#: The choices of a user. "auto" means the device where the worker has one, otherwise the processor.
DEVICES = ("auto", "cpu", "cuda")


def resolve_device(device: str, has_kernels: bool, what: str) -> str:
    """Return the device of an algorithm: "cpu" if there are no CUDA kernels for ``what``, otherwise the user's choice.

    Raises ValueError for an unknown device, and for "cuda" where there are no CUDA kernels.
    """
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}: choose one of {', '.join(DEVICES)}")
    if has_kernels:
        return device
    if device == "cuda":
        raise ValueError(f"{what} has no CUDA kernels: choose device 'auto' or 'cpu'")
    return "cpu"


@overload
def kernels(module: Literal["count_rows"], device: str) -> "PackingKernels": ...
@overload
def kernels(module: Literal["lda.minibatch"], device: str) -> "MiniBatchKernels": ...
@overload
def kernels(module: Literal["lda.esca"], device: str) -> "EscaKernels": ...
@overload
def kernels(module: Literal["nmf.hals"], device: str) -> "HalsKernels": ...
@overload
def kernels(module: Literal["nmf.sums"], device: str) -> "FactorSums": ...
@overload
def kernels(module: Literal["node2vec.walks"], device: str) -> "WalkKernels": ...
@overload
def kernels(module: Literal["random_indexing.accumulate"], device: str) -> "RandomIndexingKernels": ...
@overload
def kernels(module: Literal["word2vec.cells"], device: str) -> "CellKernels": ...
@overload
def kernels(module: Literal["word2vec.skip_gram"], device: str) -> "SkipGramKernels": ...
def kernels(module: str, device: str) -> object:
    """Return a module of kernels for this worker: of the processor, or of its CUDA device. Call it inside a task.

    ``module`` is a name below ``corpusmill.kernels``. The types of the results are in ``kernels/interfaces.py``.
    """
    if runs_on_cuda(device):
        module = f"cuda.{module}"
    return importlib.import_module(f"...kernels.{module}", __package__)


def runs_on_cuda(device: str) -> bool:
    """Return whether `kernels` returns those of a CUDA device. Call it inside a task."""
    return device == "cuda" or (device == "auto" and has_cuda())


@functools.cache
def has_cuda() -> bool:
    """Return whether this process can use a CUDA device. Creates no context on it."""
    # The import takes a fifth of a second, for nothing on a machine without a driver.
    if sys.platform == "linux" and not {"numba.cuda", "NUMBA_CUDA_DRIVER"} & {*sys.modules, *os.environ}:
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            return False
    try:
        from numba import cuda

        return bool(cuda.is_available())
    except Exception:  # the driver is broken, or too old for the library: there is no device to use
        return False


# --- arrays on the device of this worker ---


def any_on_device(arrays: Iterable[np.ndarray]) -> bool:
    """Return whether the device has the content of one of the arrays."""
    return any(RESIDENTS.find(array) is not None for array in arrays)


def bring_back(arrays: Iterable[np.ndarray]) -> None:
    """Copy the content of arrays that is on the device to the host."""
    RESIDENTS.bring_back(arrays)


def share_deltas(deltas: "Iterable[Arrays]") -> None:
    """Let other threads of this worker read what kernels of this thread have left on the device.

    If too much waits there to be merged, these deltas are brought back; see ``memory.share_residents``.
    """
    arrays = []
    for delta in deltas:
        arrays += [array for array in delta.values() if any_on_device([array])]
    if arrays:
        from ...kernels.cuda.memory import share_residents

        share_residents(arrays, "deltas")


# --- arrays that go from one device to another ---

#: Protocols of Dask that send device memory: UCX, under both names that Dask's backend for it accepts.
DEVICE_PROTOCOLS = ("ucx", "ucxx")


def sends_device_memory(address: str) -> bool:
    """Return whether a worker of this address sends arrays from its device to that of another worker."""
    protocol, _, _ = address.partition("://")
    return protocol in DEVICE_PROTOCOLS


def takes_from_device(address: str, nbytes: int, share: float) -> bool:
    """Return whether arrays of this size should go from the device of the worker at an address to that of this one.

    Arrays that stay on the device for a while may take ``share`` of its memory.
    """
    if not sends_device_memory(address) or not has_cuda():
        return False
    from ...kernels.cuda import peers

    return peers.has_space_for(nbytes, share)


def sendable(arrays: "Arrays") -> "Mapping[str, object]":
    """Return arrays in the form in which they go to the device of another worker; see ``kernels/cuda/peers.py``."""
    if not has_cuda():
        return arrays
    from ...kernels.cuda import peers

    return peers.sendable(arrays)


def received(arrays: "Mapping[str, Any]") -> "Arrays":
    """Return arrays that came from `sendable` of another worker, in the form that kernels take."""
    from ...kernels.cuda import peers

    return peers.received(arrays)


# --- what is measured ---


class DeviceCounts:
    """The operations of several threads on the device, by the names of `ledger.by_operation`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Context manager: count what this thread does on the device. Errors are not counted."""
        with LEDGER.recording() as traffic:
            yield
        if traffic:
            with self._lock:
                self._counts.update(by_operation(traffic))

    @property
    def totals(self) -> dict[str, int]:
        """How often each operation was done so far, by name."""
        with self._lock:
            return dict(self._counts)


def with_traffic(action: Callable[[], Value]) -> tuple[Value, list[list[Any]]]:
    """Return the result of an action, and what it has done on the device, in the form that `include_traffic` takes."""
    with LEDGER.recording() as traffic:
        value = action()
    return value, [[*entry, *total] for entry, total in traffic.items()]


def include_traffic(traffic: list[list[Any]]) -> None:
    """Add to the counts of this thread what another worker has done on its device for it."""
    for operation, cause, calls, nbytes in traffic:
        LEDGER.include(Entry(Operation(operation), cause), Total(calls, nbytes))


def device_memory() -> int:
    """Return the bytes of this worker's CUDA device that a run may use; 0 if there is no device."""
    if not has_cuda():
        return 0
    from numba import cuda

    from ...kernels.cuda.allocator import set_memory_manager
    from ...kernels.cuda.caches import COPIES

    set_memory_manager()
    try:
        free = cuda.current_context().get_memory_info().free
    except Exception as error:
        raise DeviceError(
            f"the CUDA device does not answer: {error}: start the worker, or this process, again, or choose "
            f"device 'cpu'"
        ) from error
    # Cached copies are dropped when memory is short, so their memory counts as free.
    return int(free + COPIES.nbytes)
