"""Every compiler option of the CUDA kernels, in one place. `launch.py` says how kernels are launched.

A decorated function is compiled at its first launch, when the device and the types of the arguments are known. Compiled
kernels are kept on disk, as those of the CPU are, since compiling one takes seconds.
"""

from functools import partial
from unittest import mock

import numpy as np
from numba import config, cuda

from ..jit import compiled

# numba-cuda gets no new features, and supports NumPy up to 2.4: its functions of arrays name ``row_stack``, which NumPy
# 2.5 has removed, so no kernel would compile. They are imported here with its other name in place. The successor of
# numba-cuda, numba-cuda-mlir, names it no more, but does not compile the intrinsics of `vectors.py`.
with mock.patch.object(np, "row_stack", np.vstack, create=True):
    import numba.cuda.np.arrayobj  # noqa: F401

# Finalizers may run in any thread. By default, one of them frees all memory that waits to be freed when there are ten
# pieces; two threads at once then raise an error, and the whole device waits. So finalizers never free here:
# `memory.allocate` does.
config.CUDA_DEALLOCS_COUNT = 1 << 30
config.CUDA_DEALLOCS_RATIO = 1e6
# Numba warns when a grid has fewer blocks than the device could run at a time. A small corpus has small grids, and
# its user can do nothing about it.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

#: Decorator of a kernel: a function that the host launches on a grid of threads.
kernel = partial(compiled, cuda.jit, cache=True)

#: Decorator of a kernel that is limited to 64 registers per thread. A multiprocessor has 65,536 registers, so 1,024
#: threads can be active on it.
lean_kernel = partial(kernel, launch_bounds=1024)

#: Decorator of a function that kernels call.
device = partial(cuda.jit, device=True)
