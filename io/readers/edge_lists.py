"""How edges are read, and the reader of lists of pairs as text."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..errors import DataError
from ..messages import line_start
from .source import Partition, SourceFile, line_blocks

#: Usual names of the columns of an edge's two nodes, in lower case.
_USUAL_NAMES = (
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("node1", "node2"),
    ("node_1", "node_2"),
    ("head", "tail"),
    ("source_id", "target_id"),
    ("from_id", "to_id"),
    ("from_node", "to_node"),
    ("user", "item"),
)


@dataclass(frozen=True)
class EdgeOptions:
    """How edges are read."""

    format: str = "auto"  # by the file's extension; a file with any other extension is a list of edges
    directed: bool = False
    weighted: bool | None = None  # False ignores weights; None uses weights if there are any
    header: bool | None = None  # whether the first line of a list names its columns; None: found out
    source: str | None = None  # Parquet column of an edge's first node; None: by a usual name, or the first column
    target: str | None = None  # Parquet column of an edge's second node; None: by a usual name, or the second column
    weight: str = "weight"  # Parquet column, or attribute of networkx's edges, of the weights, if it exists


def usual_columns(names: Sequence[str]) -> list[int] | None:
    """Return the positions of an edge's two nodes, and of its weight if there is one, among the names of columns.

    None unless the columns of the nodes have usual names.
    """
    positions = {name.lower(): position for position, name in enumerate(names)}
    for pair in _USUAL_NAMES:
        if all(name in positions for name in pair):
            return [positions[name] for name in (*pair, "weight") if name in positions]
    return None


_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf)", re.IGNORECASE)
#: Lines after the first that are compared with it, to find out whether it is a header.
_LINES_BELOW_HEADER = 100


class Pairs(NamedTuple):
    """Some edges of a list. N edges."""

    source: pa.Array  # (N,) string: name of the first node
    target: pa.Array  # (N,) string: name of the second node
    weight: np.ndarray | None  # (N,) float64


class _ListFormat(NamedTuple):
    """How the lines of a list are written."""

    delimiter: bytes
    n_fields: int  # of a line
    columns: list[int]  # positions of an edge's two nodes, and of its weight if there is one
    has_header: bool = False


def read_list(file: SourceFile, options: EdgeOptions) -> Iterator[Pairs]:
    """Read lines of two names and maybe a weight, separated by tabs, commas or spaces.

    If the first line has usual names of columns, they may be in any order, and other columns are skipped. Lines that
    begin with # or % are comments. Blanks around a name do not count. Between commas, a name may be in quotes, as in
    Python's module csv.
    """
    list_format = None
    for data, line in line_blocks(file, Partition(file)):
        # Comments and blanks become empty lines, so that the other lines keep their numbers.
        text = re.sub(rb"(?m)^[ \t]*([#%].*|\r?$)|\r$", b"", data)
        if not text.strip():
            continue
        if list_format is None:
            number, first = next((number, one) for number, one in enumerate(text.split(b"\n"), line) if one.strip())
            list_format = _list_format(file, text, first, number, options)
            if list_format.has_header:
                text = text.replace(first, b"", 1)
        yield _parse(file, text, line, list_format)


def _list_format(file: SourceFile, text: bytes, first: bytes, number: int, options: EdgeOptions) -> _ListFormat:
    """Return the format of a list from its first line, which is line ``number`` of the file, and those below."""
    delimiter = next((one for one in (b"\t", b",") if one in first), b" ")
    fields = _fields(first, delimiter)
    _check_quotes(file, first, number, fields)
    # The lines below the header are near the start.
    lines = [_fields(one, delimiter) for one in text[: 1 << 16].split(b"\n") if one.strip()]
    below = lines[1 : 1 + _LINES_BELOW_HEADER]
    plain = _ListFormat(delimiter, len(fields), list(range(len(fields))))
    columns = None if options.header is False else usual_columns([field.decode("latin-1") for field in fields])
    if columns and (options.header or not _may_be_edge(plain, fields, columns, below)):
        if columns == [0, 1] and len(fields) == 3 and options.weighted is not False and _are_numbers(below, 2):
            raise DataError(
                f"{file.url}, line {number}: the numbers of the column {line_start(fields[2])!r} may be weights: call "
                f"it weight, or ignore it with --unweighted (in Python, ingest_graph(..., weighted=False))"
            )
        return _ListFormat(delimiter, len(fields), columns, True)
    if len(fields) not in (2, 3) or not all(fields):
        further = "; if there are more columns, name these three source, target and weight in the first line"
        raise DataError(
            f"{file.url}, line {number}: an edge is two names and maybe a weight, separated by tabs, commas or spaces, "
            f"not {line_start(first)!r}{_hint(first) or (further if len(fields) > 2 else '')}"
        )
    return plain._replace(has_header=_is_header(fields, below) if options.header is None else options.header)


def _fields(line: bytes, delimiter: bytes) -> list[bytes]:
    """Return the fields of a line. If a quote is not closed, the last field contains the line break."""
    if delimiter == b" ":
        return line.split()
    if delimiter == b"\t":
        return [field.strip() for field in line.split(delimiter)]
    try:
        fields = next(csv.reader([line.decode("latin-1") + "\n"]))
    except csv.Error:
        # A carriage return within the line, or a field that is far too long.
        return [line]
    return [field.strip(" \t").encode("latin-1") for field in fields]


def _check_quotes(file: SourceFile, line: bytes, number: int, fields: list[bytes]) -> None:
    """Raise DataError if the last field of a line begins with a quote that is not closed."""
    if any(b"\n" in field for field in fields):
        raise DataError(
            f"{file.url}, line {number}: a quote is not closed in {line_start(line)!r}; names have no line breaks, and "
            f"a quote within a name in quotes is written twice"
        )


def _may_be_edge(plain: _ListFormat, fields: list[bytes], columns: list[int], below: list[list[bytes]]) -> bool:
    """Return whether a first line with usual names of columns may be an edge: these names are nodes below, too."""
    names = {fields[column].lower() for column in columns[:2]}
    nodes = {field.lower() for line in below for field in line[:2]}
    return _is_edge(fields, plain) and not names.isdisjoint(nodes)


def _is_header(fields: list[bytes], below: list[list[bytes]]) -> bool:
    """Return whether the first line has a word in a column where the lines after it have numbers."""
    return any(not _NUMBER.fullmatch(name) and _are_numbers(below, column) for column, name in enumerate(fields))


def _are_numbers(lines: list[list[bytes]], column: int) -> bool:
    """Return whether there are lines, and all have a number in this column."""
    return bool(lines) and all(len(fields) > column and _NUMBER.fullmatch(fields[column]) for fields in lines)


def _parse(file: SourceFile, text: bytes, line: int, list_format: _ListFormat) -> Pairs:
    """Parse a block of lines, of which the first is line ``line`` of the file."""
    delimiter = list_format.delimiter
    if delimiter == b"," and (blanks := re.search(rb',[ \t]+"[^",]', text)):
        number = line + text.count(b"\n", 0, blanks.start())
        raise DataError(f"{file.url}, line {number}: remove the blanks between a comma and a quote")
    if delimiter == b" ":
        # Arrow's parser splits at every single space.
        text = re.sub(rb"[ \t]+", b" ", text)
        text = re.sub(rb"(?m)^ +| +$", b"", text)
    types = {"source": pa.string(), "target": pa.string(), "weight": pa.float64()}
    found = dict(zip(list_format.columns, types, strict=False))
    names = [found.get(column, f"further {column}") for column in range(list_format.n_fields)]
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(text),
            pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(text) + 1),
            pyarrow.csv.ParseOptions(delimiter=delimiter.decode(), quote_char='"' if delimiter == b"," else False),
            pyarrow.csv.ConvertOptions(
                column_types=types, include_columns=list(found.values()), null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        _raise_for_broken_line(file, text, line, list_format)
        raise DataError(f"{file.url}, line {line} or below: {error}") from None
    source, target = (pc.utf8_trim(table[name].combine_chunks(), " \t") for name in ("source", "target"))
    if any(pc.any(pc.or_(pc.equal(ends, ""), pc.match_substring(ends, "\n"))).as_py() for ends in (source, target)):
        _raise_for_broken_line(file, text, line, list_format)
    return Pairs(source, target, table["weight"].to_numpy() if "weight" in table.column_names else None)


def _raise_for_broken_line(file: SourceFile, text: bytes, first_line: int, list_format: _ListFormat) -> None:
    """Raise DataError for the first line that is not an edge, if there is one."""
    for number, one in enumerate(text.split(b"\n"), first_line):
        if not one.strip():
            continue
        fields = _fields(one, list_format.delimiter)
        _check_quotes(file, one, number, fields)
        if _is_edge(fields, list_format):
            continue
        wanted = "two names and a weight" if len(list_format.columns) == 3 else "two names"
        if list_format.n_fields > len(list_format.columns):
            wanted += f" in {list_format.n_fields} columns"
        hint = _hint(one)
        if not hint and number == first_line:
            hint = "; if it names the columns, read with --header (in Python, ingest_graph(..., header=True))"
        raise DataError(f"{file.url}, line {number}: {wanted} are needed, not {line_start(one)!r}{hint}")


def _hint(line: bytes) -> str:
    """Say how to write a list without the attributes that networkx.write_edgelist adds by default."""
    if b"{" not in line:
        return ""
    return "; write lists with networkx.write_weighted_edgelist, or without weights with write_edgelist(data=False)"


def _is_edge(fields: list[bytes], list_format: _ListFormat) -> bool:
    if len(fields) != list_format.n_fields:
        return False
    first, second, *weight = (fields[column] for column in list_format.columns)
    return bool(first and second) and all(_NUMBER.fullmatch(field) for field in weight)
