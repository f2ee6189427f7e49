"""Topics as models return them and as views show them."""

from typing import NotRequired, TypedDict


class TopicWord(TypedDict):
    """One word of a topic. LDA gives ``probability`` and NMF gives ``weight``."""

    word: str
    probability: NotRequired[float]
    weight: NotRequired[float]


class Topic(TypedDict):
    """One topic: its number, its share of the model (0 to 1), and its heaviest words, heaviest first."""

    topic: int
    size: float
    words: list[TopicWord]
