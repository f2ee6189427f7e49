"""One writer at a time: conditional writes, and locks, on a local path or an object store.

Locks do not rely on this machine's clock, which may jump. The age of a lock on an object store is measured with the
store's own timestamps, and the owner of a lock measures time with a monotonic clock.
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
from datetime import datetime
from pathlib import Path

import filelock

from .store import DataError, JsonObject, Store, make_folder

#: The owner of a lock on an object store counts as dead after this time without a heartbeat.
EXPIRY_SECONDS = 60.0
#: How long an attempt to take a local lock waits: `is_locked` of another process may hold the lock for a moment.
_LOCAL_WAIT_SECONDS = 0.2


class Locked(Exception):
    """Another process is writing to the same corpus, run or model."""


# --- conditional writes ---


def read_with_tag(store: Store, name: str) -> tuple[bytes | None, str]:
    """Return a file's content and a tag of this version of it; (None, "") if there is no such file."""
    where = store.where(name)
    try:
        # The tag is read first. If the file changes in between, the tag is too old, and the next write fails.
        tag = str(store.fs.info(where, refresh=True)["ETag"]) if _is_s3(store) else ""
        content = store.fs.cat_file(where)
    except FileNotFoundError:
        return None, ""
    return content, tag or hashlib.sha256(content).hexdigest()


def write_if_unchanged(store: Store, name: str, content: bytes, tag: str) -> bool:
    """Write a file only if its current version has the tag ``tag``; return whether it was written.

    An empty tag means that the file must not exist yet. On S3 this is one atomic step. Elsewhere the tags are compared
    just before the write, so the caller must hold a lock as well.
    """
    if _is_s3(store):
        condition = {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}
        return _put_on_s3(store, name, content, condition)
    if read_with_tag(store, name)[1] != tag:
        return False
    # The caller's lock protects these two cases: replacing a file, and every write on a local path.
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
        if _error_code(error) == "NoSuchBucket":
            raise DataError(
                f"{store.url}: the bucket {bucket!r} does not exist; create it, or correct the URL"
            ) from error
        if not _is_conflict(error):
            raise
        # The client repeats a put whose response was lost. If the first attempt had succeeded, the second one fails
        # its own condition. The stored content distinguishes this case from a conflict with another process.
        return read_with_tag(store, name)[0] == content
    finally:
        store.fs.invalidate_cache(store.where(name))
    return True


def _is_conflict(error: OSError) -> bool:
    """Return whether S3 refused a conditional put because the object was not in the required state."""
    if isinstance(error, FileExistsError):
        return True
    response = _response_to(error).get("ResponseMetadata", {})
    return response.get("HTTPStatusCode") in (404, 409, 412)


def _error_code(error: OSError) -> str:
    """Return S3's name for an error, such as NoSuchBucket; empty if the error has none."""
    return str(_response_to(error).get("Error", {}).get("Code", ""))


def _response_to(error: OSError) -> JsonObject:
    """Return the response that made s3fs raise an error; empty if there was none, as after a broken connection."""
    response: JsonObject = getattr(error.__cause__, "response", {})
    return response


# --- locks ---


@contextlib.contextmanager
def acquire_lock(store: Store, name: str, message: str, expiry: float = EXPIRY_SECONDS) -> Iterator[Callable[[], None]]:
    """Hold a lock of a store; yield a function that raises Locked once the lock is lost.

    Raises Locked with ``message`` if another process holds the lock, and Locked in place of any other error that occurs
    after the lock was lost. When the owner dies, a lock on a local path is free at once, and one on an object store
    ``expiry`` seconds after the owner's last heartbeat.
    """
    if store.is_local:
        with _local_lock(store, name, message):
            yield lambda: None
        return
    lease = Lease(store, name, expiry)
    refusal = lease.try_acquire()
    if refusal:
        raise Locked(f"{store.url}: {message} ({refusal})")
    try:
        yield lambda: lease.check(message)
    except Locked:
        raise
    except Exception as error:
        # The process that took the lock may have deleted or replaced files that this one was reading. The error is then
        # a consequence, and its message would send the user after damage that does not exist.
        lease.check(message, cause=error)
        raise
    finally:
        lease.release()


@contextlib.contextmanager
def _local_lock(store: Store, name: str, message: str) -> Iterator[None]:
    make_folder(Path(store.path))
    lock = filelock.FileLock(store.where(name))
    try:
        lock.acquire(timeout=_LOCAL_WAIT_SECONDS)
    except filelock.Timeout:
        raise Locked(f"{store.url}: {message}") from None
    try:
        yield
    finally:
        lock.release()


def is_locked(store: Store, name: str) -> bool:
    """Return whether a process seems to hold a lock: good enough to display, not to decide whether to write.

    A lock file that this user may not open counts as free.
    """
    if not store.exists(name):
        return False
    if store.is_local:
        return _is_locked_locally(store.where(name))
    try:
        return time.time() - _modified(store, name).timestamp() < EXPIRY_SECONDS
    except FileNotFoundError:
        return False


def _is_locked_locally(path: str) -> bool:
    # The only way to see a lock of another process is to try to take it.
    lock = filelock.FileLock(path)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        return True
    except PermissionError:
        return False
    lock.release()
    return False


def _modified(store: Store, name: str) -> datetime:
    """Return when a file was written, by the store's clock; raise FileNotFoundError if it does not exist."""
    store.fs.invalidate_cache(store.where(name))
    return store.fs.modified(store.where(name))


class Lease:
    """A lock on an object store: an object that a thread of its owner rewrites every ``expiry`` / 4 seconds."""

    def __init__(self, store: Store, name: str, expiry: float):
        self.store = store
        self.name = name
        self.expiry = expiry
        self._owner = {"host": socket.gethostname(), "process": os.getpid(), "id": uuid.uuid4().hex}
        self._tag = ""
        self._heartbeats = 0
        self._last_heartbeat = time.monotonic()
        self._lost = False
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, daemon=True, name=f"lock {name}")

    def try_acquire(self) -> str:
        """Take the lock and return an empty string, or return who holds it and for how long."""
        content, tag = read_with_tag(self.store, self.name)
        if content is not None:
            age = self._age()
            if age < self.expiry:
                left = max(1, round(self.expiry - age))
                return f"{_owner_of(content)} holds the lock; if that process is dead, the lock is free in {left} s"
        if not self._beat(tag):
            return "another process took the lock a moment ago"
        self._thread.start()
        return ""

    def check(self, message: str, cause: Exception | None = None) -> None:
        """Raise Locked, because of ``cause`` if given, if another process may have taken the lock in the meantime."""
        if self._lost or time.monotonic() - self._last_heartbeat > self.expiry:
            raise Locked(
                f"{self.store.url}: this process sent no heartbeat for {self.expiry:g} s and lost its lock: {message}"
            ) from cause

    def release(self) -> None:
        """Stop the heartbeat and delete the lock, unless another process has taken it."""
        self._released.set()
        self._thread.join()
        if not self._lost and read_with_tag(self.store, self.name)[1] == self._tag:
            self.store.delete(self.name)

    def _beat(self, tag: str) -> bool:
        """Write a heartbeat if the lock is still in the state ``tag``; return whether this process has the lock."""
        content = json.dumps(self._owner | {"beat": self._heartbeats}).encode()
        if not write_if_unchanged(self.store, self.name, content, tag):
            return False
        found, self._tag = read_with_tag(self.store, self.name)
        if found != content:
            return False
        self._heartbeats += 1
        self._last_heartbeat = time.monotonic()
        return True

    def _keep_alive(self) -> None:
        while not self._released.wait(self.expiry / 4) and not self._lost:
            # An error of the store does not mean that the lock is lost. The next heartbeat tries again, and check()
            # notices when none has succeeded for too long.
            with contextlib.suppress(OSError):
                self._lost = not self._beat(self._tag)

    def _age(self) -> float:
        """Return the seconds since the owner's last heartbeat, by the store's clock.

        The store's current time is that of a file written just now.
        """
        probe = f"{self.name}-probe-{uuid.uuid4().hex}"
        self.store.write_bytes(probe, b"now")
        try:
            return (_modified(self.store, probe) - _modified(self.store, self.name)).total_seconds()
        except FileNotFoundError:
            # The owner released the lock in the meantime.
            return self.expiry
        finally:
            self.store.delete(probe)


def _owner_of(content: bytes) -> str:
    try:
        owner = json.loads(content)
        return f"process {owner['process']} on {owner['host']}"
    except (ValueError, TypeError, KeyError):
        return "another process"
