"""Products of sparse rows against their reference implementation and against each other."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill.kernels.nmf import products
from helpers.naive import sparse_products
from helpers.nmf_cases import agree
from hypothesis import given, settings
from hypothesis import strategies as st


def rows_of(A, dtype):
    return products.SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data.astype(dtype))


# One vector, several, a remainder, and more than one panel.
@pytest.mark.parametrize("K", [1, 3, 16, 20, 37, 410])
@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_products_with_both_factors_are_sums_over_the_non_zeros(K, dtype, tolerance):
    rng = np.random.default_rng(K)
    A = scipy.sparse.random(40, 15, 0.3, "csr", random_state=K)
    W, H = rng.random((15, K)).astype(dtype), rng.random((40, K)).astype(dtype)
    R, P = np.ones_like(H), np.ones_like(W)
    products.add_products(rows_of(A, dtype), W, R)
    products.add_transposed_products(rows_of(A, dtype), H, P)
    agree(R, 1 + sparse_products(A.tocoo(), W), tolerance)
    agree(P, 1 + sparse_products(A.T.tocoo(), H), tolerance)


@pytest.mark.parametrize("D, V", [(50, 10), (10, 50)])
def test_both_orders_of_the_product_with_the_columns_agree_bit_for_bit(D, V):
    rng = np.random.default_rng(D)
    rows = rows_of(scipy.sparse.random(D, V, 0.5, "csr", random_state=D), np.float32)
    H = rng.random((D, 20), np.float32)
    found = []
    for add in (
        lambda P: products.add_products(products.transposed(rows, V), H, P),
        lambda P: products.add_transposed_products(rows, H, P),
        lambda P: products.add_column_products(products.sparse_matrix(rows, V), H, P),
    ):
        P = np.ones((V, 20), np.float32)
        add(P)
        found.append(P)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("K", [1, 20, 37, 410])
def test_finished_products_have_the_bits_of_a_sum_of_two_products(K):
    rng = np.random.default_rng(K)
    # Most rows have no entry.
    rows = rows_of(scipy.sparse.random(60, 15, 0.05, "csr", random_state=K), np.float32)
    X, before = rng.random((15, K), np.float32), rng.random((60, K), np.float32)
    product = np.zeros((60, K), np.float32)
    products.add_products(rows, X, product)
    found = before.copy()
    products.add_finished_products(rows, X, found)
    np.testing.assert_array_equal(found, before + product)


def test_a_column_of_the_product_does_not_depend_on_the_other_columns():
    rng = np.random.default_rng(0)
    rows = rows_of(scipy.sparse.random(30, 20, 0.5, "csr", random_state=0), np.float32)
    W = rng.random((20, 70), np.float32)
    together = np.zeros((30, 70), np.float32)
    products.add_products(rows, W, together)
    for columns in (slice(0, 20), slice(20, 23), slice(23, 70)):
        alone = np.zeros((30, columns.stop - columns.start), np.float32)
        products.add_products(rows, np.ascontiguousarray(W[:, columns]), alone)
        np.testing.assert_array_equal(together[:, columns], alone)


@given(st.integers(0, 40), st.integers(1, 30), st.integers(0, 99))
@settings(max_examples=20)
def test_sparse_rows_are_transposed(D, V, seed):
    A = scipy.sparse.random(D, V, 0.3, "csr", random_state=seed)
    expected = A.tocsc()
    found = products.transposed(rows_of(A, np.float32), V)
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data, expected.data.astype(np.float32))


@pytest.mark.parametrize("wrong", [np.asfortranarray, lambda X: X[:, ::2], lambda X: X.astype(np.float64)])
def test_factors_in_another_layout_or_of_another_type_are_refused(wrong):
    A = scipy.sparse.random(6, 5, 0.5, "csr", np.float32, random_state=0)
    rows = products.SparseRows(A.indptr.astype(np.int64), A.indices, A.data)
    W, H = np.ones((5, 4), np.float32), np.ones((6, 4), np.float32)
    for product, X, out in ((products.add_products, W, H), (products.add_transposed_products, H, W)):
        for factors in ((wrong(X), out), (X, wrong(out))):
            with pytest.raises(ValueError, match="not a C-contiguous array of type float32"):
                product(rows, *factors)
    with pytest.raises(ValueError, match="not a C-contiguous array of type float32"):
        products.add_column_products(products.sparse_matrix(rows, 5), wrong(H), W)
