"""Load a model for a task, or explain why a model of its kind cannot do it.

This is the only place that decides which models can do what.
"""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ....io.stores.corpus import Corpus
from ...models.base.estimator import Estimator
from ...models.base.text import TextEstimator
from ...models.base.topics import TopicModel
from ...models.base.vectors import WordVectors
from ...models.registry import load_model

if TYPE_CHECKING:
    from distributed import Client


@runtime_checkable
class VectorModel(Protocol):
    """A model that has one vector per word."""

    @property
    def wv(self) -> WordVectors:
        """The word vectors."""


def load_topic_model(url: str) -> TopicModel:
    """Read a model that has topics; raise ValueError for a model of another kind."""
    model: Estimator = load_model(url)
    if not isinstance(model, TopicModel):
        raise ValueError(f"{url}: {model.kind} models have no topics; lda and nmf models do")
    return model


def load_text_model(url: str) -> TextEstimator:
    """Read a model that can be applied to documents; raise ValueError for a model of another kind."""
    model: Estimator = load_model(url)
    if not isinstance(model, TextEstimator):
        raise ValueError(f"{url}: {model.kind} models cannot be applied to documents")
    return model


def load_vector_model(url: str) -> VectorModel:
    """Read a model that has word vectors; raise ValueError for a model of another kind."""
    model: Estimator = load_model(url)
    if not isinstance(model, VectorModel):
        raise ValueError(
            f"{url}: {model.kind} models have no word vectors; use a word2vec, node2vec or random-indexing model, or "
            f"search documents with --documents CORPUS"
        )
    return model


@runtime_checkable
class Forgetful(Protocol):
    """A model from which documents can be subtracted exactly."""

    def forget(self, data: Corpus, *, client: "Client | None" = None, run: str | None = None) -> object:
        """Subtract documents that the model was trained on."""


def can_forget(model: Estimator) -> bool:
    """Return whether documents can be subtracted from a model."""
    return isinstance(model, Forgetful)
