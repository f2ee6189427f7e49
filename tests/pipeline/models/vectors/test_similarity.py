"""Cosines and rankings of plain arrays."""

import numpy as np
import pytest
from corpusmill.pipeline.models.vectors import similarity
from corpusmill.pipeline.models.vectors.similarity import row_lengths, top_indices, unit_vector
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays


@given(arrays(np.float32, st.integers(0, 200), elements=st.integers(-3, 3)), st.integers(0, 40))
def test_top_indices_are_a_stable_sort(scores, n):
    np.testing.assert_array_equal(top_indices(scores, n), np.argsort(-scores, kind="stable")[:n])


@pytest.mark.parametrize("rows_per_block", [1, 3, 100])
def test_row_lengths_are_euclidean_and_one_for_zeros(monkeypatch, rows_per_block):
    monkeypatch.setattr(similarity, "ROWS_PER_BLOCK", rows_per_block)
    rows = np.array([[3, 4], [0, 0], [1, 0], [6, 8], [0, -2]], np.float32)
    np.testing.assert_array_equal(row_lengths(rows), np.array([5, 1, 1, 10, 2], np.float32))
    assert row_lengths(rows[:0]).shape == (0,)


def test_a_unit_vector_has_length_one_but_zeros_stay():
    np.testing.assert_allclose(unit_vector(np.array([3.0, 4.0])), [0.6, 0.8])
    np.testing.assert_array_equal(unit_vector(np.zeros(3)), np.zeros(3))
