"""Train the pairs of one cell: runs of pairs that share a centre are attracted, then repelled by shared negatives.

A cell has pairs of a centre in block i (W_in) and a context in block j (W_out). Pairs of one centre are cut into runs
of up to RUN pairs. For a batch of up to RUNS runs, with centres V (RUNS, D) and n = SHARED negatives U (n, D) of
block j:

1. Attraction: each pair has label 1. A few runs at a time, all products come before all moves.
2. Repulsion: G = −α σ(V Uᵀ), row b multiplied by m_b negative w_j / n for a run of m_b pairs. Then U += Gᵀ V and
   V += G U, both with the old values.

So each pair repels as strongly as ``negative`` negatives of its own would, and the pairs of a run share n products.
Batches are bounded, because the steps of one batch add up without seeing each other:

- Runs are trained in an order of fixed stride, which spreads the runs of a centre over the cell. A batch has at most
  CENTRE_PAIRS pairs of one centre.
- A centre with too many pairs for that is heavy. Heavy centres are trained first, by themselves, one short run after
  the other.
- A batch has fewer pairs if one word is a large part of the block's negatives, or if the learning rate is large; see
  `_limits`.
- Negatives that equal a context are not skipped. If they were, a block with one very frequent word would have next to
  no negatives, and its vectors would grow without bound.

Source: the updates are Moon's (2019), Algorithms 20 to 22, as in par.py; cells are those of Lerer et al.,
"PyTorch-BigGraph" (SysML 2019).

Layout: rows are numbers within a block; W_in and W_out are the blocks (rows, D) float32.

Reference implementation: tests/helpers/naive_cells.py, `train_cell`.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel
from ..random import draw
from .batches import Batch, dots_by_four, empty_batch, repel
from .pairs import LOW, SHIFT
from .runs import PAIRS, RUNS, find_runs, stride_of
from .strips import WIDTH, repulsions
from .updates import move_rows, prefetch_row

#: Pairs of a run.
RUN = 4
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
#: Runs of a batch whose attraction has all products before all moves.
GROUP = 4
#: Groups between the prefetch of a group's rows and its attraction.
AHEAD = 2


class CellOptions(NamedTuple):
    """How a cell is trained."""

    negative: int
    weight: float  # of the negatives of the cell's block of contexts: dealing.BlockNegatives.weights
    heaviest: float  # largest share of one word in the block's negatives: dealing.BlockNegatives.heaviest
    alpha: float  # learning rate at the cell's first pair
    slope: float  # decrease of the learning rate per pair
    min_alpha: float
    key: np.uint64  # of the draws of negatives: the address (seed, step, i, j)


class Scratch(NamedTuple):
    """Buffers of a batch."""

    batch: Batch  # its rows are the centres of the runs
    pairs_of_centre: np.ndarray  # (rows of W_in,) uint8: the batch's pairs of each centre
    ends: np.ndarray  # (RUNS + 1,) int64: run b has the contexts ends[b]:ends[b + 1]
    contexts: np.ndarray  # (RUNS * RUN + 4,) uint32
    g: np.ndarray  # (RUNS * RUN + 4 + WIDTH,) float32: gradients of the contexts


class Limits(NamedTuple):
    """The largest numbers of pairs that are trained without seeing each other's steps, and the weight of negatives."""

    run: int  # of a run
    centre: int  # of one centre in a batch
    batch: int  # of a batch
    heavy: int  # of a run of a heavy centre
    group: int  # runs whose attraction has all products before all moves
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
    same_context = max(1, ATTRACTION / (alpha * np.sqrt(options.heaviest)))
    centre = int(max(1, min(CENTRE_PAIRS, CENTRE_FORCE / per_pair)))
    run = int(min(RUN, centre, same_context))
    batch = int(max(run, min(RUNS * RUN, NEGATIVE_FORCE / (per_pair * options.heaviest))))
    heavy = int(max(1, min(centre, same_context, PRODUCT_FORCE / (per_pair * options.heaviest))))
    # With such a word, runs see each other's attraction at once.
    group = GROUP if batch == RUNS * RUN else 1
    return Limits(run, centre, batch, heavy, group, weight / SHARED)


@kernel
def train_cell(W_in: np.ndarray, W_out: np.ndarray, pairs: np.ndarray, table: np.ndarray, options: CellOptions) -> None:
    """Train the blocks W_in and W_out (rows, D) float32 in place.

    ``pairs`` (n,) uint32 are sorted by centre; ``table`` (size,) uint16, size a power of two, has the negatives of the
    block of contexts.
    """
    scratch = Scratch(
        empty_batch(RUNS, SHARED, W_in.shape[1]),
        np.zeros(len(W_in), np.uint8),
        np.zeros(RUNS + 1, np.int64),
        np.zeros(RUNS * RUN + 4, np.uint32),
        np.zeros(RUNS * RUN + 4 + WIDTH, np.float32),
    )
    runs = np.empty(len(pairs), np.int64)
    limits = _limits(options)
    n_runs, heavy = find_runs(pairs, runs, limits.run)
    done = 0
    for h in range(0, len(heavy), 2):
        done = _train_heavy(W_in, W_out, pairs, (heavy[h], heavy[h + 1]), table, options, limits, done, scratch)
    stride = stride_of(n_runs)
    k = 0
    at = 0
    while k < n_runs:
        head = runs[at] >> 4
        B = 0
        while k < n_runs and B < RUNS and _add_run(pairs, runs[at], B, limits, scratch):
            B += 1
            k += 1
            at += stride
            if at >= n_runs:
                at -= n_runs
        alpha = _learning_rate(options, done)
        done += scratch.ends[B]
        _prefetch_runs(0, min(AHEAD * limits.group, B), scratch, W_in, W_out)
        _draw_negatives(head, table, options, scratch.batch.negatives, W_out)
        _attract(B, alpha, limits.group, scratch, W_in, W_out)
        for b in range(B):
            scratch.pairs_of_centre[scratch.batch.rows[b]] = 0
            scratch.batch.strengths[b] = alpha * limits.weight * (scratch.ends[b + 1] - scratch.ends[b])
        repel(B, SHARED, scratch.batch, W_in, W_out)


@kernel(inline="always")
def _learning_rate(options: CellOptions, done: int) -> np.float32:
    """Return the learning rate after ``done`` pairs of the cell: float32."""
    return np.float32(max(options.min_alpha, options.alpha - options.slope * done))


# --- batches of runs ---


@kernel(inline="always")
def _add_run(pairs: np.ndarray, run: int, B: int, limits: Limits, scratch: Scratch) -> bool:
    """Add a run to the batch after B others, and return True, unless the batch would become too large."""
    first = run >> 4
    m = run & PAIRS
    n = scratch.ends[B]
    centre = pairs[first] >> SHIFT
    if B:
        if n + m > limits.batch:
            return False
        if m + scratch.pairs_of_centre[centre] > limits.centre:
            return False
    scratch.batch.rows[B] = centre
    scratch.pairs_of_centre[centre] += m
    for p in range(m):
        scratch.contexts[n + p] = pairs[first + p] & LOW
    scratch.ends[B + 1] = n + m
    return True


# --- one batch ---


@kernel(_nrt=False)
def _draw_negatives(
    head: int, table: np.ndarray, options: CellOptions, negatives: np.ndarray, W_out: np.ndarray
) -> None:
    """Draw the negatives of a batch whose first run begins with the pair ``head``, and prefetch their rows."""
    for o in range(SHARED):
        index = (draw(options.key, head * SHARED + o) >> TABLE_SHIFT) & np.uint64(len(table) - 1)
        negatives[o] = table[index]
        prefetch_row(W_out, negatives[o])


@kernel(_nrt=False)
def _attract(B: int, alpha: np.float32, group: int, scratch: Scratch, W_in: np.ndarray, W_out: np.ndarray) -> None:
    """Train the B runs of a batch with label 1, ``group`` runs at a time."""
    centres, ends, contexts, g = scratch.batch.rows, scratch.ends, scratch.contexts, scratch.g
    for first in range(0, B, group):
        last = min(first + group, B)
        _prefetch_runs(min(first + AHEAD * group, B), min(last + AHEAD * group, B), scratch, W_in, W_out)
        for b in range(first, last):
            dots_by_four(W_in, centres[b], W_out, contexts, ends[b], ends[b + 1], g)
        for c in range(ends[first], ends[last], WIDTH):
            repulsions(g, c, alpha)
        for c in range(ends[first], ends[last]):
            g[c] += alpha
        for b in range(first, last):
            move_rows(W_in, centres[b], W_out, contexts, ends[b], ends[b + 1], g)


@kernel(inline="always")
def _prefetch_runs(first: int, last: int, scratch: Scratch, W_in: np.ndarray, W_out: np.ndarray) -> None:
    """Prefetch the rows of the runs first to last of the batch."""
    for b in range(first, last):
        prefetch_row(W_in, scratch.batch.rows[b])
        for c in range(scratch.ends[b], scratch.ends[b + 1]):
            prefetch_row(W_out, scratch.contexts[c])


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
    scratch: Scratch,
) -> int:
    """Train the pairs first to last, of one centre, in short runs with negatives of their own.

    Returns the number of pairs trained so far.
    """
    first, last = bounds
    size = limits.heavy
    rows, g, negatives = scratch.contexts, scratch.g, scratch.batch.negatives
    centre = pairs[first] >> SHIFT
    for head in range(first, last, size):
        m = min(size, last - head)
        alpha = _learning_rate(options, done)
        done += m
        for p in range(m):
            rows[p] = pairs[head + p] & LOW
            prefetch_row(W_out, rows[p])
        _draw_negatives(head, table, options, negatives, W_out)
        for o in range(SHARED):
            rows[m + o] = negatives[o]
        dots_by_four(W_in, centre, W_out, rows, 0, m + SHARED, g)
        _gradients(m, alpha, np.float32(alpha * limits.weight * m), g)
        move_rows(W_in, centre, W_out, rows, 0, m + SHARED, g)
    return done


@kernel(inline="always")
def _gradients(m: int, alpha: np.float32, strength: np.float32, g: np.ndarray) -> None:
    """Replace m products of label 1, and SHARED of label 0 after them, by their gradients."""
    for c in range(0, m + SHARED, WIDTH):
        repulsions(g, c, np.float32(1))
    for c in range(m):
        g[c] = alpha * (g[c] + np.float32(1))
    for c in range(m, m + SHARED):
        g[c] *= strength
