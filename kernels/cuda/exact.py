"""Products that are rounded before they are added, as on the CPU: the compiler may not fuse them with a sum."""

import operator

from numba import config

if config.ENABLE_CUDASIM:  # which has no libdevice, and fuses nothing
    times32 = times64 = operator.mul
else:
    from numba.cuda.libdevice import dmul_rn as times64
    from numba.cuda.libdevice import fmul_rn as times32

__all__ = ["times32", "times64"]
