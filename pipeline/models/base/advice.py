"""Warnings about parameters and data that can be trained on, but that a user probably did not mean."""

import sys
import warnings

import numpy as np
import pyarrow as pa

from ....io.messages import listed, pluralize
from ....io.stores.corpus import Corpus
from ....io.words import find_word_ids
from ...engine.algorithm import PreviousModel
from ...engine.data import TrainingData

#: Frequent words of further documents that are looked up in the model.
FREQUENT_WORDS = 10


class TrainingWarning(UserWarning):
    """A model is trained, but probably not the one that the user meant. The command line shows these warnings."""


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's program that called corpusmill, directly or through scikit-learn's wrappers."""
    level = 2
    frame = sys._getframe().f_back
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("corpusmill", "sklearn"):
        level += 1
        frame = frame.f_back
    warnings.warn(text, category, stacklevel=level)


def warn_of_data(data: TrainingData, n_components: int, previous: PreviousModel | None) -> None:
    """Warn of data that do not suit a new model's number of components, or the words of a model that is continued."""
    if previous is None:
        _warn_of_components(n_components, data)
    elif isinstance(data, Corpus):
        _warn_of_new_words(data, previous.vocabulary)


def _warn_of_components(n_components: int, data: TrainingData) -> None:
    """Warn if a new model has more topics or components than ``data`` has documents or words."""
    fewest = min(data.n_documents, data.n_words)
    if n_components > fewest:
        warn_user(
            f"{data.title}: {pluralize(data.n_documents, 'document')} and {pluralize(data.n_words, 'word')}, but "
            f"n_components is {n_components:,}; choose at most {fewest:,}, since more cannot differ",
            TrainingWarning,
        )


def _warn_of_new_words(data: Corpus, known: pa.Table) -> None:
    """Warn if the model's vocabulary lacks most of the frequent words of further documents.

    The first corpus probably left these words out, and the new documents were read with other options.
    """
    # The order of the vocabulary may be one that a user gave to ingest.
    order = np.argsort(-data.vocabulary["term_frequency"].to_numpy(), kind="stable")
    frequent = data.vocabulary["word"].take(pa.array(order[:FREQUENT_WORDS]))
    is_new = find_word_ids(frequent, known) < 0
    if 2 * is_new.sum() > len(frequent):
        new = frequent.filter(pa.array(is_new)).to_pylist()
        warn_user(
            f"{data.title}: {len(new)} of the {pluralize(len(frequent), 'most frequent word')} are new to the model "
            f"({listed(new)}), and it learns them; if its first corpus left them out, such as stop words, ingest these "
            f"documents with the same options, and pass the corpus",
            TrainingWarning,
        )


def warn_of_text(walks: Corpus) -> None:
    """Warn if Node2Vec trains on a corpus that it did not draw itself: walks of another program, or text by mistake."""
    if "walks" not in (walks.meta["about"].get("identity") or {}):
        warn_user(
            f"{walks.title}: Node2Vec takes each document of this corpus for a walk, and each word for a node; if it "
            f"is text, use Word2Vec, and to train on a graph, make one with 'corpusmill graph'",
            TrainingWarning,
        )
