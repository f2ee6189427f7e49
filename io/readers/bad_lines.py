"""Skip bad lines: rows of a file that a reader refuses, while all others are good."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from ..errors import DataError
from .batches import BadLine, Batch, ReadOptions
from .kept import KeptColumn, join_batches
from .kinds import no_values

#: Characters of a bad line that are kept.
KEPT_CHARACTERS = 10_000

#: Some consecutive lines, in the form in which a reader parses them.
Lines = TypeVar("Lines")


def parse_good_lines(
    lines: Lines,
    parse: Callable[[Lines], Batch],
    halve: Callable[[Lines], tuple[Lines, Lines] | None],
    describe: Callable[[Lines, str], BadLine],
    options: ReadOptions,
) -> Batch:
    """Return the documents of the lines that can be parsed, and descriptions of the others.

    Lines with an error among them are halved until each bad line is alone. ``halve`` returns None for one line, and
    ``describe`` is called with that line and the error.
    """
    batches = []
    waiting = [lines]
    while waiting:
        some = waiting.pop()
        try:
            batches.append(parse(some))
        except DataError as error:
            halves = halve(some)
            if halves is None:
                batches.append(without_documents([describe(some, str(error))], options))
            else:
                # The first half is parsed first.
                waiting += reversed(halves)
    return _join(batches, options)


def without_documents(bad: Sequence[BadLine], options: ReadOptions) -> Batch:
    """Return a batch that has no documents, only descriptions of bad lines."""
    content_type = pa.large_list(pa.large_string()) if options.tokens else pa.large_string()
    kept = None
    if options.keep:
        kept = {name: KeptColumn(pa.nulls(0), no_values(is_present=False)) for name in options.keep}
    return Batch(pa.array([], pa.string()), pa.array([], content_type), tuple(bad), kept)


def _join(batches: Sequence[Batch], options: ReadOptions) -> Batch:
    if len(batches) == 1:
        return batches[0]
    empty = without_documents([], options)
    keys = pa.concat_arrays([empty.keys, *(batch.keys for batch in batches)])
    content = pa.concat_arrays([empty.content, *(batch.content for batch in batches)])
    kept = join_batches([batch.kept for batch in batches if batch.kept is not None]) if options.keep else None
    return Batch(keys, content, tuple(line for batch in batches for line in batch.bad), kept)


def bad_line(file: str, line: int | None, error: str, text: bytes | str) -> BadLine:
    """Return the description of a bad line. Its beginning is kept."""
    if isinstance(text, bytes):
        text = text[: 4 * KEPT_CHARACTERS].decode("utf-8", "replace")
    return BadLine(file, line, error, text.rstrip("\r\n")[:KEPT_CHARACTERS])


def halve_block(block: tuple[bytes, int]) -> tuple[tuple[bytes, int], tuple[bytes, int]] | None:
    """Cut a block of whole lines, given with the number of its first line, at the end of a line near its middle."""
    data, line = block
    end = data.rfind(b"\n", 0, len(data) // 2) + 1
    if not end:
        end = data.find(b"\n") + 1
    if end in (0, len(data)):
        return None
    return (data[:end], line), (data[end:], line + data.count(b"\n", 0, end))
