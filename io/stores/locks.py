"""One writer at a time: locks on a local path or an object store.

A lock keeps two processes from doing the same work. It does not protect files by itself: a process that is paused for
longer than its lock lasts continues as if it still had it. See `conditional` for what stops such a process.

Locks do not rely on this machine's clock, which may jump. The age of a lock on an object store is measured with the
store's own timestamps, and the owner of a lock measures time with a monotonic clock.
"""

import contextlib
import json
import logging
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from ..errors import DataError, Locked
from .conditional import honours_conditions, read_with_tag, write_if_unchanged
from .store import Store, make_folder

#: The environment variable for the time after which the owner of a lock on an object store counts as dead.
EXPIRY_VARIABLE = "CORPUSMILL_LOCK_SECONDS"
#: How long an attempt to take a local lock waits, and between two looks: `is_locked` of other processes may hold the
#: lock for moments.
_LOCAL_WAIT_SECONDS = 0.5
_LOCAL_LOOK_SECONDS = 0.01
#: The content of a lock that nobody holds. A lock is never deleted: only a write can be made conditional.
_RELEASED = b'{"released": true}'


def expiry_seconds() -> float:
    """Return after how many seconds without a heartbeat the owner of a lock on an object store counts as dead.

    All processes that share a store must have the same value. Raises ValueError for a bad value of the variable.
    """
    text = os.environ.get(EXPIRY_VARIABLE, "60")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 1 <= seconds < math.inf:
        raise ValueError(f"{EXPIRY_VARIABLE}={text!r} must be a number of seconds of at least 1, such as 60")
    return seconds


@contextlib.contextmanager
def acquire_lock(store: Store, name: str, message: str, expiry: float | None = None) -> Iterator[Callable[[], None]]:
    """Hold a lock of a store; yield a function that raises Locked once the lock is lost.

    Raises Locked with ``message`` if another process holds the lock, and Locked in place of any other error that occurs
    after the lock was lost. When the owner dies, a lock on a local path is free at once, and one on an object store
    ``expiry`` seconds after the owner's last heartbeat, by default `expiry_seconds`.
    """
    if store.is_local:
        with _local_lock(store, name, message):
            yield lambda: None
        return
    lock = ObjectLock(store, name, expiry or expiry_seconds())
    refusal = lock.try_acquire()
    if refusal:
        raise Locked(f"{store.url}: {message} ({refusal})")
    try:
        yield lambda: lock.check(message)
    except Locked:
        raise
    except Exception as error:
        # The process that took the lock may have deleted or replaced files that this one was reading. The error is then
        # a consequence, and its message would send the user after damage that does not exist.
        lock.check(message, cause=error)
        raise
    finally:
        lock.release()


@contextlib.contextmanager
def _local_lock(store: Store, name: str, message: str) -> Iterator[None]:
    make_folder(Path(store.path))
    lock = filelock.FileLock(store.where(name))
    try:
        lock.acquire(timeout=_LOCAL_WAIT_SECONDS, poll_interval=_LOCAL_LOOK_SECONDS)
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
    content, _ = read_with_tag(store, name)
    if content is None or content == _RELEASED:
        return False
    return time.time() - store.modified(name).timestamp() < expiry_seconds()


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


class ObjectLock:
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
        self._beating = threading.Lock()
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, daemon=True, name=f"lock {name}")

    def try_acquire(self) -> str:
        """Take the lock and return an empty string, or return who holds it and for how long."""
        content, self._tag = read_with_tag(self.store, self.name)
        if content is not None and content != _RELEASED:
            age = self._age()
            if age < self.expiry:
                left = max(1, round(self.expiry - age))
                return f"{_owner_of(content)} holds the lock; if that process is dead, the lock is free in {left} s"
        if not self._beat():
            return "another process took the lock a moment ago"
        self._check_conditions()
        self._thread.start()
        return ""

    def check(self, message: str, cause: Exception | None = None) -> None:
        """Send a heartbeat; raise Locked, because of ``cause`` if given, if the lock is lost.

        The heartbeat is sent whatever the clock says, because the clock of a virtual machine that was frozen shows no
        pause.
        """
        too_late = time.monotonic() - self._last_heartbeat > self.expiry
        if too_late or self._lost or not self._beat():
            raise Locked(
                f"{self.store.url}: this process sent no heartbeat for {self.expiry:g} s and lost its lock: {message}"
            ) from cause

    def release(self) -> None:
        """Stop the heartbeat and free the lock, unless another process has taken it."""
        self._released.set()
        self._thread.join()
        if not self._lost:
            write_if_unchanged(self.store, self.name, _RELEASED, self._tag)

    def _check_conditions(self) -> None:
        if honours_conditions(self.store, self.name):
            return
        # `honours_conditions` has overwritten the lock, so its tag is another one.
        _, self._tag = read_with_tag(self.store, self.name)
        self._beat()
        logging.getLogger("corpusmill").warning(
            "%s: this object store ignores or refuses the conditions of writes (If-Match, If-None-Match), so nothing "
            "stops two processes that write here at the same time: start only one",
            self.store.url,
        )

    def _beat(self) -> bool:
        """Write a heartbeat if the lock is unchanged since the last one; return whether this process has the lock."""
        with self._beating:
            if self._lost:
                return False
            content = json.dumps(self._owner | {"beat": self._heartbeats}).encode()
            tag = write_if_unchanged(self.store, self.name, content, self._tag)
            if not tag:
                self._lost = True
                return False
            self._tag = tag
            self._heartbeats += 1
            self._last_heartbeat = time.monotonic()
            return True

    def _keep_alive(self) -> None:
        while not self._released.wait(self.expiry / 4) and not self._lost:
            # An error of the store does not mean that the lock is lost. The next heartbeat tries again.
            with contextlib.suppress(OSError, DataError):
                self._beat()

    def _age(self) -> float:
        """Return the seconds since the owner's last heartbeat, by the store's clock.

        The store's current time is that of a file written just now.
        """
        probe = f"{self.name}-probe-{uuid.uuid4().hex}"
        self.store.write_bytes(probe, b"now")
        try:
            return (self.store.modified(probe) - self.store.modified(self.name)).total_seconds()
        except FileNotFoundError:
            # The owner released the lock in the meantime.
            return self.expiry
        finally:
            self.store.delete_unneeded(probe)


def _owner_of(content: bytes) -> str:
    try:
        owner = json.loads(content)
        return f"process {owner['process']} on {owner['host']}"
    except (ValueError, TypeError, KeyError):
        return "another process"
