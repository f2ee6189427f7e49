"""FAST-HALS tile by tile against Algorithm 1, and the width of its tiles against the papers."""

import pytest
from corpusmill.kernels.nmf import tiled as nmf_tiled
from helpers.naive import nmf_fast_hals
from helpers.nmf_cases import agree, planted_problem


@pytest.mark.parametrize("K", [1, 7, 24])
@pytest.mark.parametrize("T", [1, 3, 5, 8, 24])
def test_tiles_of_any_size_make_the_iterates_of_algorithm_1(T, K):
    A, W, H = planted_problem(60, 47, K)
    A = A.toarray()
    for expected_W, expected_H in nmf_fast_hals(A.T, W, H.T, 20):
        nmf_tiled.update(H, A @ W, W.T @ W, min(T, K), False)
        nmf_tiled.update(W, A.T @ H, H.T @ H, min(T, K), True)
        agree(W, expected_W, 1e-10)
        agree(H, expected_H.T, 1e-10)


def test_tile_widths_are_those_of_the_paper():
    found = [nmf_tiled.best_tile(K, 35 << 20) for K in (80, 160, 240)]
    assert found == pytest.approx([8.94, 12.64, 15.48], abs=0.02)
    assert nmf_tiled.tile_size(256, 33e6) == 16
