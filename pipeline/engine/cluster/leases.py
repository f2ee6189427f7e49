"""A plugin for Dask's scheduler: it keeps the pools of shards, and assigns shards to workers.

When a worker dies, others take its shards at once, and no task waits for it.
"""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from ..memory import Capacity
from ..worker.buffers import AHEAD
from .pool import Pool, divided

#: Functions of this package that every step runs at the scheduler or on the workers.
CALLS_OF_STEPS = frozenset(("open_pool", "open_divided_pool", "close_pool", "has_untaken_shards", "device_memory"))


class ShardLease(NamedTuple):
    """Positions of shards that the scheduler has assigned to a worker."""

    address: str
    taken: list[int]
    upcoming: list[int]  # shards that the worker will probably take next
    is_last: bool  # whether no shard is left for anybody


class Leases(SchedulerPlugin):
    """Keeps the pools of shards at the scheduler; workers request their next shards from it."""

    name = "corpusmill-leases"
    idempotent = True

    def __init__(self) -> None:
        self.pools: dict[str, Pool] = {}

    async def start(self, scheduler: Scheduler) -> None:
        """Register the handlers of the workers' requests."""
        self.scheduler = scheduler
        hide_calls_of_steps()
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
            return ShardLease(address, [], [], False) if found.left else None
        return _lease(found, address, threads, least)

    def begin(self, pool: str, address: str) -> bool:
        """Return whether a worker may begin to train its rows of a grid: once, while the pool is open."""
        found = self.pools.get(pool)
        if found is None or address in found.begun:
            return False
        found.begun.add(address)
        return True

    def is_open(self, pool: str) -> bool:
        """Return whether a pool was opened and not closed since."""
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

        A worker that has swept its shards may be idle, but its deltas are needed until the blocks are updated. The pool
        is open until then, and until the next step.
        """
        used: set[str] = set()
        for pool in self.pools.values():
            used |= pool.paces.keys() | pool.begun
        return len(used & self.scheduler.workers.keys()) + sum(pool.left for pool in self.pools.values())

    def end(self, name: str) -> None:
        """Close a pool if it is open. The workers that sweep it end after their present shards."""
        pool = self.pools.pop(name, None)
        if pool is None:
            return
        for address in pool.paces:
            if address in self.scheduler.workers:
                self.scheduler.worker_send(address, {"op": "corpusmill_stop", "pool": name})

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """Let other workers take the shards of a worker that left, and let tasks that preferred it run anywhere.

        Dask does the latter while other workers are alive. A task that becomes ready while there is no worker at all
        would wait for the address of the dead worker, and a restarted worker has another address.
        """
        for pool in self.pools.values():
            pool.give_back(worker)
        for task in scheduler.tasks.values():
            if task.loose_restrictions and worker in (task.worker_restrictions or ()):
                task.worker_restrictions = None

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Close the pools of a client that left."""
        for name in [name for name, pool in self.pools.items() if pool.client == client]:
            self.end(name)


def hide_calls_of_steps() -> None:
    """Keep the calls of each step out of the log of this process. Dask writes a line for each."""
    logging.getLogger("distributed.worker").addFilter(_is_no_call_of_a_step)


def _is_no_call_of_a_step(record: logging.LogRecord) -> bool:
    called = record.args[0] if isinstance(record.args, tuple) and record.args else None
    return not (str(record.msg).startswith("Run out-of-band function") and called in CALLS_OF_STEPS)


def _lease(pool: Pool, address: str, threads: int, least: int = 0) -> ShardLease | None:
    """Take shards of a pool for a worker; return None if it has none for this worker."""
    positions = pool.take(address, threads, least=least)
    if not positions:
        return None
    return ShardLease(address, positions, pool.upcoming(address, threads * AHEAD), not pool.left)


# --- functions that run at the scheduler ---


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
    pool.homes = divided(tokens, len(pool.shards), workers)
    open_pool(pool, dask_scheduler)
    threads = {worker.address: worker.threads for worker in workers}
    return {
        address: _lease(pool, address, threads[address]) if address in pool.fast else None for address in pool.homes
    }


def close_pool(name: str, dask_scheduler: Scheduler) -> None:
    """Close a pool if it is open, and end its sweeps. Runs at the scheduler."""
    _leases(dask_scheduler).end(name)


def end_run(run: str, dask_scheduler: Scheduler) -> None:
    """Close the last pool of a run, and let all workers forget what they keep for the run. Runs at the scheduler."""
    leases = _leases(dask_scheduler)
    for name in [name for name, pool in leases.pools.items() if pool.run == run]:
        leases.end(name)
    for address in list(dask_scheduler.workers):
        dask_scheduler.worker_send(address, {"op": "corpusmill_forget", "run": run})


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
