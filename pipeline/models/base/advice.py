"""Warnings about parameters and data that can be trained on, but that a user probably did not mean."""

import sys
import warnings

from ....io.messages import pluralize
from ....io.stores.corpus import Corpus
from ...engine.data import TrainingData


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


def warn_of_components(n_components: int, data: TrainingData) -> None:
    """Warn if a new model has more topics or components than ``data`` has documents or words."""
    fewest = min(data.n_documents, data.n_words)
    if n_components > fewest:
        warn_user(
            f"{data.title}: {pluralize(data.n_documents, 'document')} and {pluralize(data.n_words, 'word')}, but "
            f"n_components is {n_components:,}; choose at most {fewest:,}, since more cannot differ",
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
