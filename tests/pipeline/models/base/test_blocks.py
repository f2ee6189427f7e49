"""Cutting a model's rows into blocks."""

import numpy as np
from corpusmill.pipeline.engine.data import cut_blocks, cut_equally, equal_blocks
from hypothesis import given
from hypothesis import strategies as st

ENTRIES = st.lists(st.integers(0, 10**6), min_size=1, max_size=40).map(np.array)


@given(ENTRIES, st.integers(1, 60))
def test_every_block_has_a_row_and_every_row_is_in_one_block(entries, n_blocks):
    for bounds in (cut_blocks(entries, n_blocks), equal_blocks(len(entries), n_blocks)):
        assert bounds[0] == 0
        assert bounds[-1] == len(entries)
        assert len(bounds) == min(n_blocks, len(entries)) + 1
        assert (np.diff(bounds) > 0).all()


def test_blocks_of_equal_size():
    assert equal_blocks(10, 2) == (0, 5, 10)
    assert equal_blocks(7, 1) == (0, 7)
    assert cut_equally((0, 5, 10), 2) == (0, 2, 5, 7, 10)
    assert cut_equally((0, 5, 10), 1) == (0, 5, 10)


def test_blocks_have_about_the_same_number_of_entries():
    entries = 1000 // np.arange(1, 201)
    bounds = cut_blocks(entries, 3)
    sizes = np.add.reduceat(entries, bounds[:-1])
    assert sizes.max() - sizes.min() <= entries.max() + len(entries)


def test_a_row_that_is_heavier_than_all_others_still_leaves_each_block_a_row():
    assert cut_blocks(np.array([1, 1, 1000]), 3) == (0, 1, 2, 3)
    assert cut_blocks(np.array([1000, 1, 1]), 3) == (0, 1, 2, 3)
