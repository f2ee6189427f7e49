"""The order of words in blocks, and the weights of the blocks' negatives."""

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.dealing import deal
from corpusmill.kernels.word2vec.dealing import BLOCK_ROWS, arrange, block_negatives, table_size
from corpusmill.kernels.word2vec.text import keep_probability

FREQUENCY = (1e6 / np.arange(1, 5001)).astype(np.int64)
KEEP = keep_probability(FREQUENCY, 1e-3)
MASS = FREQUENCY * KEEP.astype(float)


def test_an_arrangement_is_consistent_in_order_bounds_and_places():
    blocks = deal(MASS, 8, random.key(1), BLOCK_ROWS)
    order, bounds, places = arrange(blocks, 8)
    np.testing.assert_array_equal(places >> 16, blocks)
    np.testing.assert_array_equal(order[bounds[places >> 16] + (places & 0xFFFF)], np.arange(5000))
    for block in range(8):
        assert (np.diff(order[bounds[block] : bounds[block + 1]]) > 0).all()


def test_the_weights_make_the_expected_negatives_those_of_the_whole_vocabulary():
    dealing = arrange(deal(MASS, 8, random.key(1), BLOCK_ROWS), 8)
    found = block_negatives(dealing, FREQUENCY, KEEP, 0.75, 1 << 15, random.key(2))
    expected = np.zeros(5000)
    for block in range(8):
        words = dealing.order[dealing.bounds[block] : dealing.bounds[block + 1]]
        share_of_pairs = MASS[words].sum() / MASS.sum()
        drawn = np.bincount(found.tables[block], minlength=len(words)) / (1 << 15)
        expected[words] = share_of_pairs * found.weights[block] * drawn
    wanted = FREQUENCY**0.75 / (FREQUENCY**0.75).sum()
    np.testing.assert_allclose(expected[:500], wanted[:500], rtol=0.05)
    assert expected.sum() == pytest.approx(1)


def test_blocks_without_words_have_harmless_negatives():
    dealing = arrange(np.zeros(3, np.uint16), 2)
    found = block_negatives(dealing, np.array([3, 2, 1]), np.ones(3, np.float32), 0.75, 64, random.key(1))
    assert not found.tables[1].any()
    assert found.weights[1] == 1
    assert found.heaviest[0] == pytest.approx(3**0.75 / (3**0.75 + 2**0.75 + 1))


def test_nearly_all_words_of_a_large_vocabulary_are_negatives_in_each_step():
    frequency = np.maximum(5, 1_000_000 // np.arange(1, 68_001))
    dealing = arrange(deal(frequency.astype(float), 8, random.key(1), BLOCK_ROWS), 8)
    rows = np.diff(dealing.bounds)
    size = table_size(rows.max())
    found = block_negatives(dealing, frequency, np.ones(68_000, np.float32), 0.75, size, random.key(2))
    for block in range(8):
        assert len(np.unique(found.tables[block])) > 0.97 * rows[block]


def test_tables_of_negatives_have_a_smallest_and_a_largest_size():
    assert [table_size(rows) for rows in (0, 2048, 2049, 8483, 65_536)] == [1 << 15, 1 << 15, 1 << 16, 1 << 18, 1 << 20]
