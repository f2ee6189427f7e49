"""Figures 6.1 and 6.2 of "Implementing Random Indexing on GPU" (Polok and Smrž, 2011), on a CUDA device."""

import numpy as np
from corpusmill.kernels.cuda.jit import kernel
from corpusmill.kernels.cuda.launch import launch, synchronize
from corpusmill.kernels.cuda.random_indexing import accumulate as ri_cuda
from corpusmill.kernels.cuda.warp import WARP, warp_sum
from numba import cuda, float64

from benchmarks.gpu.measure import copy_rate, kernel_seconds, print_row, report

THREADS = 256
#: Numbers of a quick run.
QUICK_NUMBERS = 1 << 9


def normalise(session, numbers=1 << 26):
    """Figures 6.1 and 6.2 of the paper: GB/s of vector lengths, one launch, thread or block each, and of scaling."""
    numbers = QUICK_NUMBERS if session.quick else numbers
    widths = (64, 100) if session.quick else (128, 500, 512, 2048, 4000, 4096, 16_384, 131_072, 1_048_576)
    print_row("D", *FORMS, "over copy, best", "GTX 260")
    for width in widths:
        found = [_bandwidth(form, numbers // width, width) for form in FORMS.values()]
        best = max(found) * 1e9 / copy_rate(session)
        report(session, "normalise", str(width), *found, best, "scaling at best 70")


def _bandwidth(form, n: int, width: int) -> float:
    """Return the GB/s of one variant over n vectors, or over 64 if each vector is a launch of its own."""
    function, each, moved = form
    n = min(n, 64) if each == "vector" else n
    rows, scales = cuda.to_device(np.ones((n, width), np.float32)), cuda.to_device(np.zeros(n))
    items = {"vector": width, "thread": n, "block": n * THREADS, "number": n * width}[each]

    def call():
        for v in range(n if each == "vector" else 1):
            launch(function, -(-items // THREADS), THREADS, rows, scales, v)
        synchronize("lengths")

    return moved * 4.0 * n * width / kernel_seconds(call)[1] / 1e9


@kernel
def _length_at_a_time(rows, squares, v):
    """All threads work on vector ``v``."""
    k, square = cuda.grid(1), float64(0)
    if k < rows.shape[1]:
        square = float64(rows[v, k]) * float64(rows[v, k])
    square = warp_sum(square)
    if cuda.threadIdx.x % WARP == 0:
        cuda.atomic.add(squares, v, square)


@kernel
def _length_a_thread(rows, squares, v):
    i, square = cuda.grid(1), float64(0)
    if i < len(rows):
        for k in range(rows.shape[1]):
            square += float64(rows[i, k]) * float64(rows[i, k])
        squares[i] = square


@kernel
def _length_a_block(rows, squares, v):
    scale = ri_cuda._scale(rows, cuda.blockIdx.x)
    if cuda.threadIdx.x == 0:
        squares[cuda.blockIdx.x] = scale


@kernel
def _scale_a_number(rows, scales, v):
    i = cuda.grid(1)
    if i < rows.size:
        rows[i // rows.shape[1], i % rows.shape[1]] *= scales[i // rows.shape[1]]


@kernel
def _scale_a_block(rows, scales, v):
    """Read the scale once per thread, into a register."""
    scale = scales[cuda.blockIdx.x]
    for k in range(cuda.threadIdx.x, rows.shape[1], cuda.blockDim.x):
        rows[cuda.blockIdx.x, k] *= scale


#: Kernel, what one launch, thread or block works on, and how often a number is moved.
FORMS = {
    "vector a time": (_length_at_a_time, "vector", 1),
    "thread": (_length_a_thread, "thread", 1),
    "block": (_length_a_block, "block", 1),
    "scale a number": (_scale_a_number, "number", 2),
    "scale a block": (_scale_a_block, "block", 2),
}
