"""FAST-HALS as the papers write it down, against the slow version of Algorithm 1."""

import pytest
from helpers.naive import nmf_fast_hals
from helpers.nmf_cases import agree, planted_problem

from benchmarks.papers import nmf_sweeps


@pytest.mark.parametrize("K", [1, 7, 24])
@pytest.mark.parametrize("T", [1, 3, 8, 24])
def test_three_phases_make_the_iterates_of_algorithm_1(T, K):
    A, W, H = planted_problem(60, 47, K)
    A = A.toarray()
    for expected_W, expected_H in nmf_fast_hals(A.T, W, H.T, 20):
        nmf_sweeps.update_in_phases(H, A @ W, W.T @ W, min(T, K), False)
        nmf_sweeps.update_in_phases(W, A.T @ H, H.T @ H, min(T, K), True)
        agree(W, expected_W, 1e-10)
        agree(H, expected_H.T, 1e-10)


def test_one_product_per_column_makes_the_iterates_of_algorithm_1():
    A, W, H = planted_problem(60, 47, 9)
    A = A.toarray()
    for expected_W, expected_H in nmf_fast_hals(A.T, W, H.T, 20):
        nmf_sweeps.update_by_columns(H, A @ W, W.T @ W, False)
        nmf_sweeps.update_by_columns(W, A.T @ H, H.T @ H, True)
        agree(W, expected_W, 1e-10)
        agree(H, expected_H.T, 1e-10)
