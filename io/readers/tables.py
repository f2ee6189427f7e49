"""Readers of tables: CSV and Parquet. One column holds text or tokens; another one may hold the key."""

import codecs
import csv
import io
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ..errors import DataError
from ..messages import listed, pluralize, shortened
from ..stores.parquet import DAMAGED
from .bad_lines import bad_line, parse_good_lines, without_documents
from .batches import (
    BATCH_BYTES,
    BadLine,
    Batch,
    ReadOptions,
    RowName,
    as_text,
    column_at,
    column_batch,
    keys_of_rows,
    wanted_columns,
)
from .kept import KeptColumns, kept_column
from .reader import PARTITION_BYTES, Reader
from .source import Partition, SourceFile, open_file, read_some

#: Most rows of a Parquet file in a batch. Compressed sizes say little about the sizes of the rows.
MAX_ROWS = 4096
#: Bytes at the start of a CSV file in which its header must be.
HEADER_BYTES = 1 << 16
#: Bytes of a Parquet file that are read at a time.
PARQUET_BUFFER_BYTES = 1 << 20

#: Called with a row of another width than the header; returns "skip" or "error".
RowHandler = Callable[[pyarrow.csv.InvalidRow], str]


def _row_name(file: SourceFile, first_row: int) -> RowName:
    return lambda row: f"{file.url}, row {first_row + row}"


def _check_columns(file: SourceFile, present: list[str], wanted: list[str], where: str = "the columns") -> None:
    """Raise DataError unless each wanted column occurs once; Arrow would read the first of several.

    ``where`` is what the error calls the names that are present.
    """
    for name in wanted:
        if name not in present:
            raise DataError(
                f"{file.url}: no column {name!r}; {where} are {listed(present, 'empty')}; "
                f"name one of them with text, tokens, key or keep (in a configuration: source.text and so on)"
            )
        if present.count(name) > 1:
            raise DataError(f"{file.url}: {present.count(name)} columns have the name {name!r}; rename all but one")


def _kept_columns(block: pa.RecordBatch, options: ReadOptions, row_name: RowName, is_typed: bool) -> KeptColumns | None:
    """Return the columns that the options keep, or None if they keep none."""
    if not options.keep:
        return None
    return {name: kept_column(column_at(block, name), name, row_name, is_typed) for name in options.keep}


def _first_line(error: Exception) -> str:
    """Return the first line of Arrow's message."""
    return shortened(error).strip().strip("'\"").splitlines()[0]


# --- CSV ---


class CSVReader(Reader):
    """Comma- or tab-separated text with a header. In a column of tokens, blanks separate the tokens."""

    kind = "CSV"
    can_skip = True
    has_columns = True

    def partitions(self) -> Iterable[Partition]:
        """Return one partition per file: quoted fields may hold newlines, so a file cannot be cut at lines."""
        return [Partition(file) for file in self.files]

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the rows."""
        file = part.file
        row = part.first_row
        columns = wanted_columns(self.options)
        header = _csv_header(file, self.options)
        if not header:
            raise DataError(f"{file.url}: an empty file; a CSV file begins with the names of its columns")
        _check_columns(file, header, columns, "the columns, by the first line of the file,")
        bad: list[BadLine] = []
        refused: list[pyarrow.csv.InvalidRow] = []
        skipped: list[int] = []
        handler = _row_refuser(refused) if self.options.on_bad_line == "error" else _row_skipper(file, bad, skipped)
        with open_file(file) as stream:
            try:
                for block in _open_csv(_CheckedStream(stream, file), _delimiter(file, self.options), columns, handler):
                    if block.num_rows:
                        numbers = _row_numbers(row, block.num_rows, skipped)
                        yield self._good_rows(file, block, numbers)
                        row = int(numbers[-1]) + 1
            except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
                if refused:
                    where = self._line_name(file, refused[0].number - 1)
                    raise DataError(f"{where}: {_describe_width(refused[0])}") from None
                raise DataError(f"{self._line_name(file, row)} or after: {_first_line(error)}") from None
        if bad:
            yield without_documents(bad, self.options)

    def _line_name(self, file: SourceFile, row: int) -> str:
        """Return the file and the line at which a row begins. The header is row 0."""
        return f"{file.url}, line {_line_of(file, row, _delimiter(file, self.options))}"

    def _good_rows(self, file: SourceFile, block: pa.RecordBatch, numbers: np.ndarray) -> Batch:
        if self.options.on_bad_line == "error":
            return self._batch(file, block, numbers)

        return parse_good_lines(
            (block, numbers),
            parse=lambda rows: self._batch(file, *rows),
            halve=_halve_rows,
            describe=lambda rows, error: bad_line(
                file.stored_url, int(rows[1][0]), error, rows[0].column(0)[0].as_py()
            ),
            options=self.options,
        )

    def _batch(self, file: SourceFile, block: pa.RecordBatch, numbers: np.ndarray) -> Batch:
        # Where bad rows are skipped, finding the line of each would take too long.
        row_name = lambda row: f"{file.url}, row {numbers[row]}"  # noqa: E731
        if self.options.on_bad_line == "error":
            row_name = lambda row: self._line_name(file, int(numbers[row]))  # noqa: E731
        values = as_text(block.column(0), self.options, row_name)
        if self.options.tokens:
            values = pc.utf8_split_whitespace(values).cast(pa.large_list(pa.large_string()))
        keys = block.column(self.options.key) if self.options.key else keys_of_rows(file.name, numbers)
        kept = _kept_columns(block, self.options, row_name, is_typed=False)
        return column_batch(self.options, file.name, values, keys, row_name, int(numbers[0]), kept)


#: Rows of a table, and their numbers.
_Rows = tuple[pa.RecordBatch, np.ndarray]


def _halve_rows(rows: _Rows) -> tuple[_Rows, _Rows] | None:
    block, numbers = rows
    middle = block.num_rows // 2
    if not middle:
        return None
    return (block[:middle], numbers[:middle]), (block[middle:], numbers[middle:])


def _row_numbers(first: int, n_rows: int, skipped: Sequence[int]) -> np.ndarray:
    """Return the numbers of the next ``n_rows`` good rows of a file: (D,) int64.

    Numbering starts at ``first`` and leaves out the numbers in ``skipped``, so that repairing a skipped row changes the
    keys of no others. Arrow reads ahead, so some of the skipped rows may come after these rows.
    """
    left_out = skipped[bisect_left(skipped, first) :]
    numbers = np.arange(first, first + n_rows + len(left_out))
    return np.setdiff1d(numbers, left_out, assume_unique=True)[:n_rows]


def _row_refuser(refused: list[pyarrow.csv.InvalidRow]) -> RowHandler:
    """Return a function that refuses a row, and adds it to a list, because Arrow drops errors of this function."""

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        refused.append(row)
        return "error"

    return refuse


def _row_skipper(file: SourceFile, bad: list[BadLine], skipped: list[int]) -> RowHandler:
    """Return a function that skips the rows that have too few or too many columns.

    It adds their descriptions to one list, and their numbers to another.
    """

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        number = row.number - 1  # Arrow counts the header as well
        bad.append(bad_line(file.stored_url, number, f"{file.url}, row {number}: {_describe_width(row)}", row.text))
        skipped.append(number)
        return "skip"

    return skip


def _describe_width(row: pyarrow.csv.InvalidRow) -> str:
    columns = pluralize(row.actual_columns, "column")
    return f"{columns}, but the header has {row.expected_columns}; quote fields with separators"


def _line_of(file: SourceFile, row: int, delimiter: str) -> int:
    """Return the line at which a row begins: blank lines are no rows, and a row with a newline in quotes has several.

    The file is read again, which takes long but only precedes an error.
    """
    limit = csv.field_size_limit(sys.maxsize)
    try:
        with open_file(file) as stream:
            rows = csv.reader(io.TextIOWrapper(stream, "latin-1", newline=""), delimiter=delimiter)
            line = 1
            for content in rows:
                if content and row == 0:
                    break
                row -= bool(content)
                line = rows.line_num + 1
            return line
    finally:
        csv.field_size_limit(limit)


def _open_csv(
    stream: "_CheckedStream", delimiter: str, columns: list[str], handler: RowHandler
) -> Iterable[pa.RecordBatch]:
    # Text is read as bytes, because `as_text` has its own message for invalid UTF-8.
    types = dict.fromkeys(columns, pa.string()) | {columns[0]: pa.binary()}
    return pyarrow.csv.open_csv(
        stream,
        pyarrow.csv.ReadOptions(use_threads=False, block_size=BATCH_BYTES),
        pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=handler),
        pyarrow.csv.ConvertOptions(check_utf8=False, include_columns=columns, column_types=types),
    )


def _delimiter(file: SourceFile, options: ReadOptions) -> str:
    if options.delimiter is not None:
        return options.delimiter
    return "\t" if file.extension in (".tsv", ".tab") else ","


def _csv_header(file: SourceFile, options: ReadOptions) -> list[str]:
    with open_file(file) as stream:
        start = read_some(stream, HEADER_BYTES, file)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(f"{file.url}: text in UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE")
    text = start.decode("utf-8-sig", "replace")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(file, options))
    return next((row for row in rows if row), [])


class _CheckedStream:
    """A stream for Arrow that raises DataError for damaged compressed data."""

    def __init__(self, stream: Any, file: SourceFile):
        self._stream = stream
        self._file = file
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes."""
        return read_some(self._stream, size, self._file)

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Mark the stream as closed. Its owner closes the file."""
        self.closed = True


# --- Parquet ---


class ParquetReader(Reader):
    """A column of text or of token lists in Parquet files."""

    kind = "Parquet"
    has_columns = True

    def partitions(self) -> Iterable[Partition]:
        """Group consecutive row groups of a file into partitions of about PARTITION_BYTES."""
        for file in self.files:
            with open_file(file) as stream, _open_parquet(file, stream) as found:
                _check_columns(file, _paths(found.schema_arrow), wanted_columns(self.options))
                yield from _row_group_ranges(file, found.metadata)

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the rows of the partition's row groups."""
        file = part.file
        row = part.first_row
        groups = range(part.start, part.stop)
        columns = wanted_columns(self.options)
        with open_file(file) as stream, _open_parquet(file, stream) as found:
            batch_rows = _rows_per_batch(found.metadata, groups)
            try:
                for some in _groups_read_together(found.schema_arrow, groups):
                    for block in found.iter_batches(batch_rows, row_groups=some, columns=columns, use_threads=False):
                        yield self._batch(file, block, row)
                        row += block.num_rows
            except (*DAMAGED, OSError) as error:
                raise DataError(f"{file.url}, at row {row} or after: {_first_line(error)}") from None

    def _batch(self, file: SourceFile, block: pa.RecordBatch, first_row: int) -> Batch:
        values = column_at(block, self.options.tokens or self.options.text)
        keys = column_at(block, self.options.key) if self.options.key else None
        row_name = _row_name(file, first_row)
        kept = _kept_columns(block, self.options, row_name, is_typed=True)
        return column_batch(self.options, file.name, values, keys, row_name, first_row, kept)


def _groups_read_together(schema: pa.Schema, groups: range) -> list[list[int]]:
    """Return the row groups of each call of Arrow. It cannot join lists of dictionary values of several row groups."""
    for field in schema:
        if pa.types.is_nested(field.type) and "dictionary<" in str(field.type):
            return [[group] for group in groups]
    return [list(groups)]


def _paths(schema: pa.Schema) -> list[str]:
    """Return the names of all columns, and of the fields of nested ones, such as "article.body"."""
    paths = list(schema.names)
    nested = [(field.name, field.type) for field in schema]
    while nested:
        name, kind = nested.pop()
        if pa.types.is_struct(kind):
            inner = [(f"{name}.{kind.field(i).name}", kind.field(i).type) for i in range(kind.num_fields)]
            # A column whose own name has dots comes first.
            paths += [path for path, _ in inner if path not in schema.names]
            nested += inner
    return paths


def _open_parquet(file: SourceFile, stream: Any) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(stream, buffer_size=PARQUET_BUFFER_BYTES)
    except (*DAMAGED, OSError) as error:
        raise DataError(f"{file.url}: not a Parquet file ({_first_line(error)})") from None


def _row_group_ranges(file: SourceFile, metadata: pq.FileMetaData) -> Iterator[Partition]:
    """Yield partitions of consecutive row groups; one empty partition for a file without any."""
    if not metadata.num_row_groups:
        yield Partition(file, 0, 0)
    first_group = 0
    first_row = 1
    next_row = 1
    size = 0
    for group in range(metadata.num_row_groups):
        size += metadata.row_group(group).total_byte_size
        next_row += metadata.row_group(group).num_rows
        if size >= PARTITION_BYTES or group == metadata.num_row_groups - 1:
            yield Partition(file, first_group, group + 1, first_row)
            first_group = group + 1
            first_row = next_row
            size = 0


def _rows_per_batch(metadata: pq.FileMetaData, groups: range) -> int:
    """Return how many rows have about BATCH_BYTES, but at most MAX_ROWS."""
    size = sum(metadata.row_group(group).total_byte_size for group in groups)
    rows = sum(metadata.row_group(group).num_rows for group in groups)
    return max(1, min(rows, rows * BATCH_BYTES // max(1, size), MAX_ROWS))
