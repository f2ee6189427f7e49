"""Device memory: who chooses where it comes from, and the streams in whose order copies run."""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from corpusmill.kernels.cuda import allocator, caches, launch, memory, pinned
from corpusmill.kernels.cuda.pinned import MIN_BYTES
from helpers.cuda_ptx import HostCuda


@pytest.mark.parametrize(
    ("environment", "has_rmm", "expected"),
    [
        ({}, True, "rmm.allocators.numba"),
        ({}, False, "default"),
        ({"NUMBA_CUDA_MEMORY_MANAGER": "default"}, True, "default"),
        ({"NUMBA_CUDA_MEMORY_MANAGER": "rmm.allocators.numba"}, False, "rmm.allocators.numba"),
    ],
)
def test_rmm_gives_memory_if_it_is_installed_unless_the_user_chooses_another_manager(environment, has_rmm, expected):
    assert allocator.choose_manager(environment, has_rmm) == expected


def test_numba_accepts_the_manager_of_the_pool():
    pytest.importorskip("rmm")
    from numba.cuda.cudadrv import driver

    assert allocator.memory_manager() == "rmm.allocators.numba"
    # It was set when `memory` was imported, and Numba checked the version of its interface.
    assert driver._memory_manager.__name__ == "PoolManager"
    assert isinstance(driver._memory_manager(context=None), driver.HostOnlyCUDAMemoryManager)


class FakeResource:
    """Replaces a memory resource of RMM: a pool of 50 bytes."""

    def pool_size(self):
        return 50


class FakePool(FakeResource):
    pass


@pytest.mark.parametrize(("resource", "free"), [(FakePool(), 10 + 50 - 20), (FakeResource(), 10 + 30 - 5)])
def test_what_a_pool_does_not_use_is_free_memory(resource, free, monkeypatch):
    from cuda.bindings import driver

    mr = SimpleNamespace(get_current_device_resource=lambda: resource, PoolMemoryResource=FakePool)
    monkeypatch.setitem(sys.modules, "rmm", SimpleNamespace(mr=mr))
    monkeypatch.setitem(sys.modules, "rmm.allocators.numba", SimpleNamespace(RMMNumbaManager=object))
    success = driver.CUresult.CUDA_SUCCESS
    held = {
        driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: 30,
        driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT: 5,
    }
    monkeypatch.setattr(driver, "cuMemGetInfo", lambda: (success, 10, 100))
    monkeypatch.setattr(driver, "cuDeviceGetDefaultMemPool", lambda device: (success, "pool"))
    monkeypatch.setattr(driver, "cuMemPoolGetAttribute", lambda pool, attribute: (success, held[attribute]))
    manager = allocator.make_pool_manager()()
    manager.context = SimpleNamespace(device=SimpleNamespace(id=0))
    manager.allocations = {1: SimpleNamespace(size=12), 2: SimpleNamespace(size=8)}
    assert tuple(manager.get_memory_info()) == (free, 100)


class Recorder(HostCuda):
    """Replaces numba.cuda. Streams have names, and write down what is done in their order."""

    def __init__(self):
        super().__init__(0)
        self.done = []
        self.streams = 0

    def stream(self):
        self.streams += 1
        return SimpleNamespace(name=f"stream {self.streams}", synchronize=lambda: self.done.append("the host waits"))

    def event(self, timing=True):
        done = self.done
        return SimpleNamespace(
            record=lambda stream: done.append(("record", stream.name)),
            wait=lambda stream: done.append(("wait", stream.name)),
            synchronize=lambda: None,
        )


def test_copies_and_kernels_run_at_the_same_time_where_neither_needs_the_other(monkeypatch):
    host = Recorder()
    for module in (caches, launch, memory, pinned):
        monkeypatch.setattr(module, "cuda", host)
    monkeypatch.setattr(memory, "BUFFER_BYTES", 16)

    def call():
        main, second = launch.stream(), launch.copy_stream()
        assert (main.name, second.name) == ("stream 1", "stream 2")
        memory.upload(np.arange(6), "text")
        assert host.done == [*[("record", "stream 2")] * 3, ("wait", "stream 1")]
        host.done.clear()
        # A workspace may be in use by kernels of the main stream.
        memory.upload_to_workspace(np.arange(2), "S")
        assert host.done == [("record", "stream 1"), ("wait", "stream 1")]
        host.done.clear()
        # A download waits for the kernels so far. Later kernels do not wait for it, but the host does.
        array = memory.allocate(MIN_BYTES, np.uint8, "H")
        memory.download_during(array, "H", lambda: host.done.append("kernels"))
        assert host.done == [
            ("record", "stream 1"),
            ("wait", "stream 2"),
            "kernels",
            ("record", "stream 2"),
            ("wait", "stream 1"),
            "the host waits",
            ("record", "stream 1"),  # its cached copy is complete
        ]

    errors = []

    def guarded():
        try:
            call()
        except BaseException as error:
            errors.append(error)

    # In another thread, because streams and buffers are kept per thread.
    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    assert not errors, errors
