"""The base class of estimators of text: which data they train on, and how they apply to documents."""

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from ....io.data import Data
from ....io.errors import DataError
from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import JsonObject, Store
from ....io.words import find_word_ids
from ...engine.data import TrainingData
from ...engine.executors import Task, executor_for
from ...ingest.ingest import corpus_from, documents_of
from ..vectors.similarity import unit_vector
from . import apply
from .apply import TransformCounts, claim, delete_others
from .estimator import Estimator
from .inputs import (
    DataLike,
    InputMatrix,
    TransformOutput,
    check_count,
    check_word_list,
    columns_of,
    corpus_of,
    read_input,
)

if TYPE_CHECKING:
    from distributed import Client

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from distributed import Client

    from ..vectors.vectors import WordVectors


class TextEstimator(Estimator):
    """Base class of the models that apply to documents. They train on a corpus, unless they open other data as well."""

    #: Whether the columns of ``transform`` are topics; see `TopicModel`.
    _has_topics: ClassVar[bool] = False

    @property
    def words_(self) -> list[str]:
        """The vocabulary, in the order of the model's columns. A model of a matrix without column names has none."""
        model = self._fitted()
        if not model.has_words:
            raise AttributeError(
                f"this {type(self).__name__} was fitted on a matrix, whose columns are not words: feature_names_in_ "
                f"has the names of the columns, if they have names"
            )
        return model.vocabulary["word"].to_pylist()

    def _vocabulary(self) -> pa.Table:
        """Return the table of the model's words; raise DataError if it has none."""
        model = self._fitted()
        if not model.has_words:
            raise DataError(
                f"this {type(self).__name__} was fitted on a matrix, whose columns are not words: pass a matrix with "
                f"the same columns"
            )
        return model.vocabulary

    def _in_input_order(self, columns: np.ndarray, missing: float) -> np.ndarray:
        """Reorder (K, V) columns like those of the matrix that ``fit`` received. Empty columns get ``missing``.

        The vocabulary of a corpus is ordered by frequency. Columns of a model of a corpus therefore stay as they are.
        """
        inputs = columns_of(self._fitted())
        if inputs is None:
            return columns
        ordered = np.full((len(columns), inputs.n_columns), missing, columns.dtype)
        ordered[:, inputs.positions(self.words_)] = columns
        return ordered

    def _names(self) -> list[str]:
        """Return the names of the columns in this order: words, names of a matrix's columns, or their numbers."""
        model = self._fitted()
        inputs = columns_of(model)
        if inputs is None and model.has_words:
            return self.words_
        names = None if inputs is None else inputs.names
        return names or [str(number) for number in range(self.n_features_in_)]

    # --- the data ---

    def _open_data(self, data: DataLike) -> Any:
        """Return the corpus for a Corpus, its URL, a matrix of counts, or documents (strings or lists of words)."""
        read = read_input(data, type(self).__name__)
        if isinstance(read, Corpus):
            return read
        if isinstance(read, Matrix):
            raise not_documents(read)
        if isinstance(read, str | os.PathLike):
            return Corpus(os.fspath(read))
        return corpus_of(read)

    def _check_takes_documents(self) -> None:
        """Raise DataError unless this estimator trains on corpora, which a command is about to make."""

    def _open_held_out(self, held_out: DataLike, data: Any) -> Any:
        """Return the corpus for a URL, or for documents, whose words get the ids that they have in ``data``.

        Raises ValueError for a matrix: the columns of the training data were reordered by frequency.
        """
        if isinstance(held_out, Corpus | str | os.PathLike):
            return self._open_data(held_out)
        return held_out_documents(held_out, data, type(self).__name__)

    # --- further documents ---

    def _open_documents(self, X: DataLike) -> Corpus:
        """Open the documents of ``score`` and the like; raise DataError for a store of a matrix."""
        data = self._open_for_transform(X)
        if not isinstance(data, Corpus):
            raise not_documents(data)
        return data

    @abstractmethod
    def _transform_chunk(self, doc_ptr: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return one row per document, (D, K) float32.

        The words of document d are ``words[doc_ptr[d]:doc_ptr[d + 1]]``, as ids of the model.
        """

    def transform(self, X: DataLike, *, client: "Client | None" = None) -> TransformOutput:
        """Return one row per document: its weights of topics, or its vector.

        Words outside the model's vocabulary are skipped. The row of a document depends on its own words only, whatever
        other documents are in ``X``.

        Parameters
        ----------
        X : store, URL or data in memory
            The documents, as for `fit`. From a matrix, a model of documents or of a corpus takes counts, and finds the
            columns by their names. Without names, it finds them by their numbers, if these are its words.
        client : distributed.Client, optional
            Where to compute. By default the current Dask client, or this process if there is none.

        Returns
        -------
        ndarray or data frame of shape (D, K)
            float32, or the ``dtype`` of an NMF. `set_output` chooses data frames.

        Raises
        ------
        DataError
            If there is no document, or if the model was fitted on a matrix and X has documents.
        ValueError
            If a matrix lacks columns of the model, or has other names of columns.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.transform(["a storm at sea"]).shape
        (1, 2)
        """
        data = self._checked_input(X)
        if isinstance(data, InputMatrix | Data) and executor_for(client).runs_here:
            title = "documents in memory"
            rows = list(self._transform_in_memory(data))
        else:
            store = self._open_checked(data)
            title = store.title
            rows = apply.map_chunks(self, store, client, self._transform_task(store))
        if not rows:
            raise DataError(f"{title}: contains no document")
        return self._as_output(np.concatenate(rows), X)

    def _transform_task(self, store: Any) -> Task:
        """Return the task that transforms a chunk of a store; raise DataError if the model does not fit the store."""
        if not isinstance(store, Corpus):
            raise not_documents(store)
        return apply.transform_chunk

    def _transform_in_memory(self, data: InputMatrix | Data) -> Iterator[np.ndarray]:
        """Yield the rows of data in memory, batch by batch.

        The data is not ingested, because that takes longer than to transform a few documents.
        """
        vocabulary = self._vocabulary()
        if isinstance(data, InputMatrix):
            batches = documents_of(data.values, vocabulary, data.names)
        else:
            batches = documents_of(data, vocabulary)
        for doc_ptr, words in batches:
            yield self._transform_chunk(doc_ptr, words)

    @property
    def _n_features_out(self) -> int:
        """Number of columns of ``transform``, for `Transformer`."""
        return self._transform_chunk(np.zeros(1, np.int64), np.empty(0, np.uint32)).shape[1]

    def transform_to(
        self,
        X: DataLike,
        out: str,
        *,
        top: int | None = None,
        client: "Client | None" = None,
        replace: bool = False,
    ) -> TransformCounts:
        """Write the rows of `transform` as Parquet files, one per chunk, and return what was counted.

        Parameters
        ----------
        X : corpus, URL or data in memory
            The documents, as for `transform`.
        out : str
            Folder or URL. The columns of its files are ``document`` (the key), ``weights``, and those that ingest kept.
            Names that users gave to topics are in the metadata of the files, as JSON by number, with the key
            ``topic_names``.
        top : int, optional
            Number of topics to write per document: ``weights`` has the largest weights only, largest first, and a
            further column ``topics`` has their topics. By default, ``weights`` has one weight for every topic.
        client : distributed.Client, optional
            Where to run. By default the current Dask client, or this process if there is none.
        replace : bool, default=False
            Whether to replace earlier results. Other files in ``out`` are never deleted.

        Returns
        -------
        dict
            The numbers of ``documents``, ``tokens`` and ``unseen_tokens``, whose words the model does not have.

        Raises
        ------
        ValueError
            If ``top`` is no integer of 1 or more, or given for a model without topics.
        DataError
            If ``top`` is given and the documents have a column ``topics``. Also, unless ``replace`` is True, if ``out``
            has other files, or results of another model, of other documents or with other columns. The same call may be
            repeated.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.transform_to(["a storm at sea"], "weights")
        {'documents': 1, 'tokens': 3, 'unseen_tokens': 1}
        """
        if top is not None:
            self._check_top(top)
        corpus = self._open_documents(X)
        if top is not None and "topics" in corpus.kept_columns:
            raise DataError(f"{corpus.title}: has a column topics of its own: leave top out, or ingest without it")
        target = Store(out)
        digest = f"{self._fitted().digest()}-{self._parameters_digest()}"
        origin: JsonObject = {"model": digest, "corpus": corpus.hash, "part": corpus.part}
        claim(target, origin | {"columns": corpus.kept_columns, "top": top}, replace)
        names = dict(self._topic_names)
        counts = apply.map_chunks(self, corpus, client, apply.write_transformed_chunk, target.absolute, names, top)
        delete_others(target, len(corpus.chunks))
        return {
            "documents": sum(chunk["documents"] for chunk in counts),
            "tokens": sum(chunk["tokens"] for chunk in counts),
            "unseen_tokens": sum(chunk["unseen_tokens"] for chunk in counts),
        }

    def _check_top(self, top: int) -> None:
        if not self._has_topics:
            raise ValueError(f"top is {top}, but {self._kind} models have no topics: leave it out")
        check_count(top, "top", least=1)

    def query(self, words: Sequence[str]) -> np.ndarray:
        """Transform one document that consists of these words.

        Parameters
        ----------
        words : list of str
            The words. Those that the model does not have are skipped.

        Returns
        -------
        ndarray of shape (K,), float32
            What `transform` returns for this document.

        Raises
        ------
        KeyError
            If the model has none of the words.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.query(["storm", "sea"]).shape
        (2,)
        """
        check_word_list(words, "words")
        ids = find_word_ids(words, self._vocabulary())
        known = ids[ids >= 0].astype(np.uint32)
        if not len(known):
            raise KeyError(f"none of {', '.join(words)} is among the words of this model")
        return self._transform_chunk(np.array([0, len(known)]), known)[0]

    def search(
        self,
        X: DataLike,
        words: Sequence[str],
        without: Sequence[str] = (),
        topn: int = 10,
        *,
        client: "Client | None" = None,
    ) -> list[tuple[str, float]]:
        """Return keys and cosines of the documents that are nearest to a few words.

        A task holds some of the rows of one chunk at a time, never those of all documents.

        Parameters
        ----------
        X : corpus, URL or data in memory
            The documents, as for `transform`.
        words : list of str
            What the documents should be about.
        without : list of str, optional
            Words whose direction is subtracted.
        topn : int, default=10
            Number of documents to return.
        client : distributed.Client, optional
            Where to search. By default the current Dask client, or this process if there is none.

        Returns
        -------
        list of (str, float)
            Key and cosine of each document, nearest first.

        Raises
        ------
        KeyError
            If the model has none of ``words``, or none of ``without``.
        ValueError
            If ``topn`` is negative or no integer.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> len(lda.search(documents, ["storm", "sea"], topn=3))
        3
        """
        check_count(topn, "topn")
        wanted = unit_vector(self.query(words))
        if without:
            wanted = wanted - unit_vector(self.query(without))
        found = apply.map_chunks(self, self._open_documents(X), client, apply.search_chunk, wanted, topn)
        # Each chunk returned its best documents, and the best of all are among these.
        pairs = [pair for chunk in found for pair in chunk]
        return sorted(pairs, key=lambda pair: -pair[1])[:topn]

    def match_halves(self, X: DataLike, *, client: "Client | None" = None) -> float | None:
        """Return how often the two halves of a document are more similar than halves of two documents.

        This compares models of any kind, also those without a likelihood, on the same documents.

        Parameters
        ----------
        X : corpus, URL or data in memory
            The documents, as for `transform`.
        client : distributed.Client, optional
            Where to compare. By default the current Dask client, or this process if there is none.

        Returns
        -------
        float or None
            0.5 is chance, 1 is perfect. None if fewer than two documents have two halves.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> 0 <= lda.match_halves(documents) <= 1
        True
        """
        sums = apply.sum_chunks(self, self._open_documents(X), client, apply.match_halves_chunk)
        if not int(sums.get("pairs", 0)):
            return None
        return float(sums["won"] / sums["pairs"])


def not_documents(data: TrainingData) -> DataError:
    """Return the error of a store of a matrix where documents are needed."""
    return DataError(f"{data.title}: a matrix, where documents are needed: pass a corpus or its path")


def held_out_documents(held_out: DataLike, data: Corpus, caller: str) -> Corpus:
    """Return the corpus of documents in memory, whose words get the ids that they have in ``data``.

    Raises ValueError for a matrix: the columns of the training data were reordered by frequency.
    """
    read = read_input(held_out, caller)
    if isinstance(read, InputMatrix):
        raise ValueError(
            "held_out is a matrix: pass documents, a corpus or its path, or pass the matrix to score after fit"
        )
    return corpus_from(read, vocabulary=data.vocabulary)


# --- what only some models can do ---


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
