"""All estimators by kind. Commands use this module to open models and runs whose kind they learn from a file."""

from importlib import import_module
from typing import TYPE_CHECKING

from ...io.errors import DataError
from ...io.stores.store import JsonObject
from ..engine.run import RunStore, config_section
from .base.saved import read_model_meta
from .base.text import TextEstimator

if TYPE_CHECKING:
    from ...configs.schema import Config

#: Kind in configurations and saved models, then the module below this package and the class.
_PLACES = {
    "lda": ("lda", "LDA"),
    "nmf": ("nmf", "NMF"),
    "word2vec": ("word2vec", "Word2Vec"),
    "node2vec": ("node2vec", "Node2Vec"),
    "random-indexing": ("random_indexing", "RandomIndexing"),
}

MODEL_KINDS = tuple(_PLACES)


def estimator_class(kind: str) -> type[TextEstimator]:
    """Return the estimator of a kind; raise KeyError for an unknown kind.

    A kind such as "my_module:MyModel" names an estimator or an algorithm of a user's own module.
    """
    if ":" in kind:
        from .own import own_estimator

        return own_estimator(kind)
    module, name = _PLACES[kind]
    estimator: type[TextEstimator] = getattr(import_module(f".{module}.estimator", __package__), name)
    return estimator


def new_estimator(config: "Config") -> TextEstimator:
    """Return the estimator that the section ``model`` describes, not fitted; raise ValueError for bad parameters."""
    return estimator_class(config.model.kind)(**config.model.model_dump(exclude={"kind"}))


def load_model(url: str) -> TextEstimator:
    """Read a saved model of any kind."""
    kind = read_model_meta(url)["model"]
    if not _is_known(kind):
        raise DataError(f"{url}: a model of kind {kind!r}, which this version of corpusmill does not have")
    return estimator_class(kind).load(url)


def model_of_run(url: str, with_previous: bool = True) -> TextEstimator:
    """Read the model that a run of any kind committed last. The arguments are those of `Estimator.from_run`."""
    return _class_of_run(RunStore(url).meta, url).from_run(url, with_previous)


def estimator_of_run(run: RunStore) -> TextEstimator:
    """Return the estimator, not trained, of a run; raise DataError if this version does not have its parameters."""
    meta = run.meta
    parameters = config_section(meta, "model")
    parameters.pop("kind", None)
    return _class_of_run(meta, run.url)._with_stored(parameters, meta, run.url)


def _class_of_run(meta: JsonObject, url: str) -> type[TextEstimator]:
    kind = config_section(meta, "model").get("kind")
    if kind is None or not _is_known(kind):
        raise DataError(f"{url}: a run of {meta['algorithm']}, which this version of corpusmill does not have")
    return estimator_class(kind)


def _is_known(kind: str) -> bool:
    return kind in _PLACES or ":" in kind
