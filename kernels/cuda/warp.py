"""What the 32 threads of a warp do together. All of them must call; none may have returned."""

import math

from numba import cuda

from .jit import device

WARP = 32
FULL = 0xFFFFFFFF


@device
def prefix_sum(x, lane):
    """Return the sum of ``x`` over this thread and those before it."""
    step = 1
    while step < WARP:
        before = cuda.shfl_up_sync(FULL, x, step)
        if lane >= step:
            x += before
        step *= 2
    return x


@device
def first_where(predicate):
    """Return the first lane whose ``predicate`` holds; 32 where none does."""
    votes = cuda.ballot_sync(FULL, predicate)
    return cuda.ffs(votes) - 1 if votes else WARP


@device
def tree_search(leaves, nodes, size, x, lane):
    """Return the first of ``size`` leaves above ``x``, the last where none is: SaberLDA's W-ary tree, section 3.2.4.

    ``leaves``: prefix sums, (size,) float64. ``nodes``: the last leaf of each 32, (size / 32 rounded up,) float64. The
    two levels above are read from ``nodes``; a thread looks at one number a level, 32,768 leaves at most.
    """
    n_nodes = (size + WARP - 1) // WARP
    last = WARP * lane + WARP - 1
    top = nodes[last] if last < n_nodes else math.inf
    node = WARP * first_where(top > x)
    middle = nodes[node + lane] if node + lane < n_nodes else math.inf
    leaf = WARP * (node + first_where(middle > x))
    value = leaves[leaf + lane] if leaf + lane < size else math.inf
    found = leaf + first_where(value > x)
    return found if found < size else size - 1
