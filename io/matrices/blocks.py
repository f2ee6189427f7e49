"""The base class of matrices that are read as blocks of rows, and checks of their entries."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import scipy

from ..errors import DataError
from ..ranges import bounded_ranges
from ..stores.matrix import first_marked_entry

#: Most stored numbers of a block, about. A longer row is a block of its own.
BLOCK_NUMBERS = 1 << 21

#: Some rows of a matrix: a SciPy CSR matrix with ascending columns in each row, or a NumPy array (rows, columns). SciPy
#: has no type annotations.
Block = Any


class RowBlocks(ABC):
    """A matrix of D rows and V columns that is read as blocks of rows.

    ``where`` names the matrix in messages, such as "cells.h5ad, X". ``row_names`` (D,) large_string and
    ``column_names`` (V) are None if there are none. Raises DataError for another number of names.
    """

    #: Advice for a matrix whose entries are not counts, such as the names of the file's layers.
    advice: str = "pass the matrix of counts"

    def __init__(self, where: str, shape: tuple[int, int], row_names: pa.Array | None, column_names: list[str] | None):
        self.where = where
        self.shape = shape
        self.row_names = row_names
        self.column_names = column_names
        for axis, names, length in (("row", row_names, shape[0]), ("column", column_names, shape[1])):
            if names is not None and len(names) != length:
                raise DataError(f"{where}: {length:,} {axis}s, but {len(names):,} names of {axis}s; give one for each")

    @abstractmethod
    def blocks(self, first: int = 0, stop: int | None = None, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield the rows ``first:stop`` in order, in blocks of at most about ``numbers`` stored numbers."""

    def ranges(self, numbers: int) -> list[tuple[int, int]]:
        """Return ranges of rows with about ``numbers`` stored numbers, each of which can be read alone."""
        return [(0, self.shape[0])]

    def name_of_row(self, row: int) -> str:
        """Return how a message names a row."""
        if self.row_names is None:
            return f"row {row}"
        return f"row {row} ({self.row_names[row].as_py()!r})"

    def name_of_column(self, column: int) -> str:
        """Return what messages call a column: its number and, if it has one, its name."""
        if self.column_names is None:
            return f"column {column}"
        return f"column {column} ({self.column_names[column]!r})"


class SelectedColumns(RowBlocks):
    """Some columns of another matrix."""

    def __init__(self, source: RowBlocks, columns: np.ndarray):
        names = source.column_names
        chosen = None if names is None else [names[column] for column in columns]
        super().__init__(source.where, (source.shape[0], len(columns)), source.row_names, chosen)
        self.source = source
        self.columns = columns
        self.advice = source.advice

    def blocks(self, first: int = 0, stop: int | None = None, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield the selected columns of the rows."""
        for block in self.source.blocks(first, stop, numbers):
            yield block[:, self.columns]

    def ranges(self, numbers: int) -> list[tuple[int, int]]:
        """Return the ranges of the other matrix."""
        return self.source.ranges(numbers)


class KnownEntries(RowBlocks):
    """The same matrix in sparse form, without its entries that are NaN. Zeros of dense rows are stored."""

    def __init__(self, source: RowBlocks):
        super().__init__(source.where, source.shape, source.row_names, source.column_names)
        self.source = source
        self.advice = source.advice

    def blocks(self, first: int = 0, stop: int | None = None, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield the rows."""
        return map(known_entries, self.source.blocks(first, stop, numbers))


def known_entries(rows: Block | RowBlocks) -> Block | RowBlocks:
    """Return rows in sparse form, without their entries that are NaN. Zeros of dense rows are stored."""
    if isinstance(rows, RowBlocks):
        return KnownEntries(rows)
    if scipy.sparse.issparse(rows):
        rows = rows.tocoo()
        known = ~np.isnan(rows.data)
        return scipy.sparse.csr_matrix((rows.data[known], (rows.row[known], rows.col[known])), rows.shape)
    known = np.nonzero(~np.isnan(rows))
    return scipy.sparse.csr_matrix((rows[known], known), rows.shape)


# --- rows that are stored in compressed form ---


def check_pointers(indptr: np.ndarray, n_rows: int, n_entries: int, n_indices: int, where: str) -> None:
    """Raise DataError unless ``indptr`` (n_rows + 1,) cuts the entries of a compressed matrix into rows."""
    problem = ""
    if len(indptr) != n_rows + 1:
        problem = f"it has {len(indptr):,} entries, not {n_rows + 1:,}"
    elif indptr[0] != 0 or (np.diff(indptr) < 0).any():
        problem = "it does not ascend from 0"
    elif n_entries != n_indices or indptr[-1] != n_entries:
        problem = f"it ends at {indptr[-1]:,}, but there are {n_entries:,} entries and {n_indices:,} indices"
    if problem:
        raise DataError(f"{where}: indptr is inconsistent: {problem}; write the matrix again")


def checked_rows(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, source: RowBlocks, first: int) -> Block:
    """Return rows of ``source`` from row ``first`` on, with ascending columns.

    ``data`` and ``indices`` (n,) are the entries of the rows, and ``indptr`` (rows + 1,) begins with 0. Raises
    DataError for columns out of range and for entries that occur twice. Columns in another order are sorted, because
    the files of 10x Genomics store them so.
    """
    n_columns = source.shape[1]
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < n_columns:
        raise DataError(f"{source.where}: an index is not in 0..{n_columns - 1}; write the matrix again")
    shape = (len(indptr) - 1, n_columns)
    block = scipy.sparse.csr_matrix((data, indices, indptr), shape=shape, copy=False)
    block.sort_indices()
    check_duplicates(block, source, first)
    return block


def check_duplicates(block: "scipy.sparse.csr_matrix", source: RowBlocks, first: int) -> None:
    """Raise DataError if an entry of rows with sorted columns occurs twice."""
    is_repeated = np.diff(block.indices) == 0
    starts = block.indptr[1:-1]
    # The last entry of a row and the first one of the next row may have the same column.
    is_repeated[starts[(starts > 0) & (starts <= len(is_repeated))] - 1] = False
    if is_repeated.any():
        row, column, _ = first_marked_entry(block, is_repeated)
        raise DataError(
            f"{source.where}: {source.name_of_row(first + row)} has two entries in {source.name_of_column(column)}; "
            f"add them up with sum_duplicates() and write the matrix again"
        )


def cut_rows(numbers_before: np.ndarray, first: int, stop: int, numbers: int) -> Iterator[tuple[int, int]]:
    """Cut ``first:stop`` into ranges of at most ``numbers`` stored numbers.

    A longer row is a range of its own. ``numbers_before`` (D + 1,) has the stored numbers before each row.
    """
    # Each row counts one number more than it has, so that a range of empty rows is bounded too.
    return bounded_ranges(numbers_before + np.arange(len(numbers_before)), numbers, first, stop)


# --- what the entries are ---


def native(values: Any) -> Any:
    """Return numbers of NumPy or SciPy in a type of SciPy's sparse matrices: bytes in native order, no half precision.

    Files in HDF5 and FITS may have other ones.
    """
    kind = native_type(values.dtype)
    return values if kind == values.dtype and values.dtype.isnative else values.astype(kind)


def native_type(kind: np.dtype) -> np.dtype:
    """Return the type in which `native` has numbers of this type."""
    return np.dtype(np.float32) if kind.kind == "f" and kind.itemsize == 2 else kind.newbyteorder("=")


def whole_counts(block: "scipy.sparse.csr_matrix", source: RowBlocks, first: int, binarize: bool) -> np.ndarray:
    """Return the entries of rows as int64; raise DataError for one that is not 0, 1, 2 and so on.

    With ``binarize``, every entry above 0 counts 1.
    """
    check_not_negative(block, source, first)
    if binarize:
        return (block.data > 0).astype(np.int64)
    is_fraction = block.data % 1 != 0
    if is_fraction.any():
        place, value = _first_marked(block, is_fraction, source, first)
        raise DataError(
            f"{source.where}: {place} is {value}, which is not a count (0, 1, 2, ...): the matrix is normalised; "
            f"{source.advice}"
        )
    return block.data.astype(np.int64)


def check_not_negative(block: Block, source: RowBlocks, first: int) -> None:
    """Raise DataError for an entry that is negative or not finite. ``first`` is the number of the first row."""
    entries = block.data if scipy.sparse.issparse(block) else block
    if entries.dtype.kind in "bu":
        return
    is_bad = ~(np.isfinite(entries) & (entries >= 0))
    if is_bad.any():
        place, value = _first_marked(block, is_bad, source, first)
        reason = "the matrix is scaled or centred" if value < 0 else "entries must be finite"
        raise DataError(f"{source.where}: {place} is {value}: {reason}; {source.advice}")


def _first_marked(block: Block, is_marked: np.ndarray, source: RowBlocks, first: int) -> tuple[str, float]:
    """Return how a message names the first entry that ``is_marked`` marks, and its value."""
    row, column, value = first_marked_entry(block, is_marked)
    return f"{source.name_of_row(first + row)}, {source.name_of_column(column)}", value
