"""The draws of kernels/random.py on a device: the same numbers at the same addresses."""

import numpy as np

from .. import random
from ..random import FLOAT64_STEP, GAMMA, S11, mix
from .jit import device
from .port import ported

mix_device = device(mix)
draw = ported(random.draw, mix_cpu=mix_device)
uniform = ported(random.uniform, draw=draw)


@device
def uniform64(key, index):
    """Return the float64 in [0, 1) at ``index`` of the stream ``key``, with 53 random bits."""
    return np.float64(mix_device(key + (np.uint64(index) + np.uint64(1)) * GAMMA) >> S11) * FLOAT64_STEP
