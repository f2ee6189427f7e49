"""From layers to one checked configuration: files first, then the environment, --set, and a command's arguments.

A later layer that names another ``kind`` of model or cluster replaces that section instead of merging into it. Another
kind of model also resets ``retrain.model``, which holds parameters of the model.
"""

import os
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import ValidationError

from .layers import ConfigError, Layer, Tree, environment_layers, read_file, setting_layers
from .messages import describe_error
from .redact import redact
from .schema import Config

#: Kinds of the sections that may leave theirs out.
DEFAULT_KINDS = {"model": "lda", "cluster": "local"}


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
        raise ConfigError(describe_error(error, merged, layers)) from None


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
