"""Functions for both of Word2Vec's orders of updates on a CUDA device: products, gradients, learning rate, negatives.

The learning rate and the negatives are computed by the CPU's functions, compiled for the device. Products and updates
of rows have code of their own, because the CPU's functions use vector instructions.

Tested as parts of the kernels: tests/kernels/cuda/word2vec/test_skip_gram.py.
"""

import math
from typing import Any

import numpy as np
from numba import cuda, float32

from ...word2vec import updates as cpu
from ..jit import device
from ..port import to_device
from ..random import draw
from ..vectors import load4
from ..warp import WARP, warp_sum

#: Products are cut off at this size, because the exponential of a larger one is not a float32.
LARGEST_PRODUCT = 80.0
#: Where sums of four columns begin.
ZEROS = (np.float32(0), np.float32(0), np.float32(0), np.float32(0))

learning_rate = to_device(cpu.learning_rate)
negative_at = to_device(cpu.negative_at, draw=draw)
number_of_negatives = to_device(cpu.number_of_negatives)
first_negative = to_device(cpu.first_negative)


@device
def dot(A: Any, a: int, B: Any, b: int, D: int, lane: int) -> Any:
    """Return the dot product of ``A[a:a + D]`` and ``B[b:b + D]``. All lanes call it, and all get the result.

    ``a``, ``b`` and D are multiples of four.
    """
    total = float32(0)
    for k in range(4 * lane, D, 4 * WARP):
        x = load4(A, a + k)
        y = load4(B, b + k)
        total += x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3]
    return warp_sum(total)


@device
def dot4(total: Any, x: Any, y: Any) -> Any:
    """Return a number to which the product of two vectors of four is added, one after the other."""
    for k in range(4):
        total += x[k] * y[k]
    return total


@device
def plus4(sums: Any, factor: Any, values: Any) -> Any:
    """Return four numbers to which a multiple of four others is added."""
    return (
        sums[0] + factor * values[0],
        sums[1] + factor * values[1],
        sums[2] + factor * values[2],
        sums[3] + factor * values[3],
    )


@device
def add4(W: Any, place: int, changes: Any) -> None:
    """Add four numbers to W, from a place on, by atomic additions."""
    for k in range(4):
        cuda.atomic.add(W, place + k, changes[k])


@device
def gradient(product: Any, label: Any, alpha: Any) -> Any:
    """Return (label − sigmoid(product)) · alpha, float32."""
    x = min(max(product, float32(-LARGEST_PRODUCT)), float32(LARGEST_PRODUCT))
    return alpha * (label - float32(1) / (float32(1) + math.exp(-x)))
