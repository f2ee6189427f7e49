"""Consensus of restarts: clusters, and usages in passes over the cells."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill.io.errors import DataError
from corpusmill.io.matrices.memory import RowsInMemory
from corpusmill.pipeline.cells.cnmf import refit
from corpusmill.pipeline.cells.cnmf.clustering import cluster, count_neighbors, distances, local_density, unit_rows
from corpusmill.pipeline.cells.cnmf.refit import moments, nonnegative_rows, refit_usages
from helpers.cnmf_study import planted

from benchmarks.papers.kernels.pivoting import block_principal_pivoting


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_passes_in_small_blocks_equal_those_over_the_whole_matrix(kind, monkeypatch):
    programs, _, cells = planted()
    values = scipy.sparse.csr_matrix(cells) if kind == "sparse" else cells
    matrix = RowsInMemory(values, None, None, "cells")
    blocks = matrix.blocks
    monkeypatch.setattr(matrix, "blocks", lambda: blocks(numbers=200))
    seen = []
    found, _ = refit_usages(matrix, [programs, programs[:2]], lambda done, total: seen.append((done, total)))
    assert len(seen) > 5
    assert seen[-1] == (80, 80)
    np.testing.assert_allclose(found.usages, planted()[1], atol=1e-6)
    assert found.squared_error == pytest.approx(0, abs=1e-6)
    # A choice of columns is not in C order.
    usages = found.usages[:, [2, 0, 1]]
    sums = moments(matrix, [usages], lambda done, total: None)
    np.testing.assert_allclose(sums.means, cells.mean(axis=0))
    np.testing.assert_allclose(sums.variances, cells.var(axis=0))
    np.testing.assert_allclose(sums.products[0], usages.T @ cells)
    np.testing.assert_allclose(sums.share_products[0], refit.shares(usages).T @ cells)


def test_weights_multiply_the_columns():
    programs, _, cells = planted()
    weights = np.linspace(0, 2, 30)
    matrix = RowsInMemory(scipy.sparse.csr_matrix(cells), None, None, "cells")
    (found,) = refit_usages(matrix, [programs * weights], lambda done, total: None, weights)
    np.testing.assert_allclose(found.usages, planted()[1], atol=1e-6)


def test_rows_without_negative_entries_are_those_of_pivoting():
    rng = np.random.default_rng(1)
    factor = rng.random((20, 6))
    S = factor.T @ factor
    R = rng.standard_normal((100, 6)) @ factor.T @ factor
    found, explained = nonnegative_rows(R, S)
    expected = block_principal_pivoting(R, S)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert explained == pytest.approx(2 * np.sum(R * expected) - np.sum((expected.T @ expected) * S))


def test_the_density_is_the_mean_distance_to_the_nearest_rows():
    rows = unit_rows(np.array([[1.0, 0], [2, 0], [0, 1], [3, 3]]))
    between = distances(rows)
    np.testing.assert_allclose(between[0], [0, 0, np.sqrt(2), np.sqrt(2 - np.sqrt(2))], atol=1e-7)
    np.testing.assert_allclose(local_density(between, 2)[0], np.sqrt(2 - np.sqrt(2)) / 2, atol=1e-7)
    assert count_neighbors(30, 3, 0.3) == 3


def test_clusters_without_enough_rows_are_refused():
    with pytest.raises(DataError, match="2 spectra remain for 3 components"):
        cluster(np.eye(3)[:2], 3)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_equal_spectra_are_refused_for_several_components():
    with pytest.raises(DataError, match="the spectra form 1 clusters, because many are equal, and 2 are needed"):
        cluster(np.tile([1.0, 0], (6, 1)), 2)
