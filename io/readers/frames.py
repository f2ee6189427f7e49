"""Reader of tables in memory, through the Arrow C stream or by iteration, so that their libraries are not imported.

Tables of pandas, polars, pyarrow and others, and Dask data frames, give Arrow batches. Data sets of Hugging Face, Dask
bags and lists of dictionaries are iterated, and give one dictionary per row; so are parts of tables.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow.interchange import from_dataframe

from ..data import TO_ARROW, as_mapping, column_names, is_dask_collection, is_row, is_table, items_of
from ..errors import DataError
from ..matrices.memory import is_missing
from ..messages import listed
from .batches import (
    Batch,
    ReadOptions,
    RowName,
    column_at,
    column_batch,
    field_names,
    number_keys,
    values_at,
    wanted_columns,
)
from .kept import KeptColumn, kept_column, values_column
from .reader import InMemoryReader
from .source import Partition

#: Rows of dictionaries that become one batch.
BATCH_ROWS = 4096


class TableReader(InMemoryReader):
    """A table in memory. The options name its columns of text or tokens and of keys; a row without key is numbered."""

    kind = "Table"
    what = "table"

    def __init__(self, parts: Iterable["TablePart"], options: ReadOptions):
        super().__init__(options)
        self._parts = parts
        self._names: dict[str, None] = {}

    def read(self, partition: Partition) -> Iterator[Batch]:
        """Yield the rows."""
        first = 0
        for rows in self._parts:
            self._names |= dict.fromkeys(rows.names)

            def row_name(row: int, first: int = first) -> str:
                return f"table, row {first + row}"

            values = rows.column(self.options.tokens or self.options.text, row_name)
            if self.options.key:
                keys = rows.column(self.options.key, row_name)
            else:
                keys = number_keys(first, len(values))
            kept = None
            if self.options.keep:
                kept = {name: rows.kept(name, row_name) for name in self.options.keep}
            yield column_batch(self.options, "table", values, keys, row_name, first, kept)
            first += len(values)

    def field_names(self) -> list[str]:
        """Return the names of the columns that were read."""
        return list(self._names)


def _describe_missing(name: str, names: Sequence[str]) -> str:
    return (
        f"the table has no column {name!r}; its columns are {listed(names)}; name one of them with the options "
        f"text, tokens, key or keep"
    )


class ArrowRows:
    """The rows of an Arrow batch, all of whose values in a column have one type."""

    def __init__(self, batch: pa.RecordBatch):
        self._batch = batch
        self.names = list(batch.schema.names)

    def column(self, name: str, row_name: RowName) -> pa.Array:
        """Return a column, or a field of nested columns."""
        column = column_at(self._batch, name)
        if column is None:
            raise DataError(_describe_missing(name, self.names))
        return column

    def kept(self, name: str, row_name: RowName) -> KeptColumn:
        """Return a column that the option keep names."""
        return kept_column(self.column(name, row_name), name, row_name)


class DictionaryRows:
    """Rows that are dictionaries. A column may be missing in some of them, and its values may have several types."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]):
        self._rows = rows
        self.names = field_names(rows)

    def column(self, name: str, row_name: RowName) -> pa.Array:
        """Return a column of text, tokens or keys, whose values must have one type."""
        values, is_present = values_at(self._rows, name)
        if not is_present:
            raise DataError(_describe_missing(name, self.names))
        try:
            column = pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            raise DataError(_describe_types(name, values, row_name)) from None
        except UnicodeEncodeError as error:
            raise DataError(
                f"{row_name(0)} or later: column {name!r} has {error.object[error.start]!r}, which cannot be encoded "
                f"as UTF-8; remove or replace it"
            ) from None
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column

    def kept(self, name: str, row_name: RowName) -> KeptColumn:
        """Return a column that the option keep names."""
        values, is_present = values_at(self._rows, name)
        return values_column(values, name, row_name, is_present)


#: Some rows of a table that follow each other.
TablePart: TypeAlias = ArrowRows | DictionaryRows


def _describe_types(name: str, values: Sequence[Any], row_name: RowName) -> str:
    """Say which types the values of a column have, how many values have each, and where the second type begins."""
    first_rows: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for row, value in enumerate(values):
        if not is_missing(value):
            first_rows.setdefault(type(value).__name__, row)
            counts[type(value).__name__] += 1
    types = ", ".join(f"{kind} ({counts[kind]:,})" for kind in first_rows)
    # The last of up to two rows: there may be only one type if the values are too large for it.
    where = row_name(list(first_rows.values())[:2][-1])
    return f"{where}: column {name!r} has values of several types, {types}; convert the column to text"


def table_parts(data: Any, options: ReadOptions) -> Iterator[TablePart]:
    """Yield the rows of a table in parts. Only the columns that the options name are converted.

    Raises DataError for a table that cannot be converted, and for rows whose values have no names.
    """
    if is_dask_collection(data) and is_table(data):
        for part in _select(data, options).to_delayed():
            yield from _parts_of(part.compute())
    elif is_table(data) and any(hasattr(data, name) for name in TO_ARROW):
        yield from _parts_of(_select(data, options))
    else:
        yield from _row_parts(items_of(data), options)


def _parts_of(data: Any) -> Iterator[TablePart]:
    try:
        batches = arrow_batches(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError):
        # A column of pandas may have values of several types, or text that is not UTF-8.
        if not hasattr(data, "to_dict"):
            raise
        for first in range(0, len(data), BATCH_ROWS):
            yield DictionaryRows(data[first : first + BATCH_ROWS].to_dict("records"))
        return
    for batch in batches:
        yield ArrowRows(batch)


def arrow_batches(data: Any) -> Iterable[pa.RecordBatch]:
    """Return the batches of a table. Earlier versions of libraries have only the later ways of `TO_ARROW`."""
    if isinstance(data, pa.Table):
        # A stream of the views of strings kills the process with pyarrow 18 to 24.
        return data.to_batches()
    if hasattr(data, "__arrow_c_stream__"):
        batches: Iterable[pa.RecordBatch] = pa.RecordBatchReader.from_stream(data)
        return batches
    table = data.to_arrow() if hasattr(data, "to_arrow") else from_dataframe(data)
    return pa.table(table).to_batches()


def _select(data: Any, options: ReadOptions) -> Any:
    """Return the columns of a table that the options name; raise DataError if one is missing or occurs twice."""
    is_arrow = isinstance(data, pa.Table | pa.RecordBatch)
    present = column_names(data)
    names = [str(name) for name in present]
    wanted: dict[Any, None] = {}
    for name in wanted_columns(options):
        root = name if name in names else name.partition(".")[0]
        if root not in names:
            raise DataError(_describe_missing(name, names))
        if names.count(root) > 1:
            raise DataError(f"table: {names.count(root)} columns have the name {root!r}; rename all but one")
        wanted[present[names.index(root)]] = None
    if is_arrow or hasattr(data, "get_column"):
        return data.select(list(wanted))
    if hasattr(data, "loc"):
        return data[list(wanted)]
    return data


def _row_parts(items: Iterator[Any], options: ReadOptions) -> Iterator[TablePart]:
    """Yield rows whose values have names, and tables, which may follow each other, in parts."""
    rows: list[Mapping[str, Any]] = []
    for number, item in enumerate(items):
        if is_row(item):
            rows.append(as_mapping(item))
        elif not is_table(item):
            raise DataError(
                f"table, row {number}: a {type(item).__name__} where a dictionary or a table is needed; convert the "
                f"table to Arrow or to pandas, or pass the column with the text alone"
            )
        if rows and (len(rows) == BATCH_ROWS or not is_row(item)):
            yield DictionaryRows(rows)
            rows = []
        if not is_row(item):
            yield from table_parts(item, options)
    if rows:
        yield DictionaryRows(rows)
