"""Topics, factors and embeddings from corpora that do not fit in memory.

Names are imported when they are first used, so ``import corpusmill`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corpusmill.io.stores.corpus import Corpus
    from corpusmill.pipeline.engine.cluster.open import open_cluster
    from corpusmill.pipeline.ingest.ingest import ingest
    from corpusmill.pipeline.ingest.options import IngestOptions
    from corpusmill.pipeline.models.base.vectors import WordVectors
    from corpusmill.pipeline.models.lda.estimator import LDA
    from corpusmill.pipeline.models.nmf.estimator import NMF
    from corpusmill.pipeline.models.node2vec.estimator import Node2Vec
    from corpusmill.pipeline.models.random_indexing.estimator import RandomIndexing
    from corpusmill.pipeline.models.word2vec.estimator import Word2Vec
    from corpusmill.pipeline.views.progress import ProgressLines

    __version__: str

_MODULES = {
    "LDA": "corpusmill.pipeline.models.lda.estimator",
    "NMF": "corpusmill.pipeline.models.nmf.estimator",
    "Node2Vec": "corpusmill.pipeline.models.node2vec.estimator",
    "RandomIndexing": "corpusmill.pipeline.models.random_indexing.estimator",
    "Word2Vec": "corpusmill.pipeline.models.word2vec.estimator",
    "WordVectors": "corpusmill.pipeline.models.base.vectors",
    "Corpus": "corpusmill.io.stores.corpus",
    "IngestOptions": "corpusmill.pipeline.ingest.options",
    "ProgressLines": "corpusmill.pipeline.views.progress",
    "ingest": "corpusmill.pipeline.ingest.ingest",
    "open_cluster": "corpusmill.pipeline.engine.cluster.open",
}

__all__ = [
    "LDA",
    "NMF",
    "Corpus",
    "IngestOptions",
    "Node2Vec",
    "ProgressLines",
    "RandomIndexing",
    "Word2Vec",
    "WordVectors",
    "__version__",
    "ingest",
    "open_cluster",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("corpusmill")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
