"""Topics as models return them and as views show them."""

from typing import NotRequired, TypedDict


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
