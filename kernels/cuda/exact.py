"""Products that are rounded before they are added, as on the CPU: the compiler may not fuse them with a sum."""

import operator
from typing import Any

from numba import config


def _products() -> tuple[Any, Any]:
    if config.ENABLE_CUDASIM:  # which has no libdevice, and fuses nothing
        return operator.mul, operator.mul
    from numba.cuda import libdevice

    return libdevice.fmul_rn, libdevice.dmul_rn


#: For two float32, and for two float64.
times32, times64 = _products()
