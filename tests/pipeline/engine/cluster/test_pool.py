"""Workers take shards: each shard once, consecutive ones first, and few by slow workers."""

import heapq
import time
from collections import deque

import pytest
from corpusmill.pipeline.engine.cluster.pool import CUT_SLACK, Pool, balanced_places, divided
from corpusmill.pipeline.engine.memory import Capacity
from hypothesis import example, given
from hypothesis import strategies as st


def pool_of(n_shards, n_workers):
    """Return a pool whose shards are divided equally."""
    homes = {f"w{w}": range(n_shards * w // n_workers, n_shards * (w + 1) // n_workers) for w in range(n_workers)}
    return pool_with(n_shards, homes)


def pool_with(n_shards, homes):
    """Return a pool with these positions by the address of a worker."""
    homes = {address: deque(positions) for address, positions in homes.items()}
    return Pool("pool", "run", "client", range(n_shards), homes)


def sweep(pool, seconds, threads=1):
    """Simulate workers that need ``seconds`` for a shard; return the time of the last shard, and the shards of each."""
    swept = {worker: [] for worker in seconds}
    waiting = [(0.0, worker) for worker in sorted(seconds)]
    end = 0.0
    while waiting:
        now, worker = heapq.heappop(waiting)
        taken = pool.take(worker, threads, now)
        if not taken:
            continue
        swept[worker] += taken
        later = now + seconds[worker] * -(-len(taken) // threads)
        end = max(end, later)
        heapq.heappush(waiting, (later, worker))
    return end, swept


def capacities(threads):
    return [Capacity(f"w{w:02}", f"w{w:02}", count, 0) for w, count in enumerate(threads)]


def count_nodes(shards, first, stop):
    """Count the largest nodes of the merge tree of the shards ``first`` to ``stop - 1`` that lie within ``shards``."""
    if all(shard in shards for shard in range(first, stop)):
        return 1
    if not any(shard in shards for shard in range(first, stop)):
        return 0
    middle = (first + stop + 1) // 2
    return count_nodes(shards, first, middle) + count_nodes(shards, middle, stop)


@pytest.mark.parametrize(
    ("n_shards", "n_workers", "sizes"), [(17, 2, [9, 8]), (33, 2, [17, 16]), (33, 4, [9, 8, 8, 8])]
)
def test_equal_workers_get_whole_nodes_of_the_merge_tree(n_shards, n_workers, sizes):
    homes = divided(dict.fromkeys(range(n_shards), 1000), n_shards, capacities([1] * n_workers))
    assert [len(home) for home in homes.values()] == sizes
    assert all(count_nodes(set(home), 0, n_shards) == 1 for home in homes.values())


@given(st.lists(st.integers(0, 100), min_size=1, max_size=70), st.lists(st.integers(1, 20), min_size=1, max_size=9))
@example([1, 0], [2, 1])
@example([0, 0, 1], [1, 1])
def test_cuts_move_by_a_small_share(weights, threads):
    tokens = dict(enumerate(weights))
    workers = capacities(threads)
    homes = divided(tokens, len(weights), workers)
    assert [shard for address in sorted(homes) for shard in homes[address]] == list(tokens)
    balanced = {}
    for shard, address in enumerate(balanced_places(weights, workers)):
        balanced.setdefault(address, []).append(shard)
    assert homes.keys() <= balanced.keys()
    for address, home in homes.items():
        before = sum(weights[shard] for shard in balanced[address])
        assert abs(sum(weights[shard] for shard in home) - before) <= 2 * before / CUT_SLACK


def test_shards_that_were_lost_are_divided_too():
    homes = divided({3: 10, 9: 10, 20: 10}, 32, capacities([1, 1]))
    assert [shard for home in homes.values() for shard in home] == [3, 9, 20]


@pytest.mark.parametrize("threads", [1, 4])
def test_every_shard_is_taken_once(threads):
    pool = pool_of(97, 5)
    _, swept = sweep(pool, {f"w{w}": 1.0 + w / 10 for w in range(5)}, threads)
    assert sorted(shard for shards in swept.values() for shard in shards) == list(range(97))
    assert pool.left == 0
    assert pool.taken.keys() == set(range(97))


def test_equal_workers_sweep_their_own_shards_in_order():
    _, swept = sweep(pool_of(64, 4), {f"w{w}": 1.0 for w in range(4)})
    assert swept == {f"w{w}": list(range(16 * w, 16 * w + 16)) for w in range(4)}


def test_a_worker_that_is_three_times_slower_costs_little():
    seconds = {f"w{w}": 1.0 for w in range(32)} | {"w5": 3.0}
    end, swept = sweep(pool_of(32 * 16, 32), seconds)
    assert end <= 1.1 * 32 * 16 / (31 + 1 / 3)
    assert 3 <= len(swept["w5"]) <= 6


def test_a_worker_that_joins_takes_shards_of_others():
    _, swept = sweep(pool_of(40, 2), {"w0": 1.0, "w1": 1.0, "w2": 1.0})
    assert 10 <= len(swept["w2"]) <= 15


def test_shards_of_a_worker_that_never_asks_are_swept_by_others():
    end, swept = sweep(pool_of(40, 2), {"w0": 1.0})
    assert end == 40
    assert len(swept["w0"]) == 40


def test_the_shards_of_a_worker_that_died_are_taken_again_by_others():
    pool = pool_of(16, 2)
    assert pool.take("w0", 1, 0.0) == [0]
    assert pool.take("w1", 1, 0.0) == [8]
    pool.give_back("w1")
    assert list(pool.homes["w1"]) == list(range(8, 16))
    _, swept = sweep(pool, {"w0": 1.0})
    assert sorted(swept["w0"]) == list(range(1, 16))


def test_a_single_slow_worker_sweeps_everything():
    pool = pool_of(10, 2)
    _, swept = sweep(pool, {"w0": 1.0, "w1": 100.0})
    assert len(swept["w0"]) + len(swept["w1"]) == 10


# --- single decisions, with exact numbers ---


def test_a_worker_takes_an_eighth_of_its_shards_but_one_for_each_thread_at_least():
    pool = pool_of(64, 1)
    assert pool.take("w0", 1, 0.0) == list(range(8))
    assert pool.take("w0", 20, 1.0) == list(range(8, 28))
    assert pool.left == 36


def test_a_worker_that_was_not_slow_in_the_last_step_takes_half_of_its_shards():
    last = pool_of(16, 2)
    last.take("w0", 1, 0.0)
    last.take("w1", 1, 0.0)
    assert last.fast_workers() == set()
    last.take("w0", 1, 1.0)
    last.take("w1", 1, 3.0)
    assert last.fast_workers() == {"w0"}
    pool = pool_of(16, 2)
    pool.fast = last.fast_workers()
    assert pool.take("w0", 1, 0.0) == [0, 1, 2, 3]
    assert pool.take("w1", 1, 0.0) == [8]
    # Nothing was measured, so that the speeds of the step before remain.
    assert pool.fast_workers() == {"w0"}


def test_leases_at_the_end_are_short_even_if_a_request_is_worth_more_shards():
    pool = pool_of(16, 2)
    taken = [len(pool.take("w0", 1, float(now), least=4)) for now in range(6)]
    assert taken == [4, 3, 1, 2, 2, 1]


def test_upcoming_shards_are_not_taken():
    pool = pool_of(8, 2)
    assert pool.upcoming("w1", 3) == [4, 5, 6]
    assert pool.upcoming("w2", 3) == []
    assert pool.left == 8
    assert not pool.taken


def test_half_of_another_home_is_taken_at_most_and_from_its_end():
    pool = pool_of(3, 1)
    assert pool.take("w1", 4, 0.0) == [2, 1]
    assert pool.take("w1", 4, 1.0) == [0]
    assert pool.take("w1", 4, 2.0) == []


def test_shards_are_taken_from_the_worker_that_would_need_longest():
    pool = pool_with(100, {"w0": range(80), "w1": range(80, 100)})
    pool.take("w0", 10, 0.0)  # 10 shards
    pool.take("w1", 2, 0.0)  # 2 shards
    # At 1 s, each thread has swept one shard. w0 needs 70 / 10 s for the rest, and w1 needs 18 / 2 s.
    assert pool.take("w2", 1, 1.0) == [99]


def test_shards_are_taken_from_a_worker_that_has_begun_nothing_before_others():
    pool = pool_with(100, {"w0": range(99), "w1": [99]})
    pool.take("w0", 1, 0.0)
    assert pool.take("w2", 1, 1.0) == [99]


@pytest.mark.parametrize(("left", "is_served"), [(9, False), (10, True)])
def test_a_slow_worker_gets_no_shard_that_faster_ones_would_sweep_before(left, is_served):
    pool = pool_with(30, {"w0": range(10), "w1": range(10, 11 + left)})
    assert pool.take("w1", 1, 0.0) == [10]
    for now in range(10):
        pool.take("w0", 1, float(now))
    # At 9 s, w0 needs 0.9 s for a shard, and w1 needs 9 s. They sweep 1.22 shards per second, so 9 shards last 7.4 s.
    assert bool(pool.take("w1", 1, 9.0)) is is_served


def test_a_slow_worker_gets_shards_again_if_the_speeds_are_measured_anew():
    pool = pool_with(30, {"w0": range(10), "w1": range(10, 12)})
    start = time.monotonic() - 9
    assert pool.take("w1", 1, start) == [10]
    for now in range(9):
        pool.take("w0", 1, start + now)
    assert pool.take("w1", 1, start + 9) == []
    pool.measure_anew()
    assert pool.take("w1", 1) == [11]


def test_without_a_time_the_clock_decides():
    pool = pool_of(2, 1)
    assert pool.take("w0", 1) == [0]
    assert pool.take("w0", 1) == [1]
