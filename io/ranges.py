"""Consecutive ranges of documents, rows or nodes, of bounded size."""

from collections.abc import Iterator

import numpy as np


def bounded_ranges(
    sizes_before: np.ndarray, most: int, first: int = 0, stop: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of ranges whose items have a size of at most ``most`` together.

    A larger item is a range of its own. ``sizes_before`` (n + 1,) has the size of all items before each item, and the
    ranges are those of the items ``first`` to ``stop - 1``, by default of all.
    """
    if stop is None:
        stop = len(sizes_before) - 1
    while first < stop:
        # In Python's integers: SciPy counts in 32 bits, which would overflow.
        limit = int(sizes_before[first]) + most
        fitting = int(np.searchsorted(sizes_before, limit, side="right")) - 1
        end = min(stop, max(first + 1, fitting))
        yield first, end
        first = end
