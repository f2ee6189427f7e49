"""Continuing LDA from a trained model: its counts, looked up by word."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....io.stores.store import Arrays
from ....io.text.vocabulary import find_word_ids
from ....kernels.lda import esca as lda
from ...engine.algorithm import PreviousModel
from ..base.saved import Fitted
from .inference import rows_of

COLUMNS = ["word", "term_frequency", "document_frequency"]


class PreviousTopics:
    """The counts of a previous model, looked up by word. Its blocks are read one at a time."""

    def __init__(self, model: PreviousModel):
        self._model = model
        self.shared = model.shared
        self.vocabulary = model.vocabulary

    def rows(self, vocabulary: pa.Table) -> Arrays:
        """Return the counts of these words as a block; those that the model does not know have empty rows."""
        return rows_of(find_word_ids(vocabulary["word"], self.vocabulary), self._model.blocks())

    def lengths(self, vocabulary: pa.Table) -> np.ndarray:
        """Return how many topics each of these words has: (W,) int64."""
        return np.diff(self.rows(vocabulary)["row_ptr"])

    def elsewhere(self, vocabulary: pa.Table) -> tuple[int, np.ndarray]:
        """Return how many words the model has besides these, and their topics' totals: (K,) int64."""
        known = self.rows(vocabulary)
        apart = int((find_word_ids(self.vocabulary["word"], vocabulary) < 0).sum())
        totals = self.shared["totals"]
        return apart, totals - lda.topic_totals(known["topics"], known["counts"], len(totals))


def joined(old: Fitted, new: Fitted) -> Fitted:
    """Return the new model with, behind its words, those that only the old one has; frequencies are of both."""
    places = find_word_ids(new.vocabulary["word"], old.vocabulary)
    apart = np.flatnonzero(find_word_ids(old.vocabulary["word"], new.vocabulary) < 0)
    tables = [table.select(COLUMNS) for table in (new.vocabulary, old.vocabulary)]
    for name in COLUMNS[1:]:
        before = pc.fill_null(tables[1][name].take(pa.array(places, mask=places < 0)), 0)
        column = pc.add(tables[0][name], before)
        tables[0] = tables[0].set_column(COLUMNS.index(name), name, column)
    vocabulary = pa.concat_tables([tables[0], tables[1].take(apart).cast(tables[0].schema)])
    blocks = [*new.blocks, rows_of(apart, old.blocks)] if len(apart) else new.blocks
    shared = {name: array for name, array in new.shared.items() if name != "elsewhere"}
    return Fitted(blocks, shared, vocabulary, new.metadata)
