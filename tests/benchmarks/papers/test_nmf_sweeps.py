"""FAST-HALS as the papers write it down, against the slow version of Algorithm 1."""

import pytest
from helpers.nmf_cases import assert_iterates

from benchmarks.papers import nmf_sweeps


@pytest.mark.parametrize("K", [1, 7, 24])
@pytest.mark.parametrize("T", [1, 3, 8, 24])
def test_three_phases_make_the_iterates_of_algorithm_1(T, K):
    assert_iterates(lambda X, P, Q, normalise: nmf_sweeps.update_in_phases(X, P, Q, min(T, K), normalise), K)


def test_one_product_per_column_makes_the_iterates_of_algorithm_1():
    assert_iterates(nmf_sweeps.update_by_columns, 9)
