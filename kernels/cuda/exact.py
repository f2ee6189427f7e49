"""Products that are rounded before they are added, as on the CPU.

A compiler for CUDA may fuse ``a * b + c`` into one instruction that rounds once. Then a sum would differ from the CPU's
in its last bit, and a draw at the edge of a topic could differ, too. These products forbid it.
"""

import operator
from collections.abc import Callable
from typing import Any

from numba import config


def _rounded_products() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the products for float32 and float64."""
    if config.ENABLE_CUDASIM:
        # The simulator is Python, which fuses nothing, and it has no libdevice.
        return operator.mul, operator.mul
    from numba.cuda import libdevice

    return libdevice.fmul_rn, libdevice.dmul_rn


multiply32, multiply64 = _rounded_products()
