"""Quality of word vectors: agreement with human judgments of similarity, and analogies. Same figures as gensim's."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypedDict

import fsspec
import numpy as np

from ....io.errors import DataError
from ....io.stores.object_stores import explained_errors
from .similarity import COSMUL_EPSILON, row_lengths

#: Only this number of the most frequent words is used, unless the caller sets another limit.
RESTRICT_VOCAB = 300_000
#: Questions answered by one matrix product. Takes three arrays of this many rows and one column per word.
QUESTIONS_PER_BATCH = 256

#: An analogy (a, b, c, d): a is to b as c is to d.
Question = tuple[str, str, str, str]


class Vectors(Protocol):
    """What evaluation asks of word vectors."""

    index_to_key: list[str]
    vectors: np.ndarray

    def similarity(self, w1: int, w2: int) -> float:
        """Return the cosine similarity of two rows."""


class Correlation(NamedTuple):
    """A correlation coefficient, -1 to 1, and its two-sided p-value."""

    statistic: float
    pvalue: float


# --- pairs of words ---


@dataclass(frozen=True)
class JudgedPairs:
    """Human judgments and cosine similarities of the same pairs of words, in the order of a file.

    ``total`` counts all pairs of the file, and ``unknown`` those with an unknown word.
    """

    path: str
    human: list[float]
    model: list[float]
    unknown: int
    total: int

    def correlations(self) -> tuple[Correlation, Correlation]:
        """Return Pearson's and Spearman's correlation; raise DataError for fewer than two pairs."""
        if len(self.human) < 2:
            raise DataError(
                f"{self.path}: {len(self.human)} pairs of known words and {self.unknown} with an unknown word; a "
                f"correlation needs at least two pairs"
            )
        # scipy.stats takes as long to load as a third of a command such as `topics`, which also imports this module.
        from scipy.stats import pearsonr, spearmanr

        pearson = pearsonr(self.human, self.model)
        spearman = spearmanr(self.human, self.model)
        return Correlation(*map(float, pearson)), Correlation(*map(float, spearman))


def judge_pairs(
    wv: Vectors,
    path: str,
    delimiter: str = "\t",
    encoding: str = "utf-8",
    restrict_vocab: int | None = RESTRICT_VOCAB,
    case_insensitive: bool = True,
    dummy4unknown: bool = False,
) -> JudgedPairs:
    """Read pairs of words with human judgments, and compute their similarities.

    Lines that begin with #, and lines without two words and a number, are skipped. Pairs with an unknown word are
    skipped too, or have similarity 0 with ``dummy4unknown``.
    """
    row_of = _known_words(wv, restrict_vocab, case_insensitive)
    human: list[float] = []
    model: list[float] = []
    total = 0
    unknown = 0
    for line in _lines(path, encoding):
        # gensim skips lines that it cannot parse, such as headers, and so does this.
        fields = line.split(delimiter)
        try:
            judgment = float(fields[2])
        except (IndexError, ValueError):
            continue
        total += 1
        first, second = (row_of.get(_folded(word, case_insensitive)) for word in fields[:2])
        if first is not None and second is not None:
            human.append(judgment)
            model.append(wv.similarity(first, second))
            continue
        unknown += 1
        # gensim's rule: an unknown word counts as not similar to anything.
        if dummy4unknown:
            human.append(judgment)
            model.append(0.0)
    return JudgedPairs(str(path), human, model, unknown, total)


# --- analogies ---


class GensimSection(TypedDict):
    """One section in the form of gensim's ``evaluate_word_analogies``."""

    section: str
    correct: list[Question]
    incorrect: list[Question]


@dataclass(frozen=True)
class AnsweredSection:
    """One section's questions (n), and for each whether all words are known and whether the answer is correct.

    ``known``, ``correct`` and ``correct_mul`` are (n,) bool; an answer to a question with an unknown word is wrong.
    """

    name: str
    questions: list[Question]
    known: np.ndarray
    correct: np.ndarray
    correct_mul: np.ndarray

    def as_in_gensim(self, multiply: bool, dummy4unknown: bool) -> GensimSection:
        """Separate the questions by answers of 3CosMul or 3CosAdd; count unknown ones as wrong, or leave them out."""
        is_correct = self.correct_mul if multiply else self.correct
        found: GensimSection = {"section": self.name, "correct": [], "incorrect": []}
        for question, known, correct in zip(self.questions, self.known, is_correct, strict=True):
            if correct:
                found["correct"].append(question)
            elif known or dummy4unknown:
                found["incorrect"].append(question)
        return found


def answer_analogies(
    wv: Vectors, path: str, restrict_vocab: int | None = RESTRICT_VOCAB, case_insensitive: bool = True
) -> list[AnsweredSection]:
    """Answer a file of lines "a b c d" (a is to b as c is to d) in sections that begin with ": name".

    The answer is the known word other than a, b and c with the highest score: by 3CosAdd, cos(b) + cos(c) - cos(a);
    by 3CosMul, their quotient. Raises DataError when the file cannot be read or has no question.
    """
    row_of = _known_words(wv, restrict_vocab, case_insensitive)
    searched = wv.vectors[:restrict_vocab]
    units = searched / row_lengths(searched)[:, None]
    variants = _case_variants(wv, len(units), row_of, case_insensitive)
    sections = []
    for name, questions in _sections(path, case_insensitive):
        rows = [[row_of.get(word, -1) for word in question] for question in questions]
        # A section without questions has an empty list, which NumPy would make one-dimensional.
        ids = np.array(rows, np.int64).reshape(-1, 4)
        known = np.all(ids >= 0, axis=1)
        correct = np.zeros(len(ids), bool)
        correct_mul = np.zeros(len(ids), bool)
        asked = np.flatnonzero(known)
        # A batch is one matrix product: its similarities with all words must fit into memory.
        for first in range(0, len(asked), QUESTIONS_PER_BATCH):
            batch = asked[first : first + QUESTIONS_PER_BATCH]
            correct[batch], correct_mul[batch] = _are_correct(units, ids[batch], variants)
        sections.append(AnsweredSection(name, questions, known, correct, correct_mul))
    if not any(section.questions for section in sections):
        raise DataError(f"{path}: no analogies (lines of four words, in sections that begin with ': name')")
    return sections


def _are_correct(
    units: np.ndarray, questions: np.ndarray, variants: dict[int, list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Answer questions (n, 4) of rows by 3CosAdd and by 3CosMul; return whether answers are correct: (n,) bool each."""
    cos_a, cos_b, cos_c = (units[questions[:, column]] @ units.T for column in range(3))
    add = cos_b + cos_c - cos_a
    # Levy and Goldberg, equation 4, with cosines shifted to 0 to 1. Factors common to all words are left out.
    multiply = (1 + cos_b) * (1 + cos_c) / ((1 + cos_a) / 2 + COSMUL_EPSILON)
    return _answers_are_correct(add, questions, variants), _answers_are_correct(multiply, questions, variants)


def _answers_are_correct(scores: np.ndarray, questions: np.ndarray, variants: dict[int, list[int]]) -> np.ndarray:
    """Compare the words of highest score with the fourth column; overwrites the scores (n, V) of a, b and c."""
    for row, question in zip(scores, questions[:, :3].tolist(), strict=True):
        for word in question:
            row[variants.get(word, [word])] = -np.inf
    scores[np.isnan(scores)] = -np.inf
    answers = scores.argmax(axis=1).tolist()
    wanted = questions[:, 3].tolist()
    return np.array([answer in variants.get(word, [word]) for answer, word in zip(answers, wanted, strict=True)], bool)


# --- words and lines ---


def _folded(word: str, case_insensitive: bool) -> str:
    return word.upper() if case_insensitive else word


def _known_words(wv: Vectors, restrict_vocab: int | None, case_insensitive: bool) -> dict[str, int]:
    """Return the row of each word, in upper case if case is ignored; of several variants the first row."""
    words = wv.index_to_key[:restrict_vocab]
    row_of: dict[str, int] = {}
    for row, word in enumerate(words):
        row_of.setdefault(_folded(word, case_insensitive), row)
    return row_of


def _case_variants(wv: Vectors, n_words: int, row_of: dict[str, int], case_insensitive: bool) -> dict[int, list[int]]:
    """Return the rows of all words that differ only by case, by the row of the first. Empty if there are none."""
    if not case_insensitive or len(row_of) == n_words:
        return {}
    variants: dict[int, list[int]] = {}
    for row, word in enumerate(wv.index_to_key[:n_words]):
        variants.setdefault(row_of[word.upper()], []).append(row)
    return variants


def _sections(path: str, case_insensitive: bool) -> list[tuple[str, list[Question]]]:
    sections: list[tuple[str, list[Question]]] = []
    for line in _lines(path, "utf-8"):
        if line.startswith(": "):
            sections.append((line[2:].strip(), []))
            continue
        words = [_folded(word, case_insensitive) for word in line.split()]
        # gensim skips such lines as well.
        if len(words) != 4:
            continue
        if not sections:
            raise DataError(f"{path}: an analogy before the first section; a section begins with ': name'")
        sections[-1][1].append((words[0], words[1], words[2], words[3]))
    return sections


def _lines(path: str, encoding: str) -> Iterator[str]:
    """Yield the lines of a file but empty ones and comments, which begin with #."""
    opened = fsspec.open(str(path), "rt", encoding=encoding)
    try:
        with explained_errors(opened.fs, str(path)), opened as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    for line in lines:
        if line.strip() and not line.startswith("#"):
            yield line
