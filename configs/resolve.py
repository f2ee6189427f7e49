"""From layers to one checked configuration: files first, then the environment, --set, and a command's arguments.

A later layer that names another ``kind`` of model or cluster replaces that section instead of merging into it. Another
kind of model also resets ``retrain.model``, which holds parameters of the model.
"""

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from .layers import ConfigError, Layer, Tree, environment_layers, read_file, setting_layers
from .model_schema import kind_tag
from .redact import redact
from .schema import Config
from .validation import describe_values

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

#: Kinds of the sections that may leave theirs out.
DEFAULT_KINDS = {"model": "lda", "cluster": "local"}
#: Longest value that a message repeats, in characters.
_LONGEST_VALUE = 80
#: Share of equal letters from which a known key is suggested. It is above that of n_topics and n_blocks.
_SIMILAR = 0.7


def load(
    files: Sequence[str | os.PathLike[str] | Layer],
    settings: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
    arguments: Tree | None = None,
) -> Config:
    """Read and merge all layers, check the result and return it; raise ConfigError.

    ``files``: paths, names of configurations in the package, or layers. ``settings``: section.key=value each.
    ``arguments``: settings that a command's own arguments imply; nothing overrides them.
    """
    layers = [file if isinstance(file, Layer) else read_file(file) for file in files]
    # The order is the precedence: later layers override earlier ones.
    layers += environment_layers(environment)
    layers += setting_layers(settings)
    if arguments:
        layers.append(Layer("the command's arguments", arguments))
    return resolve(layers)


def resolve(layers: Sequence[Layer]) -> Config:
    """Merge layers, later ones over earlier ones, and check the result; raise ConfigError."""
    merged: Tree = {}
    for layer in layers:
        merged = _merge(_without_stale_overrides(merged, layer.tree), layer.tree)
    merged = _with_kinds(_without_incomplete_source(merged, layers))
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_describe_error(error, merged, layers)) from None


def without_secrets(config: Config) -> Tree:
    """Return the configuration as plain data without secrets, for printing and for storing."""
    return cast(Tree, redact(config.model_dump(mode="json")))


def _merge(under: Tree, over: Tree) -> Tree:
    merged = dict(under)
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(value, dict) and isinstance(old, dict) and not _changes_kind(key, old, value):
            value = _merge(old, value)
        merged[key] = value
    return merged


def _without_stale_overrides(under: Tree, over: Tree) -> Tree:
    """Return ``under``, without retrain.model if ``over`` names another kind of model.

    retrain.model has parameters of the old kind, which the new one may not have.
    """
    old = under.get("model")
    new = over.get("model")
    retrain = under.get("retrain")
    if not (isinstance(old, dict) and isinstance(new, dict) and isinstance(retrain, dict)):
        return under
    if not _changes_kind("model", old, new):
        return under
    return under | {"retrain": {key: value for key, value in retrain.items() if key != "model"}}


def _without_incomplete_source(merged: Tree, layers: Sequence[Layer]) -> Tree:
    """Drop the section source if only environment variables set it, and none of them sets its path.

    Most commands read no source. A variable such as CORPUSMILL_SOURCE__MIN_DF must not make them fail.
    """
    source = merged.get("source")
    if not isinstance(source, dict) or "path" in source:
        return merged
    if any("source" in layer.tree for layer in layers if not layer.is_default):
        return merged
    return {name: section for name, section in merged.items() if name != "source"}


def _changes_kind(key: str, old: Tree, new: Tree) -> bool:
    return "kind" in new and new["kind"] != old.get("kind", DEFAULT_KINDS.get(key))


def _with_kinds(tree: Tree) -> Tree:
    """Add the default kind to the sections that leave it out."""
    completed = dict(tree)
    for name, kind in DEFAULT_KINDS.items():
        if isinstance(tree.get(name), dict):
            completed[name] = {"kind": kind} | tree[name]
    return completed


# --- errors in one sentence: where a key was set, which key, what is wrong, and what is allowed ---


def _describe_error(error: ValidationError, merged: Tree, layers: Sequence[Layer]) -> str:
    """Return a sentence about the first error. ``merged`` is the configuration that all ``layers`` add up to."""
    errors = error.errors(include_url=False)
    first = errors[0]
    path = _path_of(first, merged)
    # A value that fits no branch of a union has one error per branch, all with the same path.
    others = len({tuple(_path_of(each, merged)) for each in errors}) - 1
    more = f" (and {others} more)" if others else ""
    return f"{_location(path, layers)}: {'.'.join(path)}: {_problem(first, path, merged)}{more}"


def _location(path: Sequence[str], layers: Sequence[Layer]) -> str:
    for layer in reversed(layers):
        if layer.has(path):
            return layer.location(path)
    return layers[0].origin


def _path_of(error: "ErrorDetails", merged: Tree) -> list[str]:
    """Return the keys that lead to the error, without what pydantic adds: a section's kind, a union's branch."""
    path = []
    tree: object = merged
    for part in error["loc"]:
        # Parts that are not keys of the configuration name a branch of pydantic's schema.
        if isinstance(tree, dict) and part in tree:
            path.append(str(part))
            tree = tree[part]
    if error["type"] == "missing":
        path.append(str(error["loc"][-1]))
    if error["type"] == "union_tag_invalid":
        path.append("kind")
    return path


def _problem(error: "ErrorDetails", path: list[str], merged: Tree) -> str:
    match error["type"]:
        case "extra_forbidden":
            return f"no such key; {_suggest_key(path, merged)}"
        case "missing":
            return "is needed"
        case "union_tag_invalid":
            kinds = error["ctx"]["expected_tags"].replace("'own'", "module:class").replace("'", "")
            return f"no kind {error['ctx']['tag']}; choose one of {kinds}"
        case "value_error":
            # A rule about several parameters, with a sentence of its own.
            return str(error["ctx"]["error"])
    value = json.dumps(redact(_value_at(path, merged), path[-1]), default=str)
    if len(value) > _LONGEST_VALUE:
        value = value[:_LONGEST_VALUE] + "..."
    return f"{value} is not allowed; choose {_allowed_values(path, merged)}"


def _allowed_values(path: list[str], merged: Tree) -> str:
    field = _field_at(path, merged)
    if field is None:
        return "a section of keys and values"
    # The description is in Python's words; a configuration is written in YAML's.
    return describe_values(field).replace("None", "null").replace("True or False", "true or false")


def _suggest_key(path: list[str], merged: Tree) -> str:
    """Suggest a similar key of the same section, or the same key in another section, or list the known keys."""
    section = _section_at(path[:-1], merged)
    known = sorted(section.model_fields) if section else []
    near = difflib.get_close_matches(path[-1], known, 1, _SIMILAR)
    if near:
        return f"did you mean {near[0]}?"
    for name in Config.model_fields:
        other = _section_at([name], merged)
        if other and path[-1] in other.model_fields:
            return f"did you mean {name}.{path[-1]}?"
    kind = _value_at([*path[:-1], "kind"], merged)
    of_kind = f" of kind {kind}" if "kind" in known and kind else ""
    return f"{'.'.join(path[:-1]) or 'a configuration'}{of_kind} has {', '.join(known)}"


# --- the schema at a path ---


def _value_at(path: Sequence[str], tree: object) -> object:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _field_at(path: Sequence[str], merged: Tree) -> "FieldInfo | None":
    section = _section_at(path[:-1], merged)
    if section is None:
        return None
    return section.model_fields.get(path[-1])


def _section_at(path: Sequence[str], merged: Tree) -> type[BaseModel] | None:
    """Return the class that checks the section at ``path``, or None if there is no section."""
    section: type[BaseModel] | None = Config
    tree: object = merged
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
        field = section.model_fields.get(key) if section else None
        section = _section_of(field, tree) if field else None
    return section


def _section_of(field: "FieldInfo", tree: object) -> type[BaseModel] | None:
    """Return a field's class. Where there are several, the ``kind`` in ``tree`` decides, or else the first is taken."""
    annotated = get_args(field.annotation) or (field.annotation,)
    options = [get_args(option)[0] if get_origin(option) is Annotated else option for option in annotated]
    classes = [option for option in options if isinstance(option, type) and issubclass(option, BaseModel)]
    kind = tree.get("kind") if isinstance(tree, dict) else None
    for each in classes:
        if len(classes) == 1 or kind is None or kind_tag(each.model_fields["kind"].default) == kind_tag(kind):
            return each
    return None
