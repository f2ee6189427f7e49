"""Every compiler option of the CUDA kernels, in one place."""

from functools import partial

from numba import cuda

#: A kernel that is launched; compiled at its first launch, when the device is known.
kernel = partial(cuda.jit)

#: A function that kernels call.
device = partial(cuda.jit, device=True)
