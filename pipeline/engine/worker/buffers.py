"""What lies between a worker's kernels and its stores: a cache of what was read, reading ahead, and writing behind.

None of these changes a result.

A request to an object store takes tens of milliseconds. A thread that reads, computes and writes in turn would wait
for most of the time. A store that does not make threads wait, such as a disk whose files are in memory, is read and
written by the thread that computes: another thread would cost more than it saves.
"""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, NamedTuple, TypeVar

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
#: The run, the kind of value, and further names that distinguish values of one kind.
Key = tuple[object, ...]


class _Entry(NamedTuple):
    version: int
    nbytes: int
    value: Any
    for_every_chunk: bool


class Cache:
    """Maps keys to one version of a value each. The first key of a new run clears the entries of the previous run.

    A full cache refuses new values instead of evicting old ones. An epoch reads all chunks in turn, so evicting the
    oldest value would always evict the one that is needed next. Only values that are read for every chunk evict others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loading: dict[Key, threading.Lock] = {}
        self._values: dict[Key, _Entry] = {}
        self._bytes = 0
        self._run: object = ""

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self._bytes

    def get(self, key: Key, version: int = 0) -> Any | None:
        """Return the value if the cache has this version of it, else None."""
        with self._lock:
            entry = self._values.get(key)
        if entry is None or entry.version != version:
            return None
        return entry.value

    def put(
        self,
        key: Key,
        value: Any,
        *,
        version: int = 0,
        nbytes: int,
        budget: int,
        for_every_chunk: bool = False,
    ) -> None:
        """Replace the previous version by this one, if the cache then occupies at most ``budget`` bytes.

        Values of 0 bytes, such as opened stores, always fit. With ``for_every_chunk``, values that are not read for
        every chunk are evicted if there is no space otherwise.
        """
        with self._lock:
            self._enter_run(key[0])
            # The previous version goes even if the new one does not fit: no task reads it again.
            self._remove(key)
            if for_every_chunk:
                self._evict(self._bytes + nbytes - budget)
            if nbytes == 0 or self._bytes + nbytes <= budget:
                self._values[key] = _Entry(version, nbytes, value, for_every_chunk)
                self._bytes += nbytes

    def drop_older(self, beginning: Key, version: int) -> None:
        """Remove the values of versions before ``version`` whose keys begin with ``beginning``."""
        with self._lock:
            for key in list(self._values):
                if key[: len(beginning)] == beginning and self._values[key].version < version:
                    self._remove(key)

    def forget(self, run: object) -> None:
        """Remove all values of a run that is over. The next run would remove them, but there may be none for long."""
        with self._lock:
            if run == self._run:
                self._enter_run("")

    def _remove(self, key: Key) -> None:
        entry = self._values.pop(key, None)
        if entry is not None:
            self._bytes -= entry.nbytes

    def _evict(self, excess: int) -> None:
        """Remove ``excess`` bytes of values that are not read for every chunk. If there are fewer, remove nothing."""
        evictable = [key for key, entry in self._values.items() if entry.nbytes and not entry.for_every_chunk]
        if sum(self._values[key].nbytes for key in evictable) < excess:
            return
        target = self._bytes - excess
        while self._bytes > target:
            self._remove(evictable.pop())

    def load(
        self,
        key: Key,
        read: Callable[[], Value],
        *,
        version: int = 0,
        size: Callable[[Value], int] = lambda value: 0,
        budget: int = 0,
        for_every_chunk: bool = False,
    ) -> Value:
        """Return the value of a key; if the cache does not have this version of it, ``read`` it first.

        If several threads need the same value, only one of them reads it.
        """
        with self._lock:
            self._enter_run(key[0])
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            # Another thread may have read it while this one waited for the lock.
            value = self.get(key, version)
            if value is None:
                value = read()
                self.put(
                    key,
                    value,
                    version=version,
                    nbytes=size(value),
                    budget=budget,
                    for_every_chunk=for_every_chunk,
                )
            return value

    def _enter_run(self, run: object) -> None:
        if run != self._run:
            self._values.clear()
            self._loading.clear()
            self._bytes = 0
            self._run = run


#: The cache of this worker process.
CACHE = Cache()


def start(threads: Executor, function: Callable[..., Value], *arguments: object) -> "Future[Value]":
    """Call a function in one of the threads. The context tells Dask in which worker the thread runs."""
    return threads.submit(copy_context().run, function, *arguments)


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
        self._threads = ThreadPoolExecutor(MAX_THREADS, "corpusmill-read")
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
            reading = start(self._threads, self._pace.timed, read)
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
        self._threads.shutdown(wait=False, cancel_futures=True)


class WriteBehind:
    """Writes values in other threads while the caller continues. Several threads may use it."""

    def __init__(self, pace: Pace, nbytes: int):
        self._pace = pace
        self._budget = Budget(nbytes)
        self._threads = ThreadPoolExecutor(MAX_THREADS, "corpusmill-write")
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
        start(self._threads, self._write, action, nbytes)

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
        self._threads.shutdown()
        self._raise_error()

    def abandon(self) -> None:
        """Drop the values that no thread has begun to write, and wait for the others."""
        self._threads.shutdown(cancel_futures=True)
