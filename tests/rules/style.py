"""Rules for the source code that no general linter checks: ``make style`` prints where they are broken.

A rule for single files is a function of the parsed file that yields a line and what to do.
"""

import ast
import gc
import graphlib
import re
import statistics
import sys

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
    nodes_of,
    public,
    tree_of,
)

#: Numba's decorators. Only kernels/jit.py and kernels/cuda/jit.py use them, so that all compiler options are there.
COMPILERS = {"njit", "jit", "vectorize", "guvectorize", "stencil", "prange"}
#: Modules and functions that run code found in data.
UNSAFE = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "eval", "exec", "full_load", "unsafe_load"}
#: A shape such as (D, K) or (V + 1,), or a type such as float32.
SHAPE = re.compile(r"\(([A-Z][\w + *]*|\d+|n\w*)(, *[\w + *]+)*,?\)|\b(u?int|float|bool)\d*\b")
#: Comments that announce work. Split, so that this file has none.
MARKS = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")))
#: A longer file is worth a look.
MANY_LINES = 700
MOST_LINES_OF_A_FUNCTION = 60
#: A kernel is one loop over tokens. In functions of its own, parts of such a loop take a sixth more time.
MOST_LINES_OF_A_KERNEL = 160
MOST_PARAMETERS = 6
MOST_CLAUSES = 2
MEDIAN_LINES = 10


def names_used(tree):
    """Yield the line and each name, attribute and module that the code refers to."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                yield node.lineno, node.module.split(".")[0]
            yield from ((node.lineno, alias.name) for alias in node.names)


# --- what code may use ---


def numba_decorators(tree):
    """Numba's decorators are used in the files ``jit.py`` only."""
    for line, name in names_used(tree):
        if name in COMPILERS:
            yield line, f"{name}: use kernel or vector_kernel of kernels/jit.py"


def code_in_data(tree):
    """No module runs code found in data."""
    for line, name in names_used(tree):
        if name in UNSAFE:
            yield line, f"{name} runs code found in data"
    for node in nodes_of(tree):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            yield node.lineno, "allow_pickle runs code found in data"


def changed_clocks(tree):
    """Tests replace the clock of the package only, because event loops use that of Python."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr") and node.args:
            target = ast.unparse(node.args[0])
            if target == "time" or target.endswith(".time"):
                yield node.lineno, f"{target} is changed for the event loops too: use replace_clock of helpers/clock.py"


def cycles(modules):
    """Yield the modules of a cycle of imports, given which modules each one imports."""
    try:
        graphlib.TopologicalSorter(modules).prepare()
    except graphlib.CycleError as error:
        yield " -> ".join(error.args[1])


# --- what is documented. Ruff's rules D demand that public names are ---


def kernels_without_shapes(tree):
    """The docstrings of public kernels have the shapes and types of arrays."""
    for node in public(tree):
        compiled = isinstance(node, FUNCTION) and any("kernel" in ast.unparse(d) for d in node.decorator_list)
        if compiled and not SHAPE.search(ast.get_docstring(node) or ""):
            yield node.lineno, f"{node.name}: write shapes and types into the docstring, such as (D, K) float32"


# --- how long and how dense code is ---


def length(function):
    """Return how many lines a function has without its docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function):
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


def long_functions(tree):
    """Functions are short."""
    for node in functions(tree):
        is_kernel = any(ast.unparse(decorator) == "kernel" for decorator in node.decorator_list)
        most = MOST_LINES_OF_A_KERNEL if is_kernel else MOST_LINES_OF_A_FUNCTION
        if length(node) >= most:
            yield node.lineno, f"{node.name} has {length(node)} lines: split it at {most}"


def many_parameters(tree):
    """At most six parameters are required. Those of a command are its options."""
    for node in functions(tree):
        is_command = any("command(" in ast.unparse(d) for d in node.decorator_list)
        positional = [a for a in node.args.posonlyargs + node.args.args if a.arg not in ("self", "cls")]
        required = len(positional) - len(node.args.defaults)
        if required > MOST_PARAMETERS and not is_command:
            yield node.lineno, f"{node.name} requires {required} parameters: group them in a dataclass"


def nested_conditionals(tree):
    """Conditional expressions are not nested."""
    for node in nodes_of(tree):
        if isinstance(node, ast.IfExp):
            inner = [part for part in ast.walk(node) if isinstance(part, ast.IfExp) and part is not node]
            if inner:
                yield node.lineno, "a conditional expression in another one: use if and else"


def long_comprehensions(tree):
    """Comprehensions have at most two clauses: ``for`` or ``if``."""
    for node in nodes_of(tree):
        if isinstance(node, COMPREHENSION):
            clauses = sum(1 + len(generator.ifs) for generator in node.generators)
            if clauses > MOST_CLAUSES:
                yield node.lineno, f"a comprehension with {clauses} clauses: use a loop"


def announced_work(text):
    """Comments announce no work."""
    for found in MARKS.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, f"{found[0]}: do it, or leave it out"


# --- all rules on all files ---

KERNELS = [path for path in SOURCES if path.is_relative_to(ROOT / "kernels")]
EVERYTHING = [*SOURCES, *OTHERS]
PAGES = [*files_below(ROOT / "docs", pattern="*.md"), *ROOT.glob("*.md")]
#: The files for which a rule holds. Kernels take arrays one by one.
RULES = {
    numba_decorators: [path for path in SOURCES if path.name != "jit.py"],
    code_in_data: SOURCES,
    changed_clocks: EVERYTHING,
    kernels_without_shapes: KERNELS,
    long_functions: EVERYTHING,
    many_parameters: [path for path in SOURCES if path not in KERNELS],
    nested_conditionals: EVERYTHING,
    long_comprehensions: EVERYTHING,
}


def findings():
    """Yield a line of text for each place where a rule is broken."""
    for rule, paths in RULES.items():
        for path in paths:
            yield from (f"{name_of(path)}:{line}: {message}" for line, message in rule(tree_of(path)))
    for path in [*EVERYTHING, *PAGES]:
        yield from (f"{name_of(path)}:{line}: {message}" for line, message in announced_work(path.read_text()))
    yield from (f"a cycle of imports: {cycle}" for cycle in cycles({module_of(p): imports_of(p) for p in SOURCES}))
    median = statistics.median(length(node) for path in SOURCES for node in functions(tree_of(path)))
    if median > MEDIAN_LINES:
        yield f"the median function has {median} lines, more than {MEDIAN_LINES}"


def warnings():
    """Yield a line of text for each file that is so long that it may have more than one subject."""
    for path in EVERYTHING:
        lines = len(path.read_text().splitlines())
        if lines > MANY_LINES:
            yield f"{name_of(path)}:{lines}: warning: more than {MANY_LINES} lines"


def main():
    """Print what was found, and return the exit status."""
    for warning in warnings():
        print(warning)
    found = list(findings())
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    gc.disable()  # all parsed files stay
    sys.exit(main())
