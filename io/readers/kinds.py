"""Finds one type for each column of the source that a corpus keeps, such as a date or a label.

A batch of a source has the types that its reader found in it. Other batches of the same column may have other types:
CSV has only text, and a block of JSON may have whole numbers where the next one has fractions. So each batch says
how many of its values do not fit each *kind*, and a column gets the first kind that all values fit. Text fits always.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: The types of kept columns in a corpus, by kind. The first kind that fits is taken. The type of decimals depends on
#: the digits of the values.
KINDS: Mapping[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "decimal": pa.decimal128(38, 0),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp-utc": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}
#: A date of a year that Python has, and a time of the day. Of nanoseconds, microseconds are kept.
_DATE = r"(\d{3}[1-9]|\d\d[1-9]\d|\d[1-9]\d\d|[1-9]\d{3})-\d\d-\d\d"
_TIME = r"[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?"
#: Text that is taken for a value of a kind. A number with a leading zero is text, such as a postal code. So is a number
#: with more digits than its type has, such as a long identifier.
PATTERNS = {
    "bool": r"^([Tt]rue|TRUE|[Ff]alse|FALSE)$",
    "int64": r"^(0|-?[1-9]\d{0,18})$",
    "double": r"^-?(0|[1-9]\d{0,14})(\.\d+)?([eE][+-]?(\d{1,2}|[12]\d\d|30[0-7]))?$",
    "date": f"^{_DATE}$",
    "timestamp": f"^{_DATE}({_TIME})?$",
    "timestamp-utc": rf"^{_DATE}{_TIME}(Z|[+-]\d\d:?\d\d)$",
}
#: Kinds of text in a source with types: JSON has no type for dates and times.
TYPED_PATTERNS = ("date", "timestamp", "timestamp-utc")
#: Decimal digits that every double keeps, and the most that a decimal has.
DOUBLE_DIGITS = 15
DECIMAL_DIGITS = 38
#: Characters of a value that a notice shows.
SHOWN_CHARACTERS = 40


class Misfits(NamedTuple):
    """The values of a column that do not fit a kind."""

    number: int
    first: str  # the beginning of the first of them, as Python writes it


class Fits(TypedDict):
    """How the values of a column fit the kinds. It can be written as JSON."""

    is_present: bool  # whether the source has the column at all, even if all values are missing
    values: int  # values that are not missing
    misfits: dict[str, Misfits]  # by kind; a kind that is not in it fits all values
    whole_digits: int  # most digits of a decimal before its point, and after it
    fraction_digits: int


def no_values(is_present: bool = True) -> Fits:
    """Return the fits of a column without any value."""
    return Fits(is_present=is_present, values=0, misfits={}, whole_digits=0, fraction_digits=0)


def fits_of(column: pa.Array | pa.ChunkedArray, is_typed: bool) -> Fits:
    """Return how the values of a column fit the kinds.

    ``is_typed`` is False for sources such as CSV, in which numbers are text. In others, text is never taken for a
    number, but ISO dates and times are recognised.
    """
    is_text = pa.types.is_string(column.type)
    values = _without_empty(column) if is_text else column
    values = values.drop_null()
    if not len(values):
        return no_values()
    fits = no_values()
    fits["values"] = len(values)
    fitting = _text_misfits(values, is_typed) if is_text else _typed_misfits(values)
    every = Misfits(len(values), _shown(values[0]))
    for kind in KINDS:
        misfits = fitting.get(kind, every)
        if misfits.number:
            fits["misfits"][kind] = misfits
    if pa.types.is_decimal(column.type):
        fits["whole_digits"] = max(0, column.type.precision - column.type.scale)
        fits["fraction_digits"] = max(0, column.type.scale)
    return fits


def _typed_misfits(values: pa.Array | pa.ChunkedArray) -> dict[str, Misfits]:
    """Return the kinds that values of this type may fit, and for each kind the values that do not fit it."""
    none = Misfits(0, "")
    kind = values.type
    if pa.types.is_boolean(kind):
        return {"bool": none, "string": none}
    if pa.types.is_integer(kind):
        return {name: _uncastable(values, KINDS[name]) for name in ("int64", "double")} | {"string": none}
    if pa.types.is_decimal(kind):
        found = {"string": none}
        if kind.precision <= DECIMAL_DIGITS:
            found["decimal"] = none
        if kind.precision <= DOUBLE_DIGITS:
            found["double"] = none
        return found
    if pa.types.is_floating(kind):
        return {"double": none, "string": none}
    if pa.types.is_date(kind):
        return {"date": none, "timestamp": none, "string": none}
    if pa.types.is_timestamp(kind):
        return {"timestamp-utc" if kind.tz else "timestamp": none, "string": none}
    return {"string": none}


def _text_misfits(texts: pa.Array | pa.ChunkedArray, is_typed: bool) -> dict[str, Misfits]:
    found = {"string": Misfits(0, "")}
    for name in TYPED_PATTERNS if is_typed else PATTERNS:
        matches = pc.match_substring_regex(texts, PATTERNS[name])
        others = texts.filter(pc.invert(matches))
        uncastable = _uncastable(texts.filter(matches) if len(others) else texts, KINDS[name])
        first = _shown(others[0]) if len(others) else uncastable.first
        found[name] = Misfits(len(others) + uncastable.number, first)
    return found


def _uncastable(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> Misfits:
    """Return the values that have the form of a kind, but are none, such as the date 2026-02-30."""
    try:
        _as_type(values, kind)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return Misfits(1, _shown(values[0]))
        middle = len(values) // 2
        left = _uncastable(values[:middle], kind)
        right = _uncastable(values[middle:], kind)
        return Misfits(left.number + right.number, left.first or right.first)
    return Misfits(0, "")


def _as_type(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Return values of another type. Nanoseconds are cut to microseconds, which Parquet, pandas and polars all have."""
    if pa.types.is_timestamp(kind) and pa.types.is_string(values.type):
        values = pc.replace_substring_regex(values, r"(\.\d{6})\d+", r"\1")
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        # A cast cuts towards 1970, and text towards the past.
        values = pc.floor_temporal(values, unit="microsecond")
    return values.cast(kind, safe=not pa.types.is_timestamp(values.type))


def _shown(value: pa.Scalar) -> str:
    try:
        text = value.as_py() if pa.types.is_string(value.type) else str(value)
    except OverflowError:  # a time after the year 9999, with which Python's dates end
        text = value.cast(pa.string()).as_py()
    return repr(text)[:SHOWN_CHARACTERS]


def _without_empty(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return texts with nulls in place of empty ones: an empty cell of CSV is a missing value."""
    return pc.if_else(pc.equal(texts, ""), None, texts)


def merge_fits(parts: Iterable[Fits]) -> Fits:
    """Return the fits of a column, given those of its batches in their order."""
    whole = no_values(is_present=False)
    for part in parts:
        whole["is_present"] = whole["is_present"] or part["is_present"]
        whole["values"] += part["values"]
        whole["whole_digits"] = max(whole["whole_digits"], part["whole_digits"])
        whole["fraction_digits"] = max(whole["fraction_digits"], part["fraction_digits"])
        # Fits that were read from JSON have lists in place of tuples.
        for kind, (number, first) in part["misfits"].items():
            before = whole["misfits"].get(kind, Misfits(0, first))
            whole["misfits"][kind] = Misfits(before.number + number, before.first)
    return whole


def kind_of(fits: Fits) -> str:
    """Return the first kind that all values fit. A column without any value is text.

    Decimals have the number of their digits and of those after the point in the name of their kind: "decimal 12 2".
    """
    if not fits["values"]:
        return "string"
    kind = next(kind for kind in KINDS if kind not in fits["misfits"])
    if kind != "decimal":
        return kind
    digits = fits["whole_digits"] + fits["fraction_digits"]
    if digits > DECIMAL_DIGITS:
        return "string"
    return f"decimal {max(1, digits)} {fits['fraction_digits']}"


def type_of(kind: str) -> pa.DataType:
    """Return the type of a kind that `kind_of` returned."""
    name, *digits = kind.split()
    if digits:
        return pa.decimal128(*map(int, digits))
    return KINDS[name]


def as_kind(column: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array | pa.ChunkedArray:
    """Return a column with the type of a kind that it fits."""
    if pa.types.is_string(column.type) and kind != "string":
        column = _without_empty(column)
    return _as_type(column, type_of(kind))


def describe_odd_values(name: str, fits: Fits) -> str | None:
    """Return a notice if some values make a column text, while enough others fit another kind; else None.

    More than half are enough, and a tenth if they are dates or times, which are hardly the text of a title.
    """
    n_values = fits["values"]
    if not n_values or kind_of(fits) != "string":
        return None
    narrower: Sequence[str] = [kind for kind in KINDS if kind != "string"]
    counts = [fits["misfits"].get(kind, Misfits(0, "")).number for kind in narrower]
    kind = narrower[int(np.argmin(counts))]
    misfits = fits["misfits"].get(kind)
    most = 0.9 if kind in TYPED_PATTERNS else 0.5
    if misfits is None or misfits.number >= most * n_values:
        return None
    verb = "is" if misfits.number == 1 else "are"
    return (
        f"column {name!r} is kept as text, because {misfits.number:,} of its {n_values:,} values {verb} no {kind}; the "
        f"first is {misfits.first}"
    )
