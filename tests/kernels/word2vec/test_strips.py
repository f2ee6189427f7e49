"""Strips of Word2Vec against NumPy. Caches are off, so that each run compiles the code under test."""

import numpy as np
import pytest
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.simd.tiles import zeros
from corpusmill.kernels.word2vec.row_tiles import TILE_ROWS, add_products_of_tile, store_sums_of_tile
from corpusmill.kernels.word2vec.strips import (
    STRIP,
    WIDTH,
    add_products,
    add_products_of_four,
    add_products_of_pairs,
    add_strips_to_rows,
    load_strip,
    multiply_add_strips,
    pull_strip,
    repulsions,
    store_strip,
    store_sums_of_rows,
    sum_strips,
)

compiled = kernel(cache=False)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_two_dot_products_at_a_time():
    @compiled
    def dots(a, b, c):
        total = zeros(a, 2)
        for d in range(0, len(a), STRIP):
            total = add_products(total, a, d, b, d, c + d)
        return sum_strips(total)

    n = 3 * STRIP
    a, b = random(n), random(2 * n, seed=1)
    close(dots(a, b, n), (a @ b[:n], a @ b[n:]))


def test_four_dot_products_at_a_time():
    @compiled
    def dots(a, B, rows, out):
        tile = zeros(a, 2)
        for d in range(0, len(a), STRIP):
            tile = add_products_of_four(tile, a, d, B, rows, 1, len(a), d)
        store_sums_of_rows(tile, out, 2)

    a, B, out = random(3 * STRIP), random(6, 3 * STRIP, seed=1), random(7, seed=2)
    expected = out.copy()
    expected[2:6] = B[[5, 0, 3, 3]] @ a
    dots(a, B, np.array([9, 5, 0, 3, 3], np.uint32), out)
    close(out, expected)


def test_products_of_four_pairs_of_rows():
    @compiled
    def dots(A, rows, B, others, out):
        tile = zeros(A, 2)
        for d in range(0, A.shape[1], STRIP):
            tile = add_products_of_pairs(tile, A, rows, B, others, 1, A.shape[1], d)
        store_sums_of_rows(tile, out, 2)

    A, B, out = random(4, 3 * STRIP), random(6, 3 * STRIP, seed=1), random(7, seed=2)
    expected = out.copy()
    expected[2:6] = np.sum(A[[2, 2, 0, 3]] * B[[5, 0, 3, 3]], axis=1)
    dots(A, np.array([9, 2, 2, 0, 3], np.uint32), B, np.array([9, 5, 0, 3, 3], np.uint32), out)
    close(out, expected)


def test_products_of_listed_rows_with_four_others():
    @compiled
    def products(A, rows, B, others, out):
        tile = zeros(A, TILE_ROWS)
        for d in range(0, A.shape[1], WIDTH):
            tile = add_products_of_tile(tile, A, rows, 1, B, others, 2, A.shape[1], d)
        store_sums_of_tile(tile, out, 3, out.shape[1])

    A, B, out = random(9, 3 * WIDTH), random(6, 3 * WIDTH, seed=1), random(TILE_ROWS + 1, 9, seed=2)
    rows = np.random.default_rng(3).permutation(9)[: TILE_ROWS + 1].astype(np.uint32)
    others = np.array([9, 9, 5, 0, 3, 3], np.uint32)
    expected = out.copy()
    expected[:TILE_ROWS, 3:7] = A[rows[1:]] @ B[others[2:]].T
    products(A, rows, B, others, out)
    close(out, expected)


def test_strips_are_added_to_listed_rows():
    @compiled
    def add(strip, out, rows):
        tile = multiply_add_strips(zeros(out, 3), np.ones(3, np.float32), 0, 1, strip, 0)
        add_strips_to_rows(tile, out, rows, 1, out.shape[1], STRIP)

    strip, out = random(STRIP), random(4, 2 * STRIP, seed=1)
    expected = out.copy()
    for row in (3, 0, 3):
        expected[row, STRIP:] += strip
    add(strip, out, np.array([9, 3, 0, 3], np.uint32))
    close(out, expected)


def test_two_rows_are_moved_by_the_values_that_both_had():
    @compiled
    def pull(a, b, g):
        held = load_strip(a, 0)
        store_strip(pull_strip(held, held, g, b, 0), a, 0)

    a, b, g = random(STRIP), random(STRIP, seed=1), np.float32(0.3)
    expected = a + g * b, b + g * a
    pull(a, b, g)
    close(a, expected[0])
    close(b, expected[1])


def test_a_tile_of_strips_with_a_stride_is_a_matrix_product():
    @compiled
    def product(a, b, out, rows):
        tile = zeros(out, 3)
        for k in range(a.shape[1]):
            tile = multiply_add_strips(tile, a, k, a.shape[1], b, k * STRIP)
        add_strips_to_rows(tile, out, rows, 0, STRIP, 0)

    a, b, out = random(3, 5), random(5, STRIP, seed=1), random(3, STRIP, seed=2)
    expected = out + a @ b
    product(a, b, out, np.arange(3, dtype=np.uint32))
    close(out, expected)


@pytest.mark.parametrize("scale", [0.01, 1, 20, 1000])
def test_repulsions_are_the_gradient_of_label_zero(scale):
    @compiled
    def gradient(x, alpha):
        repulsions(x, 0, alpha)

    x = scale * random(WIDTH)
    expected = -0.025 / (1 + np.exp(-np.clip(x.astype(float), -700, 700)))
    gradient(x, np.float32(0.025))
    np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-15)
