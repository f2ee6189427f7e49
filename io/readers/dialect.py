"""The dialect of files of rows: where rows end, and which quote is wrong."""

import csv
import re
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..messages import line_start


class Dialect(NamedTuple):
    """How the rows of a file are written."""

    delimiter: str
    quote: str | None  # around fields, and twice within them; None: quotes are letters like others
    escape: str | None  # before a quote or a delimiter that is part of a field


def row_ends(data: np.ndarray, dialect: Dialect) -> np.ndarray | None:
    """Return where rows end in a block (n,) uint8; None unless all quotes are around fields, or twice within quotes."""
    newlines = np.flatnonzero(data == ord("\n"))
    if dialect.quote is None:
        return newlines + 1
    mark = ord(dialect.quote)
    quotes = np.flatnonzero(data == mark)
    if not len(quotes):
        return newlines + 1
    separators = [ord(dialect.delimiter), ord("\n"), mark]
    opening = quotes[::2]
    before = data[opening[opening > 0] - 1]
    closing = quotes[1::2]
    after = data[closing[closing < len(data) - 1] + 1]
    if not (np.isin(before, separators).all() and np.isin(after, [*separators, ord("\r")]).all()):
        return None
    return newlines[np.searchsorted(quotes, newlines) % 2 == 0] + 1


def python_reader(lines: Iterable[str], dialect: Dialect) -> Any:
    """Return a reader of Python's csv module. A quote that is closed within a field, or never, is an error."""
    if dialect.escape:
        # For Python, an escape drops out before any letter; for Spark and others, only before what it protects.
        protected = re.escape(f"{dialect.escape}{dialect.quote or ''}{dialect.delimiter}")
        pattern = re.compile(f"({re.escape(dialect.escape)}[{protected}\r\n])|{re.escape(dialect.escape)}")
        double = 2 * dialect.escape
        lines = (pattern.sub(lambda found: found[1] or double, line) for line in lines)
    # A limit of the whole process, which Python needs no more. On Windows, it is a number of 32 bits.
    csv.field_size_limit(2**31 - 1 if sys.platform == "win32" else sys.maxsize)
    return csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        escapechar=dialect.escape,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        strict=True,
    )


def ends_with_line(line: bytes, dialect: Dialect) -> bool:
    """Return whether a row with a wrong quote, which begins in this line, ends with it.

    Programs that do not double the quotes within a text write such rows. The row ends here if the last quote of the
    line closes a field. Otherwise the text may go on in the next line.
    """
    if dialect.quote is None:
        return False
    before, _, after = line.rpartition(dialect.quote.encode())
    separator = dialect.delimiter.encode()
    return after[:1] in (b"\r", b"\n", separator) and not before.endswith(separator)


def wrong_quote(text: bytes, dialect: Dialect, whole: str) -> tuple[int, str]:
    """Explain a row whose quotes are wrong: return the byte at which the field in question begins, and a sentence.

    ``whole`` is what ends without the quote that would close the field, such as "file".
    """
    opened, closed = last_quote(text, dialect)
    shown = line_start(text[opened:].splitlines()[0])
    if closed is None:
        return opened, f"the quote before {shown[1:]!r} is not closed until the end of the {whole}"
    after = line_start(text[closed : closed + 20].splitlines()[0])
    return opened, f"a field in quotes begins here, {shown!r}, and {after!r} follows the quote that closes it"


def last_quote(text: bytes, dialect: Dialect) -> tuple[int, int | None]:
    """Return the byte at which the first wrong field begins, and the byte after the quote that closes it.

    A field is wrong if no quote closes it, or if text follows the quote that does. The second number is None if no
    quote closes it.
    """
    mark, separator = (re.escape((one or "\0").encode()) for one in (dialect.quote, dialect.delimiter))
    inner = rb"[^" + mark + rb"]|" + mark + mark
    if dialect.escape:
        inner = re.escape(dialect.escape.encode()) + rb".|" + inner
    quoted = mark + rb"(?s:" + inner + rb")*+"
    opened = 0
    for field in re.finditer(rb"(?:^|\A|" + separator + rb")(" + quoted + rb")(" + mark + rb"?)", text, re.MULTILINE):
        opened = field.start(1)
        if not field[2]:
            return opened, None
        if text[field.end() : field.end() + 1] not in (b"", b"\r", b"\n", dialect.delimiter.encode()):
            return opened, field.end()
    return opened, None
