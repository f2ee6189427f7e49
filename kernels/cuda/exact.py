"""Products that are rounded before they are added, as on the CPU.

A compiler for CUDA may fuse ``a * b + c`` into one instruction that rounds once. Then a sum would differ from the CPU's
in its last bit, and a draw at the edge of a topic could differ, too. These products forbid it.
"""

from numba.cuda import libdevice

#: The products of two float32 and of two float64.
multiply32, multiply64 = libdevice.fmul_rn, libdevice.dmul_rn
