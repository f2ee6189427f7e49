"""What all topic models offer: their topics as lists of words, measures of these lists, and scores of documents."""

import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ....io.errors import DataError
from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import Arrays
from ...engine.data import DataRef
from ...topics import Topic, words_of
from . import apply
from .coherence import topic_coherence, topic_diversity
from .inputs import DataLike, check_count, corpus_of
from .text import TextEstimator

if TYPE_CHECKING:
    from distributed import Client


class TopicModel(TextEstimator):
    """Base class of the models that have topics and score documents. Word vectors do neither.

    ``isinstance(model, TopicModel)`` tests whether a model is one.
    """

    _has_topics = True
    #: Ways to score documents that a user may choose from.
    _score_methods: ClassVar[tuple[str, ...]] = ()

    @property
    def topic_names_(self) -> Mapping[int, str]:
        """The names that users gave to topics, by number of the topic."""
        return self._topic_names

    @property
    @abstractmethod
    def components_(self) -> np.ndarray:
        """The weight of each word in each topic: (K, V)."""

    @abstractmethod
    def _topics(self, n_words: int) -> list[Topic]:
        """Return the topics as `topics` does, without the names that users gave them."""

    def topics(self, n_words: int = 10) -> list[Topic]:
        """Return each topic's size and its heaviest words, in the order of the components.

        Parameters
        ----------
        n_words : int, default=10
            Number of words of each topic.

        Returns
        -------
        list of dict
            Each has the keys "topic" (its number), "size" (its share), "words" (a list of dictionaries with "word" and
            "weight" or, for LDA, "probability") and, if a user has named the topic, "name".

        Raises
        ------
        ValueError
            If ``n_words`` is negative or no integer.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> sorted(lda.topics(1)[0])
        ['size', 'topic', 'words']
        """
        check_count(n_words, "n_words")
        topics = self._topics(n_words)
        for topic in topics:
            if topic["topic"] in self.topic_names_:
                topic["name"] = self.topic_names_[topic["topic"]]
        return topics

    def topic_words(self, n_words: int = 10) -> list[list[str]]:
        """Return the heaviest words of each topic, heaviest first.

        Parameters
        ----------
        n_words : int, default=10
            Number of words of each topic.

        Returns
        -------
        list of list of str
            One list per topic, in the order of the components.

        Raises
        ------
        ValueError
            If ``n_words`` is negative or no integer.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> [len(words) for words in lda.topic_words(3)]
        [3, 3]
        """
        return [words_of(topic) for topic in self.topics(n_words)]

    def coherence(
        self,
        data: DataLike,
        measure: str = "npmi",
        topn: int = 10,
        window: int | None = None,
        client: "Client | None" = None,
    ) -> np.ndarray:
        """Measure how well the heaviest words of each topic belong together, judged by a reference corpus.

        Parameters
        ----------
        data : Corpus, str, path or documents
            Reference corpus: a corpus, its path or URL, documents in memory (strings or lists of tokens), or a matrix
            of counts with the columns that the model was fitted on.
        measure : {"u_mass", "npmi", "c_v"}, default="npmi"
            Mimno et al. (2011), Aletras and Stevenson (2013), or Röder et al. (2015).
        topn : int, default=10
            Number of words per topic. gensim's default is 20.
        window : int, optional
            Length of the sliding window in words; two words co-occur if one window holds both. 0 counts within whole
            documents. By default 0 for "u_mass", 10 for "npmi" and 110 for "c_v", as in gensim's CoherenceModel.
        client : distributed.Client, optional
            Dask client that counts. Default: the current client, or this process if there is none.

        Returns
        -------
        numpy.ndarray
            (K,) float64. NaN for a topic with fewer than two words in the corpus; a warning names missing words.

        Raises
        ------
        ValueError
            If the measure is unknown, ``topn`` is below 2, the window is negative, or a matrix does not have the
            columns of the model.
        DataError
            If ``data`` has no words, or no word order where the measure needs a window.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> lda.coherence(documents, topn=3).shape
        (2,)
        """
        check_count(topn, "topn", least=2)
        return topic_coherence(self._reference_corpus(data), self.topic_words(topn), measure, window, client)

    def diversity(self, topn: int = 25) -> float:
        """Return the share of distinct words among the heaviest words of all topics.

        Parameters
        ----------
        topn : int, default=25
            Number of words of each topic.

        Returns
        -------
        float
            From 1 / K, if all topics have the same words, to 1, if no two topics share a word.

        Raises
        ------
        ValueError
            If ``topn`` is negative or no integer.

        References
        ----------
        A. B. Dieng et al., "Topic Modeling in Embedding Spaces", TACL 2020, section 6.

        Examples
        --------
        >>> from corpusmill import LDA
        >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
        >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
        >>> 0.5 <= lda.diversity(topn=3) <= 1
        True
        """
        check_count(topn, "topn")
        return topic_diversity(self.topic_words(topn))

    def _reference_corpus(self, data: DataLike) -> Corpus:
        checked = self._checked_input(data)
        if isinstance(checked, Matrix):
            raise DataError(f"{checked.title}: a matrix has no words; coherence needs a corpus of documents")
        if isinstance(checked, Corpus):
            return checked
        if isinstance(checked, str | os.PathLike):
            return Corpus(os.fspath(checked))
        return corpus_of(checked)

    # --- scores of documents ---

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
        sums = self._sum_scores(X, client, {})
        return float(sums["log_likelihood"] / int(sums["tokens"]))

    def _sum_scores(self, X: DataLike, client: "Client | None", options: Mapping[str, object]) -> Arrays:
        """Return the sums ``log_likelihood`` and ``tokens`` over all documents; raise DataError without any token.

        ``options`` are further arguments of the model's `_score_chunk`.
        """
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
