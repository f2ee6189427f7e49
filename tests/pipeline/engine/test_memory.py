"""How a process reuses the memory of freed arrays."""

import resource

import numpy as np
import pytest
from corpusmill.pipeline.engine.executors import OnDask
from corpusmill.pipeline.engine.memory import KEPT_BYTES, REUSED_BYTES

PAGE_BYTES = resource.getpagesize()
ARRAY_BYTES = REUSED_BYTES - (1 << 20)
N_ARRAYS = 20


def new_pages(nbytes):
    """Return how many pages the system provides for arrays that are made one after the other, but for the first."""
    np.ones(nbytes, np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(N_ARRAYS):
        np.ones(nbytes, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_workers_reuse_the_memory_of_arrays(cluster_of):
    client = cluster_of(1)
    OnDask(client)
    (pages,) = client.run(new_pages, ARRAY_BYTES).values()
    assert pages < ARRAY_BYTES // PAGE_BYTES


def resident_bytes():
    """Return the bytes of this process's memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE_BYTES


def kept_bytes(nbytes):
    """Return by how much this process has grown after arrays were made, all at once, and freed."""
    before = resident_bytes()
    arrays = [np.ones(nbytes, np.uint8) for _ in range(N_ARRAYS)]
    assert resident_bytes() - before > N_ARRAYS * nbytes // 2
    arrays.clear()
    return resident_bytes() - before


@pytest.mark.parametrize("nbytes", [ARRAY_BYTES, 2 * REUSED_BYTES], ids=["small arrays", "large arrays"])
def test_workers_do_not_keep_more_memory_than_they_may(cluster_of, nbytes):
    client = cluster_of(1)
    OnDask(client)
    (kept,) = client.run(kept_bytes, nbytes).values()
    assert kept < KEPT_BYTES + REUSED_BYTES
