"""Readers of text: JSONL, one document a line, CSV, Parquet, a folder of files, and what is in memory already.

A reader cuts a source into partitions and reads each on its own, in batches of bounded size; `open_source` picks one.
"""

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from .source import (
    BATCH_BYTES,
    MAX_PARTITIONS,
    PARTITION_BYTES,
    Batch,
    Partition,
    ReadOptions,
    SourceFile,
    as_text,
    line_blocks,
    open_file,
    read_some,
    row_keys,
)
from .store import DataError

#: Rows of a Parquet file that are unpacked at once, however small they look packed.
MOST_ROWS = 4096


@dataclass(frozen=True)
class Reader(ABC):
    """A source of documents. It travels with every task, so it holds names and numbers only."""

    files: tuple[SourceFile, ...]
    options: ReadOptions
    #: Whether tokens come in the order of a text (False: a bag of words).
    ordered: ClassVar[bool] = True
    #: Whether a partition can be read again: False for what stands in memory.
    repeatable: ClassVar[bool] = True

    @abstractmethod
    def partitions(self) -> Iterable[Partition]:
        """Cut the source; what a partition's numbers mean is the reader's business."""

    @abstractmethod
    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the partition's documents in order; raise DataError that names file and row or line."""

    def describe(self) -> list[list[Any]]:
        """Return what identifies the source's content: name, size and time of change of each file."""
        return [[f.url, f.size, f.modified] for f in self.files]

    def only(self, files: Iterable[SourceFile]) -> "Reader":
        """Return the reader of some of the files, whose documents keep the keys that they have among all."""
        fewer = copy.copy(self)
        object.__setattr__(fewer, "files", tuple(files))
        return fewer

    def for_tasks(self) -> "Reader":
        """Return this reader without its files: a partition names its own, tasks need not carry the names of all."""
        return self.only(())


class LineReader(Reader):
    """Base of formats where lines stand on their own: large files are cut into byte ranges at line ends."""

    def partitions(self) -> Iterable[Partition]:
        """Ranges of about PARTITION_BYTES; a packed file is one partition."""
        return line_partitions(self.files)

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the documents of the partition's lines."""
        for data, line in line_blocks(part.file, part):
            yield self.parse(part.file, data, line)

    @abstractmethod
    def parse(self, file: SourceFile, data: bytes, line: int) -> Batch:
        """Return the documents of whole lines, the first of which is number ``line`` of the file."""


def line_partitions(files: Iterable[SourceFile]) -> Iterator[Partition]:
    """Cut files of lines into byte ranges of about PARTITION_BYTES; a packed file is one partition."""
    files = list(files)
    size = max(PARTITION_BYTES, sum(f.size for f in files) // MAX_PARTITIONS)
    for file in files:
        if file.compression or file.size <= size * 3 // 2:
            yield Partition(file)
        else:
            yield from _ranges(file, size)


def _ranges(file: SourceFile, size: int) -> Iterator[Partition]:
    """Cut a file into byte ranges; lines are counted on the way, so that each range knows its first line's number."""
    first, counted = 1, 0
    with open_file(file) as stream:
        for start in range(0, file.size, size):
            # A range begins after the line end at or after start - 1.
            target = max(0, start - 1)
            while counted < target:
                block = stream.read(min(BATCH_BYTES, target - counted))
                first += block.count(b"\n")
                counted += len(block)
            yield Partition(file, start, start + size, first + (start > 0))


class Lines(LineReader):
    """One document a line."""

    def parse(self, file: SourceFile, data: bytes, line: int) -> Batch:
        """Return a document for each line, empty ones too."""
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if b"\r" in data:
            lines = [one.removesuffix(b"\r") for one in lines]
        texts = as_text(pa.array(lines, pa.large_binary()), self.options, lambda row: f"{file.url}, line {line + row}")
        return Batch(row_keys(file.name, line, len(lines)), texts)


class JSONLines(LineReader):
    """One JSON object a line, blank lines left out."""

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
            if table is not None:
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
                _check_json(value, field, where)
                values.append(_clean(value))
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
        raise DataError(f"{where}: not valid JSON ({error})") from None
    if not isinstance(found, dict):
        raise DataError(f"{where}: a JSON {type(found).__name__} where an object is needed")
    return found


def _check_json(value: Any, field: pa.Field, where: str) -> None:
    if pa.types.is_list(field.type):
        wanted, fits = "a list of strings", isinstance(value, list) and all(isinstance(v, str) for v in value)
    else:
        wanted, fits = "a string", isinstance(value, str)
    if value is not None and not fits:
        raise DataError(f"{where}: field {field.name!r} is {json.dumps(value)[:40]} where {wanted} is needed")


def _clean(value: Any) -> Any:
    """Replace lone surrogates, which JSON can spell and UTF-8 cannot."""
    if isinstance(value, list | tuple):
        return [_clean(v) for v in value]
    return value if value is None or value.isascii() else value.encode("utf-8", "replace").decode()


def _text_of(key: Any) -> str | None:
    return None if key is None else _clean(str(key))


def _batch(
    options: ReadOptions,
    file: SourceFile,
    values: pa.Array,
    keys: pa.Array | None,
    where: Callable[[int], str],
    first: int,
) -> Batch:
    """Make a batch of a column of text or tokens and, if there is one, of keys."""
    content = (_token_lists if options.tokens else as_text)(values, options, where)
    if keys is None:
        return Batch(row_keys(file.name, first, len(values)), content)
    if keys.null_count:
        row = keys.is_null().to_pylist().index(True)
        raise DataError(f"{where(row)}: no key in {options.key!r}")
    return Batch(keys.cast(pa.string()), content)


def _token_lists(values: pa.Array, options: ReadOptions, where: Callable[[int], str]) -> pa.Array:
    try:
        lists = values.cast(pa.large_list(pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"{where(0)}: column {options.tokens!r} is {values.type} where lists of strings are needed"
        ) from None
    if lists.null_count and options.null_text == "error":
        row = lists.is_null().to_pylist().index(True)
        raise DataError(f"{where(row)}: no tokens; drop such rows, or ingest with null_text=empty")
    if lists.flatten().null_count:
        row = next(i for i, tokens in enumerate(lists) if tokens.is_valid and None in tokens.as_py())
        raise DataError(f"{where(row)}: a token is null")
    return lists


class CSV(Reader):
    """Comma- or tab-separated text with a header; a column of tokens has them separated by blanks.

    A file is one partition, since quoted fields may hold line ends.
    """

    def partitions(self) -> Iterable[Partition]:
        """One a file."""
        return [Partition(f) for f in self.files]

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the rows in blocks."""
        file, options, row = part.file, self.options, part.first
        name, key = options.tokens or options.text, options.key
        with open_file(file) as stream:
            try:
                reader = pyarrow.csv.open_csv(
                    _Checked(stream, file),
                    pyarrow.csv.ReadOptions(use_threads=False, block_size=BATCH_BYTES),
                    pyarrow.csv.ParseOptions(
                        delimiter="\t" if file.extension in (".tsv", ".tab") else ",", newlines_in_values=True
                    ),
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
            except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
                raise DataError(f"{file.url}, at row {row} or after: {_sentence(error)}") from None

    def _batch(self, file: SourceFile, block: pa.RecordBatch, row: int) -> Batch:
        options = self.options
        values = as_text(block.column(0), options, lambda i: f"{file.url}, row {row + i}")
        if options.tokens:
            values = pa.compute.utf8_split_whitespace(values).cast(pa.large_list(pa.large_string()))
        keys = block.column(1) if options.key else None
        return _batch(options, file, values, keys, lambda i: f"{file.url}, row {row + i}", row)


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


class Parquet(Reader):
    """A column of text or of token lists in Parquet files, cut at row groups."""

    def partitions(self) -> Iterable[Partition]:
        """Consecutive row groups of about PARTITION_BYTES."""
        for file in self.files:
            with open_file(file) as stream, _parquet(file, stream) as found:
                meta = found.metadata
                _check_column(file, found, self.options.tokens or self.options.text)
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


def _check_column(file: SourceFile, found: pq.ParquetFile, name: str) -> None:
    if name not in found.schema_arrow.names:
        raise DataError(f"{file.url}: no column {name!r}; it has {', '.join(found.schema_arrow.names)}")


def _rows_a_batch(meta: pq.FileMetaData, groups: range) -> int:
    size = sum(meta.row_group(g).total_byte_size for g in groups)
    rows = sum(meta.row_group(g).num_rows for g in groups)
    # The size is that of packed pages, which may be far below that of the rows: never take many of them at once.
    return max(1, min(rows, rows * BATCH_BYTES // max(1, size), MOST_ROWS))


class TextFiles(Reader):
    """Each file is a document; its key is its path below the folder."""

    def partitions(self) -> Iterable[Partition]:
        """Consecutive files of about PARTITION_BYTES."""
        limit = max(PARTITION_BYTES, sum(f.size for f in self.files) // MAX_PARTITIONS)
        start, size = 0, 0
        for number, file in enumerate(self.files, 1):
            size += file.size
            if size >= limit or number == len(self.files):
                yield Partition(self.files[start], more=self.files[start + 1 : number])
                start, size = number, 0

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the files' whole content."""
        waiting: list[tuple[SourceFile, bytes]] = []
        size = 0
        for file in (part.file, *part.more):
            with open_file(file) as stream:
                waiting.append((file, read_some(stream, -1, file)))
            size += len(waiting[-1][1])
            if size >= BATCH_BYTES:
                yield self._batch(waiting)
                waiting, size = [], 0
        if waiting:
            yield self._batch(waiting)

    def _batch(self, read: list[tuple[SourceFile, bytes]]) -> Batch:
        content = pa.array([data for _, data in read], pa.large_binary())
        return Batch(
            pa.array([file.name for file, _ in read], pa.string()),
            as_text(content, self.options, lambda row: f"{read[row][0].url}, row 1"),
        )


class Documents(Reader):
    """An iterable of strings or of token lists; each is numbered from 0. It is read once, batch by batch."""

    repeatable = False

    def __init__(self, documents: Iterable[Any], options: ReadOptions):
        super().__init__((), options)
        object.__setattr__(self, "documents", documents)

    def partitions(self) -> Iterable[Partition]:
        """One: the iterable may not be read twice."""
        return [Partition(SourceFile("documents", "", 0, ""), first=0)]

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the documents in batches of bounded size."""
        first = 0
        for documents in _bounded(self.documents):  # type: ignore[attr-defined]
            yield _in_memory(documents, self.options, first)
            first += len(documents)

    def describe(self) -> list[list[Any]]:
        """Nothing that could be compared."""
        return [["documents in memory"]]


def _bounded(documents: Iterable[Any]) -> Iterator[list[Any]]:
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        # A token takes about eight bytes of text.
        size += (1 if isinstance(document, str) else 8) * (len(document) if hasattr(document, "__len__") else 0)
        if size >= BATCH_BYTES or len(batch) >= 1 << 16:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _in_memory(documents: list[Any], options: ReadOptions, first: int) -> Batch:
    is_text = isinstance(next((d for d in documents if d is not None), ""), str)
    for row, document in enumerate(documents):
        if document is not None and not _is_document(document, is_text):
            raise DataError(
                f"document {first + row} is {str(document)[:40]!r}: all must be strings, or all lists of strings"
            )
    try:
        values = pa.array(documents, pa.large_string() if is_text else pa.large_list(pa.large_string()))
    except UnicodeEncodeError as error:
        if options.encoding_errors == "strict":
            raise DataError(
                f"documents {first} to {first + len(documents) - 1}: {error.object[error.start]!r} in one of them "
                f"cannot be encoded; pass encoding_errors='replace' to go on"
            ) from None
        return _in_memory([_clean(d) for d in documents], options, first)
    check = as_text if is_text else _token_lists
    keys = pa.array([str(i) for i in range(first, first + len(documents))], pa.string())
    return Batch(keys, check(values, options, lambda row: f"document {first + row}"))


def _is_document(document: Any, is_text: bool) -> bool:
    if is_text or isinstance(document, str):
        return is_text and isinstance(document, str)
    return isinstance(document, Iterable) and all(isinstance(token, str) for token in document)
