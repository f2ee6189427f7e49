"""Optional libraries: an import that fails says what to install."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager


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


def missing(library: str, package: str, purpose: str) -> ImportError:
    """Return the error of a library that is not installed, with the command that installs ``package``."""
    return ImportError(f"{purpose}: needs {library}; pip install {shlex.quote(package)}", name=library)
