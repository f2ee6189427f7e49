"""Where tasks run: in this process, or on the workers of a Dask client. The engine sees no difference."""

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from dask.utils import format_bytes

from ...io.stores.store import DataError
from ...kernels.errors import DeviceError
from .device import device_bytes

#: Errors of the task itself, which would fail anywhere.
OF_THE_TASK = (DataError, DeviceError, ValueError, OSError)

#: Seconds that all workers may stand paused before their tasks are given up.
STALLED = 60.0


@dataclass(frozen=True)
class Capacity:
    """What one worker offers: threads and bytes (``memory`` is 0 when there is no limit)."""

    name: str
    address: str
    threads: int
    memory: int
    device: int = 0  # bytes of its CUDA device; 0: it has none, or was not asked


class TaskLost(Exception):
    """The cluster lost a task for good; what was committed is safe, so the run can be resumed."""


class Executor(ABC):
    """Submits tasks whose arguments may be other tasks' handles."""

    @abstractmethod
    def capacities(self, devices: bool = False) -> list[Capacity]:
        """Return the workers as they are now; ``devices``: ask each for its CUDA device too."""

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any, key: str, near: str | None = None) -> Any:
        """Run a task, preferably on the worker at the address ``near``; return its handle."""

    @abstractmethod
    def completed(self, handles: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield (position, result) as the tasks finish, and forget each."""

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that says of a cluster that is gone what it means; raises TaskLost."""
        return contextlib.nullcontext()

    def gather(self, handles: Iterable[Any]) -> list[Any]:
        """Return the tasks' results in order."""
        return [result for _, result in sorted(self.completed(handles), key=lambda pair: pair[0])]

    def run(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], key: str
    ) -> Iterator[tuple[int, Any]]:
        """Run independent tasks and yield (position, result) as they finish."""
        return self.completed([self.submit(function, *a, key=f"{key}-{i}") for i, a in enumerate(arguments)])


class Synchronous(Executor):
    """Runs each task at once in this process: no Dask, the same results."""

    def capacities(self, devices: bool = False) -> list[Capacity]:
        """One worker with one thread and this process's memory limit."""
        from distributed.system import MEMORY_LIMIT

        return [Capacity("this process", "", 1, MEMORY_LIMIT, device_bytes() if devices else 0)]

    def submit(self, function: Callable[..., Any], *arguments: Any, key: str, near: str | None = None) -> Any:
        """Return the result itself."""
        return function(*arguments)

    def completed(self, handles: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield what is there already."""
        yield from enumerate(handles)

    def run(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], key: str
    ) -> Iterator[tuple[int, Any]]:
        """Run the tasks one by one as they are asked for."""
        return ((i, function(*a)) for i, a in enumerate(arguments))


class OnDask(Executor):
    """Runs tasks on a Dask client's workers."""

    def __init__(self, client: Any):
        from .plugins import FreeStrandedTasks

        self.client, self._address = client, client.scheduler.address
        client.register_plugin(FreeStrandedTasks())

    def capacities(self, devices: bool = False) -> list[Capacity]:
        """Ask the scheduler which workers it has; wait for the first one, not for ever."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        if not workers:
            self.client.wait_for_workers(1, timeout=120)
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
        held = self.client.run(device_bytes) if devices else {}
        found = (
            Capacity(str(w["name"]), a, w["nthreads"], w["memory_limit"] or 0, held.get(a, 0))
            for a, w in workers.items()
        )
        return sorted(found, key=lambda c: c.name)

    def submit(self, function: Callable[..., Any], *arguments: Any, key: str, near: str | None = None) -> Any:
        """Return a future. ``near`` is a wish: the task goes elsewhere when that worker is gone or busy."""
        place = {"workers": [near], "allow_other_workers": True} if near else {}
        return self.client.submit(function, *arguments, key=key, pure=False, **place)

    def completed(self, handles: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield results as they come; each future is released at once, so that the scheduler can forget its task."""
        from distributed import as_completed

        futures = list(handles)
        position = {future.key: i for i, future in enumerate(futures)}
        stream = as_completed(futures, loop=self.client.loop, with_results=True)
        with self._unless_stalled(list(position)):
            del futures
            for future, result in stream:
                if isinstance(result, OF_THE_TASK):
                    raise result
                if isinstance(result, BaseException):
                    raise TaskLost(self._why(future.key, result)) from result
                yield position[future.key], result
                future.release()

    def _why(self, key: str, error: BaseException) -> str:
        if not self._stalled:
            return f"the cluster gave up task {key}: {error!r}; resume the run"
        limits = ", ".join(sorted({format_bytes(c.memory) for c in self.capacities()}))
        return (
            f"all workers stood paused for {STALLED:.0f} s with their memory full (limit {limits} each): "
            f"raise memory_limit, add workers, or cut the model with n_blocks, then resume the run"
        )

    @contextlib.contextmanager
    def _unless_stalled(self, keys: list[str]) -> Iterator[None]:
        """Cancel the tasks when all workers stand paused for STALLED seconds: nothing else would free their memory."""
        done = threading.Event()
        self._stalled = False

        def watch() -> None:
            # A scheduler that is gone is the concern of those who wait for results.
            with contextlib.suppress(Exception):
                since = time.monotonic()
                while not done.wait(STALLED / 12):
                    if not self._all_paused():
                        since = time.monotonic()
                    elif time.monotonic() - since > STALLED:
                        self._stalled = True
                        self.client.cancel([Future(key, self.client) for key in keys], force=True)
                        return

        from distributed import Future

        threading.Thread(target=watch, name="corpusmill-stalled", daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def _all_paused(self) -> bool:
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return bool(workers) and all(w["status"] == "paused" for w in workers)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Say that the scheduler is gone where that is why something failed."""
        from distributed.comm import CommClosedError

        try:
            yield
        except (TaskLost, OSError, CancelledError) as error:
            if self.client.status == "running" and not isinstance(error, CommClosedError):
                raise
            raise TaskLost(
                f"the scheduler at {self._address} is gone or cannot be reached; what was committed is safe: start "
                f"a cluster and give the same command, or resume the run"
            ) from error


def executor_for(client: Any | None) -> Executor:
    """Return the executor of a Dask client; None takes the process's current client, or no Dask at all."""
    if client is not None:
        return OnDask(client)
    from distributed import get_client

    try:
        return OnDask(get_client())
    except ValueError:
        return Synchronous()


def balanced_places(weights: list[int], capacities: list[Capacity]) -> list[str]:
    """Choose a worker's address for each shard of the given weights: to each worker consecutive shards, by its threads.

    So most merges find both deltas where they run. In the order of the workers' names, so that shards keep their place,
    and its cache, from epoch to epoch, and most of them when a worker comes or goes.
    """
    if not capacities or not capacities[0].address:
        return [""] * len(weights)
    workers = sorted(capacities, key=lambda c: c.name)
    ends = list(accumulate(c.threads for c in workers))
    scale = ends[-1] / max(1, sum(weights))
    middles = (end - weight / 2 for end, weight in zip(accumulate(weights), weights, strict=True))
    return [workers[min(bisect(ends, middle * scale), len(workers) - 1)].address for middle in middles]
