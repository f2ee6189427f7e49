"""FAST-HALS of ALO-NMF against Algorithm 1, for H in blocks of rows and for W in tiles; the width of its tiles."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill.kernels.nmf import hals, products
from helpers.naive import nmf_fast_hals
from helpers.nmf_cases import agree, assert_iterates, planted_problem, random_problem

from benchmarks.papers.kernels import tiled


def epoch(A, W, H):
    """One epoch in place: H in blocks of rows, W in tiles."""
    K = W.shape[1]
    rows = products.SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data)
    P, Q = np.zeros_like(W), np.zeros((K, K))
    rule, scratch = tiled.rule_of_documents(W.T @ W, W.dtype), hals.make_scratch(K, W.dtype)
    H[:] = hals.sweep_sparse(products.sparse_matrix(rows, len(W)), W, rule, H, P, Q, 1, scratch)
    tiled.update(W, P, hals.symmetric(Q), 8, True)


@pytest.mark.parametrize("K", [1, 7, 24])
@pytest.mark.parametrize("T", [1, 3, 5, 8, 24])
def test_tiles_of_any_size_make_the_iterates_of_algorithm_1(T, K):
    assert_iterates(lambda X, P, Q, normalise: tiled.update(X, P, Q, min(T, K), normalise), K)


@pytest.mark.parametrize("K", [1, 6, 24, 37])
def test_blocks_and_tiles_make_the_iterates_of_algorithm_1(K):
    A, W, H = planted_problem(131, 90, K)
    for expected_W, expected_H in nmf_fast_hals(A.toarray().T, W, H.T, 20):
        epoch(A, W, H)
        agree(W, expected_W, 1e-10)
        agree(H, expected_H.T, 1e-10)


def test_entries_that_become_zero_get_the_epsilon_of_the_paper():
    A, W, H = random_problem(30, 20, 4)
    A = scipy.sparse.csr_matrix(A.shape)
    epoch(A, W, H)
    np.testing.assert_allclose(np.linalg.norm(W, axis=0), 1, rtol=1e-12)
    assert np.isin(np.finfo(float).eps, H)


def test_tile_widths_are_those_of_the_paper():
    found = [tiled.best_tile(K, 35 << 20) for K in (80, 160, 240)]
    assert found == pytest.approx([8.94, 12.64, 15.48], abs=0.02)
    assert tiled.tile_size(256, 33e6) == 16
