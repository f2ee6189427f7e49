"""Where Numba takes device memory from: the driver's stream-ordered pool, if RMM is installed.

RMM is RAPIDS' memory manager. Without it, Numba calls cuMemAlloc and cuMemFree, and the whole device waits for each
call. Memory of the pool is allocated and freed in the order of a stream, like a kernel, and the host does not wait.
RMM uses the default stream. The streams of all threads wait for it, and it waits for them, so any thread may use an
array and free it. For the same reason, a copy to new memory begins after the kernels that were launched before.

The environment variable NUMBA_CUDA_MEMORY_MANAGER=default selects the calls without the pool. No device has run
the pool yet.
"""

import functools
import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from numba import cuda

#: The environment variable of Numba by which a user chooses a memory manager.
VARIABLE = "NUMBA_CUDA_MEMORY_MANAGER"
#: The value of the variable that stands for RMM.
RMM = "rmm.allocators.numba"
#: The pool never gives memory back to the driver before the process ends.
KEEP_ALL = 2**64 - 1


def choose_manager(environment: Mapping[str, str], has_rmm: bool) -> str:
    """Return the name of the memory manager: the user's choice, else RMM if it is installed, else "default"."""
    return environment.get(VARIABLE, RMM if has_rmm else "default")


def memory_manager() -> str:
    """Return the name of this process's memory manager."""
    return choose_manager(os.environ, importlib.util.find_spec("rmm") is not None)


def make_pool_manager() -> type[Any]:
    """Return the class of the memory manager. Numba makes an instance per context.

    It is defined here because most installations have no RMM.
    """
    import rmm
    from cuda.bindings import driver
    from numba.cuda import MemoryInfo
    from rmm.allocators.numba import RMMNumbaManager

    class PoolManager(RMMNumbaManager):
        """Takes device memory from the driver's pool, or from the resource of RMM that was chosen before."""

        def initialize(self) -> None:
            """Choose the pool, unless the user or dask-cuda chose another resource. Numba calls this several times."""
            if type(rmm.mr.get_current_device_resource()) is not rmm.mr.CudaMemoryResource:
                return
            pool = self._pool()
            threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
            _checked(driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(KEEP_ALL)))
            rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncViewMemoryResource(pool))

        def get_memory_info(self) -> MemoryInfo:
            """Return the bytes of the device. What the pool holds without using it counts as free."""
            free, total = _checked(driver.cuMemGetInfo())
            resource = rmm.mr.get_current_device_resource()
            if isinstance(resource, rmm.mr.PoolMemoryResource):
                # RMM's own pool, by dask-cuda's option rmm_pool_size. It does not say how much of it is in use. What
                # CuPy or UCX have of it is missing here.
                used = sum(buffer.size for buffer in list(self.allocations.values()))
                return MemoryInfo(int(free) + resource.pool_size() - used, int(total))
            attributes = driver.CUmemPool_attribute
            pool = self._pool()
            (held,) = _checked(driver.cuMemPoolGetAttribute(pool, attributes.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT))
            (used,) = _checked(driver.cuMemPoolGetAttribute(pool, attributes.CU_MEMPOOL_ATTR_USED_MEM_CURRENT))
            return MemoryInfo(int(free) + int(held) - int(used), int(total))

        def _pool(self) -> Any:
            """Return the default pool of the context's device."""
            (pool,) = _checked(driver.cuDeviceGetDefaultMemPool(self.context.device.id))
            return pool

    return PoolManager


def _checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the results of a call of the driver. Raises RuntimeError with the driver's name of the error."""
    error, *results = answer
    if error.value:
        raise RuntimeError(f"the driver returned {error.name}")
    return tuple(results)


@functools.cache
def set_memory_manager() -> None:
    """Let Numba use the pool, if `memory_manager` is RMM. It has an effect on contexts that are made afterwards."""
    if memory_manager() == RMM:
        cuda.set_memory_manager(make_pool_manager())
