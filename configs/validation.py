"""Check parameters of estimators and options of ingest against the schema, and describe in words what they may be.

pydantic takes a tenth of a second to import, so the schema is imported by the first check, not with this module.
"""

import os
import reprlib
from collections.abc import Mapping, Sequence, Set
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

    from .model_schema import Section

#: What a constraint is called in pydantic's metadata.
_CONSTRAINTS = ("ge", "gt", "le", "lt", "multiple_of")


def validate_model(kind: str, parameters: Mapping[str, object]) -> None:
    """Check the parameters of one model; raise ValueError with one sentence about the first that is wrong.

    ``kind``: such as "lda". A kind outside the schema is not checked, so that users can add their own estimators.
    ``parameters``: by name, as ``get_params`` returns them. NumPy scalars and arrays, tuples, sets and paths are
    allowed wherever a number, a list or a string is.
    """
    from .model_schema import MODEL_SECTIONS

    section = MODEL_SECTIONS.get(kind)
    if section is not None:
        _validate(section, {name: value for name, value in parameters.items() if name in section.model_fields})


def validated_options(options: Mapping[str, object]) -> dict[str, Any]:
    """Return options of ingest in built-in types; raise ValueError with one sentence about the first that is wrong.

    Values of other types are allowed as in `validate_model`. Numbers get the types that the command line gives them.
    """
    from .schema import IngestSection

    return _validate(IngestSection, options)


def plain_number(value: Any, is_real: bool = False) -> Any:
    """Return a scalar or an array without dimensions of NumPy as a Python number, and other values as they are.

    ``is_real``: whether an integer becomes a float, as the schema makes it for a parameter that is a real number.
    """
    if getattr(value, "ndim", None) == 0 and hasattr(value, "tolist"):
        value = value.tolist()
        # NumPy keeps a longdouble, because Python has no number of this width.
        value = float(value) if hasattr(value, "tolist") else value
    return float(value) if is_real and type(value) is int else value


def _validate(section: "type[Section]", given: Mapping[str, object]) -> dict[str, Any]:
    """Return values in built-in types after checking them against a section."""
    from pydantic import ValidationError

    values = {name: _to_builtin(value) for name, value in given.items()}
    try:
        # Strict: Python code uses a value as given, so "5" must not pass for 5.
        checked = section.model_validate(values, strict=True)
    except ValidationError as error:
        raise ValueError(_sentence(error.errors(include_url=False)[0], section, given)) from None
    return {name: getattr(checked, name) for name in given}


def _to_builtin(value: Any) -> Any:
    """Turn NumPy values, tuples, sets and paths into the built-in types that the schema has."""
    value = plain_number(value)
    if hasattr(value, "tolist") and not isinstance(value, type):
        return _to_builtin(value.tolist())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Set):
        # A set has another order in each process, and the list may be stored.
        return sorted((_to_builtin(item) for item in value), key=str)
    if isinstance(value, list | tuple):
        return [_to_builtin(item) for item in value]
    return value


def _sentence(error: "ErrorDetails", section: "type[Section]", parameters: Mapping[str, object]) -> str:
    if error["type"] == "value_error":
        # A rule about several parameters, with a sentence of its own.
        return str(error["ctx"]["error"])
    name = str(error["loc"][0])
    return f"{name} is {reprlib.repr(parameters[name])}: choose {describe_values(section.model_fields[name])}"


# --- which values a parameter takes, in words ---


def describe_values(field: "FieldInfo") -> str:
    """Describe the values that a parameter takes, such as "an integer of 1 or more, or None"."""
    return _describe(field.annotation, field.metadata)


def _describe(annotation: Any, metadata: Sequence[object] = (), plural: bool = False) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        # Limits such as ge=1 are attached to the annotated type.
        inner, *extra = get_args(annotation)
        return _describe(inner, extra, plural)
    if origin in (Union, UnionType):
        # All sections have the same description.
        return _join(list(dict.fromkeys(_describe(option) for option in get_args(annotation))))
    if origin is Literal:
        return _describe_choices(get_args(annotation))
    if origin in (list, tuple):
        noun = "lists" if plural else "a list"
        return f"{noun} of {_describe(get_args(annotation)[0], plural=True)}"
    if annotation in (int, float):
        return _describe_number(annotation, _limits(metadata), plural)
    singular, several = {
        str: ("a string", "strings"),
        bool: ("True or False", "booleans"),
        NoneType: ("None", "None"),
    }.get(annotation, ("a section of keys and values", "sections"))
    return several if plural else singular


def _join(options: list[str]) -> str:
    """Join alternatives, such as "a, b, or c"; alternatives may contain "or" and commas themselves."""
    if len(options) == 1 or (len(options) == 2 and " or " not in options[0]):
        return " or ".join(options)
    return f"{', '.join(options[:-1])}, or {options[-1]}"


def _describe_choices(choices: tuple[object, ...]) -> str:
    if len(choices) == 1:
        return repr(choices[0])
    return f"one of {', '.join(str(choice) for choice in choices)}"


def _limits(metadata: Sequence[object]) -> dict[str, float]:
    """Collect the constraints of a number: those of pydantic's Field, or of the objects it is made of."""
    found: dict[str, float] = {}
    for item in metadata:
        # A Field inside a union carries its constraints in its own metadata.
        for part in (item, *getattr(item, "metadata", ())):
            for name in _CONSTRAINTS:
                if getattr(part, name, None) is not None:
                    found[name] = getattr(part, name)
    return found


def _describe_number(kind: type, limits: dict[str, float], plural: bool) -> str:
    is_integer = kind is int
    noun = "integer" if is_integer else "number"
    if not limits and not is_integer:
        noun = "finite number"
    multiple = limits.get("multiple_of")
    if multiple == 2:
        noun = f"even {noun}"
    if plural:
        noun += "s"
    elif noun[0] in "aeiou":
        noun = f"an {noun}"
    else:
        noun = f"a {noun}"
    if multiple is not None and multiple > 2:
        noun += f" that is a multiple of {multiple}" if not plural else f" that are multiples of {multiple}"
    return noun + _describe_range(limits, is_integer)


def _describe_range(limits: dict[str, float], is_integer: bool) -> str:
    low = limits.get("ge")
    if low is None and is_integer and "gt" in limits:
        # For integers, "above 0" reads better as "from 1".
        low = limits["gt"] + 1
    if low is not None and "le" in limits:
        return f" from {low} to {limits['le']}"
    parts = []
    if low is not None:
        parts.append(f" of {low} or more")
    elif "gt" in limits:
        parts.append(f" above {limits['gt']}")
    if "lt" in limits:
        parts.append(f" below {limits['lt']}")
    elif "le" in limits:
        parts.append(f" up to {limits['le']}")
    return " and".join(parts)
