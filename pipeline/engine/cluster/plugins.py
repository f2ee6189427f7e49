"""Plugins for Dask's scheduler and workers: they distribute shards, and send deltas between workers."""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from distributed import Scheduler, Status, Worker, get_worker
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin
from distributed.protocol import Serialize, to_serialize
from distributed.utils import sync

from ....kernels.cuda.ledger import LEDGER, Entry, Operation, Total
from ....kernels.cuda.residents import RESIDENT_SHARE
from ..capacity import Capacity
from ..device import has_device_space, received, sendable, sends_device_memory
from ..worker.contributions import (
    FETCHES_AT_ONCE,
    Contribution,
    ContributionLost,
    Pieces,
    ShardQueue,
    Source,
    SweepPhase,
    shard_seconds,
    sweep_shards,
    update_blocks,
    update_if_complete,
)
from ..worker.overlap import MAX_AHEAD
from ..worker.tasks import AppliedBlock, ShardProgress
from .pool import Pool, divided

#: Prefix of the keys of all tasks that sweep.
SWEEP_PREFIX = "sweep-"


class ShardLease(NamedTuple):
    """Positions of shards that the scheduler has assigned to a worker."""

    taken: list[int]
    upcoming: list[int]  # shards that the worker will probably take next
    is_last: bool  # whether no shard is left for anybody


#: A worker takes at least as many shards at a time as its threads sweep in these seconds, because a request takes a few
#: milliseconds.
LEASE_SECONDS = 0.3
#: Shards that take fewer seconds are reported together, once in this time.
REPORT_SECONDS = 1.0
#: Seconds after which a worker that waits for another one, or for memory, looks again whether to go on.
LOOK_AGAIN_SECONDS = 1.0


class FreeStrandedTasks(SchedulerPlugin):
    """Lets a task that preferred a worker run anywhere once that worker has died.

    Dask does this itself while other workers are alive. A task that becomes ready while there is no worker at all would
    otherwise wait for the address of the dead worker, and a restarted worker has another address.
    """

    name = "corpusmill-free-stranded-tasks"
    idempotent = True

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """Drop all preferences for the worker that left."""
        for task in scheduler.tasks.values():
            if task.loose_restrictions and worker in (task.worker_restrictions or ()):
                task.worker_restrictions = None


class Leases(SchedulerPlugin):
    """Keeps the pools of shards at the scheduler; workers request their next shards from it."""

    name = "corpusmill-leases"
    idempotent = True

    def __init__(self) -> None:
        self.pools: dict[str, Pool] = {}

    async def start(self, scheduler: Scheduler) -> None:
        """Register the handlers of the workers' requests."""
        self.scheduler = scheduler
        scheduler.handlers["corpusmill_take"] = self.take
        scheduler.handlers["corpusmill_begin"] = self.begin
        scheduler.handlers["corpusmill_is_open"] = self.is_open
        scheduler.handlers["corpusmill_has_worker"] = self.has_worker
        scheduler.handlers["corpusmill_workers_wanted"] = self.workers_wanted

    def take(self, pool: str, address: str, threads: int, least: int) -> ShardLease | None:
        """Return at least ``least`` shards for a worker; None if the pool is closed or has no shard for this worker.

        A worker that is paused asks with 0 ``threads`` whether to wait. It gets an empty lease while the pool has
        shards, and then None. Its sweep has to end then, because the client waits for all sweeps.
        """
        found = self.pools.get(pool)
        if found is None:
            return None
        if not threads:
            return ShardLease([], [], False) if found.left else None
        return _lease(found, address, threads, least)

    def begin(self, pool: str, address: str) -> bool:
        """Return whether a worker may begin to train its rows of a grid: once, while the pool is open."""
        found = self.pools.get(pool)
        if found is None or address in found.begun:
            return False
        found.begun.add(address)
        return True

    def is_open(self, pool: str) -> bool:
        """Return whether a pool is open."""
        return pool in self.pools

    def taken(self, client: str) -> list[int]:
        """Return the numbers of the shards of a client's run that workers have taken."""
        pools = [pool for pool in self.pools.values() if pool.client == client]
        return [pool.shards[position] for pool in pools for position in pool.taken]

    def has_worker(self, address: str) -> bool:
        """Return whether the scheduler has this worker."""
        return address in self.scheduler.workers

    def workers_wanted(self) -> int:
        """Return how many workers can be used now: the used ones, and one for each shard that nobody has taken.

        A worker is used if it sweeps, or if it has a contribution. A worker that has swept its shards may be idle, but
        its deltas are needed until the blocks are updated.
        """
        used = 0
        for worker in self.scheduler.workers.values():
            keys = {task.key for task in worker.has_what} | {task.key for task in worker.processing}
            used += any(str(key).startswith(SWEEP_PREFIX) for key in keys)
        return used + sum(pool.left for pool in self.pools.values())

    def end(self, name: str) -> None:
        """Close a pool if it is open. The workers that sweep it end after their present shards."""
        pool = self.pools.pop(name, None)
        if pool is None:
            return
        for address in pool.paces:
            if address in self.scheduler.workers:
                self.scheduler.worker_send(address, {"op": "corpusmill_stop", "pool": name})

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Close the pools of a client that left."""
        for name in [name for name, pool in self.pools.items() if pool.client == client]:
            self.end(name)


def _lease(pool: Pool, address: str, threads: int, least: int = 0) -> ShardLease | None:
    """Take shards of a pool for a worker; return None if it has none for this worker."""
    positions = pool.take(address, threads, least=least)
    if not positions:
        return None
    return ShardLease(positions, pool.upcoming(address, threads * MAX_AHEAD), not pool.left)


def swept_topic(phase: SweepPhase) -> str:
    """Return the topic under which workers report the shards of a run that they have swept."""
    return f"corpusmill-swept-{phase.job.training}"


def open_pool(pool: Pool, dask_scheduler: Scheduler) -> None:
    """Open a pool of shards, and close the one of the run's last step. Runs at the scheduler."""
    leases = _leases(dask_scheduler)
    for name, last in list(leases.pools.items()):
        if last.run == pool.run:
            pool.fast = last.fast_workers()
            del leases.pools[name]
    leases.pools[pool.name] = pool


def open_divided_pool(pool: Pool, tokens: Mapping[int, int], dask_scheduler: Scheduler) -> dict[str, ShardLease | None]:
    """Divide shards among the present workers, and open the pool; return the first lease of each worker by its address.

    Only workers that were not slow in the last step have a lease. The others may be busy with something else, and take
    shards when they begin. ``tokens`` has the size of each shard by its position. If there is no worker, the pool is
    not opened. Runs at the scheduler, so that neither the client nor the workers need another request.
    """
    workers = [
        Capacity(str(worker.name), worker.address, worker.nthreads, worker.memory_limit)
        for worker in dask_scheduler.workers.values()
    ]
    if not workers:
        return {}
    homes = divided(tokens, len(pool.shards), workers)
    pool.homes = {address: deque(positions) for address, positions in homes.items()}
    open_pool(pool, dask_scheduler)
    threads = {worker.address: worker.threads for worker in workers}
    return {
        address: _lease(pool, address, threads[address]) if address in pool.fast else None for address in pool.homes
    }


def close_pool(name: str, dask_scheduler: Scheduler) -> None:
    """Close a pool if it is open, and end its sweeps. Runs at the scheduler."""
    _leases(dask_scheduler).end(name)


def has_untaken_shards(name: str, speeds_have_changed: bool, dask_scheduler: Scheduler) -> bool:
    """Return whether a pool has shards that no worker has taken.

    If it has, and if the speeds of the workers have changed, they are measured anew. Runs at the scheduler.
    """
    pool = _leases(dask_scheduler).pools.get(name)
    if pool is None or not pool.left:
        return False
    if speeds_have_changed:
        pool.measure_anew()
    return True


def _leases(scheduler: Scheduler) -> Leases:
    return cast(Leases, scheduler.plugins[Leases.name])


class Exchange(WorkerPlugin):
    """Lets other workers fetch the deltas that this worker has swept, and requests shards for its own sweeps."""

    name = "corpusmill-exchange"
    idempotent = True

    def setup(self, worker: Worker) -> None:
        """Register the handler of other workers' requests."""
        self.worker = worker
        self._lock = threading.Lock()
        self._pools: set[str] = set()  # those that this worker takes shards from
        self._stopped: set[str] = set()  # those of them that were closed before all shards were swept
        worker.handlers["corpusmill_give"] = self.give
        worker.stream_handlers["corpusmill_stop"] = self.stop

    async def give(self, source: Source, indices: list[int], to_device: bool) -> object:
        """Return the pieces of some blocks of a contribution, or None if this worker does not have it.

        ``to_device``: those on the device of this worker go to that of the other one. Otherwise, the answer also has
        what this worker has done on its device, for the metrics of the task that fetches.
        """
        contribution = self._own_contribution(Source(*source))
        if contribution is None:
            return None
        if to_device:
            return {"pieces": _sendable(contribution.pieces(indices)), "traffic": []}
        # In another thread, because packing takes long, and this one answers all requests.
        pieces, traffic = await asyncio.to_thread(contribution.packed_pieces, indices)
        return {"pieces": to_serialize(pieces), "traffic": [[*entry, *total] for entry, total in traffic.items()]}

    def _own_contribution(self, source: Source) -> Contribution | None:
        contribution = self.worker.data.get(source.key)
        if not isinstance(contribution, Contribution) or contribution.identifier != source.identifier:
            return None
        if not contribution.has_deltas:
            # Dask moved the result to the disk of this worker, or to this worker from another one.
            return None
        return contribution

    def fetch(self, source: Source, indices: list[int]) -> Pieces:
        """Return the pieces of some blocks of a contribution; raise ContributionLost if its worker has died."""
        if source.address == self.worker.address:
            contribution = self._own_contribution(source)
            pieces = None if contribution is None else contribution.pieces(indices)
        else:
            # Several threads fetch at the same time.
            expected = FETCHES_AT_ONCE * source.nbytes
            to_device = (
                source.on_device and sends_device_memory(source.address) and has_device_space(expected, RESIDENT_SHARE)
            )
            given = sync(self.worker.loop, self._fetch, source, indices, to_device)
            if given is None:
                raise ContributionLost(source.address)
            pieces = given["pieces"]
            # Between workers in one process, nothing is serialized.
            if isinstance(pieces, Serialize):
                pieces = pieces.data
            if to_device:
                pieces = [(node, [received(delta) for delta in deltas]) for node, deltas in pieces]
            for operation, cause, calls, nbytes in given["traffic"]:
                LEDGER.include(Entry(Operation(operation), cause), Total(calls, nbytes))
        if pieces is None:
            raise ContributionLost(source.address)
        return pieces

    async def _fetch(self, source: Source, indices: list[int], to_device: bool) -> dict[str, Any] | None:
        partner = self.worker.rpc(source.address)
        giving = asyncio.ensure_future(
            partner.corpusmill_give(source=tuple(source), indices=indices, to_device=to_device)
        )
        # Dask tries for half a minute to connect to a worker that has died. The scheduler notices its death earlier.
        while True:
            done, _ = await asyncio.wait({giving}, timeout=LOOK_AGAIN_SECONDS)
            if done:
                break
            if not await self.worker.scheduler.corpusmill_has_worker(address=source.address):
                giving.cancel()
                return None
        with contextlib.suppress(OSError):
            given: dict[str, Any] | None = giving.result()
            return given
        return None

    def stop(self, pool: str) -> None:
        """End this worker's sweep of a pool after the present shards. The scheduler sends this."""
        with self._lock:
            if pool in self._pools:
                self._stopped.add(pool)

    def is_stopped(self, pool: str) -> bool:
        """Return whether no other shard of a pool should be swept."""
        return pool in self._stopped

    def sweep(self, phase: SweepPhase, pool: str, key: str, lease: ShardLease | None) -> Contribution:
        """Sweep shards of a pool with all threads of this worker, until it has none left for this worker.

        It begins with those of ``lease``, if there is one.
        """
        with self._lock:
            if pool in self._pools:
                # If a worker dies, Dask repeats its task on another worker, which may sweep this pool already.
                return Contribution(key, self.worker.address, {}, [])
            self._pools.add(pool)
        taken = _Taken(self, phase, pool, lease)
        progress = _Progress(self.worker, swept_topic(phase), pool)
        helpers = (self.worker.executors["default"], self.worker.state.nthreads - 1)

        try:
            contribution = sweep_shards(phase, taken, progress.report, key, self.worker.address, helpers)
            # Tasks that update blocks on other workers as well would take longer than the update on this one.
            update_if_complete(phase, contribution)
            return contribution
        finally:
            with self._lock:
                self._pools.remove(pool)
                self._stopped.discard(pool)

    def take(self, phase: SweepPhase, pool: str) -> ShardLease | None:
        """Request shards from the scheduler. While this worker is paused because its memory is full, wait.

        The wait ends when the other workers have taken all shards. If all workers are paused, the client ends the run.
        """
        while self.worker.status is Status.paused:
            if self._take(pool, 0, 0) is None:
                return None
            time.sleep(LOOK_AGAIN_SECONDS)
        threads = self.worker.state.nthreads
        seconds = shard_seconds(phase)
        least = int(threads * LEASE_SECONDS / seconds) if seconds else 0
        return self._take(pool, threads, least)

    def _take(self, pool: str, threads: int, least: int) -> ShardLease | None:
        take = self.worker.scheduler.corpusmill_take
        address = self.worker.address
        found = sync(self.worker.loop, take, pool=pool, address=address, threads=threads, least=least)
        # A message has a plain tuple in place of a named one.
        return found and ShardLease(*found)


def _sendable(pieces: Pieces) -> Serialize:
    """Return pieces for the device of another worker, so marked that Dask serializes each array by itself.

    Dask chooses the way by the type of the array and by the protocol. It would pickle an unmarked piece as a whole.
    """
    marked = []
    for node, deltas in pieces:
        marked.append(to_serialize([node, to_serialize([to_serialize(sendable(delta)) for delta in deltas])]))
    return to_serialize(marked)


class _Taken(ShardQueue):
    """The shards that a worker has taken and not begun."""

    def __init__(self, exchange: Exchange, phase: SweepPhase, pool: str, lease: ShardLease | None):
        self._exchange = exchange
        self._phase = phase
        self._pool = pool
        self._lock = threading.Lock()
        self._positions: deque[int] = deque()
        self._upcoming: Sequence[int] = ()
        self._is_empty = False
        if lease is not None:
            self._add(lease)

    def next(self) -> int | None:
        """Return the position of the next shard, or None if there is none left or the sweep was stopped."""
        with self._lock:
            if self._exchange.is_stopped(self._pool):
                return None
            if not self._positions and not self._is_empty:
                found = self._exchange.take(self._phase, self._pool)
                self._is_empty = found is None
                if found is not None:
                    self._add(found)
            if not self._positions:
                return None
            return self._positions.popleft()

    def _add(self, lease: ShardLease) -> None:
        self._is_empty = lease.is_last
        self._upcoming = lease.upcoming
        self._positions.extend(lease.taken)

    def upcoming(self) -> list[int]:
        """Return the positions of the shards that this worker will probably sweep next, without taking them."""
        # The lock is not taken, because a thread holds it while it waits for the scheduler. A list that is out of date
        # does no harm.
        return [*tuple(self._positions), *self._upcoming]


class _Progress:
    """Reports the shards that a worker has swept, several at a time. The threads of the worker share it.

    Shards that are not reported when the worker ends are in its contribution.
    """

    def __init__(self, worker: Worker, topic: str, pool: str):
        self._worker = worker
        self._topic = topic
        self._pool = pool
        self._lock = threading.Lock()
        self._waiting: dict[int, ShardProgress] = {}  # by position
        self._reported = -float("inf")

    def report(self, position: int, found: ShardProgress) -> None:
        """Report a shard now, or a short one with a later one."""
        small: ShardProgress = {"seconds": found["seconds"], "cached": found["cached"], "worker": found["worker"]}
        is_short = sum(found["seconds"].values()) < REPORT_SECONDS
        with self._lock:
            self._waiting[position] = small
            now = time.monotonic()
            if is_short and now - self._reported < REPORT_SECONDS:
                return
            self._reported = now
            swept = list(self._waiting.items())
            self._waiting.clear()
        self._worker.log_event(self._topic, {"pool": self._pool, "swept": swept})


# --- tasks ---


def _exchange() -> Exchange:
    """Return the plugin of the worker that runs this task."""
    return cast(Exchange, get_worker().plugins[Exchange.name])


def sweep_on_worker(phase: SweepPhase, pool: str, key: str, lease: ShardLease | None) -> Contribution:
    """Sweep shards on this worker, first those of the lease."""
    return _exchange().sweep(phase, pool, key, lease)


def update_on_worker(phase: SweepPhase, blocks: list[int], sources: list[Source]) -> list[AppliedBlock]:
    """Update some blocks, with deltas from all workers."""
    return update_blocks(phase, blocks, sources, _exchange().fetch)
