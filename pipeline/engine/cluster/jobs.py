"""Keeps the workers of a cluster that grows and shrinks, or whose jobs end, such as at their walltime."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import dask
from dask.utils import parse_timedelta
from distributed import Status
from distributed.deploy import Adaptive, SpecCluster

#: Seconds between two looks for lost jobs.
LOOK_SECONDS = 5.0


class AdaptToShards(Adaptive):
    """Dask's adaptive scaling, extended by the shards that no worker has taken.

    Dask itself counts tasks. A sweep is one long task per worker, however many shards wait, so Dask alone would not add
    workers. The scheduler must have the plugin `leases.Leases`.
    """

    async def target(self) -> int:
        """Return the number of workers that there should be."""
        by_tasks = await super().target()
        by_shards = await self.scheduler.corpusmill_workers_wanted()
        return max(by_tasks, by_shards)


@contextlib.contextmanager
def replacing_lost_jobs(cluster: SpecCluster) -> Iterator[None]:
    """Submit another job for each one whose workers have been away for Dask's ``lost-worker-timeout``.

    Dask only forgets such a job: neither a fixed number of workers nor `adapt` submits it again. A job that still waits
    in the queue never had a worker, and is left alone.
    """
    ended = threading.Event()
    seconds = parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout"))

    def replace() -> None:
        seen: dict[Any, float] = {}  # when each job had a worker last
        while not ended.wait(min(LOOK_SECONDS, seconds / 4)):
            now = time.monotonic()
            present = {worker["name"] for worker in cluster.scheduler_info["workers"].values()}
            for job, description in list(cluster.worker_spec.items()):
                # A job of several processes has a worker of a name of its own in each.
                names = [f"{job}{suffix}" for suffix in description.get("group", ())] or [job]
                if not present.isdisjoint(names):
                    seen[job] = now
            lost = [job for job, last in seen.items() if now - last > seconds and job in cluster.worker_spec]
            if lost or not cluster.worker_spec.keys() <= cluster.workers.keys():
                # The batch system may refuse a command. The next look tries again.
                with contextlib.suppress(Exception):
                    cluster.sync(_replace, cluster, lost)
                    for job in lost:
                        del seen[job]

    threading.Thread(target=replace, name="corpusmill-jobs", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


async def _replace(cluster: SpecCluster, jobs: list[Any]) -> None:
    """Close jobs, and start others of the same names."""
    for job in jobs:
        if job in cluster.workers:
            ended = cluster.workers.pop(job)
            await ended.close()
            ended.status = Status.closed  # dask-jobqueue does not say so, and a cluster that closes asserts it
    # The number of jobs stays as it is; this lets Dask start those that are missing.
    SpecCluster.scale(cluster, len(cluster.worker_spec))
