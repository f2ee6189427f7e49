"""Block principal pivoting against the conditions of a minimum."""

import numpy as np
import pytest
from helpers.nmf_cases import random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.papers.kernels import pivoting


@pytest.mark.parametrize("K", [1, 4, 12])
def test_pivoting_ends_at_a_minimum(K):
    A, W, _ = random_problem(40, 30, K)
    R, S = (A @ W) - 0.5, W.T @ W
    X = pivoting.block_principal_pivoting(R, S)
    gradient = X @ S - R
    assert X.min() >= 0
    # At a minimum, the gradient is zero where x > 0 and nowhere negative.
    assert np.abs(gradient[X > 0]).max(initial=0) < 1e-9
    assert gradient[X == 0].min(initial=0) > -1e-9
    assert (X == 0).any()


@settings(max_examples=20)
@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 99))
def test_pivoting_meets_the_conditions_of_a_minimum(n, K, seed):
    rng = np.random.default_rng(seed)
    Y = rng.random((20, K))
    S, R = Y.T @ Y, rng.standard_normal((n, K))
    X = pivoting.block_principal_pivoting(R, S)
    slope = X @ S - R
    assert X.min() >= 0
    assert slope.min() > -1e-7
    assert np.abs(X * slope).max() < 1e-7 * max(1, np.abs(X).max())
