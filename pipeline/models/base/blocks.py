"""Cuts the rows of a model into blocks of consecutive rows.

The result is the field ``bounds`` of an algorithm: the first row of each block, followed by the number of rows. There
are never more blocks than rows.
"""

from itertools import pairwise

import numpy as np


def equal_blocks(n_rows: int, n_blocks: int) -> tuple[int, ...]:
    """Return the bounds of blocks with about the same number of rows."""
    bounds = np.linspace(0, n_rows, min(n_blocks, n_rows) + 1)
    return tuple(int(bound) for bound in bounds)


def cut_equally(bounds: tuple[int, ...], n_parts: int) -> tuple[int, ...]:
    """Return the bounds of blocks of which each was cut into ``n_parts``, with about the same number of rows."""
    starts = [first + part * (stop - first) // n_parts for first, stop in pairwise(bounds) for part in range(n_parts)]
    return (*starts, bounds[-1])


def cut_blocks(entries: np.ndarray, n_blocks: int) -> tuple[int, ...]:
    """Return the bounds of blocks with about the same number of entries, given those of each row, (V,).

    Use it for a sparse model, in which a few rows have most of the entries.
    """
    n_rows = len(entries)
    n_cuts = min(n_blocks, n_rows) - 1
    # Each row counts as one more entry, because row_ptr needs memory too.
    cumulative = np.cumsum(entries + 1.0)
    targets = cumulative[-1] * np.arange(1, n_cuts + 1) / (n_cuts + 1)
    cuts = np.searchsorted(cumulative, targets) + 1
    # A row with very many entries attracts several cuts, which would leave blocks without a row. First move each cut to
    # the right of the cut before it. The last cuts may then exceed the end, so limit each one such that every block
    # after it has a row.
    order = np.arange(n_cuts)
    cuts = np.maximum.accumulate(cuts - order) + order
    cuts = np.minimum(cuts, n_rows - n_cuts + order)
    return (0, *(int(cut) for cut in cuts), n_rows)
