"""Every compiler option of the CUDA kernels, in one place, and how they are launched."""

import contextlib
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

from numba import config, cuda

from ..errors import DeviceError

# A small corpus has small grids: that is no fault to warn of.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

#: A kernel that is launched; compiled at its first launch, when the device is known.
kernel = partial(cuda.jit)


#: A kernel that takes no more than 64 registers a thread, so that a multiprocessor has 1,024 threads under way.
lean_kernel = kernel if config.ENABLE_CUDASIM else partial(cuda.jit, launch_bounds=1024)

#: A function that kernels call.
device = partial(cuda.jit, device=True)

#: Dynamic shared memory of a block, in bytes, that needs no permission on any device.
PORTABLE = 48 << 10
#: Bytes of shared memory left to what a kernel declares itself, and to the driver.
KEPT = 2 << 10

_here = threading.local()


def stream() -> Any:
    """Return this thread's stream: threads' transfers and kernels overlap (SaberLDA's workers, section 3.1.4)."""
    if not hasattr(_here, "stream"):
        _here.stream, _here.launched = cuda.stream(), []
    return _here.stream


def launch(function: Any, blocks: int, threads: int, *arguments: Any, shared: int = 0) -> None:
    """Launch a kernel on this thread's stream with ``shared`` bytes of dynamic shared memory a block.

    Raises DeviceError, which names the kernel.
    """
    on = stream()
    name = function.__name__.lstrip("_")
    try:
        if shared > PORTABLE - KEPT:
            _permit(function, arguments)
        function[int(blocks), int(threads), on, int(shared)](*arguments)
    except Exception as error:
        raise DeviceError(f"CUDA kernel {name}: {error}") from error
    # Arguments are held until the kernel has ended: an allocator may give their memory away at once.
    _here.launched.append((name, arguments))


@contextlib.contextmanager
def named() -> Iterator[None]:
    """Turn what the driver raises within into a DeviceError that names this thread's last kernels.

    A kernel's fault shows in whatever call comes next: a copy, an allocation, an event.
    """
    try:
        yield
    except DeviceError:
        raise
    except Exception as error:
        names = ", then ".join(name for name, _ in getattr(_here, "launched", ())) or "of another thread"
        raise DeviceError(f"CUDA kernel {names}: {error}") from error


def synchronize() -> None:
    """Wait for this thread's stream; raise DeviceError, which names the kernels launched since the last time."""
    on = stream()
    try:
        with named():
            on.synchronize()
    finally:
        _here.launched.clear()


def shared_limit() -> int:
    """Return the dynamic shared memory, in bytes, that a block of this device may have."""
    found = cuda.current_context().device
    return getattr(found, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", PORTABLE) - KEPT


def _permit(function: Any, arguments: tuple[Any, ...]) -> None:
    """Let a kernel have more dynamic shared memory than devices grant unasked: all, as threads may want different."""
    if config.ENABLE_CUDASIM:
        return
    from numba.cuda.cudadrv.driver import binding, driver

    compiled = function.compile(tuple(function.typeof_pyval(a) for a in arguments))
    handle = compiled.library.get_cufunc().handle
    attribute = binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.cuKernelSetAttribute(attribute, shared_limit(), handle, cuda.current_context().device.id)
