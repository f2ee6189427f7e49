"""Checks of the place where runs and corpora are written: rights, speed, free space, conditional writes, locks."""

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .....io.errors import DataError, Locked
from .....io.stores.conditional import honours_conditions, read_with_tag, write_if_unchanged
from .....io.stores.locks import acquire_lock
from .....io.stores.store import Store
from ....formatting import format_bytes
from ...results import Finding
from .finding import advice, fine, problem

#: Bytes written to measure speed, on a disk and on an object store.
LOCAL_BYTES = 64 << 20
REMOTE_BYTES = 8 << 20
#: Small files written to measure what one of them costs.
SMALL_FILES = 10
#: Speeds and times beyond which the store would slow down training.
SLOW_BYTES_PER_SECOND = 50e6
SLOW_REMOTE_BYTES_PER_SECOND = 10e6
SLOW_FILE_SECONDS = 0.1
#: A finding about a store that shows old states.
_INCONSISTENT = "{} does not show what was just written: use a store with consistent reads"
#: Free space below which there is advice.
FREE_BYTES = 2 << 30


class Scratch:
    """A folder inside the store that the checks write to. Use it as a context manager, which removes it."""

    def __init__(self, url: str):
        self.url = url
        self.parent = Store(url)
        #: Whether the store existed before the checks. Without access to it, nothing is written.
        self.existed = True
        self.name = f"doctor-{uuid.uuid4().hex}"
        self.store = self.parent.child(self.name)

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.parent.delete(self.name)
            # A folder that did not exist before the checks is removed again if nobody else has used it since.
            if not self.existed and not self.parent.names():
                self.parent.delete("")
        except (OSError, DataError):
            # A store that refuses to delete has its own finding.
            return


def check_rights(scratch: Scratch) -> Iterator[Finding]:
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
        found = store.read_bytes("file")
        step = "list"
        names = store.names()
    except (OSError, DataError) as error:
        message = " ".join(str(error).split())
        # The errors of an object store say what to do.
        text = f"cannot {step} the store: {message}"
        if store.is_local:
            text = f"cannot {step} {scratch.url} ({message}): change its permissions, or name another place"
        yield problem("store", text)
        return
    if found != b"second" or names != ["file"]:
        yield problem("store", _INCONSISTENT.format(scratch.url))
        return
    yield _check_deletion(scratch)


def _check_deletion(scratch: Scratch) -> Finding:
    """Delete a file in the store. Without the right to do so, the other checks still make sense."""
    store = scratch.store
    try:
        store.delete("file")
        is_there = store.exists("file")
    except (OSError, DataError) as error:
        message = " ".join(str(error).split())
        return advice(
            "store", f"{message}; runs keep all their files, nothing can be replaced, and {store.url} stays behind"
        )
    if is_there:
        return problem("store", _INCONSISTENT.format(scratch.url))
    return fine("store", f"{scratch.parent.absolute} can be written, read, listed and deleted from")


def check_conditional_writes(scratch: Scratch) -> Iterator[Finding]:
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
        yield problem(
            "second writer",
            f"{scratch.url} ignores conditions of writes, so two jobs could overwrite each other: use S3 or "
            f"a store that supports If-Match, and let only one job at a time use this one",
        )
        return
    with acquire_lock(store, "doctor.lock", "busy"):
        try:
            with acquire_lock(store, "doctor.lock", "busy"):
                is_exclusive = False
        except Locked:
            is_exclusive = True
    if not is_exclusive:
        yield problem(
            "second writer", f"{scratch.url} does not support locks: mount it with locks, or use another place"
        )
        return
    yield fine("second writer", "is refused")


def check_speed(scratch: Scratch) -> Iterator[Finding]:
    """Measure how fast the store writes and reads, and what a small file costs."""
    store = scratch.store
    size = LOCAL_BYTES if store.is_local else REMOTE_BYTES
    # Random bytes, because some file systems compress.
    content = np.random.default_rng(0).bytes(size)
    start = time.perf_counter()
    store.write_bytes("large", content)
    written = size / (time.perf_counter() - start)
    _drop_from_cache(store, "large")
    start = time.perf_counter()
    store.read_bytes("large")
    read = size / (time.perf_counter() - start)
    start = time.perf_counter()
    for number in range(SMALL_FILES):
        store.write_bytes(f"small-{number}", b"small")
    small = (time.perf_counter() - start) / SMALL_FILES
    text = f"writes {written / 1e6:,.0f} MB/s, reads {read / 1e6:,.0f} MB/s, {small * 1e3:,.1f} ms per small file"
    slow = SLOW_BYTES_PER_SECOND if store.is_local else SLOW_REMOTE_BYTES_PER_SECOND
    if min(written, read) < slow:
        yield advice("speed", f"{text}; slow: use a local disk, or larger chunks (corpus.chunk_tokens)")
    elif small > SLOW_FILE_SECONDS and store.is_local:
        yield advice("speed", f"{text}; small files are slow: use a local disk, or fewer chunks (corpus.chunk_tokens)")
    else:
        yield fine("speed", text)


def _drop_from_cache(store: Store, name: str) -> None:
    """Let the system forget a file's pages, so that reading it reads the disk."""
    if store.is_local and hasattr(os, "posix_fadvise"):
        with open(store.where(name), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def check_space(scratch: Scratch, temporary: str | None = None) -> Iterator[Finding]:
    """Check the free space of the store's disk and of the folder for temporary files."""
    folder = temporary or tempfile.gettempdir()
    folders = {"temporary files": folder}
    if scratch.store.is_local:
        folders["the store"] = scratch.parent.path
    texts = []
    for use, path in folders.items():
        free = shutil.disk_usage(_existing(path)).free
        if free < FREE_BYTES:
            hint = "set TMPDIR to another disk" if use == "temporary files" else "free some space or use another disk"
            yield advice("space", f"{path} has {format_bytes(free)} left for {use}: {hint}")
            return
        texts.append(f"{format_bytes(free)} for {use}")
    if is_in_memory(folder):
        yield advice(
            "space",
            f"{folder} is kept in memory, and workers write there what does not fit into memory: set TMPDIR to "
            f"a folder on a disk",
        )
        return
    yield fine("space", ", ".join(texts))


def _existing(path: str) -> str:
    folder = Path(path)
    while not folder.exists():
        folder = folder.parent
    return str(folder)


def is_in_memory(path: str, mounts: str = "/proc/mounts") -> bool:
    """Return whether a folder is on a file system that is kept in memory."""
    try:
        rows = [line.split() for line in Path(mounts).read_text().splitlines()]
    except OSError:
        return False
    resolved = Path(path).resolve()
    holding = [row for row in rows if resolved.is_relative_to(row[1])]
    if not holding:
        return False
    innermost = max(holding, key=lambda row: len(row[1]))
    return innermost[2] in ("tmpfs", "ramfs")
