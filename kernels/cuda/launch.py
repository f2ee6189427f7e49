"""How kernels are launched: one stream per host thread, and errors that name the kernel.

A launch returns before the kernel has run. The kernels and downloads of one host thread run in the order in which it
submitted them, because they share the thread's stream. Those of different threads overlap (SaberLDA, section 3.1.2).
Uploads to new memory have a stream of their own, so that a chunk is uploaded while the one before it trains; so have
downloads that kernels need not wait for.

A kernel's fault, such as an illegal address, is reported by the next call: a copy, an allocation or a wait.
`device_errors` turns it into a DeviceError with the names of the kernels that may have caused it.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import NamedTuple

from numba import cuda

from ..errors import DeviceError
from .arrays import Compiled, Event, Stream
from .ledger import LEDGER, Operation

#: Dynamic shared memory of a block, in bytes, that every device grants without a request.
PORTABLE_SHARED_BYTES = 48 << 10
#: Bytes of shared memory that a block's dynamic part leaves to the driver and to the kernel's own static arrays.
RESERVED_SHARED_BYTES = 2 << 10


class Launch(NamedTuple):
    """A kernel and what it is launched with."""

    function: Compiled
    blocks: int
    threads: int  # per block
    arguments: tuple[object, ...]  # numbers, device arrays and nested named tuples of both
    shared: int  # bytes of dynamic shared memory per block

    @property
    def name(self) -> str:
        """The kernel's name, without the underscore of a private function."""
        return str(self.function.__name__).lstrip("_")


class _ThreadState(threading.local):
    """The stream of a host thread, and its launches that may still be running."""

    def __init__(self) -> None:
        # The stream is made at its first use. Making it here would create a context on the device at import.
        self.stream: Stream | None = None
        self.copy_stream: Stream | None = None
        self.pending: list[Launch] = []


_STATE = _ThreadState()


def stream() -> Stream:
    """Return this thread's stream."""
    if _STATE.stream is None:
        _STATE.stream = cuda.stream()
    return _STATE.stream


def copy_stream() -> Stream:
    """Return this thread's second stream. Its copies run at the same time as the kernels of the first one."""
    if _STATE.copy_stream is None:
        _STATE.copy_stream = cuda.stream()
    return _STATE.copy_stream


def new_event() -> Event:
    """Return a CUDA event, which marks a position in a stream. It records no time stamp, because that costs time."""
    return cuda.event(timing=False)


def launch(function: Compiled, blocks: int, threads: int, *arguments: object, shared: int = 0) -> None:
    """Launch a kernel on this thread's stream with ``shared`` bytes of dynamic shared memory per block.

    Raises DeviceError, which names the kernel.
    """
    submitted = Launch(function, int(blocks), int(threads), arguments, int(shared))
    try:
        submit(submitted)
    except Exception as error:
        raise DeviceError(f"CUDA kernel {submitted.name}: {error}") from error
    LEDGER.record(Operation.LAUNCH, submitted.name)
    hold(submitted)


def hold(submitted: Launch) -> None:
    """Keep the arguments of a launch until this thread waits for its stream.

    They must outlive the kernel: memory that is freed now may be given to another array at once.
    """
    _STATE.pending.append(submitted)


def submit(what: Launch) -> None:
    """Pass one launch to Numba. Benchmarks time kernels, and tests record them, by replacing this function."""
    if what.shared > PORTABLE_SHARED_BYTES - RESERVED_SHARED_BYTES:
        request_large_shared_memory(what.function, what.arguments)
    what.function[what.blocks, what.threads, stream(), what.shared](*what.arguments)


def synchronize(cause: str) -> None:
    """Wait until this thread's stream is empty; raise DeviceError, which names the kernels since the last wait."""
    LEDGER.record(Operation.WAIT, cause)
    try:
        with device_errors():
            stream().synchronize()
    finally:
        _STATE.pending.clear()


@contextlib.contextmanager
def device_errors() -> Iterator[None]:
    """Context manager: turn the driver's errors into a DeviceError that names this thread's pending kernels."""
    try:
        yield
    except DeviceError:
        raise
    except Exception as error:
        names = ", then ".join(pending.name for pending in _STATE.pending) or "of another thread"
        raise DeviceError(f"CUDA kernel {names}: {error}") from error


def multiprocessors() -> int:
    """Return how many multiprocessors this device has."""
    return int(cuda.current_context().device.MULTIPROCESSOR_COUNT)


def shared_memory_limit() -> int:
    """Return how many bytes of dynamic shared memory a block of this device may have."""
    return int(cuda.current_context().device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) - RESERVED_SHARED_BYTES


def request_large_shared_memory(function: Compiled, arguments: tuple[object, ...]) -> None:
    """Allow a kernel as much dynamic shared memory as the device has. Above 48 KiB, the driver requires this call.

    The request is for the device's limit rather than for the bytes of one launch, because another thread may launch the
    same kernel with more. Numba compiles the kernel and loads it; the request itself goes through NVIDIA's public
    bindings of the driver.
    """
    from cuda.bindings import driver

    compiled = function.compile(tuple(function.typeof_pyval(argument) for argument in arguments))
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    handle = compiled.library.get_cufunc().handle
    limit = shared_memory_limit()
    (error,) = driver.cuKernelSetAttribute(attribute, limit, handle, cuda.current_context().device.id)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the driver refuses {limit:,} bytes of shared memory per block: {error.name}")
