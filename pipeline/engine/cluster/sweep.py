"""Sweeps the shards of a step, or trains its grid, on the workers of a Dask cluster: one task per worker."""

import contextlib
import queue
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import Task as DaskTask

from ..worker.contributions import Contribution, ContributionLost, OnSwept, SweepOutcome
from ..worker.grid_training import GridPlan
from ..worker.tasks import AppliedBlock, SweepPhase
from .columns import train_on_worker
from .exchange import update_on_worker
from .leases import ShardLease, close_pool, has_untaken_shards, open_divided_pool, open_pool
from .pool import Pool
from .pool_sweeper import sweep_on_worker
from .watch import await_worker, workers_of

if TYPE_CHECKING:
    from distributed import Client, Future

#: Bytes that an update fetches from each worker at least, unless a single task updates all blocks. Each update fetches
#: from every worker, and a request takes as long as the transfer of about a megabyte.
FETCHED_BYTES = 1 << 20
#: Seconds that the main thread sleeps while Dask's threads of this process send the tasks of a sweep. It commits the
#: last step next, and would compete with them for the interpreter lock. Workers wait for their tasks, but nobody waits
#: for the commit.
PASS_ON_SECONDS = 0.003
#: Seconds between two looks whether workers joined.
LOOK_SECONDS = 1.0
#: Most seconds to wait for the workers' present shards if a sweep is not needed any more. A worker may be paused.
STOP_SECONDS = 60.0


def submit_graph(
    client: "Client",
    calls: Mapping[str, tuple[Any, ...]],
    places: Mapping[str, str] | None = None,
    may_move: bool = True,
) -> "list[Future]":
    """Submit tasks with one message to the scheduler; return their futures in order.

    ``calls`` has the function and the arguments of each task by its key. ``places`` may have the address of the worker
    that each task should run on. If tasks may move, they run elsewhere when their worker dies. Otherwise they would
    wait for a worker that may never come back.
    """
    graph = {key: DaskTask(key, *call) for key, call in calls.items()}
    if not places:
        return client.get(graph, list(graph), sync=False)
    addresses = {key: [places[key]] for key in graph}
    # The scheduler calls the first one for each key.
    annotations = {"workers": addresses.__getitem__, "allow_other_workers": may_move}
    layer = MaterializedLayer(graph, annotations=annotations)
    return client.get(HighLevelGraph({"tasks": layer}, {"tasks": set()}), list(graph), sync=False)


def submit_updates(
    client: "Client", phase: SweepPhase, contributions: list[Contribution], blocks: list[int]
) -> "tuple[list[list[int]], list[Future]]":
    """Submit the updates of some blocks; return the blocks of each task, and the futures of the tasks."""
    sources = [contribution.source for contribution in contributions]
    holders = sorted({source.address for source in sources})
    mean_bytes = sum(source.nbytes for source in sources) // len(sources)
    n_tasks = min(len(blocks), len(holders), 1 + mean_bytes // FETCHED_BYTES)
    # Not consecutive blocks: the first ones have the most frequent words, which are in more deltas.
    shares = [blocks[first::n_tasks] for first in range(n_tasks)]
    attempt = uuid.uuid4().hex[:8]
    calls: dict[str, tuple[Any, ...]] = {}
    places = {}
    for number, share in enumerate(shares):
        key = f"update-{phase.name}-{attempt}-{number}"
        calls[key] = (update_on_worker, phase, share, sources)
        places[key] = holders[len(holders) * number // n_tasks]
    return shares, submit_graph(client, calls, places)


#: Raises the error of the task with a key.
Fail = Callable[[str, BaseException | None], NoReturn]


class ClusterTasks:
    """Tasks on the workers of a client, one per worker, which send messages while they run."""

    def __init__(self, client: "Client", fail: Fail):
        self._client = client
        self._fail = fail
        # Futures of tasks that have finished, and messages of workers about what they have done.
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @property
    def receiver(self) -> Callable[[object], None]:
        """Receives messages of workers."""
        return self._events.put


class ClusterSweep(ClusterTasks):
    """One sweep of some shards. ``tokens`` has the size of each of them by its position."""

    def __init__(self, client: "Client", phase: SweepPhase, tokens: Mapping[int, int], on_swept: OnSwept, fail: Fail):
        super().__init__(client, fail)
        self._phase = phase
        self._pool = f"{phase.name}-{uuid.uuid4().hex[:8]}"
        self._tokens = tokens
        self._on_swept = on_swept
        self._running: dict[str, str] = {}  # key of a task: address of the worker that it is meant for
        self._used: set[str] = set()  # addresses of the workers that have or had a task
        self._futures: list[Future] = []  # Dask cancels a task whose future is gone
        self._look_at = time.monotonic() + LOOK_SECONDS
        self._found: list[Contribution] = []
        self._finished = 0.0  # time at which the last task finished

    @property
    def keys(self) -> list[str]:
        """Keys of the tasks that have not finished."""
        return list(self._running)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let the workers sweep. If the context is left without a call of `finish`, their sweeps end."""
        leases = self._open_pool()
        try:
            self._submit(leases)
            time.sleep(PASS_ON_SECONDS)
            yield
        except BaseException:
            self._stop()
            self._release()
            raise
        if self._running:
            self._stop()
            self._await_end()
            self._release()

    def finish(self) -> SweepOutcome:
        """Wait for the workers, and return their contributions. Shards of workers that died are in none of them."""
        called = time.perf_counter()
        while self._running:
            self._handle_events()
        return SweepOutcome(self._found, max(0.0, called - self._finished))

    def _open_pool(self) -> dict[str, ShardLease | None]:
        """Open the pool of shards; return the first lease of each worker, by its address.

        Wait up to two minutes for the first worker.
        """
        pool = Pool(self._pool, self._phase.job.name, self._client.id, self._phase.shards)
        leases = self._client.run_on_scheduler(open_divided_pool, pool, self._tokens)
        if not leases:
            await_worker(self._client)
            leases = self._client.run_on_scheduler(open_divided_pool, pool, self._tokens)
        return leases

    def _stop(self) -> None:
        """End the sweeps of all workers after their present shards."""
        # If the scheduler is lost, they have ended already.
        if self._client.status == "running":
            with contextlib.suppress(OSError):
                self._client.run_on_scheduler(close_pool, self._pool)

    def _await_end(self) -> None:
        """Wait until the workers have ended, so that they write no more states."""
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and not all(future.done() for future in self._futures):
            with contextlib.suppress(queue.Empty):
                self._events.get(timeout=0.1)

    def _release(self) -> None:
        """Cancel the tasks that have not begun. The traceback of an error would keep their futures."""
        for future in self._futures:
            future.release()

    def _submit(self, leases: Mapping[str, ShardLease | None]) -> None:
        """Submit one task per address, with the first lease of its worker."""
        if not leases:
            return
        calls: dict[str, tuple[Any, ...]] = {}
        for address, lease in leases.items():
            key = f"sweep-{self._pool}-{len(self._futures) + len(calls)}"
            calls[key] = (sweep_on_worker, self._phase, self._pool, lease)
            self._running[key] = address
            self._used.add(address)
        for future in submit_graph(self._client, calls, self._running):
            self._futures.append(future)
            future.add_done_callback(self._note_end)

    def _note_end(self, future: "Future") -> None:
        """Handle a task that has finished. A thread of Dask calls this, whatever the main thread does."""
        self._finished = time.perf_counter()
        self._events.put(future)

    def _handle_events(self) -> None:
        """Wait for events, and handle them. From time to time, use the workers that have joined."""
        from distributed import Future

        if time.monotonic() > self._look_at:
            self._submit(dict.fromkeys(self._helpers()))
            self._look_at = time.monotonic() + LOOK_SECONDS
        events = []
        with contextlib.suppress(queue.Empty):
            events.append(self._events.get(timeout=LOOK_SECONDS))
            while True:
                events.append(self._events.get_nowait())
        finished = [event for event in events if isinstance(event, Future)]
        for event in events:
            if isinstance(event, tuple):
                self._report(event[1])
        for future in finished:
            if future.status in ("error", "cancelled"):
                self._fail(str(future.key), future.exception())
        if not finished:
            return
        # One call for all results, because a call takes a round trip.
        try:
            found = self._client.gather(finished)
        except Exception as error:
            # A worker may have died with its result. To compute that again may have killed the others.
            for future in finished:
                if future.status in ("error", "cancelled"):
                    self._fail(str(future.key), error)
            raise
        for future, contribution in zip(finished, found, strict=True):
            meant_for = self._running.pop(str(future.key))
            if contribution is None or contribution.source.address != meant_for:
                self._used.discard(meant_for)
            if contribution is not None:
                self._found.append(contribution)
            # Dask would repeat the task if its worker died.
            future.release()

    def _report(self, message: Any) -> None:
        if message["pool"] == self._pool:
            for position, progress in message["swept"]:
                self._on_swept(position, progress)

    def _helpers(self) -> list[str]:
        """Return the workers that can sweep shards which nobody has taken: those that have had no task of this sweep.

        If all workers that sweep now are paused, the others help them, also those that ended because they were slower.
        """
        running = {address for address, worker in workers_of(self._client).items() if worker["status"] == "running"}
        all_paused = running.isdisjoint(self._running.values())
        helpers = running if all_paused else running - self._used
        if not helpers or not self._client.run_on_scheduler(has_untaken_shards, self._pool, all_paused):
            return []
        return sorted(helpers)


class ClusterGrid(ClusterTasks):
    """One attempt to train the grid of a step. It fails if one of its workers is lost."""

    def __init__(
        self,
        client: "Client",
        plan: GridPlan,
        contributions: list[Contribution],
        on_cells: Callable[[str, int, float], None],
        fail: Fail,
    ):
        super().__init__(client, fail)
        self._plan = plan
        self._sources = [contribution.source for contribution in contributions]
        self._on_cells = on_cells
        self._places = {f"grid-{plan.attempt}-{a}": a for a in dict.fromkeys(plan.addresses)}
        self._results: dict[str, list[AppliedBlock]] = {}  # by key of the task

    @property
    def keys(self) -> list[str]:
        """Keys of the tasks that have not finished."""
        return [key for key in self._places if key not in self._results]

    def run(self) -> list[AppliedBlock]:
        """Return the result for each block, in order; raise ContributionLost if a worker is lost."""
        phase = self._plan.phase
        pool = Pool(self._plan.attempt, phase.job.name, self._client.id, phase.shards)
        self._client.run_on_scheduler(open_pool, pool)
        calls = dict.fromkeys(self._places, (train_on_worker, self._plan, self._sources))
        # A task that ran elsewhere would not have the columns that others request. So it may only run on its worker.
        futures = submit_graph(self._client, calls, self._places, may_move=False)
        try:
            for future in futures:
                future.add_done_callback(self._events.put)
            look_at = time.monotonic() + LOOK_SECONDS
            while len(self._results) < len(self._places):
                with contextlib.suppress(queue.Empty):
                    self._handle(self._events.get(timeout=LOOK_SECONDS))
                if time.monotonic() > look_at:
                    self._check_workers()
                    look_at = time.monotonic() + LOOK_SECONDS
        finally:
            # Workers that are still training end soon after the pool is closed.
            if self._client.status == "running":
                with contextlib.suppress(OSError):
                    self._client.run_on_scheduler(close_pool, self._plan.attempt)
            for future in futures:
                future.release()
        return [applied for key in self._places for applied in self._results[key]]

    def _handle(self, event: Any) -> None:
        if isinstance(event, tuple):
            message = event[1]
            if message["attempt"] == self._plan.attempt:
                self._on_cells(message["worker"], message["cells"], message["seconds"])
            return
        if event.status in ("error", "cancelled"):
            self._fail(event.key, event.exception())
        try:
            self._results[event.key] = event.result(timeout=LOOK_SECONDS)
        except TimeoutError:
            # If the worker has died, its result is lost, and the task waits for it without end. Else look again.
            self._check_workers()
            self._events.put(event)

    def _check_workers(self) -> None:
        """Raise ContributionLost if the worker of a task has died."""
        workers = workers_of(self._client)
        for key in self.keys:
            if self._places[key] not in workers:
                raise ContributionLost(self._places[key])
