"""Arrays that go from the device of one worker to the device of another one.

A worker sends the device arrays of residents (`residents.py`) instead of the host arrays. Dask serializes them: with
UCX, each of them stays in device memory. The receiver makes them residents of its own, so that its kernels find them
as if they had been uploaded. Neither worker copies them to the memory of the host.

Dask serializes Numba's arrays itself (``distributed.protocol.numba``), so nothing is registered here. No test has run
on devices yet, because UCX needs two of them. The tests replace UCX by a protocol that serializes the arrays of
tests/ptx's device
arrays in the same way: tests/kernels/cuda/test_peers.py.
"""

from collections.abc import Mapping

import numpy as np
from numba import cuda

from .arrays import DeviceArray
from .ledger import LEDGER, Operation
from .memory import device_memory, leave_on_device
from .residents import RESIDENTS


def sendable(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray | DeviceArray]:
    """Return the device arrays of residents by name, and other arrays unchanged.

    The kernels that write the residents must have ended: see `memory.share_residents`.
    """
    found: dict[str, np.ndarray | DeviceArray] = {}
    for name, host in arrays.items():
        array = None
        # UCX does not send empty arrays, and those have no contents on either side.
        if host.size:
            array = RESIDENTS.find(host)
        found[name] = host if array is None else array
    return found


def received(arrays: Mapping[str, np.ndarray | DeviceArray]) -> dict[str, np.ndarray]:
    """Return host arrays that have the contents of received device arrays after `RESIDENTS.bring_back`.

    Arrays that came through the host are returned unchanged. The ledger counts the others.
    """
    found = {}
    for name, array in arrays.items():
        if isinstance(array, np.ndarray):
            found[name] = array
            continue
        LEDGER.record(Operation.RECEIVE, name, array.size * array.dtype.itemsize)
        found[name] = leave_on_device(array, name)
    return found


def has_space_for(nbytes: int, share: float) -> bool:
    """Return whether arrays of this size fit the device, if residents may take this share of its memory.

    UCX allocates the memory for what it receives. It cannot drop cached copies when memory is short, as
    `memory.allocate` does, so the memory must be free before.
    """
    free = cuda.current_context().get_memory_info().free
    return nbytes <= free and RESIDENTS.nbytes + nbytes <= share * device_memory()
