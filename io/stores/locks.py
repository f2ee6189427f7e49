"""One writer at a time: conditional writes, and locks on them, on a local path or an object store.

Nothing here trusts a clock of this machine: a lock's age is what the store itself says, an owner's patience is counted
by a monotonic clock, which does not jump.
"""

import contextlib
import hashlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import filelock

from .store import Store

#: Seconds without a sign of life after which the owner of a lock on an object store is taken for dead.
EXPIRY_SECONDS = 60.0


class Locked(Exception):
    """Another process is writing to the same corpus, run or model."""


# --- conditional writes ---


def read_with_tag(store: Store, name: str) -> tuple[bytes | None, str]:
    """Return a file's content and a tag that names this state of it; (None, "") when there is no such file."""
    where = store.where(name)
    try:
        # The tag comes first: a file that changes in between fails the next conditional write.
        tag = str(store.fs.info(where, refresh=True)["ETag"]) if _is_s3(store) else ""
        content = store.fs.cat_file(where)
    except FileNotFoundError:
        return None, ""
    return content, tag or hashlib.sha256(content).hexdigest()


def write_if_unchanged(store: Store, name: str, content: bytes, tag: str) -> bool:
    """Write a file if it is still in the state ``tag``, or not there where that is empty; say whether it was written.

    One step on S3. Elsewhere the state is compared just before, and the caller holds a lock as well.
    """
    if _is_s3(store):
        return _put_on_s3(store, name, content, {"IfMatch": tag} if tag else {"IfNoneMatch": "*"})
    if read_with_tag(store, name)[1] != tag:
        return False
    if tag or store.is_local:
        store.write_bytes(name, content)
        return True
    try:
        store.fs.pipe_file(store.where(name), content, mode="create")
    except FileExistsError:
        return False
    return True


def _is_s3(store: Store) -> bool:
    return hasattr(store.fs, "call_s3")


def _put_on_s3(store: Store, name: str, content: bytes, condition: dict[str, str]) -> bool:
    bucket, _, key = store.where(name).partition("/")
    try:
        store.fs.call_s3("put_object", Bucket=bucket, Key=key, Body=content, **condition)
    except OSError as error:
        response = getattr(error.__cause__, "response", {}).get("ResponseMetadata", {})
        if not isinstance(error, FileExistsError) and response.get("HTTPStatusCode") not in (404, 409, 412):
            raise
        # A put that was repeated because its answer got lost fails by its own success.
        return read_with_tag(store, name)[0] == content
    finally:
        store.fs.invalidate_cache(store.where(name))
    return True


# --- locks ---


@contextlib.contextmanager
def acquire_lock(store: Store, name: str, busy: str, expiry: float = EXPIRY_SECONDS) -> Iterator[Callable[[], None]]:
    """Hold a lock of a store; yield a function that raises Locked once it is lost.

    On a local path the system frees the lock of a process that dies; on an object store it is free ``expiry`` seconds
    after the owner's last sign of life. Raises Locked, with the sentence ``busy``, when another process holds it.
    """
    if store.is_local:
        with _local(store, name, busy):
            yield lambda: None
        return
    lease = Lease(store, name, expiry)
    holder = lease.take()
    if holder:
        raise Locked(f"{store.url}: {busy} ({holder})")
    try:
        yield lambda: lease.check(busy)
    finally:
        lease.release()


@contextlib.contextmanager
def _local(store: Store, name: str, busy: str) -> Iterator[None]:
    store.fs.makedirs(store.path, exist_ok=True)
    lock = filelock.FileLock(store.where(name))
    try:
        lock.acquire(timeout=0.2)  # somebody may be looking whether it is held
    except filelock.Timeout:
        raise Locked(f"{store.url}: {busy}") from None
    try:
        yield
    finally:
        lock.release()


def is_locked(store: Store, name: str) -> bool:
    """Say whether a process holds a lock, as far as can be seen without taking it: for show, not for decisions."""
    if not store.exists(name):
        return False
    if store.is_local:
        import fcntl

        with open(store.where(name)) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False
    store.fs.invalidate_cache(store.where(name))
    try:
        return time.time() - store.fs.modified(store.where(name)).timestamp() < EXPIRY_SECONDS
    except FileNotFoundError:
        return False


class Lease:
    """A lock on an object store: an object that its owner rewrites every quarter of ``expiry``."""

    def __init__(self, store: Store, name: str, expiry: float):
        self.store, self.name, self.expiry = store, name, expiry
        self._owner = {"host": socket.gethostname(), "process": os.getpid(), "id": uuid.uuid4().hex}
        self._tag, self._beats = "", 0
        self._seen = time.monotonic()
        self._lost = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name=f"lock {name}")

    def take(self) -> str:
        """Take the lock and return an empty string; or say who has it and until when."""
        content, tag = read_with_tag(self.store, self.name)
        if content is not None:
            age = self._age()
            if age < self.expiry:
                left = max(1, round(self.expiry - age))
                return f"{_named(content)} has it; if it is dead, the lock is free in {left} s"
        if not self._write(tag):
            return "another process took it just now"
        self._thread.start()
        return ""

    def check(self, busy: str) -> None:
        """Raise Locked when another process may have taken the lock meanwhile."""
        if self._lost or time.monotonic() - self._seen > self.expiry:
            raise Locked(f"{self.store.url}: this process was silent for too long and lost its lock: {busy}")

    def release(self) -> None:
        """Give the lock back."""
        self._done.set()
        self._thread.join()
        if not self._lost and read_with_tag(self.store, self.name)[1] == self._tag:
            self.store.delete(self.name)

    def _write(self, tag: str) -> bool:
        content = json.dumps(self._owner | {"beat": self._beats}).encode()
        if not write_if_unchanged(self.store, self.name, content, tag):
            return False
        found, self._tag = read_with_tag(self.store, self.name)
        if found != content:
            return False
        self._beats, self._seen = self._beats + 1, time.monotonic()
        return True

    def _keep(self) -> None:
        while not self._done.wait(self.expiry / 4) and not self._lost:
            # An error of the store is no verdict: the next beat tries again, and check() counts the time.
            with contextlib.suppress(OSError):
                self._lost = not self._write(self._tag)

    def _age(self) -> float:
        """Seconds since the owner's last sign of life, by the store's clock: that of a file written just now."""
        probe = f"{self.name}-probe-{uuid.uuid4().hex}"
        self.store.write_bytes(probe, b"now")
        try:
            now, then = (self._modified(name) for name in (probe, self.name))
        except FileNotFoundError:  # given back meanwhile
            return self.expiry
        finally:
            self.store.delete(probe)
        return (now - then).total_seconds()

    def _modified(self, name: str) -> Any:
        self.store.fs.invalidate_cache(self.store.where(name))
        return self.store.fs.modified(self.store.where(name))


def _named(content: bytes) -> str:
    try:
        owner = json.loads(content)
        return f"process {owner['process']} on {owner['host']}"
    except (ValueError, TypeError, KeyError):
        return "another process"
