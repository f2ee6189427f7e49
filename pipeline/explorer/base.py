"""What the explorers of topics and of vectors have in common."""

from abc import ABC, abstractmethod

from ...io.errors import DataError
from ...io.stores.store import JsonObject
from .model import ExploredModel


class Explorer(ABC):
    """Answers a page's requests. The method ``answer_x`` answers the path ``api/x``; the query has its parameters.

    ``comparison`` is how the model differs from another one, or None.
    """

    def __init__(self, model: ExploredModel, comparison: JsonObject | None = None):
        self.model = model
        self.comparison = comparison

    @abstractmethod
    def start(self) -> None:
        """Begin to read what later answers need. The page is usable meanwhile."""

    def stop(self) -> None:
        """Stop reading; by default, there is nothing to stop."""

    @abstractmethod
    def answer_model(self) -> JsonObject:
        """The model as a whole."""

    def answer_comparison(self) -> JsonObject:
        """How the model differs from another one."""
        if self.comparison is None:
            raise DataError("there is no other model to compare with: start with --compare MODEL")
        return self.comparison
