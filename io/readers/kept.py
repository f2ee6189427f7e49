"""Columns of a source that are kept with the documents, such as date, title and author.

A batch of a source has the types that its reader found in it. Other batches of the same column may have other types:
CSV has only text, and a block of JSON may have whole numbers where the next one has fractions. So each batch says
which *kinds* its columns fit, and a column gets the first kind that all batches fit. Text fits always.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..stores.corpus import DOCUMENT_COLUMNS
from ..stores.store import DataError

#: The types of kept columns in a corpus, by kind. The first kind that fits is taken.
KINDS: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp-utc": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}
#: Text that is taken for a value of a kind. A number with a leading zero is text, such as a postal code. So is a number
#: with more digits than its type has, such as a long identifier.
PATTERNS = {
    "bool": r"^([Tt]rue|[Ff]alse)$",
    "int64": r"^(0|-?[1-9]\d{0,18})$",
    "double": r"^-?(0|[1-9]\d{0,14})(\.\d+)?([eE][+-]?(\d{1,2}|[12]\d\d|30[0-7]))?$",
    "date": r"^\d{4}-\d\d-\d\d$",
    "timestamp": r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$",
    "timestamp-utc": r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)$",
}
#: Decimal digits that every double keeps.
DOUBLE_DIGITS = 15
#: Tests for Arrow's types of text. CSV is read as binary, and polars has views.
TEXT_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)
#: Names of columns that a table of documents, or of their weights, has already.
RESERVED = (*DOCUMENT_COLUMNS, "document", "weights")


def check_kept_names(names: Sequence[str]) -> None:
    """Raise ValueError for a name that the table of documents uses itself, and for one that occurs twice."""
    for name in names:
        if name in RESERVED:
            raise ValueError(f"keep: a corpus has a column {name!r} of its own; rename the column of the source")
    if len(set(names)) < len(names):
        raise ValueError(f"keep names a column twice: {', '.join(names)}")


def kept_column(column: pa.Array, name: str, where: str) -> pa.Array:
    """Return a column as it is stored until all batches are read; raise DataError for nested and binary ones."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if any(is_of_kind(kind) for is_of_kind in TEXT_TYPES):
        return _as_utf8(column, name, where)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    is_time = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if is_number or is_time or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column
    raise DataError(f"{where}: column {name!r} is {kind}, and keep takes text, numbers, booleans, dates and times")


def _as_utf8(column: pa.Array, name: str, where: str) -> pa.Array:
    try:
        texts = column.cast(pa.string())
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raise DataError(f"{where}: column {name!r}, which keep names, has text that is not UTF-8") from None
    return texts


def values_column(values: Iterable[Any], name: str, where: str) -> pa.Array:
    """Return values of JSON as a column. Numbers and text in one column become text."""
    known = list(values)
    if any(isinstance(value, list | dict) for value in known):
        raise DataError(f"{where}: field {name!r} is nested, and keep takes text, numbers and booleans")
    try:
        return pa.array(known)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        return pa.array([_json_text(value) for value in known], pa.string())


def _json_text(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        value = json.dumps(value)
    # JSON can express lone surrogates, UTF-8 cannot.
    return value.encode("utf-8", "replace").decode()


def kinds_of(column: pa.Array | pa.ChunkedArray, is_typed: bool) -> list[str]:
    """Return the kinds that all values of a column fit.

    ``is_typed`` is False for sources such as CSV, in which numbers are text. In others, text is never taken for a
    number, but ISO dates and times are recognised, because JSON has no type for them.
    """
    kind = column.type
    if pa.types.is_null(kind) or column.null_count == len(column):
        return list(KINDS)
    if pa.types.is_boolean(kind):
        return ["bool", "string"]
    if pa.types.is_integer(kind):
        return _those_that_fit(column, ["int64", "double", "string"])
    if pa.types.is_decimal(kind) and kind.precision > DOUBLE_DIGITS:
        return ["string"]
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ["double", "string"]
    if pa.types.is_date(kind):
        return ["date", "timestamp", "string"]
    if pa.types.is_timestamp(kind):
        return ["timestamp-utc" if kind.tz else "timestamp", "string"]
    wanted = list(PATTERNS) if not is_typed else ["date", "timestamp", "timestamp-utc"]
    texts = _without_empty(column)
    if texts.null_count == len(texts):
        return list(KINDS)
    matching = [name for name in wanted if pc.all(pc.match_substring_regex(texts, PATTERNS[name])).as_py() is not False]
    return [*_those_that_fit(texts, matching), "string"]


def _those_that_fit(column: pa.Array, kinds: Sequence[str]) -> list[str]:
    fitting = []
    for kind in kinds:
        try:
            column.cast(KINDS[kind])
        except pa.ArrowInvalid:  # such as the date 2026-02-30, or an integer above 64 bits
            continue
        fitting.append(kind)
    return fitting


def _without_empty(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return texts with nulls in place of empty ones: an empty cell of CSV is a missing value."""
    return pc.if_else(pc.equal(texts, ""), None, texts)


def common_kind(found: Iterable[Sequence[str]]) -> str:
    """Return the first kind that all batches of a column fit."""
    common = list(KINDS)
    for kinds in found:
        common = [kind for kind in common if kind in kinds]
    # A column without any value fits all kinds.
    return "string" if len(common) == len(KINDS) else common[0]


def as_kind(column: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array | pa.ChunkedArray:
    """Return a column with the type of a kind that it fits."""
    is_text = pa.types.is_string(column.type)
    if is_text and kind != "string":
        column = _without_empty(column)
    if pa.types.is_timestamp(column.type) and kind != "string":
        # Nanoseconds are cut to microseconds, which Parquet, pandas and polars all have.
        return column.cast(KINDS[kind], safe=False)
    return column.cast(KINDS[kind])


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several batches of one source, whose columns may differ in type."""
    if all(table.schema == tables[0].schema for table in tables):
        return pa.concat_tables(tables)
    columns: Mapping[str, pa.ChunkedArray] = {
        name: _join_columns([table[name] for table in tables]) for name in tables[0].column_names
    }
    return pa.table(columns)


def _join_columns(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    types = {column.type for column in columns if len(column) and not pa.types.is_null(column.type)}
    if len(types) <= 1:
        # The kind is decided when all batches are read, so the values stay as they are.
        common = types.pop() if types else columns[0].type
        return pa.chunked_array([chunk for column in columns for chunk in column.cast(common).chunks], common)
    kind = common_kind(kinds_of(column, is_typed=True) for column in columns)
    same = [as_kind(column, kind) for column in columns]
    return pa.chunked_array([chunk for column in same for chunk in column.chunks], KINDS[kind])
