"""The file that makes a store valid, and the number of the process that may write it.

Every process that begins to write a store takes over its commit file: it raises the fencing token in it by one. From
then on, the file can be replaced only by this process, because each replacement is a conditional write. All other files
have the token in their names, or in the name of their folder. So a process that was paused, and continues after another
one has taken over, writes only files that nobody reads.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from ..errors import DataError, Locked
from .conditional import read_with_tag, write_if_unchanged
from .store import JsonObject, Store, encode_json


@dataclass
class CommitFile:
    """A commit file as its owner last wrote it. ``message`` says what another owner does."""

    store: Store
    name: str
    message: str
    content: JsonObject
    tag: str

    @property
    def owner(self) -> int:
        """The fencing token of the owner: 1 for the first one."""
        return int(self.content["owner"])

    def replace(self, content: JsonObject, is_first: bool = False) -> None:
        """Write the file again, with the fencing token; raise Locked if another process has taken over.

        ``is_first`` marks the first write of an owner. Another process may write the same content at that moment.
        """
        new = content | {"owner": self.owner}
        tag = write_if_unchanged(self.store, self.name, encode_json(new), self.tag, is_unique=not is_first)
        if not tag:
            self.refuse()
        self.content = new
        self.tag = tag

    def refuse(self) -> NoReturn:
        """Raise Locked: another process has taken over."""
        raise Locked(
            f"{self.store.url}: this process was paused and lost its lock, and another one has taken over: "
            f"{self.message}"
        )


def take_over(store: Store, name: str, message: str, begin: Callable[[JsonObject | None], JsonObject]) -> CommitFile:
    """Become the owner of a store. ``begin`` returns the new content of the commit file for the one found, or None.

    Raises Locked if another process does the same at this moment, and DataError if the file is damaged.
    """
    found, tag = read_commit(store, name)
    number = 0 if found is None else int(found.get("owner", 0))
    file = CommitFile(store, name, message, {"owner": number + 1}, tag)
    file.replace(begin(found), is_first=True)
    return file


def read_commit(store: Store, name: str) -> tuple[JsonObject | None, str]:
    """Return the content of a commit file and the tag of this state; (None, "") if there is none."""
    content, tag = read_with_tag(store, name)
    if content is None:
        return None, ""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DataError(f"{store.url}/{name}: damaged; restore it, or delete the store and write it again")
    return found, tag
