"""The numbers of blocks, commits and passes of training by strata.

They do not depend on the cluster, so that results do not either. The constants were measured with
``benchmarks/word2vec``.
"""

import math
from typing import NamedTuple

import numpy as np

from ....kernels.word2vec.dealing import BLOCK_ROWS

#: Number of blocks, for less than and from this number of tokens in all epochs. Eight blocks cost less time than 16
#: and give vectors of the same quality, but only eight tasks run at the same time.
LARGE_TOKENS = 100_000_000
SMALL_BLOCKS = 8
LARGE_BLOCKS = 16
#: Minimum number of words of a block, on average.
BLOCK_WORDS = 64
#: Minimum number of pairs of a cell, on average. Below it, the overhead of a cell counts.
CELL_PAIRS = 2_000
#: Minimum number of passes of a training, and of an epoch. Fewer passes cost quality, above all for analogies.
MIN_PASSES = 32
MIN_EPOCH_PASSES = 2
#: Maximum number of tokens of a pass, and of pairs between two commits, for up to SMALL_BLOCKS blocks. A pair takes 4
#: bytes. More blocks are for more workers, and these need more work between two exchanges and between two commits. So
#: the tokens grow with the number of blocks. The pairs grow with its power STEP_GROWTH, because a commit takes longer
#: with more workers, up to MAX_STEP_PAIRS, because one worker may have to keep all of them.
PASS_TOKENS = 4_000_000
STEP_PAIRS = 1 << 25
STEP_GROWTH = 1.5
MAX_STEP_PAIRS = 1 << 28


class GridSize(NamedTuple):
    """The size of the grid and the number of times that it is trained."""

    n_blocks: int
    rounds: int  # commits per epoch
    passes: int  # passes per commit


def grid_size(
    mass: np.ndarray, n_tokens: int, n_shards: int, epochs: int, window: int, n_blocks: int | None
) -> GridSize:
    """Return the size of the grid for words of the given mass (V,), their expected number of kept occurrences.

    ``n_blocks`` is the user's choice, or None.
    """
    pairs = float(mass.sum()) * (window + 1)
    if n_blocks is None:
        size = _commits_and_passes(pairs, n_tokens, n_shards, epochs, SMALL_BLOCKS)
        n_blocks = _default_blocks(mass, n_tokens * epochs, pairs / (size.rounds * size.passes))
    return _commits_and_passes(pairs, n_tokens, n_shards, epochs, n_blocks)


def _commits_and_passes(pairs: float, n_tokens: int, n_shards: int, epochs: int, n_blocks: int) -> GridSize:
    """Return the size of the grid for this number of blocks, and of pairs and tokens of an epoch."""
    growth = max(1, n_blocks / SMALL_BLOCKS)
    step_pairs = min(STEP_PAIRS * growth**STEP_GROWTH, MAX_STEP_PAIRS)
    rounds = max(1, min(n_shards, math.ceil(pairs / step_pairs)))
    wanted = max(MIN_PASSES / epochs, MIN_EPOCH_PASSES, n_tokens / (PASS_TOKENS * growth))
    return GridSize(n_blocks, rounds, math.ceil(wanted / rounds))


def _default_blocks(mass: np.ndarray, tokens: int, pass_pairs: float) -> int:
    """Return a power of two, for the tokens of all epochs and the pairs of a pass."""
    if tokens < LARGE_TOKENS:
        largest = SMALL_BLOCKS
    else:
        largest = LARGE_BLOCKS
    # A word that is heavier than a block would leave the other blocks waiting.
    heaviest = float(mass.max() / mass.sum())
    limits = (largest, len(mass) / BLOCK_WORDS, 1 / heaviest, math.sqrt(pass_pairs / CELL_PAIRS))
    n_blocks = 1
    while 2 * n_blocks <= min(limits):
        n_blocks *= 2
    # A block has a maximum number of rows.
    while n_blocks * BLOCK_ROWS < len(mass):
        n_blocks *= 2
    return n_blocks
