"""Topics as models return them and as views show them."""

from typing import NamedTuple, NotRequired, TypedDict


class TopicWord(TypedDict):
    """One word of a topic. LDA gives ``probability`` and NMF gives ``weight``."""

    word: str
    probability: NotRequired[float]
    weight: NotRequired[float]


class Topic(TypedDict):
    """One topic: its number, its share of the model (0 to 1), and its heaviest words, heaviest first.

    ``name`` is the name that a user gave to it, if any.
    """

    topic: int
    name: NotRequired[str]
    size: float
    words: list[TopicWord]


def words_of(topic: Topic) -> list[str]:
    """Return the words of a topic, heaviest first."""
    return [entry["word"] for entry in topic["words"]]


def weight_of(entry: TopicWord) -> float:
    """Return the probability or the weight of a word."""
    return entry.get("probability", entry.get("weight", 0.0))


class WordList(NamedTuple):
    """Words that belong together, as a person reads them: those of a topic, or the nearest ones to a word."""

    #: The topic's share of the corpus, the component's number, or the word.
    heading: str
    words: list[str]
