"""Draws from a document's topic counts on a CUDA device: sums in eight lanes, in the same order as on the CPU.

A token's draw points a random number into a line of products A_dk φ_k. On the line come first the products of entries
0, 8, 16, ... of the row, which make lane 0, then those of entries 1, 9, 17, ..., which make lane 1, and so on. The CPU
keeps the eight partial sums in one vector register. Here eight threads of a warp have one lane each, and the warp works
on four tokens at a time.

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


@device
def _product(
    dense: bool,
    rows: DocumentRows,
    head: int,
    j: int,
    size: int,
    phi: DeviceArray,
    phi_old: float,
    old: int,
    subtract: int,
) -> np.float32:
    """Return A_dk φ_k, or dense (A_dk + α_k) φ_k, of entry ``j`` of a row; 0 after the end of the row.

    For the token's old topic, A is reduced by ``subtract``, and φ is ``phi_old``.
    """
    if j >= size:
        return ZERO
    if dense:
        # Padding of a dense row, which has a multiple of eight columns.
        if j >= len(phi):
            return ZERO
        a = rows.dense[np.uint64(head + j)]
        if j == old:
            return multiply32(a - np.float32(subtract), phi_old)
        return multiply32(a, phi[np.uint64(j)])
    # Indices without a sign: Numba lets the others count from the end, and looks at each of them.
    entry = rows.entries[np.uint64(head + j)]
    k = entry >> SIXTEEN
    count = entry & LOW
    if count == 0:
        return ZERO
    if np.int64(k) == old:
        return multiply32(np.float32(np.int64(count) - subtract), phi_old)
    return multiply32(np.float32(count), phi[k])


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
) -> float:
    """Sum a row's products in eight lanes, one per thread; return where this thread's lane ends on the line."""
    # All threads of a warp must reach the shuffles below together, so all of them loop to the longest of four rows.
    longest = size
    longest = max(longest, cuda.shfl_xor_sync(ALL_LANES, longest, 8))
    longest = max(longest, cuda.shfl_xor_sync(ALL_LANES, longest, 16))
    total = ZERO
    for j in range(lane % LANES, longest, LANES):
        total += _product(dense, rows, head, j, size, phi, phi_old, old, subtract)
    ends = np.float64(total)
    step = 1
    while step < LANES:
        before = cuda.shfl_up_sync(ALL_LANES, ends, step)
        if lane % LANES >= step:
            ends += before
        step *= 2
    return ends


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
    ends: float,
    x: float,
    lane: int,
) -> int | np.int64:
    """Return which entry of a row holds ``x``: first its lane, by the lanes' ends, then the entry in that lane.

    The CPU keeps the running sums inside each lane. Here the lane's products are computed again: the eight threads
    compute eight of them at a time, and each thread adds them in the CPU's order.
    """
    group = lane - lane % LANES  # the first thread of this token
    votes = ballot(ends <= x) >> np.uint32(group) & np.uint32((1 << LANES) - 1)
    mine: int | np.int64 = np.int64(cuda.popc(votes))
    if mine == LANES:
        mine = np.int64(LANES - 1)  # rounding can put x above the sum of the last lane
    before = cuda.shfl_sync(ALL_LANES, ends, group + max(mine - 1, 0))
    rest = np.float32(x - (before if mine > 0 else 0.0))
    steps = 0
    running = ZERO
    start = 0
    while cuda.any_sync(ALL_LANES, (start < size) & (running <= rest)):
        j = start + lane % LANES * LANES + mine
        product = _product(dense, rows, head, j, size, phi, phi_old, old, subtract)
        for source in range(LANES):
            running += cuda.shfl_sync(ALL_LANES, product, group + source)
            steps += 1 if running <= rest else 0
        start += LANES * LANES
    return min(steps * LANES, size - LANES) + mine
