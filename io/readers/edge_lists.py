"""How edges are read: the columns of an edge in all containers, and the reader of lists of pairs as text."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..errors import DataError
from ..messages import line_start, listed, pluralize
from .batches import check_utf8
from .dialect import Dialect, python_reader, row_ends, wrong_quote
from .source import Partition, SourceFile, line_blocks

#: What to do with a matrix that is written as a list or a table.
MATRIX_ADVICE = "pass scipy.sparse.csr_array(array) in Python, or write it with scipy.io.mmwrite"
#: Options that messages name, on the command line and in Python.
COLUMNS = "--columns (in Python, ingest_graph(..., source=..., target=...))"
WEIGHT = "--weight (in Python, ingest_graph(..., weight=...))"
UNWEIGHTED = "--unweighted (in Python, ingest_graph(..., weighted=False))"
DIRECTED = "--directed (in Python, ingest_graph(..., directed=True))"
HEADER = "--header (in Python, ingest_graph(..., header=True))"
#: Usual names of the columns of an edge's two nodes, in lower case.
_USUAL_NAMES = (
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("src", "dest"),
    ("source", "destination"),
    ("head", "tail"),
    ("source_id", "target_id"),
    ("from_id", "to_id"),
    ("from_node", "to_node"),
    ("fromnodeid", "tonodeid"),
    ("user", "item"),
)
#: Those of nodes of two kinds, which may be numbered separately, without "id" at their ends.
_TWO_KINDS = (("user", "item"), ("user", "movie"), ("user", "product"), ("customer", "product"), ("customer", "item"))
#: What may follow the name of a kind.
_ID = re.compile(r"[ _.]?ids?$")
#: Two names of columns that are the same except for their ends, such as node1 and node2, or gene_a and gene_b.
_SAME_STEM = re.compile(r"([a-z]{3,}[ _.]?)([ab12xy])", re.IGNORECASE)
#: Words in the name of a column of times.
_TIMES = {"timestamp", "datetime", "time", "date", "year", "month", "day", "hour", "seconds", "ts"}


@dataclass(frozen=True)
class EdgeOptions:
    """How the edges of a graph are read from files, tables and matrices. The parameters of `ingest_graph` are these."""

    format: str = "auto"  # by the file's beginning or extension; others are lists of edges
    directed: bool = False
    weighted: bool | None = None  # False ignores weights; None uses weights if there are any
    header: bool | None = None  # whether the first line of a list names its columns; None: found out
    source: str | None = None  # column of an edge's first node; None: by a usual name, or the first column
    target: str | None = None  # column of an edge's second node; None: by a usual name, or the second column
    weight: str = "weight"  # column, or attribute of networkx's edges, of the weights, if it exists
    delimiter: str | None = None  # what separates the columns of a list; None: found out
    quote: str = '"'  # what may be around the names of a list; "none": quotes are letters
    comments: str = "#%"  # characters that begin a comment in a list; empty: there are none


@dataclass
class Found:
    """What a reader of edges has learned about them so far: numbers for the user, and doubts about the edges."""

    facts: dict[str, Any] = field(default_factory=dict)  # what `corpusmill inspect` shows of the graph
    notices: list[str] = field(default_factory=list)  # sentences about what may be a mistake, which become warnings
    is_weight_named: bool = False  # whether a column has the name of the weights
    taken_for_weights: list[str] = field(default_factory=list)  # notices of third columns, unless they have times
    are_two_kinds: bool = False  # whether the columns have nodes of two kinds
    comments: list[bytes] = field(default_factory=list)  # of the list that is read
    are_marks_names: bool = False  # whether a node has the name of what begins a comment
    first_edge: tuple[str, str] | None = None  # the first line of a list, which might also be a header
    n_first_edges: int = 0  # lists that begin with this line
    n_headers_again: int = 0  # lines that are the header of their list again
    are_weights_different: bool = False  # whether an edge has another weight than 1

    def count(self, name: str, number: int) -> None:
        """Add to a number, if there is anything to add."""
        if number:
            self.facts[name] = self.facts.get(name, 0) + number


def usual_columns(names: Sequence[str]) -> list[int] | None:
    """Return the positions of an edge's two nodes among the names of columns; None unless they have usual names."""
    positions = {name.lower(): position for position, name in enumerate(names)}
    for pair in _USUAL_NAMES:
        if all(name in positions for name in pair):
            return [positions[name] for name in pair]
    if len(names) in (2, 3):
        first, second = (_SAME_STEM.fullmatch(name) for name in names[:2])
        if first and second and first[1].lower() == second[1].lower() and first[2] != second[2]:
            return [0, 1]
    return None


def _is_time(name: str) -> bool:
    """Return whether a column has the name of a time. It has neither nodes nor weights."""
    return not _TIMES.isdisjoint(re.split(r"[^a-z]+", name.lower()))


def edge_columns(
    names: Sequence[str], options: EdgeOptions, where: str, has_numbers: Callable[[int], bool], found: Found
) -> list[int]:
    """Return the positions of an edge's two nodes, and of its weight if there is one, among the names of columns.

    ``has_numbers`` says whether a column has numbers only. A third column of numbers has weights, unless its name is
    that of a time. Raises DataError for names that do not exist or occur twice.
    """
    if len(names) < 2:
        raise DataError(f"{where}: an edge needs two columns, but here are {listed(names)}")
    nodes = usual_columns(names) or [position for position, name in enumerate(names) if not _is_time(name)]
    if len(nodes) < 2 and not (options.source and options.target):
        raise DataError(
            f"{where}: an edge needs two columns besides those of times, but here are {listed(names)}; if these are "
            f"nodes, name two columns with {COLUMNS}"
        )
    ends = [options.source or names[nodes[0]], options.target or names[nodes[1]]]
    for name in ends:
        if name not in names:
            raise DataError(
                f"{where}: no column {name!r} among {listed(names)}; name the columns of the two nodes with {COLUMNS}"
            )
    weights = [name for name in names if name == options.weight] or [
        name for name in names if name.lower() == options.weight.lower()
    ]
    if not weights and options.weight != EdgeOptions.weight:
        raise DataError(f"{where}: no column {options.weight!r} among {listed(names)}; name the column of the weights")
    for name in (*ends, *weights[:1]):
        if names.count(name) > 1:
            raise DataError(f"{where}: {names.count(name)} columns have the name {name!r}; rename all but one")
    if ends[0] == ends[1]:
        raise DataError(f"{where}: column {ends[0]!r} is named for both nodes of an edge; name two of {listed(names)}")
    columns = [names.index(name) for name in ends]
    found.are_two_kinds |= tuple(_ID.sub("", name.lower()) for name in ends) in _TWO_KINDS
    found.is_weight_named |= bool(weights)
    if options.weighted is False:
        weights = []
    elif not weights and len(names) == 3 and has_numbers(position := 3 - sum(columns)):
        third = f"{where}: the {('first', 'second', 'third')[position]} column, {names[position]!r:.40}, is"
        if _is_time(names[position]):
            found.notices.append(f"{third} taken for times, and left out; if it has weights, name it with {WEIGHT}")
        elif position == 2:
            weights = [names[position]]
            found.taken_for_weights.append(f"{third} taken for weights; if it has none, read with {UNWEIGHTED}")
    if not set(ends).isdisjoint(weights[:1]):
        raise DataError(
            f"{where}: column {weights[0]!r} is named for nodes and for weights; name another one with --weight, or "
            f"read it with --unweighted (in Python, ingest_graph(..., weight=..., weighted=False))"
        )
    columns += [names.index(name) for name in weights[:1]]
    skipped = [name for position, name in enumerate(names) if position not in columns]
    found.facts["columns"] = [names[position] for position in columns]
    if skipped:
        found.facts["skipped_columns"] = skipped
        if len(names) > 3 and not weights and options.weighted is None:
            _note_numbers([name for name in skipped if has_numbers(names.index(name))], where, found)
    return columns


def _note_numbers(names: Sequence[str], where: str, found: Found) -> None:
    """Say which of these columns with numbers, which are left out, may have weights."""
    names = [name for name in names if name and not _is_time(name) and not _ID.search(name.lower())]
    if names:
        found.notices.append(
            f"{where}: columns with numbers, {listed(names)}, left out; if one has weights, name it with {WEIGHT}, "
            f"otherwise read with {UNWEIGHTED}"
        )


_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf)", re.IGNORECASE)
#: Lines after the first that are compared with it, to find out whether it is a header.
_LINES_BELOW_HEADER = 100
#: The first line of a file of KONECT: its direction, and its weights.
_KONECT = re.compile(rb"%\s*(sym|asym|bip)\s+\w+\s*")
#: How files of Graphviz begin.
_GRAPHVIZ = re.compile(rb"\s*(strict\s+)?(di)?graph\b[^,;\t]*\{(?!['}])", re.IGNORECASE)
#: What files of SNAP say of their direction.
_SNAP = re.compile(rb"#\s*(Undirected|Directed) graph", re.IGNORECASE)


class Pairs(NamedTuple):
    """Some edges of a file or table, each a pair of names. N edges."""

    source: pa.Array  # (N,) string: name of the first node
    target: pa.Array  # (N,) string: name of the second node
    weight: np.ndarray | None  # (N,) float64

    def given_weights(self) -> np.ndarray:
        """Return the weights, 1 for each edge if there are none: (N,) float64."""
        return np.ones(len(self.source)) if self.weight is None else self.weight


class _ListFormat(NamedTuple):
    """How the lines of a list are written."""

    dialect: Dialect
    n_fields: int  # of a line
    columns: list[int]  # positions of an edge's two nodes, and of its weight if there is one
    has_header: bool = False


def read_list(file: SourceFile, options: EdgeOptions, found: Found) -> Iterator[Pairs]:
    """Read lines of two names and maybe a weight, separated by tabs, commas, semicolons or blanks.

    If the first line has names of columns, they may be in any order, and other columns are skipped. Lines that begin
    with # or % are comments. Blanks around a name do not count. A name may be in quotes, as in Python's module csv.
    """
    list_format = None
    found.comments, found.are_marks_names = [], False
    for data, line in line_blocks(file, Partition(file)):
        # Comments and blanks become empty lines, so that the other lines keep their numbers.
        text, comments = _without_comments(data, options.comments)
        found.comments += comments
        if not text.strip():
            continue
        if list_format is None:
            number, first = next((number, one) for number, one in enumerate(text.split(b"\n"), line) if one.strip())
            list_format = _list_format(file, text, first, number, options, found)
            if list_format.has_header:
                text = text.replace(first, b"", 1)
            elif edge := _first_edge(first, list_format):
                found.first_edge = found.first_edge or edge
                found.n_first_edges += edge == found.first_edge
        if list_format.has_header:
            found.n_headers_again += len(re.findall(b"(?m)^" + re.escape(first) + b"$", text))
        quote = list_format.dialect.quote
        if quote and quote.encode() in text:
            found.facts["quote"] = quote
        pairs = _parse(file, text, line, list_format)
        marks = pa.array(list(options.comments), pa.string())
        found.are_marks_names |= bool(pc.any(pc.is_in(pairs.target, marks)).as_py())
        yield pairs
    _note_comments(file, list_format, options, found)


def _without_comments(data: bytes, marks: str) -> tuple[bytes, list[bytes]]:
    """Return lines with empty ones in place of comments and of blank ones, and the comments."""
    comments: list[bytes] = []
    if marks:
        pattern = rb"(?m)^[ \t]*[" + re.escape(marks.encode()) + rb"].*"
        comments = [found.strip() for found in re.findall(pattern, data)]
        data = re.sub(pattern, b"", data)
    return re.sub(rb"(?m)^[ \t]*\r?$|\r$", b"", data), comments


def _note_comments(file: SourceFile, list_format: _ListFormat | None, options: EdgeOptions, found: Found) -> None:
    """Count comments, and say which might be edges, and which contradict the options."""
    comments = found.comments
    found.count("comments", len(comments))
    text = b"\n".join(comments)
    if list_format is not None:
        # Most comments have a blank after the mark.
        like_edges = [
            one
            for one in comments
            if (found.are_marks_names or one[1:2] != b" ") and _is_edge(_fields(one, list_format), list_format)
        ]
        if like_edges:
            found.notices.append(
                f"{file.url}: {len(like_edges):,} of {pluralize(len(comments), 'comment')} may be edges, such as "
                f"{line_start(like_edges[0])!r}; if names begin so, read it without comments, with --comments none (in "
                f"Python, ingest_graph(..., comments=''))"
            )
    konect, snap = _KONECT.match(text), _SNAP.search(text)
    found.are_two_kinds |= bool(konect and konect[1] == b"bip")
    says_directed = bool((konect and konect[1] == b"asym") or (snap and snap[1].lower() == b"directed"))
    if says_directed:
        note_direction(file.url, "comments say", options, found)


def note_direction(where: str, says: str, options: EdgeOptions, found: Found) -> None:
    """Say that edges have a direction which the options ignore. ``says`` is what says so, such as "comments say"."""
    if not options.directed:
        found.notices.append(
            f"{where}: its {says} that edges have a direction, and they are read without one; to keep it, read them "
            f"with {DIRECTED}"
        )


def type_column(names: Sequence[str]) -> int | None:
    """Return the position of the column in which Gephi writes whether an edge is directed; None if there is none."""
    return next((position for position, name in enumerate(names) if name.lower() == "type"), None)


def _first_edge(first: bytes, list_format: _ListFormat) -> tuple[str, str] | None:
    fields = _fields(first, list_format)
    if len(fields) != list_format.n_fields or any(_NUMBER.fullmatch(each) for each in fields):
        return None
    source, target = (fields[column].decode("utf-8", "replace") for column in list_format.columns[:2])
    return source, target


def _list_format(
    file: SourceFile,
    text: bytes,
    first: bytes,
    number: int,
    options: EdgeOptions,
    found: Found,
) -> _ListFormat:
    """Return the format of a list from its first line, which is line ``number`` of the file, and those below."""
    # The lines below the header are near the start.
    lines = [one for one in text[: 1 << 16].split(b"\n") if one.strip()][: 1 + _LINES_BELOW_HEADER]
    where = f"{file.url}, line {number}"
    if _GRAPHVIZ.match(first):
        raise DataError(
            f"{where}: a graph of Graphviz; read it with networkx.nx_pydot.read_dot and pass the graph in Python"
        )
    plain = _plain_format(first, lines, options, where)
    _check_quotes(file, first, number, plain)
    fields = _fields(first, plain)
    # Where files were joined, the header may follow again.
    below = [each for one in lines[1:] if (each := _fields(one, plain)) != fields]
    names = [one.decode("utf-8", "replace") for one in fields]
    delimiter = plain.dialect.delimiter
    found.facts["separator"] = {"\t": "tab", " ": "blanks"}.get(delimiter, delimiter)
    are_named = bool(options.source or options.target) or options.weight != EdgeOptions.weight
    is_header = options.header
    if is_header is None:
        is_header = are_named or _is_header(fields, names, below, plain)
    found.facts["header"] = is_header
    if is_header:
        is_known = usual_columns(names) is not None or options.source or options.target
        if len(fields) > 1 and (is_known or (len(fields) in (2, 3) and all(fields))):
            numbers = lambda column: _are_numbers(below, column)  # noqa: E731
            types = type_column(names)
            if types is not None and any(one[types : types + 1] == [b"Directed"] for one in below):
                note_direction(file.url, "column 'Type' says", options, found)
            return plain._replace(columns=edge_columns(names, options, where, numbers, found), has_header=True)
    if are_named:
        raise DataError(
            f"{where}: columns can be named if the first line names them, which {line_start(first)!r} is not taken "
            f"for; read it with --header and --columns (in Python, ingest_graph(..., header=True, source=..., "
            f"target=...)), or without names of columns"
        )
    if len(fields) == 4 and any(_KONECT.match(one) for one in found.comments):
        # A time follows the weight.
        plain = plain._replace(columns=[0, 1, 2])
        found.facts["skipped_columns"] = ["the fourth"]
    elif len(fields) not in (2, 3) or not all(fields):
        further = "; if there are more columns, name these three source, target and weight in the first line"
        is_square = len(below) <= len(fields) and {len(one) for one in below} == {len(fields)}
        if not fields[0] or is_square:
            further = f"; if it is a matrix, {MATRIX_ADVICE}{further}"
        raise DataError(
            f"{where}: an edge is two names and maybe a weight, separated by tabs, commas, semicolons or blanks, "
            f"not {line_start(first)!r}{_hint(first) or (further if len(fields) > 2 else '')}"
        )
    # A third column may have labels.
    return plain._replace(columns=[0, 1]) if options.weighted is False else plain


def _plain_format(first: bytes, lines: list[bytes], options: EdgeOptions, where: str) -> _ListFormat:
    """Return the format of lines without a header, whose separator is found out unless the options name it."""
    quote = None if options.quote == "none" else options.quote
    delimiter = "\t" if options.delimiter == "\\t" else options.delimiter or " "
    one = blanks = _ListFormat(Dialect(delimiter, quote, None), 0, [])
    if options.delimiter is None:
        tried = [_ListFormat(Dialect(each, quote, None), 0, []) for each in ("\t", ",", ";") if each.encode() in first]
        named = [each for each in tried if usual_columns([f.decode("latin-1") for f in _fields(first, each)])]
        # Names may have semicolons.
        is_apart = all(len(_fields(line, one)) in (2, 3) for line in lines)
        one = next(iter(named + [each for each in tried if each.dialect.delimiter != ";" or not is_apart]), one)
        if one.dialect.delimiter == "\t" and _are_mixed(lines, one, blanks, where):
            one = blanks
    _check_decimal_commas(lines, one, options, where)
    if options.delimiter is None and one not in named and one.dialect.delimiter in ", ":
        _check_separator(lines, one, where)
    n_fields = len(_fields(first, one))
    return one._replace(n_fields=n_fields, columns=list(range(n_fields)))


def _check_separator(lines: list[bytes], plain: _ListFormat, where: str) -> None:
    """Raise DataError if semicolons or bars separate the names of all lines as well as commas or blanks do."""
    for each in (";", "|"):
        both = (plain, plain._replace(dialect=plain.dialect._replace(delimiter=each)))
        if all({len(_fields(line, one)) for line in lines} in ({2}, {3}) for one in both):
            raise DataError(
                f"{where}: {plain.dialect.delimiter!r} and {each!r} may both separate the names in "
                f"{line_start(lines[0])!r}; choose one with --delimiter {each!r} or --delimiter "
                f"{plain.dialect.delimiter!r} (in Python, ingest_graph(..., delimiter={each!r}))"
            )


def _check_decimal_commas(lines: list[bytes], plain: _ListFormat, options: EdgeOptions, where: str) -> None:
    """Raise DataError if the third column has numbers with decimal commas, which would be names or be left out."""
    chosen = plain.dialect.delimiter
    for each in ("\t", ";", "|", ",", " ") if options.delimiter is None else (chosen,):
        one = plain._replace(dialect=plain.dialect._replace(delimiter=each))
        rows = [_fields(line, one) for line in lines]
        if {len(row) for row in rows} != {3} or (each == chosen and options.weighted is False):
            continue
        are_numbers = [bool(_NUMBER.fullmatch(row[2].replace(b",", b"."))) for row in rows]
        commas = [row[2] for row, is_number in zip(rows, are_numbers, strict=True) if is_number and b"," in row[2]]
        if commas and all(are_numbers[1:]):  # the first line may name the columns
            others = "" if each == chosen else f"; if {chosen!r} separates the columns, say --delimiter {chosen!r}"
            raise DataError(
                f"{where}: numbers such as {line_start(commas[0])!r} seem to have decimal commas; write them with "
                f"points, and without separators of thousands, or ignore them with --delimiter {each!r} "
                f"--unweighted (in Python, ingest_graph(..., delimiter={each!r}, weighted=False)){others}"
            )


def _are_mixed(lines: list[bytes], tabs: _ListFormat, blanks: _ListFormat, where: str) -> bool:
    """Return whether tabs and blanks alike separate numbers, as in files of KONECT.

    Raises DataError if names may have blanks, and blanks may also separate an edge's names.
    """
    apart = [_fields(line, blanks) for line in lines]
    width = len(apart[0])
    below = apart[1:] or apart  # the first line may name the columns
    is_wider = all(len(_fields(line, tabs)) < len(fields) == width for line, fields in zip(lines, apart, strict=True))
    # A weight, and maybe a time, follow two names.
    if not is_wider or width not in (3, 4) or not all(_are_numbers(below, column) for column in range(2, width)):
        return False
    if all(_are_numbers(below, column) for column in (0, 1)):
        return True
    raise DataError(
        f"{where}: tabs and blanks are mixed in {line_start(lines[0])!r}; if names have blanks, read it with "
        f"--delimiter '\\t', otherwise with --delimiter ' ' (in Python, ingest_graph(..., delimiter=' '))"
    )


def _fields(line: bytes, list_format: _ListFormat) -> list[bytes]:
    """Return the fields of a line; the whole line if it has a wrong quote, or a carriage return within it."""
    if b"\r" in line:
        return [line]
    try:
        return _split(line, list_format.dialect)
    except csv.Error:
        return [line]


def _split(line: bytes, dialect: Dialect) -> list[bytes]:
    """Return the fields of a line; raise csv.Error for a wrong quote."""
    if dialect.delimiter == " ":
        line = _single_blanks(line, dialect.quote)
    if dialect.quote is None or dialect.quote.encode() not in line:
        return [one.strip() for one in line.split(dialect.delimiter.encode())]
    fields = next(python_reader([line.decode("latin-1")], dialect))
    return [one.strip(" \t").encode("latin-1") for one in fields]


def _single_blanks(text: bytes, quote: str | None) -> bytes:
    """Return lines with one blank in place of several, and none at their ends. Names in quotes stay as they are."""
    if quote is not None and quote.encode() in text:
        mark = re.escape(quote.encode())
        quoted = rb"((?<![^ \t\n])" + mark + rb"(?:[^\n" + mark + rb"]|" + mark + mark + rb")*" + mark + rb")|[ \t]+"
        text = re.sub(quoted, lambda found: found[1] or b" ", text)
    else:
        text = re.sub(rb"[ \t]+", b" ", text)
    return re.sub(rb"(?m)^ +| +$", b"", text)


def _check_quotes(file: SourceFile, line: bytes, number: int, list_format: _ListFormat) -> None:
    """Raise DataError if a quote around a name of a line is wrong."""
    try:
        _split(line, list_format.dialect)
    except csv.Error:
        _, reason = wrong_quote(line, list_format.dialect, "line")
        raise DataError(
            f"{file.url}, line {number}: {reason}; names have no line breaks, and a quote "
            f"within a name in quotes is written twice; if quotes are letters, read it with --quote none (in Python, "
            f"ingest_graph(..., quote='none'))"
        ) from None


def _is_header(fields: list[bytes], names: list[str], below: list[list[bytes]], plain: _ListFormat) -> bool:
    """Return whether the first line names columns: it has no number, its names are usual or a column has numbers.

    A first line whose names are nodes below is an edge.
    """
    if any(_NUMBER.fullmatch(one) for one in fields):
        return False
    usual = usual_columns(names)
    nodes = {one.lower() for line in below for one in line[:2]}
    ends = {fields[column].lower() for column in (usual or [0, 1]) if column < len(fields)}
    if usual is None:
        if any(_are_numbers(below, column) for column in range(len(fields))):
            return ends.isdisjoint(nodes)
        return False
    stem = _SAME_STEM.fullmatch(names[usual[0]])
    if stem and any(node.startswith(stem[1].lower().encode()) for node in nodes):
        return False
    return len(fields) != plain.n_fields or len(fields) not in (2, 3) or ends.isdisjoint(nodes)


def _are_numbers(lines: list[list[bytes]], column: int) -> bool:
    """Return whether there are lines, and all have a number in this column."""
    return bool(lines) and all(len(fields) > column and _NUMBER.fullmatch(fields[column]) for fields in lines)


def _parse(file: SourceFile, text: bytes, line: int, list_format: _ListFormat) -> Pairs:
    """Parse a block of lines, of which the first is line ``line`` of the file."""
    delimiter, quote, _ = list_format.dialect
    if delimiter == " ":
        # Arrow's parser splits at every single blank.
        text = _single_blanks(text, quote)
    elif quote is not None:
        mark, separator = re.escape(quote.encode()), re.escape(delimiter.encode())
        if blanks := re.search(separator + rb"[ \t]+" + mark + rb"[^" + mark + separator + rb"]", text):
            number = line + text.count(b"\n", 0, blanks.start())
            name = {"\t": "tab", ",": "comma"}.get(delimiter, delimiter)
            raise DataError(f"{file.url}, line {number}: remove the blanks between a {name} and a quote")
    types = {"source": pa.string(), "target": pa.string(), "weight": pa.float64()}
    found = dict(zip(list_format.columns, types, strict=False))
    names = [found.get(column, f"further {column}") for column in range(list_format.n_fields)]
    if row_ends(np.frombuffer(text, np.uint8), list_format.dialect) is None:
        _raise_for_broken_line(file, text, line, list_format)
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(text),
            pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(text) + 1),
            pyarrow.csv.ParseOptions(delimiter=delimiter, quote_char=quote or False),
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
        check_utf8(one, f"{file.url}, line {number}")
        _check_quotes(file, one, number, list_format)
        fields = _fields(one, list_format)
        if _is_edge(fields, list_format):
            continue
        wanted = "two names and a weight" if len(list_format.columns) == 3 else "two names"
        if list_format.n_fields > len(list_format.columns):
            wanted += f" in {list_format.n_fields} columns"
        hint = _hint(one)
        if not hint and number == first_line:
            hint = f"; if it names the columns, read with {HEADER}"
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
    return bool(first and second) and all(_NUMBER.fullmatch(one) for one in weight)
