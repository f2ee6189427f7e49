"""Functions of the CPU's kernels on a device: one source for both, so that both make the same draws and decisions."""

from types import FunctionType

from numba.cuda import libdevice

from .arrays import Compiled
from .jit import device

#: The products of two float32 and of two float64, rounded before they are added, as on the CPU. A compiler for CUDA may
#: fuse ``a * b + c`` into one instruction that rounds once. Then a sum would differ from the CPU's in its last bit, and
#: a draw at the edge of a topic could differ, too.
multiply32, multiply64 = libdevice.fmul_rn, libdevice.dmul_rn


def to_device(function: Compiled, **replacements: Compiled) -> Compiled:
    """Return a CPU kernel's function, compiled for the device.

    ``replacements`` are the device's versions of the functions that it calls, by the names in the CPU's source.
    """
    plain = function.py_func
    names = {**plain.__globals__, **replacements}
    return device(FunctionType(plain.__code__, names, plain.__name__))
