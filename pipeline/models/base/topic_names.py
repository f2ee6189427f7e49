"""Names that users give to topics: a small file beside the model.

``names.json`` has the name of the folder of arrays that the names were given for. Another model that is saved to the
same place therefore does not inherit them.
"""

from collections.abc import Mapping

from ....io.stores.store import Store

NAMES = "names.json"
#: Longest name in characters.
MAX_LENGTH = 80


def read_names(url: str, arrays: str) -> dict[int, str]:
    """Return the names of topics by number. ``arrays`` is the folder of arrays of the model at ``url``."""
    store = Store(url)
    if not store.exists(NAMES):
        return {}
    found = store.read_json(NAMES)
    if found.get("arrays") != arrays:
        return {}
    return {int(topic): clean_name(str(name)) for topic, name in found["names"].items()}


def write_names(url: str, arrays: str, names: Mapping[int, str]) -> None:
    """Write the names of topics by number beside a model."""
    Store(url).write_json(NAMES, {"arrays": arrays, "names": {str(topic): name for topic, name in names.items()}})


def clean_name(name: str) -> str:
    """Return a name without line breaks and control characters, cut to MAX_LENGTH."""
    printable = "".join(character if character.isprintable() else " " for character in name)
    return " ".join(printable.split())[:MAX_LENGTH].strip()
