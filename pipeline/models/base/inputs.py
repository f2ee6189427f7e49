"""What users pass to estimators: documents, matrices in all their forms, and the options of ``fit``.

Further matrices must have the columns of the one that a model was trained on. Messages follow those of scikit-learn,
whose users search for them, and whose checks compare some of them.
"""

import copy
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy

from ....configs.validation import plain_number
from ....io.data import Data, Kind, is_table, recognise, refusal
from ....io.errors import DataError
from ....io.extras import needing
from ....io.matrices.anndata import MatrixFile, is_anndata_file
from ....io.matrices.blocks import RowBlocks, known_entries
from ....io.matrices.memory import matrix_of
from ....io.matrices.names import check_unique
from ....io.stores.corpus import Corpus
from ....io.stores.in_memory import url_in_memory
from ....io.stores.matrix import Matrix, MatrixBlock, first_marked_entry
from ....io.stores.store import JsonObject
from ....io.words import words_of
from ...engine.data import TrainingData
from ...engine.events import Callback
from ...engine.executors import Executor, OnDask
from ...ingest.ingest import corpus_from
from .advice import warn_user
from .saved import TrainedModel

if TYPE_CHECKING:
    from distributed import Client


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
DataLike: TypeAlias = StoreLike | DocumentsLike | MatrixLike | Data
#: What `read_input` returns: a store, its path or URL, a matrix, or documents.
CheckedInput: TypeAlias = Corpus | Matrix | str | os.PathLike[str] | InputMatrix | Data
#: What ``transform`` returns: a NumPy array with one row per document, or a data frame after ``set_output``.
TransformOutput = Any


def read_input(X: DataLike, caller: str, takes_nan: bool = False) -> CheckedInput:
    """Return a store or a path as it is, documents as `recognise` returns them, and a matrix after `read_matrix`.

    Raises DataError for anything else. ``caller`` names the estimator in messages.
    """
    if isinstance(X, InputMatrix):
        return X
    data = recognise(X)
    if data.kind is Kind.MATRIX:
        return read_matrix(data.value, caller, takes_nan)
    if data.kind is Kind.STORE:
        return data.value
    if is_anndata_file(data.value):
        return read_matrix(MatrixFile(data.value), caller, takes_nan)
    if isinstance(data.value, str | os.PathLike):
        check_is_path(data.value, caller)
        return data.value
    # Which column of a table has the documents is not known. Rows that are dictionaries need a field "text".
    if data.kind is Kind.DOCUMENTS or (data.kind is Kind.TABLE and not is_table(data.value)):
        return data
    taken = "documents (strings or lists of words), a matrix, a store or its path"
    raise refusal(data, caller, taken)


def read_matrix(data: Any, caller: str, takes_nan: bool = False) -> InputMatrix:
    """Return a matrix after checking that it is two-dimensional, real, finite and non-negative.

    With ``takes_nan``, it is sparse, and entries that are NaN are not stored. Raises ValueError, or TypeError for
    entries that are not numbers. ``caller`` names the estimator in messages.
    """
    values, names = matrix_of(data)
    _check_shape(values.shape, caller)
    if takes_nan:
        values = known_entries(values)
    if not isinstance(values, RowBlocks):
        # The entries of blocks are checked when they are written to a store.
        _check_entries(values, caller)
    return InputMatrix(values, names)


def corpus_of(data: InputMatrix | Data) -> Corpus:
    """Return the temporary corpus of a matrix of counts or of documents in memory."""
    if isinstance(data, InputMatrix):
        return corpus_from(data.values, vocabulary=data.names)
    return corpus_from(data)


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


def named(data: CheckedInput, vocabulary: Sequence[str] | None) -> CheckedInput:
    """Return the training data. A matrix has the names that the user gives for its columns, if there are any.

    Raises ValueError if there are names but no matrix, or if a name occurs twice.
    """
    if vocabulary is None:
        return data
    if not isinstance(data, InputMatrix):
        raise ValueError("vocabulary names the columns of a matrix, but X is no matrix")
    if isinstance(vocabulary, str | Mapping | Set):
        raise ValueError(
            f"vocabulary is a {type(vocabulary).__name__}: pass a list of words, in the order of the columns, such as "
            f"get_feature_names_out() of a CountVectorizer"
        )
    names = [str(name) for name in vocabulary]
    check_unique(pa.array(names, pa.large_string()), "vocabulary", "rename or remove it")
    return data.renamed(names)._replace(are_given=True)


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


def _check_entries(values: MatrixBlock, caller: str) -> None:
    entries = values
    if scipy.sparse.issparse(values):
        values = values.tocsr()
        entries = values.data
    # Only the stored entries of a sparse matrix are checked: the others are 0.
    if entries.dtype.kind == "f" and not np.isfinite(entries).all():
        has_nan = np.isnan(entries).any()
        where = _describe_place(values, ~np.isfinite(entries))
        raise ValueError(
            f"Input X contains {'NaN' if has_nan else 'infinity'} in {where}: replace such entries, or leave their "
            f"rows out{'; NMF with missing=' + repr('unknown') + ' trains without them' if has_nan else ''}"
        )
    if entries.size and entries.min() < 0:
        where = _describe_place(values, entries < 0)
        raise ValueError(
            f"Negative values in data passed to {caller} (input X), the first in {where}: every entry must be 0 or more"
        )


def _describe_place(values: MatrixBlock, bad: np.ndarray) -> str:
    """Return the row and column of the first entry that is marked in ``bad``, which has the shape of the entries."""
    row, column, _ = first_marked_entry(values, bad)
    return f"row {row}, column {column}"


def check_count(count: object, name: str, least: int = 0) -> None:
    """Raise ValueError unless the parameter called ``name`` is an integer of at least ``least``."""
    if not is_count(count, least):
        raise ValueError(f"{name} is {count!r}: choose an integer of {least} or more")


def check_word_list(words: object, name: str) -> None:
    """Raise TypeError for a string in place of a list of words: its characters would be taken for words."""
    if isinstance(words, str):
        raise TypeError(f"{name} is {words!r}: pass a list of words, such as {words.split()!r}")


class MatrixColumns(NamedTuple):
    """The columns of the matrix that ``fit`` received."""

    n_columns: int
    names: list[str] | None  # None for a matrix without names
    are_given: bool = False  # whether the user gave the names to ``fit``; further matrices then need not have any

    def positions(self, words: Sequence[str]) -> list[int]:
        """Return the column that each word of the model's vocabulary stands for. Without names, words are numbers."""
        if self.names is None:
            return [int(word) for word in words]
        number = {name: column for column, name in enumerate(self.names)}
        return [number[word] for word in words]

    def as_metadata(self) -> JsonObject:
        """Return the entries of a model's metadata that `columns_of` reads."""
        return {"n_features": self.n_columns, "feature_names": self.names, "names_are_given": self.are_given}


def columns_of(model: TrainedModel) -> MatrixColumns | None:
    """Return the columns of the matrix that a model was trained on; None if it was trained on documents."""
    metadata = model.metadata
    if "n_features" not in metadata:
        return None
    return MatrixColumns(metadata["n_features"], metadata["feature_names"], metadata["names_are_given"])


def drop_outgrown_columns(model: TrainedModel) -> None:
    """Drop the columns from the metadata if the model has further words, of earlier inputs."""
    columns = columns_of(model)
    if columns is None or columns.names is None or not model.has_words:
        return
    if not set(columns.names).issuperset(model.vocabulary["word"].to_pylist()):
        for name in columns.as_metadata():
            del model.metadata[name]


def checked_input(X: DataLike, model: TrainedModel, caller: str, takes_nan: bool = False) -> CheckedInput:
    """Return X in the form in which estimators apply a model to it. A matrix gets the model's names of columns.

    Raises ValueError if X does not fit the data that the model was trained on. ``caller`` names the estimator.
    """
    data = read_input(X, caller, takes_nan)
    columns = columns_of(model)
    if isinstance(data, InputMatrix):
        check_columns(data, model, caller)
        return data if columns is None else data.renamed(columns.names)
    if isinstance(data, Data) and columns is not None and columns.names is None:
        raise ValueError(f"{caller} was fitted on a matrix without column names: pass a matrix, not documents")
    return data


def check_columns(matrix: InputMatrix, model: TrainedModel, caller: str) -> None:
    """Raise ValueError unless a matrix has the columns of the data that the model was trained on.

    Warns if only one of the two has names, unless the user gave names for a matrix without.
    """
    columns = columns_of(model)
    if columns is None:
        if matrix.names is None and not _has_numbered_columns(model):
            raise ValueError(f"{caller} was fitted on documents: pass documents, not a matrix without column names")
        return
    if matrix.n_columns != columns.n_columns:
        raise ValueError(
            f"X has {matrix.n_columns} features, but {caller} is expecting {columns.n_columns} features as input: pass "
            f"the columns that it was fitted with"
        )
    if matrix.names is None and columns.are_given:
        return
    if matrix.names is None and columns.names is not None:
        warn_user(f"X does not have valid feature names, but {caller} was fitted with feature names")
    elif columns.names is None and matrix.names is not None:
        warn_user(f"X has feature names, but {caller} was fitted without feature names")
    elif columns.names is not None and matrix.names != columns.names:
        raise ValueError(_describe_names(columns.names, matrix.names or []))


def _has_numbered_columns(model: TrainedModel) -> bool:
    """Return whether the model's words are column numbers, or whether it has no words."""
    if not model.has_words:
        return True
    return bool(pc.all(pc.ascii_is_decimal(model.vocabulary["word"].slice(0, 100))).as_py())


def check_numbers(matrix: InputMatrix, model: TrainedModel, caller: str) -> None:
    """Raise DataError if a matrix lacks columns that the model knows by their numbers. Warn if it has further ones."""
    if matrix.names is not None or columns_of(model) is not None or not model.has_words:
        return
    words = words_of(model.vocabulary)
    numbers = words.filter(pc.ascii_is_decimal(words)).cast(pa.float64())
    last = int(pc.max(numbers).as_py())
    known = f"{caller} was fitted on columns with numbers up to {last}, counted from 0"
    if matrix.n_columns <= last:
        raise DataError(f"X has {matrix.n_columns} columns, but {known}: pass all columns of the training data")
    if matrix.n_columns > last + 1:
        warn_user(f"X has {matrix.n_columns} columns, but {known}: those from {last + 1} on are skipped")


def _describe_names(expected: list[str], found: list[str]) -> str:
    """Describe how two lists of column names differ, in scikit-learn's words."""
    message = "The feature names should match those that were passed during fit.\n"
    unexpected = sorted(set(found) - set(expected))
    missing = sorted(set(expected) - set(found))
    if unexpected:
        message += "Feature names unseen at fit time:\n" + _listed(unexpected)
    if missing:
        message += "Feature names seen at fit time, yet now missing:\n" + _listed(missing)
    if not unexpected and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    if not missing:
        message += "X[model.feature_names_in_] has them in this order; for AnnData, X[:, model.feature_names_in_]."
    return message


def _listed(names: list[str]) -> str:
    shown = [f"- {name}\n" for name in names[:5]]
    if len(names) > 5:
        shown.append("- ...\n")
    return "".join(shown)


# --- the options of fit ---


@dataclass(frozen=True)
class FitOptions:
    """The options of ``fit``, which `Estimator.fit` documents."""

    client: "Client | None" = None
    run: str | os.PathLike[str] | None = None
    callbacks: Sequence[Callback] = ()
    held_out: DataLike | None = None
    evaluate_every: int | None = None
    config: JsonObject | None = None
    dashboard: bool = True
    vocabulary: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Raise TypeError for an option of the wrong type, and ValueError for one out of range."""
        if self.run is not None and not isinstance(self.run, str | os.PathLike):
            raise TypeError(f"run is {_shown(self.run)}: pass the path or URL of a folder")
        every = plain_number(self.evaluate_every)
        object.__setattr__(self, "evaluate_every", every)
        if every is not None and not is_count(every):
            raise ValueError(f"evaluate_every is {_shown(every)}: choose an integer of 0 or more, or None")
        if not isinstance(self.callbacks, Sequence) or isinstance(self.callbacks, str):
            raise TypeError(
                f"callbacks is {_shown(self.callbacks)}: pass a list of functions, such as callbacks=[ProgressLines()]"
            )
        for callback in self.callbacks:
            if not callable(callback):
                raise TypeError(f"callbacks contains {_shown(callback)}, which is not a function: pass functions only")

    def all_callbacks(self, executor: Executor) -> list[Callback]:
        """Return the callbacks, and that of the dashboard if it is wanted and the executor has one."""
        callbacks = list(self.callbacks)
        if self.dashboard and isinstance(executor, OnDask):
            # This module imports distributed, which takes a third of a second.
            from ...views.dashboard import publish

            callbacks.append(publish(executor.client))
        return callbacks


def _shown(value: object) -> str:
    """Return the name of a function or of its class, or the start of any other value's representation."""
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return repr(value)[:40]


@contextmanager
def run_folder(url: str | os.PathLike[str] | None, is_small: bool = False) -> Iterator[str]:
    """Yield ``url``, or a temporary folder that is removed afterwards. A small run has a store in memory instead."""
    if url is not None:
        yield os.fspath(url)
        return
    if is_small:
        with url_in_memory() as url:
            yield url
        return
    with tempfile.TemporaryDirectory(prefix="corpusmill-run-", ignore_cleanup_errors=True) as folder:
        yield folder
