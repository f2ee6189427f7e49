"""FAST-HALS tile by tile against Algorithm 1, and the width of its tiles against the papers."""

import pytest
from corpusmill.kernels.nmf import tiled as nmf_tiled
from helpers.nmf_cases import assert_iterates


@pytest.mark.parametrize("K", [1, 7, 24])
@pytest.mark.parametrize("T", [1, 3, 5, 8, 24])
def test_tiles_of_any_size_make_the_iterates_of_algorithm_1(T, K):
    assert_iterates(lambda X, P, Q, normalise: nmf_tiled.update(X, P, Q, min(T, K), normalise), K)


def test_tile_widths_are_those_of_the_paper():
    found = [nmf_tiled.best_tile(K, 35 << 20) for K in (80, 160, 240)]
    assert found == pytest.approx([8.94, 12.64, 15.48], abs=0.02)
    assert nmf_tiled.tile_size(256, 33e6) == 16
