"""Device memory from the driver's pool: who chooses it, and the streams in whose order memory moves.

The driver is replaced, because there is no device. The manager itself is made by Numba's own classes.
"""

import gc
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from corpusmill.kernels.cuda import allocator, launch, memory, pinned
from corpusmill.kernels.cuda.pinned import MIN_BYTES
from helpers.cuda_ptx import HostCuda
from numba import config

needs_bindings = pytest.mark.skipif(
    bool(config.ENABLE_CUDASIM) or not allocator._has_bindings(), reason="needs numba-cuda and NVIDIA's bindings"
)


@pytest.mark.parametrize(
    ("environment", "has_bindings", "expected"),
    [
        ({}, True, "pool"),
        ({}, False, "default"),
        ({"NUMBA_CUDA_MEMORY_MANAGER": "default"}, True, "default"),
        ({"NUMBA_CUDA_MEMORY_MANAGER": "rmm.allocators.numba"}, True, "rmm.allocators.numba"),
    ],
)
def test_the_pool_is_used_unless_the_user_chooses_another_manager(environment, has_bindings, expected):
    assert allocator.choose_manager(environment, has_bindings) == expected


class Driver:
    """Replaces the functions of the driver that the manager calls. It writes down in which order memory moves."""

    def __init__(self, names, supported=1, answer="CUDA_SUCCESS"):
        self.names = names
        self.supported = supported
        self.answer = answer
        self.calls = []
        self.next = 4096

    def cuDeviceGetAttribute(self, attribute, device):
        return self.names.CUresult.CUDA_SUCCESS, self.supported

    def cuDeviceGetDefaultMemPool(self, device):
        return self.names.CUresult.CUDA_SUCCESS, "pool"

    def cuMemPoolSetAttribute(self, pool, attribute, value):
        self.calls.append((attribute.name, int(value)))
        return (self.names.CUresult.CUDA_SUCCESS,)

    def cuMemPoolGetAttribute(self, pool, attribute):
        return self.names.CUresult.CUDA_SUCCESS, 1000 if "RESERVED" in attribute.name else 400

    def cuMemGetInfo(self):
        return self.names.CUresult.CUDA_SUCCESS, 5000, 9000

    def cuMemAllocAsync(self, size, stream):
        self.calls.append(("allocate", size, stream))
        self.next += 4096
        return getattr(self.names.CUresult, self.answer), self.names.CUdeviceptr(self.next)

    def cuMemFreeAsync(self, pointer, stream):
        self.calls.append(("free", int(pointer), stream))
        return (self.names.CUresult.CUDA_SUCCESS,)


def make(monkeypatch, **options):
    """Return a manager and the driver that it calls."""
    names = pytest.importorskip("cuda.bindings.driver")
    driver = Driver(names, **options)
    for name in vars(Driver):
        if name.startswith("cu"):
            monkeypatch.setattr(names, name, getattr(driver, name))
    monkeypatch.setattr(allocator, "stream", lambda: SimpleNamespace(handle=7))
    context = SimpleNamespace(device=SimpleNamespace(id=0))
    manager = allocator.make_pool_manager()(context=context)
    return manager, driver


@needs_bindings
def test_memory_is_taken_in_the_order_of_a_stream_and_given_back_before_the_next_allocation(monkeypatch):
    manager, driver = make(monkeypatch)
    manager.initialize()
    manager.initialize()
    assert driver.calls == [("CU_MEMPOOL_ATTR_RELEASE_THRESHOLD", 2**64 - 1)]
    first = manager.memalloc(100)
    with allocator.allocating_on(SimpleNamespace(handle=8)):
        second = manager.memalloc(200)
    pointers = [int(memory.device_pointer) for memory in (first, second)]
    assert driver.calls[1:] == [("allocate", 100, 7), ("allocate", 200, 8)]
    del first
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    assert len(driver.calls) == 3, "finalizers never call the driver"
    del second
    manager.memalloc(300)
    # Both are freed in the order of the stream of the kernels, which has waited for the upload.
    assert driver.calls[3:] == [("free", pointers[0], 7), ("free", pointers[1], 7), ("allocate", 300, 7)]


@needs_bindings
def test_memory_lives_as_long_as_a_part_of_it(monkeypatch):
    manager, driver = make(monkeypatch)
    whole = manager.memalloc(100)
    part = whole.view(40, 60)
    assert int(part.device_pointer) == int(whole.device_pointer) + 40
    del whole
    gc.collect()
    manager.memalloc(1)
    assert not [call for call in driver.calls if call == ("free", 8192, 7)]
    del part
    gc.collect()
    manager.memalloc(1)
    assert ("free", 8192, 7) in driver.calls


@needs_bindings
def test_unused_memory_of_the_pool_is_free(monkeypatch):
    manager, _ = make(monkeypatch)
    manager.initialize()
    assert manager.get_memory_info() == (5600, 9000)


@needs_bindings
def test_errors_of_the_driver_are_named_and_devices_without_pools_are_refused(monkeypatch):
    manager, _ = make(monkeypatch, answer="CUDA_ERROR_OUT_OF_MEMORY")
    with pytest.raises(RuntimeError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        manager.memalloc(1 << 50)
    manager, _ = make(monkeypatch, supported=0)
    with pytest.raises(RuntimeError, match=r"no memory pools: set NUMBA_CUDA_MEMORY_MANAGER=default"):
        manager.initialize()


@needs_bindings
def test_numba_accepts_the_manager_and_rmm_need_not_report_its_memory(monkeypatch):
    from numba.cuda.cudadrv import driver

    make(monkeypatch)
    assert driver._memory_manager.__name__ == "PoolManager"

    def no_figures():
        raise NotImplementedError

    context = SimpleNamespace(get_memory_info=no_figures)
    monkeypatch.setattr(allocator, "cuda", SimpleNamespace(current_context=lambda: context))
    assert allocator.memory_info() == (5000, 9000)


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


@pytest.mark.skipif(bool(config.ENABLE_CUDASIM), reason="the simulator has no streams")
def test_copies_and_kernels_run_at_the_same_time_where_neither_needs_the_other(monkeypatch):
    host = Recorder()
    for module in (allocator, launch, memory, pinned):
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
