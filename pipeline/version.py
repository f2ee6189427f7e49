"""The version of this package."""

from functools import cache
from importlib.metadata import version


@cache
def corpusmill_version() -> str:
    """Return the installed version. It is read from the disk once, which takes a millisecond."""
    return version("corpusmill")
