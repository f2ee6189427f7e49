"""Readers of stored tables: Parquet and Arrow. One column holds text or tokens; another one may hold the key."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError
from ..messages import listed, shortened
from ..stores.formats import DAMAGED
from .batches import (
    BATCH_BYTES,
    Batch,
    ReadOptions,
    RowName,
    column_at,
    column_batch,
    wanted_columns,
)
from .kept import KeptColumns, kept_column
from .reader import PARTITION_BYTES, Reader
from .source import Partition, SourceFile, open_file

#: Most rows of a Parquet file in a batch. Compressed sizes say little about the sizes of the rows.
MAX_ROWS = 4096
#: How a file of Arrow begins that is no stream.
ARROW_FILE = b"ARROW1"
#: Bytes of a Parquet file that are read at a time.
PARQUET_BUFFER_BYTES = 1 << 20


def check_columns(
    file: SourceFile, present: list[str], wanted: list[str], where: str = "the columns", advice: str = ""
) -> None:
    """Raise DataError unless each wanted column occurs once; Arrow would read the first of several.

    ``where`` is what the error calls the names that are present, and ``advice`` ends it if a name is missing.
    """
    for name in wanted:
        if name not in present:
            raise DataError(
                f"{file.url}: no column {name!r}; {where} are {listed(present, 'empty')}; "
                f"name one of them with text, tokens, key or keep (in a configuration: source.text and so on){advice}"
            )
        if present.count(name) > 1:
            raise DataError(f"{file.url}: {present.count(name)} columns have the name {name!r}; rename all but one")


def kept_columns(block: pa.RecordBatch, options: ReadOptions, row_name: RowName, is_typed: bool) -> KeptColumns | None:
    """Return the columns that the options keep, or None if they keep none."""
    if not options.keep:
        return None
    return {name: kept_column(column_at(block, name), name, row_name, is_typed) for name in options.keep}


def _first_line(error: Exception) -> str:
    """Return the first line of Arrow's message."""
    return shortened(error).strip().strip("'\"").splitlines()[0]


# --- Parquet ---


class ParquetReader(Reader):
    """A column of text or of token lists in Parquet files."""

    kind = "Parquet"

    def partitions(self) -> Iterable[Partition]:
        """Group consecutive row groups of a file into partitions of about PARTITION_BYTES."""
        for file in self.files:
            with open_file(file) as stream, open_parquet(file, stream) as found:
                check_columns(file, _paths(found.schema_arrow), wanted_columns(self.options))
                yield from _row_group_ranges(file, found.metadata)

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the rows of the partition's row groups."""
        file = partition.file
        row = partition.first_row
        groups = range(partition.start, partition.stop)
        columns = wanted_columns(self.options)
        with open_file(file) as stream, open_parquet(file, stream) as found:
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

        def row_name(row: int) -> str:
            return f"{file.url}, row {first_row + row}"

        kept = kept_columns(block, self.options, row_name, is_typed=True)
        return column_batch(self.options, file.name, values, keys, row_name, first_row, kept)


#: Errors of damaged files. A damaged length asks for more memory than there is.
_DAMAGED_ARROW = (*DAMAGED, MemoryError, OSError)


class ArrowReader(ParquetReader):
    """The same in Arrow's own format: a file, which Feather writes too, or a stream."""

    kind = "Arrow"

    def partitions(self) -> Iterable[Partition]:
        """Return one partition per file."""
        for file in self.files:
            with open_file(file) as stream, open_arrow(stream, file) as found:
                check_columns(file, _paths(found.schema), wanted_columns(self.options))
            yield Partition(file)

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the rows."""
        file = partition.file
        row = partition.first_row
        with open_file(file) as stream, open_arrow(stream, file) as found:
            try:
                for batch in arrow_batches(found):
                    # A column may have many others beside it, so the rows that are tokenised at once are few.
                    for first in range(0, batch.num_rows, MAX_ROWS):
                        block = batch.slice(first, MAX_ROWS)
                        yield self._batch(file, block, row)
                        row += block.num_rows
            except _DAMAGED_ARROW as error:
                raise DataError(f"{file.url}, at row {row} or after: {_first_line(error)}") from None


def open_arrow(stream: Any, file: SourceFile) -> Any:
    """Open Arrow's file format or its stream format, whichever the first bytes show."""
    options = pa.ipc.IpcReadOptions(use_threads=False)
    try:
        if stream.read(len(ARROW_FILE)) == ARROW_FILE:
            return pa.ipc.open_file(stream, options=options)
        stream.seek(0)
        return pa.ipc.open_stream(stream, options=options)
    except _DAMAGED_ARROW as error:
        raise DataError(f"{file.url}: not a whole file of Arrow ({_first_line(error)})") from None


def arrow_batches(found: Any) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an open file or stream of Arrow."""
    if isinstance(found, pa.ipc.RecordBatchFileReader):
        for index in range(found.num_record_batches):
            yield found.get_batch(index)
    else:
        yield from found


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


def open_parquet(file: SourceFile, stream: Any) -> pq.ParquetFile:
    """Open a Parquet file, of which nothing but its schema and sizes is read."""
    try:
        return pq.ParquetFile(stream, buffer_size=PARQUET_BUFFER_BYTES)
    except (*DAMAGED, OSError) as error:
        raise DataError(f"{file.url}: not a whole Parquet file ({_first_line(error)})") from None


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
