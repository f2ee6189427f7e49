"""Whole Parquet files: tables to bytes, and bytes to tables without Arrow's threads.

Arrow's threads may still hold Python objects when the interpreter exits, which aborts the process. On a busy machine
this happened to one of ten short processes (https://github.com/apache/arrow/issues/34314).
"""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(source: Any) -> pa.Table:
    """Read a whole Parquet file from a path, stream or buffer; raise pyarrow.ArrowInvalid if it is not one."""
    with pq.ParquetFile(source, pre_buffer=False) as file:
        return file.read(use_threads=False)


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()
