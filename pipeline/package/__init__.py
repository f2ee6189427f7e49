"""Topics, factors and embeddings from corpora that do not fit in memory.

Names are imported when they are first used, so ``import corpusmill`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Each name again: type checkers take such an import for a public one.
    from corpusmill.io.errors import DataError as DataError
    from corpusmill.io.errors import Locked as Locked
    from corpusmill.io.stores.corpus import Corpus as Corpus
    from corpusmill.io.stores.graph import Graph as Graph
    from corpusmill.io.stores.matrix import Matrix as Matrix
    from corpusmill.io.stores.matrix import write_matrix as write_matrix
    from corpusmill.pipeline.commands.actions.hub import from_pretrained as from_pretrained
    from corpusmill.pipeline.commands.actions.hub import push_to_hub as push_to_hub
    from corpusmill.pipeline.engine.cluster.open import ClusterError as ClusterError
    from corpusmill.pipeline.engine.cluster.open import open_cluster as open_cluster
    from corpusmill.pipeline.engine.cluster.watch import TaskLost as TaskLost
    from corpusmill.pipeline.engine.events import EpochFinished as EpochFinished
    from corpusmill.pipeline.engine.events import RunFailed as RunFailed
    from corpusmill.pipeline.engine.events import RunFinished as RunFinished
    from corpusmill.pipeline.engine.events import RunStarted as RunStarted
    from corpusmill.pipeline.ingest.graph import ingest_graph as ingest_graph
    from corpusmill.pipeline.ingest.ingest import ingest as ingest
    from corpusmill.pipeline.ingest.job import IngestOptions as IngestOptions
    from corpusmill.pipeline.models.base.advice import TrainingWarning as TrainingWarning
    from corpusmill.pipeline.models.fastrp.estimator import FastRP as FastRP
    from corpusmill.pipeline.models.lda.estimator import LDA as LDA
    from corpusmill.pipeline.models.nmf.estimator import NMF as NMF
    from corpusmill.pipeline.models.node2vec.estimator import Node2Vec as Node2Vec
    from corpusmill.pipeline.models.random_indexing.estimator import RandomIndexing as RandomIndexing
    from corpusmill.pipeline.models.vectors.vectors import WordVectors as WordVectors
    from corpusmill.pipeline.models.word2vec.estimator import Word2Vec as Word2Vec
    from corpusmill.pipeline.publishing.mlflow import MLflowCallback as MLflowCallback
    from corpusmill.pipeline.views.early_stopping import EarlyStopping as EarlyStopping
    from corpusmill.pipeline.views.progress import ProgressLines as ProgressLines

    __version__: str

_MODULES = {
    "ClusterError": "corpusmill.pipeline.engine.cluster.open",
    "Corpus": "corpusmill.io.stores.corpus",
    "DataError": "corpusmill.io.errors",
    "EarlyStopping": "corpusmill.pipeline.views.early_stopping",
    "EpochFinished": "corpusmill.pipeline.engine.events",
    "FastRP": "corpusmill.pipeline.models.fastrp.estimator",
    "Graph": "corpusmill.io.stores.graph",
    "IngestOptions": "corpusmill.pipeline.ingest.job",
    "LDA": "corpusmill.pipeline.models.lda.estimator",
    "Locked": "corpusmill.io.errors",
    "MLflowCallback": "corpusmill.pipeline.publishing.mlflow",
    "Matrix": "corpusmill.io.stores.matrix",
    "NMF": "corpusmill.pipeline.models.nmf.estimator",
    "Node2Vec": "corpusmill.pipeline.models.node2vec.estimator",
    "ProgressLines": "corpusmill.pipeline.views.progress",
    "RandomIndexing": "corpusmill.pipeline.models.random_indexing.estimator",
    "RunFailed": "corpusmill.pipeline.engine.events",
    "RunFinished": "corpusmill.pipeline.engine.events",
    "RunStarted": "corpusmill.pipeline.engine.events",
    "TaskLost": "corpusmill.pipeline.engine.cluster.watch",
    "TrainingWarning": "corpusmill.pipeline.models.base.advice",
    "Word2Vec": "corpusmill.pipeline.models.word2vec.estimator",
    "WordVectors": "corpusmill.pipeline.models.vectors.vectors",
    "from_pretrained": "corpusmill.pipeline.commands.actions.hub",
    "ingest": "corpusmill.pipeline.ingest.ingest",
    "ingest_graph": "corpusmill.pipeline.ingest.graph",
    "open_cluster": "corpusmill.pipeline.engine.cluster.open",
    "push_to_hub": "corpusmill.pipeline.commands.actions.hub",
    "write_matrix": "corpusmill.io.stores.matrix",
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("corpusmill")
    if name in _MODULES:
        try:
            return getattr(import_module(_MODULES[name]), name)
        except (ImportError, AttributeError, TypeError, SystemError) as error:
            from corpusmill.io.extras import outdated

            if sentence := outdated():
                raise ImportError(sentence) from error
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
