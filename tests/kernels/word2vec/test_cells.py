"""Training of one cell against the reference implementation, and its safety in tiny vocabularies."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.dealing import deal
from corpusmill.kernels.simd import tiles
from corpusmill.kernels.word2vec.cells import CellOptions, train_cell
from corpusmill.kernels.word2vec.dealing import BLOCK_ROWS, arrange, block_negatives
from corpusmill.kernels.word2vec.pairs import split_pairs
from corpusmill.kernels.word2vec.text import first_vectors, padded
from helpers import naive_cells
from helpers.narrow_registers import NARROW


def make_block(n_rows, dimension, seed):
    W = np.zeros((n_rows, padded(dimension)), np.float32)
    W[:, :dimension] = np.random.default_rng(seed).normal(0, 0.3, (n_rows, dimension))
    return W


def make_pairs(n, n_centres, n_contexts, skew, seed=0):
    """Return n pairs sorted by centre; the larger ``skew``, the more have the first centre."""
    rng = np.random.default_rng(seed)
    centres = np.sort(np.minimum(rng.geometric(skew, n) - 1, n_centres - 1))
    return (centres << 16 | rng.integers(0, n_contexts, n)).astype(np.uint32)


def make_options(heaviest=0.01, weight=1.3, alpha=0.05):
    return CellOptions(5, weight, heaviest, alpha, 1e-5, 0.04, random.key(3))


@pytest.mark.parametrize("dimension", [3, 128, 130])
@pytest.mark.parametrize(
    ("n", "n_centres", "skew", "heaviest", "alpha"),
    [
        (1, 5, 0.5, 0.01, 0.05),
        (7, 3, 0.5, 0.01, 0.05),
        (900, 300, 0.005, 0.01, 0.05),
        (900, 300, 0.005, 0.2, 0.05),
        (700, 200, 0.2, 0.3, 0.05),
        (700, 200, 0.2, 0.3, 0.2),
    ],
    ids=["one pair", "few pairs", "light centres", "short batches", "heavy centres", "large learning rate"],
)
def test_a_cell_is_trained_as_by_the_reference_implementation(n, n_centres, skew, heaviest, alpha, dimension):
    pairs, options = make_pairs(n, n_centres, 50, skew), make_options(heaviest, alpha=alpha)
    table = np.random.default_rng(1).integers(0, 50, 64).astype(np.uint16)
    W_in, W_out = make_block(n_centres, dimension, 1), make_block(50, dimension, 2)
    wanted = W_in.astype(float), W_out.astype(float)

    def rate(done):
        return max(options.min_alpha, options.alpha - options.slope * done)

    listed = [(int(pair) >> 16, int(pair) & 0xFFFF) for pair in pairs]
    naive_cells.train_cell(listed, *wanted, table.tolist(), 5, options.weight, heaviest, rate, int(options.key))
    train_cell(W_in, W_out, pairs, table, options)
    for found, expected in zip((W_in, W_out), wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)
        assert not found[:, dimension:].any()


def test_a_cell_without_pairs_changes_nothing():
    W_in, W_out = make_block(3, 64, 1), make_block(3, 64, 2)
    before = W_in.copy(), W_out.copy()
    train_cell(W_in, W_out, np.empty(0, np.uint32), np.zeros(64, np.uint16), make_options())
    np.testing.assert_array_equal(W_in, before[0])
    np.testing.assert_array_equal(W_out, before[1])


def test_a_block_may_be_a_view_of_the_whole_matrix():
    pairs, table = make_pairs(500, 50, 50, 0.1), np.arange(32, dtype=np.uint16)
    whole = make_block(100, 64, 1), make_block(120, 64, 2)
    blocks = whole[0][50:].copy(), whole[1][:50].copy()
    train_cell(whole[0][50:], whole[1][:50], pairs, table, make_options())
    train_cell(*blocks, pairs, table, make_options())
    np.testing.assert_array_equal(whole[0][50:], blocks[0])
    np.testing.assert_array_equal(whole[1][:50], blocks[1])


def train_random_text(n_words, exponent, n_blocks, alpha, n_tokens=4000, rounds=8):
    """Train a text of random words, of which word k is drawn in proportion to k^-exponent; return W_in and W_out."""
    shares = np.arange(1, n_words + 1.0) ** -exponent
    words = np.random.default_rng(0).choice(n_words, n_tokens, p=shares / shares.sum()).astype(np.uint32)
    frequency = np.maximum(np.bincount(words, minlength=n_words), 1)
    keep = np.ones(n_words, np.float32)
    dealing = arrange(deal(frequency, n_blocks, random.key(1), BLOCK_ROWS), n_blocks)
    negatives = block_negatives(dealing, frequency, keep, 0.75, 1 << 10, random.key(2))
    W_in, W_out = first_vectors(np.arange(n_words), 20, random.key(3)), np.zeros((n_words, padded(20)), np.float32)
    rows = [slice(a, b) for a, b in zip(dealing.bounds[:-1], dealing.bounds[1:], strict=True)]
    ptr = np.arange(0, n_tokens + 1, 20)
    pairs, counts = split_pairs(
        ptr, np.array([0, len(ptr) - 1]), words, dealing.places, keep, 5, random.key(4), random.key(5), n_blocks
    )
    cells = np.split(pairs, np.cumsum(counts)[:-1])
    for step in range(rounds):
        for s in range(n_blocks):
            for i in range(n_blocks):
                j = (i + s) % n_blocks
                key = random.key(6, step, i, j)
                options = CellOptions(5, negatives.weights[j], negatives.heaviest[j], alpha, 0.0, alpha, key)
                train_cell(W_in[rows[i]], W_out[rows[j]], cells[i * n_blocks + j], negatives.tables[j], options)
    return W_in, W_out


@pytest.mark.parametrize("alpha", [0.025, 0.2])
@pytest.mark.parametrize("exponent", [0, 1, 2])
@pytest.mark.parametrize("n_words", [1, 2, 3, 10, 50])
def test_vectors_of_tiny_vocabularies_stay_finite_and_bounded(n_words, exponent, alpha):
    for n_blocks in (1, 2, 4, 8):
        for W in train_random_text(n_words, exponent, n_blocks, alpha):
            assert abs(W).max() < 5


# Runs in a process of its own, because kernels are compiled for one width.
WIDTH = """
import sys
from corpusmill.kernels.simd import tiles
assert tiles.BITS == int(sys.argv[1])
sys.path[:0] = sys.argv[2].split(":")
import test_cells, test_skip_gram
from corpusmill.kernels.word2vec.strips import WIDTH
assert WIDTH == tiles.BITS // 32
test_cells.test_a_cell_is_trained_as_by_the_reference_implementation(700, 200, 0.2, 0.03, 0.05, 130)
test_skip_gram.test_each_method_makes_the_updates_of_its_reference_implementation("par", 5, 5, 130)
"""


@pytest.mark.slow
@pytest.mark.parametrize("bits", [256])
def test_registers_of_other_widths(bits):
    if bits >= tiles.BITS:
        pytest.skip("the other tests use the widest registers of this processor")
    environment = os.environ | NARROW[bits]
    arguments = [str(bits), f"{Path(__file__).parent}:{Path(__file__).parents[2]}"]
    subprocess.run([sys.executable, "-c", WIDTH, *arguments], check=True, env=environment)
