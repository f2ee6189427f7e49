"""Reader of JSON lines."""

import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ..errors import DataError
from ..messages import line_start, listed
from .batches import (
    Batch,
    Odd,
    ReadOptions,
    column_batch,
    field_names,
    invalid_utf8,
    is_utf8,
    replace_surrogates,
    value_at,
    values_at,
    wanted_columns,
)
from .kept import KeptColumn, KeptColumns, kept_column, values_column
from .kinds import no_values
from .reader import LineBasedReader
from .source import SourceFile, open_file

#: Objects whose fields a message names.
SHOWN_OBJECTS = 100
#: What is odd about lines.
LONE_SURROGATE = (
    "this line has half of a character, such as \\ud83d without \\ude00, which became a question mark; write whole "
    "characters"
)
#: Numbers that only Python's JSON has.
_CONSTANTS = {"NaN": None, "Infinity": math.inf, "-Infinity": -math.inf}
_DECODER = json.JSONDecoder(parse_constant=_CONSTANTS.__getitem__)
#: How JSON writes a surrogate.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class _Parsed(NamedTuple):
    """The documents of a block of lines. D documents."""

    values: pa.Array  # (D,) string or list<string>
    keys: pa.Array | None  # (D,) string; None if the options name no field for it
    lines: Callable[[int], int]  # number of the line of each document
    kept: KeptColumns | None  # the fields that the option keep names
    odd: tuple[Odd, ...] = ()


class JSONLinesReader(LineBasedReader):
    """Reads files with one JSON object per line. Blank lines are skipped."""

    kind = "JSONLines"

    def parse(self, file: SourceFile, data: bytes, line: int) -> Batch:
        """Return one document per object."""
        parsed = self._parse_quickly(data, line)
        if parsed is None:
            parsed = self._parse_slowly(file, data, line)
        lines = parsed.lines
        batch = column_batch(
            self.options,
            file.name,
            parsed.values,
            parsed.keys,
            lambda row: f"{file.url}, line {lines(row)}",
            line,
            parsed.kept,
        )
        return batch._replace(odd=parsed.odd)

    def _parse_quickly(self, data: bytes, line: int) -> _Parsed | None:
        """Parse a block with Arrow; return None if a line is blank or not as expected."""
        field = _field(self.options)
        key = self.options.key
        # A dot may be part of a name, or lead to a field of a nested object.
        offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
        # Unlike bytes.decode, this makes no copy.
        text = pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(data))
        if not is_utf8(text) or any("." in name for name in (field.name, key or "", *self.options.keep)):
            return None
        others = _kept_fields(data, [name for name in self.options.keep if name not in (field.name, key)])
        if not key:
            table = _parse_json(data, pa.schema([field, *others]))
            return self._accept(data, table, field, None, line)
        # Keys may be strings or integers.
        for key_type in (pa.string(), pa.int64()):
            table = _parse_json(data, pa.schema([field, pa.field(key, key_type), *others]))
            parsed = self._accept(data, table, field, key, line)
            if parsed is not None:
                return parsed
        return None

    def _accept(
        self, data: bytes, table: pa.Table | None, field: pa.Field, key: str | None, line: int
    ) -> _Parsed | None:
        if table is None:
            return None
        if table[field.name].null_count and self.options.null_text == "error":
            return None
        if key and table[key].null_count:
            return None
        keys = None
        if key:
            keys = table[key].combine_chunks().cast(pa.string())
        kept = None
        if self.options.keep:
            kept = {name: _kept_column(data, table[name], name) for name in self.options.keep}
        return _Parsed(table[field.name].combine_chunks(), keys, lambda row: line + row, kept)

    def _parse_slowly(self, file: SourceFile, data: bytes, first_line: int) -> _Parsed:
        """Parse line by line; raise DataError for the first bad line."""
        field = _field(self.options)
        key = self.options.key
        values: list[Any] = []
        keys: list[str] = []
        lines: list[int] = []
        objects: list[dict[str, Any]] = []
        replaced: list[int] = []
        wanted = wanted_columns(self.options)
        # Not splitlines: it would also cut at carriage returns, and lines would be counted wrongly.
        for line, raw in enumerate(data.split(b"\n"), first_line):
            if not raw.strip():
                continue
            where = f"{file.url}, line {line}"
            found = _parse_object(raw, self.options.encoding_errors, where)
            value = value_at(found, field.name, None)
            if value is None and self.options.null_text == "error":
                option = "tokens" if self.options.tokens else "text"
                raise DataError(_missing_field(option, field.name, found, where) + ", or ingest with null_text=empty")
            values.append(_checked(value, field, where))
            keys.append(_key_of(found, key, where) if key else f"{file.name}:{line}")
            lines.append(line)
            objects.append(found)
            if _SURROGATE.search(raw):
                texts = (json.dumps(value_at(found, name, None), ensure_ascii=False) for name in wanted)
                replaced += [line] * any(replace_surrogates(text) != text for text in texts)
        kept = None
        if self.options.keep:

            def row_name(row: int) -> str:
                return f"{file.url}, line {lines[row]}"

            fields = {name: values_at(objects, name) for name in self.options.keep}
            kept = {name: values_column(found, name, row_name, is_there) for name, (found, is_there) in fields.items()}
        large = pa.large_list(pa.string()) if self.options.tokens else pa.large_string()
        odd = [Odd(LONE_SURROGATE, len(replaced), f"{file.url}, line {line}") for line in replaced[:1]]
        return _Parsed(pa.array(values, large), pa.array(keys, pa.string()), lines.__getitem__, kept, tuple(odd))

    def field_names(self) -> list[str]:
        """Return the names of the fields of the first objects."""
        objects = []
        for file in self.files[:1]:
            with open_file(file) as stream:
                for raw in islice(stream, SHOWN_OBJECTS):
                    with suppress(ValueError, RecursionError):
                        objects.append(json.loads(raw))
        return field_names(each for each in objects if isinstance(each, dict))


def _kept_column(data: bytes, column: pa.ChunkedArray, name: str) -> KeptColumn:
    """Return a field of a block that Arrow has parsed. Arrow gives nulls also for a field that no object has."""
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    kept = kept_column(column, name, lambda row: f"row {row + 1} of a block")
    if not kept.fits["values"] and column.null_count == len(column):
        return kept._replace(fits=no_values(_has_field(data, name)))
    return kept


def _has_field(data: bytes, name: str) -> bool:
    """Return whether an object of a block has a field, if only with the value null."""
    forms = {json.dumps(name).encode(), json.dumps(name, ensure_ascii=False).encode()}
    # Most blocks without values do not have the name at all, so few lines are parsed.
    candidates = (raw for raw in data.split(b"\n") if any(form in raw for form in forms))
    return any(name in json.loads(raw) for raw in candidates)


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
    return [pa.field(name, types.get(type(value_at(first, name, None)), pa.string())) for name in names]


def _parse_json(data: bytes, schema: pa.Schema) -> pa.Table | None:
    """Return one row per line, or None if Arrow finds something else."""
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, OverflowError):  # the latter for a line of more than 2 GiB
        return None
    n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
    # Arrow accepts several objects on one line, and blank lines. Then rows have other numbers than lines.
    return table if table.num_rows == n_lines else None


def _parse_object(raw: bytes, encoding_errors: str, where: str) -> dict[str, Any]:
    try:
        # As in tables, NaN is a missing value.
        found = _DECODER.decode(raw.decode("utf-8", encoding_errors))
    except UnicodeDecodeError as error:
        raise invalid_utf8(where, error) from None
    except json.JSONDecodeError as error:
        reason = f"{error.msg.removesuffix(' at').removesuffix(' starting')}, at character {error.pos + 1}"
        raise DataError(f"{where}: not valid JSON ({reason}); each line must be an object{_advice(raw)}") from None
    except (ValueError, RecursionError) as error:  # the latter for lists in lists in lists and so on
        raise DataError(f"{where}: not valid JSON ({error}); each line must be an object") from None
    if not isinstance(found, dict):
        advice = "jq -c '.[]' makes lines of a list" if isinstance(found, list) else "jq -c '{text: .}' makes objects"
        raise DataError(f"{where}: {line_start(raw)!r}, where a JSON object is needed; {advice}")
    return found


def _advice(raw: bytes) -> str:
    """Return how to convert a file whose first line shows that an array or an object has several lines; else ""."""
    start = raw.strip()
    if start.startswith(b"["):
        return ", so convert the array with jq -c '.[]'"
    if start == b"{":
        return ", so convert objects of several lines with jq -c ."
    return ""


def _missing_field(option: str, name: str, found: dict[str, Any], where: str) -> str:
    """Return the message for an object without text, tokens or key."""
    advice = f"name the field with {option}=..."
    _, is_present = values_at([found], name)
    if is_present:
        reason = f"{name!r} is null"
        advice = "drop such lines"
    else:
        reason = f"no field {name!r} among {listed(field_names([found]), 'none at all')}"
        advice += f", or rename it in this file if other files have {name!r}"
    return f"{where}: no {option} ({reason}); {advice}"


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


def _key_of(found: dict[str, Any], name: str, where: str) -> str:
    key = value_at(found, name, None)
    if key is None:
        raise DataError(_missing_field("key", name, found, where))
    if isinstance(key, dict | list):
        kind = "an object" if isinstance(key, dict) else "a list"
        raise DataError(f"{where}: the key in {name!r} is {kind}; name a field with text or a number")
    if isinstance(key, bool | float):
        # As in tables: 3.0 is 3, and True is true.
        return str(pa.scalar(key).cast(pa.string()))
    return replace_surrogates(str(key))
