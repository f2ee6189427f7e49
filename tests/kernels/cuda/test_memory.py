"""Copies of host arrays on a device, in the simulator and on one."""

import threading
import weakref

import numpy as np
from corpusmill.kernels.cuda import memory
from helpers.cuda_simulator import on_device


@on_device
def test_a_copy_is_freed_by_a_thread_that_uses_the_device():
    host = [np.arange(10)]
    copy = weakref.ref(memory.cached_copy(host[0], "host"))
    assert memory.cached_copy(host[0], "host") is copy()
    ending = threading.Thread(target=host.clear)
    ending.start()
    ending.join()
    assert copy() is not None
    memory.allocate(1, np.int8, "one byte")
    assert copy() is None


@on_device
def test_all_copies_are_forgotten_where_memory_is_short():
    host = np.arange(10)
    copy = weakref.ref(memory.cached_copy(host, "host"))
    memory.COPIES.clear()
    assert (copy(), memory.COPIES.nbytes) == (None, 0)
    np.testing.assert_array_equal(memory.download(memory.cached_copy(host, "host"), "host"), host)
