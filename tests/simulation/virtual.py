"""Virtual versions of what the code takes from Python's library: clocks, threads and names that are drawn at random."""

import contextlib
import random
import types
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import cache
from importlib.metadata import version
from typing import Any
from unittest import mock

from corpusmill.io.stores import locks
from corpusmill.pipeline.engine import contributions, overlap, run, tasks, transfers, worker
from corpusmill.pipeline.engine.cache import Cache

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
        """Return the time in which the thread computed: none. All virtual time passes while threads wait."""
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

    def __enter__(self) -> "Lock":
        me = World.current.current_fiber
        if self._owner is not me and self._depth:
            World.current.wait(lambda: not self._depth)
        self._owner = me
        self._depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._depth -= 1


class Condition(Lock):
    """Stands for threading.Condition."""

    def wait_for(self, predicate: Callable[[], bool]) -> bool:
        """Wait until a predicate is met. Only one fiber runs at a time, so the lock need not be released."""
        return World.current.wait(predicate)

    def notify_all(self) -> None:
        """Do nothing: the scheduler looks at all predicates."""


class Threading(types.SimpleNamespace):
    """Stands for the module threading."""

    Condition = Condition

    Thread = Thread
    Event = Event
    Lock = Lock
    RLock = Lock


class InlinePool:
    """Stands for ThreadPoolExecutor. Calls functions at once, in the thread that submits them."""

    def __init__(self, *_: object, **__: object):
        pass

    def __enter__(self) -> "InlinePool":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Call a function and return its result as a future."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)
        return future

    def shutdown(self, **_: object) -> None:
        """Do nothing: no call is left."""


class FiberFuture:
    """Stands for the future of a call in a `FiberPool`."""

    def __init__(self) -> None:
        self.state = "pending"
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Call the function, unless the future is cancelled."""
        if self.state != "pending":
            return
        self.state = "running"
        try:
            self.value = function(*arguments)
        except Exception as error:
            self.error = error
        self.state = "done"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "cancelled")

    def cancel(self) -> bool:
        """Cancel the call if it has not begun; return whether."""
        if self.state == "pending":
            self.state = "cancelled"
        return self.state == "cancelled"

    def result(self) -> Any:
        """Wait for the call."""
        World.current.wait(lambda: self.is_over)
        if self.error is not None:
            raise self.error
        return self.value


class FiberPool:
    """Stands for ThreadPoolExecutor. Each call runs in a fiber of the process that submits it."""

    def __init__(self, max_workers: int, name: str):
        self._name = name
        self._futures: list[FiberFuture] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> FiberFuture:
        """Start a call."""
        future = FiberFuture()
        self._futures = [other for other in self._futures if not other.is_over] + [future]
        process = World.current.process
        World.current.start(
            f"{process.name if process else ''} {self._name}", process, lambda: future.run(function, arguments)
        )
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for all calls."""
        if cancel_futures:
            for future in self._futures:
                future.cancel()
        if wait and self._futures:
            World.current.wait(lambda: all(future.is_over for future in self._futures))


class CachePerProcess:
    """Stands for the cache of the process that runs now."""

    def _cache(self) -> Cache:
        process = World.current.process
        return process.cache if process is not None else _OUTSIDE

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache(), name)


_OUTSIDE = Cache()
_version = cache(version)


@contextlib.contextmanager
def virtual_library(seed: int) -> Iterator[None]:
    """Replace clocks, threads, caches and random names while a world runs."""
    names = random.Random(seed)
    clock = Clock()
    threading = Threading()
    with contextlib.ExitStack() as stack:
        for module in (locks, tasks, contributions):
            for name, stand_in in (("time", clock), ("threading", threading), ("ThreadPoolExecutor", InlinePool)):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, stand_in))
        for module in (tasks, transfers, worker):
            stack.enter_context(mock.patch.object(module, "CACHE", CachePerProcess()))
        for name, stand_in in (("time", clock), ("threading", threading), ("ThreadPoolExecutor", FiberPool)):
            stack.enter_context(mock.patch.object(overlap, name, stand_in))
        stack.enter_context(mock.patch.object(transfers, "threading", threading))
        # Looking for the versions of libraries reads many folders.
        stack.enter_context(mock.patch.object(run, "version", _version))
        stack.enter_context(mock.patch.object(uuid, "uuid4", lambda: uuid.UUID(int=names.getrandbits(128), version=4)))
        yield
