"""Matrices that users pass to estimators: NumPy, SciPy and Dask arrays, data frames, AnnData, lists of rows.

Messages follow those of scikit-learn, whose users search for them.
"""

import copy
import os
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import scipy

from ....io.errors import DataError
from ....io.extras import needing
from ....io.matrices.blocks import RowBlocks
from ....io.matrices.files import MatrixFile, is_anndata_file
from ....io.matrices.memory import annotated_rows, is_annotated, is_backed, is_dask_array, row_blocks
from ....io.matrices.names import check_unique
from ....io.messages import listed
from ....io.readers.frames import has_numbers_only, is_dask_collection, items_of
from ....io.readers.kept import is_missing
from ....io.stores.matrix import MatrixBlock, first_marked_entry
from ...engine.data import TrainingData


class SupportsArray(Protocol):
    """An array or data frame of NumPy, Dask, pandas or polars."""

    def __array__(self) -> np.ndarray:
        """Return the numbers as a NumPy array."""


class Annotated(Protocol):
    """An AnnData object: a matrix with names of its rows and columns."""

    @property
    def X(self) -> Any:
        """The matrix."""

    @property
    def var_names(self) -> Any:
        """The names of its columns."""


#: A `MatrixBlock`, or `RowBlocks`.
MatrixValues = MatrixBlock | RowBlocks


class InputMatrix(NamedTuple):
    """A matrix whose rows are documents or samples."""

    values: MatrixValues  # (D, V): a NumPy array, a SciPy sparse matrix, or blocks of rows
    names: list[str] | None  # of the columns, if the input has them or the user gives them
    are_given: bool = False  # whether the user gave the names, which further inputs then need not have

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    def renamed(self, names: Sequence[str] | None) -> "InputMatrix":
        """Return the same matrix with other names of columns; raise ValueError if their number is wrong."""
        if names is not None and len(names) != self.n_columns:
            raise ValueError(f"vocabulary has {len(names)} names, but X has {self.n_columns} columns")
        new = None if names is None else list(names)
        values = self.values
        if isinstance(values, RowBlocks):
            values = copy.copy(values)
            values.column_names = new
        return InputMatrix(values, new)


#: A store, or its path or URL.
StoreLike: TypeAlias = TrainingData | str | os.PathLike[str]
#: Documents in memory: strings, or lists of words.
DocumentsLike: TypeAlias = Iterable[str] | Iterable[Sequence[str]]
#: A matrix in memory. Each of its rows is a document or a sample.
MatrixLike: TypeAlias = SupportsArray | Annotated | Sequence[Sequence[float]] | MatrixBlock | InputMatrix
#: What ``fit`` and ``transform`` accept.
DataLike: TypeAlias = StoreLike | DocumentsLike | MatrixLike
#: What ``transform`` returns: a NumPy array with one row per document, or a data frame after ``set_output``.
TransformOutput = Any


def is_matrix(data: DataLike) -> bool:
    """Return whether ``data`` is a matrix or a file of one, and not a store, its URL or documents of text."""
    if is_dask_collection(data):
        return getattr(data, "ndim", 1) == 2
    if scipy.sparse.issparse(data) or _is_frame(data) or _has_blocks(data) or is_anndata_file(data):
        return True
    if isinstance(data, list | tuple):
        return bool(data) and _is_row_of_numbers(data[0])
    if _is_arrow(data):
        return _is_table_of_numbers(data)
    return hasattr(data, "__array__") and not _holds_text(data)


def is_documents(data: DataLike) -> bool:
    """Return whether ``data`` is documents in memory, and not a store, a URL or a matrix."""
    if isinstance(data, str | bytes | os.PathLike) or hasattr(data, "chunks"):
        return False
    return isinstance(data, Iterable) and not is_matrix(data)


def read_matrix(data: Any, caller: str) -> InputMatrix:
    """Return the matrix in ``data`` after checking that it is two-dimensional, real, finite and non-negative.

    Raises ValueError, or TypeError for entries that are not numbers. ``caller`` names the estimator in messages.
    """
    names = None
    if is_dask_collection(data):
        names = _column_names(data)
        if not has_numbers_only(data):
            raise ValueError(
                f"{caller} takes numbers from data frames, and a column of this one holds something else: pass the "
                f"column of text alone"
            )
        return InputMatrix(row_blocks(data.to_dask_array(lengths=True), names, where="X"), names)
    if _is_frame(data):
        names = _column_names(data)
        _check_frame(data, caller)
        data = data.to_numpy()
    if _is_table_of_numbers(data):
        names = _checked_names(data.schema.names)
        data = _table_values(data)
    if is_anndata_file(data):
        data = MatrixFile(data)
    if _has_blocks(data):
        # Entries are checked block by block when they are written to a store.
        rows = annotated_rows(data) if is_annotated(data) else row_blocks(data, where="X")
        _check_shape(rows.shape, caller)
        return InputMatrix(rows, rows.column_names)
    if isinstance(data, list | tuple):
        _check_lengths(data, caller)
    if scipy.sparse.issparse(data):
        _check_structure(data)
    _check_mask(data)
    values = data if scipy.sparse.issparse(data) else np.asarray(data)
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported by {caller}: pass real numbers")
    if values.dtype.kind not in "biuf":
        values = _as_numbers(values)
    if values.dtype == np.float16:
        values = values.astype(np.float32)  # SciPy has no sparse matrices of float16
    _check_shape(values.shape, caller)
    _check_entries(values, caller)
    return InputMatrix(values, names)


def _as_numbers(values: np.ndarray) -> np.ndarray:
    """Return an array of objects as float64, in which missing values of pandas are NaN."""
    try:
        return values.astype(np.float64)
    except TypeError:
        # NumPy does not know the missing value of pandas.
        present = [np.nan if is_missing(value) else value for value in values.ravel()]
        return np.array(present, np.float64).reshape(values.shape)


def read_documents(data: Any, caller: str) -> Iterable[object]:
    """Return the documents in ``data``, which is no matrix. Raises ValueError for what cannot be documents.

    Without this check, a table would be read as one document per column name.
    """
    if isinstance(data, np.ndarray) and data.ndim > 1:
        raise ValueError(
            f"{caller}: X is an array of text of shape {data.shape}: pass X.astype(float) if it holds numbers, or a "
            f"list of strings if it holds documents"
        )
    if isinstance(data, Mapping) or hasattr(data, "column_names"):
        names = list(data if isinstance(data, Mapping) else data.column_names)
        shown = ", ".join(repr(name) for name in names[:5])
        raise ValueError(
            f"{caller} takes documents, not a table with the columns {shown}: pass the column with the text alone"
        )
    if _is_arrow(data) or is_dask_collection(data):
        return items_of(data)
    if isinstance(data, bytes) or not isinstance(data, Iterable):
        raise ValueError(
            f"{caller} takes documents (strings or lists of words), a matrix, a store or its path, "
            f"not {type(data).__name__}"
        )
    return data


def is_count(value: object, least: int = 0) -> bool:
    """Return whether a value is an integer of ``least`` or more. True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def check_is_path(data: object, caller: str) -> None:
    """Raise ValueError for a string that is a text: strings are paths and URLs of stores."""
    if not isinstance(data, str) or "://" in data or not any(character.isspace() for character in data):
        return
    try:
        is_path = Path(data).exists()
    except OSError:  # a text may be longer than any path
        is_path = False
    if not is_path:
        raise ValueError(
            f"{data[:40]!r}: nothing is stored at this path. {caller} takes a string for the path of a store: pass "
            f"documents as a list of strings, also a single one"
        )


def named_matrix(matrix: InputMatrix | None, vocabulary: Sequence[str] | None) -> InputMatrix | None:
    """Return the training matrix with the names that the user gives for its columns, if there are any.

    Raises ValueError if there are names but no matrix, or if a name occurs twice.
    """
    if vocabulary is None:
        return matrix
    if matrix is None:
        raise ValueError("vocabulary names the columns of a matrix, but X is no matrix")
    if isinstance(vocabulary, str | Mapping | Set):
        raise ValueError(
            f"vocabulary is a {type(vocabulary).__name__}: pass a list of words, in the order of the columns, such as "
            f"get_feature_names_out() of a CountVectorizer"
        )
    names = [str(name) for name in vocabulary]
    check_unique(pa.array(names, pa.large_string()), "vocabulary", "rename or remove it")
    return matrix.renamed(names)._replace(are_given=True)


def check_same_words(data: Any, held_out: Any) -> None:
    """Raise DataError unless the words of the held-out documents have the same ids in ``data``, which may have more."""
    if held_out is None:
        return
    ours = getattr(data, "vocabulary_hash", None)
    theirs = getattr(held_out, "vocabulary_hash", None)
    if ours == theirs:
        return
    # Words that were added after the held-out documents have higher ids, which do not occur in these documents.
    if ours and theirs and data.vocabulary["word"][: held_out.n_words].equals(held_out.vocabulary["word"]):
        return
    raise DataError(
        f"{held_out.title}: held-out documents have vocabulary {theirs}, but {data.title} has {ours}: ingest both "
        f"together with corpus.held_out, or omit held_out and call score, which looks words up by name"
    )


def in_container(rows: np.ndarray, names: Sequence[str], container: str, X: DataLike) -> TransformOutput:
    """Return rows as an array ("default") or as a data frame of "pandas" or "polars"."""
    if container == "default":
        return rows
    if container == "pandas":
        with needing("pandas", "pandas", 'set_output(transform="pandas")'):
            import pandas

        index = X.index if isinstance(X, pandas.DataFrame | pandas.Series) else _cell_names(X)
        return pandas.DataFrame(rows, columns=list(names), index=index)
    with needing("polars", "polars", 'set_output(transform="polars")'):
        import polars

    return polars.DataFrame(rows, schema=list(names), orient="row")


def _cell_names(data: DataLike) -> Sequence[str] | None:
    """Return the names of the rows of an AnnData object or of a file of one; None for other data."""
    if not is_anndata_file(data):
        return getattr(data, "obs_names", None)
    names = MatrixFile(data).row_names
    return None if names is None else names.to_pylist()


def _has_blocks(data: DataLike) -> bool:
    """Return whether rows are read block by block: AnnData, its backed matrices, Dask arrays."""
    return isinstance(data, RowBlocks) or is_annotated(data) or is_backed(data) or is_dask_array(data)


def _is_arrow(data: DataLike) -> bool:
    return hasattr(data, "to_pylist")


def _is_frame(data: DataLike) -> bool:
    return hasattr(data, "columns") and hasattr(data, "to_numpy")


def _is_row_of_numbers(row: object) -> bool:
    if isinstance(row, np.ndarray):
        return row.ndim == 1 and row.dtype.kind in "biufcO"
    return isinstance(row, list | tuple) and len(row) > 0 and isinstance(row[0], int | float | complex | np.number)


def _holds_text(data: DataLike) -> bool:
    """Return whether an array is one-dimensional and holds strings: such an array is a sequence of documents."""
    array = np.asarray(data)
    if array.dtype.kind in "US":
        return True
    if array.dtype.kind != "O" or array.ndim != 1:
        return False
    # The first documents may be missing: None, NaN or NA.
    return any(isinstance(document, str | list) for document in array)


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


def _check_frame(frame: Any, caller: str) -> None:
    """Raise ValueError for a data frame with text. Which of its columns has the documents is not known."""
    with_text = []
    for name in frame.columns:
        column = frame[name].to_numpy()
        if column.dtype.kind in "OUST" and len(column) and isinstance(column[0], str):
            with_text.append(str(name))
    if with_text:
        raise ValueError(
            f"{caller} takes numbers from data frames, and this one has text (columns: {listed(with_text)}): pass the "
            f"column of the documents alone, frame[NAME], or ingest(frame, FOLDER, text=NAME)"
        )


def _is_table_of_numbers(data: DataLike) -> bool:
    """Return whether ``data`` is an Arrow table of which all columns are numbers."""
    return isinstance(data, pa.Table | pa.RecordBatch) and data.num_columns > 0 and has_numbers_only(data)


def _table_values(table: pa.Table | pa.RecordBatch) -> np.ndarray:
    """Return the numbers of a table: (rows, columns). Raises ValueError for nulls, which are no numbers."""
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if column.null_count:
            raise ValueError(f"the column {field.name!r} has {column.null_count} nulls: fill them, for example with 0")
        columns.append(column.to_numpy(zero_copy_only=False))
    return np.column_stack(columns)


def _check_lengths(rows: Sequence[Any], caller: str) -> None:
    """Raise ValueError for lists of numbers of different lengths, which may be documents of numbered words."""
    lengths = [len(row) for row in rows if isinstance(row, Sized)]
    for row, length in enumerate(lengths):
        if length != lengths[0]:
            raise ValueError(
                f"{caller} takes lists of numbers as the rows of a matrix, and row {row} has the length {length}, but "
                f"row 0 has {lengths[0]}: pass rows of one length, or lists of strings if the numbers are words"
            )


def _check_structure(values: MatrixBlock) -> None:
    """Raise ValueError for a compressed sparse matrix whose arrays contradict each other; kernels would crash."""
    if values.format not in ("csr", "csc"):
        return
    try:
        values.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"X is no valid sparse matrix ({error}): build its indptr, indices and data again") from error


def _check_shape(shape: tuple[int, ...], caller: str) -> None:
    if len(shape) != 2:
        raise ValueError(
            f"Expected 2D array, got {len(shape)}D array instead. Reshape your data: {caller} takes a matrix with one "
            f"row per document or sample"
        )
    rows, columns = shape
    if columns == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
    if rows == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")


def _check_mask(data: Any) -> None:
    """Raise ValueError for a masked array of NumPy in which entries are masked. Its mask would be lost silently."""
    if not np.ma.is_masked(data):
        return
    raise ValueError(
        f"Input X masks {np.ma.count_masked(data)} of its {np.size(data)} entries, which have no value: pass "
        f"X.filled(0), or leave their rows out"
    )


def _check_entries(values: MatrixBlock, caller: str) -> None:
    entries = values
    if scipy.sparse.issparse(values):
        values = values.tocsr()
        entries = values.data
    # Only the stored entries of a sparse matrix are checked: the others are 0.
    if entries.dtype.kind == "f" and not np.isfinite(entries).all():
        kind = "NaN" if np.isnan(entries).any() else "infinity"
        where = _describe_place(values, ~np.isfinite(entries))
        raise ValueError(f"Input X contains {kind} in {where}: replace such entries, or leave their rows out")
    if entries.size and entries.min() < 0:
        where = _describe_place(values, entries < 0)
        raise ValueError(
            f"Negative values in data passed to {caller} (input X), the first in {where}: every entry must be 0 or more"
        )


def _describe_place(values: MatrixBlock, bad: np.ndarray) -> str:
    """Return the row and column of the first entry that is marked in ``bad``, which has the shape of the entries."""
    row, column, _ = first_marked_entry(values, bad)
    return f"row {row}, column {column}"
