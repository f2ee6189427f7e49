"""How words are dealt to blocks."""

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.dealing import deal

MASS = np.minimum(1e6 / np.arange(1, 5001), 3e4)
MOST = 1 << 16


@pytest.mark.parametrize("n_blocks", [1, 8, 32])
def test_blocks_have_equal_masses(n_blocks):
    blocks = deal(MASS, n_blocks, random.key(1), MOST)
    masses = np.bincount(blocks, MASS, n_blocks)
    assert masses.max() < 1.01 * masses.mean()


def test_each_seed_deals_differently_and_each_repetition_equally():
    first, again, other = (deal(MASS, 8, random.key(seed), MOST) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.mean(first == other) < 0.3


def test_words_without_mass_are_dealt_evenly():
    blocks = deal(np.zeros(80), 8, random.key(1), MOST)
    assert (np.bincount(blocks) == 10).all()


def test_more_words_than_blocks_can_hold_are_refused_and_a_full_block_is_skipped():
    with pytest.raises(ValueError, match=r"1 blocks hold 65,536 words, fewer than 65,537: take more"):
        deal(np.ones(65_537), 1, random.key(1), MOST)
    heavy_first = np.r_[1e9, np.ones(65_600)]
    assert np.bincount(deal(heavy_first, 2, random.key(1), MOST)).tolist() == [65, 65_536]
