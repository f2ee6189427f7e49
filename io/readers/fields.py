"""Fields of objects, which may be nested: "article.body" is the field "body" of the object in the field "article"."""

from collections.abc import Iterable, Mapping
from typing import Any

#: What `value_at` returns if there is no such field. None is a value: JSON's null.
ABSENT = object()


def value_at(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field, or ABSENT. A field whose own name has dots comes first."""
    if name in row:
        return row[name]
    if "." not in name:
        return ABSENT
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value


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
