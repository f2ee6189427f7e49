"""How good word vectors are: similarity as people judge it, and analogies. The same figures as gensim's."""

from collections.abc import Iterator
from dataclasses import dataclass

import fsspec
import numpy as np
import scipy.stats

from ....io.stores.store import DataError
from .vectors import WordVectors

#: Only so many of the most frequent words count, unless said otherwise.
RESTRICT = 300_000
#: Questions answered at a time.
QUESTIONS = 256
#: Keeps the quotient of 3CosMul finite (Levy and Goldberg, CoNLL 2014, equation 4).
EPSILON = np.float32(1e-6)


@dataclass(frozen=True)
class PairScores:
    """Agreement with people's judgement of ``pairs`` pairs of words; ``unknown`` pairs more have an unknown word."""

    spearman: float
    pearson: float
    pairs: int
    unknown: int

    @property
    def unknown_ratio(self) -> float:
        """Share of the file's pairs that have an unknown word, in percent."""
        return 100.0 * self.unknown / (self.pairs + self.unknown)


@dataclass(frozen=True)
class Section:
    """One section's questions: how many were right by 3CosAdd and by 3CosMul, asked, and left out as unknown."""

    name: str
    correct: int
    correct_mul: int
    asked: int
    unknown: int

    @property
    def accuracy(self) -> float:
        """Share of right answers by 3CosAdd."""
        return self.correct / max(1, self.asked)

    @property
    def accuracy_mul(self) -> float:
        """Share of right answers by 3CosMul."""
        return self.correct_mul / max(1, self.asked)


@dataclass(frozen=True)
class AnalogyScores:
    """The sections of a file of analogies, and all of them together."""

    sections: list[Section]

    @property
    def total(self) -> Section:
        """The sum of the sections."""
        names = ("correct", "correct_mul", "asked", "unknown")
        return Section("total", *(sum(getattr(s, name) for s in self.sections) for name in names))


def evaluate_pairs(
    wv: WordVectors, path: str, restrict_vocab: int = RESTRICT, case_insensitive: bool = True
) -> PairScores:
    """Compare cosines with a file of lines "word TAB word TAB score"; lines with # in front are skipped.

    Raises DataError when the file cannot be read, holds no such line, or no pair of known words.
    """
    known = _known(wv, restrict_vocab, case_insensitive)
    found, judged, unknown = [], [], 0
    for line in _lines(path):
        fields = line.split("\t")
        try:
            first, second, score = fields[0], fields[1], float(fields[2])
        except (IndexError, ValueError):
            continue
        places = [known.get(_folded(word, case_insensitive)) for word in (first, second)]
        if None in places:
            unknown += 1
            continue
        found.append(wv.similarity(*(wv.index_to_key[i] for i in places if i is not None)))
        judged.append(score)
    if len(found) < 2:
        raise DataError(f"{path}: {len(found)} pairs of known words, {unknown} with an unknown one: no correlation")
    spearman, pearson = scipy.stats.spearmanr(judged, found)[0], scipy.stats.pearsonr(judged, found)[0]
    return PairScores(float(spearman), float(pearson), len(found), unknown)


def evaluate_analogies(
    wv: WordVectors, path: str, restrict_vocab: int = RESTRICT, case_insensitive: bool = True
) -> AnalogyScores:
    """Answer a file of lines "a b c d" (a is to b as c is to d) in sections that begin with ": name".

    The answer is the nearest known word other than a, b and c. Raises DataError when there is no question.
    """
    known = _known(wv, restrict_vocab, case_insensitive)
    units = wv.vectors[: min(restrict_vocab, len(wv))] / wv._norms()[: min(restrict_vocab, len(wv)), None]
    variants = _variants(wv, len(units), known, case_insensitive)
    sections = []
    for name, questions in _sections(path, case_insensitive):
        ids = [[known.get(word, -1) for word in question] for question in questions]
        asked = np.array([q for q in ids if -1 not in q], np.int64).reshape(-1, 4)
        right = [_answer(units, part, variants) for part in _batches(asked)]
        add, mul = (int(sum(counts)) for counts in zip(*right, strict=True)) if right else (0, 0)
        sections.append(Section(name, add, mul, len(asked), len(ids) - len(asked)))
    if not any(s.asked + s.unknown for s in sections):
        raise DataError(f"{path}: no analogies (lines of four words, in sections that begin with ': name')")
    return AnalogyScores(sections)


def _answer(units: np.ndarray, questions: np.ndarray, variants: dict[int, list[int]]) -> tuple[int, int]:
    """Count the right answers by 3CosAdd and by 3CosMul to questions (n, 4) of word ids."""
    a, b, c = (units[questions[:, k]] @ units.T for k in range(3))
    correct = []
    for scores in (b + c - a, (1 + b) * (1 + c) / ((1 + a) / 2 + EPSILON)):
        for row, question in zip(scores, questions, strict=True):
            for word in question[:3]:
                row[variants.get(int(word), [int(word)])] = -np.inf
        answers = scores.argmax(axis=1)
        pairs = zip(answers.tolist(), questions[:, 3].tolist(), strict=True)
        correct.append(sum(word in variants.get(wanted, [wanted]) for word, wanted in pairs))
    return correct[0], correct[1]


def _batches(questions: np.ndarray) -> Iterator[np.ndarray]:
    return (questions[i : i + QUESTIONS] for i in range(0, len(questions), QUESTIONS))


def _folded(word: str, case_insensitive: bool) -> str:
    return word.upper() if case_insensitive else word


def _known(wv: WordVectors, restrict_vocab: int, case_insensitive: bool) -> dict[str, int]:
    """Ids of words, in upper case if case does not count: the most frequent one of several."""
    words = wv.index_to_key[:restrict_vocab]
    return {_folded(words[i], case_insensitive): i for i in reversed(range(len(words)))}


def _variants(wv: WordVectors, n: int, known: dict[str, int], case_insensitive: bool) -> dict[int, list[int]]:
    """By a known word's id, the ids of all words that are the same but for case, where there are several."""
    if not case_insensitive or len(known) == n:
        return {}
    found: dict[int, list[int]] = {}
    for i, word in enumerate(wv.index_to_key[:n]):
        found.setdefault(known[word.upper()], []).append(i)
    return found


def _sections(path: str, case_insensitive: bool) -> list[tuple[str, list[list[str]]]]:
    sections: list[tuple[str, list[list[str]]]] = []
    for line in _lines(path):
        if line.startswith(": "):
            sections.append((line[2:].strip(), []))
            continue
        words = [_folded(word, case_insensitive) for word in line.split()]
        if len(words) == 4 and not sections:
            raise DataError(f"{path}: an analogy before the first section (': name')")
        if len(words) == 4:
            sections[-1][1].append(words)
    return sections


def _lines(path: str) -> Iterator[str]:
    try:
        with fsspec.open(str(path), "rt", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    return (line for line in lines if line.strip() and not line.startswith("#"))
