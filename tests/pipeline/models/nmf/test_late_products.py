"""Deltas whose P is computed when they are merged."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill.io.stores.matrix import write_matrix
from corpusmill.kernels.nmf.products import SparseRows, add_column_products, sparse_matrix
from corpusmill.pipeline.engine.algorithm import nbytes
from corpusmill.pipeline.models.nmf import frobenius
from corpusmill.pipeline.models.nmf.deltas import cut_sums, is_late, is_smaller, late
from corpusmill.pipeline.models.nmf.frobenius import Hals

from benchmarks.papers.algorithms.nmf import PaperNMF

BOUNDS = (0, 20, 50)
K = 11


def small_algorithm(kind=Hals):
    return kind(bounds=BOUNDS, n_components=K)


def deltas_of(seed):
    """Deltas of the same random chunk, late and with P."""
    rng = np.random.default_rng(seed)
    A = scipy.sparse.random(30, BOUNDS[-1], 0.1, "csr", np.float32, random_state=seed)
    form = sparse_matrix(SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data), BOUNDS[-1])
    H, Q = rng.random((30, K), np.float32), rng.random((K, K))
    P = np.zeros((BOUNDS[-1], K), np.float32)
    add_column_products(form, H, P)
    return late(form, H, Q, BOUNDS), cut_sums(BOUNDS, P, Q)


@pytest.mark.parametrize("which", [(0, 0), (0, 1), (1, 0)])
def test_late_deltas_add_up_to_the_bits_of_their_sums(which):
    algorithm = small_algorithm()
    pairs = [deltas_of(seed) for seed in range(2)]
    expected = [algorithm.merge.add(blocks) for blocks in zip(pairs[0][1], pairs[1][1], strict=True)]
    for may_overwrite in (False, True):
        chosen = [pair[kind] for pair, kind in zip(pairs, which, strict=True)]
        merged = [algorithm.merge.add(pair, may_overwrite) for pair in zip(*chosen, strict=True)]
        for found, wanted in zip(merged, expected, strict=True):
            np.testing.assert_array_equal(found["P"], wanted["P"])
            np.testing.assert_array_equal(found["Q"], wanted["Q"])


def test_merge_leaves_both_deltas_as_they_are():
    algorithm = small_algorithm()
    (first, _), (_, second) = deltas_of(0), deltas_of(1)
    before = second[0]["P"].copy()
    algorithm.merge.add([first[0], second[0]])
    np.testing.assert_array_equal(second[0]["P"], before)


def test_a_late_delta_travels_with_its_sums():
    (first, expected) = deltas_of(0)
    for delta, wanted in zip(first, expected, strict=True):
        packed = small_algorithm().merge.pack(delta)
        assert not is_late(packed)
        np.testing.assert_array_equal(packed["P"], wanted["P"])


def test_only_deltas_that_are_smaller_than_their_sums_are_late():
    rng = np.random.default_rng(0)
    found = set()
    for n_words, density in ((200, 0.02), (200, 0.9), (5, 0.02)):
        A = scipy.sparse.random(30, n_words, density, "csr", np.float32, random_state=1)
        form = sparse_matrix(SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data), n_words)
        H = rng.random((30, K), np.float32)
        (delta,) = late(form, H, np.zeros((0, 0)), (0, n_words))
        assert is_smaller(form, H) == (nbytes(delta) < 4 * n_words * K)
        found.add(is_smaller(form, H))
    assert found == {True, False}


@pytest.mark.parametrize("most_shards", [1, 3, 256])
@pytest.mark.parametrize("solver", ["hals", "paper"])
def test_models_do_not_depend_on_when_products_are_computed(tmp_path, monkeypatch, most_shards, solver):
    A = scipy.sparse.random(200, 400, 0.03, "csr", np.float32, random_state=0)
    matrix = write_matrix(str(tmp_path / "m"), A, "float32", chunk_numbers=500)
    assert len(matrix.chunks) > 3
    monkeypatch.setattr(Hals, "most_shards", most_shards)
    models = []
    n_late = []
    for may_be_late in (True, False):
        seen = []

        def decide(form, H, may_be_late=may_be_late, seen=seen):
            seen.append(may_be_late and is_smaller(form, H))
            return seen[-1]

        monkeypatch.setattr(frobenius, "is_smaller", decide)
        models.append(PaperNMF(7, solver=solver, max_iter=4, tol=0, device="cpu").fit(matrix))
        n_late.append(sum(seen))
    assert n_late[0] > 0 == n_late[1]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    assert [row["error"] for row in models[0].history_] == [row["error"] for row in models[1].history_]
