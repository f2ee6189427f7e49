"""Continues LDA from a trained model. Words are matched by name, since their ids differ from corpus to corpus."""

import numpy as np
import pyarrow as pa

from ....io.stores.store import Arrays
from ....io.words import find_word_ids, merge_vocabularies
from ....kernels.lda.counts import topic_totals
from ...engine.algorithm import PreviousModel
from ..base.saved import TrainedModel
from .word_topics import gather_rows


class PreviousTopics:
    """The word-topic counts of the model that training continues from. Its blocks are read one at a time."""

    def __init__(self, model: PreviousModel):
        self._model = model
        self._vocabulary = model.vocabulary
        self.shared = model.shared

    def rows(self, vocabulary: pa.Table) -> Arrays:
        """Return the counts of these words as a block. Words that the previous model lacks have empty rows."""
        return gather_rows(find_word_ids(vocabulary["word"], self._vocabulary), self._model.blocks())

    def row_lengths(self, vocabulary: pa.Table) -> np.ndarray:
        """Return the number of topics that each of these words has: (W,) int64."""
        return np.diff(self.rows(vocabulary)["row_ptr"])

    def n_words_outside(self, vocabulary: pa.Table) -> int:
        """Return the number of words that only the previous model has."""
        return int(np.count_nonzero(find_word_ids(self._vocabulary["word"], vocabulary) < 0))

    def totals_outside(self, vocabulary: pa.Table) -> np.ndarray:
        """Return the topic totals of the words that only the previous model has: (K,) int64."""
        totals = self.shared["totals"]
        inside = self.rows(vocabulary)
        return totals - topic_totals(inside["topics"], inside["counts"], len(totals))


def merge_models(new: TrainedModel, old: TrainedModel) -> TrainedModel:
    """Return the new model with the words that only the old one has appended.

    The counts of all other words are in the new model already: training adds them as constants.
    """
    merged = merge_vocabularies(new.vocabulary, old.vocabulary)
    blocks = list(new.blocks)
    if len(merged.only_in_old):
        blocks.append(gather_rows(merged.only_in_old, old.blocks))
    # From here on these totals belong to words of the model itself.
    shared = {name: array for name, array in new.shared.items() if name != "outside_totals"}
    return TrainedModel(blocks, shared, merged.table, new.metadata)
