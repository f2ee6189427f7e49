"""Fields of objects, which may be nested: "article.body" is the field "body" of the object in the field "article"."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Marks a field that an object does not have. None is a value: JSON's null.
_ABSENT = object()


def value_at(row: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return the value of a field, or ``default`` if there is none. A field whose own name has dots comes first."""
    if name in row:
        return row[name]
    if "." not in name:
        return default
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return default
        value = value[part]
    return value


def values_at(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[list[Any], bool]:
    """Return the value of a field in each object, None where there is none, and whether any object has the field."""
    found = [value_at(row, name, _ABSENT) for row in rows]
    is_present = any(value is not _ABSENT for value in found)
    return [None if value is _ABSENT else value for value in found], is_present


def field_names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of all fields of some objects, each once; an object that is a value gives those of its fields.

    "article.body" is such a name.
    """
    names: dict[str, None] = {}
    for row in rows:
        waiting = [(str(name), value) for name, value in row.items()]
        while waiting:
            name, value = waiting.pop(0)
            if isinstance(value, Mapping) and value:
                waiting = [(f"{name}.{inner}", each) for inner, each in value.items()] + waiting
            else:
                names[name] = None
    return list(names)
