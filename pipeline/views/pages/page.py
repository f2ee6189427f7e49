"""The base of all pages: what they show, templates, style and script.

A page is self-contained: it loads nothing, but the live page fetches its content. Its Content-Security-Policy allows
no script but its own, so that a word of the corpus cannot run as code even if it were not escaped.
"""

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

import yaml
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from ...topics import Topic
from ..history import MetricRow, Points

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
    #: Numbers of components, and the error of the entries that training has left out.
    left_out: Points = field(default_factory=list)


def flatten(settings: Settings, above: str = "") -> dict[str, object]:
    """Return the values of nested settings by dotted keys, such as model.n_components."""
    found: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = value
    return found


def render_template(name: str, values: Mapping[str, object], scripts: Sequence[str] = ("page.js",)) -> str:
    """Fill in a template of this folder; every value is escaped. ``scripts`` are files of this folder."""
    script = "".join(_read(file) for file in scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template(name)
        .render(
            values,
            # Both are files of this package, so they are not escaped.
            style=Markup(_read("page.css")),
            script=Markup(script),
            script_hash=f"sha256-{digest}",
        )
    )


def to_yaml(settings: Settings) -> str:
    """Return settings as YAML, in the order given."""
    return yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True, default_flow_style=False)


def _percent(share: float, digits: int = 1) -> str:
    return f"{share:.{digits}%}"


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"to_yaml": to_yaml, "percent": _percent}
    return environment


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
