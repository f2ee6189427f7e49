"""The deltas of random indexing, and how they are added.

Every delta has ``rows`` (n,) uint32, the rows of the block whose words occur in its chunks. Later epochs add ``sums``
(n, D) float32, one for each of these rows. In the first epoch there are

    statistics    (n, 3) int64, of each row
    sums          (P, D) int16, int32 or, after a merge, int32: sums of frequent words
    sum_rows      (P,) uint32: the row of each sum. Rows may repeat before a merge.
    contexts      (m, J) uint32: neighbours of occurrences of rare words, which are summed after the last chunk
    context_rows  (m,) uint32: the row of each context
    salt          () uint64: the key of the seeds

A CUDA device sums all rows, so its deltas have ``sums`` (n, D) int32 of ``rows``, and none of the last four arrays.
They stay on the device, where they are added. Workers with and without a device may train one model, so deltas of both
kinds are added, too, on the host.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from ....io.errors import DataError
from ....io.stores.store import Arrays
from ....kernels.cuda.residents import RESIDENTS
from ....kernels.random_indexing.rows import add_exactly
from ....kernels.random_indexing.rows import sum_at as sum_on_host
from ...engine.algorithm import Merge
from ...engine.device import kernels

#: Some rows of a sum: their positions, and the rows (n, columns).
Part = tuple[np.ndarray, np.ndarray]
#: The array that has the row of each entry of another array. That of the others is ``rows``.
ROWS_OF = {"sums": "sum_rows", "sum_rows": "sum_rows", "contexts": "context_rows", "context_rows": "context_rows"}
#: Sums rows at their positions; see `rows.sum_at`.
SumAt = Callable[[int, Sequence[Part]], np.ndarray]


@dataclass(frozen=True)
class RowSums(Merge):
    """Adds the rows of words: on a CUDA device if some of them are there. Raises DataError beyond 32 bits."""

    device: str

    def add(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Add each row of the sum in one pass. If possible, add to a delta that has all rows."""
        if len(deltas) == 1:
            return deltas[0]
        rows = _union([delta["rows"] for delta in deltas])
        result: Arrays = {"rows": rows}
        if "statistics" in deltas[0]:
            # Statistics are small, and always on the host.
            statistics = [(_positions(rows, delta["rows"]), delta["statistics"]) for delta in deltas]
            result["statistics"] = add_checked(sum_on_host, len(rows), statistics)
        listed = [delta for delta in deltas if "contexts" in delta]
        if not listed:
            result["sums"] = add_checked(self.sum_at, len(rows), _sums_at(deltas, rows))
            return result
        RESIDENTS.bring_back(delta["sums"] for delta in deltas)
        result["sum_rows"] = _union([rows_of_sums(delta) for delta in deltas])
        result["sums"] = _add_sums(deltas, result["sum_rows"], may_overwrite)
        for name in ("contexts", "context_rows"):
            result[name] = np.concatenate([delta[name] for delta in listed])
        result["salt"] = listed[0]["salt"]
        return result

    def exact_bytes(self, step: int) -> int | None:
        """Return 0 in the first epoch, whose sums of sparse seeds are integers.

        Deltas wait until they are as large as their sum, which is then read once for all of them.
        """
        return 0 if step == 1 else None

    @property
    def sum_at(self) -> SumAt:
        """The function that adds rows."""
        return kernels("random_indexing.accumulate", self.device).sum_at


def cut_delta(delta: Arrays, bounds: Sequence[int]) -> list[Arrays]:
    """Return the deltas of consecutive blocks, as views of one delta that has the rows of all of them.

    ``bounds`` has the first row of each block, followed by the end of the last one. The rows of ``delta`` ascend.
    """
    blocks: list[Arrays] = [{} for _ in bounds[1:]]
    for name, array in delta.items():
        if name == "salt":
            for block in blocks:
                block[name] = array
            continue
        rows_name = ROWS_OF.get(name, "rows")
        rows = delta[rows_name if rows_name in delta else "rows"]
        cuts = pairwise(np.searchsorted(rows, np.array(bounds, np.uint32)))
        for block, first, (lo, hi) in zip(blocks, bounds[:-1], cuts, strict=True):
            block[name] = array[lo:hi] - np.uint32(first) if array is rows else array[lo:hi]
    return blocks


def rows_of_sums(delta: Arrays) -> np.ndarray:
    """Return the row of each sum."""
    if "sum_rows" in delta:
        return delta["sum_rows"]
    return delta["rows"]


def add_checked(sum_at: SumAt, n_rows: int, parts: Sequence[Part]) -> np.ndarray:
    """Add rows with this function; raise DataError if a sum exceeds 32 bits."""
    try:
        return sum_at(n_rows, parts)
    except OverflowError as error:
        raise DataError(str(error)) from None


def _union(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the distinct rows of several arrays, ascending."""
    return reduce(np.union1d, arrays)


def _sums_at(deltas: Sequence[Arrays], rows: np.ndarray) -> list[Part]:
    """Return the sums of each delta, with the positions of their rows among ``rows``."""
    return [(_positions(rows, rows_of_sums(delta)), delta["sums"]) for delta in deltas]


def _positions(rows: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return the positions of some of the rows: int64."""
    return np.asarray(np.searchsorted(rows, some))


def _add_sums(deltas: Sequence[Arrays], rows: np.ndarray, may_overwrite: bool) -> np.ndarray:
    """Add the sums of frequent words: (rows, D) int32.

    After a few chunks, the sum of some deltas has all frequent words. The others are added to it, because a new array
    would take as long as reading and writing many of them.
    """
    parts = _sums_at(deltas, rows)
    complete = next((index for index, delta in enumerate(deltas) if _can_take(delta, rows)), None)
    if complete is None or not may_overwrite:
        return add_checked(sum_on_host, len(rows), parts)
    _, sums = parts.pop(complete)
    try:
        for positions, others in parts:
            add_exactly(sums, positions, others)
    except OverflowError as error:
        raise DataError(str(error)) from None
    return sums


def _can_take(delta: Arrays, rows: np.ndarray) -> bool:
    """Return whether the sums of other deltas can be added to those of this one, which then has all ``rows``."""
    sums = delta["sums"]
    return sums.dtype == np.int32 and sums.flags.writeable and np.array_equal(rows_of_sums(delta), rows)
