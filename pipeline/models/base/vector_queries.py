"""Looking up and comparing vectors by key, in memory, with the methods and results of gensim's KeyedVectors."""

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import Literal, Protocol, TypeGuard

import numpy as np

from .similarity import row_lengths, top_indices, unit_vector

#: A key is a word, or the index of a row.
Key = str | int | np.integer
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


class VectorQueries:
    """Vectors by key: look up, compare, rank. `WordVectors` adds files and evaluation."""

    def __init__(self, words: Sequence[str], vectors: np.ndarray, counts: np.ndarray | None = None):
        self.index_to_key = [str(word) for word in words]
        self.key_to_index = {word: index for index, word in enumerate(self.index_to_key)}
        self.vectors = np.ascontiguousarray(vectors, np.float32)
        self.counts = None if counts is None else np.asarray(counts, np.int64)
        n_words = len(self.index_to_key)
        if self.vectors.ndim != 2 or len(self.vectors) != n_words:
            raise ValueError(f"{n_words} words, but vectors of shape {self.vectors.shape}: give one row per word")
        if len(self.key_to_index) != n_words:
            raise ValueError(f"{n_words - len(self.key_to_index)} of {n_words} words occur more than once")
        if self.counts is not None and self.counts.shape != (n_words,):
            raise ValueError(f"{n_words} words, but counts of shape {self.counts.shape}: give one count per word")
        self._cached_lengths: np.ndarray | None = None

    @property
    def vector_size(self) -> int:
        """Number of dimensions D."""
        return self.vectors.shape[1]

    @property
    def _lengths(self) -> np.ndarray:
        """Length of each vector: (V,) float32, 1 for a vector of zeros."""
        if self._cached_lengths is None:
            self._cached_lengths = row_lengths(self.vectors)
        return self._cached_lengths

    def __len__(self) -> int:
        return len(self.index_to_key)

    def __contains__(self, key: Key) -> bool:
        return self.has_index_for(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.index_to_key)

    def __getitem__(self, keys: Key | Iterable[Key]) -> np.ndarray:
        """Return the vector of one key: (D,) float32, read-only; or of n keys: (n, D). KeyError if one is unknown."""
        if isinstance(keys, Key):
            return self.get_vector(keys)
        return self.vectors[[self.get_index(key) for key in keys]]

    # --- look up ---

    def get_index(self, key: Key, default: int | None = None) -> int:
        """Return the row of a key. An unknown key gives ``default``, or KeyError if there is no default."""
        if isinstance(key, str) and key in self.key_to_index:
            return self.key_to_index[key]
        if isinstance(key, int | np.integer) and 0 <= key < len(self):
            return int(key)
        if default is not None:
            return default
        raise KeyError(f"{key!r} is not among the {len(self)} words of this model")

    def has_index_for(self, key: Key) -> bool:
        """Return whether ``key`` is a word, or the index of a row."""
        return self.get_index(key, -1) >= 0

    def get_vector(self, key: Key, norm: bool = False) -> np.ndarray:
        """Return the vector of a key: (D,) float32, read-only; with ``norm`` scaled to length 1."""
        index = self.get_index(key)
        vector = self.vectors[index]
        if norm:
            vector = vector / self._lengths[index]
        # A change in place would invalidate the cached lengths.
        vector.setflags(write=False)
        return vector

    def get_normed_vectors(self) -> np.ndarray:
        """Return a copy of all vectors, each scaled to length 1: (V, D) float32."""
        return self.vectors / self._lengths[:, None]

    def get_mean_vector(
        self,
        keys: Sequence[Key | np.ndarray],
        weights: Sequence[float] | np.ndarray | None = None,
        pre_normalize: bool = True,
        post_normalize: bool = False,
        ignore_missing: bool = True,
    ) -> np.ndarray:
        """Return the weighted mean of the vectors of ``keys``: (D,) float32.

        ``pre_normalize`` scales the vectors of keys to length 1 first; vectors given in place of keys count as they
        are. The sum is divided by the sum of the absolute weights. Unknown keys are skipped, or raise KeyError if
        ``ignore_missing`` is False.
        """
        if len(keys) == 0:
            raise ValueError("no keys to take the mean of: give at least one word or vector")
        if weights is None:
            weights = np.ones(len(keys), np.float32)
        if len(keys) != len(weights):
            raise ValueError(f"{len(keys)} keys, but {len(weights)} weights: give one weight per key")
        total = np.zeros(self.vector_size, np.float32)
        total_weight = 0.0
        for key, weight in zip(keys, weights, strict=True):
            if isinstance(key, np.ndarray):
                vector = key
            elif key in self or not ignore_missing:
                vector = self.get_vector(key, norm=pre_normalize)
            else:
                continue
            # float32 throughout, as in gensim, so that similarities agree to the last digits.
            total += np.float32(weight) * vector
            total_weight += abs(float(weight))
        mean = total / np.float32(total_weight or 1.0)
        return unit_vector(mean) if post_normalize else mean

    def get_vecattr(self, key: Key, attr: Literal["count"]) -> int:
        """Return how often a word occurs in the training data. ``attr`` must be "count"; KeyError if unknown."""
        if attr != "count" or self.counts is None:
            raise KeyError(f"these vectors have no attribute {attr!r}: only 'count' exists, and only if it was given")
        return int(self.counts[self.get_index(key)])

    # --- compare ---

    def similarity(self, w1: Key, w2: Key) -> float:
        """Return the cosine similarity of two words, -1 to 1."""
        return float(self.get_vector(w1, norm=True) @ self.get_vector(w2, norm=True))

    def distance(self, w1: Key, w2: Key) -> float:
        """Return the cosine distance of two words: 1 minus their similarity."""
        return 1.0 - self.similarity(w1, w2)

    def distances(self, word_or_vector: Key | np.ndarray, other_words: Sequence[Key] = ()) -> np.ndarray:
        """Return the cosine distances of a word or vector to ``other_words``, by default to all words: (n,) float32."""
        vector = word_or_vector if isinstance(word_or_vector, np.ndarray) else self.get_vector(word_or_vector)
        if len(other_words) == 0:
            return 1 - self._cosines(vector, slice(None))
        return 1 - self._cosines(vector, [self.get_index(word) for word in other_words])

    def n_similarity(self, ws1: Sequence[Key], ws2: Sequence[Key]) -> float:
        """Return the cosine similarity of the mean vectors of two lists of words. Unknown words are skipped."""
        if len(ws1) == 0 or len(ws2) == 0:
            raise ValueError(f"lists of {len(ws1)} and {len(ws2)} words: give at least one word in each")
        mean1 = self.get_mean_vector(ws1, pre_normalize=False, post_normalize=True)
        mean2 = self.get_mean_vector(ws2, pre_normalize=False, post_normalize=True)
        return float(mean1 @ mean2)

    def closer_than(self, key1: Key, key2: Key) -> list[str]:
        """Return all words closer to ``key1`` than ``key2`` is, in the order of the rows."""
        distances = self.distances(key1)
        closer = np.flatnonzero(distances < distances[self.get_index(key2)])
        own = self.get_index(key1)
        return [self.index_to_key[index] for index in closer if index != own]

    def rank(self, key1: Key, key2: Key) -> int:
        """Return the rank of ``key2`` among all words by distance from ``key1``; 1 is the nearest."""
        return len(self.closer_than(key1, key2)) + 1

    def rank_by_centrality(self, words: Sequence[Key], use_norm: bool = True) -> list[tuple[float, Key]]:
        """Return pairs (similarity to the mean of all the words, word), most similar first. Unknown words are left out.

        Raises ValueError if no word is known.
        """
        known = [word for word in words if word in self]
        if not known:
            raise ValueError(f"none of the {len(words)} words is known")
        vectors = np.stack([self.get_vector(word, norm=use_norm) for word in known])
        similarities = vectors @ unit_vector(vectors.mean(axis=0))
        return sorted(zip(similarities.tolist(), known, strict=True), reverse=True)

    def doesnt_match(self, words: Sequence[Key]) -> Key:
        """Return the word least similar to the mean of the words. ValueError if no word is known."""
        return self.rank_by_centrality(words)[-1][1]

    def most_similar_to_given(self, key1: Key, keys_list: Sequence[Key]) -> Key:
        """Return the key in ``keys_list`` that is most similar to ``key1``."""
        similarities = [self.similarity(key1, key) for key in keys_list]
        return keys_list[int(np.argmax(similarities))]

    # --- search ---

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
        """Return the words most similar to a word; see `most_similar`."""
        return self.most_similar([word], topn=topn, restrict_vocab=restrict_vocab)

    def similar_by_key(
        self, key: Key, topn: int | None = 10, restrict_vocab: int | None = None
    ) -> Ranking | np.ndarray:
        """Return the words most similar to a key; see `most_similar`."""
        return self.most_similar([key], topn=topn, restrict_vocab=restrict_vocab)

    def similar_by_vector(
        self, vector: np.ndarray, topn: int | None = 10, restrict_vocab: int | None = None
    ) -> Ranking | np.ndarray:
        """Return the words most similar to a vector (D,); see `most_similar`."""
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
        plus 1e-6 (Levy and Goldberg, 2014, equation 4). There are no weights. Words given are left out of the result.
        gensim does not apply ``restrict_vocab`` here; this method does. Raises as `most_similar`.
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

    def relative_cosine_similarity(self, wa: Key, wb: Key, topn: int = 10) -> float:
        """Return the similarity of two words, divided by the summed similarities of the ``topn`` nearest to ``wa``."""
        nearest = self.similar_by_word(wa, topn)
        if len(nearest) == 0:
            raise ValueError(f"no word to compare with: topn is {topn}, and the model has {len(self)} words")
        return self.similarity(wa, wb) / sum(similarity for _, similarity in nearest)

    def _cosines(self, vector: np.ndarray, rows: slice | list[int]) -> np.ndarray:
        """Return the cosines of a vector (D,) with some rows: one matrix-vector product."""
        direction = unit_vector(np.asarray(vector, np.float32))
        return self.vectors[rows] @ direction / self._lengths[rows]

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
