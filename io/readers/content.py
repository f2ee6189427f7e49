"""Check that files which are to be read as text do not hold numbers or binary data.

A model of such files trains without an error, and its words are numbers. So the format is not guessed for them.
"""

import re
from collections.abc import Sequence

from ..errors import DataError
from ..messages import line_start
from .source import SourceFile, open_file, read_some

#: The check reads the beginning of a few files only, because a source may have a million files.
_CHECKED_FILES = 5
_CHECKED_BYTES = 1 << 16

#: A line of LDA-C or svmlight: a number, then pairs such as 17:2. There may be none.
_PAIRS = re.compile(rb"\s*[+-]?[\d.]+(\s+\d+:\d+)*\s*")
#: A line of numbers only.
_NUMBERS = re.compile(rb"[\s\d.,;:eE+-]+")

_ADVICE = "choose the format with the option format"


def check_is_text(files: Sequence[SourceFile]) -> None:
    """Raise DataError if a file is binary, or if the first lines of all checked files consist of numbers."""
    lines: list[bytes] = []
    for file in files[:_CHECKED_FILES]:
        beginning = _read_beginning(file)
        if b"\0" in beginning:
            raise DataError(f"{file.url}: binary data, not text in UTF-8; {_ADVICE}, or convert the file to UTF-8")
        lines += [line for line in beginning.splitlines() if line.strip()]
    if not lines:
        return
    first = line_start(lines[0])
    if any(b":" in line for line in lines) and all(_PAIRS.fullmatch(line) for line in lines):
        raise DataError(
            f"{files[0].url}: the lines look like LDA-C or svmlight, not text ({first!r}); {_ADVICE}: lda-c if "
            f"each line begins with its number of pairs, svmlight if it begins with a label, or lines if this is text"
        )
    if all(_NUMBERS.fullmatch(line) and re.search(rb"\d", line) for line in lines):
        raise DataError(
            f"{files[0].url}: the first lines consist of numbers only ({first!r}); {_ADVICE}: lda-c, docword, "
            f"svmlight or matrixmarket for counts, lines or text if these numbers are the words"
        )


def _read_beginning(file: SourceFile) -> bytes:
    """Return the first bytes of a file, up to the end of its last complete line if it is longer."""
    with open_file(file) as stream:
        beginning = read_some(stream, _CHECKED_BYTES, file)
    if len(beginning) == _CHECKED_BYTES and b"\n" in beginning:
        return beginning[: beginning.rindex(b"\n")]
    return beginning
