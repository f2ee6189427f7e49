"""Multiplicative updates against their formulas."""

import numpy as np
import pytest
from corpusmill.kernels.nmf import solvers
from corpusmill.kernels.nmf.products import SparseRows
from helpers.nmf_cases import random_problem


def test_a_multiplicative_update_is_its_formula():
    A, W, H = random_problem(30, 20, 5)
    R, S = A @ W, W.T @ W
    np.testing.assert_allclose(solvers.multiplicative_update(H, R, S), H * R / (H @ S), rtol=1e-12)


def test_ratios_and_divergence_of_kullback_leibler_are_their_formulas():
    A, W, H = random_problem(30, 20, 5)
    rows = SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data)
    ratio = np.zeros_like(A.data)
    logarithms = solvers.kullback_leibler_ratios(rows, H, W, ratio)
    documents, words = A.nonzero()
    expected = A.data / (H @ W.T)[documents, words]
    np.testing.assert_allclose(ratio, expected, rtol=1e-12)
    assert logarithms == pytest.approx(np.sum(A.data * np.log(expected)))
