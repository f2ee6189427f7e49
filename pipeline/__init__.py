"""Estimators, the epoch engine, clusters and the command line: the only room that imports dask."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..io.corpus import Corpus
    from .lda import LDA
    from .nmf import NMF
    from .node2vec import Node2Vec
    from .random_indexing import RandomIndexing
    from .word2vec import Word2Vec

#: Where each estimator is. What this package offers is imported when it is first used: the command line starts quickly.
_ESTIMATORS = {
    "LDA": ".lda",
    "NMF": ".nmf",
    "Node2Vec": ".node2vec",
    "RandomIndexing": ".random_indexing",
    "Word2Vec": ".word2vec",
}

#: ESTIMATORS: classes by the name that configs and saved models use.
__all__ = ["ESTIMATORS", "LDA", "NMF", "Corpus", "Node2Vec", "RandomIndexing", "Word2Vec"]


def __getattr__(name: str) -> Any:
    if name == "Corpus":
        return import_module("..io.corpus", __name__).Corpus
    if name in _ESTIMATORS:
        return getattr(import_module(_ESTIMATORS[name], __name__), name)
    if name == "ESTIMATORS":
        classes = [__getattr__(estimator) for estimator in _ESTIMATORS]
        return {estimator.kind: estimator for estimator in classes}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
