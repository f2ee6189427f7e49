"""What a report shows of a run or a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...topics import Topic
from ..history import MetricRow

#: A configuration or the parameters of a model: sections of keys and values, as YAML has them.
Settings = Mapping[str, object]


@dataclass(frozen=True)
class Table:
    """A table: rows of cells by heading, one cell per column."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[str]]


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
    #: The nearest words of some frequent words. Empty for models without word vectors.
    neighbours: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Factorisations that were trained side by side. None if there was only one.
    restarts: Table | None = None


def flatten(settings: Settings, above: str = "") -> dict[str, object]:
    """Return the values of nested settings by dotted keys, such as model.n_components."""
    found: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = value
    return found
