"""Works with sparse rows (CSR), whose row i has the entries ``row_ptr[i]`` to ``row_ptr[i + 1] - 1``."""

import numpy as np


def row_of_each_entry(row_ptr: np.ndarray) -> np.ndarray:
    """Return the row that each entry belongs to: (nnz,) int64, for ``row_ptr`` (n + 1,)."""
    return np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
