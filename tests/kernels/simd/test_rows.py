"""Rows in registers against NumPy. Caches are off, so that each run compiles the code."""

import numpy as np
import pytest
from corpusmill.kernels.jit import kernel
from corpusmill.kernels.simd.rows import (
    MAX_VECTORS_512,
    add_multiple,
    add_multiple_to,
    load_row,
    panels,
    prefetch_row,
    store_row,
)
from corpusmill.kernels.simd.tiles import lanes

compiled = kernel(cache=False)


def test_panels_cover_each_column_once_with_full_vectors(subtests):
    for K in [*range(1, 40), 64, 80, 129, 255, 256, 1000]:
        with subtests.test(K=K):
            found = panels(K, np.float32)
            assert [panel.start for panel in found] == [0, *np.cumsum([panel.shape.columns for panel in found])][:-1]
            assert sum(panel.shape.columns for panel in found) == K
            for _, shape in found:
                assert shape.n <= MAX_VECTORS_512
                # A vector never begins before its panel, and the vectors cover it.
                assert shape.width <= min(shape.columns, lanes(np.float32))
                assert (shape.n - 1) * shape.width < shape.columns <= shape.n * shape.width


@pytest.mark.parametrize("K, dtype", [(1, np.float64), (5, np.float32), (21, np.float32), (16, np.float64)])
def test_multiples_of_rows_are_added(K, dtype):
    @compiled
    def combine(target, source, a, i, j, shape):
        prefetch_row(source, j * K, shape)
        row = add_multiple(load_row(target, i * K, shape), a, source, j * K, shape)
        store_row(row, target, i * K, shape)
        add_multiple_to(target, 0, shape, a, row)

    rng = np.random.default_rng(0)
    target, source = rng.random((4, K)).astype(dtype), rng.random((3, K)).astype(dtype)
    expected = target.copy()
    expected[1] += dtype(2) * source[2]
    expected[0] += dtype(2) * expected[1]
    (panel,) = panels(K, dtype)
    combine(target, source, dtype(2), 1, 2, panel.shape)
    np.testing.assert_allclose(target, expected, rtol=1e-6)
    np.testing.assert_array_equal(target[2:], expected[2:])
