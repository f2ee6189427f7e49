"""Whole Parquet files, read by the thread that asks.

Arrow's own threads may still hold what Python gave them when the interpreter ends, which aborts the process: one of ten
short ones on a busy machine (github.com/apache/arrow/issues/34314).
"""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(source: Any) -> pa.Table:
    """Read a file, a stream or a buffer. Raises pyarrow.ArrowInvalid for what is none."""
    with pq.ParquetFile(source, pre_buffer=False) as file:
        return file.read(use_threads=False)
