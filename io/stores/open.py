"""Open whatever store a model trains on, by what lies at its URL."""

from typing import Any

from .corpus import Corpus
from .matrix import Matrix
from .store import DataError, Store


def open_data(url: str, part: str = "train") -> Any:
    """Return the corpus, matrix or graph store at ``url``; raise DataError where there is none."""
    store = Store(url)
    if store.exists("corpus.json"):
        return Corpus(url, part)
    if store.exists("matrix.json"):
        return Matrix(url)
    raise DataError(f"{url}: no store of data here; write one with `corpusmill ingest SOURCE {url}`")
