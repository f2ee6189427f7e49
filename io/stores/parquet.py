"""Read and write Parquet files without Arrow's threads.

Arrow's threads may still hold Python objects when the interpreter exits, which aborts the process. On a busy machine
this happened to one of ten short processes (https://github.com/apache/arrow/issues/34314).
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import IO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

#: A path, a stream, or a buffer of Arrow.
ParquetSource: TypeAlias = str | IO[bytes] | pa.NativeFile
#: Errors of damaged files. Names and types in a damaged schema may be invalid in other ways than its structure.
DAMAGED = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, UnicodeDecodeError)


@contextlib.contextmanager
def recognised_damage() -> Iterator[None]:
    """Context manager: raise ArrowInvalid instead of an OSError that comes from a damaged file."""
    try:
        yield
    except OSError as error:
        # Errors of the operating system have a number, and those of object stores have classes of their own.
        if type(error) is OSError and error.errno is None:
            raise pa.ArrowInvalid(str(error)) from error
        raise


@contextlib.contextmanager
def _opened(source: ParquetSource) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file and compare its checksums."""
    with recognised_damage(), pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True) as file:
        yield file


def read_parquet(source: ParquetSource) -> pa.Table:
    """Read a whole Parquet file from a path, stream or buffer; raise one of DAMAGED if the file is damaged."""
    with _opened(source) as file:
        return file.read(use_threads=False)


def read_parquet_rows(source: ParquetSource, first: int, stop: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Read some consecutive rows of a Parquet file; raise one of DAMAGED if the file is damaged."""
    with _opened(source) as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        ends = list(itertools.accumulate(sizes))
        groups = [group for group, end in enumerate(ends) if end > first and end - sizes[group] < stop]
        if not groups:
            return file.schema_arrow.empty_table().select(list(columns or file.schema_arrow.names))
        start = ends[groups[0]] - sizes[groups[0]]
        table = file.read_row_groups(groups, None if columns is None else list(columns), use_threads=False)
        return table.slice(first - start, stop - first)


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_page_checksum=True)
    return sink.getvalue().to_pybytes()
