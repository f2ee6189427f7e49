"""Divide a cell into sub-cells, which the thread blocks of a CUDA device train side by side.

A cell is trained in strata of its own. Its rows of W_in are in G groups, and so are its rows of W_out. Row r is in
group r + t (r // G) mod G. The turn t is drawn for each cell, so that any two rows meet in the same group now and then.
Sub-cell (a, c) has the pairs of a centre in group a and a context in group c. Diagonal t has the G sub-cells
(a, a + t mod G), of which no two have a row in common. So they can be trained at the same time, and the result does not
depend on which one is first. Diagonals are trained one after another.

A sub-cell is trained as a cell is (cells.py). Its negatives come from its own group of contexts. So that each word is
drawn as often as in the whole cell, the weight of group c is

    (share of group c in the table of negatives) / (share of group c in the contexts of the cell's pairs)

The learning rate falls from diagonal to diagonal, and within a sub-cell.

Source: the strata of Gemulla et al. (KDD 2011), as in the engine's grid; groups and weights are ours.

Layout: pairs as in pairs.py. Sub-cell (a, c) has the number a G + c.

Tests: tests/kernels/word2vec/test_sub_cells.py, against these formulas.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel
from ..random import draw
from .cells import SHARED, CellOptions
from .pairs import LOW, SHIFT

#: Largest number of groups, and the least number of rows of a group, on average.
GROUPS = 8
GROUP_ROWS = 64
#: Draws of the turns, at indices that no draw of negatives has.
TURN_IN = -1
TURN_OUT = -2
#: Draw of the first entry of a table that is used, at an index that no other draw has.
FIRST_ENTRY = -3
#: Most entries of a table that a cell uses, since they are uploaded for each cell. Of a larger table, cells use
#: different entries.
MOST_ENTRIES = 1 << 15
#: Stands for the weight of a group without negatives.
NO_WEIGHT = 1e-9


#: Bytes on a device of each pair of a cell: the pair, and a run. The number of pairs varies, so a multiple of the mean
#: is planned.
PAIR_BYTES = 4 + 8
PAIRS_RESERVE = 4


def device_bytes(pairs: int, n_cells: int) -> int:
    """Return the bytes on a device of one of ``n_cells`` cells that have ``pairs`` pairs together, without vectors."""
    return PAIRS_RESERVE * PAIR_BYTES * (pairs // n_cells + 1)


class GroupNegatives(NamedTuple):
    """The negatives of the G groups of a cell's contexts."""

    tables: np.ndarray  # (G, size) uint16: rows in the block, each as often as it is drawn; size is a power of two
    weights: np.ndarray  # (G,) float64: as CellOptions.weight
    heaviest: np.ndarray  # (G,) float64: as CellOptions.heaviest


def number_of_groups(rows: int, columns: int) -> int:
    """Return G for a cell with these numbers of rows of W_in and of W_out: a power of two, the same on every device."""
    groups = 1
    while 2 * groups <= GROUPS and 2 * groups * GROUP_ROWS <= min(rows, columns):
        groups *= 2
    return groups


@kernel(inline="always")
def group_of(row: int, turn: int, n_groups: int) -> np.int64:
    """Return the group of a row, for the ``turn`` of the cell's rows of W_in or of W_out: int64."""
    return (np.int64(row) + np.int64(row) // n_groups * turn) & (n_groups - 1)


@kernel
def turns_of(key: np.uint64, n_groups: int) -> tuple[np.int64, np.int64]:
    """Return the turns of a cell's rows of W_in and of W_out, from the cell's key: two int64."""
    last = np.uint64(n_groups - 1)
    return np.int64(draw(key, TURN_IN) & last), np.int64(draw(key, TURN_OUT) & last)


@kernel
def split_cell(pairs: np.ndarray, key: np.uint64, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort the pairs (n,) uint32 of a cell stably by their sub-cells; return them, and the bounds (G * G + 1,) int64.

    ``n_groups`` is a power of two.
    """
    turns = turns_of(key, n_groups)
    bounds = np.zeros(n_groups * n_groups + 1, np.int64)
    for pair in pairs:
        bounds[_sub_cell(pair, turns, n_groups) + 1] += 1
    for s in range(n_groups * n_groups):
        bounds[s + 1] += bounds[s]
    ends = bounds[:-1].copy()
    sorted_pairs = np.empty_like(pairs)
    for pair in pairs:
        s = _sub_cell(pair, turns, n_groups)
        sorted_pairs[ends[s]] = pair
        ends[s] += 1
    return sorted_pairs, bounds


@kernel(inline="always")
def _sub_cell(pair: np.uint32, turns: tuple[int, int], n_groups: int) -> np.int64:
    return group_of(pair >> SHIFT, turns[0], n_groups) * n_groups + group_of(pair & LOW, turns[1], n_groups)


@kernel
def group_negatives(table: np.ndarray, bounds: np.ndarray, options: CellOptions, n_groups: int) -> GroupNegatives:
    """Divide the negatives of a cell: ``table`` (size,) uint16 in ascending order. ``bounds`` are of `split_cell`."""
    turn = turns_of(options.key, n_groups)[1]
    spacing = max(1, len(table) // MOST_ENTRIES)
    first = np.int64(draw(options.key, FIRST_ENTRY) & np.uint64(spacing - 1))
    entries = table[first::spacing]
    size = max(SHARED, len(entries) // n_groups)
    tables = np.empty((n_groups, size), np.uint16)
    weights = np.empty(n_groups)
    heaviest = np.empty(n_groups)
    own = np.empty(len(entries), np.uint16)
    for c in range(n_groups):
        n_contexts = 0
        for a in range(n_groups):
            n_contexts += bounds[a * n_groups + c + 1] - bounds[a * n_groups + c]
        n_own, longest = _select_group(entries, c, turn, n_groups, own)
        if n_own == 0:
            # None of the group's words is ever drawn. A row of the group stands for them, almost without weight.
            tables[c] = c
            weights[c] = NO_WEIGHT
            heaviest[c] = 1.0
            continue
        for e in range(size):
            tables[c, e] = own[(2 * e + 1) * n_own // (2 * size)]
        weights[c] = options.weight * (n_own / len(entries)) * (bounds[-1] / max(1, n_contexts))
        heaviest[c] = longest / n_own
    return GroupNegatives(tables, weights, heaviest)


@kernel
def _select_group(table: np.ndarray, c: int, turn: int, n_groups: int, own: np.ndarray) -> tuple[int, int]:
    """Write the entries of group c to ``own``; return how many there are, and how often the commonest occurs."""
    n_own = 0
    longest = 0
    first = 0
    for row in table:
        if group_of(row, turn, n_groups) == c:
            if n_own == 0 or own[n_own - 1] != row:
                first = n_own
            own[n_own] = row
            n_own += 1
            longest = max(longest, n_own - first)
    return n_own, longest


@kernel(inline="always")
def options_of_sub_cell(
    options: CellOptions, negatives: GroupNegatives, bounds: np.ndarray, diagonal: int, row: int, column: int
) -> CellOptions:
    """Return the options of a sub-cell, given its row, its column and the number of its diagonal.

    ``options`` are those of the cell, and ``bounds`` (G * G + 1,) int64 those of `split_cell`.
    """
    n_groups = len(negatives.weights)
    number = row * n_groups + column
    n_own = bounds[number + 1] - bounds[number]
    fall = options.slope * bounds[n_groups * n_groups] / n_groups  # of the learning rate, in each diagonal
    return CellOptions(
        options.negative,
        negatives.weights[column],
        negatives.heaviest[column],
        options.alpha - fall * diagonal,
        fall / max(1, n_own),
        options.min_alpha,
        draw(options.key, number),
    )
