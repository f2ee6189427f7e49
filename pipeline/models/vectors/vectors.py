"""Word vectors for users: the queries of gensim's KeyedVectors, files in common formats, and evaluation."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self, TypeGuard

import numpy as np

from ....io.errors import DataError, DataWarning
from ....io.extras import needing
from ....io.messages import other_case, pluralize
from ..other_names import explain_attribute
from . import evaluation, files, word2vec_format
from .evaluation import Correlation, GensimSection
from .files import VectorTable
from .similarity import COSMUL_EPSILON, row_lengths, top_indices, unit_vector

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

#: A key is a word, or the index of a row.
Key = str | int | np.integer
#: One item of a query: a key or a vector (D,), optionally paired with a weight.
QueryItem = Key | np.ndarray | tuple[Key | np.ndarray, float]
Query = QueryItem | Iterable[QueryItem] | None
Ranking = list[tuple[str, float]]


class Indexer(Protocol):
    """An index for approximate search, such as gensim's AnnoyIndexer."""

    def most_similar(self, vector: np.ndarray, num_neighbors: int, /) -> Ranking:
        """Return the nearest keys with their similarities."""


class Format(NamedTuple):
    """How a file format of word vectors is written and read."""

    write: Callable[[str, VectorTable], None]
    read: Callable[[str], VectorTable]


#: Formats by the ending of a file's name.
FORMATS = {
    ".txt": Format(word2vec_format.write_word2vec, word2vec_format.read_word2vec),
    ".vec": Format(word2vec_format.write_word2vec, word2vec_format.read_word2vec),
    ".bin": Format(
        partial(word2vec_format.write_word2vec, binary=True), partial(word2vec_format.read_word2vec, binary=True)
    ),
    ".safetensors": Format(files.write_safetensors, files.read_safetensors),
    ".parquet": Format(files.write_parquet, files.read_parquet_vectors),
    ".zarr": Format(files.write_zarr, files.read_zarr),
}


class GensimVectors(Protocol):
    """The attributes of gensim's KeyedVectors that are copied."""

    index_to_key: list[str]
    vectors: np.ndarray
    expandos: dict[str, np.ndarray]


class WordVectors:
    """Vectors by word, with the methods of gensim's KeyedVectors.

    Methods for lookup, similarity, search, evaluation and word2vec files have the same names, arguments and results as
    in gensim 4.4. Words and vectors cannot be added or replaced: use ``to_gensim()`` for that. Three results differ
    from gensim on purpose. A vector of zeros has similarity 0 with every vector; gensim gives NaN. Words of equal
    similarity are sorted by row; gensim's order is arbitrary. `most_similar_cosmul` applies ``restrict_vocab``; gensim
    ignores it.

    Parameters
    ----------
    words : sequence of str
        V distinct words, usually the most frequent first.
    vectors : array-like of shape (V, D)
        One vector per word. Converted to float32; not copied if it is a contiguous float32 array.
    counts : array-like of shape (V,), optional
        How often each word occurs in the training data.

    Attributes
    ----------
    index_to_key : list of str
        The words, in the order of the rows.
    key_to_index : dict of str to int
        The row of each word.
    vectors : numpy.ndarray
        (V, D) float32.
    vector_size : int
        Number of dimensions D.
    counts : numpy.ndarray or None
        (V,) int64; also as ``get_vecattr(word, "count")``.

    Raises
    ------
    ValueError
        If the lengths do not match, or a word occurs more than once.

    Examples
    --------
    >>> import numpy as np
    >>> from corpusmill import WordVectors
    >>> wv = WordVectors(["cat", "dog", "car"], np.array([[3, 4], [4, 3], [-4, 3]]))
    >>> wv["cat"]
    array([3., 4.], dtype=float32)
    >>> [(word, round(similarity, 2)) for word, similarity in wv.most_similar("cat")]
    [('dog', 0.96), ('car', 0.0)]
    >>> wv.doesnt_match(["cat", "dog", "car"])
    'car'
    """

    if not TYPE_CHECKING:
        __getattr__ = explain_attribute

    def __init__(
        self, words: Sequence[str], vectors: np.ndarray | Sequence[np.ndarray], counts: np.ndarray | None = None
    ):
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

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.vector_size} dimensions)"

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

    # --- words and their vectors ---

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
        return keys_list[int(top_indices(np.array(similarities), 1)[0])]

    def _cosines(self, vector: np.ndarray, rows: slice | list[int]) -> np.ndarray:
        """Return the cosines of a vector (D,) with some rows: one matrix-vector product."""
        direction = unit_vector(np.asarray(vector, np.float32))
        return self.vectors[rows] @ direction / self._lengths[rows]

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

    similar_by_key = similar_by_word

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

    # --- files ---

    def save(self, path: str) -> None:
        """Save in the format given by the ending of the name.

        .txt and .vec are word2vec's text format and .bin its binary one, which store no counts. The others store them:
        .safetensors as tensors ``vectors`` and ``counts``, with the words as JSON in the metadata; .parquet as columns
        ``word``, ``vector`` and ``count``; .zarr as a group of arrays beside a file ``words.json``. Every format stores
        the exact float32 values. For gensim's own format, use ``wv.to_gensim().save(path)``.

        Parameters
        ----------
        path : str
            Path or URL that ends in .txt, .vec, .bin, .safetensors, .parquet or .zarr.

        Raises
        ------
        ValueError
            If the ending is another one, or the format cannot store the words: safetensors has a limit of several
            million words.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save("animals.parquet")
        >>> WordVectors.load("animals.parquet")
        WordVectors(3 words, 2 dimensions)
        """
        _format_of(path).write(path, self._table)

    @classmethod
    def load(cls, path: str) -> Self:
        """Read what `save` has written, in the format given by the ending of the name.

        For gensim's own format, use ``WordVectors.from_gensim(KeyedVectors.load(path))``.

        Parameters
        ----------
        path : str
            Path or URL that ends in .txt, .vec, .bin, .safetensors, .parquet or .zarr.

        Returns
        -------
        WordVectors
            The vectors, in memory.

        Raises
        ------
        ValueError
            If the ending is another one.
        DataError
            If the file is missing, damaged or of another format.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save("animals.txt")
        >>> WordVectors.load("animals.txt")["dog"]
        array([4., 3.], dtype=float32)
        """
        return cls._from_table(path, _format_of(path).read(path))

    def save_word2vec_format(
        self, fname: str, fvocab: str | None = None, binary: bool = False, *, write_header: bool = True
    ) -> None:
        """Write word2vec's text or binary format; compressed if the name ends in .gz, .bz2 or .xz.

        Parameters
        ----------
        fname : str
            Path or URL.
        fvocab : str, optional
            Path of a second file for the counts, with lines "word count".
        binary : bool, default=False
            Write the binary format.
        write_header : bool, default=True
            Write the first line, with the numbers of words and dimensions. GloVe's format has none.

        Raises
        ------
        ValueError
            If a word is empty or has white space, or if ``fvocab`` is given but no counts are known.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save_word2vec_format("animals.txt.gz")
        """
        word2vec_format.write_word2vec(fname, self._table, binary, write_header, fvocab)

    @classmethod
    def load_word2vec_format(
        cls,
        fname: str,
        fvocab: str | None = None,
        binary: bool = False,
        encoding: str = "utf-8",
        unicode_errors: str = "strict",
        limit: int | None = None,
        *,
        no_header: bool = False,
    ) -> Self:
        """Read word2vec's text or binary format, as word2vec.c, gensim and fastText write it, or GloVe's.

        Parameters
        ----------
        fname : str
            Path or URL. Decompressed if the name ends in .gz, .bz2, .xz or .zst.
        fvocab : str, optional
            Path of a file with lines "word count", to read the counts from.
        binary : bool, default=False
            Read the binary format.
        encoding : str, default="utf-8"
            Encoding of the words.
        unicode_errors : {"strict", "ignore", "replace"}, default="strict"
            What to do with words that are not valid in this encoding. word2vec.c may cut words within a character. A
            warning says how many words were changed, and how many occurred before and were left out.
        limit : int, optional
            Read this number of words at most. Default: all.
        no_header : bool, default=False
            The text begins with the first vector, as in GloVe's files.

        Returns
        -------
        WordVectors
            The vectors, in memory.

        Raises
        ------
        DataError
            If the file is missing, incomplete or of another format.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.save_word2vec_format("animals.txt.gz")
        >>> WordVectors.load_word2vec_format("animals.txt.gz", limit=2)
        WordVectors(2 words, 2 dimensions)
        """
        table = word2vec_format.read_word2vec(fname, binary, encoding, unicode_errors, limit, no_header, fvocab)
        return cls._from_table(fname, table)

    @classmethod
    def _from_table(cls, path: str, table: VectorTable) -> Self:
        try:
            vectors = cls(*table)
        except ValueError as error:
            raise DataError(f"{path}: damaged: {error}") from None
        is_finite = np.isfinite(vectors.vectors.sum(axis=1, dtype=np.float64))
        if not is_finite.all():
            warnings.warn(
                f"{path}: {pluralize(int((~is_finite).sum()), 'vector')} of {len(vectors):,} have NaN or infinity, "
                f"such as that of {vectors.index_to_key[int(is_finite.argmin())]!r:.40}; they are similar to nothing",
                DataWarning,
                stacklevel=3,
            )
        return vectors

    @property
    def _table(self) -> VectorTable:
        return VectorTable(self.index_to_key, self.vectors, self.counts)

    # --- gensim ---

    def to_gensim(self) -> "KeyedVectors":
        """Return a gensim KeyedVectors with a copy of the vectors, for example to use gensim's ``save``.

        Returns
        -------
        gensim.models.KeyedVectors
            The same words, vectors and counts.

        Raises
        ------
        ImportError
            If gensim is not installed.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> wv.to_gensim().index_to_key
        ['cat', 'dog', 'car']
        """
        with needing("gensim", "gensim", "to_gensim"):
            from gensim.models import KeyedVectors

        keyed = KeyedVectors(self.vector_size)
        keyed.add_vectors(self.index_to_key, self.vectors)
        if self.counts is not None:
            keyed.expandos["count"] = self.counts.copy()
        return keyed

    @classmethod
    def from_gensim(cls, keyed: GensimVectors) -> Self:
        """Copy a gensim KeyedVectors.

        Parameters
        ----------
        keyed : gensim.models.KeyedVectors
            Such as ``model.wv``, or the result of gensim's ``KeyedVectors.load``.

        Returns
        -------
        WordVectors
            The same words, vectors and counts.

        Raises
        ------
        TypeError
            If ``keyed`` is anything else.

        Examples
        --------
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> WordVectors.from_gensim(wv.to_gensim())
        WordVectors(3 words, 2 dimensions)
        """
        if not hasattr(keyed, "index_to_key"):
            raise TypeError(
                f"a {type(keyed).__name__} cannot be converted: pass a gensim KeyedVectors, such as model.wv"
            )
        counts = keyed.expandos.get("count")
        return cls(keyed.index_to_key, np.array(keyed.vectors, np.float32), counts)

    # --- evaluation ---

    def evaluate_word_pairs(
        self,
        pairs: str,
        delimiter: str = "\t",
        encoding: str = "utf-8",
        restrict_vocab: int | None = evaluation.RESTRICT_VOCAB,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
    ) -> tuple[Correlation, Correlation, float]:
        """Correlate similarities of words with human judgments, read from lines of two words and a number.

        Parameters
        ----------
        pairs : str
            Path or URL of the file. Lines that begin with # and lines of another form are skipped.
        delimiter : str, default=tab
            Separates the fields of a line.
        encoding : str, default="utf-8"
            Encoding of the file.
        restrict_vocab : int or None, default=300000
            Words after the first ``restrict_vocab`` count as unknown. None: all words are known.
        case_insensitive : bool, default=True
            Compare words in upper case; of several variants of a word the first is used.
        dummy4unknown : bool, default=False
            Give pairs with an unknown word similarity 0 instead of skipping them.

        Returns
        -------
        pearson, spearman : pairs of (float, float)
            Correlation coefficient and two-sided p-value.
        unknown_ratio : float
            Share of pairs with an unknown word, in percent.

        Raises
        ------
        DataError
            If the file cannot be read, or has fewer than two pairs to correlate.

        Examples
        --------
        >>> from pathlib import Path
        >>> from corpusmill import WordVectors
        >>> wv = WordVectors(["cat", "dog", "car"], [[3, 4], [4, 3], [-4, 3]])
        >>> _ = Path("pairs.tsv").write_text("cat\\tdog\\t9.1\\ncat\\tcar\\t1.2\\ndog\\tcar\\t0.7\\n")
        >>> pearson, spearman, unknown_ratio = wv.evaluate_word_pairs("pairs.tsv")
        >>> round(float(spearman[0]), 1), unknown_ratio
        (1.0, 0.0)
        """
        judged = evaluation.judge_pairs(
            self, pairs, delimiter, encoding, restrict_vocab, case_insensitive, dummy4unknown
        )
        pearson, spearman = judged.correlations()
        return pearson, spearman, 100.0 * judged.unknown / judged.total

    def evaluate_word_analogies(
        self,
        analogies: str,
        restrict_vocab: int | None = evaluation.RESTRICT_VOCAB,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
        similarity_function: Literal["most_similar", "most_similar_cosmul"] = "most_similar",
    ) -> tuple[float, list[GensimSection]]:
        """Answer analogy questions, read from lines "a b c d" in sections that begin with ": name".

        Parameters
        ----------
        analogies : str
            Path or URL of the file. A question is answered correctly if d is the word most similar to b + c - a,
            other than a, b and c.
        restrict_vocab : int or None, default=300000
            Words after the first ``restrict_vocab`` count as unknown and are no answers. None: all words are known.
        case_insensitive : bool, default=True
            Compare words in upper case; of several variants of a word the first is used.
        dummy4unknown : bool, default=False
            Count questions with an unknown word as wrong instead of skipping them.
        similarity_function : {"most_similar", "most_similar_cosmul"}, default="most_similar"
            How answers are chosen: 3CosAdd or 3CosMul. gensim always uses 3CosAdd.

        Returns
        -------
        score : float
            Share of questions answered correctly, 0 to 1.
        sections : list of dict
            For each section its name ("section") and the lists "correct" and "incorrect" of questions (a, b, c, d).
            The last one, "Total accuracy", holds all questions.

        Raises
        ------
        DataError
            If the file cannot be read, or has no question.
        ValueError
            If ``similarity_function`` is another one.

        Examples
        --------
        >>> from pathlib import Path
        >>> from corpusmill import WordVectors
        >>> words = ["man", "king", "woman", "queen"]
        >>> wv = WordVectors(words, [[1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 1, 1]])
        >>> _ = Path("questions.txt").write_text(": royalty\\nman king woman queen\\n")
        >>> score, sections = wv.evaluate_word_analogies("questions.txt")
        >>> score
        1.0
        """
        if similarity_function not in ("most_similar", "most_similar_cosmul"):
            raise ValueError(
                f"similarity_function is {similarity_function!r}: choose 'most_similar' or 'most_similar_cosmul'"
            )
        # Both kinds of answers come from one pass over the vectors. The choice is made below.
        answered = evaluation.answer_analogies(self, analogies, restrict_vocab, case_insensitive)
        multiply = similarity_function == "most_similar_cosmul"
        sections = [section.as_in_gensim(multiply, dummy4unknown) for section in answered]
        correct = [question for section in sections for question in section["correct"]]
        incorrect = [question for section in sections for question in section["incorrect"]]
        sections.append({"section": "Total accuracy", "correct": correct, "incorrect": incorrect})
        return len(correct) / max(1, len(correct) + len(incorrect)), sections


def check_word_list(words: object, name: str) -> None:
    """Raise TypeError for a string in place of a list of words: its characters would be taken for words."""
    if isinstance(words, str):
        raise TypeError(f"{name} is {words!r}: pass a list of words, such as {words.split()!r}")


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


def _format_of(path: str) -> Format:
    for ending, found in FORMATS.items():
        if str(path).endswith(ending):
            return found
    raise ValueError(f"{path}: the name of a file of word vectors ends in one of {', '.join(FORMATS)}")
