"""What a report shows of a run or a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from ..history import MetricRow

#: A configuration or the parameters of a model: sections of keys and values, as YAML has them.
Settings = Mapping[str, object]


class TopicWord(TypedDict):
    """One word of a topic, with its probability or, where a model has no probabilities, its weight."""

    word: str
    probability: NotRequired[float]
    weight: NotRequired[float]


class Topic(TypedDict):
    """One topic: its number, its share of all topics (0 to 1), and its heaviest words, heaviest first."""

    topic: int
    size: float
    words: list[TopicWord]


@dataclass(frozen=True)
class Contents:
    """What a report shows of one run or one model."""

    title: str
    #: One line below the title, such as the size of the corpus.
    lead: str
    #: The rows of metrics.jsonl.
    rows: Sequence[MetricRow]
    topics: Sequence[Topic] = ()
    config: Settings = field(default_factory=dict)
    #: Versions of the libraries that the run used, by name.
    versions: Mapping[str, str] = field(default_factory=dict)
