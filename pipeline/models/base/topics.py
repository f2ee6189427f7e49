"""What all topic models offer: their topics as lists of words, and measures of these lists."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ....io.errors import DataError
from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ...topics import Topic, words_of
from .coherence import topic_coherence, topic_diversity
from .inputs import CheckedInput, DataLike, corpus_of, is_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Client

    #: Documents in any form that can serve as a reference corpus.
    Documents = Corpus | str | os.PathLike[str] | ArrayLike | Sequence[str] | Sequence[Sequence[str]]


class TopicModel(ABC):
    """Mixin for models of topics. ``isinstance(model, TopicModel)`` tests whether a model has topics."""

    #: Names of topics by number, read and saved with the model.
    _topic_names: Mapping[int, str]
    #: Number of epochs that the model was trained for.
    n_iter_: int

    @property
    def topic_names_(self) -> Mapping[int, str]:
        """The names that users gave to topics, by number of the topic."""
        return self._topic_names

    @property
    @abstractmethod
    def components_(self) -> np.ndarray:
        """The weight of each word in each topic: (K, V)."""

    @abstractmethod
    def _names(self) -> list[str]:
        """Return the names of the columns of `components_`: words, names of a matrix's columns, or their numbers."""

    @abstractmethod
    def _checked_input(self, X: DataLike) -> CheckedInput:
        """Return data that the model is applied to; raise ValueError if it does not fit the model."""

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
        data: "Documents",
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

    def _reference_corpus(self, data: "Documents") -> Corpus:
        checked = self._checked_input(data)
        if isinstance(checked, Matrix):
            raise DataError(f"{checked.title}: a matrix has no words; coherence needs a corpus of documents")
        if isinstance(checked, Corpus):
            return checked
        if isinstance(checked, str | os.PathLike):
            return Corpus(os.fspath(checked))
        return corpus_of(checked)


def check_count(count: object, name: str, least: int = 0) -> None:
    """Raise ValueError unless the parameter called ``name`` is an integer of at least ``least``."""
    if not is_count(count, least):
        raise ValueError(f"{name} is {count!r}: choose an integer of {least} or more")
