"""Rules for the source code that no general linter checks."""

import ast
import graphlib
import re
import statistics

import pytest
from helpers.longest_files import RANKS
from helpers.source_tree import (
    COMPREHENSION,
    FUNCTION,
    OTHERS,
    ROOT,
    SOURCES,
    files_below,
    functions,
    imports_of,
    module_of,
    name_of,
    public,
    tree_of,
)

#: Numba's decorators. Only kernels/jit.py and kernels/cuda/jit.py use them, so that all compiler options are there.
COMPILERS = {"njit", "jit", "vectorize", "guvectorize", "stencil", "prange"}
#: Modules that run code found in data.
UNSAFE = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
#: A shape such as (D, K) or (V + 1,), or a type such as float32.
SHAPE = re.compile(r"\(([A-Z][\w + *]*|\d+|n\w*)(, *[\w + *]+)*,?\)|\b(u?int|float|bool)\d*\b")

each_source = pytest.mark.parametrize("path", SOURCES, ids=name_of)
each_file = pytest.mark.parametrize("path", [*SOURCES, *OTHERS], ids=name_of)


def is_kernel_file(path):
    return ROOT / "kernels" in path.parents


def is_compiled(node):
    return isinstance(node, FUNCTION) and any("kernel" in ast.unparse(d) for d in node.decorator_list)


def length(node):
    """Return how many lines a function has without its docstring."""
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node):
        lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    return lines


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


def clauses(comprehension):
    """Return how many ``for`` and ``if`` a comprehension has."""
    return sum(1 + len(generator.ifs) for generator in comprehension.generators)


# --- what code may use ---


@each_source
def test_numba_decorators_are_used_in_one_file_only(path):
    if path.name != "jit.py":
        found = COMPILERS & set(names_used(tree_of(path)))
        assert not found, "use kernel or vector_kernel of kernels/jit.py"


@each_source
def test_no_module_prints_or_runs_code_found_in_data(path):
    calls = [node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    called = {function.id for function in calls if isinstance(function, ast.Name)}
    assert "print" not in called, "emit an event, or use click.echo in the command line"
    found = set(names_used(tree_of(path))) & (UNSAFE | {"eval", "exec", "allow_pickle", "full_load", "unsafe_load"})
    assert not found


def test_imports_have_no_cycles():
    graph = {module_of(path): imports_of(path) for path in SOURCES}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules of a cycle


# --- what is documented ---


@each_source
def test_public_names_are_documented(path):
    assert ast.get_docstring(tree_of(path)), "the first line of a module says what it is for"
    missing = [node.name for node in public(path) if not ast.get_docstring(node)]
    assert not missing


@each_source
def test_public_kernels_document_shapes_and_types(path):
    if is_kernel_file(path):
        compiled = [node for node in public(path) if is_compiled(node)]
        silent = [node.name for node in compiled if not SHAPE.search(ast.get_docstring(node) or "")]
        assert not silent, "write shapes and types into the docstring, such as (D, K) float32"


@pytest.mark.parametrize("path", files_below(ROOT / "tests" / "helpers", pattern="*.py"), ids=name_of)
def test_helpers_of_tests_are_documented(path):
    assert ast.get_docstring(tree_of(path))
    missing = [node.name for node in tree_of(path).body if isinstance(node, FUNCTION) and not ast.get_docstring(node)]
    assert not [name for name in missing if not name.startswith("_")]


# --- how long and how dense code is ---


@each_file
def test_files_and_functions_are_short(path):
    assert len(path.read_text().splitlines()) <= 500
    assert not [node.name for node in functions(path) if length(node) >= 60]


def test_the_median_function_has_about_ten_lines():
    assert statistics.median(length(node) for path in SOURCES for node in functions(path)) <= 10


@each_source
def test_at_most_six_parameters_are_required(path):
    if is_kernel_file(path):
        return  # compiled functions take arrays one by one
    long = []
    for node in functions(path):
        if any("command(" in ast.unparse(d) for d in node.decorator_list):
            continue  # the parameters of a command are its options
        positional = [a for a in node.args.posonlyargs + node.args.args if a.arg not in ("self", "cls")]
        if len(positional) - len(node.args.defaults) > 6:
            long.append(node.name)
    assert not long, "group them in a dataclass"


@each_file
def test_conditional_expressions_are_not_nested(path):
    conditional = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.IfExp)]
    nested = []
    for node in conditional:
        inner = [part for part in ast.walk(node) if isinstance(part, ast.IfExp) and part is not node]
        nested += [f"line {node.lineno}" for _ in inner]
    assert not nested, "use if and else"


@each_file
def test_comprehensions_have_at_most_two_clauses(path):
    comprehensions = [node for node in ast.walk(tree_of(path)) if isinstance(node, COMPREHENSION)]
    assert not [f"line {node.lineno}" for node in comprehensions if clauses(node) > 2], "use a loop"


def test_there_are_no_todo_comments():
    marks = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")))
    files = [*SOURCES, *OTHERS, *files_below(ROOT / "docs", pattern="*.md"), *ROOT.glob("*.md")]
    assert not [name_of(path) for path in files if marks.search(path.read_text())]


def test_the_longest_files_of_tests_exist():
    assert [path for path in RANKS if not path.exists()] == []
