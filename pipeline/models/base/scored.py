"""The base class of models that give documents a likelihood."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ....io.errors import DataError
from ....io.stores.store import Arrays
from ...engine.algorithm import DataT
from ...engine.data import DataRef
from . import apply
from .inputs import DataLike
from .text import TextEstimator

if TYPE_CHECKING:
    from distributed import Client


class ScoredEstimator(TextEstimator[DataT]):
    """Base class of the models that score documents. Word vectors do not, so they have no ``score`` at all."""

    @abstractmethod
    def _score_chunk(self, doc_ptr: np.ndarray, words: np.ndarray, keys: np.ndarray) -> Arrays:
        """Return the sums ``log_likelihood`` and ``tokens`` of documents given as in `_transform_chunk`.

        ``keys`` (D,) uint64 are the keys of the documents' random draws.
        """

    def score(self, X: DataLike, y: object = None, *, client: "Client | None" = None) -> float:
        """Return the held-out log-likelihood per token by document completion; larger is better.

        Parameters
        ----------
        X : corpus, URL or data in memory
            The documents, as for `transform`.
        y : ignored
            Present for scikit-learn's searches.
        client : distributed.Client, optional
            Where to score. By default the current Dask client, or this process if there is none.

        Returns
        -------
        float
            The natural logarithm of the likelihood of the second halves of the documents, per token.

        Raises
        ------
        DataError
            If no document has a word of the model.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.score(documents) < 0
        True
        """
        sums = self._score_sums(X, client=client)
        return float(sums["log_likelihood"] / int(sums["tokens"]))

    def _score_sums(self, X: DataLike, *, client: "Client | None" = None) -> Arrays:
        """Return the sums ``log_likelihood`` and ``tokens`` over all documents; raise DataError without any token."""
        return self._sum_scores(X, client, {})

    def _sum_scores(self, X: DataLike, client: "Client | None", options: Mapping[str, object]) -> Arrays:
        """Add up `_score_chunk` over all documents. ``options`` are further arguments of the model's `_score_chunk`."""
        corpus = self._open_documents(X)
        if not corpus.n_documents:
            reason = "there are no documents here"
            if corpus.part == "held_out":
                reason = f"the part {corpus.part!r} has 0 documents: ingest with held_out=0.1"
            raise DataError(f"{corpus.title}: nothing to score: {reason}")
        sums = apply.sum_chunks(self, corpus, client, score_chunk, options)
        if not int(sums.get("tokens", 0)):
            raise DataError(f"{corpus.title}: nothing to score: no document has two words of the model's vocabulary")
        return sums


def score_chunk(model: apply.ModelHandle, data: DataRef, index: int, options: Mapping[str, object]) -> Arrays:
    """Return the sums that the model's ``_score_chunk`` gives for a chunk's documents. This is a task."""
    estimator, documents = apply.open_documents(model, data, index)
    return estimator._score_chunk(documents.doc_ptr, documents.words, documents.keys(estimator), **options)
