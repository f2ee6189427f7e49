"""Functions of the CPU's kernels on a device: one source for both, so that both make the same draws and decisions."""

from types import FunctionType

from .arrays import Compiled
from .jit import device


def to_device(function: Compiled, **replacements: Compiled) -> Compiled:
    """Return a CPU kernel's function, compiled for the device.

    ``replacements`` are the device's versions of the functions that it calls, by the names in the CPU's source.
    """
    plain = function.py_func
    names = {**plain.__globals__, **replacements}
    return device(FunctionType(plain.__code__, names, plain.__name__))
