"""What a CUDA device computes in a cell of strata, on the CPU: one sub-cell after another."""

import numpy as np
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.word2vec.cells import CellOptions, train_cell
from corpusmill.kernels.word2vec.sub_cells import group_negatives, options_of_sub_cell, split_cell


@kernel
def train_sub_cells(
    W_in: np.ndarray, W_out: np.ndarray, pairs: np.ndarray, table: np.ndarray, options: CellOptions, n_groups: int
) -> None:
    """Train a cell on the CPU in the order of ``kernels/cuda/word2vec/cells.py``. Results differ by rounding only."""
    pairs, bounds = split_cell(pairs, options.key, n_groups)
    negatives = group_negatives(table, bounds, options, n_groups)
    for diagonal in range(n_groups):
        for row in range(n_groups):
            column = (row + diagonal) % n_groups
            first = bounds[row * n_groups + column]
            last = bounds[row * n_groups + column + 1]
            if last > first:
                own = options_of_sub_cell(options, negatives, bounds, diagonal, row, column)
                train_cell(W_in, W_out, pairs[first:last], negatives.tables[column], own)
