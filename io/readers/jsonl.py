"""Reader of JSON lines."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.json

from ..stores.messages import listed
from ..stores.store import DataError
from .batches import Batch, ReadOptions, column_batch, invalid_utf8, replace_surrogates
from .kept import values_column
from .reader import LineBasedReader
from .source import SourceFile


class _Parsed(NamedTuple):
    """The documents of a block of lines. D documents."""

    values: pa.Array  # (D,) string or list<string>
    keys: pa.Array | None  # (D,) string; None if the options name no field for it
    lines: Callable[[int], int]  # number of the line of each document
    kept: pa.Table | None  # the fields that the option keep names


class JSONLinesReader(LineBasedReader):
    """One JSON object per line; blank lines are skipped."""

    kind = "JSONLines"
    has_columns = True

    def parse(self, file: SourceFile, data: bytes, line: int) -> Batch:
        """Return one document per object."""
        parsed = self._parse_quickly(data, line)
        if parsed is None:
            parsed = self._parse_slowly(file, data, line)
        lines = parsed.lines
        return column_batch(
            self.options,
            file.name,
            parsed.values,
            parsed.keys,
            lambda row: f"{file.url}, line {lines(row)}",
            line,
            parsed.kept,
        )

    def _parse_quickly(self, data: bytes, line: int) -> _Parsed | None:
        """Parse a block with Arrow; return None if a line is blank or not as expected."""
        field = _field(self.options)
        key = self.options.key
        # A dot may be part of a name, or lead to a field of a nested object.
        if not _is_utf8(data) or any("." in name for name in (field.name, key or "", *self.options.keep)):
            return None
        others = _kept_fields(data, [name for name in self.options.keep if name not in (field.name, key)])
        if not key:
            table = _parse_json(data, pa.schema([field, *others]))
            return self._accept(table, field, None, line)
        # Keys may be strings or integers.
        for key_type in (pa.string(), pa.int64()):
            table = _parse_json(data, pa.schema([field, pa.field(key, key_type), *others]))
            parsed = self._accept(table, field, key, line)
            if parsed is not None:
                return parsed
        return None

    def _accept(self, table: pa.Table | None, field: pa.Field, key: str | None, line: int) -> _Parsed | None:
        if table is None:
            return None
        if table[field.name].null_count and self.options.null_text == "error":
            return None
        keys = _as_array(table[key]).cast(pa.string()) if key else None
        kept = table.select(list(self.options.keep)) if self.options.keep else None
        return _Parsed(_as_array(table[field.name]), keys, lambda row: line + row, kept)

    def _parse_slowly(self, file: SourceFile, data: bytes, first_line: int) -> _Parsed:
        """Parse line by line; raise DataError for the first bad line."""
        field = _field(self.options)
        key = self.options.key
        values: list[Any] = []
        keys: list[str | None] = []
        lines: list[int] = []
        kept: dict[str, list[Any]] = {name: [] for name in self.options.keep}
        # Not splitlines: it would also cut at carriage returns, and lines would be counted wrongly.
        for line, raw in enumerate(data.split(b"\n"), first_line):
            if not raw.strip():
                continue
            where = f"{file.url}, line {line}"
            found = _parse_object(raw, self.options.encoding_errors, where)
            value = _value_at(found, field.name)
            if value is None and self.options.null_text == "error":
                raise DataError(_missing_field(field, found, where))
            values.append(_checked(value, field, where))
            keys.append(_key_text(_value_at(found, key)) if key else f"{file.name}:{line}")
            lines.append(line)
            for name, column in kept.items():
                column.append(_value_at(found, name))
        table = None
        if kept:
            where = f"{file.url}, line {first_line} or after"
            table = pa.table({name: values_column(column, name, where) for name, column in kept.items()})
        return _Parsed(pa.array(values, field.type), pa.array(keys, pa.string()), lines.__getitem__, table)


def _value_at(found: dict[str, Any], name: str) -> Any:
    """Return a field, or one of a nested object such as "article.body"; None if there is none."""
    if name in found:
        return found[name]
    value: Any = found
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def _field(options: ReadOptions) -> pa.Field:
    if options.tokens:
        return pa.field(options.tokens, pa.list_(pa.string()))
    return pa.field(options.text, pa.string())


def _kept_fields(data: bytes, names: Sequence[str]) -> list[pa.Field]:
    """Return fields with the types of the first object. If later objects differ, the block is parsed line by line."""
    try:
        first = json.loads(data[: data.find(b"\n")])
    except (ValueError, RecursionError):
        first = {}
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    return [pa.field(name, types.get(type(_value_at(first, name)), pa.string())) for name in names]


def _parse_json(data: bytes, schema: pa.Schema) -> pa.Table | None:
    """Return one row per line, or None if Arrow finds something else."""
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
    # Arrow accepts several objects on one line, and blank lines. Then rows have other numbers than lines.
    return table if table.num_rows == n_lines else None


def _as_array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _is_utf8(data: bytes) -> bool:
    offsets = np.array([0, len(data)], np.int64)
    text = pa.LargeStringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        # Unlike bytes.decode, this makes no copy.
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _parse_object(raw: bytes, encoding_errors: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(raw.decode("utf-8", encoding_errors))
    except UnicodeDecodeError as error:
        raise invalid_utf8(where, error) from None
    except (ValueError, RecursionError) as error:  # the latter for lists in lists in lists and so on
        raise DataError(f"{where}: not valid JSON ({error}); each line must be an object") from None
    if not isinstance(found, dict):
        raise DataError(
            f"{where}: a JSON {type(found).__name__} where an object is needed; write one object per line (jq -c '.[]')"
        )
    return found


def _missing_field(field: pa.Field, found: dict[str, Any], where: str) -> str:
    """Return the message for an object without text or tokens."""
    option = "tokens" if pa.types.is_list(field.type) else "text"
    if field.name in found:
        reason = f"{field.name!r} is null"
    else:
        reason = f"the object has {listed(found, 'no fields')}"
    return f"{where}: no {option} ({reason}); name the field with {option}=..., or ingest with null_text=empty"


def _checked(value: Any, field: pa.Field, where: str) -> Any:
    """Return a value of the field without lone surrogates; raise DataError if it has another type."""
    if value is None:
        return None
    if pa.types.is_list(field.type):
        if isinstance(value, list) and all(isinstance(token, str) for token in value):
            return [replace_surrogates(token) for token in value]
        wanted = "a list of strings"
    else:
        if isinstance(value, str):
            return replace_surrogates(value)
        wanted = "a string"
    raise DataError(f"{where}: field {field.name!r} is {json.dumps(value)[:40]} where {wanted} is needed")


def _key_text(key: Any) -> str | None:
    return None if key is None else replace_surrogates(str(key))
