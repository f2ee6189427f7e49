"""Word vectors for users: the queries of gensim's KeyedVectors, files in common formats, and evaluation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, Self

import numpy as np

from ....io.errors import DataError
from ....io.extras import needing
from ..other_names import ExplainsOtherNames
from . import evaluation as word_evaluation
from .evaluation import Correlation, GensimSection
from .files import VectorTable
from .search import VectorSearch
from .storage import VectorStorage

if TYPE_CHECKING:
    from gensim.models import KeyedVectors


class GensimVectors(Protocol):
    """The attributes of gensim's KeyedVectors that are copied."""

    index_to_key: list[str]
    vectors: np.ndarray
    expandos: dict[str, np.ndarray]


class WordVectors(ExplainsOtherNames, VectorSearch, VectorStorage):
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

    def __init__(
        self, words: Sequence[str], vectors: np.ndarray | Sequence[np.ndarray], counts: np.ndarray | None = None
    ):
        super().__init__(words, np.asarray(vectors), counts)

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.vector_size} dimensions)"

    # --- files ---

    @classmethod
    def _from_table(cls, path: str, table: VectorTable) -> Self:
        try:
            return cls(*table)
        except ValueError as error:
            raise DataError(f"{path}: damaged: {error}") from None

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
        restrict_vocab: int | None = word_evaluation.RESTRICT_VOCAB,
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
        judged = word_evaluation.judge_pairs(
            self, pairs, delimiter, encoding, restrict_vocab, case_insensitive, dummy4unknown
        )
        pearson, spearman = judged.correlations()
        return pearson, spearman, 100.0 * judged.unknown / judged.total

    def evaluate_word_analogies(
        self,
        analogies: str,
        restrict_vocab: int | None = word_evaluation.RESTRICT_VOCAB,
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
        answered = word_evaluation.answer_analogies(self, analogies, restrict_vocab, case_insensitive)
        multiply = similarity_function == "most_similar_cosmul"
        sections = [section.as_in_gensim(multiply, dummy4unknown) for section in answered]
        correct = [question for section in sections for question in section["correct"]]
        incorrect = [question for section in sections for question in section["incorrect"]]
        sections.append({"section": "Total accuracy", "correct": correct, "incorrect": incorrect})
        return len(correct) / max(1, len(correct) + len(incorrect)), sections
