"""The simulated cluster of `benchmarks.scale`."""

from benchmarks.scale.cluster import SmallCache


def test_a_small_cache_keeps_blocks_of_the_model_but_no_chunks():
    cache = SmallCache()
    reads = []

    def read():
        reads.append("read")
        return "value"

    for kind in ("block", "chunk"):
        for _ in range(2):
            cache.load(("run", kind, 0), read, size=len, budget=1000, for_every_chunk=True)
    assert len(reads) == 1 + 2
