"""Continues NMF from a trained model. Words are matched by name, since their ids differ from corpus to corpus."""

import numpy as np

from ....io.text.vocabulary import merge_vocabularies
from ..base.saved import TrainedModel


def merge_models(new: TrainedModel, old: TrainedModel) -> TrainedModel:
    """Return the new model with the rows of words that only the old one has appended, in one block.

    The Gram matrix "S" of the rows is that of the new model; the caller updates it.
    """
    W = new.joined("W")
    shared = {name: array for name, array in new.shared.items() if name != "seen"}
    vocabulary = new.vocabulary
    if new.has_words:
        merged = merge_vocabularies(vocabulary, old.vocabulary)
        vocabulary = merged.table
        W = np.concatenate([W, old.joined("W")[merged.only_in_old].astype(W.dtype)])
        if "idf" in shared:
            shared["idf"] = np.concatenate([shared["idf"], old.shared["idf"][merged.only_in_old]])
    return TrainedModel([{"W": W}], shared, vocabulary, new.metadata)
