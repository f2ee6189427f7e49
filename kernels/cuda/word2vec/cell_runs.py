"""The runs and batches of a sub-cell on a CUDA device: those of the CPU, found by the threads of one block.

A run is several pairs of one centre; a batch is several runs. runs.py and cells.py of the CPU say which ones. Here,
each thread looks at one pair. Where the order matters, votes of warps count how many threads before it have found
something. The runs of a batch are joined by one warp: each lane has one run, and finds out whether it still fits.

Tests against the CPU's cells: tests/kernels/cuda/word2vec/test_cells.py.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from ...word2vec import cells as cpu
from ...word2vec.cells import SHARED, TABLE_SHIFT
from ...word2vec.pairs import LOW, SHIFT
from ...word2vec.runs import PAIRS, REPEATED, RUNS, stride_of
from ..jit import device
from ..port import to_device
from ..random import draw
from ..warp import ALL_LANES, WARP, ballot, first_where, prefix_sum

limits_of = to_device(cpu._limits)
#: `stride_of`, as the CPU has it.
stride_of_device = to_device(stride_of)
#: The bits of a heavy centre's bounds that have its last pair + 1.
LAST = np.int64((1 << 32) - 1)


class SubCell(NamedTuple):
    """The pairs of a sub-cell, and its negatives."""

    pairs: Any  # (any,) uint32: those of the whole cell
    runs: Any  # (any,) int64: the sub-cell's runs from ``first`` on, and its heavy centres before ``last``, backwards
    first: int  # pair of the cell
    last: int
    tables: Any  # (G, size) uint16
    column: int  # row of the tables


@device
def find_runs(cell: SubCell, size: int, totals: Any) -> tuple[int, int]:
    """Find the runs of up to ``size`` pairs, and the heavy centres; return how many there are of both.

    All threads of the block call this. ``totals`` (WARP,) int32 is shared memory. Runs are as in runs.py, with pairs
    counted from the first one of the sub-cell. The bounds of a heavy centre are first << 32 | last.
    """
    n_runs = 0
    n_pairs = cell.last - cell.first
    for base in range(0, n_pairs, cuda.blockDim.x):
        p = base + cuda.threadIdx.x
        begins = False
        if p < n_pairs:
            begins = (p - _first_of_centre(cell, p)) % size == 0
        n_runs += cuda.syncthreads_count(np.int32(begins))
    most = max(2, n_runs // RUNS)
    n_light = 0
    n_heavy = 0
    for base in range(0, n_pairs, cuda.blockDim.x):
        p = base + cuda.threadIdx.x
        first = np.int64(0)
        last = np.int64(0)
        is_heavy = False
        begins = False
        if p < n_pairs:
            first = _first_of_centre(cell, p)
            last = _last_of_centre(cell, p, n_pairs)
            is_heavy = (last - first + size - 1) // size > most
            begins = (p - first) % size == 0
        place = n_light + _count_before(begins and not is_heavy, totals)
        if begins and not is_heavy:
            repeated = REPEATED if last - first > size else 0
            cell.runs[cell.first + place] = np.int64(p) << 4 | repeated | min(size, last - p)
        n_light += cuda.syncthreads_count(np.int32(begins and not is_heavy))
        place = n_heavy + _count_before(is_heavy and p == first, totals)
        if is_heavy and p == first:
            cell.runs[cell.last - 1 - place] = first << 32 | last
        # After this barrier, any thread may read any run.
        n_heavy += cuda.syncthreads_count(np.int32(is_heavy and p == first))
    return n_light, n_heavy


@device
def _first_of_centre(cell: SubCell, p: int) -> np.int64:
    """Return the first pair that has the centre of pair p, by a binary search."""
    centre = cell.pairs[cell.first + p] >> SHIFT
    low = np.int64(0)
    high = np.int64(p)
    while low < high:
        middle = (low + high) // 2
        if cell.pairs[cell.first + middle] >> SHIFT < centre:
            low = middle + 1
        else:
            high = middle
    return low


@device
def _last_of_centre(cell: SubCell, p: int, n_pairs: int) -> np.int64:
    """Return the last pair + 1 that has the centre of pair p."""
    centre = cell.pairs[cell.first + p] >> SHIFT
    low = np.int64(p + 1)
    high = np.int64(n_pairs)
    while low < high:
        middle = (low + high) // 2
        if cell.pairs[cell.first + middle] >> SHIFT > centre:
            high = middle
        else:
            low = middle + 1
    return low


@device
def _count_before(found: bool, totals: Any) -> np.int32:
    """Return how many threads of the block before this one have found something. All threads call this."""
    lane = cuda.threadIdx.x % WARP
    warp = cuda.threadIdx.x // WARP
    votes = ballot(found)
    if lane == 0:
        totals[warp] = cuda.popc(votes)
    cuda.syncthreads()
    lower_lanes = np.uint32((np.uint32(1) << np.uint32(lane)) - np.uint32(1))
    before = np.int32(cuda.popc(np.uint32(votes & lower_lanes)))
    for other in range(warp):
        before += totals[other]
    # `totals` is not written again before the next barrier, which all callers have.
    return before


@device
def join_runs(cell: SubCell, k: int, n_runs: int, stride: int, limits: Any, key: Any, batch: Any) -> None:
    """Join the runs from number k to a batch, and draw its negatives. The lanes of one warp call this.

    Lane b has the b-th run. The batch ends before the first run that does not fit. ``counts[0]`` is its number of runs.
    """
    lane = cuda.threadIdx.x
    m = np.int32(0)
    centre = np.int32(0)
    head = np.int64(0)
    if lane < RUNS and k + lane < n_runs:
        run = cell.runs[cell.first + (k + lane) * stride % n_runs]
        head = run >> 4
        m = np.int32(run & PAIRS)
        centre = np.int32(cell.pairs[cell.first + head] >> SHIFT)
    end = prefix_sum(m, lane)
    of_centre = np.int32(0)
    for other in range(RUNS):
        their_centre = cuda.shfl_sync(ALL_LANES, centre, other)
        their_pairs = cuda.shfl_sync(ALL_LANES, m, other)
        if other <= lane and their_centre == centre:
            of_centre += their_pairs
    fits = m > 0 and (lane == 0 or (end <= limits.batch and of_centre <= limits.centre))
    B = first_where(not fits)
    first_head = cuda.shfl_sync(ALL_LANES, np.int32(head), 0)
    n = cuda.shfl_sync(ALL_LANES, end, B - 1)
    if lane < B:
        batch.rows[lane] = centre
        batch.ends[lane + 1] = end
        for p in range(m):
            batch.contexts[end - m + p] = np.int32(cell.pairs[cell.first + head + p] & LOW)
            batch.run_of[end - m + p] = lane
    if lane < SHARED:
        batch.contexts[n + lane] = _draw_negative(cell, first_head, key, lane)
    if lane == 0:
        batch.ends[0] = 0
        batch.counts[0] = B


@device
def _draw_negative(cell: SubCell, head: int, key: Any, o: int) -> np.int32:
    """Return negative ``o`` of a batch whose first run begins with the pair ``head``, as the CPU draws it."""
    part = np.uint64(cell.tables.shape[1] // SHARED)
    index = (draw(key, np.int64(head) * SHARED + o) >> TABLE_SHIFT) & (part - np.uint64(1))
    return np.int32(cell.tables[cell.column, np.int64(np.uint64(o) * part + index)])


@device
def heavy_centre(cell: SubCell, number: int) -> tuple[int, int]:
    """Return the bounds of a heavy centre's pairs."""
    bounds = cell.runs[cell.last - 1 - number]
    return bounds >> 32, bounds & LAST


@device
def write_heavy_run(cell: SubCell, head: int, m: int, key: Any, batch: Any) -> None:
    """Make a batch of one run of m pairs, of which ``head`` is the first. Its negatives are contexts, too."""
    if cuda.threadIdx.x == 0:
        batch.rows[0] = np.int32(cell.pairs[cell.first + head] >> SHIFT)
        batch.ends[0] = 0
        batch.ends[1] = m + SHARED
    for c in range(cuda.threadIdx.x, m + SHARED, cuda.blockDim.x):
        batch.run_of[c] = 0
        if c < m:
            batch.contexts[c] = np.int32(cell.pairs[cell.first + head + c] & LOW)
        else:
            batch.contexts[c] = _draw_negative(cell, head, key, c - m)
