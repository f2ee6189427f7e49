"""Cut the pairs of a cell into runs of one centre, for cells.py.

Layout: pairs as in pairs.py, sorted by centre. A run is an int64: first pair << 4 | REPEATED | number of pairs.

Reference implementation: tests/helpers/naive_cells.py, `runs_of` and `stride_of`.
"""

import numpy as np

from ..jit import kernel
from .pairs import SHIFT

#: Runs of a batch.
RUNS = 16
#: The bits of a run that have its number of pairs.
PAIRS = 7
#: The bit of a run that is set if its centre has other runs.
REPEATED = 8
#: Distance of consecutive runs in the order of training, divided by the number of runs: the golden section.
STRIDE = 0.618


@kernel
def find_runs(pairs: np.ndarray, runs: np.ndarray, size: int) -> tuple[int, np.ndarray]:
    """Cut pairs (n,) uint32 into runs of up to ``size``; return their number, and heavy centres' bounds: (2 h,) int64.

    ``runs`` (n,) int64 is written. Heavy centres have no runs; their bounds are first and last + 1 pairs.
    """
    # Numba would compile `_remove_heavy` once more for a constant 0.
    n_runs = np.int64(0)
    first = 0
    for last in range(1, len(pairs) + 1):
        if last == len(pairs) or pairs[last] >> SHIFT != pairs[first] >> SHIFT:
            repeated = REPEATED if last - first > size else 0
            for p in range(first, last, size):
                runs[n_runs] = p << 4 | repeated | min(size, last - p)
                n_runs += 1
            first = last
    return _remove_heavy(pairs, runs, n_runs)


@kernel
def _remove_heavy(pairs: np.ndarray, runs: np.ndarray, n_runs: int) -> tuple[int, np.ndarray]:
    """Remove the runs of heavy centres. Return how many are left, and the bounds of heavy centres: (2 h,) int64.

    A centre is heavy if it has more than one run per batch, spread evenly.
    """
    most = max(2, n_runs // RUNS)
    heavy = np.empty(2 * (n_runs // (most + 1)), np.int64)
    n_heavy = 0
    left = 0
    r = 0
    while r < n_runs:
        end = r + 1
        if runs[r] & REPEATED:
            centre = pairs[runs[r] >> 4] >> SHIFT
            while end < n_runs and pairs[runs[end] >> 4] >> SHIFT == centre:
                end += 1
        if end - r > most:
            heavy[n_heavy] = runs[r] >> 4
            heavy[n_heavy + 1] = (runs[end - 1] >> 4) + (runs[end - 1] & PAIRS)
            n_heavy += 2
        else:
            for k in range(r, end):
                runs[left] = runs[k]
                left += 1
        r = end
    return left, heavy[:n_heavy]


@kernel
def stride_of(n: int) -> int:
    """Return a number near the golden section of n without a common divisor with n: int64."""
    stride = max(1, int(STRIDE * n))
    while True:
        a = stride
        b = n
        while b:
            a, b = b, a % b
        if a <= 1:
            return stride
        stride += 1
