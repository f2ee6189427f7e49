"""Random numbers on a device: the draws of kernels/random.py, with the same number at the same address.

A draw has no state. Any thread can compute the number of any token, so the number of threads does not matter.
"""

import numpy as np

from .. import random
from ..random import FLOAT64_STEP, GAMMA, S11, mix
from .jit import device
from .port import to_device

mix_device = device(mix)
draw = to_device(random.draw, mix_cpu=mix_device)
uniform = to_device(random.uniform, draw=draw)


@device
def uniform64(key: np.uint64, index: int) -> float:
    """Return the float64 in [0, 1) at ``index`` of the stream ``key``, with 53 random bits."""
    return np.float64(mix_device(key + (np.uint64(index) + np.uint64(1)) * GAMMA) >> S11) * FLOAT64_STEP
