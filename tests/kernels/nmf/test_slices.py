"""Products with slices against their reference implementation, and against those of `products`."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill.kernels.nmf import products, slices
from helpers.naive import sparse_products
from helpers.nmf_cases import agree
from hypothesis import given, settings
from hypothesis import strategies as st


def rows_of(A, dtype=np.float32):
    return products.SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data.astype(dtype))


def both_products(A, W, H, dtype=np.float32):
    """Return 1 + A·W and 1 + AᵀH, computed with slices."""
    matrix = slices.sliced(rows_of(A, dtype), A.shape[1], W.shape[1])
    R, P = np.ones_like(H), np.ones_like(W)
    slices.add_row_products(matrix, 0, len(H), W, R)
    slices.add_column_products(matrix, H, P)
    return R, P


# One number, a remainder, and more than one panel.
@pytest.mark.parametrize("K", [1, 37, 210])
@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_products_are_sums_over_the_non_zeros(K, dtype, tolerance):
    rng = np.random.default_rng(K)
    A = scipy.sparse.random(41, 15, 0.3, "csr", random_state=K)
    W, H = rng.random((15, K)).astype(dtype), rng.random((41, K)).astype(dtype)
    R, P = both_products(A, W, H, dtype)
    agree(R, 1 + sparse_products(A.tocoo(), W), tolerance)
    agree(P, 1 + sparse_products(A.T.tocoo(), H), tolerance)


@given(st.integers(1, 90), st.integers(1, 70), st.floats(0, 1), st.integers(1, 40), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_slices_give_the_bits_of_the_other_order(D, V, density, tile, seed):
    rng = np.random.default_rng(seed)
    A = scipy.sparse.random(D, V, density, "csr", np.float32, random_state=seed)
    W, H = rng.random((V, 5), np.float32), rng.random((D, 5), np.float32)
    with pytest.MonkeyPatch.context() as patch:
        # Small tiles and blocks, so that a small matrix has several of each.
        patch.setattr(slices, "tile_columns", lambda K, dtype: tile)
        patch.setattr(slices, "BLOCK_ROWS", 16)
        R, P = both_products(A, W, H)
    expected_R, expected_P = np.ones_like(H), np.ones_like(W)
    products.add_products(rows_of(A), W, expected_R)
    products.add_transposed_products(rows_of(A), H, expected_P)
    np.testing.assert_array_equal(R, expected_R)
    np.testing.assert_array_equal(P, expected_P)


def test_some_blocks_of_rows_are_multiplied_alone():
    n = 2 * slices.BLOCK_ROWS + 50
    A = scipy.sparse.random(n, 30, 0.2, "csr", np.float32, random_state=0)
    W = np.random.default_rng(0).random((30, 4), np.float32)
    matrix = slices.sliced(rows_of(A), 30, 4)
    expected = np.zeros((n, 4), np.float32)
    products.add_products(rows_of(A), W, expected)
    for first, stop in ((0, slices.BLOCK_ROWS), (slices.BLOCK_ROWS, n)):
        R = np.zeros((stop - first, 4), np.float32)
        slices.add_row_products(matrix, first, stop, W, R)
        np.testing.assert_array_equal(R, expected[first:stop])


def test_a_number_that_is_not_finite_stays_in_its_rows():
    # Entries that fill up a slice must not meet it.
    A = scipy.sparse.csr_array(np.array([[1, 1, 0], [0, 0, 1], [0, 1, 1]], np.float32))
    W = np.array([[np.inf], [1], [2]], np.float32)
    R, _ = both_products(A, W, np.ones((3, 1), np.float32))
    assert R[:, 0].tolist() == [np.inf, 3, 4]


def test_slices_are_for_matrices_with_many_non_zeros():
    dense = rows_of(scipy.sparse.random(300, 200, 0.1, "csr", random_state=0))
    sparse = rows_of(scipy.sparse.random(300, 200, 0.01, "csr", random_state=0))
    assert slices.pays_off(dense, 200, 20)
    assert not slices.pays_off(sparse, 200, 20)
    assert not slices.pays_off(rows_of(scipy.sparse.csr_array((0, 200))), 200, 20)


@pytest.mark.parametrize("wrong", [np.asfortranarray, lambda X: X.astype(np.float64)])
def test_factors_in_another_layout_or_of_another_type_are_refused(wrong):
    matrix = slices.sliced(rows_of(scipy.sparse.random(6, 5, 0.5, "csr", random_state=0)), 5, 4)
    with pytest.raises(ValueError, match="not a C-contiguous array of type float32"):
        slices.add_row_products(matrix, 0, 6, wrong(np.ones((5, 4), np.float32)), np.ones((6, 4), np.float32))
    with pytest.raises(ValueError, match="not a C-contiguous array of type float32"):
        slices.add_column_products(matrix, np.ones((6, 4), np.float32), wrong(np.ones((5, 4), np.float32)))
