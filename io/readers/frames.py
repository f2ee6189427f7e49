"""Reader of tables in memory, through the Arrow C stream or by iteration, so that their libraries are not imported.

Tables of pandas, polars and pyarrow, and Dask data frames, give Arrow batches. Data sets of Hugging Face, Dask bags and
lists of dictionaries are iterated, and give one dictionary per row.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from ..matrices.memory import is_dask_array
from ..stores.messages import listed
from ..stores.store import DataError
from .batches import Batch, ReadOptions, column_at, column_batch
from .kept import kept_column
from .reader import Reader
from .source import Partition, SourceFile

#: Rows of dictionaries that become one batch.
BATCH_ROWS = 4096


def is_dask_collection(data: Any) -> bool:
    """Return whether an object is a Dask bag, series or data frame, which is computed part by part."""
    is_collection = hasattr(data, "dask") and hasattr(data, "to_delayed") and hasattr(data, "npartitions")
    return is_collection and not is_dask_array(data)


def is_table(data: Any) -> bool:
    """Return whether an object is a table with named columns, and not a single column."""
    if is_dask_collection(data):
        return getattr(data, "ndim", 1) == 2
    return hasattr(data, "__arrow_c_stream__") and (hasattr(data, "columns") or hasattr(data, "column_names"))


def has_numbers_only(data: Any) -> bool:
    """Return whether all columns of a table are numbers. Then it is read as a matrix, and otherwise as documents."""
    if hasattr(data, "schema") and isinstance(data.schema, pa.Schema):
        return all(_is_number(field.type) for field in data.schema)
    dtypes = getattr(data, "dtypes", [])
    kinds = [str(getattr(dtype, "kind", "")) for dtype in dtypes]
    if "" in kinds:  # the types of polars
        return all(dtype.is_numeric() for dtype in dtypes)
    return all(kind in "biuf" for kind in kinds)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def items_of(data: Any) -> Iterator[Any]:
    """Yield the items of a column, of a Dask bag or series (part by part), or of any iterable."""
    if is_dask_collection(data):
        for part in data.to_delayed():
            yield from part.compute()
    elif hasattr(data, "to_pylist"):
        yield from data.to_pylist()
    else:
        yield from data


class TableReader(Reader):
    """A table in memory. The options name its columns of text or tokens and of keys; a row without key is numbered."""

    kind = "Table"
    has_columns = True
    is_repeatable = False

    def __init__(self, batches: Iterable[pa.RecordBatch], options: ReadOptions):
        super().__init__((), options)
        self._batches = batches

    def partitions(self) -> Iterable[Partition]:
        """Return one partition: the table is not sent to workers."""
        return [Partition(SourceFile("table", "", 0, ""), first_row=0)]

    def read(self, part: Partition) -> Iterator[Batch]:
        """Yield the rows."""
        first = 0
        for batch in self._batches:
            values = _column(batch, self.options.tokens or self.options.text)
            keys = _column(batch, self.options.key) if self.options.key else _numbers(first, batch.num_rows)
            kept = None
            if self.options.keep:
                columns = {name: kept_column(_column(batch, name), name, "table") for name in self.options.keep}
                kept = pa.table(columns)
            yield column_batch(self.options, "table", values, keys, _row_name(first), first, kept)
            first += batch.num_rows

    def describe(self) -> list[list[str | int]]:
        """Return a fixed text: a table in memory has no version that could be compared."""
        return [["table in memory"]]


def _row_name(first: int) -> Any:
    return lambda row: f"table, row {first + row}"


def _numbers(first: int, n_rows: int) -> pa.Array:
    return pa.array([str(row) for row in range(first, first + n_rows)], pa.string())


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = column_at(batch, name)
    if column is None:
        raise DataError(
            f"the table has no column {name!r}; its columns are {listed(batch.schema.names)}; name one of them with "
            f"the options text, tokens, key or keep"
        )
    return column


def table_batches(data: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as Arrow batches."""
    if is_dask_collection(data):
        for part in data.to_delayed():
            yield from pa.RecordBatchReader.from_stream(part.compute())
    else:
        yield from pa.RecordBatchReader.from_stream(data)


def rows_or_documents(data: Iterable[Any]) -> tuple[bool, Iterator[Any]]:
    """Return whether the items of an iterable are rows, which are dictionaries, and an iterator over all of them."""
    items = items_of(data)
    first = list(islice(items, 1))
    are_rows = bool(first) and isinstance(first[0], Mapping)
    return are_rows, chain(first, items)


def row_batches(rows: Iterator[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Yield dictionaries, one per row, as Arrow batches."""
    while True:
        some = [dict(row) for row in islice(rows, BATCH_ROWS)]
        if not some:
            return
        yield pa.RecordBatch.from_pylist(some)
