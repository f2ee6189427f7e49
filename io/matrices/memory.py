"""Matrices in memory, or objects of other libraries, as blocks of rows.

Types are recognised by their attributes, so that none of these libraries is imported: AnnData objects, the matrices of
AnnData objects that are backed by a file, and Dask arrays.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import scipy

from ..errors import DataError
from ..messages import listed
from ..stores.matrix import canonical_rows
from .blocks import BLOCK_NUMBERS, Block, RowBlocks, cut_rows
from .compressed import Dense, SparseByColumn, SparseByRow
from .names import check_unique
from .transposition import Entries, transposed

#: Share of the entries of a sparse Dask array that are not zero, as a first guess.
GUESSED_DENSITY = 0.1


def is_annotated(data: Any) -> bool:
    """Return whether an object is an AnnData: a matrix with names of rows and columns."""
    return hasattr(data, "obs_names") and hasattr(data, "var_names") and hasattr(data, "X")


def is_dask_array(data: Any) -> bool:
    """Return whether an object has the attributes of a Dask array. Dask need not be imported for this."""
    return hasattr(data, "dask") and hasattr(data, "chunks") and hasattr(data, "blocks")


def is_backed(data: Any) -> bool:
    """Return whether an object is the sparse matrix of an AnnData that is backed by a file."""
    return hasattr(data, "group") and hasattr(data, "format") and hasattr(data, "shape")


def annotated_rows(adata: Any, layer: str | None = None) -> RowBlocks:
    """Return a matrix of an AnnData object with its names.

    ``layer`` is the name of a layer, "X" (the default) or "raw". Raises DataError for names that occur twice and if
    there is no such layer.
    """
    values, variables = _values_of(adata, layer)
    where = f"adata, {layer or 'X'}"
    row_names = _as_names(adata.obs_names)
    column_names = _as_names(variables)
    check_unique(row_names, f"{where}, obs_names", "call adata.obs_names_make_unique()")
    check_unique(column_names, f"{where}, var_names", "call adata.var_names_make_unique()")
    rows = row_blocks(values, column_names.to_pylist(), row_names, where)
    layers = [name for name in getattr(adata, "layers", {}) if name != layer]
    if layers:
        rows.advice = f"did you mean layer={' or '.join(map(repr, layers))}?"
    return rows


def _values_of(adata: Any, layer: str | None) -> tuple[Any, Any]:
    """Return a matrix and the names of its columns."""
    if layer == "raw":
        if adata.raw is None:
            raise DataError("adata has no raw matrix")
        return adata.raw.X, adata.raw.var_names
    name = None if layer is None else layer.removeprefix("layers/")
    if name is None or name == "X":
        if adata.X is None:
            raise DataError(f"adata.X is None; choose one of its layers: {listed(adata.layers, 'it has none')}")
        return adata.X, adata.var_names
    if name not in adata.layers:
        raise DataError(f"adata has no layer {name!r}; choose one of {listed(['X', *adata.layers])}")
    return adata.layers[name], adata.var_names


def _as_names(index: Any) -> pa.Array:
    return pa.array([str(name) for name in index], pa.large_string())


def row_blocks(
    data: Any,
    column_names: Sequence[str] | None = None,
    row_names: pa.Array | None = None,
    where: str = "matrix",
) -> RowBlocks:
    """Return a NumPy array, a SciPy matrix, a Dask array or a backed matrix as blocks of rows."""
    names = None if column_names is None else list(column_names)
    shape = tuple(np.shape(data))
    if len(shape) != 2:
        raise DataError(f"{where}: an array of shape {shape}, where a matrix with one row per document is needed")
    if names is not None and len(names) != shape[1]:
        raise DataError(
            f"{where}: has {shape[1]:,} columns, but the vocabulary has {len(names):,} words; give one for each column"
        )
    if row_names is not None and len(row_names) != shape[0]:
        raise DataError(
            f"{where}: has {shape[0]:,} rows, but {len(row_names):,} names of rows are given; give one for each row"
        )
    if isinstance(data, RowBlocks):
        return data if names is None else _renamed(data, names)
    if is_dask_array(data):
        return DaskRows(data, names, row_names, where)
    if is_backed(data):
        return _backed_rows(data, names, row_names, where)
    if hasattr(data, "shape") and hasattr(data, "dtype") and hasattr(data, "id"):
        # A dense matrix in a file: an array of h5py.
        return Dense(where, data, row_names, names)
    return RowsInMemory(data, names, row_names, where)


def _renamed(rows: RowBlocks, names: list[str]) -> RowBlocks:
    renamed = copy.copy(rows)
    renamed.column_names = names
    return renamed


def _backed_rows(data: Any, names: list[str] | None, row_names: pa.Array | None, where: str) -> RowBlocks:
    group = data.group
    form = SparseByColumn if data.format == "csc" else SparseByRow
    arrays = (group["data"], group["indices"], group["indptr"])
    n_rows, n_columns = data.shape
    return form(where, (int(n_rows), int(n_columns)), row_names, names, arrays)


class RowsInMemory(RowBlocks):
    """A NumPy array or a SciPy matrix. Entries of a sparse matrix that occur twice are added up, as SciPy does."""

    def __init__(self, data: Any, column_names: list[str] | None, row_names: pa.Array | None, where: str):
        self._rows: Block = canonical_rows(data) if scipy.sparse.issparse(data) else np.asarray(data)
        super().__init__(where, self._rows.shape, row_names, column_names)

    def blocks(self, first: int = 0, stop: int | None = None, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield the rows."""
        stop = self.shape[0] if stop is None else stop
        if scipy.sparse.issparse(self._rows):
            before = self._rows.indptr.astype(np.int64)
        else:
            before = np.arange(self.shape[0] + 1, dtype=np.int64) * self.shape[1]
        for start, end in cut_rows(before, first, stop, numbers):
            yield self._rows[start:end]


class DaskRows(RowBlocks):
    """A Dask array of NumPy or SciPy blocks, which are computed one after another."""

    def __init__(self, array: Any, column_names: list[str] | None, row_names: pa.Array | None, where: str):
        if not all(np.isfinite(length) for length in array.shape):
            raise DataError(
                f"{where}: the numbers of rows of this Dask array's chunks are not known; call "
                f"array.compute_chunk_sizes() first"
            )
        super().__init__(where, (int(array.shape[0]), int(array.shape[1])), row_names, column_names)
        self._array = array

    def blocks(self, first: int = 0, stop: int | None = None, numbers: int = BLOCK_NUMBERS) -> Iterator[Block]:
        """Yield all rows in the blocks of the Dask array; its rows are one range, so the parameters have no effect.

        A sparse array that is cut into columns is transposed through temporary files. A dense one is cut into rows by
        Dask.
        """
        array = self._array
        # A block of the array has only some columns, but rows are needed as a whole.
        if len(array.chunks[1]) > 1:
            if scipy.sparse.issparse(getattr(array, "_meta", None)):
                n_entries = int(GUESSED_DENSITY * self.shape[0] * self.shape[1])
                yield from transposed(self._entries(), n_entries, self, array.dtype)
                return
            array = array.rechunk({1: -1})
        for index in range(array.numblocks[0]):
            block = array.blocks[index, 0].compute()
            yield scipy.sparse.csr_matrix(block) if scipy.sparse.issparse(block) else block

    def _entries(self) -> Iterator[Entries]:
        row_bounds = np.append(0, np.cumsum(self._array.chunks[0]))
        column_bounds = np.append(0, np.cumsum(self._array.chunks[1]))
        for column in range(self._array.numblocks[1]):
            for row in range(self._array.numblocks[0]):
                block = scipy.sparse.coo_matrix(self._array.blocks[row, column].compute())
                yield Entries(block.row + row_bounds[row], block.col + column_bounds[column], block.data)
