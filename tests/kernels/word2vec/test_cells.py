"""Training of one cell against the reference implementation, and its safety in tiny vocabularies."""

import numpy as np
import pytest
from corpusmill.kernels import random
from corpusmill.kernels.word2vec.cells import CellOptions, batch_limit, train_cell
from corpusmill.kernels.word2vec.text import padded
from helpers import naive_cells


def make_block(n_rows, dimension, seed):
    W = np.zeros((n_rows, padded(dimension)), np.float32)
    W[:, :dimension] = np.random.default_rng(seed).normal(0, 0.3, (n_rows, dimension))
    return W


def make_pairs(n, n_centres, n_contexts, skew, seed=0):
    """Return n pairs sorted by centre; the larger ``skew``, the more have the first centre."""
    rng = np.random.default_rng(seed)
    centres = np.sort(np.minimum(rng.geometric(skew, n) - 1, n_centres - 1))
    return (centres << 16 | rng.integers(0, n_contexts, n)).astype(np.uint32)


def make_options(limit=1000, weight=1.3, alpha=0.05):
    return CellOptions(5, weight, limit, alpha, 1e-5, 0.04, random.key(3))


@pytest.mark.parametrize("dimension", [3, 128, 130])
@pytest.mark.parametrize(
    ("n", "n_centres", "skew", "limit"),
    [(1, 5, 0.5, 1000), (7, 3, 0.5, 1000), (900, 300, 0.005, 1000), (900, 300, 0.005, 30), (700, 200, 0.2, 8)],
    ids=["one pair", "few pairs", "light centres", "short batches", "heavy centres"],
)
def test_a_cell_is_trained_as_by_the_reference_implementation(n, n_centres, skew, limit, dimension):
    pairs, options = make_pairs(n, n_centres, 50, skew), make_options(limit)
    table = np.random.default_rng(1).integers(0, 50, 64).astype(np.uint16)
    W_in, W_out = make_block(n_centres, dimension, 1), make_block(50, dimension, 2)
    wanted = W_in.astype(float), W_out.astype(float)

    def rate(done):
        return max(options.min_alpha, options.alpha - options.slope * done)

    listed = [(int(pair) >> 16, int(pair) & 0xFFFF) for pair in pairs]
    naive_cells.train_cell(listed, *wanted, table.tolist(), 5, options.weight, limit, rate, int(options.key))
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


def test_the_limit_of_a_batch_falls_with_the_heaviest_share():
    assert batch_limit(0.025, 5, 0.1) == 320
    assert batch_limit(0.05, 5, 0.1) == 160
    assert batch_limit(0.1, 5, 1.0) == 8
