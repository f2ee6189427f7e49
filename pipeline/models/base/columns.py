"""The columns of the matrix that a model was trained on. Further matrices must have the same columns.

The texts of warnings and errors are scikit-learn's, because its checks compare them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ....io.data import Data
from ....io.errors import DataError
from ....io.stores.store import JsonObject
from ....io.text.vocabulary import words_of
from .advice import warn_user
from .inputs import CheckedInput, DataLike, InputMatrix, read_input
from .saved import TrainedModel


class MatrixColumns(NamedTuple):
    """The columns of a matrix."""

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


def checked_input(X: DataLike, model: TrainedModel, caller: str) -> CheckedInput:
    """Return X in the form in which estimators apply a model to it. A matrix gets the model's names of columns.

    Raises ValueError if X does not fit the data that the model was trained on. ``caller`` names the estimator.
    """
    data = read_input(X, caller)
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
