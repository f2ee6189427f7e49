"""A plugin for Dask's workers: they take shards of a pool from the scheduler, and sweep them."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import cast

from distributed import Status, Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.utils import sync

from ..worker.contributions import (
    Contribution,
    ShardQueue,
    shard_seconds,
    sweep_shards,
    update_if_complete,
)
from ..worker.tasks import ShardProgress, SweepPhase
from .exchange import Exchange
from .leases import ShardLease, hide_calls_of_steps

#: A worker takes at least as many shards at a time as its threads sweep in these seconds, because a request takes a few
#: milliseconds.
LEASE_SECONDS = 0.3
#: Shards that take fewer seconds are reported together, once in this time.
REPORT_SECONDS = 1.0
#: Seconds after which a worker that is paused looks again whether to go on.
PAUSED_SECONDS = 1.0


def swept_topic(phase: SweepPhase) -> str:
    """Return the topic under which workers report the shards of a run that they have swept."""
    return f"corpusmill-swept-{phase.job.name}"


class PoolSweeper(WorkerPlugin):
    """Sweeps shards of pools with the threads of this worker."""

    name = "corpusmill-pool-sweeper"
    idempotent = True

    def setup(self, worker: Worker) -> None:
        """Register the handlers of the scheduler's messages."""
        self.worker = worker
        hide_calls_of_steps()
        self._lock = threading.Lock()
        self._pools: set[str] = set()  # those that this worker takes shards from
        self._stopped: set[str] = set()  # those of them that were closed before all shards were swept
        worker.stream_handlers["corpusmill_stop"] = self.stop

    def stop(self, pool: str) -> None:
        """End this worker's sweep of a pool after the present shards. The scheduler sends this."""
        with self._lock:
            if pool in self._pools:
                self._stopped.add(pool)

    def is_stopped(self, pool: str) -> bool:
        """Return whether no other shard of a pool should be swept."""
        return pool in self._stopped

    def sweep(self, phase: SweepPhase, pool: str, lease: ShardLease | None) -> Contribution | None:
        """Sweep shards of a pool with all threads of this worker, until it has none left for this worker.

        It begins with those of ``lease``, if there is one for this worker. If a worker dies, Dask repeats its task on
        another worker. Its lease is void then. Return None if this worker sweeps the pool already.
        """
        with self._lock:
            if pool in self._pools:
                return None
            self._pools.add(pool)
        if lease is not None and lease.address != self.worker.address:
            lease = None
        deltas = cast(Exchange, self.worker.plugins[Exchange.name]).deltas
        taken = _Taken(self, phase, pool, lease)
        progress = _Progress(self.worker, swept_topic(phase), pool)
        helpers = (self.worker.executors["default"], self.worker.state.nthreads - 1)

        try:
            contribution = sweep_shards(phase, taken, progress.report, deltas, self.worker.address, helpers)
            # Tasks that update blocks on other workers as well would take longer than the update on this one.
            update_if_complete(phase, contribution, deltas.fetch)
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
            time.sleep(PAUSED_SECONDS)
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


class _Taken(ShardQueue):
    """The shards that a worker has taken and not begun."""

    def __init__(self, sweeper: PoolSweeper, phase: SweepPhase, pool: str, lease: ShardLease | None):
        self._sweeper = sweeper
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
            if self._sweeper.is_stopped(self._pool):
                return None
            if not self._positions and not self._is_empty:
                found = self._sweeper.take(self._phase, self._pool)
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


def sweep_on_worker(phase: SweepPhase, pool: str, lease: ShardLease | None) -> Contribution | None:
    """Sweep shards on this worker, first those of the lease."""
    sweeper = cast(PoolSweeper, get_worker().plugins[PoolSweeper.name])
    return sweeper.sweep(phase, pool, lease)
