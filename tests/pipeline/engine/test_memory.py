"""How workers keep the memory of freed arrays, and return it."""

import resource
import time

import numpy as np
import pytest
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.engine.executors import OnDask
from corpusmill.pipeline.engine.memory import KEPT_ARRAY_BYTES, KEPT_SHARE, PLANNED_SHARE
from distributed import get_worker

PAGE_BYTES = resource.getpagesize()
HUGE_PAGE_BYTES = 2 << 20
ARRAY_BYTES = KEPT_ARRAY_BYTES - (1 << 20)
LIMIT = 2 << 30  # that of the workers of `cluster_of`


@pytest.fixture
def client(cluster_of):
    """A client of one worker that trains."""
    client = cluster_of(1)
    OnDask(client)
    return client


def new_pages(n_arrays, nbytes):
    """Return how many pages the system provides for each of several arrays that are made one after the other.

    Only pages of this thread count, because the other threads of a worker make objects of their own.
    """
    np.ones(ARRAY_BYTES, np.uint8)
    np.ones(nbytes, np.uint8)
    pages = [resource.getrusage(resource.RUSAGE_THREAD).ru_minflt]
    for _ in range(n_arrays):
        np.ones(nbytes, np.uint8)
        pages.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt)
    return np.diff(pages)


def assert_most_reuse_memory(client, nbytes):
    """Assert that most of the arrays of a task are made in memory that the process has.

    An object of another thread may take the place of an array, so not all are.
    """
    pages = client.submit(new_pages, 20, nbytes, pure=False).result()
    assert are_reused(pages, nbytes), pages.tolist()


def are_reused(pages, nbytes):
    """Return whether most arrays of this size needed fewer pages than new memory has."""
    fewest_if_new = nbytes // HUGE_PAGE_BYTES
    return np.median(pages) < fewest_if_new // 2


def test_tasks_reuse_the_memory_of_arrays(client):
    assert_most_reuse_memory(client, ARRAY_BYTES)


@pytest.mark.slow
def test_large_arrays_share_memory_of_five_percent_of_the_limit():
    # The C library decides whether there is a gap for an array as large as this. A few of many workers had none, so
    # three may try.
    nbytes = int(KEPT_SHARE / 2 * LIMIT)
    found = []
    with open_cluster("local", n_workers=1, memory_limit="2GiB") as client:
        OnDask(client)
        while len(found) < 3 and not (found and are_reused(found[-1], nbytes)):
            if found:
                client.restart()
            found.append(client.submit(new_pages, 20, nbytes, pure=False).result())
    assert are_reused(found[-1], nbytes), [pages.tolist() for pages in found]


def resident_bytes():
    """Return the bytes of this process's memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE_BYTES


def fill(nbytes):
    """Make arrays all at once, and free all but one; return this process's memory with them, and without them.

    glibc returns memory at the end of the heap by itself, so the array at the end stays.
    """
    arrays = [np.ones(ARRAY_BYTES, np.uint8) for _ in range(nbytes // ARRAY_BYTES)]
    full = resident_bytes()
    get_worker().kept_by_test = max(arrays, key=lambda array: array.ctypes.data)
    arrays.clear()
    return full, resident_bytes()


def wait_for_memory(client, most):
    """Wait until the worker has at most this many bytes; return whether it has."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if max(client.run(resident_bytes).values()) <= most:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_a_worker_without_tasks_returns_its_memory(client):
    before = max(client.run(resident_bytes).values())
    full, kept = client.submit(fill, LIMIT // 2, pure=False).result()
    assert kept > before + (full - before) // 2
    assert wait_for_memory(client, before + (full - before) // 10)


def fill_and_wait(nbytes):
    """Do what `fill` does, and wait; return this process's memory without the arrays, before and after that."""
    _, kept = fill(nbytes)
    time.sleep(3)
    return kept, resident_bytes()


@pytest.mark.slow
def test_a_worker_with_little_memory_returns_it_during_a_task(client):
    kept, returned = client.submit(fill_and_wait, int((PLANNED_SHARE + 0.01) * LIMIT), pure=False).result()
    assert kept > PLANNED_SHARE * LIMIT
    assert returned < kept // 2
