"""Train the pairs of one cell: runs of pairs that share a centre are attracted, then repelled by shared negatives.

A cell has pairs of a centre in block i (W_in) and a context in block j (W_out). Pairs of one centre are cut into runs
of up to RUN pairs. For a batch of up to RUNS runs, with centres V (RUNS, D) and n = SHARED negatives U (n, D) of
block j:

1. Attraction: each pair has label 1. All products of the batch come before all moves.
2. Repulsion: G = −α σ(V Uᵀ), row b multiplied by m_b negative w_j / n for a run of m_b pairs. Then U += Gᵀ V and
   V += G U, both with the old values.

So each pair repels as strongly as ``negative`` negatives of its own would, and the pairs of a run share n products.
The negatives are a stratified sample: the table of negatives is sorted by frequency, and each of n equal parts of it
gives one. Then every batch has frequent and rare words in the right proportion, and steps vary less than with
independent draws. With these, vectors answered fewer analogies.

Batches are bounded, because all steps of a batch start from the same values and then add up:

- Runs are trained in an order of fixed stride, which spreads the runs of a centre over the cell. A batch has at most
  CENTRE_PAIRS pairs of one centre.
- A centre with too many pairs for that is heavy. Heavy centres are trained first, by themselves, one short run after
  the other.
- A batch has fewer pairs if one word is a large part of the block's negatives, or if the learning rate is large; see
  `_limits`.
- Negatives that equal a context are not skipped. If they were, a block with one very frequent word would have next to
  no negatives, and its vectors would grow without bound.

Source: the updates are Moon's (2019), Algorithms 20 to 22, as in par.py. Unlike there, the centre is the input (W_in)
and the context the target (W_out), as Mikolov et al. (2013) define skip-gram. By footnote 9 of the dissertation, both
give equivalent vectors. Cells are those of Lerer et al., "PyTorch-BigGraph" (SysML 2019).

Layout: rows are numbers within a block; W_in and W_out are the blocks (rows, D) float32.

Reference implementation: tests/helpers/naive_cells.py, `train_cell`.
"""

import math
from typing import NamedTuple

import numpy as np

from ..jit import kernel
from ..random import draw
from ..simd.prefetch import prefetch
from ..simd.tiles import ROWS, zeros
from .batches import empty_list, empty_workspace, repel
from .pairs import LOW, SHIFT
from .runs import PAIRS, RUNS, find_runs, stride_of
from .strips import STRIP, WIDTH, add_products_of_pairs, repulsions, store_sums_of_rows
from .updates import dots_by_four, move_rows, prefetch_row

#: Pairs of a run. With longer runs, a pair has fewer products with negatives: runs of four take three quarters of the
#: time, but the vectors answer fewer analogies (docs/explanation/strata-experiments.md).
RUN = 2
#: Negatives that the runs of a batch share.
SHARED = 16
#: Most pairs of one centre in a batch, and in a run of a heavy centre.
CENTRE_PAIRS = 8
#: Largest sums of the repulsion's factors, α negative w_j per pair: on a centre in a batch, on a negative in a batch,
#: and on the product of a heavy centre and a negative, where both rows move.
CENTRE_FORCE = 2.0
NEGATIVE_FORCE = 1.0
PRODUCT_FORCE = 0.5
#: Largest sum of the attraction's factors, α per pair, on the product of a centre and one context.
ATTRACTION = 0.25
#: Largest factor of one pair. It binds only at learning rates from 0.1 on, and in blocks of large weight.
PAIR_FORCE = 0.5
#: Bits of a draw that are an index into the table of negatives, and so its largest size.
TABLE_BITS = 16
TABLE_SHIFT = np.uint64(64 - TABLE_BITS)


class CellOptions(NamedTuple):
    """How a cell is trained."""

    negative: int
    weight: float  # of the negatives of the cell's block of contexts: dealing.BlockNegatives.weights
    heaviest: float  # largest share of one word in the block's negatives: dealing.BlockNegatives.heaviest
    alpha: float  # learning rate at the cell's first pair
    slope: float  # decrease of the learning rate per pair
    min_alpha: float
    key: np.uint64  # of the draws of negatives: the address (seed, step, i, j)


class Order(NamedTuple):
    """The runs of a cell, the order in which they are trained, and counts for the batch that is being filled."""

    pairs: np.ndarray  # (n,) uint32: pairs of the cell
    runs: np.ndarray  # (runs,) int64: see runs.py
    stride: int  # the run after run r is (r + stride) mod runs
    pairs_of_centre: np.ndarray  # (rows of W_in,) uint8: pairs of each centre in the batch that is being filled


class Batch(NamedTuple):
    """A batch of up to RUNS runs, with SHARED negatives; see `_empty_batch`."""

    rows: np.ndarray  # (any,) uint32: rows of W_in, one for each run
    ends: np.ndarray  # (RUNS + 1,) int64: run b has the pairs ends[b]:ends[b + 1]
    centres: np.ndarray  # (any,) uint32: rows of W_in, one for each pair
    contexts: np.ndarray  # (any,) uint32: rows of W_out, one for each pair, and then the negatives
    negatives: np.ndarray  # (any,) uint32: rows of W_out
    places: np.ndarray  # (SHARED,) uint64: of the negatives in their table


class Limits(NamedTuple):
    """The largest numbers of pairs that are trained from the same values, and the weight of negatives."""

    run: int  # of a run
    centre: int  # of one centre in a batch
    batch: int  # of a batch
    heavy: int  # of a run of a heavy centre
    weight: float  # negative w_j / SHARED


@kernel
def _limits(options: CellOptions) -> Limits:
    """Return the limits of a cell.

    Steps that start from the same value add up. If their sum is too large, it overshoots, and vectors grow without
    bound. So the sum of the factors on one row is at most FORCE: on a centre those of its pairs, on a negative those of
    all pairs of the batch, times the share of negatives that are this word.
    """
    alpha = max(options.alpha, options.min_alpha)
    weight = min(options.negative * options.weight, PAIR_FORCE / alpha)
    per_pair = alpha * weight
    # The share of a word among the contexts is larger than among the negatives, but hardly larger than the square root.
    same_context = max(1, ATTRACTION / (alpha * math.sqrt(options.heaviest)))
    centre = int(max(1, min(CENTRE_PAIRS, CENTRE_FORCE / per_pair)))
    run = int(min(RUN, centre, same_context))
    batch = int(max(run, min(RUNS * RUN, NEGATIVE_FORCE / (per_pair * options.heaviest))))
    heavy = int(max(1, min(centre, same_context, PRODUCT_FORCE / (per_pair * options.heaviest))))
    return Limits(run, centre, batch, heavy, weight / SHARED)


def has_memory_for(D: int) -> bool:
    """Return whether rows of D numbers are short enough for this processor: always."""
    return True


@kernel
def train_cell(W_in: np.ndarray, W_out: np.ndarray, pairs: np.ndarray, table: np.ndarray, options: CellOptions) -> None:
    """Train the blocks W_in and W_out (rows, D) float32 in place.

    ``pairs`` (n,) uint32 are sorted by centre. ``table`` (size,) uint16 has the negatives of the block of contexts in
    ascending order; its size is a power of two, at least SHARED.
    """
    limits = _limits(options)
    runs = np.empty(len(pairs), np.int64)
    n_runs, heavy = find_runs(pairs, runs, limits.run)
    g = np.zeros(RUNS * RUN + SHARED + WIDTH, np.float32)
    space = empty_workspace(RUNS, SHARED, W_in.shape[1])
    batch = _empty_batch()
    next_batch = _empty_batch()
    batches = batch, next_batch
    # Numba would compile the kernels called here once more for a constant 0.
    zero = np.int64(0)
    done = zero
    for h in range(0, len(heavy), 2):
        done = _train_heavy(W_in, W_out, pairs, (heavy[h], heavy[h + 1]), table, options, limits, done, batches, g)
    order = Order(pairs, runs[:n_runs], stride_of(n_runs), np.zeros(len(W_in), np.uint8))
    B, k, at = _fill_batch(order, zero, zero, limits, options, table, batch, W_in)
    _read_negatives(batch.ends[B], table, batch)
    while B:
        # The next batch is filled in advance, because its rows are prefetched during this one.
        next_B, k, at = _fill_batch(order, k, at, limits, options, table, next_batch, W_in)
        alpha = _learning_rate(options, done)
        done += batch.ends[B]
        _attract(B, alpha, batch, g, W_in, W_out)
        _read_negatives(next_batch.ends[next_B], table, next_batch)
        for b in range(B):
            space.strengths[b] = alpha * limits.weight * (batch.ends[b + 1] - batch.ends[b])
        upcoming = next_batch.contexts[: next_batch.ends[next_B] + SHARED]
        repel(B, batch.rows, SHARED, batch.negatives, space, upcoming, W_in, W_out)
        B = next_B
        batch, next_batch = next_batch, batch


@kernel(inline="always")
def _learning_rate(options: CellOptions, done: int) -> np.float32:
    """Return the learning rate after ``done`` pairs of the cell: float32."""
    return np.float32(max(options.min_alpha, options.alpha - options.slope * done))


# --- batches of runs ---


@kernel
def _empty_batch() -> Batch:
    """Return the lists of a batch, with room for the pairs that are multiplied beyond its end."""
    most = RUNS * RUN + SHARED + ROWS
    return Batch(
        empty_list(RUNS),
        np.zeros(RUNS + 1, np.int64),
        np.zeros(most, np.uint32),
        np.zeros(most, np.uint32),
        empty_list(SHARED),
        np.zeros(SHARED, np.uint64),
    )


@kernel(_nrt=False)
def _fill_batch(
    order: Order,
    k: int,
    at: int,
    limits: Limits,
    options: CellOptions,
    table: np.ndarray,
    batch: Batch,
    W_in: np.ndarray,
) -> tuple[int, int, int]:
    """Fill a batch with runs, draw its negatives, and prefetch its rows of W_in.

    The first run is number k in the order of training, and has the index ``at``. Returns the number of runs in the
    batch, and k and ``at`` of the next run. If no run is left, the batch keeps its old negatives.
    """
    n_runs = len(order.runs)
    head = 0
    if k < n_runs:
        head = order.runs[at] >> 4
    B = 0
    while k < n_runs and RUNS > B and _add_run(order, order.runs[at], B, limits, batch):
        B += 1
        k += 1
        at += order.stride
        if at >= n_runs:
            at -= n_runs
    for b in range(B):
        order.pairs_of_centre[batch.rows[b]] = 0
        prefetch_row(W_in, batch.rows[b])
    if B:
        _draw_negatives(head, table, options, batch)
    return B, k, at


@kernel(inline="always")
def _add_run(order: Order, run: int, B: int, limits: Limits, batch: Batch) -> bool:
    """Add a run to the batch after B others, and return True, unless the batch would become too large."""
    first = run >> 4
    m = run & PAIRS
    n = batch.ends[B]
    centre = order.pairs[first] >> SHIFT
    if B:
        if n + m > limits.batch:
            return False
        if m + order.pairs_of_centre[centre] > limits.centre:
            return False
    batch.rows[B] = centre
    order.pairs_of_centre[centre] += m
    for p in range(m):
        batch.centres[n + p] = centre
        batch.contexts[n + p] = order.pairs[first + p] & LOW
    batch.ends[B + 1] = n + m
    return True


# --- one batch ---


@kernel(_nrt=False)
def _draw_negatives(head: int, table: np.ndarray, options: CellOptions, batch: Batch) -> None:
    """Draw the negatives of a batch whose first run begins with the pair ``head``: one from each part of the table.

    Only their places in the table are drawn, because the table comes from the cache that all cores share.
    """
    part = np.uint64(len(table) // SHARED)
    for o in range(SHARED):
        index = (draw(options.key, head * SHARED + o) >> TABLE_SHIFT) & (part - np.uint64(1))
        batch.places[o] = np.uint64(o) * part + index
        prefetch(table, batch.places[o])


@kernel(_nrt=False)
def _read_negatives(n: int, table: np.ndarray, batch: Batch) -> None:
    """Read the negatives that were drawn; list them after the first n contexts too."""
    for o in range(SHARED):
        batch.negatives[o] = batch.contexts[n + o] = table[batch.places[o]]


@kernel(_nrt=False)
def _attract(B: int, alpha: np.float32, batch: Batch, g: np.ndarray, W_in: np.ndarray, W_out: np.ndarray) -> None:
    """Train the B runs of a batch with label 1: all products come before all moves."""
    ends, contexts = batch.ends, batch.contexts
    D = W_in.shape[1]
    # Up to three pairs of an older batch are multiplied as well.
    for p in range(0, ends[B], ROWS):
        tile = zeros(W_in, 2)
        for d in range(0, D, STRIP):
            tile = add_products_of_pairs(tile, W_in, batch.centres, W_out, contexts, p, D, d)
        store_sums_of_rows(tile, g, p)
    for c in range(0, ends[B], WIDTH):
        repulsions(g, c, alpha)
    for c in range(ends[B]):
        g[c] += alpha
    for b in range(B):
        move_rows(W_in, batch.rows[b], W_out, contexts, ends[b], ends[b + 1], g)


# --- heavy centres ---


@kernel
def _train_heavy(
    W_in: np.ndarray,
    W_out: np.ndarray,
    pairs: np.ndarray,
    bounds: tuple[int, int],
    table: np.ndarray,
    options: CellOptions,
    limits: Limits,
    done: int,
    batches: tuple[Batch, Batch],
    g: np.ndarray,
) -> int:
    """Train the pairs first to last, of one centre, in short runs with negatives of their own.

    Returns the number of pairs trained so far.
    """
    first, last = bounds
    batch, next_batch = batches
    size = limits.heavy
    centre = pairs[first] >> SHIFT
    m = _fill_heavy(first, last, pairs, size, table, options, batch, W_out)
    for head in range(first, last, size):
        next_m = _fill_heavy(head + size, last, pairs, size, table, options, next_batch, W_out)
        alpha = _learning_rate(options, done)
        done += m
        dots_by_four(W_in, centre, W_out, batch.contexts, 0, m + SHARED, g)
        _gradients(m, alpha, np.float32(alpha * limits.weight * m), g)
        move_rows(W_in, centre, W_out, batch.contexts, 0, m + SHARED, g)
        m = next_m
        batch, next_batch = next_batch, batch
    return done


@kernel(_nrt=False)
def _fill_heavy(
    head: int,
    last: int,
    pairs: np.ndarray,
    size: int,
    table: np.ndarray,
    options: CellOptions,
    batch: Batch,
    W_out: np.ndarray,
) -> int:
    """List the contexts of a run of up to ``size`` pairs from ``head`` on, and its negatives; prefetch their rows.

    Returns the number of pairs.
    """
    m = max(0, min(size, last - head))
    for p in range(m):
        batch.contexts[p] = pairs[head + p] & LOW
    _draw_negatives(head, table, options, batch)
    _read_negatives(m, table, batch)
    for r in range(m + SHARED):
        prefetch_row(W_out, batch.contexts[r])
    return m


@kernel(inline="always")
def _gradients(m: int, alpha: np.float32, strength: np.float32, g: np.ndarray) -> None:
    """Replace m products of label 1, and SHARED of label 0 after them, by their gradients."""
    for c in range(0, m + SHARED, WIDTH):
        repulsions(g, c, np.float32(1))
    for c in range(m):
        g[c] = alpha * (g[c] + np.float32(1))
    for c in range(m, m + SHARED):
        g[c] *= strength
