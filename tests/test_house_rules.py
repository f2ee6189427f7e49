"""The rules of the house that no general linter knows."""

import ast
import re
import statistics
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("configs", "io", "kernels", "pipeline")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in SOURCES}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Compiled into machine code by options that stand in kernels/jit.py and kernels/cuda/jit.py alone.
COMPILERS = {"njit", "jit", "vectorize", "guvectorize", "stencil", "prange"}
#: Modules that run code found in data.
UNSAFE = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
SHAPE = re.compile(r"\(([A-Z][\w + *]*|\d+|n\w*)(, *[\w + *]+)*,?\)|\b(u?int|float|bool)\d*\b")

each_source = pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))


def functions(path):
    return [node for node in ast.walk(TREES[path]) if isinstance(node, FUNCTION)]


def public(path):
    """Yield what other modules may use: functions, classes and their methods without a leading underscore."""
    for node in TREES[path].body:
        if isinstance(node, (*FUNCTION, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (m for m in node.body if isinstance(m, FUNCTION) and not m.name.startswith("_"))


def is_compiled(node):
    return isinstance(node, FUNCTION) and any("kernel" in ast.unparse(d) for d in node.decorator_list)


def length(node):
    return node.end_lineno - node.lineno + 1


def names_used(tree):
    """Yield every name, attribute and module that the code refers to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                yield node.module.split(".")[0]
            yield from (alias.name for alias in node.names)


@each_source
def test_compiler_options_stand_in_one_file(path):
    if path.name != "jit.py":
        found = COMPILERS & set(names_used(TREES[path]))
        assert not found, "take kernel or vector_kernel from kernels/jit.py"


@each_source
def test_nothing_prints_and_nothing_runs_what_it_reads(path):
    called = {node.func.id for node in ast.walk(TREES[path]) if isinstance(node, ast.Call) and hasattr(node.func, "id")}
    assert "print" not in called, "tell events, or use click.echo in the command line"
    found = set(names_used(TREES[path])) & (UNSAFE | {"eval", "exec", "allow_pickle", "full_load", "unsafe_load"})
    assert not found


@each_source
def test_public_names_are_documented(path):
    assert ast.get_docstring(TREES[path]), "the module's first line says what it is for"
    missing = [node.name for node in public(path) if not ast.get_docstring(node)]
    assert not missing


@each_source
def test_public_kernels_say_shapes_and_types(path):
    if (ROOT / "kernels") in path.parents:
        silent = [
            node.name for node in public(path) if is_compiled(node) and not SHAPE.search(ast.get_docstring(node) or "")
        ]
        assert not silent, "say shapes and types, such as (D, K) float32"


@each_source
def test_files_and_functions_are_short(path):
    assert len(path.read_text().splitlines()) <= 500
    assert not [node.name for node in functions(path) if length(node) >= 80]


@each_source
def test_six_parameters_must_be_given_at_most(path):
    if (ROOT / "kernels") in path.parents:
        return  # arrays travel one by one through compiled code
    greedy = []
    for node in functions(path):
        if any("command(" in ast.unparse(d) for d in node.decorator_list):
            continue  # a command's parameters are its options
        required = [a for a in node.args.posonlyargs + node.args.args if a.arg not in ("self", "cls")]
        optional = len(node.args.defaults)
        if len(required) - optional > 6:
            greedy.append(node.name)
    assert not greedy, "group them in a dataclass"


def test_the_median_function_is_about_ten_lines():
    assert statistics.median(length(node) for path in SOURCES for node in functions(path)) <= 12


def test_nothing_is_left_for_later():
    marks = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")))
    files = [*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*"), *ROOT.glob("*.md")]
    left = [str(path) for path in files if path.is_file() and marks.search(path.read_text(errors="replace"))]
    assert not left


def test_what_is_installed_is_all_that_is_here():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    files = [p for room in ROOMS for p in (ROOT / room).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    for path in files:
        package = ".".join(("corpusmill", *path.parent.relative_to(ROOT).parts))
        patterns = settings["package-data"].get(package, [])
        assert package in settings["packages"], path
        assert path.suffix == ".py" or any(path.match(pattern) for pattern in patterns), path
