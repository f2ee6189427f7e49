"""Matrices in memory: their numbers and the names of their columns, or blocks of their rows.

Objects of other libraries are recognised by their attributes, so that none of these libraries is imported.
"""

import copy
import math
from collections.abc import Iterator, Sequence, Sized
from typing import Any

import numpy as np
import pyarrow as pa
import scipy

from ..errors import DataError
from ..messages import listed
from ..stores.matrix import canonical_rows
from .blocks import BLOCK_NUMBERS, Block, RowBlocks, cut_rows, native, native_type
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


def is_array_in_file(data: Any) -> bool:
    """Return whether an object is an array of h5py."""
    return hasattr(data, "shape") and hasattr(data, "dtype") and hasattr(data, "id")


def matrix_of(data: Any, layer: str | None = None) -> tuple[Block | RowBlocks, list[str] | None]:
    """Return a matrix as an array of NumPy or SciPy, or as blocks of rows, and the names of its columns if it has any.

    ``layer`` is that of `annotated_rows`. Raises DataError for data that cannot be numbers, and TypeError if only some
    of the columns of a data frame have names.
    """
    if hasattr(data, "to_dask_array"):
        names = _column_names(data)
        return row_blocks(data.to_dask_array(lengths=True), names, where="X"), names
    if is_annotated(data):
        rows = annotated_rows(data, layer)
        return rows, rows.column_names
    if isinstance(data, RowBlocks):
        return data, data.column_names
    if is_backed(data) or is_dask_array(data) or is_array_in_file(data):
        return row_blocks(data, where="X"), None
    names = None
    if isinstance(data, pa.Table | pa.RecordBatch):
        names = _checked_names(data.schema.names)
        data = _numbers_of_table(data)
    elif hasattr(data, "columns"):
        names = _column_names(data)
        data = data.to_numpy()
    elif isinstance(data, list | tuple):
        _check_lengths(data)
    elif scipy.sparse.issparse(data):
        _check_structure(data)
    if np.ma.is_masked(data):
        # The mask would be lost silently.
        raise DataError(
            f"Input X masks {np.ma.count_masked(data)} of its {np.size(data)} entries, which have no value: pass "
            f"X.filled(0), or leave their rows out"
        )
    values = data if scipy.sparse.issparse(data) else np.asarray(data)
    if values.dtype.kind == "c":
        raise DataError("Complex data not supported: pass real numbers")
    if values.dtype.kind not in "biuf":
        values = _as_numbers(values)
    return native(values), names


def _as_numbers(values: np.ndarray) -> np.ndarray:
    """Return an array of objects as float64, in which missing values of pandas are NaN."""
    try:
        return values.astype(np.float64)
    except TypeError:
        # NumPy does not know the missing value of pandas.
        present = [np.nan if is_missing(value) else value for value in values.ravel()]
        return np.array(present, np.float64).reshape(values.shape)


def is_missing(value: object) -> bool:
    """Return whether a value is None, or how pandas represents a missing value: NaN, NA or NaT."""
    if isinstance(value, str | list):
        return False
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _numbers_of_table(table: pa.Table | pa.RecordBatch) -> np.ndarray:
    """Return the numbers of a table: (rows, columns). Raises DataError for nulls, which are no numbers."""
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if column.null_count:
            raise DataError(f"the column {field.name!r} has {column.null_count} nulls: fill them, for example with 0")
        columns.append(column.to_numpy(zero_copy_only=False))
    return np.column_stack(columns)


def _column_names(frame: Any) -> list[str] | None:
    names = list(frame.columns)
    are_text = [isinstance(name, str) for name in names]
    if all(are_text):
        return _checked_names(names)
    if any(are_text):
        raise TypeError(
            "Feature names are only supported if all input features have string names: the columns of the data frame "
            "are partly strings and partly not"
        )
    return None


def _checked_names(names: list[str]) -> list[str]:
    """Return the names of columns; raise DataError if a name occurs twice."""
    check_unique(pa.array(names, pa.large_string()), "X, columns", "rename or remove it")
    return names


def _check_lengths(rows: Sequence[Any]) -> None:
    """Raise DataError for lists of numbers of different lengths, which may be documents of numbered words."""
    lengths = [len(row) for row in rows if isinstance(row, Sized)]
    for row, length in enumerate(lengths):
        if length != lengths[0]:
            raise DataError(
                f"lists of numbers are the rows of a matrix, and row {row} has the length {length}, but row 0 has "
                f"{lengths[0]}: pass rows of one length, or lists of strings if the numbers are words"
            )


def _check_structure(values: Block) -> None:
    """Raise DataError for a compressed sparse matrix whose arrays contradict each other; kernels would crash."""
    if values.format not in ("csr", "csc"):
        return
    try:
        values.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"X is no valid sparse matrix ({error}): build its indptr, indices and data again") from error


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
    if isinstance(data, RowBlocks):
        if names is None:
            return data
        renamed = copy.copy(data)
        RowBlocks.__init__(renamed, data.where, data.shape, data.row_names, names)
        return renamed
    if is_dask_array(data):
        return DaskRows(data, names, row_names, where)
    if is_backed(data):
        return _backed_rows(data, names, row_names, where)
    if is_array_in_file(data):
        return Dense(where, data, row_names, names)
    return RowsInMemory(data, names, row_names, where)


def _backed_rows(data: Any, names: list[str] | None, row_names: pa.Array | None, where: str) -> RowBlocks:
    group = data.group
    form = SparseByColumn if data.format == "csc" else SparseByRow
    arrays = (group["data"], group["indices"], group["indptr"])
    n_rows, n_columns = data.shape
    return form(where, (int(n_rows), int(n_columns)), row_names, names, arrays)


class RowsInMemory(RowBlocks):
    """A NumPy array or a SciPy matrix. Entries of a sparse matrix that occur twice are added up, as SciPy does."""

    def __init__(self, data: Any, column_names: list[str] | None, row_names: pa.Array | None, where: str):
        self._rows: Block = canonical_rows(native(data)) if scipy.sparse.issparse(data) else native(np.asarray(data))
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
                yield from transposed(self._entries(), n_entries, self, native_type(array.dtype))
                return
            array = array.rechunk({1: -1})
        for index in range(array.numblocks[0]):
            block = array.blocks[index, 0].compute()
            yield scipy.sparse.csr_matrix(native(block)) if scipy.sparse.issparse(block) else native(block)

    def _entries(self) -> Iterator[Entries]:
        row_bounds = np.append(0, np.cumsum(self._array.chunks[0]))
        column_bounds = np.append(0, np.cumsum(self._array.chunks[1]))
        for column in range(self._array.numblocks[1]):
            for row in range(self._array.numblocks[0]):
                block = scipy.sparse.coo_matrix(native(self._array.blocks[row, column].compute()))
                yield Entries(block.row + row_bounds[row], block.col + column_bounds[column], block.data)
