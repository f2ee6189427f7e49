"""Put up to five chunks into each shard, so that 13 chunks are three shards. Workers of Dask preload this module.

Import it before any other module of the product.
"""

from corpusmill.pipeline.engine import data

MOST = 3

_count, _chunks = getattr(data, "count_shards", None), getattr(data, "shard_chunks", None)


def install() -> None:
    """Limit the number of shards of every algorithm."""
    if _count is None:  # a version before the algorithms said what they need
        from corpusmill.pipeline.engine.algorithm import Algorithm

        most_shards = Algorithm.most_shards
        Algorithm.most_shards = property(lambda self: min(MOST, most_shards.fget(self)))
        return
    data.count_shards = lambda n_chunks, most: _count(n_chunks, min(MOST, most))
    data.shard_chunks = lambda n_chunks, most, shard: _chunks(n_chunks, min(MOST, most), shard)


install()
