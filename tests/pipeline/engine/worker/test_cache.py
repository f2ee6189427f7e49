"""The cache of a worker: what it keeps, and what makes place for values that are read for every chunk."""

from corpusmill.pipeline.engine.worker.buffers import Cache
from hypothesis import given
from hypothesis import strategies as st

PUTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 60), st.booleans()), max_size=60)


def test_parts_of_the_model_evict_chunks_but_not_each_other():
    cache = Cache()
    for name in ("chunk 0", "chunk 1"):
        cache.put(("run", name), name, nbytes=40, budget=100)
    cache.put(("run", "block 0"), "block 0", nbytes=50, budget=100, for_every_chunk=True)
    assert [cache.get(("run", name)) for name in ("chunk 0", "chunk 1")] == ["chunk 0", None]
    cache.put(("run", "block 1"), "block 1", nbytes=50, budget=100, for_every_chunk=True)
    cache.put(("run", "block 2"), "block 2", nbytes=50, budget=100, for_every_chunk=True)
    cache.put(("run", "chunk 2"), "chunk 2", nbytes=10, budget=100)
    kept = [cache.get(("run", name)) for name in ("chunk 0", "chunk 2", "block 0", "block 1", "block 2")]
    assert kept == [None, None, "block 0", "block 1", None]


def test_a_part_that_does_not_fit_evicts_nothing():
    cache = Cache()
    cache.put(("run", "chunk"), "chunk", nbytes=40, budget=100)
    cache.put(("run", "block"), "block", nbytes=101, budget=100, for_every_chunk=True)
    assert cache.get(("run", "chunk")) == "chunk"
    assert cache.get(("run", "block")) is None


@given(puts=PUTS)
def test_the_cache_never_exceeds_its_budget_and_never_returns_another_version(puts):
    cache = Cache()
    newest = {}
    for key, version, size, for_every_chunk in puts:
        value = (key, version, size)
        cache.put(("run", key), value, version=version, nbytes=size, budget=100, for_every_chunk=for_every_chunk)
        newest[key] = value
        kept = {k: cache.get(("run", k), newest[k][1]) for k in newest}
        assert all(value is None or value == newest[k] for k, value in kept.items())
        assert cache.nbytes == sum(value[2] for value in kept.values() if value is not None) <= 100
