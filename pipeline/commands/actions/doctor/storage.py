"""Checks of the place where runs and corpora are written: rights, conditional writes, locks."""

import contextlib
import uuid
from functools import cached_property

from .....io.errors import DataError, Locked
from .....io.stores.conditional import honours_conditions, read_with_tag, write_if_unchanged
from .....io.stores.locks import acquire_lock
from .....io.stores.store import Store
from .finding import Advice, Problem, one_line


class Scratch:
    """A folder inside the store that the checks write to. Use it as a context manager, which removes it."""

    def __init__(self, url: str):
        self.url = url
        #: Whether the store existed before the checks. Without access to it, nothing is written.
        self.existed = True
        self.name = f"doctor-{uuid.uuid4().hex}"

    @cached_property
    def parent(self) -> Store:
        """The store. A check opens it, so that an invalid URL becomes a finding."""
        return Store(self.url)

    @cached_property
    def store(self) -> Store:
        """The folder."""
        return self.parent.child(self.name)

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(self, *_: object) -> None:
        # A store that cannot be opened or refuses to delete has its own finding.
        with contextlib.suppress(Exception):
            self.parent.delete(self.name)
            # A folder that did not exist before the checks is removed again if nobody else has used it since.
            if not self.existed and not self.parent.names():
                self.parent.delete("")


def check_rights(scratch: Scratch) -> str:
    """Write, read, list, replace and delete a file in the store."""
    store = scratch.store
    step = "look into"
    try:
        scratch.existed = scratch.parent.exists()
        step = "write to"
        store.write_bytes("file", b"first")
        step = "replace files in"
        store.write_bytes("file", b"second")
        step = "read from"
        is_consistent = store.read_bytes("file") == b"second"
        step = "list"
        is_consistent = is_consistent and store.names() == ["file"]
    except (OSError, DataError) as error:
        # The errors of an object store say what to do.
        text = f"cannot {step} the store: {one_line(error)}"
        if store.is_local:
            text = f"cannot {step} {scratch.url} ({one_line(error)}): change its permissions, or name another place"
        raise Problem(text) from None
    try:
        store.delete("file")
        is_consistent = is_consistent and not store.exists("file")
    except (OSError, DataError) as error:
        # Without the right to delete, the other checks still make sense.
        raise Advice(
            f"{one_line(error)}; runs keep all their files, nothing can be replaced, and {store.url} stays behind"
        ) from None
    if not is_consistent:
        raise Problem(f"{scratch.url} does not show what was just written: use a store with consistent reads")
    return f"{scratch.parent.absolute} can be written, read, listed and deleted from"


def check_conditional_writes(scratch: Scratch) -> str:
    """Check that a second writer is refused: by conditional writes, and by locks."""
    store = scratch.store
    is_new = write_if_unchanged(store, "HEAD", b"1", "")
    tag = read_with_tag(store, "HEAD")[1]
    is_replaced = write_if_unchanged(store, "HEAD", b"2", tag)
    stale = write_if_unchanged(store, "HEAD", b"3", tag)
    second = write_if_unchanged(store, "HEAD", b"4", "")
    content = read_with_tag(store, "HEAD")[0]
    is_refused = is_new and is_replaced and not stale and not second and content == b"2"
    if not is_refused or not honours_conditions(store, "HEAD"):
        raise Problem(
            f"{scratch.url} ignores conditions of writes, so two jobs could overwrite each other: use S3 or a store "
            f"that supports If-Match, and let only one job at a time use this one"
        )
    with acquire_lock(store, "doctor.lock", "busy"):
        try:
            with acquire_lock(store, "doctor.lock", "busy"):
                pass
        except Locked:
            return "is refused"
    raise Problem(f"{scratch.url} does not support locks: mount it with locks, or use another place")
