"""Functions for both of Word2Vec's orders of updates on a CUDA device: products, gradients, learning rate, negatives.

The learning rate and the negatives are computed by the CPU's functions, compiled for the device. Products and updates
of rows have code of their own, because the CPU's functions use vector instructions.

Tested as parts of the kernels: tests/kernels/cuda/word2vec/test_skip_gram.py.
"""

import math
from typing import Any

from numba import float32

from ...word2vec import updates as cpu
from ..jit import device
from ..port import to_device
from ..random import draw
from ..warp import WARP, warp_sum

#: Products are cut off at this size, because the exponential of a larger one is not a float32.
LARGEST_PRODUCT = 80.0

learning_rate = to_device(cpu.learning_rate)
negative_at = to_device(cpu.negative_at, draw=draw)
number_of_negatives = to_device(cpu.number_of_negatives)
first_negative = to_device(cpu.first_negative)


@device
def dot(A: Any, a: int, B: Any, b: int, D: int, lane: int) -> Any:
    """Return the dot product of ``A[a:a + D]`` and ``B[b:b + D]``. All lanes call it, and all get the result."""
    total = float32(0)
    for k in range(lane, D, WARP):
        total += A[a + k] * B[b + k]
    return warp_sum(total)


@device
def gradient(product: Any, label: Any, alpha: Any) -> Any:
    """Return (label − sigmoid(product)) · alpha, float32."""
    x = min(max(product, float32(-LARGEST_PRODUCT)), float32(LARGEST_PRODUCT))
    return alpha * (label - float32(1) / (float32(1) + math.exp(-x)))
