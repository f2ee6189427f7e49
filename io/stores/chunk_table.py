"""Tables of chunks: one row of whole numbers per chunk.

A store may have a hundred thousand chunks. So its JSON file has only their number, and opening the store reads no more
than this file. The rows are in a Parquet file, which is read when they are needed.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from ..errors import DataError
from .store import Store

#: The table of a store that has one part.
TABLE = "chunks.parquet"

#: A dataclass with one whole number per column; functions take its class as ``kind``.
Row = TypeVar("Row")


def write_chunk_table(store: Store, name: str, kind: Callable[..., Row], rows: Sequence[Row]) -> None:
    """Write the rows, of class ``kind``, to a Parquet file."""
    columns = _columns(kind)
    numbers = [[getattr(row, column) for row in rows] for column in columns]
    store.write_parquet(name, pa.table({c: np.array(n, np.int64) for c, n in zip(columns, numbers, strict=True)}))


def read_chunk_table(store: Store, name: str, kind: Callable[..., Row], count: int) -> list[Row]:
    """Return the rows of a table; raise DataError if it does not have ``count`` rows of the class ``kind``."""
    table = store.read_parquet(name)
    if table.num_rows != count or table.column_names != _columns(kind):
        raise DataError(f"{store.url}/{name}: not the table of this store; restore it or write the store again")
    return [kind(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _columns(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]
