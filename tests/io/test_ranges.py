"""Ranges of bounded size."""

import numpy as np
from corpusmill.io.ranges import bounded_ranges


def ranges(sizes, most, **options):
    return list(bounded_ranges(np.append(0, np.cumsum(sizes)), most, **options))


def test_ranges_are_as_long_as_their_size_allows():
    assert ranges([1, 2, 3, 1, 1], 3) == [(0, 2), (2, 3), (3, 5)]
    assert ranges([2, 2, 2, 2], 4, first=1, stop=4) == [(1, 3), (3, 4)]


def test_an_item_that_is_too_large_is_a_range_of_its_own():
    assert ranges([1, 9, 9, 1], 3) == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_sizes_of_32_bits_do_not_overflow():
    before = np.array([0, 2**30, 2**31 - 9, 2**31 - 1], np.int32)
    assert list(bounded_ranges(before, 2**30)) == [(0, 1), (1, 3)]
    assert list(bounded_ranges(before, 2**31)) == [(0, 3)]


def test_items_without_size_do_not_begin_a_range():
    assert ranges([0, 0, 3, 0], 3) == [(0, 4)]
    assert ranges([], 3) == []
