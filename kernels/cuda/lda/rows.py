"""Draws from a document's topic counts on a CUDA device: sums in eight lanes, in the same order as on the CPU.

A token's draw points a random number into a line of products A_dk φ_k. On the line come first the products of entries
0, 8, 16, ... of the row, which make lane 0, then those of entries 1, 9, 17, ..., which make lane 1, and so on. The CPU
keeps the eight partial sums in one vector register. Here four threads of a warp have two lanes each, and the warp works
on eight tokens at a time.

SaberLDA (Li et al., ASPLOS 2017, figure 5) keeps the products of a row in shared memory. Here `find_entry` computes
those of one lane again.

All threads of a warp call these functions together, because they use operations of the warp.

Tested as parts of the draws: tests/kernels/cuda/lda/test_esca.py. Reference implementation: tests/helpers/naive.py,
`lda_line`.
"""

import numpy as np
from numba import cuda

from ...lda.counts import MAX_COUNT, SIXTEEN
from ...simd.lanes import LANES
from ..arrays import DeviceArray
from ..jit import device
from ..port import multiply32
from ..warp import ALL_LANES, ballot
from .document_counts import DocumentRows

#: Selects the count of a packed entry.
LOW = np.uint32(MAX_COUNT)
ZERO = np.float32(0)
#: Threads that draw a token.
SHARERS = 4
ONE = np.uint64(1)
#: Entries from one of a lane to its next one.
STEP = np.uint64(LANES)
STEPS = np.uint64(SHARERS * LANES)


@device
def _product(
    dense: bool,
    rows: DocumentRows,
    head: np.uint64,
    at: np.uint64,
    phi: DeviceArray,
    phi_old: float,
    old: np.uint32,
    subtract: np.uint32,
) -> np.float32:
    """Return A_dk φ_k, or dense (A_dk + α_k) φ_k, of entry ``at``, in a row that begins with entry ``head``.

    For the token's old topic, A is reduced by ``subtract``, and φ is ``phi_old``. There are no branches for this: both
    values of φ are there, and the processor selects one.
    """
    if dense:
        j = np.uint32(at - head)
        # Padding of a dense row, which has a multiple of eight columns.
        if j >= len(phi):
            return ZERO
        is_old = j == old
        less = subtract if is_old else np.uint32(0)
        return multiply32(rows.dense[at] - np.float32(less), phi_old if is_old else phi[j])
    entry = rows.entries[at]
    k = np.uint32(entry >> SIXTEEN)
    count = np.uint32(entry & LOW)
    is_old = k == old
    # Padding has the first topic and count 0.
    less = min(count, subtract) if is_old else np.uint32(0)
    value = phi[k]
    return multiply32(np.float32(np.uint32(count - less)), phi_old if is_old else value)


@device
def lane_ends(
    dense: bool,
    rows: DocumentRows,
    head: int,
    size: int,
    phi: DeviceArray,
    phi_old: float,
    old: int,
    subtract: int,
    lane: int,
) -> tuple[float, float]:
    """Sum a row's products in eight lanes; return where the two lanes of this thread end on the line.

    Threads of shorter rows wait at the shuffles below for those of the longest of the rows.
    """
    first = np.uint64(head)
    thread = np.uint32(lane % SHARERS)
    at = np.uint64(head + 2 * thread)
    end = np.uint64(head + size)
    sum_a = sum_b = ZERO
    while at < end:
        sum_a += _product(dense, rows, first, at, phi, phi_old, np.uint32(old), np.uint32(subtract))
        sum_b += _product(dense, rows, first, at + ONE, phi, phi_old, np.uint32(old), np.uint32(subtract))
        at += STEP
    a = np.float64(sum_a)
    b = np.float64(sum_b)
    # Each sum gets the one that was one lane before it, then two, then four, as in the CPU's register.
    before = cuda.shfl_up_sync(ALL_LANES, b, 1)
    b += a
    if thread >= 1:
        a += before
    step = 1
    while step < SHARERS:
        before_a = cuda.shfl_up_sync(ALL_LANES, a, step)
        before_b = cuda.shfl_up_sync(ALL_LANES, b, step)
        if thread >= step:
            a += before_a
            b += before_b
        step *= 2
    return a, b


@device
def find_entry(
    dense: bool,
    rows: DocumentRows,
    head: int,
    size: int,
    phi: DeviceArray,
    phi_old: float,
    old: int,
    subtract: int,
    ends: tuple[float, float],
    x: float,
    lane: int,
) -> int | np.int64:
    """Return which entry of a row holds ``x``: first its lane, by the lanes' ends, then the entry in that lane.

    The CPU keeps the running sums inside each lane. Here the lane's products are computed again: each of the four
    threads computes one at a time, and all of them add the four in the CPU's order.
    """
    thread = np.uint32(lane % SHARERS)
    group = np.uint32(lane - thread)  # the first thread of this token
    own = np.uint32((1 << SHARERS) - 1) << group
    votes = cuda.popc(ballot(ends[0] <= x) & own) + cuda.popc(ballot(ends[1] <= x) & own)
    # Rounding can put x above the sum of the last lane.
    mine = np.uint32(min(votes, LANES - 1))
    last = np.uint32(mine - 1 if mine > 0 else 0)  # the lane before
    before_a = cuda.shfl_sync(ALL_LANES, ends[0], np.uint32(group + last // 2))
    before_b = cuda.shfl_sync(ALL_LANES, ends[1], np.uint32(group + last // 2))
    before = before_b if last % 2 else before_a
    rest = np.float32(x - (before if mine > 0 else 0.0))
    steps = np.uint32(0)
    running = ZERO
    first = np.uint64(head)
    at = np.uint64(head + thread * LANES + mine)
    end = np.uint64(head + size)
    while cuda.any_sync(ALL_LANES, (steps * LANES < size) & (running <= rest)):
        product = ZERO
        if at < end:
            product = _product(dense, rows, first, at, phi, phi_old, np.uint32(old), np.uint32(subtract))
        for source in range(SHARERS):
            running += cuda.shfl_sync(ALL_LANES, product, np.uint32(group + source))
            steps = np.uint32(steps + (1 if running <= rest else 0))
        at += STEPS
    return min(np.int64(steps) * LANES, np.int64(size) - LANES) + mine
