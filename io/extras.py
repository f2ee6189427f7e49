"""Optional libraries: an import that fails says what to install."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

#: Libraries that fsspec imports for URLs of object stores, and the extras that install them.
FILESYSTEMS = {"s3fs": "corpusmill[s3]", "gcsfs": "corpusmill[gcs]", "adlfs": "corpusmill[azure]"}


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
        raise _missing(library, package, purpose) from None


@contextmanager
def needing_filesystem(url: str) -> Iterator[None]:
    """Raise ImportError with the command that installs the library for a URL if fsspec cannot import it."""
    try:
        yield
    except ImportError as error:
        # fsspec raises an error of its own, with a sentence that names the library.
        for library, package in FILESYSTEMS.items():
            if library in str(error):
                raise _missing(library, package, url) from None
        raise


def _missing(library: str, package: str, purpose: str) -> ImportError:
    return ImportError(f"{purpose}: needs {library}; pip install {shlex.quote(package)}", name=library)
