"""Deal words to blocks of equal mass, so that the cells of a grid that are trained at the same time are equally long.

Each block gets frequent and rare words. Tests: tests/kernels/test_dealing.py.
"""

import numpy as np

from .jit import kernel
from .random import stream

#: Masses are multiplied by a random number between these two before words are sorted.
NOISE = (0.7, 1.3)


def deal(mass: np.ndarray, n_blocks: int, key: np.uint64, most_words: int) -> np.ndarray:
    """Return the block of each word: (V,) uint16, for the mass of each word (V,). No block has over ``most_words``.

    Words are dealt in the order of falling mass, each to the block that has the least mass so far. Noise on the masses
    makes neighbours in that order differ from seed to seed.
    """
    if len(mass) > n_blocks * most_words:
        raise ValueError(f"{n_blocks} blocks hold {n_blocks * most_words:,} words, fewer than {len(mass):,}: take more")
    low, high = NOISE
    noise = low + (high - low) * (stream(key, len(mass)) >> np.uint64(11)) / 2.0**53
    order = np.argsort(-mass * noise, kind="stable")
    return _deal_in_order(order, mass.astype(np.float64), n_blocks, most_words)


@kernel
def _deal_in_order(order: np.ndarray, mass: np.ndarray, n_blocks: int, most_words: int) -> np.ndarray:
    """Return the block of each word: (V,) uint16. The words are dealt in the order (V,) int64."""
    blocks = np.empty(len(order), np.uint16)
    words = np.zeros(n_blocks, np.int64)
    totals = np.zeros(n_blocks)
    for word in order:
        lightest = -1
        for block in range(n_blocks):
            if words[block] == most_words:
                continue
            # Equal masses go to the block with fewer words, and then to the first.
            if (
                lightest < 0
                or totals[block] < totals[lightest]
                or (totals[block] == totals[lightest] and words[block] < words[lightest])
            ):
                lightest = block
        blocks[word] = lightest
        words[lightest] += 1
        totals[lightest] += mass[word]
    return blocks
