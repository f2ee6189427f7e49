"""The layers of a configuration: files, environment variables, and settings of the command line."""

import difflib
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

PREFIX = "CORPUSMILL_"

#: A configuration as YAML has it: nested mappings whose leaves may be anything.
Tree = dict[str, Any]


class ConfigError(Exception):
    """A configuration that cannot be used. The message names its origin, the key, the problem and the remedy."""


@dataclass(frozen=True)
class Layer:
    """The settings of one origin. ``text`` is the YAML document they were read from, if any.

    ``is_default`` marks environment variables: they are set for all commands, also for those that have no use for them.
    """

    origin: str
    tree: Tree
    text: str = ""
    is_default: bool = False

    def has(self, path: Sequence[str]) -> bool:
        """Whether this layer sets the key at ``path``."""
        tree: object = self.tree
        for key in path:
            if not isinstance(tree, dict) or key not in tree:
                return False
            tree = tree[key]
        return True

    def location(self, path: Sequence[str]) -> str:
        """Return the origin of the key at ``path``, with its line number if the layer is a file."""
        if not self.text:
            return self.origin
        line = _line_of(yaml.compose(self.text, Loader=yaml.SafeLoader), path)
        if line is None:
            return self.origin
        return f"{self.origin}, line {line}"


def _line_of(node: yaml.Node | None, path: Sequence[str]) -> int | None:
    """Return the line of the last key of ``path`` that a YAML document has; the first line is 1."""
    line = None
    for key in path:
        if not isinstance(node, yaml.MappingNode):
            return line
        for key_node, value_node in node.value:
            if key_node.value == key:
                line = key_node.start_mark.line + 1
                node = value_node
                break
        else:
            # An error about a missing key has the line of the section that lacks it.
            return line
    return line


# --- files ---


class _Loader(yaml.SafeLoader):
    """Reads YAML, but refuses a key that occurs twice in a section. YAML's loaders silently take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a section; raise ConstructorError for a repeated key."""
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                problem = f"the key {key.value!r} occurs twice in one section; remove one of them"
                raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_file(path: str | os.PathLike[str]) -> Layer:
    """Read a YAML file or, if there is none at ``path``, the configuration of that name in the package."""
    name = os.fspath(path)
    text = _read_text(name) if Path(name).exists() else _read_shipped(name)
    try:
        tree = _Loader(text).get_single_data()
    except yaml.YAMLError as error:
        raise ConfigError(_yaml_problem(name, error)) from None
    except RecursionError:
        raise ConfigError(f"{name}: not valid YAML: nested too deeply") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{name}: holds no sections; start from `corpusmill config example lda`")
    return Layer(name, tree, text)


def _read_text(name: str) -> str:
    if Path(name).is_dir():
        raise ConfigError(f"{name}: this is a folder; name a YAML file, or start from `corpusmill config example lda`")
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: cannot be read as text ({error})") from None


def _read_shipped(name: str) -> str:
    names = shipped()
    if name in names:
        return resources.files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    near = difflib.get_close_matches(name, names, 1)
    if near:
        raise ConfigError(f"{name}: no such file; did you mean {near[0]}?")
    raise ConfigError(f"{name}: no such file; configurations in the package: {', '.join(names)}")


def _yaml_problem(name: str, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"{name}, line {mark.line + 1}" if mark else name
    problem = getattr(error, "problem", None) or str(error)
    return f"{where}: not valid YAML: {problem}"


def shipped() -> list[str]:
    """Return the names of the configurations in the package, such as lda and clusters/local."""
    root = resources.files(__package__)
    files = [file.name for file in root.iterdir()]
    files += [f"clusters/{file.name}" for file in root.joinpath("clusters").iterdir()]
    # dask.yaml holds settings of Dask itself and is no configuration.
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml") and name != "dask.yaml")


# --- environment and command line ---


def environment_layers(environment: Mapping[str, str]) -> Iterator[Layer]:
    """Yield one layer per variable CORPUSMILL_SECTION__KEY=value. Names without "__" belong to other programs."""
    # A kind resets its section, so it must come before the section's other keys.
    for name in sorted(environment, key=lambda name: (not name.endswith("__KIND"), name)):
        path = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and len(path) > 1:
            yield Layer(f"environment variable {name}", _nested(path, environment[name]), is_default=True)


def setting_layers(settings: Sequence[str]) -> Iterator[Layer]:
    """Yield one layer per setting section.key=value; raise ConfigError for one without "="."""
    # A kind resets its section, so it must come before the section's other keys.
    for setting in sorted(settings, key=lambda setting: ".kind=" not in setting):
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {setting}: write it as section.key=value, such as model.n_components=50")
        yield Layer(f"--set {key}", _nested(key.strip().split("."), value))


def _nested(path: Sequence[str], text: str) -> Tree:
    """Return nested mappings with one leaf at ``path``: the YAML value of ``text``."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    # In YAML, " #" begins a comment. In a setting, it belongs to the value, such as the name of a file.
    if isinstance(value, str) and value == text.partition(" #")[0].strip():
        value = text.strip()
    for key in reversed(path):
        value = {key: value}
    return value
