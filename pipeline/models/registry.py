"""All estimators by kind. Commands use this module to open models and runs whose kind they learn from a file."""

from importlib import import_module
from typing import TYPE_CHECKING

from ...io.errors import DataError
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
    "fastrp": ("fastrp", "FastRP"),
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
    kind = config.model.kind
    estimator = estimator_class(kind)
    if kind in _PLACES:
        return estimator(**config.model.model_dump(exclude={"kind"}))
    # Of a user's own module, only the class itself knows all parameters and their defaults.
    return estimator().set_params(**config.model.model_dump(exclude={"kind"}, exclude_unset=True))


def load_model(url: str) -> TextEstimator:
    """Read a saved model of any kind. A model of a user's own module: see `stored_class`."""
    kind = read_model_meta(url)["model"]
    return stored_class(kind, url, f"a model of kind {kind!r}").load(url)


def model_of_run(url: str) -> TextEstimator:
    """Read the model that a run of any kind committed last."""
    return class_of_run(RunStore(url)).from_run(url)


def estimator_of_run(run: RunStore) -> TextEstimator:
    """Return the estimator, not trained, of a run; raise DataError if this version does not have its parameters."""
    meta = run.meta
    parameters = config_section(meta, "model")
    parameters.pop("kind", None)
    return class_of_run(run)._with_stored(parameters, meta, run.url)


def class_of_run(run: RunStore) -> type[TextEstimator]:
    """Return the estimator of a run, as `stored_class` does."""
    meta = run.meta
    return stored_class(config_section(meta, "model").get("kind"), run.url, f"a run of {meta['algorithm']}")


def stored_class(kind: str | None, url: str, title: str) -> type[TextEstimator]:
    """Return the estimator of a kind that a stored file names.

    Raises DataError if there is none, or if it is in a user's own module that neither this program has imported nor
    ``CORPUSMILL_MODULES`` names: files of strangers must not decide which code runs.
    """
    if kind is not None and ":" in kind:
        from .own import check_trusted

        check_trusted(kind, url)
    elif kind not in _PLACES:
        raise DataError(f"{url}: {title}, which this version of corpusmill does not have")
    return estimator_class(kind)
