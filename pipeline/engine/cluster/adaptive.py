"""Grows and shrinks a cluster by the shards that wait."""

from distributed.deploy import Adaptive


class AdaptToShards(Adaptive):
    """Dask's adaptive scaling, which sees one long task per worker and no shards that wait, and these shards.

    The scheduler must have the plugin `plugins.Leases`.
    """

    async def target(self) -> int:
        """Return the number of workers that there should be."""
        by_tasks = await super().target()
        by_shards = await self.scheduler.corpusmill_workers_wanted()
        return max(by_tasks, by_shards)
