"""Adds and subtracts random-indexing models. Their sums are integers, so the result is exact."""

import numpy as np
import pyarrow as pa

from ....io.errors import DataError
from ....io.stores.store import Arrays, JsonObject
from ....io.words import find_word_ids, merge_vocabularies, rank
from ....kernels.random_indexing import rows as ri_rows
from ....kernels.random_indexing import text as ri_text
from ..base.inputs import columns_of
from ..base.saved import TrainedModel

#: Columns of a model's statistics: occurrences of the word, documents with it, and its share of the information.
FREQUENCY, DOCUMENTS, INFORMATION = 0, 1, 2


def add_models(left: TrainedModel, right: TrainedModel, sign: int) -> TrainedModel:
    """Return the model of the documents of ``left`` plus (``sign`` 1) or minus (-1) those of ``right``.

    Raises DataError if the difference has negative counts: then the documents are not all in ``left``. If they are not,
    but all counts stay at least 0, nothing shows it, and the difference is the model of no documents.
    """
    merged = merge_vocabularies(left.vocabulary, right.vocabulary).table["word"]
    rows_of_right = find_word_ids(right.vocabulary["word"], pa.table({"word": merged}))

    def add_rows(name: str) -> np.ndarray:
        rows = left.joined(name)
        total = np.concatenate([rows, np.zeros((len(merged) - len(rows), rows.shape[1]), rows.dtype)])
        if not ri_rows.add_rows(total, rows_of_right, right.joined(name), sign):
            raise DataError(ri_rows.OVERFLOW)
        return total

    sums = add_rows("sums")
    statistics = add_rows("statistics")
    n_documents = left.shared["documents"] + sign * right.shared["documents"]
    if n_documents < 0 or statistics.min(initial=0) < 0:
        raise DataError("these documents are not all in the model: only documents that were added can be removed")
    table = pa.table(
        {
            "word": merged.cast(pa.large_string()),
            "term_frequency": statistics[:, FREQUENCY],
            "document_frequency": statistics[:, DOCUMENTS],
            "row": np.arange(len(merged)),
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
