"""Readers of rows with named fields: JSONL, CSV, Parquet. One field holds text or tokens, another maybe the key."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from ..stores.store import DataError
from .lines import LineBasedReader, Reader
from .source import (
    BATCH_BYTES,
    PARTITION_BYTES,
    Batch,
    Partition,
    ReadOptions,
    SourceFile,
    as_string,
    as_text,
    clean,
    open_file,
    read_some,
    row_keys,
    token_lists,
)

#: Rows of a Parquet file that are unpacked at once, however small they look packed.
MOST_ROWS = 4096
#: Bytes of a CSV file among which its header is looked for.
HEADER_BYTES = 1 << 16


class JSONLinesReader(LineBasedReader):
    """One JSON object a line, blank lines left out."""

    kind = "JSONLines"

    def parse(self, file: SourceFile, data: bytes, line: int) -> Batch:
        """Return a document for each object."""
        values, keys, lines = self._quickly(data) or self._slowly(file, data, line)
        return _batch(self.options, file, values, keys, lambda row: f"{file.url}, line {_nth(lines, line, row)}", line)

    def _quickly(self, data: bytes) -> tuple[pa.Array, pa.Array | None, None] | None:
        """Parse a block of well-formed lines; None where it needs a closer look."""
        if not _is_utf8(data):
            return None
        name, key = _field(self.options), self.options.key
        for kind in (pa.string(), pa.int64()) if key else (None,):
            table = _parse_json(data, pa.schema([name] + ([pa.field(key, kind)] if kind else [])))
            if table is not None and not (table[name.name].null_count and self.options.null_text == "error"):
                keys = _whole(table[key]).cast(pa.string()) if key else None
                return _whole(table[name.name]), keys, None
        return None

    def _slowly(self, file: SourceFile, data: bytes, line: int) -> tuple[pa.Array, pa.Array, list[int]]:
        """Parse line by line, say which one is wrong, and leave out blank ones."""
        field, key, errors = _field(self.options), self.options.key, self.options.encoding_errors
        values, keys, numbers = [], [], []
        for number, raw in enumerate(data.split(b"\n"), line):
            if raw.strip():
                where = f"{file.url}, line {number}"
                found = _object(raw, errors, where)
                value = found.get(field.name)
                if value is None and self.options.null_text == "error":
                    raise DataError(_without(field, found, where))
                _check_json(value, field, where)
                values.append(clean(value))
                keys.append(_text_of(found.get(key)) if key else f"{file.name}:{number}")
                numbers.append(number)
        return pa.array(values, field.type), pa.array(keys, pa.string()), numbers


def _field(options: ReadOptions) -> pa.Field:
    if options.tokens:
        return pa.field(options.tokens, pa.list_(pa.string()))
    return pa.field(options.text, pa.string())


def _parse_json(data: bytes, schema: pa.Schema) -> pa.Table | None:
    """Return a row a line, or None where Arrow does not get exactly that."""
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == data.count(b"\n") + (not data.endswith(b"\n")) else None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _nth(lines: list[int] | None, first: int, row: int) -> int:
    return lines[row] if lines is not None else first + row


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _object(raw: bytes, encoding_errors: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(raw.decode("utf-8", encoding_errors))
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: invalid UTF-8 at byte {error.start}; ingest with encoding_errors=replace to go on"
        ) from None
    except ValueError as error:
        raise DataError(f"{where}: not valid JSON ({error}); each line must be an object") from None
    if not isinstance(found, dict):
        raise DataError(
            f"{where}: a JSON {type(found).__name__} where an object is needed; each line must be one (jq -c '.[]')"
        )
    return found


def _without(field: pa.Field, found: dict[str, Any], where: str) -> str:
    what = "tokens" if pa.types.is_list(field.type) else "text"
    why = f"{field.name!r} is null" if field.name in found else f"the object has {', '.join(found) or 'no field'}"
    return f"{where}: no {what} ({why}): name its field with {what}=..., or ingest with null_text=empty"


def _check_json(value: Any, field: pa.Field, where: str) -> None:
    if pa.types.is_list(field.type):
        wanted, fits = "a list of strings", isinstance(value, list) and all(isinstance(v, str) for v in value)
    else:
        wanted, fits = "a string", isinstance(value, str)
    if value is not None and not fits:
        raise DataError(f"{where}: field {field.name!r} is {json.dumps(value)[:40]} where {wanted} is needed")


def _text_of(key: Any) -> str | None:
    return None if key is None else clean(str(key))


def _batch(
    options: ReadOptions,
    file: SourceFile,
    values: pa.Array,
    keys: pa.Array | None,
    where: Callable[[int], str],
    first: int,
) -> Batch:
    """Make a batch of a column of text or tokens and, if there is one, of keys."""
    content = (token_lists if options.tokens else as_text)(values, options, where)
    if keys is None:
        return Batch(row_keys(file.name, first, len(values)), content)
    if keys.null_count:
        row = keys.is_null().to_pylist().index(True)
        raise DataError(f"{where(row)}: no key in {options.key!r}")
    return Batch(as_string(keys, str(options.key), where).cast(pa.string()), content)


class CSVReader(Reader):
    """Comma- or tab-separated text with a header; a column of tokens has them separated by blanks.

    A file is one partition, since quoted fields may hold line ends.
    """

    kind = "CSV"

    def partitions(self) -> Iterable[Partition]:
        """One a file."""
        return [Partition(f) for f in self.files]

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the rows in blocks."""
        file, options, row = part.file, self.options, part.first
        name, key = options.tokens or options.text, options.key
        names = _header(file)
        # Of two columns of one name Arrow would take the first.
        if any(column and names.count(column) > 1 for column in (name, key)):
            raise DataError(_no_column(file, names, [name, key]))
        with open_file(file) as stream:
            try:
                reader = pyarrow.csv.open_csv(
                    _Checked(stream, file),
                    pyarrow.csv.ReadOptions(use_threads=False, block_size=BATCH_BYTES),
                    pyarrow.csv.ParseOptions(delimiter=_delimiter(file), newlines_in_values=True),
                    pyarrow.csv.ConvertOptions(
                        check_utf8=False,
                        include_columns=[name] + ([key] if key else []),
                        column_types={name: pa.binary()} | ({key: pa.string()} if key else {}),
                    ),
                )
                for block in reader:
                    if block.num_rows:
                        yield self._batch(file, block, row)
                    row += block.num_rows
            except pa.ArrowKeyError:
                raise DataError(_no_column(file, names, [name, key])) from None
            except pa.ArrowInvalid as error:
                raise DataError(f"{file.url}, at row {row} or after: {_sentence(error)}") from None

    def _batch(self, file: SourceFile, block: pa.RecordBatch, row: int) -> Batch:
        options = self.options
        values = as_text(block.column(0), options, lambda i: f"{file.url}, row {row + i}")
        if options.tokens:
            values = pa.compute.utf8_split_whitespace(values).cast(pa.large_list(pa.large_string()))
        keys = block.column(1) if options.key else None
        return _batch(options, file, values, keys, lambda i: f"{file.url}, row {row + i}", row)


def _delimiter(file: SourceFile) -> str:
    return "\t" if file.extension in (".tsv", ".tab") else ","


def _header(file: SourceFile) -> list[str]:
    with open_file(file) as stream:
        start = read_some(stream, HEADER_BYTES, file).decode("utf-8-sig", "replace")
    rows = csv.reader(io.StringIO(start, newline=""), delimiter=_delimiter(file))
    return next((row for row in rows if row), [])


def _no_column(file: SourceFile, names: list[str], wanted: list[str | None]) -> str:
    """Say which of the wanted columns is not among a file's, or not once."""
    name = next((name for name in wanted if name and names.count(name) != 1), "")
    if name in names:
        return f"{file.url}: {names.count(name)} columns {name!r}; rename all but one"
    return f"{file.url}: no column {name!r}; it has {', '.join(names)}: name one of them with text, tokens or key"


class _Checked:
    """A stream for Arrow whose damage is a DataError."""

    def __init__(self, stream: Any, file: SourceFile):
        self._stream, self._file, self.closed = stream, file, False

    def read(self, size: int = -1) -> bytes:
        """Read, or raise DataError."""
        return read_some(self._stream, size, self._file)

    def readable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Leave it to the owner."""
        self.closed = True


def _sentence(error: Exception) -> str:
    return str(error).strip().strip("'\"").splitlines()[0]


class ParquetReader(Reader):
    """A column of text or of token lists in Parquet files, cut at row groups."""

    kind = "Parquet"

    def partitions(self) -> Iterable[Partition]:
        """Consecutive row groups of about PARTITION_BYTES."""
        for file in self.files:
            with open_file(file) as stream, _parquet(file, stream) as found:
                meta = found.metadata
                names, wanted = found.schema_arrow.names, [self.options.tokens or self.options.text, self.options.key]
                if any(name and names.count(name) != 1 for name in wanted):
                    raise DataError(_no_column(file, names, wanted))
                start, size, row, first = 0, 0, 1, 1
                for group in range(meta.num_row_groups):
                    size += meta.row_group(group).total_byte_size
                    row += meta.row_group(group).num_rows
                    if size >= PARTITION_BYTES or group == meta.num_row_groups - 1:
                        yield Partition(file, start, group + 1, first)
                        start, size, first = group + 1, 0, row
                if not meta.num_row_groups:
                    yield Partition(file, 0, 0)

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the rows of the partition's row groups in blocks."""
        options, file, row = self.options, part.file, part.first
        name = options.tokens or options.text
        with open_file(file) as stream, _parquet(file, stream) as found:
            groups = range(part.start, part.stop)
            try:
                for block in found.iter_batches(
                    batch_size=_rows_a_batch(found.metadata, groups),
                    row_groups=list(groups),
                    columns=[name] + ([options.key] if options.key else []),
                    use_threads=False,
                ):
                    keys = block.column(options.key) if options.key else None
                    values = block.column(name)
                    if pa.types.is_dictionary(values.type):
                        values = values.dictionary_decode()
                    where = _where(file, row)
                    yield _batch(options, file, values, keys, where, row)
                    row += block.num_rows
            except (pa.ArrowInvalid, OSError) as error:
                raise DataError(f"{file.url}, at row {row} or after: {_sentence(error)}") from None


def _where(file: SourceFile, row: int) -> Callable[[int], str]:
    return lambda i: f"{file.url}, row {row + i}"


def _parquet(file: SourceFile, stream: Any) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(stream, buffer_size=1 << 20)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{file.url}: not a Parquet file ({_sentence(error)})") from None


def _rows_a_batch(meta: pq.FileMetaData, groups: range) -> int:
    size = sum(meta.row_group(g).total_byte_size for g in groups)
    rows = sum(meta.row_group(g).num_rows for g in groups)
    # The size is that of packed pages, which may be far below that of the rows: never take many of them at once.
    return max(1, min(rows, rows * BATCH_BYTES // max(1, size), MOST_ROWS))
