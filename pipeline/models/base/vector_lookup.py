"""Looking up vectors by key, in memory, with the methods and results of gensim's KeyedVectors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from .similarity import row_lengths, unit_vector

#: A key is a word, or the index of a row.
Key = str | int | np.integer


class VectorLookup:
    """Vectors by key: look up. `VectorComparison` adds similarities."""

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
        raise KeyError(f"{key!r} is not among the {len(self)} words of this model")

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

    def _cosines(self, vector: np.ndarray, rows: slice | list[int]) -> np.ndarray:
        """Return the cosines of a vector (D,) with some rows: one matrix-vector product."""
        direction = unit_vector(np.asarray(vector, np.float32))
        return self.vectors[rows] @ direction / self._lengths[rows]
