"""Tiles of sums, aligned arrays and prefetches against NumPy. Caches are off, so that each run compiles the code."""

import numpy as np
import pytest
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.simd.aligned import CACHE_LINE_BYTES, empty_aligned
from corpusmill.kernels.simd.prefetch import prefetch
from corpusmill.kernels.simd.tiles import ROWS, add_to, descend, lanes, multiply_add, transpose, zeros

compiled = kernel(cache=False)
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def random(shape, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@both_types
def test_a_loop_of_outer_products_is_a_matrix_product(dtype):
    @compiled
    def product(a, b, out, n, stride):
        tile = zeros(a, 2)
        for k in range(n):
            tile = multiply_add(tile, a, k * 4, b, k * stride)
        add_to(tile, out, 0, stride)

    n, width = 7, 2 * lanes(dtype)
    a, b, out = random((n, ROWS), dtype, 1), random((n, width), dtype, 2), random((ROWS, width), dtype, 3)
    expected = out + a.T.astype(float) @ b
    product(a, b, out, n, width)
    np.testing.assert_allclose(out, expected, atol=1e-5 if dtype == np.float32 else 1e-13)


@both_types
def test_descent_sets_four_rows_each_seeing_those_before_it(dtype):
    @compiled
    def sweep(s, x, p, rows, keep, step, floor, width, K, gradients):
        tile = zeros(x, 1)
        for k in range(K):
            tile = multiply_add(tile, rows, k * 4, x, k * width)
        descend(tile, x, p, 0, s, 0, keep, step, 0, floor, gradients)

    K, width = ROWS, lanes(dtype)
    S = random((K, K), dtype, 1)
    S = S + S.T
    x, p = np.abs(random((K, width), dtype, 2)), random((K, width), dtype, 3)
    keep, step = random(K, dtype, 4), random(K, dtype, 5)
    x[0, ::2] = 0
    expected, gradients, expected_gradients = x.astype(float), np.ones(width, dtype), np.ones(width)
    for k in range(K):
        slope = p[k] - S[k] @ expected
        expected_gradients += np.where(expected[k] == 0, np.maximum(slope, 0), np.abs(slope))
        expected[k] = np.maximum(0.1, keep[k] * expected[k] + step[k] * (p[k] - S[k] @ expected))
    # The rows of S side by side, as `update_rule` packs them. S is symmetric.
    sweep(S.ravel(), x, p, S, keep, step, dtype(0.1), width, K, gradients)
    np.testing.assert_allclose(gradients, expected_gradients, rtol=1e-4 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(x, expected, atol=1e-4 if dtype == np.float32 else 1e-12)


@both_types
def test_a_square_of_one_register_is_transposed(dtype):
    @compiled
    def turn(source, target, i, j, source_stride, target_stride):
        transpose(source, i, source_stride, target, j, target_stride)

    width = lanes(dtype)
    source, target = random((width, width + 3), dtype), np.zeros((width, width + 1), dtype)
    turn(source, target, 3, 1, width + 3, width + 1)
    np.testing.assert_array_equal(target[:, 1:], source[:, 3:].T)
    assert not target[:, 0].any()


@pytest.mark.parametrize("shape", [(1,), (3, 5), (7, 64)])
def test_aligned_arrays_begin_with_a_cache_line(shape):
    for _ in range(5):
        array = empty_aligned(shape, np.float32)
        assert array.ctypes.data % CACHE_LINE_BYTES == 0
        assert array.shape == shape and array.dtype == np.float32 and array.flags.c_contiguous


def test_a_prefetch_changes_nothing_even_out_of_range():
    @compiled
    def total(a):
        found = 0.0
        for i in range(len(a)):
            prefetch(a, i + 1_000_000)
            found += a[i]
        return found

    assert total(np.arange(10.0)) == 45
