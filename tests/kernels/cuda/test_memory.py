"""Copies of host arrays on a device, in the simulator and on one."""

import threading
import weakref

import numpy as np
from corpusmill.kernels.cuda import memory
from helpers.cuda_simulator import on_device


@on_device
def test_a_copy_is_freed_by_a_thread_that_uses_the_device():
    host = [np.arange(10)]
    copy = weakref.ref(memory.resident(host[0]))
    assert memory.resident(host[0]) is copy()
    ending = threading.Thread(target=host.clear)
    ending.start()
    ending.join()
    assert copy() is not None
    memory.new(1, np.int8)
    assert copy() is None


@on_device
def test_all_copies_are_forgotten_where_memory_is_short():
    host = np.arange(10)
    copy = weakref.ref(memory.resident(host))
    memory.COPIED.clear()
    assert (copy(), memory.COPIED.nbytes) == (None, 0)
    np.testing.assert_array_equal(memory.fetched(memory.resident(host)), host)
