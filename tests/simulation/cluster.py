"""A simulated cluster, and an executor that runs the engine's tasks on it.

As with Dask, the task of a worker that is lost runs again on another one, and the scheduler may believe that a worker
is lost while it continues to work. Tasks may also be repeated without a reason.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any

from corpusmill.pipeline.engine.cluster.open import dask_settings
from corpusmill.pipeline.engine.cluster.pool import Pool, divided
from corpusmill.pipeline.engine.cluster.watch import TaskLost
from corpusmill.pipeline.engine.executors import (
    Executor,
    FinishSweep,
    Handle,
    OnCells,
    OnSwept,
)
from corpusmill.pipeline.engine.memory import Capacity
from corpusmill.pipeline.engine.worker.contributions import (
    Contribution,
    ContributionLost,
    Pieces,
    ShardQueue,
    Source,
    SweepOutcome,
    SweptDeltas,
    sweep_shards,
    update_blocks,
)
from corpusmill.pipeline.engine.worker.tasks import AppliedBlock, SweepPhase

from .world import World

#: Deaths of its workers after which Dask gives a task up.
ALLOWED_DEATHS = dask_settings()["distributed"]["scheduler"]["allowed-failures"]


class SimulatedTask:
    """A task and its result."""

    def __init__(self, key: str, function: Callable[..., Any], arguments: tuple[Any, ...]):
        self.key = key
        self.function = function
        self.arguments = arguments
        self.deaths = 0
        self.is_cancelled = False
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def finish(self, result: Any, error: BaseException | None) -> None:
        """Keep the result of the attempt that finishes first."""
        if not self.is_done:
            self.is_done = True
            self.result = result
            self.error = error


class Worker:
    """A worker with one thread. Its attempts at tasks wait for each other."""

    def __init__(self, world: World, number: int):
        self.process = world.start_process(f"worker-{number}")
        self.address = self.process.name
        self.is_member = True
        self.is_busy = False
        self.tasks: list[SimulatedTask] = []
        self.deltas = SweptDeltas()


class Cluster:
    """Workers that die, are believed dead, and are replaced."""

    def __init__(self, world: World, n_workers: int):
        self.world = world
        self._started = 0
        self.workers: list[Worker] = []
        for _ in range(n_workers):
            self._start_worker()
        world.add_fault("worker killed", self._kill_worker)
        world.add_fault("worker believed dead", self._lose_worker)
        world.add_fault("task repeated", self._repeat_task)

    # --- faults ---

    def _start_worker(self) -> None:
        self._started += 1
        self.workers.append(Worker(self.world, self._started))

    def _kill_worker(self) -> None:
        worker = self.world.random.choice(self.workers)
        self.world.note(f"kills {worker.address}")
        self.world.kill(worker.process)
        self._remove(worker)

    def _lose_worker(self) -> None:
        worker = self.world.random.choice(self.workers)
        self.world.note(f"believes {worker.address} dead")
        self._remove(worker)

    def _remove(self, worker: Worker) -> None:
        worker.is_member = False
        self.workers.remove(worker)
        self._start_worker()
        for task in worker.tasks:
            task.deaths += 1
            if task.deaths > ALLOWED_DEATHS:
                task.finish(None, TaskLost(f"simulated: {task.key}"))
            elif not task.is_done and not task.is_cancelled:
                self.place(task)

    def _repeat_task(self) -> None:
        running = [task for worker in self.workers for task in worker.tasks]
        if running:
            task = self.world.random.choice(running)
            self.world.note(f"repeats {task.key}")
            self.place(task)

    # --- tasks ---

    def place(self, task: SimulatedTask, near: str = "") -> None:
        """Start an attempt at a task on a worker, preferably the one at the address ``near``."""
        workers = [worker for worker in self.workers if worker.address == near] or self.workers
        worker = self.world.random.choice(workers)
        worker.tasks.append(task)
        self.world.start(worker.address, worker.process, lambda: self._attempt(task, worker))

    def _attempt(self, task: SimulatedTask, worker: Worker) -> None:
        self.world.wait(lambda: not worker.is_busy)
        if task.is_cancelled:
            return
        worker.is_busy = True
        result = None
        error: BaseException | None = None
        try:
            result = task.function(worker, *task.arguments)
        except Exception as raised:
            error = raised
        worker.is_busy = False
        worker.tasks.remove(task)
        if worker.is_member:
            task.finish(result, error)

    def fetch(self, source: Source, indices: list[int]) -> Pieces:
        """Return what a worker has swept; raise ContributionLost if it has died."""
        self.world.pause()
        for worker in self.workers:
            if worker.address == source.address:
                return worker.deltas.fetch(source, indices)
        raise ContributionLost(source.address)


class Taken(ShardQueue):
    """The shards that a worker has taken from a pool and not begun."""

    def __init__(self, world: World, pool: Pool, address: str):
        self._world = world
        self._pool = pool
        self._address = address
        self._positions: list[int] = []

    def next(self) -> int | None:
        """Return the position of the next shard."""
        if not self._positions:
            self._world.pause()
            self._positions.extend(self._pool.take(self._address, 1, self._world.now))
        return self._positions.pop(0) if self._positions else None

    def upcoming(self) -> list[int]:
        """Return the shards that the worker will probably sweep next."""
        return [*self._positions, *self._pool.upcoming(self._address, 4)]


class Simulated(Executor):
    """Runs the engine's tasks on a simulated cluster."""

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.world = cluster.world
        self._client = f"client-{id(self)}"

    def capacities(self, devices: bool = False) -> list[Capacity]:
        """Return the workers."""
        return [Capacity(w.address, w.address, 1, 2 << 30) for w in self.cluster.workers]

    def run(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], name: str
    ) -> Iterator[tuple[int, Any]]:
        """Start a task for each tuple of arguments."""
        return self.completed([self.submit(function, *given, key=name) for given in arguments])

    def submit(self, function: Callable[..., Any], *arguments: object, key: str) -> Handle:
        """Start a task."""
        task = SimulatedTask(key, lambda worker, *given: function(*given), arguments)
        self.cluster.place(task)
        return task

    def completed(self, handles: Iterable[Handle]) -> Iterator[tuple[int, Any]]:
        """Yield results in any order; raise the first error, and cancel the tasks that have not begun."""
        waiting = dict(enumerate(handles))
        try:
            while waiting:
                self.world.wait(lambda: any(task.is_done for task in waiting.values()))
                position = self.world.random.choice([p for p, task in waiting.items() if task.is_done])
                task = waiting.pop(position)
                if task.error is not None:
                    raise task.error
                yield position, task.result
        finally:
            for task in waiting.values():
                task.is_cancelled = True

    @contextlib.contextmanager
    def sweep(
        self,
        phase: SweepPhase,
        positions: list[int],
        tokens: list[int],
        on_swept: OnSwept,
    ) -> Iterator[FinishSweep]:
        """Sweep with one task per worker."""
        homes = divided(dict(zip(positions, tokens, strict=True)), len(phase.shards), self.capacities())
        pool = Pool(phase.name, phase.job.name, self._client, phase.shards, homes)
        handles = []
        for address in homes:
            handles.append(SimulatedTask(f"sweep {phase.step} {address}", self._sweep, (phase, pool, on_swept)))
            self.cluster.place(handles[-1], address)
        # Every request to the store pauses, so the workers sweep while the client commits.
        try:
            yield lambda: SweepOutcome([found for _, found in sorted(self.completed(handles), key=itemgetter(0))], 0.0)
        finally:
            for task in handles:
                task.is_cancelled = not task.is_done

    def _sweep(self, worker: Worker, phase: SweepPhase, pool: Pool, on_swept: OnSwept) -> Contribution:
        queue = Taken(self.world, pool, worker.address)
        return sweep_shards(phase, queue, on_swept, worker.deltas, worker.address)

    def update(
        self, phase: SweepPhase, contributions: list[Contribution], blocks: list[int]
    ) -> Iterator[tuple[list[int], list[AppliedBlock]]]:
        """Update each block in a task of its own."""
        sources = [contribution.source for contribution in contributions]
        fetch = self.cluster.fetch
        handles = [
            self.submit(update_blocks, phase, [block], sources, fetch, key=f"update {phase.step} {block}")
            for block in blocks
        ]
        for position, applied in self.completed(handles):
            yield [blocks[position]], applied

    def train_grid(self, phase: SweepPhase, contributions: list[Contribution], on_cells: OnCells) -> list[AppliedBlock]:
        """Refuse: no simulated algorithm is a grid."""
        raise NotImplementedError
