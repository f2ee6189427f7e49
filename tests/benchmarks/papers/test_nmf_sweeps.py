"""FAST-HALS as the papers write it down, against the slow version of Algorithm 1."""

import numpy as np
import pytest
from helpers.naive import nmf_fast_hals

from benchmarks.papers import nmf_sweeps


def problem(D, V, K):
    """A (D, V) with K parts and noise, and factors near them, so that no component dies."""
    rng = np.random.default_rng(0)
    W, H = (np.eye(K)[np.arange(n) % K] + rng.random((n, K)) / K for n in (V, D))
    A = H @ W.T + rng.random((D, V)) / K
    W = W + rng.random((V, K)) / K
    H = H + rng.random((D, K)) / K
    lengths = np.linalg.norm(W, axis=0)
    return A, W / lengths, H * lengths


def agree(found, expected):
    assert np.abs(found - expected).max() <= 1e-10 * np.abs(expected).max()


@pytest.mark.parametrize("K", [1, 7, 24])
@pytest.mark.parametrize("T", [1, 3, 8, 24])
def test_three_phases_make_the_iterates_of_algorithm_1(T, K):
    A, W, H = problem(60, 47, K)
    for expected_W, expected_H in nmf_fast_hals(A.T, W, H.T, 20):
        nmf_sweeps.update_in_phases(H, A @ W, W.T @ W, min(T, K), False)
        nmf_sweeps.update_in_phases(W, A.T @ H, H.T @ H, min(T, K), True)
        agree(W, expected_W)
        agree(H, expected_H.T)


def test_one_product_per_column_makes_the_iterates_of_algorithm_1():
    A, W, H = problem(60, 47, 9)
    for expected_W, expected_H in nmf_fast_hals(A.T, W, H.T, 20):
        nmf_sweeps.update_by_columns(H, A @ W, W.T @ W, False)
        nmf_sweeps.update_by_columns(W, A.T @ H, H.T @ H, True)
        agree(W, expected_W)
        agree(H, expected_H.T)
