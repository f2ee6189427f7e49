"""A protocol of Dask that sends the arrays of tests/ptx's device as UCX sends those of devices.

UCX needs devices. This protocol has its name, and serializes messages by the same families as distributed-ucxx, in the
same order. The bytes travel by TCP. `sent` counts the arrays that the families "cuda" and "dask" have serialized.
"""

from collections import Counter
from contextlib import contextmanager
from unittest import mock

import numpy as np
from dask.sizeof import sizeof
from distributed.comm.registry import backends
from distributed.comm.tcp import TCP, BaseTCPBackend, TCPConnector, TCPListener
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize
from distributed.protocol.serialize import dask_deserialize, dask_serialize

from tests.ptx.device import DeviceArray, to_device

FAMILIES = ("cuda", "dask", "pickle", "error")
#: Arrays by the family that has serialized them, since the last call of `clear`.
sent = Counter()


class LikeUcx(TCP):
    """A connection that prefers the family "cuda", unless its user chooses others."""

    async def write(self, msg, serializers=None, on_error="message"):
        """Send a message."""
        return await super().write(msg, serializers or FAMILIES, on_error)

    async def read(self, deserializers=None):
        """Receive a message."""
        return await super().read(deserializers or FAMILIES)


class LikeUcxConnector(TCPConnector):
    prefix = "ucx://"
    comm_class = LikeUcx


class LikeUcxListener(TCPListener):
    prefix = "ucx://"
    comm_class = LikeUcx


class LikeUcxBackend(BaseTCPBackend):
    _connector_class = LikeUcxConnector
    _listener_class = LikeUcxListener


def serializer(family):
    """Return a function that serializes a device array, and counts it."""

    def serialize(array):
        sent[family] += 1
        contents = np.ascontiguousarray(array.copy_to_host())
        return {"shape": list(contents.shape), "dtype": contents.dtype.str}, [contents.reshape(-1).view(np.uint8).data]

    return serialize


def deserialize(header, frames):
    """Return a new device array."""
    (frame,) = frames
    contents = np.frombuffer(frame, np.uint8).copy().view(header["dtype"])
    return to_device(contents.reshape(header["shape"]))


@contextmanager
def like_ucx():
    """Context manager: ``ucx://`` is the protocol of this file."""
    cuda_serialize.register(DeviceArray)(serializer("cuda"))
    cuda_deserialize.register(DeviceArray)(deserialize)
    dask_serialize.register(DeviceArray)(serializer("dask"))
    dask_deserialize.register(DeviceArray)(deserialize)
    sizeof.register(DeviceArray)(lambda array: array.nbytes)
    with mock.patch.dict(backends, ucx=LikeUcxBackend()):
        sent.clear()
        yield
