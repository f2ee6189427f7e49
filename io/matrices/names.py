"""Names of rows and columns: reading them from a file's tables, and the check that each occurs once."""

from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import DataError

#: A group or an array of h5py or Zarr.
Element = Any


def index_of(table: Element, where: str) -> pa.Array:
    """Return the names of the rows of a data frame in an AnnData file: (n,) large_string."""
    column = table.attrs.get("_index")
    if column is None or column not in table:
        raise DataError(f"{where}: the table has no index; open and write the file with anndata 0.8 or later")
    return strings(table[column], f"{where}/{column}")


def strings(element: Element, where: str) -> pa.Array:
    """Return an array of text, or a categorical of it, as (n,) large_string."""
    if not hasattr(element, "shape"):
        return _encoded_strings(element, where)
    is_hdf5_text = hasattr(element, "asstr") and element.dtype.kind == "O"
    values = element.asstr()[:] if is_hdf5_text else element[:]
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    return pa.array([str(value) for value in values.tolist()], pa.large_string())


def _encoded_strings(group: Element, where: str) -> pa.Array:
    encoding = group.attrs.get("encoding-type", "")
    if encoding == "categorical":
        categories = strings(group["categories"], where)
        return categories.take(pa.array(np.asarray(group["codes"][:])))
    if encoding.startswith("nullable-string"):
        return strings(group["values"], where)
    raise DataError(f"{where}: names are stored as {encoding or 'something unknown'!r}, where text is needed")


def check_unique(names: pa.Array, where: str, advice: str) -> None:
    """Raise DataError with the first name that occurs twice."""
    row = first_repetition(names)
    if row is not None:
        raise DataError(f"{where}: the name {names[row].as_py()!r} occurs a second time at position {row}; {advice}")


def first_repetition(names: pa.Array) -> int | None:
    """Return the position of the first name that occurred before, or None if all names differ."""
    # Quick, so that the usual case needs no loop in Python.
    if len(names.unique()) == len(names):
        return None
    seen: set[str] = set()
    for position, name in enumerate(names.to_pylist()):
        if name in seen:
            return position
        seen.add(name)
    return None


def make_names_unique(names: list[str]) -> list[str]:
    """Make names unique as anndata does: append "-1" to the second of equal names, "-2" to the third, and so on."""
    taken = set(names)
    counts: dict[str, int] = {}
    result = []
    for name in names:
        if name not in counts:
            counts[name] = 0
            result.append(name)
            continue
        while True:
            counts[name] += 1
            candidate = f"{name}-{counts[name]}"
            # "a-1" may be one of the given names.
            if candidate not in taken:
                break
        taken.add(candidate)
        result.append(candidate)
    return result
