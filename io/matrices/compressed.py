"""Matrices whose arrays are in an HDF5 file or a Zarr store: sparse by row, sparse by column, and dense."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ..errors import DataError
from .blocks import BLOCK_NUMBERS, Block, RowBlocks, check_pointers, checked_rows, cut_rows, native, native_type
from .transposition import Entries, transposed

#: An array of h5py or Zarr: it has a shape and a dtype, and slices are NumPy arrays.
StoredArray = Any


class CompressedMatrix(RowBlocks):
    """A stored sparse matrix in one of the two compressed layouts: by rows (CSR) or by columns (CSC)."""

    #: Which axis ``indptr`` cuts: 0 for rows, 1 for columns.
    axis: ClassVar[int]

    def __init__(
        self,
        where: str,
        shape: tuple[int, int],
        row_names: pa.Array | None,
        column_names: list[str] | None,
        arrays: tuple[StoredArray, StoredArray, StoredArray],
    ):
        """``arrays`` are data, indices and indptr."""
        super().__init__(where, shape, row_names, column_names)
        self._data, self._indices, indptr = arrays
        self._indptr = np.asarray(indptr[:], np.int64)
        check_pointers(self._indptr, shape[self.axis], self._data.shape[0], self._indices.shape[0], where)


class SparseByRow(CompressedMatrix):
    """A matrix in CSR form."""

    axis = 0

    def blocks(self, first: int = 0, stop: int | None = None, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield the rows."""
        stop = self.shape[0] if stop is None else stop
        for start, end in cut_rows(self._indptr, first, stop, numbers):
            entries = slice(int(self._indptr[start]), int(self._indptr[end]))
            indptr = self._indptr[start : end + 1] - self._indptr[start]
            yield checked_rows(native(self._data[entries]), self._indices[entries], indptr, self, start)

    def ranges(self, numbers: int) -> list[tuple[int, int]]:
        """Return ranges of rows that have about ``numbers`` stored numbers."""
        return list(cut_rows(self._indptr, 0, self.shape[0], numbers))


class SparseByColumn(CompressedMatrix):
    """A matrix in CSC form, which is transposed through temporary files."""

    axis = 1

    def blocks(self, first: int = 0, stop: int | None = None, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield all rows; a range of them cannot be read alone."""
        n_entries = int(self._indptr[-1])
        return transposed(self._entries(), n_entries, self, native_type(self._data.dtype), max(1, numbers))

    def _entries(self) -> Iterator[Entries]:
        for start in range(0, int(self._indptr[-1]), BLOCK_NUMBERS):
            entries = slice(start, start + BLOCK_NUMBERS)
            rows = self._indices[entries]
            if not 0 <= int(rows.min()) <= int(rows.max()) < self.shape[0]:
                raise DataError(f"{self.where}: an index is not in 0..{self.shape[0] - 1}; write the matrix again")
            columns = np.searchsorted(self._indptr, np.arange(start, start + len(rows)), side="right") - 1
            yield Entries(rows, columns, native(self._data[entries]))


class Dense(RowBlocks):
    """A dense matrix."""

    def __init__(self, where: str, array: StoredArray, row_names: pa.Array | None, column_names: list[str] | None):
        if len(array.shape) != 2:
            raise DataError(f"{where}: an array of shape {tuple(array.shape)}, where a matrix is needed")
        super().__init__(where, (int(array.shape[0]), int(array.shape[1])), row_names, column_names)
        self._array = array

    def blocks(self, first: int = 0, stop: int | None = None, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield the rows."""
        stop = self.shape[0] if stop is None else stop
        step = max(1, numbers // max(1, self.shape[1]))
        for start in range(first, stop, step):
            yield native(np.asarray(self._array[start : min(stop, start + step)]))

    def ranges(self, numbers: int) -> list[tuple[int, int]]:
        """Return ranges of rows that have about ``numbers`` numbers."""
        step = max(1, numbers // max(1, self.shape[1]))
        return [(start, min(self.shape[0], start + step)) for start in range(0, self.shape[0], step)]
