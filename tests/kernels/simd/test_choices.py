"""Choices among the entries of a row against NumPy. Caches are off, so that each run compiles the code under test."""

import numpy as np
import pytest
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.simd.choices import (
    MOST,
    choose,
    index_of,
    one_hot,
    prefetch_entries,
    row_shape,
    spread,
    to_floats,
    to_integers,
    where,
)
from corpusmill.kernels.simd.lanes import LANES
from corpusmill.kernels.simd.rows import load_row, store_row
from helpers.lda_cases import chi_square

compiled = kernel(cache=False)
#: The greatest uniform number with 24 bits.
ALMOST_ONE = np.float32(1 - 2.0**-24)


@compiled
def chosen(weights, uniforms, shape, out):
    """Write the index that each uniform number chooses, and that of each mask in floats, with -1 for two bits."""
    row = load_row(weights, 0, shape)
    bits = np.zeros(len(weights), np.float32)
    for i in range(len(uniforms)):
        mask = choose(row, uniforms[i])
        out[i] = index_of(mask)
        store_row(where(mask, spread(np.float32(1), shape), spread(np.float32(0), shape)), bits, 0, shape)
        if bits.sum() != 1 or bits[out[i]] != 1:
            out[i] = -1


def choices(weights, uniforms):
    out = np.zeros(len(uniforms), np.int64)
    chosen(weights, uniforms, row_shape(len(weights)), out)
    return out


@pytest.mark.parametrize("n", [1, 8, 9, 40, MOST])
def test_shapes_have_whole_vectors(n):
    shape = row_shape(n)
    assert shape.columns % LANES == 0
    assert n <= shape.columns < n + LANES
    assert shape.n * shape.width == shape.columns


@pytest.mark.parametrize("n", [8, 16, 40, MOST])
def test_a_choice_is_the_interval_of_the_uniform_number(n):
    rng = np.random.default_rng(n)
    weights = rng.gamma(0.3, size=n).astype(np.float32)
    uniforms = rng.random(2_000, np.float32)
    lanes_first = np.arange(n).reshape(-1, LANES).T.ravel()
    ends = np.cumsum(weights[lanes_first].astype(float))
    expected = lanes_first[np.searchsorted(ends, uniforms * ends[-1], "right")]
    # A uniform number beside a bound may choose the next interval: sums are rounded.
    assert np.mean(choices(weights, uniforms) == expected) > 0.999


@pytest.mark.parametrize("n", [8, 24, MOST])
def test_probabilities_are_in_proportion_to_the_weights(n):
    rng = np.random.default_rng(n)
    weights = rng.gamma(0.5, size=n).astype(np.float32)
    draws = 40_000
    found = choices(weights, rng.random(draws, np.float32))
    expected = weights.astype(float) / weights.sum(dtype=float) * draws
    assert chi_square(np.bincount(found, minlength=n), expected) > 1e-4


@pytest.mark.parametrize("n", [8, 24, MOST])
def test_exactly_one_entry_is_chosen_whatever_rounding_does(n):
    rng = np.random.default_rng(0)
    edges = np.array([0, ALMOST_ONE], np.float32)
    for _ in range(300):
        # Sums of numbers of such different sizes are rounded, in each order in another way.
        weights = np.exp(rng.normal(0, 12, n)).astype(np.float32)
        weights[rng.random(n) < 0.3] = 0
        ends = np.cumsum(weights.reshape(-1, LANES).sum(axis=0, dtype=np.float32), dtype=np.float32)
        bounds = np.minimum(ends / max(ends[-1], 1e-30), ALMOST_ONE).astype(np.float32)
        assert (choices(weights, np.r_[edges, bounds, rng.random(20, np.float32)]) >= 0).all()


@pytest.mark.parametrize("entry", [0, 7, 11, 23])
def test_an_entry_that_has_all_the_weight_is_always_chosen(entry):
    weights = np.zeros(24, np.float32)
    weights[entry] = 3
    uniforms = np.array([0, 0.3, ALMOST_ONE], np.float32)
    np.testing.assert_array_equal(choices(weights, uniforms), entry)


def test_operators_apply_to_each_pair_of_entries():
    @compiled
    def combine(a, b, shape, out):
        prefetch_entries(a, 8, shape)
        x, y = load_row(a, 8, shape), load_row(b, 0, shape)
        store_row(x * y - x / (y + spread(np.float32(1), shape)), out, 0, shape)

    rng = np.random.default_rng(0)
    a, b, out = rng.random(32, np.float32), rng.random(24, np.float32), np.zeros(24, np.float32)
    combine(a, b, row_shape(20), out)
    np.testing.assert_array_equal(out, a[8:] * b - a[8:] / (b + np.float32(1)))


def test_integers_are_added_at_one_index_and_converted():
    @compiled
    def combine(a, index, shape, out):
        x = load_row(a, 0, shape)
        there = one_hot(index, shape)
        y = where(there, x - spread(np.int32(5), shape), x + spread(np.int32(1), shape))
        store_row(to_floats(y), out, 0, shape)
        return index_of(there)

    a, out = np.arange(-9, 7, dtype=np.int32), np.zeros(16, np.float32)
    assert combine(a, 13, row_shape(16), out) == 13
    np.testing.assert_array_equal(out, np.where(np.arange(16) == 13, a - 5, a + 1))


def test_integers_in_floats_become_integers():
    @compiled
    def convert(a, shape, out):
        store_row(to_integers(load_row(a, 0, shape)), out, 0, shape)

    a, out = np.arange(-9, 7, dtype=np.float32), np.zeros(16, np.int32)
    convert(a, row_shape(16), out)
    np.testing.assert_array_equal(out, a)
