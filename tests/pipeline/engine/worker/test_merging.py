"""Sums of deltas: the same order of merging whoever holds which shards."""

import random
import threading
import weakref

import numpy as np
import pytest
from corpusmill.pipeline.engine.worker.merging import PartialSums, count_waiting
from hypothesis import given
from hypothesis import strategies as st


def join(deltas):
    """Merge two deltas of texts into one that shows the order of merging."""
    left, right = deltas
    return {"text": f"({left['text']}{right['text']})"}


def add_all(deltas):
    return {"sum": sum(delta["sum"] for delta in deltas)}


def recorded_merges():
    """Return a list, and a function that merges deltas and appends to the list how many it merged at once."""
    merges = []

    def add_many(deltas):
        merges.append(len(deltas))
        return add_all(deltas)

    return merges, add_many


def tree(first, stop):
    """Return the merge tree of the shards first to stop - 1, written with parentheses."""
    if stop - first == 1:
        return chr(ord("a") + first)
    middle = (first + stop + 1) // 2
    return f"({tree(first, middle)}{tree(middle, stop)})"


def test_deltas_are_released_block_by_block_and_lists_of_the_caller_stay():
    class Delta(dict):
        """A dictionary that can be referred to weakly."""

    alive = []
    given = [[Delta(sum=1), Delta(sum=2)], [Delta(sum=10), Delta(sum=20)]]
    references = [weakref.ref(delta) for deltas in given for delta in deltas]
    lists = [list(deltas) for deltas in given]

    def merge(deltas):
        alive.append(sum(reference() is not None for reference in references))
        return add_all(deltas)

    sums = PartialSums(2, merge, exact_bytes=0)
    sums.add((0, 1), lists[0])
    assert lists[0] == given[0]
    del given
    lists.pop(0)
    sums.add((1, 2), lists.pop(0))
    assert sums.total() == [{"sum": 11}, {"sum": 22}]
    # While the second block was merged, both deltas of the first one were gone.
    assert alive[:2] == [4, 2]


@pytest.mark.parametrize("n_shards", [1, 2, 3, 7, 8, 26])
@pytest.mark.parametrize("n_holders", [1, 3, 26])
def test_the_order_of_merging_is_that_of_the_tree(n_shards, n_holders):
    draw = random.Random(n_shards * n_holders)
    holders = [PartialSums(n_shards, join) for _ in range(n_holders)]
    for shard in draw.sample(range(n_shards), n_shards):
        draw.choice(holders).add((shard, shard + 1), [{"text": chr(ord("a") + shard)}])
    draw.shuffle(holders)
    total = PartialSums(n_shards, join)
    for holder in holders:
        for node, deltas in holder.items():
            total.add(node, deltas)
    assert total.total() == [{"text": tree(0, n_shards)}]


def test_consecutive_shards_leave_few_sums():
    sums = PartialSums(1024, join)
    for shard in range(300, 300 + 64):
        sums.add((shard, shard + 1), [{"text": "x"}])
    assert len(sums.items()) <= 12


def test_exact_sums_are_merged_at_once():
    sums = PartialSums(100, add_all, exact_bytes=0)
    for shard in (7, 99, 3):
        sums.add((shard, shard + 1), [{"sum": shard}, {"sum": 10 * shard}])
    ((_, deltas),) = sums.items()
    assert deltas == [{"sum": 109}, {"sum": 1090}]


def test_exact_sums_wait_until_they_are_as_large_as_the_largest():
    merges, add_many = recorded_merges()
    sums = PartialSums(16, add_many, exact_bytes=0)
    sums.add((0, 1), [{"sum": np.ones(8, np.int64)}])
    for shard in range(1, 9):
        sums.add((shard, shard + 1), [{"sum": np.ones(1, np.int64)}])
    assert merges == [9]
    sums.add((9, 10), [{"sum": np.ones(1, np.int64)}])
    (delta,) = sums.total()
    assert merges == [9, 2]
    np.testing.assert_array_equal(delta["sum"], np.full(8, 10))


def test_small_exact_sums_wait_until_they_have_enough_bytes():
    merges, add_many = recorded_merges()
    sums = PartialSums(16, add_many, exact_bytes=40)
    for shard in range(6):
        sums.add((shard, shard + 1), [{"sum": np.ones(1, np.int64)}])
    assert merges == [5]
    (delta,) = sums.total()
    assert merges == [5, 2]
    np.testing.assert_array_equal(delta["sum"], [6])


def test_an_array_that_the_deltas_of_several_blocks_share_counts_once():
    merges, add_many = recorded_merges()
    sums = PartialSums(16, add_many, exact_bytes=40)
    for shard in range(5):
        shared = np.ones(1, np.int64)
        sums.add((shard, shard + 1), [{"sum": shared}, {"sum": shared}])
        assert merges == ([] if shard < 4 else [5, 5])


@pytest.mark.parametrize("exact_bytes", [None, 0])
def test_threads_lose_no_delta(exact_bytes):
    sums = PartialSums(256, add_all, exact_bytes)

    def add_some(first):
        for shard in range(first, 256, 4):
            sums.add((shard, shard + 1), [{"sum": np.full(100, shard)}])

    threads = [threading.Thread(target=add_some, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (delta,) = sums.total()
    np.testing.assert_array_equal(delta["sum"], sum(range(256)))


@given(st.integers(1, 300))
def test_the_number_of_sums_that_wait_is_known(n_shards):
    sums = PartialSums(n_shards, add_all)
    most = 0
    for shard in range(n_shards - 1):
        sums.add((shard, shard + 1), [{"sum": 1}])
        most = max(most, len(sums.items()))
    assert most <= count_waiting(n_shards) <= most + 1
