"""The scheduler assigns the shards of a pool to workers."""

from corpusmill.pipeline.engine.cluster.leases import Leases, ShardLease, has_untaken_shards, open_divided_pool
from corpusmill.pipeline.engine.cluster.pool import Pool
from distributed import Client, LocalCluster


def call_fast(address, dask_scheduler):
    """Note that only this worker was fast in the first pool, in which nothing was measured."""
    dask_scheduler.plugins[Leases.name].pools["first"].fast = {address}


def test_a_worker_that_was_fast_gets_its_first_shards_with_its_task():
    def open_pool(name):
        pool = Pool(name, "run", "client", range(16))
        return client.run_on_scheduler(open_divided_pool, pool, dict.fromkeys(range(16), 10))

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(Leases())
        first = open_pool("first")
        # Nothing is known about the workers yet.
        assert list(first.values()) == [None, None]
        fast, other = first
        client.run_on_scheduler(call_fast, fast)
        second = open_pool("second")
        assert second == {fast: ShardLease(fast, [0, 1, 2, 3], [4, 5, 6, 7], False), other: None}
        # These shards are taken; others are left for the other worker.
        assert client.run_on_scheduler(has_untaken_shards, "second", False)
