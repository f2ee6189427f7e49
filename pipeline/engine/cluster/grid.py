"""Trains the grid of a step on the workers of a Dask cluster: one task per worker."""

import contextlib
import queue
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ..worker.contributions import Contribution, ContributionLost
from ..worker.grid_training import GridPlan
from ..worker.tasks import AppliedBlock
from .columns import train_on_worker
from .leases import close_pool, open_pool
from .pool import Pool
from .sweep import LOOK_SECONDS, submit_graph
from .watch import workers_of

if TYPE_CHECKING:
    from distributed import Client


class ClusterGrid:
    """One attempt to train the grid of a step. It fails if one of its workers is lost."""

    def __init__(
        self,
        client: "Client",
        plan: GridPlan,
        contributions: list[Contribution],
        on_cells: Callable[[str, int, float], None],
        fail: Callable[[str, BaseException | None], NoReturn],
    ):
        self._client = client
        self._plan = plan
        self._sources = [contribution.source for contribution in contributions]
        self._on_cells = on_cells
        self._fail = fail
        self._places = {f"grid-{plan.attempt}-{a}": a for a in dict.fromkeys(plan.addresses)}
        self._results: dict[str, list[AppliedBlock]] = {}  # by key of the task
        # Futures of tasks that have finished, and messages of workers about cells that they have trained.
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @property
    def receiver(self) -> Callable[[object], None]:
        """Receives messages of workers."""
        return self._events.put

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
