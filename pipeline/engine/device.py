"""Where kernels run: on the processor or on a CUDA device of the worker that has the task.

A model has its kernels in ``kernels/<model>.py`` and, where a device serves, functions of the same names, which take
and return the same arrays, in ``kernels/cuda/<model>.py``. An algorithm asks `kernels` inside its task, so nothing here
touches a device of the process that submits the tasks.
"""

import functools
import importlib
from typing import Any

#: What a user may ask for: the device where the worker has one, or one of the two.
DEVICES = ("auto", "cpu", "cuda")


def choose(device: str, served: bool, what: str) -> str:
    """Return the device that an algorithm is told: "cpu" where CUDA does not serve ``what``.

    Raises ValueError for an unknown device, and for "cuda" where it does not serve.
    """
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}: choose one of {', '.join(DEVICES)}")
    if device == "cuda" and not served:
        raise ValueError(f"{what} has no CUDA kernels: choose device 'auto' or 'cpu'")
    return device if served else "cpu"


def kernels(model: str, device: str) -> Any:
    """Return the module of a model's kernels for this worker; call it inside a task."""
    cuda = device == "cuda" or (device == "auto" and has_cuda())
    return importlib.import_module(f"...kernels.{'cuda.' if cuda else ''}{model}", __package__)


@functools.cache
def has_cuda() -> bool:
    """Say whether this process can use a CUDA device; makes no context."""
    try:
        from numba import cuda

        return bool(cuda.is_available())
    except Exception:  # a driver that is broken, or too old for the library, is as good as none
        return False


def device_bytes() -> int:
    """Return the memory of this worker's CUDA device that a run may use; 0 where there is none."""
    if not has_cuda():
        return 0
    from numba import cuda

    from ...kernels.cuda.memory import COPIES

    return int(min(cuda.current_context().get_memory_info().free + COPIES.nbytes, 1 << 62))
