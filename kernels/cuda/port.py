"""Functions of the CPU's kernels on a device: one source for both, so that both draw and decide the same."""

from types import FunctionType
from typing import Any

from .jit import device


def ported(function: Any, **others: Any) -> Any:
    """Return a CPU kernel's function for the device; ``others`` stand there for what it calls by these names."""
    plain = function.py_func
    return device(FunctionType(plain.__code__, {**plain.__globals__, **others}, plain.__name__))
