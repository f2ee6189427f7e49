"""Columns of a source that are kept with the documents, such as date, title and author.

All readers follow one rule: text, numbers, booleans, decimals, dates and timestamps are kept. Nested values are
refused, and so are other binary ones; a field of a nested value has a name of its own, such as "article.date".
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ..errors import DataError
from ..matrices.memory import is_missing
from .kinds import Fits, as_kind, fits_of, kind_of, merge_fits, no_values

#: Tests for Arrow's types of text. CSV is read as binary, and polars has views.
TEXT_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)


class KeptColumn(NamedTuple):
    """The values of a kept column in a batch of D documents."""

    values: pa.Array | pa.ChunkedArray  # (D,)
    fits: Fits


#: The kept columns of a batch, by name.
KeptColumns = dict[str, KeptColumn]


def kept_column(
    column: pa.Array | pa.ChunkedArray, name: str, where: Callable[[int], str], is_typed: bool = True
) -> KeptColumn:
    """Return a column as it is stored until all batches are read; raise DataError for nested and binary ones.

    ``where`` names a row, given its number. ``is_typed`` is False for sources such as CSV, in which numbers are text.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if any(is_of_kind(kind) for is_of_kind in TEXT_TYPES):
        column = _as_utf8(column, name, where)
    elif not _can_be_kept(kind):
        raise DataError(_describe_refusal(name, where(0), str(kind), pa.types.is_nested(kind)))
    return KeptColumn(column, fits_of(column, is_typed))


def _can_be_kept(kind: pa.DataType) -> bool:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return True
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return True
    return pa.types.is_boolean(kind) or pa.types.is_null(kind)


def _describe_refusal(name: str, where: str, kind: str, is_nested: bool) -> str:
    advice = "convert the column to text"
    if is_nested:
        advice = f"name a field of an object as '{name}.FIELD', or leave the column out"
    return f"{where}: column {name!r} is {kind}, and keep takes text, numbers, booleans, dates and timestamps; {advice}"


def _as_utf8(column: pa.Array | pa.ChunkedArray, name: str, where: Callable[[int], str]) -> pa.Array | pa.ChunkedArray:
    try:
        texts = column.cast(pa.string())
        texts.validate(full=True)
    except pa.ArrowInvalid:
        row = first_not_utf8(column)
        raise DataError(f"{where(row)}: column {name!r}, which keep names, has text that is not UTF-8") from None
    return texts


def first_not_utf8(column: pa.Array | pa.ChunkedArray) -> int:
    """Return the first row of a column of text or bytes, some of which is not UTF-8."""
    for row, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            return row
    raise ValueError("all rows are UTF-8")


def values_column(values: Iterable[Any], name: str, where: Callable[[int], str], is_present: bool = True) -> KeptColumn:
    """Return Python objects as a column; text and others in one column become text.

    ``where`` names a row, given its number. ``is_present`` says whether any row has the field, if only without value.
    """
    known = list(values)
    for row, value in enumerate(known):
        if isinstance(value, list | dict | tuple | set):
            kind = "an object" if isinstance(value, dict) else "a list"
            raise DataError(_describe_refusal(name, where(row), kind, is_nested=True))
    column = _array_of(known)
    if column is None:
        return _mixed_column(known, name, where)
    kept = kept_column(column, name, where)
    if not kept.fits["values"]:
        return KeptColumn(kept.values, no_values(is_present))
    return kept


def _array_of(values: Sequence[Any]) -> pa.Array | None:
    """Return values of one type as an array, or None if they have several types. NaN is a missing value."""
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError):
        return None


def _mixed_column(values: Sequence[Any], name: str, where: Callable[[int], str]) -> KeptColumn:
    """Return values of several types as text. Which types the column fits is decided by the values as they were."""
    rows_of_type: dict[type, list[int]] = {}
    for row, value in enumerate(values):
        if not is_missing(value):
            rows_of_type.setdefault(type(value), []).append(row)
    texts: list[str | None] = [None] * len(values)
    fits = []
    for kind, rows in rows_of_type.items():
        column = _array_of([values[row] for row in rows])
        if column is None:
            found = [_text_of(values[row]) for row in rows]
            # Without an array of their own, these are long numbers or text with lone surrogates.
            part = KeptColumn(pa.array(found, pa.string()), fits_of(pa.array(found), is_typed=issubclass(kind, str)))
        else:
            part = kept_column(column, name, _name_of_some(rows, where))
            # The same numbers give the same text in every block of a file, also in those that hold only numbers.
            found = as_kind(part.values, "string").to_pylist()
        fits.append(part.fits)
        for row, text in zip(rows, found, strict=True):
            texts[row] = text
    return KeptColumn(pa.array(texts, pa.string()), merge_fits(fits))


def _name_of_some(rows: Sequence[int], where: Callable[[int], str]) -> Callable[[int], str]:
    """Return what names one of some rows, given its number among them."""
    return lambda number: where(rows[number])


def _text_of(value: Any) -> str:
    if not isinstance(value, str):
        try:
            value = json.dumps(value)
        except (TypeError, ValueError):
            value = str(value)
    # JSON can express lone surrogates, UTF-8 cannot.
    return value.encode("utf-8", "replace").decode()


def join_batches(batches: Sequence[KeptColumns]) -> KeptColumns:
    """Return the rows of several batches of one source, whose columns may differ in type."""
    return {name: _join_columns([batch[name] for batch in batches]) for name in batches[0]}


def _join_columns(columns: Sequence[KeptColumn]) -> KeptColumn:
    fits = merge_fits(column.fits for column in columns)
    arrays = [column.values for column in columns]
    types = {array.type for array in arrays if len(array) and not pa.types.is_null(array.type)}
    if len(types) <= 1:
        # The kind is decided when all batches are read, so the values stay as they are.
        common = types.pop() if types else arrays[0].type
        same = [array.cast(common) for array in arrays]
    else:
        kind = kind_of(fits)
        same = [as_kind(array, kind) for array in arrays]
        common = same[0].type
    chunks = [chunk for array in same for chunk in getattr(array, "chunks", [array])]
    return KeptColumn(pa.chunked_array(chunks, common), fits)
