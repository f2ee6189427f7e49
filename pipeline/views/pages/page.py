"""The base of all pages: templates, style and script.

A page is self-contained: it loads nothing, but the live page fetches its content. Its Content-Security-Policy allows
no script but its own, so that a word of the corpus cannot run as code even if it were not escaped.
"""

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources

import yaml
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from .contents import Settings


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


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["to_yaml"] = to_yaml
    return environment


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
