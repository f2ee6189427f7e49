"""The types of device arrays, streams and events, as far as this package uses them.

Numba's own classes have no annotations.
"""

from typing import Any, Protocol, SupportsInt

import numpy as np
from numpy.typing import DTypeLike

Shape = int | tuple[int, ...]

#: A function that `jit.py` compiled. Numba has no type for it.
Compiled = Any


class Stream(Protocol):
    """A queue of kernels and copies that run one after another."""

    @property
    def handle(self) -> SupportsInt:
        """The driver's handle."""

    def synchronize(self) -> None:
        """Wait until everything in the stream has run."""


class Event(Protocol):
    """A position in a stream."""

    def record(self, stream: Stream) -> None:
        """Mark the current end of the stream."""

    def wait(self, stream: Stream) -> None:
        """Let ``stream`` wait for the position. The host does not wait."""

    def synchronize(self) -> None:
        """Let the host wait for the position."""


class DeviceArray(Protocol):
    """A device array. The host calls its methods; kernels read and write its numbers by index."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""

    @property
    def size(self) -> int:
        """How many numbers it has."""

    def __len__(self) -> int:
        """Return the length of the first dimension."""

    def __getitem__(self, index: Any) -> Any:
        """Return a number, or a part without a copy. The host may only take parts."""

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set a number. Only kernels may do this."""

    def reshape(self, shape: Shape) -> "DeviceArray":
        """Return the same memory in another shape."""

    def view(self, dtype: DTypeLike) -> "DeviceArray":
        """Return the same memory as another type."""

    def copy_to_device(self, source: "np.ndarray | DeviceArray", stream: Stream) -> None:
        """Start a copy from the host, or from another device array."""

    def copy_to_host(self, target: np.ndarray, stream: Stream) -> None:
        """Start a copy to the host."""
