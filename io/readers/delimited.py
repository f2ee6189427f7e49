"""Reader of CSV. All rows of a file follow one dialect, which the options name.

Arrow parses rows whose quotes are as in RFC 4180. Python's csv module parses all others, and finds the row to blame.
"""

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..errors import DataError
from ..messages import line_start, pluralize
from .batches import (
    BATCH_BYTES,
    BadLine,
    Batch,
    Odd,
    ReadOptions,
    RowName,
    as_text,
    bad_line,
    column_batch,
    halve_columns,
    keys_of_rows,
    merge_odd,
    parse_good_lines,
    wanted_columns,
    without_documents,
)
from .dialect import Dialect, ends_with_line, last_quote, python_reader, row_ends, wrong_quote
from .reader import Reader
from .source import Partition, SourceFile, open_file, read_some
from .tables import check_columns, kept_columns

#: Bytes of rows that Arrow parses at once; its sizes are 32-bit integers.
MOST_ARROW_BYTES = 1 << 30
#: Bytes of the longest mark at the start of a file: that of UTF-8, and Excel's line "sep=;".
LONGEST_MARK = 10
#: What programs write for missing values: R, pandas, Python, SQL and its dumps.
MISSING = ("NA", "NaN", "nan", "None", "NULL", "\\N")
#: What a delimiter may be, as a message about another one suggests it.
OTHER_DELIMITERS = ("\t", ";", "|", ",")


#: Rows of several lines in a file in which such rows are not odd.
MOST_SPANNING = 1000
#: What is odd about rows.
HEADER_AGAIN = (
    "this row is the header of the file again, as where files were joined, and became a document; remove such rows"
)
MISSING_TEXT = (
    "this text is what programs write for a missing value, and became a word; if it is missing, remove such rows, or "
    "write nothing there (in R, na='')"
)
FLOAT_KEY = (
    "the key of this row ends in .0 and stays as it is, but in tables and JSON the number 1.0 is the key 1; if both "
    "are needed together, write whole numbers without .0 (in pandas, astype('Int64'))"
)
RETURN_ALONE = (
    "this row ends in a carriage return alone, where others end in line feeds; if it is within a text, quote the text "
    "(in pandas, to_csv(..., quoting=csv.QUOTE_ALL))"
)
SWALLOWED = (
    "a field in quotes has several lines, each with the columns of a row; if its quotes are letters, read the file "
    "with quote=none, or write them twice within quotes"
)


class Rows(NamedTuple):
    """Some rows of a CSV file that follow each other. D rows."""

    columns: pa.RecordBatch  # the columns that the options name, as text, in their order
    numbers: np.ndarray  # (D,) int64: of the rows in the file; blank lines do not count, rows that are skipped do
    lines: np.ndarray  # (D,) int64: at which the rows begin


class _Row(NamedTuple):
    """A row as Python's csv module reads it."""

    fields: list[str]  # in Latin-1
    line: int  # of the file, at which it begins
    text: bytes
    error: DataError | None  # that of a wrong quote; there are no fields then


class CSVReader(Reader):
    """Text in columns, with a header unless the options name them. In a column of tokens, blanks separate tokens.

    A file is one partition: fields in quotes may hold line breaks, so it cannot be cut at lines.
    """

    kind = "CSV"

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the rows."""
        with open_file(partition.file) as stream:
            parser = _Parser(partition.file, stream, self.options)
            for rows in parser.rows():
                if rows.columns.num_rows:
                    parser.note_values(rows)
                    yield self._good_rows(partition.file, rows)
            odd = parser.odd()
            if parser.bad or odd:
                yield without_documents(parser.bad, self.options)._replace(odd=odd)

    def _good_rows(self, file: SourceFile, rows: Rows) -> Batch:
        def describe(one: Rows, error: str) -> BadLine:
            text = one.columns.column(0)[0].as_py()
            return bad_line(file.stored_url, int(one.numbers[0]), error, text)

        return parse_good_lines(rows, lambda some: self._batch(file, some), halve_columns, describe, self.options)

    def _batch(self, file: SourceFile, rows: Rows) -> Batch:
        row_name = lambda row: f"{file.url}, line {rows.lines[row]}"  # noqa: E731
        block = rows.columns
        values = as_text(block.column(0), self.options, row_name)
        if self.options.tokens:
            _check_no_lists(values, self.options.tokens, row_name)
            values = pc.utf8_split_whitespace(values).cast(pa.large_list(pa.large_string()))
        keys = block.column(self.options.key) if self.options.key else keys_of_rows(file.name, rows.numbers)
        kept = kept_columns(block, self.options, row_name, is_typed=False)
        return column_batch(self.options, file.name, values, keys, row_name, 0, kept)


def dialect_of(file: SourceFile, options: ReadOptions) -> Dialect:
    """Return the dialect of a file. Only the delimiter depends on the file's name."""
    delimiter = options.delimiter or ("\t" if file.extension in (".tsv", ".tab") else ",")
    quote = None if options.quote == "none" else options.quote
    # A program may call the quote itself the escape: a quote within quotes is written twice anyway.
    escape = None if options.escape == quote else options.escape
    return Dialect("\t" if delimiter == "\\t" else delimiter, quote, escape)


def _check_no_lists(values: pa.Array, column: str, row_name: RowName) -> None:
    """Raise DataError if a text is a list as Python or JSON writes it: its words would have brackets and quotes."""
    are_lists = pc.match_substring_regex(values, r"""(?s)^\s*[\[(]\s*(['"]).*['"]\s*,?\s*[\])]\s*$""")
    if pc.any(are_lists).as_py():
        row = are_lists.index(True).as_py()
        raise DataError(
            f"{row_name(row)}: column {column!r} has a list as text, {line_start(values[row].as_py().encode())!r}, but "
            f"in CSV, blanks separate tokens: write each list as ' '.join(tokens), or save the table as JSONL or "
            f"Parquet"
        )


def _other_delimiter(delimiter: str) -> str:
    """Advise another delimiter, written as both Python and a shell take it."""
    shown = "\\t" if delimiter == "\t" else delimiter
    return f"; if '{shown}' separates the columns, read it with delimiter='{shown}'"


class _Parser:
    """Reads the rows of an open file block by block. A row may be as large as memory."""

    def __init__(self, file: SourceFile, stream: Any, options: ReadOptions):
        self.file = file
        self.options = options
        self.dialect = dialect_of(file, options)
        #: Rows with another number of columns than the header that were skipped.
        self.bad: list[BadLine] = []
        self._header_line = b""
        self._odd: list[Odd] = []
        self._n_spanning = 0  # rows of several lines that are not odd
        self._stream = stream
        self._buffer = b""
        self._is_end = False
        self._line = 1  # of the file at which the buffer begins
        self._row = 1
        while len(self._buffer) < LONGEST_MARK and not self._is_end:
            self._read()
        # Excel writes and reads the delimiter there.
        named = re.match(rb"sep=([\x20-\x7e\t])\r?\n", self._buffer)
        if named and options.delimiter in (None, named[1].decode()):
            self.dialect = self.dialect._replace(delimiter=named[1].decode())
            self._drop(named.end())
        self._header = list(options.columns) or self._read_header()
        wanted = wanted_columns(options)
        where = "the columns, by the first line of the file," if not options.columns else "the option columns"
        check_columns(file, self._header, wanted, where, self._advice())
        self._positions = [self._header.index(name) for name in wanted]
        self._names = wanted

    def rows(self) -> Iterator[Rows]:
        """Yield all rows after the header."""
        while self._buffer or not self._is_end:
            rows = self._parse_quickly()
            if rows is None:
                rows = self._parse_slowly()
            if rows is None:
                self._read()
            else:
                yield rows

    def odd(self) -> tuple[Odd, ...]:
        """Return what is odd about the rows of the whole file."""
        # Where fields often have several lines, some of these are like rows by chance.
        return tuple(one for one in self._odd if one.reason != SWALLOWED or one.number > self._n_spanning)

    def note_values(self, rows: Rows) -> None:
        """Note texts and keys that are read as they are written, and may mean something else."""
        found = {MISSING_TEXT: pc.is_in(rows.columns.column(0), pa.array(MISSING, pa.large_binary()))}
        if self.options.key:
            found[FLOAT_KEY] = pc.match_substring_regex(rows.columns.column(self.options.key), r"^-?\d+\.0$")
        for reason, are_odd in found.items():
            if number := pc.sum(are_odd).as_py():
                self._add(Odd(reason, number, f"{self.file.url}, line {rows.lines[are_odd.index(True).as_py()]}"))

    def _add(self, odd: Odd) -> None:
        self._odd = merge_odd((*self._odd, odd))

    def _read(self) -> None:
        """Add at least as many bytes to the buffer as it has, so that a long row is looked at a few times only."""
        more = read_some(self._stream, max(BATCH_BYTES, len(self._buffer)), self.file)
        self._buffer += more
        if codecs.BOM_UTF8 in self._buffer:  # files that were joined have further marks
            self._buffer = re.sub(rb"(?:(?<=[\r\n])|\A)" + codecs.BOM_UTF8, b"", self._buffer)
        if not more:
            self._is_end = True
            if self._buffer and not self._buffer.endswith((b"\n", b"\r")):
                self._buffer += b"\n"

    def _read_header(self) -> list[str]:
        found, size = self._rows_of_python(most=1)
        while not found and not self._is_end:
            self._read()
            found, size = self._rows_of_python(most=1)
        if found:
            if found[0].error is not None:
                raise found[0].error
            header_line = self._buffer[:size]
            if b"\0" in header_line:
                raise DataError(f"{self.file.url}: binary data, not CSV; choose the format with the option format")
            self._drop(size)
            self._header_line = header_line
            return [name.encode("latin-1").decode("utf-8", "replace") for name in found[0].fields]
        return wanted_columns(self.options)  # Spark writes empty files for parts without rows

    def _drop(self, size: int) -> None:
        """Drop whole rows at the beginning of the buffer."""
        rows = self._buffer[:size]
        if self._header_line and self._header_line in rows:
            found = [match.start() for match in re.finditer(b"(?m)^" + re.escape(self._header_line), rows)]
            if found:
                line = self._line + rows.count(b"\n", 0, found[0])
                self._add(Odd(HEADER_AGAIN, len(found), f"{self.file.url}, line {line}"))
        self._line += len(rows.splitlines())
        self._buffer = self._buffer[size:]

    def _parse_quickly(self) -> Rows | None:
        """Return the complete rows at the start of the buffer, read by Arrow.

        None if there is no complete row, or if Arrow may read one wrongly: then `_parse_slowly` reads them.
        """
        data = np.frombuffer(self._buffer, np.uint8)
        ends = None if self.dialect.escape else row_ends(data, self.dialect)
        if ends is None or not len(ends) or ends[-1] > MOST_ARROW_BYTES:
            return None
        block = self._buffer[: ends[-1]]
        if block.count(b"\r") != block.count(b"\r\n"):
            return None
        starts = np.append(0, ends[:-1])
        lines = self._line + np.searchsorted(np.flatnonzero(data[: len(block)] == ord("\n")), starts)
        is_row = (data[starts] != ord("\n")) & (data[starts] != ord("\r"))
        columns = self._parse_with_arrow(block)
        if columns is None or columns.num_rows != np.count_nonzero(is_row):
            return None
        self._note_rows_within_quotes(block, starts, lines)
        starts, lines = starts[is_row], lines[is_row]
        numbers = self._row + np.arange(len(starts))
        self._row += len(starts)
        self._drop(len(block))
        return Rows(columns, numbers, lines)

    def _note_rows_within_quotes(self, block: bytes, starts: np.ndarray, lines: np.ndarray) -> None:
        """Note rows of several lines, each of which is like a row: two wrong quotes may have made a field of them.

        ``starts`` (n,) int64 has where the rows of the block begin, and ``lines`` (n,) int64 the lines of the file.
        """
        n_separators = len(self._header) - 1
        if not n_separators or block.count(b"\n") <= len(starts) or self._n_spanning > MOST_SPANNING:
            return
        if block.count(b"\r") != block.count(b"\r\n"):
            return  # rows may end in carriage returns
        data = np.frombuffer(block, np.uint8)
        newlines = np.flatnonzero(data == ord("\n"))
        separators = np.flatnonzero(data == ord(self.dialect.delimiter))
        is_like_row = np.diff(np.searchsorted(separators, newlines), prepend=0) == n_separators
        first_lines = np.searchsorted(newlines, starts)
        last_lines = np.append(first_lines[1:], len(newlines)) - 1
        # Where the first column has numbers, each row begins with a digit.
        first_bytes = data[np.append(0, newlines[:-1] + 1)]
        is_digit = (first_bytes >= ord("0")) & (first_bytes <= ord("9"))
        is_like_row &= is_digit == np.repeat(is_digit[first_lines], last_lines - first_lines + 1)
        is_swallowing = np.logical_and.reduceat(is_like_row, first_lines) & (last_lines > first_lines)
        self._n_spanning += int(np.count_nonzero((last_lines > first_lines) & ~is_swallowing))
        for row in np.flatnonzero(is_swallowing)[:1]:
            where = f"{self.file.url}, lines {lines[row]} to {lines[row] + last_lines[row] - first_lines[row]}"
            self._add(Odd(SWALLOWED, int(np.count_nonzero(is_swallowing)), where))

    def _parse_with_arrow(self, block: bytes) -> pa.RecordBatch | None:
        """Return the wanted columns of whole rows; None if a row has another number of columns than the header."""
        names = [str(position) for position in range(len(self._header))]
        wanted = [names[position] for position in self._positions]
        # Text is read as bytes, because `as_text` has its own message for invalid UTF-8.
        types = dict.fromkeys(wanted, pa.string()) | {wanted[0]: pa.large_binary()}
        dialect = self.dialect
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(block),
                pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(block) + 1),
                pyarrow.csv.ParseOptions(
                    delimiter=dialect.delimiter, quote_char=dialect.quote or False, newlines_in_values=True
                ),
                pyarrow.csv.ConvertOptions(check_utf8=False, include_columns=wanted, column_types=types),
            )
        except pa.ArrowInvalid:
            return None
        arrays = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays(arrays, self._names)

    def _parse_slowly(self) -> Rows | None:
        """Return the rows that the buffer has completely, or None if it has none. Bad ones are skipped.

        Raises DataError for a row of another width or with a wrong quote if the options do not allow that.
        """
        found, size = self._rows_of_python()
        if not size:
            return None
        good: list[_Row] = []
        numbers = []
        for number, row in enumerate(found, self._row):
            error = row.error
            if error is None and len(row.fields) != len(self._header):
                error = DataError(f"{self.file.url}, line {row.line}: {self._describe_width(row.fields)}")
            if error is None:
                good.append(row)
                numbers.append(number)
            elif self.options.on_bad_line == "error":
                raise error
            else:
                self.bad.append(bad_line(self.file.stored_url, number, str(error), row.text))
        columns: list[pa.Array] = []
        for position in self._positions:
            # View, not cast: which text must be UTF-8, and what is said otherwise, is decided later.
            values = pa.array([row.fields[position].encode("latin-1") for row in good], pa.large_binary())
            columns.append(values.view(pa.large_string()) if columns else values)
        returns = [row.line for row in found if row.text.endswith(b"\r")]
        # The last row of the file may have got a line feed.
        if returns and b"\n" in {self._header_line[-1:], *(row.text[-1:] for row in found[:-1])}:
            self._add(Odd(RETURN_ALONE, len(returns), f"{self.file.url}, line {returns[0]}"))
        text = b"".join(row.text for row in good)
        lines = np.array([row.line for row in good], np.int64)
        self._note_rows_within_quotes(text, np.cumsum([0, *(len(row.text) for row in good[:-1])]), lines)
        self._row += len(found)
        self._drop(size)
        return Rows(pa.RecordBatch.from_arrays(columns, self._names), np.array(numbers, np.int64), lines)

    def _rows_of_python(self, most: int | None = None) -> tuple[list[_Row], int]:
        """Return up to ``most`` rows of the buffer, and the bytes that they have.

        Raises DataError for a wrong quote if it is not known where its row ends.
        """
        lines = self._buffer.splitlines(keepends=True)
        if not self._is_end:
            # The last line may go on. If it ends in a carriage return, a line feed may follow.
            lines = lines[:-1]
        reader = python_reader((line.decode("latin-1") for line in lines), self.dialect)
        rows: list[_Row] = []
        first = 0
        while most is None or len(rows) < most:
            fields: list[str] = []
            error = None
            try:
                fields = next(reader)
            except StopIteration:
                break
            except csv.Error:
                bad = b"".join(lines[first : reader.line_num])
                is_last = reader.line_num == len(lines) and not self._is_end
                if is_last and last_quote(bad, self.dialect)[1] is None:
                    break  # the field may be closed in what was not read yet
                error = self._quote_error(bad, self._line + first)
                if reader.line_num > first + 1 or not ends_with_line(bad, self.dialect):
                    if self.options.on_bad_line == "error" or most == 1:  # no header is skipped
                        raise error from None
                    raise DataError(f"{error}; this row cannot be skipped: where it ends is unknown") from None
            if fields or error is not None:
                rows.append(_Row(fields, self._line + first, b"".join(lines[first : reader.line_num]), error))
            first = reader.line_num
        return rows, sum(map(len, lines[:first]))

    def _quote_error(self, text: bytes, first_line: int) -> DataError:
        """Return the error of a row, which begins at a line of the file, that Python's csv module does not take."""
        opened, reason = wrong_quote(text, self.dialect, "file")
        line = first_line + text.count(b"\n", 0, opened)
        if self._is_end and self.dialect.escape and text.rstrip(b"\r\n").endswith(self.dialect.escape.encode()):
            shown = line_start(text.splitlines()[-1])
            return DataError(
                f"{self.file.url}, line {line}: the file ends in an escape, {shown!r}: remove it, or write it twice"
            )
        _, closed = last_quote(text, self.dialect)
        other = "" if closed is None else text[closed : closed + 1].decode("latin-1")
        if other in OTHER_DELIMITERS and not self._header_line:
            return DataError(f"{self.file.url}, line {line}: {reason}{_other_delimiter(other)}")
        advice = "if quotes are letters in this file, read it with quote=none"
        if b'\\"' in text:
            advice += ", and if a backslash is before quotes within fields, with escape=\\"
        return DataError(f"{self.file.url}, line {line}: {reason}; write a quote within a field twice; {advice}")

    def _describe_width(self, row: Sequence[str]) -> str:
        columns = pluralize(len(row), "column")
        named = "the header" if not self.options.columns else "the option columns"
        advice = self._advice(is_short=True) or "; quote fields with separators"
        if self._row == 1 and len(row) == len(self._header) + 1 and not self.options.columns:
            advice += ", or, if each row begins with its name, write the file without (in R, row.names=FALSE)"
        return f"{columns}, but {named} has {len(self._header)}{advice}"

    def _advice(self, is_short: bool = False) -> str:
        """Say how to read a file whose first line does not seem to be a header in this dialect."""
        if len(self._header) == 1:
            others = (one for one in OTHER_DELIMITERS if one in self._header[0] and one != self.dialect.delimiter)
            other = next(others, None)
            if other is not None:
                return _other_delimiter(other)
        if is_short or self.options.columns:
            return ""
        return "; if the file has no header, name its columns with the option columns"
