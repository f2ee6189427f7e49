"""Virtual versions of what the code takes from Python's library: clocks, threads and names that are drawn at random."""

import contextlib
import random
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from typing import Any
from unittest import mock

from corpusmill.pipeline.engine import run
from corpusmill.pipeline.engine.worker.buffers import CACHE, Cache

from .world import Fiber, World


class Clock(types.SimpleNamespace):
    """Stands for the module time."""

    @staticmethod
    def monotonic() -> float:
        """Return the virtual time."""
        return World.current.now

    perf_counter = monotonic

    @staticmethod
    def thread_time() -> float:
        """Return the time for which the thread has computed: simulated threads only wait."""
        return 0.0

    @staticmethod
    def time() -> float:
        """Return the time of day, which may be wrong."""
        return World.current.now + World.current.clock_error

    @staticmethod
    def sleep(seconds: float) -> None:
        """Wait."""
        World.current.sleep(seconds)


class Thread:
    """Stands for threading.Thread."""

    def __init__(self, target: Callable[..., object], args: tuple = (), name: str = "", daemon: bool = False):
        self._work = lambda: target(*args)
        self._name = name
        self._fiber: Fiber | None = None

    def start(self) -> None:
        """Start the thread in the process that runs now."""
        process = World.current.process
        self._fiber = World.current.start(f"{process.name if process else ''} {self._name}", process, self._work)

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread."""
        World.current.wait(lambda: not self.is_alive(), float("inf") if timeout is None else timeout)

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._fiber is not None and not self._fiber.dead


class Event:
    """Stands for threading.Event."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Wake everyone who waits."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return whether the event has happened."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event."""
        return World.current.wait(self.is_set, float("inf") if timeout is None else timeout)


class Lock:
    """Stands for threading.Lock and threading.RLock."""

    def __init__(self) -> None:
        self._depth = 0
        self._owner: object = None

    def acquire(self) -> bool:
        """Wait until no other thread has the lock, and take it."""
        me = World.current.current_fiber
        if self._depth and self._owner is not me:
            World.current.wait(lambda: not self._depth)
        self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        """Free the lock."""
        self._depth -= 1

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class Condition(Lock):
    """Stands for threading.Condition. Waiting threads look again whenever they may run."""

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Free the lock until the predicate holds."""
        while not predicate():
            self.release()
            World.current.wait(lambda: not self._depth and predicate())
            self.acquire()
        return True

    def notify_all(self) -> None:
        """Do nothing: waiting threads look again anyway."""

    notify = notify_all


class Threading(types.SimpleNamespace):
    """Stands for the module threading."""

    Thread = Thread
    Event = Event
    Lock = Lock
    RLock = Lock
    Condition = Condition


class Promise:
    """Stands for concurrent.futures.Future."""

    def __init__(self) -> None:
        self._is_begun = False
        self._is_done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self, function: Callable[..., Any], arguments: tuple, options: dict[str, Any]) -> None:
        """Call the function, unless it was cancelled."""
        if self._is_done:
            return
        self._is_begun = True
        try:
            self._result = function(*arguments, **options)
        except Exception as error:
            self._error = error
        self._is_done = True

    def done(self) -> bool:
        """Return whether the call has ended."""
        return self._is_done

    def cancel(self) -> bool:
        """Cancel the call if it has not begun; return whether it is cancelled."""
        if self._is_begun:
            return False
        self._is_done = True
        self._error = CancelledError()
        return True

    def cancelled(self) -> bool:
        """Return whether the call was cancelled."""
        return isinstance(self._error, CancelledError)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the call, and return its error."""
        if not self._is_done:
            World.current.wait(self.done)
        return self._error

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the call, and return its result."""
        if self.exception() is not None:
            raise self._error
        return self._result


class ThreadPool:
    """Stands for ThreadPoolExecutor. Each call is a thread of its own, which may have to wait for its turn."""

    def __init__(self, max_workers: int = 8, *_: object, **__: object):
        self._left = max_workers
        self._promises: list[Promise] = []

    def __enter__(self) -> "ThreadPool":
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()

    def submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Promise:
        """Start a call."""
        promise = Promise()
        self._promises.append(promise)

        def work() -> None:
            World.current.wait(lambda: self._left > 0)
            self._left -= 1
            promise.run(function, arguments, options)
            self._left += 1

        process = World.current.process
        World.current.start(f"{process.name if process else ''} pool", process, work)
        return promise

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """Wait for all calls that are not cancelled."""
        for promise in self._promises:
            if cancel_futures:
                promise.cancel()
            if wait:
                promise.exception()


class CachePerProcess:
    """Stands for the cache of the process that runs now."""

    def _cache(self) -> Cache:
        process = World.current.process
        return process.cache if process is not None else _OUTSIDE

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache(), name)


_OUTSIDE = Cache()
_version = cache(version)


def _modules() -> list[types.ModuleType]:
    """Return the modules of the engine and of the stores, and those of their locks."""
    folders = ("corpusmill.io.stores.", "corpusmill.pipeline.engine.", "filelock.")
    return [module for name, module in sorted(sys.modules.items()) if name.startswith(folders)]


@contextlib.contextmanager
def virtual_library(seed: int) -> Iterator[None]:
    """Replace clocks, threads, caches and random names while a world runs."""
    names = random.Random(seed)
    stand_ins = {
        "time": Clock(),
        "threading": Threading(),
        "ThreadPoolExecutor": ThreadPool,
        "CACHE": CachePerProcess(),
    }
    real = {"time": time, "threading": threading, "ThreadPoolExecutor": ThreadPoolExecutor, "CACHE": CACHE}
    with contextlib.ExitStack() as stack:
        for module in _modules():
            for name, stand_in in stand_ins.items():
                if getattr(module, name, None) is real[name]:
                    stack.enter_context(mock.patch.object(module, name, stand_in))
        # Looking for the versions of libraries reads many folders.
        stack.enter_context(mock.patch.object(run, "version", _version))
        stack.enter_context(mock.patch.object(uuid, "uuid4", lambda: uuid.UUID(int=names.getrandbits(128), version=4)))
        yield
