"""Open a store of training data by the files at its URL."""

import os

from ..errors import DataError
from .corpus import Corpus
from .matrix import Matrix
from .store import Store


def open_data(url: str | os.PathLike[str], part: str = "train") -> Corpus | Matrix:
    """Return the corpus or matrix store at ``url``; raise DataError if there is neither."""
    store = Store(url)
    if store.exists("corpus.json"):
        return Corpus(url, part)
    if store.exists("matrix.json"):
        return Matrix(url, part)
    if store.exists("graph.json"):
        raise DataError(f"{store.url}: this is a graph; only Node2Vec trains on graphs")
    raise DataError(
        f"{store.url}: no corpus and no matrix here; make a corpus with `corpusmill ingest SOURCE {store.url}`"
    )
