"""The base of all sections of a configuration."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One section of the configuration. A key that it does not define is an error, and so is an infinite number."""

    # Without protected_namespaces=(), pydantic warns of keys that begin with "model".
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())


#: A kind that is the module and the class of somebody else, such as my_module:MyModel.
CLASS_PATTERN = r"^\w+(\.\w+)*:\w+$"


def kind_tag(kind: object) -> str:
    """Return the name by which a kind selects a section: the kind itself, or "own" for a module and a class."""
    return "own" if ":" in str(kind) else str(kind)


def tag_of(section: object) -> str | None:
    """Return the tag by which pydantic chooses the class of a section, given as a mapping or as an object."""
    kind = section.get("kind") if isinstance(section, dict) else getattr(section, "kind", None)
    return None if kind is None else kind_tag(kind)
