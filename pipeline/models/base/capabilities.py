"""What only some models can do. ``isinstance`` tests whether a model can."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ....io.stores.corpus import Corpus

if TYPE_CHECKING:
    from distributed import Client

    from ..vectors.vectors import WordVectors


@runtime_checkable
class HasWordVectors(Protocol):
    """A model that has one vector per word."""

    @property
    def wv(self) -> "WordVectors":
        """The word vectors."""


@runtime_checkable
class SupportsForget(Protocol):
    """A model from which documents can be subtracted exactly."""

    def forget(self, data: Corpus, *, client: "Client | None" = None, run: str | None = None) -> object:
        """Subtract documents that the model was trained on."""
