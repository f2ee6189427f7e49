"""Optional libraries: an import that fails says what to install."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires, version


@contextmanager
def needing(library: str, package: str, purpose: str) -> Iterator[None]:
    """Raise ImportError with the command that installs ``package`` if an import of ``library`` in the block fails.

    An error inside an installed library is left as it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        raise missing(library, package, purpose) from None


def outdated() -> str:
    """Return a sentence about libraries that are older than corpusmill needs; empty if there are none.

    Another package that is installed into the same environment may bring them: installers do not check all packages.
    """
    found = []
    for requirement in requires("corpusmill") or []:
        bound = re.match(r"([\w.-]+)>=([\d.]+)[^;]*$", requirement)
        if bound is None:
            continue
        try:
            present = version(bound[1])
        except PackageNotFoundError:
            continue
        if _numbers(present) < _numbers(bound[2]):
            found.append(f"{bound[1]} {bound[2]} or newer, not {present}")
    if not found:
        return ""
    return (
        f"corpusmill needs {', and '.join(found)}, which another package may have brought into this environment: "
        f"install one of the two into an environment of its own"
    )


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)[:3]]


def missing(library: str, package: str, purpose: str) -> ImportError:
    """Return the error of a library that is not installed, with the command that installs ``package``."""
    return ImportError(f"{purpose}: needs {library}; pip install {shlex.quote(package)}", name=library)
