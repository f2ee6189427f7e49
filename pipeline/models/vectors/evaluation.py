"""Quality of word vectors: agreement with human judgments of similarity, and analogies. Same figures as gensim's."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, TypedDict

import fsspec
import numpy as np

from ....io.errors import DataError
from ....io.stores.filesystems import explained_errors
from .similarity import row_lengths

#: Only this number of the most frequent words is used, unless the caller sets another limit.
RESTRICT_VOCAB = 300_000
#: Questions answered by one matrix product. Takes three arrays of this many rows and one column per word.
QUESTIONS_PER_BATCH = 256

#: Keeps the quotient of 3CosMul finite (Levy and Goldberg, CoNLL 2014, equation 4).
COSMUL_EPSILON = np.float32(1e-6)

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


def correlate_pairs(
    wv: Vectors,
    path: str,
    lines: Iterable[list[str]],
    restrict_vocab: int | None,
    case_insensitive: bool,
    dummy4unknown: bool,
) -> tuple[Correlation, Correlation, float]:
    """Correlate similarities of words with human judgments, as `WordVectors.evaluate_word_pairs` does.

    ``lines`` are the fields of the lines of the file at ``path``. Returns Pearson's and Spearman's correlation, and
    the percentage of pairs with an unknown word.
    """
    row_of = _known_words(wv, restrict_vocab, case_insensitive)
    human: list[float] = []
    model: list[float] = []
    total = 0
    unknown = 0
    for fields in lines:
        # gensim skips lines that it cannot parse, such as headers, and so does this.
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
    if len(human) < 2:
        raise DataError(
            f"{path}: {len(human)} pairs of known words and {unknown} with an unknown word; a correlation needs at "
            f"least two pairs"
        )
    # scipy.stats takes as long to load as a third of a command that imports this module.
    from scipy.stats import pearsonr, spearmanr

    pearson, spearman = (Correlation(*map(float, measure(human, model))) for measure in (pearsonr, spearmanr))
    return pearson, spearman, 100.0 * unknown / total


class Section(TypedDict):
    """The questions of one section of a file, by whether they were answered correctly."""

    section: str
    correct: list[Question]
    incorrect: list[Question]


def answer_analogies(
    wv: Vectors, path: str, restrict_vocab: int | None, case_insensitive: bool, dummy4unknown: bool, multiply: bool
) -> list[Section]:
    """Answer a file of lines "a b c d" (a is to b as c is to d) in sections that begin with ": name".

    The answer is the known word other than a, b and c with the highest score: by 3CosAdd, cos(b) + cos(c) - cos(a);
    with ``multiply`` by 3CosMul, their quotient. Questions with an unknown word are left out, or count as incorrect
    with ``dummy4unknown``. Raises DataError when the file cannot be read or has no question.
    """
    row_of = _known_words(wv, restrict_vocab, case_insensitive)
    searched = wv.vectors[:restrict_vocab]
    units = searched / row_lengths(searched)[:, None]
    variants = _case_variants(wv, len(units), row_of, case_insensitive)
    sections: list[Section] = []
    n_questions = 0
    for name, questions in _sections(path, case_insensitive):
        n_questions += len(questions)
        rows = [[row_of.get(word, -1) for word in question] for question in questions]
        # A section without questions has an empty list, which NumPy would make one-dimensional.
        ids = np.array(rows, np.int64).reshape(-1, 4)
        known = np.all(ids >= 0, axis=1)
        correct = np.zeros(len(ids), bool)
        asked = np.flatnonzero(known)
        # A batch is one matrix product: its similarities with all words must fit into memory.
        for first in range(0, len(asked), QUESTIONS_PER_BATCH):
            batch = asked[first : first + QUESTIONS_PER_BATCH]
            correct[batch] = _are_correct(_scores(units, ids[batch], multiply), ids[batch], variants)
        counted = known | dummy4unknown
        sections.append(
            {
                "section": name,
                "correct": [question for question, right in zip(questions, correct, strict=True) if right],
                "incorrect": [question for question, wrong in zip(questions, counted & ~correct, strict=True) if wrong],
            }
        )
    if not n_questions:
        raise DataError(f"{path}: no analogies (lines of four words, in sections that begin with ': name')")
    return sections


def _scores(units: np.ndarray, questions: np.ndarray, multiply: bool) -> np.ndarray:
    """Return the score of each word by 3CosAdd, or 3CosMul, for questions (n, 4) of rows: (n, V)."""
    cos_a, cos_b, cos_c = (units[questions[:, column]] @ units.T for column in range(3))
    if not multiply:
        return cos_b + cos_c - cos_a
    # Levy and Goldberg, equation 4, with cosines shifted to 0 to 1. Factors common to all words are left out.
    return (1 + cos_b) * (1 + cos_c) / ((1 + cos_a) / 2 + COSMUL_EPSILON)


def _are_correct(scores: np.ndarray, questions: np.ndarray, variants: dict[int, list[int]]) -> np.ndarray:
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
    for line in read_lines(path, "utf-8"):
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


def read_lines(path: str, encoding: str) -> Iterator[str]:
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
