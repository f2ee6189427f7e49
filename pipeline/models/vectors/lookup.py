"""Looking up and comparing vectors by key, with the methods and results of gensim's KeyedVectors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from ....io.messages import other_case
from .similarity import row_lengths, unit_vector

#: A key is a word, or the index of a row.
Key = str | int | np.integer


def check_word_list(words: object, name: str) -> None:
    """Raise TypeError for a string in place of a list of words: its characters would be taken for words."""
    if isinstance(words, str):
        raise TypeError(f"{name} is {words!r}: pass a list of words, such as {words.split()!r}")


class VectorLookup:
    """Vectors by key, in memory: those of given words, and how similar these are."""

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

    def get_index(self, key: Key, default: int | None = None) -> int:
        """Return the row of a word.

        Parameters
        ----------
        key : str or int
            A word, or the index of a row.
        default : int, optional
            What to return for an unknown key. By default, such a key is an error.

        Returns
        -------
        int
            Row, from 0.

        Raises
        ------
        KeyError
            If the key is unknown and there is no default.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.get_index("dog"), wv.get_index("cow", -1)
        (1, -1)
        """
        if isinstance(key, str) and key in self.key_to_index:
            return self.key_to_index[key]
        if isinstance(key, int | np.integer) and 0 <= key < len(self):
            return int(key)
        if default is not None:
            return default
        raise KeyError(f"{key!r} is not among the {len(self)} words of this model{other_case(key, self.key_to_index)}")

    def has_index_for(self, key: Key) -> bool:
        """Return whether a word or row exists; also as ``key in wv``.

        Parameters
        ----------
        key : str or int
            A word, or the index of a row.

        Returns
        -------
        bool
            True if `get_vector` knows the key.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.has_index_for("dog"), "cow" in wv
        (True, False)
        """
        return self.get_index(key, -1) >= 0

    def get_vector(self, key: Key, norm: bool = False) -> np.ndarray:
        """Return the vector of a word; also as ``wv[key]``.

        Parameters
        ----------
        key : str or int
            A word, or the index of a row.
        norm : bool, default=False
            Scale the vector to length 1.

        Returns
        -------
        numpy.ndarray
            (D,) float32, read-only.

        Raises
        ------
        KeyError
            If the key is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.get_vector("cat", norm=True)
        array([0.6, 0.8], dtype=float32)
        """
        index = self.get_index(key)
        vector = self.vectors[index]
        if norm:
            vector = vector / self._lengths[index]
        # A change in place would invalidate the cached lengths.
        vector.setflags(write=False)
        return vector

    def get_normed_vectors(self) -> np.ndarray:
        """Return a copy of all vectors, each scaled to length 1.

        Returns
        -------
        numpy.ndarray
            (V, D) float32. A vector of zeros stays as it is.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.get_normed_vectors().tolist()[1]
        [0.800000011920929, 0.6000000238418579]
        """
        return self.vectors / self._lengths[:, None]

    def get_mean_vector(
        self,
        keys: Sequence[Key | np.ndarray],
        weights: Sequence[float] | np.ndarray | None = None,
        pre_normalize: bool = True,
        post_normalize: bool = False,
        ignore_missing: bool = True,
    ) -> np.ndarray:
        """Return the weighted mean of some vectors: their weighted sum, divided by the sum of the absolute weights.

        Parameters
        ----------
        keys : sequence of str, int or numpy.ndarray
            Words, indices of rows, or vectors (D,).
        weights : sequence of float, optional
            One weight per key. By default 1 for each.
        pre_normalize : bool, default=True
            Scale the vectors of words to length 1 first. Vectors given in place of words count as they are.
        post_normalize : bool, default=False
            Scale the mean to length 1.
        ignore_missing : bool, default=True
            Skip unknown words. Otherwise they are an error.

        Returns
        -------
        numpy.ndarray
            (D,) float32.

        Raises
        ------
        KeyError
            If a word is unknown and ``ignore_missing`` is False.
        ValueError
            If there are no keys, or not one weight per key.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.get_mean_vector(["cat", "dog"], pre_normalize=False)
        array([3.5, 3.5], dtype=float32)
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
        """Return how often a word occurs in the training data.

        Parameters
        ----------
        key : str or int
            A word, or the index of a row.
        attr : {"count"}
            The only attribute that exists. gensim's vectors may have others.

        Returns
        -------
        int
            Number of occurrences.

        Raises
        ------
        KeyError
            If the key is unknown, the attribute is another one, or the counts are unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog"], [[3, 4], [4, 3]], counts=[20, 10])
        >>> wv.get_vecattr("dog", "count")
        10
        """
        if attr != "count" or self.counts is None:
            raise KeyError(f"these vectors have no attribute {attr!r}: only 'count' exists, and only if it was given")
        return int(self.counts[self.get_index(key)])

    # --- similarities ---

    def similarity(self, w1: Key, w2: Key) -> float:
        """Return the cosine similarity of two words.

        Parameters
        ----------
        w1, w2 : str or int
            Two words, or indices of their rows.

        Returns
        -------
        float
            From -1 to 1. A vector of zeros has similarity 0 with every vector.

        Raises
        ------
        KeyError
            If a word is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> round(wv.similarity("cat", "dog"), 2)
        0.96
        """
        return float(self.get_vector(w1, norm=True) @ self.get_vector(w2, norm=True))

    def distance(self, w1: Key, w2: Key) -> float:
        """Return the cosine distance of two words: 1 minus their similarity.

        Parameters
        ----------
        w1, w2 : str or int
            Two words, or indices of their rows.

        Returns
        -------
        float
            From 0 to 2.

        Raises
        ------
        KeyError
            If a word is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> round(wv.distance("cat", "dog"), 2)
        0.04
        """
        return 1.0 - self.similarity(w1, w2)

    def distances(self, word_or_vector: Key | np.ndarray, other_words: Sequence[Key] = ()) -> np.ndarray:
        """Return the cosine distances of a word or vector to other words.

        Parameters
        ----------
        word_or_vector : str, int or numpy.ndarray
            A word, the index of a row, or a vector (D,).
        other_words : sequence of str or int, default=()
            The n words to compare with. By default all V words.

        Returns
        -------
        numpy.ndarray
            (n,) float32, from 0 to 2.

        Raises
        ------
        KeyError
            If a word is unknown.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> [round(distance, 2) for distance in wv.distances("cat", ["dog", "car"]).tolist()]
        [0.04, 1.0]
        """
        vector = word_or_vector if isinstance(word_or_vector, np.ndarray) else self.get_vector(word_or_vector)
        if len(other_words) == 0:
            return 1 - self._cosines(vector, slice(None))
        return 1 - self._cosines(vector, [self.get_index(word) for word in other_words])

    def n_similarity(self, ws1: Sequence[Key], ws2: Sequence[Key]) -> float:
        """Return the cosine similarity of the mean vectors of two lists of words.

        Parameters
        ----------
        ws1, ws2 : sequence of str or int
            Two lists of words. Unknown words are skipped.

        Returns
        -------
        float
            From -1 to 1.

        Raises
        ------
        ValueError
            If a list is empty.
        TypeError
            If a list of words is a string.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> round(wv.n_similarity(["cat", "dog"], ["car"]), 2)
        -0.14
        """
        check_word_list(ws1, "ws1")
        check_word_list(ws2, "ws2")
        if len(ws1) == 0 or len(ws2) == 0:
            raise ValueError(f"lists of {len(ws1)} and {len(ws2)} words: give at least one word in each")
        mean1 = self.get_mean_vector(ws1, pre_normalize=False, post_normalize=True)
        mean2 = self.get_mean_vector(ws2, pre_normalize=False, post_normalize=True)
        return float(mean1 @ mean2)

    def rank_by_centrality(self, words: Sequence[Key], use_norm: bool = True) -> list[tuple[float, Key]]:
        """Sort words by their similarity to the mean of all of them.

        Parameters
        ----------
        words : sequence of str or int
            The words. Unknown ones are left out.
        use_norm : bool, default=True
            Scale each vector to length 1 first.

        Returns
        -------
        list of (float, str or int)
            Similarity and word, most similar first.

        Raises
        ------
        ValueError
            If no word is known.
        TypeError
            If a list of words is a string.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> [word for similarity, word in wv.rank_by_centrality(["cat", "dog", "car"])]
        ['cat', 'dog', 'car']
        """
        check_word_list(words, "words")
        known = [word for word in words if word in self]
        if not known:
            raise ValueError(f"none of the {len(words)} words is known")
        vectors = np.stack([self.get_vector(word, norm=use_norm) for word in known])
        similarities = vectors @ unit_vector(vectors.mean(axis=0))
        return sorted(zip(similarities.tolist(), known, strict=True), reverse=True)

    def doesnt_match(self, words: Sequence[Key]) -> Key:
        """Return the word that is least similar to the mean of some words.

        Parameters
        ----------
        words : sequence of str or int
            The words. Unknown ones are left out.

        Returns
        -------
        str or int
            One of the words.

        Raises
        ------
        ValueError
            If no word is known.
        TypeError
            If a list of words is a string.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.doesnt_match(["cat", "dog", "car"])
        'car'
        """
        return self.rank_by_centrality(words)[-1][1]

    def most_similar_to_given(self, key1: Key, keys_list: Sequence[Key]) -> Key:
        """Return which of some words is most similar to another word.

        Parameters
        ----------
        key1 : str or int
            The word to compare with.
        keys_list : sequence of str or int
            The words to choose from.

        Returns
        -------
        str or int
            One of ``keys_list``.

        Raises
        ------
        KeyError
            If a word is unknown.
        ValueError
            If ``keys_list`` is empty.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.most_similar_to_given("cat", ["car", "dog"])
        'dog'
        """
        similarities = [self.similarity(key1, key) for key in keys_list]
        return keys_list[int(np.argmax(similarities))]

    def _cosines(self, vector: np.ndarray, rows: slice | list[int]) -> np.ndarray:
        """Return the cosines of a vector (D,) with some rows: one matrix-vector product."""
        direction = unit_vector(np.asarray(vector, np.float32))
        return self.vectors[rows] @ direction / self._lengths[rows]
