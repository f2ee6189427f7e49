"""A share of the entries is left out, and predicted: the errors of several numbers of components tell them apart."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from corpusmill import NMF, write_matrix
from corpusmill.pipeline.engine.algorithm import Address, Shard
from corpusmill.pipeline.models.base.saved import TrainedModel
from helpers.naive import nmf_best_rows
from helpers.planted import planted_counts, planted_ratings


def speckled(K=4, **parameters):
    return NMF(K, **({"validation_fraction": 0.1, "device": "cpu"} | parameters))


def left_out_of(matrix, **parameters):
    """Return the stored entries, the zeros that are left out among them, and which ones are left out: (D, V) each."""
    algorithm = speckled(**parameters)._algorithm(matrix)
    view = TrainedModel([], algorithm.begin_shared(matrix, None), pa.table({}), {})
    chunks = [algorithm.load_chunk(matrix, index, view) for index in range(len(matrix.chunks))]
    found = [np.zeros(matrix.shape), np.zeros(matrix.shape, bool)]
    first = 0
    for (indptr, indices, data), is_left_out in chunks:
        rows = first + np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        found[0][rows, indices] = data
        found[1][rows, indices] = is_left_out
        first += len(indptr) - 1
    return found


def test_left_out_entries_depend_on_the_seed_and_their_place_only(tmp_path):
    A = planted_counts(0)[1]
    one = write_matrix(tmp_path / "one", scipy.sparse.csr_matrix(A))
    many = write_matrix(tmp_path / "many", scipy.sparse.csr_matrix(A), chunk_numbers=500)
    assert len(many.chunks) > 3
    stored, expected = left_out_of(one)
    np.testing.assert_array_equal(stored, A)
    np.testing.assert_array_equal(left_out_of(many)[1], expected)
    assert expected.mean() == pytest.approx(0.1, abs=0.01)
    # Zeros are left out as often as others.
    assert expected[A == 0].mean() == pytest.approx(0.1, abs=0.01)
    assert (left_out_of(one, random_state=1)[1] != expected).any()
    # Of entries that are not stored, none is known, so none is left out.
    ratings = left_out_of(one, missing="unknown")[1]
    np.testing.assert_array_equal(ratings, expected & (A > 0))


def test_an_epoch_replaces_left_out_entries_by_their_predictions(tmp_path):
    A = planted_counts(1)[1]
    matrix = write_matrix(tmp_path / "matrix", scipy.sparse.csr_matrix(A), np.float64)
    algorithm = speckled(3, restart_components=[2, 3], dtype="float64")._algorithm(matrix)
    (block,) = algorithm.begin(matrix, range(1), None)
    view = TrainedModel([block], algorithm.begin_shared(matrix, None), pa.table({}), {})
    H = np.random.default_rng(0).random((len(A), 5))
    state = {"H": H, "restarts": np.array([0, 1])}
    chunk = algorithm.load_chunk(matrix, 0, view)
    after, deltas, sums = algorithm.sweep(view, chunk, state, Shard(None, range(1)), Address(0, 1, 0))
    new, totals = algorithm.apply(block, deltas[0], view.shared, dict)
    shared, _ = algorithm.reduce(view.shared, totals, sums, [])
    is_left_out = left_out_of(matrix)[1]
    for restart, own in enumerate([slice(0, 2), slice(2, 5)]):
        H_own, W_own = H[:, own], block["W"][:, own]
        predicted = H_own @ W_own.T
        seen = np.where(is_left_out, predicted, A)
        expected_W, expected_H = next(nmf_best_rows(seen.T, W_own, H_own.T, 1))
        np.testing.assert_allclose(after["H"][:, own], expected_H.T, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(new["W"][:, own], expected_W, rtol=1e-9, atol=1e-12)
        expected = np.sqrt(np.mean((A - predicted)[is_left_out] ** 2))
        assert shared["validation_error"][restart, 0] == pytest.approx(expected)
        error = np.linalg.norm(seen.T - expected_W @ expected_H)
        assert shared["error"][restart, 0] == pytest.approx(error)


@pytest.mark.parametrize("options", [{}, {"missing": "unknown", "alpha_W": 0.01}, {"alpha_W": 0.01, "n_blocks": 3}])
def test_the_objective_never_rises(options):
    model = speckled(3, restart_components=[3, 5], max_iter=30, tol=0, dtype="float64", **options)
    model.fit(scipy.sparse.csr_matrix(planted_counts(2)[1]))
    for restart in model.restarts_:
        errors = [row.get("penalised_error", row["error"]) for row in restart.history_]
        assert np.all(np.diff(errors) <= 1e-9 * errors[0])


def test_a_single_number_of_components_is_measured_too():
    A = planted_counts(3)[1]
    model = speckled(4, max_iter=20).fit(A)
    assert model.validation_errors_ == {4: model.history_[-1]["validation_error"]}
    assert NMF(4, max_iter=2).fit(A).validation_errors_ == {}
    with pytest.raises(ValueError, match="partial_fit continues one factorisation"):
        model.partial_fit(A)
    with pytest.raises(ValueError, match="validation_fraction need solver='hals'"):
        speckled(4, extrapolate=True).fit(A)


def test_restarts_of_known_entries_equal_separate_runs():
    A = planted_ratings(0, 4)[0]
    model = NMF(4, missing="unknown", restarts=2, max_iter=10).fit(A)
    for seed, restart in enumerate(model.restarts_):
        expected = NMF(4, missing="unknown", random_state=seed, max_iter=10).fit(A)
        np.testing.assert_array_equal(restart.components_, expected.components_)
        np.testing.assert_array_equal(restart.transform(A), expected.transform(A))
    assert len(model.restarts_) == 2


@pytest.mark.slow
def test_the_planted_number_of_ten_sets_of_counts_is_found():
    found = []
    for seed in range(10):
        K, A = planted_counts(seed)
        model = speckled(5, restart_components=[*range(2, 11)], random_state=seed).fit(scipy.sparse.csr_matrix(A))
        errors = model.validation_errors_
        assert list(errors) == list(range(2, 11))
        found.append(min(errors, key=errors.get) == K)
    assert sum(found) >= 8


def test_the_planted_number_of_components_of_ratings_is_found():
    A = planted_ratings(0, 4)[0]
    model = speckled(4, missing="unknown", restart_components=[2, 3, 4, 5, 6], restarts=2).fit(A)
    errors = model.validation_errors_
    assert min(errors, key=errors.get) == 4
