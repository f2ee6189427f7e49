"""Grows and shrinks a cluster by the number of shards that no worker has taken."""

from distributed.deploy import Adaptive


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
