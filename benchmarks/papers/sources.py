"""Digests of the modules that measure a figure: a record keeps them, so that a page sees that a module has changed."""

import ast
import hashlib
import io
import tokenize
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "benchmarks.papers"
#: These describe figures and do not measure.
NOT_MEASURING = {f"{PACKAGE}.registry"}


def digests(run: Callable, root: Path = ROOT) -> dict[str, str]:
    """Return a digest by path of the module of a function, and of each below benchmarks/papers that it imports."""
    while isinstance(run, partial):
        run = run.func
    found: dict[str, str] = {}
    waiting = [run.__module__]
    while waiting:
        module = waiting.pop()
        path = root / f"{module.replace('.', '/')}.py"
        name = path.relative_to(root / PACKAGE.replace(".", "/")).as_posix()
        if name not in found and module not in NOT_MEASURING:
            source = path.read_bytes()
            found[name] = hashlib.sha256(code_of(source).encode()).hexdigest()[:12]
            waiting += (one for one in imported(source, module) if (root / f"{one.replace('.', '/')}.py").exists())
    return dict(sorted(found.items()))


def code_of(source: bytes) -> str:
    """Return a module without its comments, docstrings and empty lines, which change no measurement."""
    text = source.decode()
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            for row in range(docstring.lineno, docstring.end_lineno + 1):
                lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def imported(source: bytes, module: str) -> Iterator[str]:
    """Yield the names below benchmarks.papers that a module imports: modules, and what may be one."""
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = ".".join(module.split(".")[: -node.level]) if node.level else ""
            origin = ".".join(filter(None, (parent, node.module)))
            names = [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.startswith(f"{PACKAGE}."))


def changed(run: Callable, recorded: dict[str, str]) -> list[str]:
    """Return the modules whose digests differ from those of a record."""
    return [name for name, digest in digests(run).items() if recorded.get(name) != digest]
