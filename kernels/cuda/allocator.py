"""Where Numba takes device memory from: the driver's stream-ordered pool (CUDA programming guide, "Stream Ordered
Memory Allocator").

The usual calls of the driver, cuMemAlloc and cuMemFree, let the whole device wait. Memory of the pool is allocated and
freed in the order of a stream, like a kernel, and nobody waits. The pool keeps freed memory for the next allocation.

Importing this file makes Numba use the pool. If NUMBA_CUDA_MEMORY_MANAGER is set in the environment, Numba uses that
memory manager instead: "default" stands for cuMemAlloc, and "rmm.allocators.numba" for that of RAPIDS.

Without a device, tests replace the driver: tests/kernels/cuda/test_allocator.py. No device has run it yet.
"""

import contextlib
import importlib.util
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from numba import config, cuda

from .arrays import Stream
from .launch import stream

#: The environment variable by which a user chooses another memory manager.
VARIABLE = "NUMBA_CUDA_MEMORY_MANAGER"
#: The pool never gives memory back to the driver before the process ends.
KEEP_ALL = 2**64 - 1


#: Pointers of the driver, each with a stream.
Dead = deque[tuple[Any, Stream]]


class MemoryInfo(NamedTuple):
    """Bytes of the device's memory."""

    free: int
    total: int


class _State(threading.local):
    """The stream in whose order this thread allocates, None for the stream of its kernels."""

    def __init__(self) -> None:
        self.stream: Stream | None = None


_STATE = _State()


@contextlib.contextmanager
def allocating_on(other: Stream) -> Iterator[None]:
    """Context manager: allocate memory in the order of another stream of this thread.

    Memory is always freed in the order of the thread's main stream, which therefore has to wait for the other one
    before anything uses the memory.
    """
    _STATE.stream = other
    try:
        yield
    finally:
        _STATE.stream = None


def choose_manager(environment: Mapping[str, str], has_bindings: bool) -> str:
    """Return the name of the memory manager: "pool", or the user's choice. Without NVIDIA's bindings, "default"."""
    chosen = environment.get(VARIABLE)
    if chosen is not None:
        return chosen
    return "pool" if has_bindings else "default"


def memory_manager() -> str:
    """Return the name of this process's memory manager."""
    if config.ENABLE_CUDASIM:
        return "default"
    return choose_manager(os.environ, _has_bindings())


def _has_bindings() -> bool:
    """Return whether Numba calls the driver through NVIDIA's bindings.

    The package numba-cuda does, and takes the place of Numba's own ``numba.cuda``, which calls the driver by ctypes.
    """
    if "numba_cuda" not in str(cuda.__file__):
        return False
    return importlib.util.find_spec("cuda.bindings.driver") is not None


def memory_info() -> MemoryInfo:
    """Return the bytes of this thread's device. Creates a context on it."""
    context = cuda.current_context()
    try:
        found = context.get_memory_info()
    except NotImplementedError:
        # RMM's manager has no such figures, because its pool may be of any kind.
        return _driver_memory_info()
    return MemoryInfo(found.free, found.total)


def _driver_memory_info() -> MemoryInfo:
    from cuda.bindings import driver

    free, total = _checked(driver.cuMemGetInfo())
    return MemoryInfo(int(free), int(total))


def _checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the results of a call of the driver. Raises RuntimeError with the driver's name of the error."""
    error, *results = answer
    if error.value:
        raise RuntimeError(f"the driver returned {error.name}")
    return tuple(results)


def make_pool_manager() -> type[Any]:
    """Return the class of the memory manager. Numba makes an instance per context.

    It is defined here because the simulator has neither its base class nor NVIDIA's bindings.
    """
    from cuda.bindings import driver
    from numba.cuda import HostOnlyCUDAMemoryManager, MemoryPointer

    class PoolManager(HostOnlyCUDAMemoryManager):
        """Takes device memory from the pool. The base class allocates pinned memory of the host."""

        interface_version = 1

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._pool: Any = None
            #: Pointers to free, each with the stream in whose order. Finalizers append, which is atomic.
            self._dead: Dead = deque()

        def initialize(self) -> None:
            """Find the pool. Numba calls this each time that a thread begins to use the context."""
            if self._pool is None:
                self._pool = _find_pool(self.context.device.id)

        def memalloc(self, size: int) -> Any:
            """Allocate memory in the order of a stream of this thread."""
            _free(self._dead)
            main = stream()
            (pointer,) = _checked(driver.cuMemAllocAsync(size, int((_STATE.stream or main).handle)))
            # The main stream is held until the memory has been freed in its order: its thread may end before.
            finalizer = partial(self._dead.append, (pointer, main))
            return MemoryPointer(self.context, pointer, size, finalizer=finalizer)

        def get_memory_info(self) -> MemoryInfo:
            """Return the bytes of the device. What the pool holds without using it counts as free."""
            _free(self._dead)
            return _pool_memory_info(self._pool)

        def get_ipc_handle(self, memory: Any) -> Any:
            """Refuse to share memory with other processes, which the pool cannot do."""
            raise NotImplementedError("memory of the pool cannot be shared with other processes")

        def reset(self) -> None:
            """Forget all memory: Numba calls this before it destroys the context."""
            super().reset()
            self._dead.clear()

    return PoolManager


def _find_pool(device: int) -> Any:
    """Return a device's pool, which from now on keeps freed memory. Raises RuntimeError if it has none."""
    from cuda.bindings import driver

    supported = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
    if not _checked(driver.cuDeviceGetAttribute(supported, device))[0]:
        raise RuntimeError(f"this device has no memory pools: set {VARIABLE}=default in the environment")
    (pool,) = _checked(driver.cuDeviceGetDefaultMemPool(device))
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    _checked(driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(KEEP_ALL)))
    return pool


def _pool_memory_info(pool: Any) -> MemoryInfo:
    from cuda.bindings import driver

    names = driver.CUmemPool_attribute
    free, total = _driver_memory_info()
    (reserved,) = _checked(driver.cuMemPoolGetAttribute(pool, names.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT))
    (used,) = _checked(driver.cuMemPoolGetAttribute(pool, names.CU_MEMPOOL_ATTR_USED_MEM_CURRENT))
    return MemoryInfo(free + int(reserved) - int(used), total)


def _free(dead: Dead) -> None:
    """Free what has died. Finalizers do not do this: they may run in any thread, also in one without a context."""
    from cuda.bindings import driver

    with contextlib.suppress(IndexError):  # another thread has taken the last one
        while dead:
            pointer, order = dead.popleft()
            _checked(driver.cuMemFreeAsync(pointer, int(order.handle)))


if memory_manager() == "pool":
    cuda.set_memory_manager(make_pool_manager())
