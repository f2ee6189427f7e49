"""All compiler options of the CPU kernels, in one place.

``nogil``: a kernel that held the interpreter lock would stop the heartbeat of its Dask worker. ``cache``: compiled code
is kept on disk, so a worker starts in milliseconds. ``error_model="numpy"``: a division by zero gives infinity instead
of an exception, which leaves loops without branches. There is no ``parallel``, because the parallelism is one chunk
per Dask thread.
"""

import gc
from functools import partial
from typing import NamedTuple, TypeVar

import numba
import numpy as np
from numba.core import event

Arrays = TypeVar("Arrays", bound=NamedTuple)

#: Exact IEEE arithmetic in the order of the source. For samplers, whose results must be the same bit for bit.
kernel = partial(numba.njit, nogil=True, cache=True, error_model="numpy")

#: The compiler may reorder and fuse additions, so that sums run in vector registers. The result is the same in every
#: run on one type of processor, but may differ in the last bit between types.
vector_kernel = partial(kernel, fastmath={"reassoc", "contract", "nsz", "arcp"})


class PauseCollector(event.Listener):
    """Pauses Python's garbage collector while numba compiles.

    Compilation makes many objects, nearly none of which are garbage, and the collector would visit them repeatedly.
    That takes about a sixth of the time of a first training. Compilation holds numba's lock, so that only one thread
    at a time changes the depth.
    """

    def __init__(self) -> None:
        self.depth = 0  # of nested compilations: a kernel compiles the kernels that it calls
        self.was_enabled = False

    def on_start(self, event: event.Event) -> None:
        """Pause the collector when the outermost compilation starts."""
        if self.depth == 0:
            self.was_enabled = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: event.Event) -> None:
        """Resume the collector when the outermost compilation ends."""
        self.depth -= 1
        if self.depth == 0 and self.was_enabled:
            gc.enable()


event.register("numba:compile", PauseCollector())


def read_only_tuple(arrays: Arrays) -> Arrays:
    """Return a named tuple with read-only views of its arrays.

    Whether an array is writable is part of its numba type, and arrays from a store are not. With read-only views
    one compiled function serves arrays of any origin.
    """
    views = (read_only(field) if isinstance(field, np.ndarray) else field for field in arrays)
    return arrays._make(views)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
