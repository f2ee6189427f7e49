"""The penalties of NMF: what training minimises, when it stops, and which restart is the best."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill import NMF

PENALTIES = {"alpha_W": 0.01, "alpha_H": 0.02, "l1_ratio": 0.5}


def matrix():
    return scipy.sparse.random(200, 80, 0.2, random_state=1, format="csr")


def objective(A, H, W):
    """Return what scikit-learn minimises, for H (D, K) and W (V, K)."""
    D, V = A.shape
    lasso = V * 0.01 * H.sum() + D * 0.02 * W.sum()
    ridge = V * 0.01 * np.square(H).sum() + D * 0.02 * np.square(W).sum()
    return (np.square(A.toarray() - H @ W.T).sum() + lasso) / 2 + ridge / 4


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_training_stops_at_the_minimum_of_error_and_penalties(n_blocks):
    """From this seed, the error alone rises from the fifth epoch on."""
    decomposition = pytest.importorskip("sklearn.decomposition")
    A = matrix()
    model = NMF(5, max_iter=400, tol=1e-8, dtype="float64", device="cpu", n_blocks=n_blocks, **PENALTIES)
    H = model.fit_transform(A)
    assert 5 < model.n_iter_ < 400
    assert any(np.diff([row["error"] for row in model.history_]) > 0)
    errors = [row["penalised_error"] for row in model.history_]
    assert np.all(np.diff(errors) <= 1e-12 * errors[0])
    peer = decomposition.NMF(5, init="random", random_state=0, tol=1e-8, max_iter=400, **PENALTIES)
    expected = objective(A, peer.fit_transform(A), peer.components_.T)
    assert errors[-1] ** 2 / 2 == pytest.approx(expected, rel=1e-6)
    assert objective(A, H, model.components_.T) == pytest.approx(expected, rel=1e-6)


def test_the_best_restart_has_the_lowest_error_with_penalties():
    A = matrix()
    model = NMF(5, max_iter=3, tol=0, restarts=4, device="cpu", **PENALTIES).fit(A)
    errors = [each.history_[-1]["penalised_error"] for each in model.restarts_]
    best = model.restarts_[int(np.argmin(errors))]
    np.testing.assert_array_equal(model.components_, best.components_)
    assert model.history_[-1]["penalised_error"] == min(errors)
    assert np.argmin(errors) != np.argmin([each.history_[-1]["error"] for each in model.restarts_])


def test_a_model_without_penalties_reports_the_error_only():
    assert "penalised_error" not in NMF(5, max_iter=2, device="cpu").fit(matrix()).history_[-1]
