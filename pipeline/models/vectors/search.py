"""Searching all vectors for the most similar ones, with the methods and results of gensim's KeyedVectors."""

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Protocol, TypeGuard

import numpy as np

from .lookup import Key, VectorLookup
from .similarity import top_indices

#: One item of a query: a key or a vector (D,), optionally paired with a weight.
QueryItem = Key | np.ndarray | tuple[Key | np.ndarray, float]
Query = QueryItem | Iterable[QueryItem] | None
Ranking = list[tuple[str, float]]

#: Keeps the quotient of 3CosMul finite (Levy and Goldberg, CoNLL 2014, equation 4).
COSMUL_EPSILON = np.float32(1e-6)


class Indexer(Protocol):
    """An index for approximate search, such as gensim's AnnoyIndexer."""

    def most_similar(self, vector: np.ndarray, num_neighbors: int, /) -> Ranking:
        """Return the nearest keys with their similarities."""


class VectorSearch(VectorLookup):
    """Vectors by key, in memory: also which words are nearest to something."""

    def most_similar(
        self,
        positive: Query = None,
        negative: Query = None,
        topn: int | None = 10,
        clip_start: int = 0,
        clip_end: int | None = None,
        restrict_vocab: int | None = None,
        indexer: Indexer | None = None,
    ) -> Ranking | np.ndarray:
        """Return the words most similar to a weighted mean of words and vectors.

        Parameters
        ----------
        positive, negative : str, int, numpy.ndarray, (key, weight) pair, or list of these, optional
            What to search for, and what to subtract from it. A word is a unit vector; a vector (D,) counts as it is.
            The default weight is 1 in ``positive`` and -1 in ``negative``; the weight of a pair replaces it,
            including its sign. The words given are left out of the result.
        topn : int or None, default=10
            Number of words to return. None returns the similarities of all words.
        clip_start, clip_end : int, optional
            Search only these rows.
        restrict_vocab : int, optional
            Search only the first rows, the most frequent words of a model. Replaces ``clip_start`` and ``clip_end``.
        indexer : Indexer, optional
            Index for approximate search, such as gensim's AnnoyIndexer.

        Returns
        -------
        list of (str, float), or numpy.ndarray
            Words with their cosine similarities, largest first; or all similarities, (V,) float32.
            The similarity of a vector of zeros is 0.

        Raises
        ------
        KeyError
            If a word is unknown.
        ValueError
            If neither ``positive`` nor ``negative`` is given, or if ``topn`` is no integer.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> [(word, round(similarity, 2)) for word, similarity in wv.most_similar("cat", negative=["dog"])]
        [('car', 0.99)]
        """
        _check_topn(topn)
        if topn is not None and topn < 1:
            return []
        keys, weights = _weighted(_as_list(positive), _as_list(negative))
        direction = self.get_mean_vector(keys, weights, post_normalize=True, ignore_missing=False)
        if indexer is not None and topn is not None:
            return indexer.most_similar(direction, topn)
        searched = slice(clip_start, clip_end or len(self))
        if restrict_vocab:
            searched = slice(0, restrict_vocab)
        similarities = self._cosines(direction, searched)
        if topn is None:
            return similarities
        return self._ranking(similarities, searched, topn, excluded=keys)

    def similar_by_word(
        self, word: Key, topn: int | None = 10, restrict_vocab: int | None = None
    ) -> Ranking | np.ndarray:
        """Return the words most similar to a word.

        Parameters
        ----------
        word : str or int
            A word, or the index of a row. It is left out of the result.
        topn : int or None, default=10
            Number of words to return. None returns the similarities of all words.
        restrict_vocab : int, optional
            Search only this number of first rows, the most frequent words of a model.

        Returns
        -------
        list of (str, float), or numpy.ndarray
            Words with their cosine similarities, largest first; or all similarities, (V,) float32.

        Raises
        ------
        KeyError
            If the word is unknown.
        ValueError
            If ``topn`` is no integer.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> [word for word, similarity in wv.similar_by_word("cat")]
        ['dog', 'car']
        """
        return self.most_similar([word], topn=topn, restrict_vocab=restrict_vocab)

    def similar_by_key(
        self, key: Key, topn: int | None = 10, restrict_vocab: int | None = None
    ) -> Ranking | np.ndarray:
        """Return the words most similar to a key.

        Parameters
        ----------
        key : str or int
            A word, or the index of a row. It is left out of the result.
        topn : int or None, default=10
            Number of words to return. None returns the similarities of all words.
        restrict_vocab : int, optional
            Search only this number of first rows, the most frequent words of a model.

        Returns
        -------
        list of (str, float), or numpy.ndarray
            Words with their cosine similarities, largest first; or all similarities, (V,) float32.

        Raises
        ------
        KeyError
            If the word is unknown.
        ValueError
            If ``topn`` is no integer.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> [word for word, similarity in wv.similar_by_key("cat")]
        ['dog', 'car']
        """
        return self.most_similar([key], topn=topn, restrict_vocab=restrict_vocab)

    def similar_by_vector(
        self, vector: np.ndarray, topn: int | None = 10, restrict_vocab: int | None = None
    ) -> Ranking | np.ndarray:
        """Return the words most similar to a vector.

        Parameters
        ----------
        vector : numpy.ndarray
            (D,).
        topn : int or None, default=10
            Number of words to return. None returns the similarities of all words.
        restrict_vocab : int, optional
            Search only this number of first rows, the most frequent words of a model.

        Returns
        -------
        list of (str, float), or numpy.ndarray
            Words with their cosine similarities, largest first; or all similarities, (V,) float32.

        Raises
        ------
        ValueError
            If ``topn`` is no integer.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> [word for word, similarity in wv.similar_by_vector([0, 1], topn=2)]
        ['cat', 'dog']
        """
        return self.most_similar([np.asarray(vector)], topn=topn, restrict_vocab=restrict_vocab)

    def most_similar_cosmul(
        self,
        positive: Query = None,
        negative: Query = None,
        topn: int | None = 10,
        restrict_vocab: int | None = None,
    ) -> Ranking | np.ndarray:
        """Return the words that maximise 3CosMul: products of similarities in place of sums.

        The score of a word is the product over ``positive`` of (1 + cosine) / 2, divided by that over ``negative``
        plus 1e-6. There are no weights. gensim does not apply ``restrict_vocab`` here; this method does.

        Parameters
        ----------
        positive, negative : str, int, numpy.ndarray, or list of these, optional
            What to search for, and what to search against. The words given are left out of the result.
        topn : int or None, default=10
            Number of words to return. None returns the scores of all words.
        restrict_vocab : int, optional
            Search only this number of first rows, the most frequent words of a model.

        Returns
        -------
        list of (str, float), or numpy.ndarray
            Words with their scores, largest first; or all scores, (V,) float32.

        Raises
        ------
        KeyError
            If a word is unknown.
        ValueError
            If there is no positive word, an item has a weight, or ``topn`` is no integer.

        References
        ----------
        Levy and Goldberg, "Linguistic regularities in sparse and explicit word representations" (CoNLL 2014),
        equation 4.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> [word for word, score in wv.most_similar_cosmul("cat")]
        ['dog', 'car']
        """
        _check_topn(topn)
        if topn is not None and topn < 1:
            return []
        gains, losses = _as_list(positive), _as_list(negative)
        if not gains:
            raise ValueError("most_similar_cosmul needs at least one positive word or vector")
        searched = slice(0, restrict_vocab or len(self))
        scores = self._product(gains, searched) / (self._product(losses, searched) + COSMUL_EPSILON)
        if topn is None:
            return scores
        return self._ranking(scores, searched, topn, excluded=[*gains, *losses])

    def closer_than(self, key1: Key, key2: Key) -> list[str]:
        """Return all words that are closer to one word than another word is.

        Parameters
        ----------
        key1 : str or int
            The word that distances are measured from.
        key2 : str or int
            The word that the result must be closer than.

        Returns
        -------
        list of str
            In the order of the rows.

        Raises
        ------
        KeyError
            If a word is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.closer_than("cat", "car")
        ['dog']
        """
        distances = self.distances(key1)
        closer = np.flatnonzero(distances < distances[self.get_index(key2)])
        own = self.get_index(key1)
        return [self.index_to_key[index] for index in closer if index != own]

    def rank(self, key1: Key, key2: Key) -> int:
        """Return the rank of a word among all words, by distance from another word.

        Parameters
        ----------
        key1 : str or int
            The word that distances are measured from.
        key2 : str or int
            The word whose rank is returned.

        Returns
        -------
        int
            1 for the nearest word.

        Raises
        ------
        KeyError
            If a word is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.rank("cat", "car")
        2
        """
        return len(self.closer_than(key1, key2)) + 1

    def relative_cosine_similarity(self, wa: Key, wb: Key, topn: int = 10) -> float:
        """Return the similarity of two words, divided by the sum of similarities of the words nearest to the first.

        Parameters
        ----------
        wa, wb : str or int
            Two words, or indices of their rows.
        topn : int, default=10
            Number of nearest words of ``wa`` whose similarities are added up.

        Returns
        -------
        float
            About 1 / ``topn`` for a word that is as near as the nearest ones.

        Raises
        ------
        KeyError
            If a word is unknown.
        ValueError
            If there is no other word.

        References
        ----------
        Leeuwenberg, Vela, Dehdari and van Genabith, "A minimally supervised approach for synonym extraction with word
        embeddings" (PBML 105, 2016).

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> round(wv.relative_cosine_similarity("cat", "dog"), 2)
        1.0
        """
        nearest = self.similar_by_word(wa, topn)
        if len(nearest) == 0:
            raise ValueError(f"no word to compare with: topn is {topn}, and the model has {len(self)} words")
        return self.similarity(wa, wb) / sum(similarity for _, similarity in nearest)

    def _product(self, items: list[QueryItem], rows: slice) -> np.ndarray:
        """Multiply the similarities, shifted to 0 to 1, of some rows with each item."""
        product = np.ones(len(self._lengths[rows]), np.float32)
        for item in items:
            if isinstance(item, tuple):
                raise ValueError("most_similar_cosmul takes no weights: give words or vectors")
            vector = item if isinstance(item, np.ndarray) else self.get_vector(item)
            product *= (1 + self._cosines(vector, rows)) / 2
        return product

    def _ranking(self, scores: np.ndarray, searched: slice, topn: int, excluded: Sequence[QueryItem]) -> Ranking:
        """Pair the ``topn`` words of largest score with their scores; overwrites the scores of excluded keys."""
        rows = range(*searched.indices(len(self)))
        for key in excluded:
            if isinstance(key, Key) and self.get_index(key) in rows:
                scores[rows.index(self.get_index(key))] = -np.inf
        top = [index for index in top_indices(scores, topn) if scores[index] > -np.inf]
        return [(self.index_to_key[rows[index]], float(scores[index])) for index in top]


def _check_topn(topn: object) -> None:
    if topn is not None and not isinstance(topn, Integral):
        raise ValueError(f"topn is {topn!r}: choose an integer, or None for all words")


def _as_list(query: Query) -> list[QueryItem]:
    """Wrap a single key, vector or (key, weight) pair in a list."""
    if query is None:
        return []
    if isinstance(query, Key) or (isinstance(query, np.ndarray) and query.ndim == 1):
        return [query]
    if isinstance(query, tuple):
        return [query] if _is_weighted(query) else list(query)
    return list(query)


def _is_weighted(item: tuple[object, ...]) -> TypeGuard[tuple[Key | np.ndarray, float]]:
    """Return whether an item is a (key, weight) pair, and not a tuple of keys."""
    return len(item) == 2 and isinstance(item[1], Real)


def _weighted(positive: list[QueryItem], negative: list[QueryItem]) -> tuple[list[Key | np.ndarray], list[float]]:
    """Separate keys from weights; an item without a weight gets 1, or -1 in ``negative``."""
    if not positive and not negative:
        raise ValueError("most_similar needs at least one word or vector")
    keys: list[Key | np.ndarray] = []
    weights: list[float] = []
    for default, items in ((1.0, positive), (-1.0, negative)):
        for item in items:
            if isinstance(item, tuple):
                keys.append(item[0])
                weights.append(item[1])
            else:
                keys.append(item)
                weights.append(default)
    return keys, weights
