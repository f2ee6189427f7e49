"""Adds and subtracts random-indexing models. Their sums are integers, so the result is exact."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ....io.errors import DataError
from ....io.stores.store import Arrays, JsonObject
from ....io.text.vocabulary import rank
from ....kernels.random_indexing import rows as ri_rows
from ....kernels.random_indexing import text as ri_text
from ..base.columns import columns_of
from ..base.saved import TrainedModel

#: Columns of a model's statistics: occurrences of the word, documents with it, and its share of the information.
FREQUENCY, DOCUMENTS, INFORMATION = 0, 1, 2


class _Alignment(NamedTuple):
    """The words of two models in one list."""

    words: list[str]
    left: np.ndarray  # (V_left,) int64: position of each word of the left model
    right: np.ndarray  # (V_right,) int64


def add_models(left: TrainedModel, right: TrainedModel, sign: int) -> TrainedModel:
    """Return the model of the documents of ``left`` plus (``sign`` 1) or minus (-1) those of ``right``.

    Raises DataError if the difference has negative counts: then the documents are not all in ``left``. If they are not,
    but all counts stay at least 0, nothing shows it, and the difference is the model of no documents.
    """
    alignment = _align(left.vocabulary["word"].to_pylist(), right.vocabulary["word"].to_pylist())
    sums = _add_rows(alignment, left.joined("sums"), right.joined("sums"), sign)
    statistics = _add_rows(alignment, left.joined("statistics"), right.joined("statistics"), sign)
    n_documents = left.shared["documents"] + sign * right.shared["documents"]
    if n_documents < 0 or statistics.min(initial=0) < 0:
        raise DataError("these documents are not all in the model: only documents that were added can be removed")
    table = pa.table(
        {
            "word": pa.array(alignment.words, pa.large_string()),
            "term_frequency": statistics[:, FREQUENCY],
            "document_frequency": statistics[:, DOCUMENTS],
            "row": np.arange(len(alignment.words)),
        }
    )
    # Words that no document has any more leave the model.
    table = rank(table.filter(pa.array(statistics[:, FREQUENCY] > 0)))
    rows = table["row"].to_numpy()
    vocabulary = table.drop_columns("row")
    shared: Arrays = {
        "hashes": ri_text.hash_words(vocabulary["word"].to_pylist()),
        "kept": np.ones(len(rows), bool),
        "documents": np.asarray(n_documents),
    }
    block = {"sums": sums[rows], "statistics": statistics[rows]}
    metadata: JsonObject = {"data": "", "data_hash": "", "step": 1, "metrics": []}
    # A model of a matrix still accepts the columns of that matrix only.
    columns = columns_of(left)
    if columns is not None:
        metadata |= columns.as_metadata()
    return TrainedModel([block], shared, vocabulary, metadata)


def _align(left: list[str], right: list[str]) -> _Alignment:
    words = list(dict.fromkeys(left + right))
    position = {word: i for i, word in enumerate(words)}
    return _Alignment(
        words,
        np.array([position[word] for word in left], np.int64),
        np.array([position[word] for word in right], np.int64),
    )


def _add_rows(alignment: _Alignment, left: np.ndarray, right: np.ndarray, sign: int) -> np.ndarray:
    total = np.zeros((len(alignment.words), left.shape[1]), left.dtype)
    total[alignment.left] = left
    if not ri_rows.add_rows(total, alignment.right, right, sign):
        raise DataError(ri_rows.OVERFLOW)
    return total
