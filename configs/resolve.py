"""From layers to one checked configuration: defaults, then the file, the environment, and what --set says.

A later layer that names another ``kind`` of model or cluster starts that section anew. An error is one sentence: where
it was said (file and line, variable, option), which key, what is wrong, and the way out.
"""

import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from .schema import Config

PREFIX = "CORPUSMILL_"
SECRET = re.compile(r"(?i)(pass(word|wd|phrase)|secret|credential|(^|_)token|(api|access|account)_?key)$")
#: NAME=value inside a longer text, and user:password@ inside a URL.
SECRET_TEXT = re.compile(
    r"(?i)(\w*(?:password|secret|token|access_key|api_key)\w*\s*[=:]\s*)\S+"
    r"|(?<=://)(?:[^/@\s:]*:(?!\d+/)[^@\s]+|[^/@\s]+)(?=@)"  # a password may have a slash
)
HIDDEN = "(hidden)"

Tree = dict[str, Any]


class ConfigError(Exception):
    """A configuration that cannot be used; the sentence says where, which key, what is wrong and the way out."""


@dataclass(frozen=True)
class Layer:
    """Settings of one origin; later layers win."""

    origin: str
    tree: Tree
    text: str = ""

    def where(self, path: Sequence[str]) -> str:
        """Name the place where ``path`` was said."""
        line = _line(yaml.compose(self.text, Loader=yaml.SafeLoader), path) if self.text else None
        return f"{self.origin}, line {line}" if line else self.origin


def load(
    files: Sequence[str | os.PathLike[str] | Layer],
    settings: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
    arguments: Tree | None = None,
) -> Config:
    """Read files (or take the names of configurations that ship), then put the environment over them, then settings.

    ``settings``: as ``a.b=c``. ``arguments``: what a command's own arguments say; nothing overrides it. Raises
    ConfigError.
    """
    read = [file if isinstance(file, Layer) else read_file(file) for file in files]
    said = [Layer("the command's arguments", arguments)] if arguments else []
    return resolve([*read, *environment_layers(environment), *setting_layers(settings), *said])


def resolve(layers: Sequence[Layer]) -> Config:
    """Merge layers and check the whole; raise ConfigError."""
    merged: Tree = {}
    for layer in layers:
        merged = _merge(merged, layer.tree)
    try:
        return Config.model_validate(_with_kinds(merged))
    except ValidationError as error:
        raise ConfigError(_sentence(error, merged, layers)) from None


def read_file(path: str | os.PathLike[str]) -> Layer:
    """Read a YAML file, or the shipped configuration of that name."""
    name = os.fspath(path)
    file = Path(name)
    if not file.exists():
        if name not in shipped():
            near = difflib.get_close_matches(name, shipped(), 1)
            hint = f"did you mean {near[0]}?" if near else f"configurations that ship: {', '.join(shipped())}"
            raise ConfigError(f"{name}: no such file; {hint}")
        text = resources.files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    else:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{name}: cannot be read as text ({error})") from None
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}, line {mark.line + 1}" if mark else name
        raise ConfigError(f"{where}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{name}: holds no sections; start from `corpusmill config example lda`")
    return Layer(name, tree, text)


def shipped() -> list[str]:
    """Names of the configurations that ship."""
    root = resources.files(__package__)
    files = [f.name for f in root.iterdir()] + [f"clusters/{f.name}" for f in root.joinpath("clusters").iterdir()]
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml") and name != "dask.yaml")


def environment_layers(environment: Mapping[str, str]) -> Iterator[Layer]:
    """Take CORPUSMILL_SECTION__KEY=value; variables without a double underscore are not ours."""
    for name in sorted(environment, key=lambda name: (not name.endswith("__KIND"), name)):
        path = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and len(path) > 1:
            yield Layer(f"environment variable {name}", _nested(path, environment[name]))


def setting_layers(settings: Sequence[str]) -> Iterator[Layer]:
    """Take section.key=value; kinds come first, since they start a section anew."""
    for setting in sorted(settings, key=lambda setting: ".kind=" not in setting):
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {setting}: write it as section.key=value, such as model.n_components=50")
        yield Layer(f"--set {key}", _nested(key.strip().split("."), value))


def public(config: Config) -> Tree:
    """Return the configuration as plain data in which nothing secret is left, for printing and for storing."""
    return _hide(config.model_dump(mode="json"))


def _hide(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _hide(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_hide(v, name) for v in value]
    if isinstance(value, str):
        return HIDDEN if SECRET.search(name) else SECRET_TEXT.sub(lambda m: (m[1] or "") + HIDDEN, value)
    return value


def _nested(path: Sequence[str], text: str) -> Tree:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    for key in reversed(path):
        value = {key: value}
    return value


def _merge(under: Tree, over: Tree) -> Tree:
    merged = dict(under)
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(value, dict) and isinstance(old, dict) and value.get("kind", old.get("kind")) == old.get("kind"):
            value = _merge(old, value)
        merged[key] = value
    return merged


def _with_kinds(tree: Tree) -> Tree:
    """Let ``model`` and ``cluster`` leave out their kind: it is then the default one."""
    defaults = {"model": "lda", "cluster": "local"}
    return tree | {k: {"kind": d} | tree[k] for k, d in defaults.items() if isinstance(tree.get(k), dict)}


# --- sentences ---


def _sentence(error: ValidationError, merged: Tree, layers: Sequence[Layer]) -> str:
    errors = [(_path_of(e, merged), e) for e in error.errors(include_url=False)]
    path = errors[0][0]
    problem = _problem([e for p, e in errors if p == path], path, merged)
    where = next((layer.where(path) for layer in reversed(layers) if _has(layer.tree, path)), layers[0].origin)
    others = len({tuple(p) for p, _ in errors}) - 1
    return f"{where}: {'.'.join(path)}: {problem}" + (f" (and {others} more)" if others else "")


def _path_of(error: Any, merged: Tree) -> list[str]:
    path = _known_part(error["loc"], merged)
    if error["type"] == "missing":
        return [*path, str(error["loc"][-1])]
    return [*path, "kind"] if error["type"] == "union_tag_invalid" else path


def _known_part(location: tuple[int | str, ...], tree: Any) -> list[str]:
    """Drop what pydantic adds to a location: the kind of a section, the branch of a union."""
    path = []
    for part in location:
        if isinstance(tree, dict) and part in tree:
            path.append(str(part))
            tree = tree[part]
    return path


def _problem(errors: Sequence[Any], path: list[str], merged: Tree) -> str:
    """Say what is wrong with one key, from all that pydantic says of it (one for each branch of a union)."""
    first = errors[0]
    if first["type"] == "extra_forbidden":
        return f"no such key{_nearest(path, merged)}"
    if first["type"] == "missing":
        return "is needed"
    if first["type"] == "union_tag_invalid":
        return f"no kind {first['ctx']['tag']}; choose one of {first['ctx']['expected_tags']}"
    if first["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return "should be a section of keys and values"
    wanted = " or ".join(dict.fromkeys(e["msg"].removeprefix("Input should be ").split(", unable")[0] for e in errors))
    return f"{json.dumps(_hide(first['input'], path[-1]), default=str)} should be {wanted}"


def _nearest(path: list[str], merged: Tree) -> str:
    """Suggest a key: one of this section that reads alike, or the same key of another section."""
    section = _class_at(path[:-1], merged)
    known = sorted(section.model_fields) if section else []
    near = difflib.get_close_matches(path[-1], known, 1)
    if near:
        return f"; did you mean {near[0]}?"
    for name in Config.model_fields:
        other = _class_at([name], merged)
        if other and path[-1] in other.model_fields:
            return f"; did you mean {name}.{path[-1]}?"
    return f"; {'.'.join(path[:-1]) or 'a configuration'} has {', '.join(known)}"


def _class_at(path: Sequence[str], merged: Tree) -> type[BaseModel] | None:
    """Return the class that checks the section at ``path``; the kind decides where there are several."""
    if not path:
        return Config
    field = Config.model_fields.get(path[0])
    if field is None or len(path) > 1:
        return None
    classes = [c for c in (get_args(field.annotation) or (field.annotation,)) if c is not type(None)]
    kind = _with_kinds(merged).get(path[0], {}).get("kind") if len(classes) > 1 else None
    return next((c for c in classes if kind is None or c.model_fields["kind"].default == kind), None)


def _has(tree: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(tree, dict) or key not in tree:
            return False
        tree = tree[key]
    return True


def _line(node: yaml.Node | None, path: Sequence[str]) -> int | None:
    """Return the line of the last key of ``path`` in a YAML document."""
    line = None
    for key in path:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        found = next(((k, v) for k, v in pairs if k.value == key), None)
        if found is None:
            return line
        line, node = found[0].start_mark.line + 1, found[1]
    return line
