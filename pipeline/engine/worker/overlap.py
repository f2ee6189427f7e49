"""Reads data before a sweep needs them, and writes results while it continues.

A request to an object store takes tens of milliseconds. A thread that reads, computes and writes in turn would wait
for most of the time. A store that does not make threads wait, such as a disk whose files are in memory, is read and
written by the thread that computes: another thread would cost more than it saves.
"""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

#: Chunks that are read ahead for one computing thread, and blocks of the model for one sweep.
AHEAD = 8
#: Maximum number of reading threads, and of writing threads, of one sweep.
MAX_THREADS = 32
#: If requests make a thread wait for less than this, the computing thread reads and writes by itself.
LEAST_WAIT_SECONDS = 0.002
#: Assumed waiting time of a store on another machine, until the first request is measured.
REMOTE_WAIT_SECONDS = 0.03
#: Weight of the newest measurement in a moving average.
NEWEST = 0.3

Value = TypeVar("Value")


def start(pool: Executor, function: Callable[..., Value], *arguments: object) -> "Future[Value]":
    """Call a function in a thread of the pool. The context tells Dask in which worker the thread runs."""
    return pool.submit(copy_context().run, function, *arguments)


class Pace:
    """Average times of a worker's threads in a run: how long they wait for the store, and how long a kernel computes.

    Several threads update it without a lock. A lost update does no harm.
    """

    def __init__(self, wait_seconds: float):
        self._wait = wait_seconds  # for one chunk, state or block
        self.kernel = 0.0  # for one chunk; 0 if none was measured yet
        #: The parts of the model that sweeps have read, in the order of the first reads.
        self.model_parts: dict[Any, None] = {}

    def note_kernel(self, seconds: float) -> None:
        """Add a measurement of the kernel of a chunk."""
        self.kernel = seconds if not self.kernel else self.kernel + NEWEST * (seconds - self.kernel)

    def timed(self, action: Callable[[], Value]) -> Value:
        """Read or write, and measure the seconds in which the thread does not compute."""
        started = time.perf_counter() - time.thread_time()
        value = action()
        self._wait += NEWEST * (time.perf_counter() - time.thread_time() - started - self._wait)
        return value

    @property
    def store_waits(self) -> bool:
        """Whether reading and writing make a thread wait."""
        return self._wait >= LEAST_WAIT_SECONDS


class Budget:
    """Bytes that buffers may occupy."""

    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self._left = nbytes
        self._changed = threading.Condition()

    def try_take(self, nbytes: int) -> bool:
        """Reserve bytes if they are free; return whether they were."""
        with self._changed:
            if nbytes > self._left:
                return False
            self._left -= nbytes
            return True

    def take(self, nbytes: int) -> None:
        """Reserve bytes; wait until they are free. ``nbytes`` must not exceed the whole budget."""
        with self._changed:
            self._changed.wait_for(lambda: nbytes <= self._left)
            self._left -= nbytes

    def give(self, nbytes: int) -> None:
        """Free reserved bytes."""
        with self._changed:
            self._left += nbytes
            self._changed.notify_all()


class ReadAhead:
    """Reads values before they are needed, as many as fit into a budget. Several threads may use it."""

    def __init__(self, pace: Pace, nbytes: int):
        self._pace = pace
        self._budget = Budget(nbytes)
        self._pool = ThreadPoolExecutor(MAX_THREADS, "corpusmill-read")
        self._lock = threading.Lock()
        self._started: dict[Hashable, tuple[Future[Any], int]] = {}

    def start(self, key: Hashable, read: Callable[[], object], nbytes: int) -> bool:
        """Start to read a value of about ``nbytes`` bytes, unless it was started before.

        Return False if the budget does not have enough free bytes.
        """
        with self._lock:
            if key in self._started:
                return True
            if not self._budget.try_take(nbytes):
                return False
            reading = start(self._pool, self._pace.timed, read)
            self._started[key] = (reading, nbytes)
        return True

    def get(self, key: Hashable, read: Callable[[], Value]) -> Value:
        """Return a value that was read ahead; if it was not, read it now."""
        with self._lock:
            started = self._started.pop(key, None)
        if started is None:
            return self._pace.timed(read)
        reading, nbytes = started
        try:
            # A read that no thread has begun is faster in this thread.
            if reading.cancel():
                return self._pace.timed(read)
            value: Value = reading.result()
            return value
        finally:
            self._budget.give(nbytes)

    def close(self) -> None:
        """Begin no more reads. Those that were begun end by themselves; nobody needs their values."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class WriteBehind:
    """Writes values in other threads while the caller continues. Several threads may use it."""

    def __init__(self, pace: Pace, nbytes: int):
        self._pace = pace
        self._budget = Budget(nbytes)
        self._pool = ThreadPoolExecutor(MAX_THREADS, "corpusmill-write")
        self._error: BaseException | None = None

    def write(self, action: Callable[[], None], nbytes: int) -> None:
        """Write a value of ``nbytes`` bytes; raise the first error of an earlier call.

        Wait while the values that are not written yet occupy too much memory.
        """
        if not self._budget.nbytes:
            # Without a buffer, all values are written here, and measuring would only cost time.
            action()
            return
        self._raise_error()
        if not self._pace.store_waits or nbytes > self._budget.nbytes:
            self._pace.timed(action)
            return
        self._budget.take(nbytes)
        start(self._pool, self._write, action, nbytes)

    def _write(self, action: Callable[[], None], nbytes: int) -> None:
        try:
            # After an error, the step fails in any case.
            if self._error is None:
                self._pace.timed(action)
        except BaseException as error:
            self._error = error
        finally:
            self._budget.give(nbytes)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def finish(self) -> None:
        """Wait until all values are written; raise the first error."""
        self._pool.shutdown()
        self._raise_error()

    def abandon(self) -> None:
        """Drop the values that no thread has begun to write, and wait for the others."""
        self._pool.shutdown(cancel_futures=True)
