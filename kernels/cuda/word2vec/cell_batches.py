"""One batch of a sub-cell on a CUDA device: its rows are read into shared memory, trained there, and written back.

The arithmetic is that of the CPU's cells.py. All rows of a batch are read at once, by accesses of 16 bytes, because a
read of device memory takes as long as hundreds of additions. A row that occurs twice is in shared memory twice, but
only the first one is used and written back. No other block has these rows at the same time, so there are
no atomic additions.

1. Attraction. Products: a warp has a pair. Moves: a thread has a column, and takes one pair after another.
2. Repulsion of up to 16 rows V from 16 negatives U: three products of small matrices. G = −strength σ(V Uᵀ): eight
   neighbouring threads share the columns of one row and four negatives. U += Gᵀ V and V += G U: a thread has a column,
   and computes four rows at a time, so it reads a number and a vector for four additions.

Shared memory, for D columns, R = RUNS runs, N = SHARED negatives and C = CONTEXTS. ``numbers`` is dynamic. Its parts
begin on multiples of 16 bytes, at places that do not depend on D but for the rows, so that they take no registers:

=================  ==============  ================================================================
``numbers``        R N float32     gradients of repulsion G, row by row
from ``TURNED``    N R float32     the same, negative by negative
from ``PAIRWISE``  C float32       gradients of attraction
from ``ROWS``      R D float32     rows V of W_in
after them         C D float32     rows U of W_out: of the contexts, and then of the negatives
after them         R D float32     moves of V
``rows``           R int32         rows of W_in in the block
``ends``           R + 1 int32     run b has the contexts ``ends[b]:ends[b + 1]``
``contexts``       C int32         rows of W_out in the block
``run_of``         C int32         the run of each context
``V``, ``U``       R and C int32   where the first of equal rows begins in ``numbers``
``counts``         WARP int32      for `cell_runs.find_runs`, and the number of runs of the batch
=================  ==============  ================================================================

Tests against the CPU's cells: tests/kernels/cuda/word2vec/test_cells.py.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32

from ...word2vec.cells import RUN, SHARED
from ...word2vec.runs import RUNS
from ..jit import device
from ..vectors import load4, store4
from ..warp import ALL_LANES, WARP, warp_sum
from .updates import LARGEST_PRODUCT

#: Contexts and negatives of a batch, at most.
CONTEXTS = RUNS * RUN + SHARED
#: Length of `BatchMemory.ends`: one more than there are runs, up to a multiple of four, so that dynamic shared memory,
#: which follows all static arrays, begins on a multiple of 16 bytes.
ENDS = RUNS + 4
#: Threads that share the columns of a product of repulsion.
SHARERS = 8
#: Rows that a warp reads at once, and that a thread changes at once.
AT_ONCE = 4
#: Where the parts of ``numbers`` begin.
TURNED = RUNS * SHARED
PAIRWISE = 2 * RUNS * SHARED
ROWS = PAIRWISE + CONTEXTS


class BatchMemory(NamedTuple):
    """A batch in shared memory; see the table above."""

    numbers: Any
    rows: Any
    ends: Any
    contexts: Any
    run_of: Any
    V: Any
    U: Any
    counts: Any


def shared_bytes(D: int) -> int:
    """Return the bytes of a block's dynamic shared memory."""
    return 4 * (ROWS + (2 * RUNS + CONTEXTS) * D)


# --- rows ---


@device
def read_rows(B: int, n: int, D: int, W_in: Any, W_out: Any, batch: BatchMemory) -> None:
    """Read the rows of B runs and of n contexts, and find equal ones."""
    _read(batch.rows, B, D, W_in, batch.numbers, ROWS)
    _read(batch.contexts, n, D, W_out, batch.numbers, ROWS + RUNS * D)
    for c in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        batch.U[c] = ROWS + (RUNS + _first_equal(batch.contexts, c)) * D
    for b in range(cuda.threadIdx.x, B, cuda.blockDim.x):
        batch.V[b] = ROWS + _first_equal(batch.rows, b) * D
    cuda.syncthreads()


@device
def _read(rows: Any, n: int, D: int, W: Any, numbers: Any, base: int) -> None:
    """Copy n rows to shared memory. A warp reads several rows before it writes the first one."""
    warps = cuda.blockDim.x // WARP
    for column in range(0, D, 4 * WARP):
        d = column + 4 * (cuda.threadIdx.x % WARP)
        if d < D:
            for r in range(cuda.threadIdx.x // WARP, n, AT_ONCE * warps):
                # The last rows may be read more than once.
                s = min(r + warps, n - 1)
                t = min(r + 2 * warps, n - 1)
                u = min(r + 3 * warps, n - 1)
                first = load4(W, np.int64(rows[r]) * D + d)
                second = load4(W, np.int64(rows[s]) * D + d)
                third = load4(W, np.int64(rows[t]) * D + d)
                fourth = load4(W, np.int64(rows[u]) * D + d)
                store4(numbers, base + r * D + d, first)
                store4(numbers, base + s * D + d, second)
                store4(numbers, base + t * D + d, third)
                store4(numbers, base + u * D + d, fourth)


@device
def _first_equal(rows: Any, c: int) -> int:
    """Return the first place that has the same row as place c."""
    first = c
    for other in range(c):
        if rows[other] == rows[c]:
            first = min(first, other)
    return first


@device
def write_rows(B: int, n: int, D: int, W_in: Any, W_out: Any, batch: BatchMemory) -> None:
    """Write the rows of a batch back. After this, its shared memory may be used again."""
    cuda.syncthreads()
    _write(batch.rows, batch.V, B, D, W_in, batch.numbers, ROWS)
    _write(batch.contexts, batch.U, n, D, W_out, batch.numbers, ROWS + RUNS * D)
    cuda.syncthreads()


@device
def _write(rows: Any, places: Any, n: int, D: int, W: Any, numbers: Any, base: int) -> None:
    """Copy n rows from shared memory to W, one per warp, each only once."""
    for r in range(cuda.threadIdx.x // WARP, n, cuda.blockDim.x // WARP):
        place = base + r * D
        # Only the first of equal rows has been trained.
        if places[r] == place:
            for d in range(4 * (cuda.threadIdx.x % WARP), D, 4 * WARP):
                store4(W, np.int64(rows[r]) * D + d, load4(numbers, place + d))


# --- attraction ---


@device
def _sigmoid(product: Any) -> Any:
    """Return the logistic function of a float32 product."""
    x = min(max(product, float32(-LARGEST_PRODUCT)), float32(LARGEST_PRODUCT))
    return float32(1) / (float32(1) + math.exp(-x))


@device
def attract(B: int, n: int, positive: int, alpha: Any, strength: Any, D: int, batch: BatchMemory) -> None:
    """Train the runs with their n contexts: all products come before all moves.

    The first ``positive`` contexts have label 1, and the others label 0 with this ``strength``.
    """
    lane = cuda.threadIdx.x % WARP
    for c in range(cuda.threadIdx.x // WARP, n, cuda.blockDim.x // WARP):
        v = batch.V[batch.run_of[c]]
        u = batch.U[c]
        total = float32(0)
        for d in range(4 * lane, D, 4 * WARP):
            a = load4(batch.numbers, v + d)
            b = load4(batch.numbers, u + d)
            total += a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]
        total = _sigmoid(warp_sum(total))
        if lane == 0:
            batch.numbers[PAIRWISE + c] = alpha * (float32(1) - total) if c < positive else -strength * total
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
        for b in range(B):
            place = batch.V[b] + k
            held = batch.numbers[place]
            total = held
            for c in range(batch.ends[b], batch.ends[b + 1]):
                g = batch.numbers[PAIRWISE + c]
                at = batch.U[c] + k
                value = batch.numbers[at]
                total += g * value
                batch.numbers[at] = value + g * held
            batch.numbers[place] = total
    cuda.syncthreads()


# --- repulsion ---


@device
def repel(B: int, n: int, strength: Any, D: int, batch: BatchMemory) -> None:
    """Train the B runs with the negatives, which are the contexts from n on. ``strength`` is that of one pair."""
    _multiply_all(B, n, strength, D, batch)
    moves = ROWS + (RUNS + CONTEXTS) * D
    for k in range(cuda.threadIdx.x, D, cuda.blockDim.x):
        # The moves of V need the old U, and those of U the old V.
        for b in range(0, B, AT_ONCE):
            changes = _changes_of_rows(b, n, k, batch)
            for i in range(AT_ONCE):
                batch.numbers[moves + (b + i) * D + k] = changes[i]
        for o in range(0, SHARED, AT_ONCE):
            changes = _changes_of_negatives(o, B, k, batch)
            for i in range(AT_ONCE):
                batch.numbers[batch.U[n + o + i] + k] += changes[i]
        for b in range(B):
            batch.numbers[batch.V[b] + k] += batch.numbers[moves + b * D + k]


@device
def _multiply_all(B: int, n: int, strength: Any, D: int, batch: BatchMemory) -> None:
    """Set G = −strength σ(V Uᵀ), where a row's strength is that of its pairs together; zero for the runs from B on."""
    sharer = cuda.threadIdx.x % SHARERS
    quarters = SHARED // AT_ONCE
    for base in range(0, RUNS * quarters, cuda.blockDim.x // SHARERS):
        item = base + cuda.threadIdx.x // SHARERS
        # All threads of a warp take part in the sums, also those that have no products.
        b = min(item // quarters, RUNS - 1)
        o = item % quarters * AT_ONCE
        sums = _four_products(min(b, B - 1), n + o, sharer, D, batch)
        if sharer == 0 and item < RUNS * quarters:
            own = float32(0)
            if b < B:
                own = -strength * float32(batch.ends[b + 1] - batch.ends[b])
            for i in range(AT_ONCE):
                g = own * _sigmoid(sums[i])
                batch.numbers[b * SHARED + o + i] = g
                batch.numbers[TURNED + (o + i) * RUNS + b] = g
    cuda.syncthreads()


@device
def _four_products(b: int, c: int, sharer: int, D: int, batch: BatchMemory) -> Any:
    """Return the products of run b's row with the contexts c to c + 3. Eight threads call this, and all get them."""
    v = batch.V[b]
    first = float32(0)
    second = float32(0)
    third = float32(0)
    fourth = float32(0)
    for d in range(4 * sharer, D, 4 * SHARERS):
        a = load4(batch.numbers, v + d)
        first += _product(a, load4(batch.numbers, batch.U[c] + d))
        second += _product(a, load4(batch.numbers, batch.U[c + 1] + d))
        third += _product(a, load4(batch.numbers, batch.U[c + 2] + d))
        fourth += _product(a, load4(batch.numbers, batch.U[c + 3] + d))
    return _sum(first), _sum(second), _sum(third), _sum(fourth)


@device
def _product(a: Any, b: Any) -> Any:
    """Return the dot product of two vectors of four numbers."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


@device
def _sum(x: Any) -> Any:
    """Return the sum over the threads that share the columns."""
    for bits in (4, 2, 1):
        x += cuda.shfl_xor_sync(ALL_LANES, x, bits)
    return x


@device
def _changes_of_rows(b: int, n: int, k: int, batch: BatchMemory) -> Any:
    """Return column k of (G U) of four runs."""
    first = float32(0)
    second = float32(0)
    third = float32(0)
    fourth = float32(0)
    for o in range(SHARED):
        value = batch.numbers[batch.U[n + o] + k]
        g = load4(batch.numbers, TURNED + o * RUNS + b)
        first += g[0] * value
        second += g[1] * value
        third += g[2] * value
        fourth += g[3] * value
    return first, second, third, fourth


@device
def _changes_of_negatives(o: int, B: int, k: int, batch: BatchMemory) -> Any:
    """Return column k of (Gᵀ V) of four negatives."""
    first = float32(0)
    second = float32(0)
    third = float32(0)
    fourth = float32(0)
    for b in range(B):
        value = batch.numbers[batch.V[b] + k]
        g = load4(batch.numbers, b * SHARED + o)
        first += g[0] * value
        second += g[1] * value
        third += g[2] * value
        fourth += g[3] * value
    return first, second, third, fourth
