"""The words of skip-gram in the order of the blocks that they were dealt to, and the negatives of blocks.

With P blocks, cell (i, j) has the pairs whose centre is in block i and whose context is in block j. It draws negatives
from its block j alone. Its pairs repel with the weight

    w_j = (share of block j in f^0.75) / (share of block j in f P(keep))

so that the expected gradient is that of negatives from the whole vocabulary, on average over all centres.

Source: the blocks of Lerer et al., "PyTorch-BigGraph" (SysML 2019), section 4.1; the weights are ours.

Layout: the place of a word is block << 16 | row in the block, for W_in and W_out alike.

Tests: tests/kernels/word2vec/test_dealing.py, against these formulas.
"""

from typing import NamedTuple

import numpy as np

from ..random import key as make_key
from .text import negative_table

#: Largest number of rows in a block: the row in a block is stored in 16 bits.
BLOCK_ROWS = 1 << 16
#: Entries of a table of negatives for each row of a block, and its smallest and largest size. Tables are kept for a
#: whole step. With fewer entries, most rare words of a large vocabulary would be in no table: during the step, their
#: vectors would be attracted and never repelled.
ENTRIES_PER_ROW = 16
MIN_TABLE = 1 << 15
MAX_TABLE = 1 << 20


class Dealing(NamedTuple):
    """The V words in the order of P blocks."""

    order: np.ndarray  # (V,) int64: the word of each row, block after block
    bounds: np.ndarray  # (P + 1,) int64: block b has the rows bounds[b]:bounds[b + 1]
    places: np.ndarray  # (V,) uint32: of each word, block << 16 | row in the block


class BlockNegatives(NamedTuple):
    """The negatives of each of P blocks."""

    tables: np.ndarray  # (P, size) uint16: rows in the block, each as often as it is drawn
    weights: np.ndarray  # (P,) float64: w_j
    heaviest: np.ndarray  # (P,) float64: the largest share of one word in the block's negatives


def arrange(blocks: np.ndarray, n_blocks: int) -> Dealing:
    """Return order, bounds and places of words for their blocks (V,) uint16; words of a block keep their order."""
    order = np.argsort(blocks, kind="stable")
    bounds = np.r_[0, np.cumsum(np.bincount(blocks, minlength=n_blocks))]
    places = np.empty(len(blocks), np.uint32)
    rows = np.arange(len(blocks)) - np.repeat(bounds[:-1], np.diff(bounds))
    places[order] = blocks[order].astype(np.uint32) << 16 | rows.astype(np.uint32)
    return Dealing(order, bounds, places)


def table_size(n_rows: int) -> int:
    """Return the size of the tables of negatives, a power of two, if the largest block has ``n_rows`` rows."""
    size = MIN_TABLE
    while size < min(ENTRIES_PER_ROW * n_rows, MAX_TABLE):
        size *= 2
    return size


def block_negatives(
    dealing: Dealing, frequency: np.ndarray, keep: np.ndarray, exponent: float, size: int, key: np.uint64
) -> BlockNegatives:
    """Return the tables of negatives of all blocks, of ``size`` entries each, and their weights.

    ``frequency`` (V,) int64 and ``keep`` (V,) float32 are of the words in their own order. Blocks without words get a
    table of zeros and the weight 1.
    """
    n_blocks = len(dealing.bounds) - 1
    drawn = frequency.astype(np.float64) ** exponent
    seen = frequency * keep.astype(np.float64)
    tables = np.zeros((n_blocks, size), np.uint16)
    weights, heaviest = np.ones(n_blocks), np.ones(n_blocks)
    for block in range(n_blocks):
        words = dealing.order[dealing.bounds[block] : dealing.bounds[block + 1]]
        if not len(words):
            continue
        block_key = make_key(int(key), block)
        tables[block] = negative_table(frequency[words], exponent, size, block_key)
        weights[block] = drawn[words].sum() / drawn.sum() * seen.sum() / max(seen[words].sum(), 1e-300)
        heaviest[block] = drawn[words].max() / drawn[words].sum()
    return BlockNegatives(tables, weights, heaviest)
