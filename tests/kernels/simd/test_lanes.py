"""Eight lanes against NumPy, operation by operation. Caches are off, so that each run compiles the code under test."""

import numpy as np
import pytest
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.simd import lanes
from corpusmill.kernels.simd.lanes import (
    LANES,
    add_one_where_at_most,
    count_at_most,
    first_equal,
    gather,
    gather_by_high_half,
    high_half,
    load,
    low_half,
    pick,
    prefix_sums,
    shift_up,
    splat,
    store,
    to_double,
    to_float,
    where_bits,
    where_equal,
)

compiled = kernel(cache=False)
RNG = np.random.default_rng(1)


def floats(dtype=np.float32):
    return RNG.normal(size=LANES).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint32, np.uint16])
def test_vectors_are_loaded_from_and_stored_to_any_index(dtype):
    @compiled
    def copy(source, i, target, j):
        store(target, j, load(source, i))

    source, target = np.arange(30).astype(dtype), np.zeros(30, dtype)
    copy(source, 5, target, 13)
    expected = np.zeros(30, dtype)
    expected[13:21] = source[5:13]
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("operation", "expected"), [("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply)]
)
def test_arithmetic_is_that_of_the_scalars(operation, expected, dtype):
    function = getattr(lanes, operation)

    @compiled
    def apply(a, b, out):
        store(out, 0, function(load(a, 0), load(b, 0)))

    a, b, out = floats(dtype), floats(dtype), np.zeros(LANES, dtype)
    apply(a, b, out)
    np.testing.assert_array_equal(out, expected(a, b))


def test_operators_are_the_same_functions():
    @compiled
    def apply(a, b, out):
        store(out, 0, load(a, 0) * load(b, 0) + load(a, 0) - load(b, 0))

    a, b, out = floats(), floats(), np.zeros(LANES, np.float32)
    apply(a, b, out)
    np.testing.assert_array_equal(out, a * b + a - b)


def test_unsigned_integers_wrap():
    @compiled
    def apply(a, out):
        store(out, 0, load(a, 0) - splat(np.uint32(3)))

    a, out = np.arange(LANES, dtype=np.uint32), np.zeros(LANES, np.uint32)
    apply(a, out)
    np.testing.assert_array_equal(out, a - np.uint32(3))


def test_gather_reads_at_eight_indices():
    @compiled
    def apply(table, index, out):
        store(out, 0, gather(table, load(index, 0)))

    table, index = floats().repeat(4), RNG.integers(0, 32, LANES).astype(np.uint32)
    out = np.zeros(LANES, np.float32)
    apply(table, index, out)
    np.testing.assert_array_equal(out, table[index])


def test_gather_reads_at_the_topics_of_packed_entries():
    @compiled
    def apply(table, packed, out):
        store(out, 0, gather_by_high_half(table, packed, 3))

    table = RNG.normal(size=1 << 16).astype(np.float32)
    packed = RNG.integers(0, 1 << 32, 3 + LANES, np.uint32)
    out = np.zeros(LANES, np.float32)
    apply(table, packed, out)
    np.testing.assert_array_equal(out, table[packed[3:] >> 16])


def test_packed_entries_are_split_into_topics_and_counts():
    @compiled
    def apply(entries, high, low, counts):
        packed = load(entries, 0)
        store(high, 0, high_half(packed))
        store(low, 0, low_half(packed))
        store(counts, 0, to_float(low_half(packed)))

    entries = RNG.integers(0, 1 << 32, LANES, np.uint32)
    high, low, counts = np.zeros(LANES, np.uint32), np.zeros(LANES, np.uint32), np.zeros(LANES, np.float32)
    apply(entries, high, low, counts)
    np.testing.assert_array_equal(high, entries >> 16)
    np.testing.assert_array_equal(low, entries & 0xFFFF)
    np.testing.assert_array_equal(counts, low)


def test_lanes_are_chosen_where_integers_are_equal():
    @compiled
    def apply(a, x, y, out):
        store(out, 0, where_equal(load(a, 0), splat(np.uint32(2)), load(x, 0), load(y, 0)))

    a, x, y, out = np.arange(LANES, dtype=np.uint32) % 3, floats(), floats(), np.zeros(LANES, np.float32)
    apply(a, x, y, out)
    np.testing.assert_array_equal(out, np.where(a == 2, x, y))


def test_lanes_are_chosen_where_a_mask_has_bits():
    @compiled
    def apply(mask, x, y, out):
        store(out, 0, where_bits(load(mask, 0), load(x, 0), load(y, 0)))

    mask, x, y, out = -np.eye(LANES, dtype=np.int32)[5], floats(), floats(), np.zeros(LANES, np.float32)
    apply(mask, x, y, out)
    np.testing.assert_array_equal(out, np.where(mask, x, y))


def test_inclusive_and_exclusive_prefix_sums():
    @compiled
    def apply(a, sums, before):
        total = prefix_sums(to_double(load(a, 0)))
        store(sums, 0, total)
        store(before, 0, shift_up(total))

    a = RNG.integers(0, 100, LANES).astype(np.float32)
    sums, before = np.zeros(LANES), np.zeros(LANES)
    apply(a, sums, before)
    np.testing.assert_array_equal(sums, np.cumsum(a))
    np.testing.assert_array_equal(before, np.r_[0, np.cumsum(a)[:-1]])


@pytest.mark.parametrize("x", [-1.0, 0.0, 2.5, 7.0, 9.0])
def test_counting_lanes_that_are_at_most_a_number(x):
    @compiled
    def count(a, x):
        return count_at_most(load(a, 0), x)

    a = np.arange(LANES, dtype=np.float64)
    assert count(a, x) == np.count_nonzero(a <= x)


def test_counters_advance_in_the_lanes_that_are_at_most_a_number():
    @compiled
    def apply(counts, a, x, out):
        store(out, 0, add_one_where_at_most(load(counts, 0), load(a, 0), splat(x)))

    counts, a, out = np.arange(LANES, dtype=np.uint32), floats(), np.zeros(LANES, np.uint32)
    apply(counts, a, a[3], out)
    np.testing.assert_array_equal(out, counts + (a <= a[3]))


def test_the_first_of_the_lanes_that_are_equal():
    @compiled
    def first(a, k):
        return first_equal(load(a, 0), splat(k))

    a = np.array([5, 1, 7, 1, 5, 0, 9, 3], np.uint32)
    assert [first(a, np.uint32(k)) for k in (5, 1, 3, 4)] == [0, 1, 7, 8]


def test_picking_one_lane():
    @compiled
    def apply(a, lane):
        return pick(load(a, 0), lane)

    a = floats()
    assert [apply(a, lane) for lane in range(LANES)] == a.tolist()
