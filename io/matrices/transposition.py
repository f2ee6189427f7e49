"""Sorts the entries of a sparse matrix that does not fit in memory into rows.

The entries are distributed to files by their row, so that each file has the entries of consecutive rows. One file
after another is then read and sorted.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from ..stores.filesystems import naming_full_disk
from .blocks import RowBlocks, check_duplicates

#: Entries that are sorted in memory at a time, about: 4 Mi take 300 MiB.
BUCKET_ENTRIES = 1 << 22
#: Most files that are open at a time. A bucket that is still too large is distributed again.
MAX_BUCKETS = 256


class Entries(NamedTuple):
    """Entries of a sparse matrix, in any order. n entries."""

    rows: np.ndarray  # (n,) integers
    columns: np.ndarray  # (n,) integers
    values: np.ndarray  # (n,) numbers


def transposed(
    entries: Iterable[Entries],
    n_entries: int,
    source: RowBlocks,
    value_type: npt.DTypeLike,
    bucket_entries: int = BUCKET_ENTRIES,
) -> "Iterator[scipy.sparse.csr_matrix]":
    """Yield all rows of ``source`` as `sorted_rows` does. Raises DataError if an entry occurs twice."""
    first = 0
    for block in sorted_rows(entries, n_entries, source.shape, value_type, bucket_entries):
        check_duplicates(block, source, first)
        yield block
        first += block.shape[0]


def sorted_rows(
    entries: Iterable[Entries],
    n_entries: int,
    shape: tuple[int, int],
    value_type: npt.DTypeLike,
    bucket_entries: int = BUCKET_ENTRIES,
) -> "Iterator[scipy.sparse.csr_matrix]":
    """Yield all rows of a matrix in order, in blocks of about ``bucket_entries`` entries with ascending columns.

    ``entries`` are all entries, about ``n_entries`` of them. Values are stored as ``value_type``. Entries that occur
    more than once stay apart.
    """
    record = np.dtype([("row", "<u4"), ("column", "<u4"), ("value", value_type)])
    with tempfile.TemporaryDirectory(prefix="corpusmill-entries-") as folder, naming_full_disk(Path(folder)):
        buckets = _Buckets(shape[1], record, bucket_entries)
        yield from buckets.rows(entries, n_entries, (0, shape[0]), Path(folder))


@dataclass(frozen=True)
class _Buckets:
    """What the reader of each bucket needs: the width of the matrix, the form of an entry, the size of a bucket."""

    n_columns: int
    record: np.dtype  # fields row, column and value
    bucket_entries: int

    def rows(
        self, entries: Iterable[Entries], n_entries: int, rows: tuple[int, int], folder: Path
    ) -> "Iterator[scipy.sparse.csr_matrix]":
        """Distribute the entries of a range of rows to files, then yield the rows of each file."""
        first, stop = rows
        n_buckets = max(1, min(MAX_BUCKETS, stop - first, -(-n_entries // self.bucket_entries)))
        bounds = np.linspace(first, stop, n_buckets + 1).astype(np.int64)
        folder.mkdir(exist_ok=True)
        sizes = self._write_buckets(entries, bounds, folder)
        for bucket, size in enumerate(sizes):
            path = folder / str(bucket)
            own = (int(bounds[bucket]), int(bounds[bucket + 1]))
            # The number of entries was a guess, or they are concentrated in few rows. Divide this range again.
            if size > 2 * self.bucket_entries and own[1] - own[0] > 1:
                yield from self.rows(self._read_parts(path), size, own, folder / f"{bucket}-parts")
            else:
                yield self._sorted_rows(np.fromfile(path, self.record), own)
            path.unlink()

    def _write_buckets(self, entries: Iterable[Entries], bounds: np.ndarray, folder: Path) -> list[int]:
        """Append each entry to the file of its bucket; return the number of entries of each."""
        n_buckets = len(bounds) - 1
        sizes = np.zeros(n_buckets, np.int64)
        with ExitStack() as stack:
            files = [stack.enter_context((folder / str(bucket)).open("wb")) for bucket in range(n_buckets)]
            for part in entries:
                buckets = np.searchsorted(bounds[1:-1], part.rows, side="right").astype(np.uint8)
                # NumPy sorts bytes by their value in linear time.
                order = np.argsort(buckets, kind="stable")
                cuts = np.append(0, np.cumsum(np.bincount(buckets, minlength=n_buckets)))
                records = self._records(part)[order]
                for bucket in np.flatnonzero(np.diff(cuts)):
                    # Not by tofile, whose error does not say that the disk is full.
                    files[bucket].write(records[cuts[bucket] : cuts[bucket + 1]].tobytes())
                sizes += np.diff(cuts)
        return sizes.tolist()

    def _records(self, part: Entries) -> np.ndarray:
        records = np.empty(len(part.rows), self.record)
        records["row"] = part.rows
        records["column"] = part.columns
        records["value"] = part.values
        return records

    def _read_parts(self, path: Path) -> Iterator[Entries]:
        with path.open("rb") as file:
            while True:
                records = np.fromfile(file, self.record, self.bucket_entries)
                if not len(records):
                    return
                yield Entries(records["row"], records["column"], records["value"])

    def _sorted_rows(self, records: np.ndarray, rows: tuple[int, int]) -> "scipy.sparse.csr_matrix":
        """Return the rows ``rows[0]:rows[1]`` from their entries."""
        first, stop = rows
        # SciPy's conversion of one long row to columns is a counting sort by column, which compares nothing.
        positions = np.arange(len(records), dtype=np.int32)
        keys = (records["row"] - np.uint32(first)).astype(np.int32)
        by_row = scipy.sparse.csr_matrix((positions, keys, [0, len(records)]), shape=(1, stop - first)).tocsc()
        values = records["value"][by_row.data]
        columns = records["column"][by_row.data].astype(np.int32)
        block = scipy.sparse.csr_matrix((values, columns, by_row.indptr), shape=(stop - first, self.n_columns))
        block.sort_indices()
        return block
