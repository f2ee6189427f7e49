"""Copies, allocations and launches on a device."""

import importlib.util
import inspect
import threading
import time
import types

import numpy as np
import pytest
from corpusmill.kernels.cuda import launch, memory
from corpusmill.kernels.cuda.jit import kernel
from corpusmill.kernels.cuda.ledger import LEDGER, Entry, Operation, Total
from helpers.cuda_ptx import HostCuda
from helpers.on_device import emulated, on_device
from numba import cuda


def counted(call):
    """Return what ``call`` adds to the ledger."""
    with LEDGER.recording() as found:
        call()
    return found


@on_device
@pytest.mark.parametrize("size", [0, 1, 1000, 4096 + 17])
def test_arrays_come_back_as_they_were(size, monkeypatch):
    monkeypatch.setattr(memory, "BUFFER_BYTES", 4096)
    host = np.random.default_rng(size).integers(0, 1 << 32, size, np.uint32)
    array = memory.upload(host, "host")
    np.testing.assert_array_equal(memory.download(array, "host"), host)


@on_device
def test_parts_of_a_large_array_pass_through_two_buffers(monkeypatch):
    monkeypatch.setattr(memory, "BUFFER_BYTES", 80)
    host = np.arange(105, dtype=np.float64).reshape(15, 7)
    np.testing.assert_array_equal(memory.download(memory.upload(host, "host"), "host"), host)


@on_device
def test_the_ledger_counts_bytes_and_calls_by_cause():
    host = np.arange(100, dtype=np.int32)
    found = {}

    def call():
        array = memory.upload(host, "W")
        found["host"] = memory.download(array, "H")

    assert counted(call) == {
        Entry(Operation.ALLOCATE, "W"): Total(1, 400),
        Entry(Operation.UPLOAD, "W"): Total(1, 400),
        Entry(Operation.DOWNLOAD, "H"): Total(1, 400),
        Entry(Operation.WAIT, "H"): Total(1, 0),
        Entry(Operation.WAIT, "pinned buffer"): Total(2, 0),
    }


@on_device
def test_a_cached_copy_is_uploaded_once_and_a_downloaded_one_never():
    host = np.arange(100, dtype=np.int32)
    copy = memory.cached_copy(host, "z")
    again = counted(lambda: memory.cached_copy(host, "z"))
    assert not again
    kept = memory.download(copy, "z", keep=True)
    assert not counted(lambda: memory.cached_copy(kept, "z"))


@on_device
def test_a_workspace_is_reallocated_only_if_it_is_too_small():
    name = "a workspace of this test"
    sizes = [1000, 900, 1100, 1126, 4000]
    allocated = []
    for size in sizes:
        found = counted(lambda size=size: memory.workspace(name, size, np.uint8))
        allocated.append(found.get(Entry(Operation.ALLOCATE, name), Total(0, 0)).nbytes)
    assert allocated == [1125, 0, 0, 1266, 4500]
    assert memory.workspace(name, (10, 20), np.float32).shape == (10, 20)


@on_device
def test_launches_are_counted_by_kernel():
    @kernel
    def _double(x):
        i = cuda.grid(1)
        if i < len(x):
            x[i] *= 2

    array = memory.upload(np.arange(5), "x")
    found = counted(lambda: launch.launch(_double, 1, 32, array))
    assert found == {Entry(Operation.LAUNCH, "double"): Total(1, 0)}
    assert memory.download(array, "x").tolist() == [0, 2, 4, 6, 8]


class PendingDeallocations:
    """Replaces Numba's list of memory to be freed. It has no lock either, and notices two threads at a time."""

    def __init__(self):
        self.calls = 0
        self.users = 0
        self.most_users = 0

    def clear(self):
        self.users += 1
        self.most_users = max(self.most_users, self.users)
        time.sleep(0.01)
        self.users -= 1
        self.calls += 1


def test_memory_of_many_dead_arrays_is_freed_at_once_and_by_one_thread_at_a_time(monkeypatch):
    host = HostCuda(0)
    pending = PendingDeallocations()
    context = types.SimpleNamespace(**vars(host.current_context()) | {"deallocations": pending})
    monkeypatch.setattr(host, "current_context", lambda: context)
    monkeypatch.setattr(memory, "cuda", host)
    monkeypatch.setattr(memory, "device_memory", lambda: 1 << 40)
    dead = memory._DeadArrays()
    dead.nbytes.extend([100] * (memory.MANY_DEAD - 1))
    dead.free_if_many()
    assert pending.calls == 0
    dead.nbytes.append(100)
    dead.free_if_many()
    assert (pending.calls, len(dead.nbytes)) == (1, 0)
    dead.nbytes.append(1 << 39)
    threads = [threading.Thread(target=dead.free) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (pending.calls, pending.most_users) == (5, 1)


class CompiledKernel:
    """Replaces Numba's compiled kernel, with only what a request for shared memory uses."""

    handle = "the kernel's handle"

    @property
    def library(self):
        return self

    def get_cufunc(self):
        return self


class Dispatcher:
    """Replaces Numba's kernel object, which cannot compile without a device."""

    def typeof_pyval(self, argument):
        return type(argument)

    def compile(self, signature):
        assert signature == (int, float)
        return CompiledKernel()


@pytest.mark.skipif(emulated(), reason="the device of tests/ptx replaces the request")
@pytest.mark.parametrize("answer", ["CUDA_SUCCESS", "CUDA_ERROR_INVALID_VALUE"])
def test_large_shared_memory_is_requested_from_the_driver(answer, monkeypatch):
    driver = pytest.importorskip("cuda.bindings.driver")
    requests = []

    def request(attribute, value, kernel, device):
        requests.append((attribute.name, value, kernel, device))
        return (getattr(driver.CUresult, answer),)

    monkeypatch.setattr(driver, "cuKernelSetAttribute", request)
    monkeypatch.setattr(launch, "cuda", HostCuda(0))
    limit = launch.PORTABLE_SHARED_BYTES - launch.RESERVED_SHARED_BYTES
    if answer == "CUDA_SUCCESS":
        launch.request_large_shared_memory(Dispatcher(), (1, 1.0))
    else:
        with pytest.raises(RuntimeError, match=r"refuses 47,104 bytes .*CUDA_ERROR_INVALID_VALUE"):
            launch.request_large_shared_memory(Dispatcher(), (1, 1.0))
    assert requests == [("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", limit, "the kernel's handle", 0)]


@pytest.mark.skipif(not importlib.util.find_spec("numba_cuda"), reason="needs the compiler, numba-cuda")
def test_numba_has_what_these_files_use():
    """Without a device, no other test would notice that an update of numba-cuda removes them."""
    codegen = pytest.importorskip("numba.cuda.codegen")
    dispatcher = pytest.importorskip("numba.cuda.dispatcher")
    assert callable(dispatcher.CUDADispatcher.compile)
    assert callable(dispatcher.CUDADispatcher.typeof_pyval)
    assert isinstance(dispatcher._Kernel.library, property)
    assert callable(codegen.CUDACodeLibrary.get_cufunc)
    driver = pytest.importorskip("numba.cuda.cudadrv.driver")
    assert callable(driver.device_memset)
    assert callable(driver._PendingDeallocs.clear)
    assert "deallocations" in inspect.getsource(driver.Context)
