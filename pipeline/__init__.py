"""Estimators, the epoch engine, clusters and the command line: the only room that imports dask."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..io.stores.corpus import Corpus
    from .models.lda.estimator import LDA
    from .models.nmf.estimator import NMF
    from .models.node2vec.estimator import Node2Vec
    from .models.random_indexing.estimator import RandomIndexing
    from .models.word2vec.estimator import Word2Vec

#: Where each estimator is. What this package offers is imported when it is first used: the command line starts quickly.
_ESTIMATORS = {
    "LDA": ".models.lda.estimator",
    "NMF": ".models.nmf.estimator",
    "Node2Vec": ".models.node2vec.estimator",
    "RandomIndexing": ".models.random_indexing.estimator",
    "Word2Vec": ".models.word2vec.estimator",
}

#: ESTIMATORS: classes by the name that configs and saved models use.
__all__ = ["ESTIMATORS", "LDA", "NMF", "Corpus", "Node2Vec", "RandomIndexing", "Word2Vec"]


def __getattr__(name: str) -> Any:
    if name == "Corpus":
        return import_module("..io.stores.corpus", __name__).Corpus
    if name in _ESTIMATORS:
        return getattr(import_module(_ESTIMATORS[name], __name__), name)
    if name == "ESTIMATORS":
        classes = [__getattr__(estimator) for estimator in _ESTIMATORS]
        return {estimator.kind: estimator for estimator in classes}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
