"""Word vectors for users: similarity and search, files in common formats, and evaluation."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeGuard

import numpy as np

from ....io.errors import DataError, DataWarning
from ....io.extras import needing
from ....io.messages import other_case, pluralize
from ..other_names import explain_attribute
from . import evaluation, files
from .evaluation import Correlation, Section
from .files import VectorTable
from .similarity import row_lengths, top_indices, unit_vector

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

#: A key is a word, or the index of a row.
Key = str | int | np.integer
#: One item of a query: a key or a vector (D,), optionally paired with a weight.
QueryItem = Key | np.ndarray | tuple[Key | np.ndarray, float]
Query = QueryItem | Iterable[QueryItem] | None
Ranking = list[tuple[str, float]]


class Format(NamedTuple):
    """How a file format of word vectors is written and read."""

    write: Callable[[str, VectorTable], None]
    read: Callable[[str], VectorTable]


#: Endings of word2vec's formats. Compressed files have one more.
WORD2VEC = (".txt", ".vec", ".bin")
#: Formats by the ending of a file's name.
FORMATS = {
    ".txt": Format(files.write_word2vec, files.read_word2vec),
    ".vec": Format(files.write_word2vec, files.read_word2vec),
    ".bin": Format(partial(files.write_word2vec, binary=True), partial(files.read_word2vec, binary=True)),
    ".safetensors": Format(files.write_safetensors, files.read_safetensors),
    ".parquet": Format(files.write_parquet, files.read_parquet_vectors),
    ".zarr": Format(files.write_zarr, files.read_zarr),
}


class WordVectors:
    """Vectors by word.

    Methods have the names, arguments and results of gensim's KeyedVectors, of which these are the usual ones. For all
    others, and to add or replace vectors, ``to_gensim()`` returns a KeyedVectors. Two results differ from gensim on
    purpose. A vector of zeros has similarity 0 with every vector; gensim gives NaN. Words of equal similarity are
    sorted by row; gensim's order is arbitrary.

    Parameters
    ----------
    words : sequence of str
        V distinct words, usually the most frequent first.
    vectors : array-like of shape (V, D)
        One vector per word. Converted to float32; not copied if it is a float32 array whose rows are contiguous.
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
        (V,) int64.

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
    """

    if not TYPE_CHECKING:
        __getattr__ = explain_attribute

    def __init__(
        self, words: Sequence[str], vectors: np.ndarray | Sequence[np.ndarray], counts: np.ndarray | None = None
    ):
        self.index_to_key = [str(word) for word in words]
        self.key_to_index = {word: index for index, word in enumerate(self.index_to_key)}
        self.vectors = np.asarray(vectors, np.float32)
        if self.vectors.ndim == 2 and self.vectors.strides[1] != self.vectors.itemsize:
            self.vectors = np.ascontiguousarray(self.vectors)
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
        return self.get_index(key, -1) >= 0

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

    # --- search ---

    def most_similar(
        self,
        positive: Query = None,
        negative: Query = None,
        topn: int = 10,
        *,
        restrict_vocab: int | None = None,
    ) -> Ranking:
        """Return the words most similar to a weighted mean of words and vectors.

        Parameters
        ----------
        positive, negative : str, int, numpy.ndarray, (key, weight) pair, or list of these, optional
            What to search for, and what to subtract from it. A word is a unit vector; a vector (D,) counts as it is.
            The default weight is 1 in ``positive`` and -1 in ``negative``; the weight of a pair replaces it,
            including its sign. The words given are left out of the result.
        topn : int, default=10
            Number of words to return.
        restrict_vocab : int, optional
            Search only this number of first rows, the most frequent words of a model.

        Returns
        -------
        list of (str, float)
            Words with their cosine similarities, largest first. The similarity of a vector of zeros is 0.

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
        if not isinstance(topn, Integral):
            raise ValueError(f"topn is {topn!r}: choose an integer")
        keys, weights = _weighted(_as_list(positive), _as_list(negative))
        total = np.zeros(self.vector_size, np.float32)
        for key, weight in zip(keys, weights, strict=True):
            # float32 throughout, as in gensim, so that similarities agree to the last digits.
            total += np.float32(weight) * (key if isinstance(key, np.ndarray) else self.get_vector(key, norm=True))
        # The mean, as in gensim, for the same reason.
        direction = unit_vector(total / np.float32(sum(map(abs, weights)) or 1.0))
        searched = slice(restrict_vocab or None)
        similarities = self.vectors[searched] @ direction / self._lengths[searched]
        for key in keys:
            if isinstance(key, Key) and self.get_index(key) < len(similarities):
                similarities[self.get_index(key)] = -np.inf
        top = [index for index in top_indices(similarities, topn) if similarities[index] > -np.inf]
        return [(self.index_to_key[index], float(similarities[index])) for index in top]

    # --- files ---

    def save(self, path: str) -> None:
        """Save in the format given by the ending of the name.

        .txt and .vec are word2vec's text format and .bin its binary one, which store no counts, and are compressed if
        .gz, .bz2 or .xz follows. The others store counts:
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

    @classmethod
    def load_word2vec_format(
        cls,
        fname: str,
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
        >>> wv.save("animals.txt.gz")
        >>> WordVectors.load_word2vec_format("animals.txt.gz", limit=2)
        WordVectors(2 words, 2 dimensions)
        """
        table = files.read_word2vec(fname, binary, encoding, unicode_errors, limit, no_header)
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
    def from_gensim(cls, keyed: "KeyedVectors") -> Self:
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
        lines = (line.split(delimiter) for line in evaluation.read_lines(pairs, encoding))
        return evaluation.correlate_pairs(self, pairs, lines, restrict_vocab, case_insensitive, dummy4unknown)

    def evaluate_word_analogies(
        self,
        analogies: str,
        restrict_vocab: int | None = evaluation.RESTRICT_VOCAB,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
        similarity_function: Literal["most_similar", "most_similar_cosmul"] = "most_similar",
    ) -> tuple[float, list[Section]]:
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
        sections = evaluation.answer_analogies(
            self,
            analogies,
            restrict_vocab,
            case_insensitive,
            dummy4unknown,
            multiply=similarity_function == "most_similar_cosmul",
        )
        correct = [question for section in sections for question in section["correct"]]
        incorrect = [question for section in sections for question in section["incorrect"]]
        sections.append({"section": "Total accuracy", "correct": correct, "incorrect": incorrect})
        return len(correct) / max(1, len(correct) + len(incorrect)), sections


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
    *_, before, last = "", "", *Path(path).suffixes
    ending = before if last in files.COMPRESSORS and before in WORD2VEC else last
    if ending not in FORMATS:
        raise ValueError(f"{path}: the name of a file of word vectors ends in one of {', '.join(FORMATS)}")
    return FORMATS[ending]
