"""Executors run tasks, either in this process or on the workers of a Dask client. The engine treats both alike."""

import contextlib
import os
import queue
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ...io.errors import AccessDenied, DataError
from ...kernels.errors import DeviceError
from .cluster.watch import ClusterWatch, TaskLost, await_worker, workers_of
from .device import device_memory
from .memory import Capacity, memory_limit
from .worker.buffers import CACHE
from .worker.contributions import (
    Contribution,
    ContributionLost,
    OnSwept,
    ShardList,
    SweepOutcome,
    SweptDeltas,
    sweep_shards,
    update_blocks,
)
from .worker.tasks import THIS_PROCESS, AppliedBlock, SweepPhase

if TYPE_CHECKING:
    from distributed import Client, Future, Worker
    from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

#: Errors of a task itself. The task would fail on any worker.
TASK_ERRORS = (DataError, DeviceError, ValueError, OSError)

#: A task in progress: a Dask future, or the result itself when tasks run in this process.
Handle = Any
#: What a task returns. Its type differs from task to task.
Result = Any
#: A function that runs on a worker. Handles among its arguments are replaced by their results.
Task = Callable[..., Result]
#: The arguments of one call of a task.
Arguments = tuple[Any, ...]

#: Receives the name of a worker, the number of grid cells that it has trained, and the seconds that its threads took.
OnCells = Callable[[str, int, float], None]

#: Waits until the workers have swept, and returns what they contribute.
FinishSweep = Callable[[], SweepOutcome]

#: Receives messages of workers: the time, and the content.
Receiver = Callable[[Any], None]

#: Rights to list a folder and to open its files.
READABLE = os.R_OK | os.X_OK

#: Seconds between two messages of a client. Dask's 10 ms would be a part of every short epoch.
SEND_SECONDS = 0.001


class Executor(ABC):
    """Runs single tasks, and the parts of a step: sweeps, updates of blocks, and the training of a grid."""

    #: Whether tasks run in this process.
    runs_here: ClassVar[bool] = False

    @abstractmethod
    def capacities(self, devices: bool = False) -> list[Capacity]:
        """Return the present workers. With ``devices``, each reports the memory of its CUDA device too."""

    def on_each_worker(self, function: Callable[[], Any]) -> list[Any]:
        """Call a function once in each process that runs tasks; return the results."""
        return [function()]

    def check_folders(self, read: Sequence[str], written: Sequence[str] = ()) -> None:
        """Raise DataError if a worker cannot read or write such a folder of this machine; URLs are not checked."""

    @abstractmethod
    def run(self, function: Task, arguments: Iterable[Arguments], name: str) -> Iterator[tuple[int, Result]]:
        """Run independent tasks; yield (index, result) as they finish. ``name`` need not be unique."""

    @abstractmethod
    def submit(self, function: Task, *arguments: object, key: str) -> Handle:
        """Start a task whose arguments may be handles of other tasks; return its handle, which `completed` takes.

        Dask answers a key that it knows with the old result, so each ``key`` is used once.
        """

    @abstractmethod
    def completed(self, handles: Iterable[Handle]) -> Iterator[tuple[int, Result]]:
        """Yield (index, result) as the tasks finish, and release each result."""

    def end_run(self, training: str) -> None:
        """Release what was kept from step to step. It is called when training ends, also after an error.

        ``training`` is the name of this call of ``train``, see `Job`.
        """
        CACHE.forget(training)

    @abstractmethod
    def sweep(
        self,
        phase: SweepPhase,
        positions: list[int],
        tokens: list[int],
        on_swept: OnSwept,
    ) -> contextlib.AbstractContextManager[FinishSweep]:
        """Return a context manager that sweeps the shards at these positions, and yields a function to wait for them.

        ``tokens`` has the size of each shard. On a cluster, the workers begin at once, and the caller may do something
        else before it calls the function, which calls ``on_swept`` for each shard. Shards of workers that died are in
        no contribution. If the context is left without that call, the sweep ends early.
        """

    @abstractmethod
    def update(
        self, phase: SweepPhase, contributions: list[Contribution], blocks: list[int]
    ) -> Iterator[tuple[list[int], list[AppliedBlock]]]:
        """Update blocks with the merged deltas of all contributions; yield some blocks as they are written.

        Raises ContributionLost if a worker died before its deltas were merged.
        """

    @abstractmethod
    def train_grid(self, phase: SweepPhase, contributions: list[Contribution], on_cells: OnCells) -> list[AppliedBlock]:
        """Train the cells of a grid, with the merged deltas of all contributions; return the result for each block.

        Raises ContributionLost if a worker died before its rows were written.
        """

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that turns the errors of a lost scheduler into `TaskLost` with advice."""
        return contextlib.nullcontext()

    def map(self, function: Task, arguments: Iterable[Arguments], name: str) -> list[Result]:
        """Run independent tasks as `run` does; return their results in order."""
        results = sorted(self.run(function, arguments, name), key=lambda pair: pair[0])
        return [result for _, result in results]


class Synchronous(Executor):
    """Runs each task immediately in this process, without Dask. The results are the same."""

    runs_here = True
    #: Number of processes that train at the same time on this machine, and divide its memory.
    processes: ClassVar[int] = 1

    def __init__(self) -> None:
        self._deltas = SweptDeltas()

    @classmethod
    def share_memory(cls, processes: int) -> None:
        """Let this process plan with one of ``processes`` equal shares of the memory."""
        cls.processes = processes

    def capacities(self, devices: bool = False) -> list[Capacity]:
        """One worker with one thread and this process's memory limit, or its share of it."""
        device = device_memory() if devices else 0
        shares, limit = self.processes, memory_limit()
        if (worker := worker_of_task()) is not None:
            # Other threads of the worker run tasks too, which may be trainings.
            shares = worker.state.nthreads
            limit = worker.memory_manager.memory_limit or limit
        return [Capacity(THIS_PROCESS, "", 1, limit // shares, device // shares)]

    def submit(self, function: Task, *arguments: object, key: str) -> Handle:
        """Call the function now, and return its result in place of a handle."""
        return function(*arguments)

    def completed(self, handles: Iterable[Handle]) -> Iterator[tuple[int, Result]]:
        """Yield the results, which are known already."""
        yield from enumerate(handles)

    def run(self, function: Task, arguments: Iterable[Arguments], name: str) -> Iterator[tuple[int, Result]]:
        """Run the tasks one by one, each when its result is requested."""
        return ((i, function(*a)) for i, a in enumerate(arguments))

    def end_run(self, training: str) -> None:
        """Release what was kept from step to step."""
        super().end_run(training)
        self._deltas.forget(training)

    @contextlib.contextmanager
    def sweep(
        self,
        phase: SweepPhase,
        positions: list[int],
        tokens: list[int],
        on_swept: OnSwept,
    ) -> Iterator[FinishSweep]:
        """Sweep the shards in order, when the sweep is to be finished."""
        started = time.perf_counter()

        def finish() -> SweepOutcome:
            waited = time.perf_counter() - started
            return SweepOutcome([sweep_shards(phase, ShardList(positions), on_swept, self._deltas)], waited)

        yield finish

    def update(
        self, phase: SweepPhase, contributions: list[Contribution], blocks: list[int]
    ) -> Iterator[tuple[list[int], list[AppliedBlock]]]:
        """Update one block after another with the deltas of all shards."""
        sources = [contribution.source for contribution in contributions]
        for block in blocks:
            yield [block], update_blocks(phase, [block], sources, self._deltas.fetch)

    def train_grid(self, phase: SweepPhase, contributions: list[Contribution], on_cells: OnCells) -> list[AppliedBlock]:
        """Train all cells of the grid in this process."""
        from .worker.grid_training import plan_grid, train_here

        sources = [contribution.source for contribution in contributions]
        # The limit of the memory is not read again for each step: that would take longer than a step of a small corpus.
        device = 0 if phase.job.needs.device == "cpu" else self.capacities(devices=True)[0].device
        plan = plan_grid(phase, "", [""] * phase.job.algorithm.n_blocks, device)
        return train_here(plan, sources, self._deltas.fetch, partial(on_cells, THIS_PROCESS))


class OnDask(Executor):
    """Runs tasks on a Dask client's workers."""

    def __init__(self, client: "Client"):
        from .cluster.columns import ColumnExchange
        from .cluster.exchange import Exchange
        from .cluster.keep_memory import KeepMemory
        from .cluster.leases import Leases
        from .cluster.open import naming_missing_package
        from .cluster.pool_sweeper import PoolSweeper

        self.client = client
        self._watch = ClusterWatch(client)
        # There is none while the client connects again.
        if client.scheduler_comm is not None:
            client.scheduler_comm.interval = SEND_SECONDS
        #: Receives the messages of a topic, by topic.
        self._receivers: dict[str, Receiver] = {}
        #: The rights of `os.access` that workers need, by absolute path of the folder.
        self._folders: dict[str, int] = {}
        with self.guarded(), naming_missing_package(client):
            for plugin in (Leases(), KeepMemory(), PoolSweeper(), Exchange(), ColumnExchange()):
                _register(client, plugin)

    def capacities(self, devices: bool = False) -> list[Capacity]:
        """Return the workers that the scheduler has. Wait up to two minutes for the first one."""
        workers = self._look()
        if not workers:
            await_worker(self.client)
            workers = self._look()
        if devices:
            memory = self.client.run(device_memory, on_error="return")
            workers = [_with_device(worker, memory.get(worker.address, 0)) for worker in workers]
        return workers

    def on_each_worker(self, function: Callable[[], Any]) -> list[Any]:
        """Call a function once on each worker that answers; return the results."""
        return list(self.client.run(function, on_error="ignore").values())

    def check_folders(self, read: Sequence[str], written: Sequence[str] = ()) -> None:
        """Raise DataError if a worker cannot read or write such a folder of this machine; URLs are not checked.

        They are checked again if a task fails, because workers join later.
        """
        # The working directory of a worker may be another one.
        self._folders |= {str(Path(folder).absolute()): READABLE for folder in read}
        self._folders |= {str(Path(folder).absolute()): READABLE | os.W_OK for folder in written}
        self._check_known_folders()

    def _check_known_folders(self) -> None:
        here = {folder: rights for folder, rights in self._folders.items() if Path(folder).is_dir()}
        # A worker that dies meanwhile is nothing to complain about: others take its tasks.
        refused = self.client.run(_refused_folders, here, on_error="ignore") if here else {}
        for worker, actions in refused.items():
            if actions:
                raise DataError(
                    f"worker {worker} cannot {actions[0]}, a folder of this machine: keep corpora, runs and models in "
                    f"a folder or URL that all machines share (run= of fit, run.url on the command line), and let the "
                    f"user of the workers write there"
                )

    def _look(self) -> list[Capacity]:
        """Return the present workers, ordered by name."""
        found = (
            Capacity(str(worker["name"]), address, worker["nthreads"], worker["memory_limit"] or 0)
            for address, worker in workers_of(self.client).items()
        )
        return sorted(found, key=lambda capacity: capacity.name)

    def submit(self, function: Task, *arguments: object, key: str) -> Handle:
        """Return the future of the task."""
        return self.client.submit(function, *arguments, key=key, pure=False)

    def run(self, function: Task, arguments: Iterable[Arguments], name: str) -> Iterator[tuple[int, Result]]:
        """Run independent tasks, which are submitted with one message; yield (index, result) as they finish."""
        from .cluster.sweep import submit_graph

        # Dask would answer a key that it knows with the old result.
        key = f"{name}-{os.urandom(4).hex()}"
        calls = {f"{key}-{index}": (function, *given) for index, given in enumerate(arguments)}
        return self.completed(submit_graph(self.client, calls))

    def completed(self, handles: Iterable[Handle]) -> Iterator[tuple[int, Result]]:
        """Yield results as they arrive. Each future is released at once, which lets the scheduler forget its task.

        Dask's as_completed would wait for ever for a result that it could not fetch.
        """
        waiting = {future.key: future for future in handles}
        index_of = {key: i for i, key in enumerate(waiting)}
        finished: queue.SimpleQueue[Future] = queue.SimpleQueue()
        try:
            for future in waiting.values():
                future.add_done_callback(finished.put)
            with self._watch.unless_stalled(lambda: list(index_of)):
                while waiting:
                    future = finished.get()
                    try:
                        result = self.client.gather(future)
                    except Exception as error:
                        self._fail(str(future.key), error)
                    del waiting[future.key]
                    yield index_of[future.key], result
                    future.release()
        finally:
            # Not left to the garbage collector, because the traceback of an error refers to the futures.
            for future in waiting.values():
                future.release()

    @contextlib.contextmanager
    def sweep(
        self,
        phase: SweepPhase,
        positions: list[int],
        tokens: list[int],
        on_swept: OnSwept,
    ) -> Iterator[FinishSweep]:
        """Sweep with one task per worker. Each worker begins with shards near those that it swept before."""
        from .cluster.pool_sweeper import swept_topic
        from .cluster.sweep import ClusterSweep

        sweep = ClusterSweep(self.client, phase, dict(zip(positions, tokens, strict=True)), on_swept, self._fail)
        self._subscribe(swept_topic(phase), sweep.receiver)
        with self._watch.unless_stalled(lambda: sweep.keys), sweep.running():
            yield sweep.finish

    def _subscribe(self, topic: str, receiver: Receiver) -> None:
        """Send the messages of a topic to a receiver, instead of an earlier one.

        There is one subscription per run. One per sweep would delay its tasks: the client pauses between messages.
        """
        is_new = topic not in self._receivers
        self._receivers[topic] = receiver
        if is_new:
            # A last message may come after the end of the subscription.
            self.client.subscribe_topic(topic, lambda message: self._receivers.get(topic, lambda late: None)(message))

    def end_run(self, training: str) -> None:
        """End the subscriptions to the workers' messages, and release what scheduler and workers keep for the run."""
        from .cluster.leases import end_run

        super().end_run(training)
        if self.client.status == "running":
            # If training failed, workers still report their present shards. For each message to a client that is
            # closing, the scheduler would log an error.
            for topic in self._receivers:
                self.client.unsubscribe_topic(topic)
            # A scheduler that is lost keeps nothing.
            with contextlib.suppress(OSError):
                self.client.run_on_scheduler(end_run, training)
        self._receivers = {}

    def update(
        self, phase: SweepPhase, contributions: list[Contribution], blocks: list[int]
    ) -> Iterator[tuple[list[int], list[AppliedBlock]]]:
        """Update some blocks in each task, on different workers if there are enough."""
        from .cluster.sweep import submit_updates

        shares, futures = submit_updates(self.client, phase, contributions, blocks)
        for number, applied in self.completed(futures):
            yield shares[number], applied

    def train_grid(self, phase: SweepPhase, contributions: list[Contribution], on_cells: OnCells) -> list[AppliedBlock]:
        """Train with one task per worker. Each worker trains consecutive rows, in proportion to its threads."""
        from .cluster.columns import trained_topic
        from .cluster.pool import balanced_places
        from .cluster.sweep import ClusterGrid
        from .worker.grid_training import plan_grid

        capacities = self.capacities(devices=phase.job.needs.device != "cpu")
        addresses = balanced_places([1] * phase.job.algorithm.n_blocks, capacities)
        device = min((capacity.device for capacity in capacities if capacity.device), default=0)
        plan = plan_grid(phase, f"{phase.name}-{os.urandom(4).hex()}", addresses, device)
        grid = ClusterGrid(self.client, plan, contributions, on_cells, self._fail)
        self._subscribe(trained_topic(phase.job.name), grid.receiver)
        with self._watch.unless_stalled(lambda: grid.keys):
            return grid.run()

    def _fail(self, key: str, error: BaseException | None) -> NoReturn:
        """Raise the error of a task, or TaskLost if it is an error of the cluster."""
        if isinstance(error, AccessDenied):
            example = next((capacity.address for capacity in self._look()), "none is present now")
            raise AccessDenied(
                f"{error}; this happened on the workers (such as {example}): they need the same credentials as this "
                f"process, for example its environment variables"
            ) from error
        if isinstance(error, DataError | OSError) and self.client.status == "running":
            # A worker that joined later may not see a folder. Its error would say that files are missing.
            self._check_known_folders()
        if isinstance(error, (*TASK_ERRORS, ContributionLost)):
            # A worker raised this error, and another worker would raise it too.
            raise error
        if stall := self._watch.why_stalled(error):
            raise TaskLost(stall) from error
        if error is None or isinstance(error, CancelledError):
            raise TaskLost(
                f"task {key} was cancelled, as by Client.restart, by Client.cancel, or because the scheduler was "
                f"started again; committed epochs are safe: give the same command again, or resume the run"
            ) from error
        raise TaskLost(f"the cluster gave up task {key}: {type(error).__name__}: {error}; resume the run") from error

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that raises `TaskLost` in place of the errors that a lost scheduler causes."""
        return self._watch.guarded()


def _register(client: "Client", plugin: "SchedulerPlugin | WorkerPlugin") -> None:
    """Register a plugin with the scheduler and its workers. A worker that dies meanwhile needs none."""
    try:
        client.register_plugin(plugin)
    except OSError:
        # The scheduler knows a plugin before it sends it to the workers. It answers at once now, unless it has died.
        client.register_plugin(plugin)


def worker_of_task() -> "Worker | None":
    """Return the worker of Dask whose task this thread runs; None outside of tasks, and after `distributed.secede`."""
    # The import takes a third of a second, and without it there is no worker and no current client.
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker
    from distributed.threadpoolexecutor import thread_state

    try:
        worker = get_worker()
    except ValueError:
        return None
    return worker if getattr(thread_state, "proceed", False) else None


def executor_for(client: "Client | None") -> Executor:
    """Return the executor of a Dask client; None takes the process's current client, or no Dask at all.

    In a task of Dask, None takes this thread: several tasks may train at the same time, and each has one thread of the
    cluster. With a client, the task gives its thread back, so that the tasks that it waits for can run.
    """
    if client is None and "distributed" not in sys.modules:
        return Synchronous()
    from distributed import Client, get_client, secede

    if client is not None:
        if not isinstance(client, Client):
            raise TypeError(f"client is {client!r}: pass a distributed.Client, such as Client(address)")
        if worker_of_task() is not None:
            secede()
    elif worker_of_task() is not None:
        return Synchronous()
    else:
        try:
            client = get_client()
        except ValueError:  # there is no current client
            return Synchronous()
    if client.asynchronous:
        raise TypeError(
            "the client is asynchronous, and training waits for results: pass a client that was opened without "
            "asynchronous=True, or call this method in another thread (asyncio.to_thread)"
        )
    if client.status == "closed":
        raise ValueError("the client is closed: open another one, such as Client(address), and call this method again")
    return OnDask(client)


def _with_device(worker: Capacity, found: int | Exception) -> Capacity:
    """Return a worker with its device, as `Client.run` answers with ``on_error="return"``. Raises errors of the device.

    A worker that cannot be reached has none: others take its tasks.
    """
    if isinstance(found, OSError):
        return worker
    if isinstance(found, Exception):
        raise found
    return replace(worker, device=found)


def _refused_folders(folders: Mapping[str, int]) -> list[str]:
    """Return what this process cannot do with folders, such as "read /data/corpus". Their rights are `os.access`'s."""
    refused = []
    for folder, rights in folders.items():
        if not os.access(folder, rights):
            refused.append(f"{'write' if os.access(folder, READABLE) else 'read'} {folder}")
    return refused
