"""The source files of the packages that ship, parsed, and the modules that each of them imports."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The folders at the root that ship, each as a package below ``corpusmill``.
PACKAGES = ("configs", "io", "kernels", "pipeline")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def files_below(*folders, pattern="*"):
    """Return the files below some folders, without what Python itself writes there."""
    found = []
    for folder in folders:
        found += [path for path in Path(folder).rglob(pattern) if path.is_file() and "__pycache__" not in path.parts]
    return sorted(found)


SOURCES = files_below(*(ROOT / package for package in PACKAGES), pattern="*.py")
#: Code that does not ship.
OTHERS = files_below(ROOT / "tests", ROOT / "benchmarks", pattern="*.py")


@cache
def tree_of(path):
    """Return the parsed file."""
    return ast.parse(path.read_text())


def name_of(path):
    """Return the path relative to the root, for the names of tests."""
    return str(path.relative_to(ROOT))


@cache
def nodes_of(tree):
    """Return all nodes of a parsed file."""
    return list(ast.walk(tree))


def functions(tree):
    """Return every function and method of a parsed file, nested ones too."""
    return [node for node in nodes_of(tree) if isinstance(node, FUNCTION)]


def is_overload(node):
    """Return whether a function is only one of several signatures of the function that follows."""
    return any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)


def public(tree):
    """Yield the functions, classes and methods of a parsed file that have no leading underscore."""
    for node in tree.body:
        if isinstance(node, (*FUNCTION, ast.ClassDef)) and not node.name.startswith("_") and not is_overload(node):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (m for m in node.body if isinstance(m, FUNCTION) and not m.name.startswith("_"))


@cache
def module_of(path):
    """Return the name of a file's module, such as ``pipeline.engine.plan``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path):
    """Return the names of the shipped modules that a file imports.

    Imports inside functions count, and those that only type checkers see. So does every string that names a module in a
    file that uses ``import_module``.
    """
    modules = _modules()
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    is_dynamic = "import_module" in path.read_text()
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("corpusmill.") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _absolute("." * node.level + (node.module or ""), package)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in modules else base)
        elif is_dynamic and isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(_absolute(node.value.partition(":")[0], package))
    return (found & modules) - {module_of(path)}


@cache
def _modules():
    return {module_of(path) for path in SOURCES}


def _absolute(name, package):
    """Return the absolute name of a module without ``corpusmill.``, given its name relative to a package."""
    tail = name.lstrip(".")
    dots = len(name) - len(tail)
    if dots == 0:
        return name.removeprefix("corpusmill.")
    parents = package.split(".")
    base = parents[: len(parents) - dots + 1]
    return ".".join([*base, tail] if tail else base)
