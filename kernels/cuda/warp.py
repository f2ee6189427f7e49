"""Operations of a warp: the 32 threads, called lanes, that run in step; and a sum over the warps of a block.

Every operation here names all lanes in its mask, so all 32 lanes must take part. So blocks have a multiple of 32
threads, no thread returns before the warp's last operation, and a branch around an operation depends only on values
that all lanes share.

Tests against NumPy: tests/kernels/cuda/test_warp.py.
"""

import math
from typing import Any

import numpy as np
from numba import cuda, float64

from .arrays import DeviceArray
from .jit import device

#: Lanes of a warp.
WARP = 32
#: The mask of an operation in which all lanes take part.
ALL_LANES = 0xFFFFFFFF


@device
def ballot(predicate: bool) -> np.uint32:
    """Return the votes of the warp as uint32: bit i is set where the predicate holds in lane i.

    Numba types votes as int32. A vote of lane 31 would make them negative, and in an expression with an int64 the sign
    would be extended to 32 more votes.
    """
    return np.uint32(cuda.ballot_sync(ALL_LANES, predicate))


@device
def first_lane(votes: np.uint32) -> np.uint32:
    """Return the first lane of these votes, 32 if there is none."""
    return np.uint32(cuda.clz(cuda.brev(votes)))


@device
def first_where(predicate: bool) -> np.uint32:
    """Return the first lane in which the predicate holds, 32 if there is none."""
    return first_lane(ballot(predicate))


@device
def lanes_with(value: int) -> np.uint32:
    """Return the lanes that have the same value as this one, as uint32: bit i for lane i."""
    # Numba types the result as int32, like a vote's.
    return np.uint32(cuda.match_any_sync(ALL_LANES, np.int32(value)))


@device
def prefix_sum(x: Any, lane: int) -> Any:
    """Return the sum of ``x`` over the lanes up to this one, this one included."""
    step = 1
    while step < WARP:
        before = cuda.shfl_up_sync(ALL_LANES, x, step)
        if lane >= step:
            x += before
        step *= 2
    return x


@device
def warp_sum(x: Any) -> Any:
    """Return the sum of ``x`` over all lanes; every lane gets it."""
    for bits in (16, 8, 4, 2, 1):
        x += cuda.shfl_xor_sync(ALL_LANES, x, bits)
    return x


@device
def block_sum(x: float) -> float:
    """Return the sum of a float64 of each thread of the block; only the first warp gets it. All threads call this.

    Blocks have at most 1,024 threads. A second call needs a barrier of the block before it, because both use the same
    shared memory.
    """
    sums = cuda.shared.array(WARP, float64)  # of each warp of the block
    lane = cuda.threadIdx.x % WARP
    warp = cuda.threadIdx.x // WARP
    x = warp_sum(x)
    if lane == 0:
        sums[warp] = x
    cuda.syncthreads()
    if warp == 0:
        x = warp_sum(sums[lane] if lane < cuda.blockDim.x // WARP else float64(0))
    return x


def tree_nodes(size: int) -> int:
    """Return how many nodes a tree of this many leaves has, on all levels; see `tree_search`."""
    n_nodes = (size + WARP - 1) // WARP
    if n_nodes > WARP:
        return n_nodes + (n_nodes + WARP - 1) // WARP
    return n_nodes


@device
def tree_search(leaves: DeviceArray, nodes: DeviceArray, size: int, x: float, lane: int) -> np.uint32:
    """Return the index of the first leaf above ``x``, the last index if there is none.

    This is the search in SaberLDA's W-ary tree (section 3.2.4), with W = 32: at each level, every lane compares one
    number with x, and a vote selects the node to visit next. Three levels hold 32,768 leaves.

    leaves: prefix sums, (size,) float64.
    nodes: the last leaf of each 32 and, if these are more than 32, the last node of each 32: (`tree_nodes`,) float64.
    """
    # Numbers without a sign and of 32 bits: Numba lets others count from the end, and looks at each of them.
    last = np.uint32(size - 1)
    last_node = np.uint32(last // WARP)
    node = np.uint32(lane)
    # The branch is the same for all lanes.
    if last_node >= WARP:
        top = nodes[np.uint32(last_node + 1 + lane)] if lane <= last_node // WARP else math.inf
        node = np.uint32(WARP * first_where(top > x) + lane)
    middle = nodes[node] if node <= last_node else math.inf
    leaf = np.uint32(WARP * (node - lane + first_where(middle > x)) + lane)
    value = leaves[leaf] if leaf <= last else math.inf
    return min(np.uint32(leaf - lane + first_where(value > x)), last)
