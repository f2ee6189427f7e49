"""The solvers of NMF that only serve for comparison."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill import NMF
from corpusmill.pipeline.models.registry import load_model
from helpers.models import fitted_rows

from benchmarks.papers.algorithms.nmf import PaperNMF


def sums_of_parts(D=120, V=60, K=5, seed=0):
    """A dense matrix of rank K, most of it zero."""
    rng = np.random.default_rng(seed)
    return (rng.random((D, K)) * (rng.random((D, K)) < 0.4)) @ (rng.random((K, V)) * (rng.random((K, V)) < 0.4))


def small(solver, **parameters):
    return PaperNMF(**{"solver": solver, "n_components": 5, "max_iter": 30, "tol": 0, "dtype": "float64"} | parameters)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", ["paper", "anls"])
def test_the_error_reported_is_the_error(solver, convert, tmp_path):
    A = sums_of_parts()
    model = small(solver)
    H = fitted_rows(model, convert(A), tmp_path / "run1")
    error = float(np.linalg.norm(A - H @ model.components_))
    assert model.reconstruction_err_ == pytest.approx(error, rel=1e-6, abs=1e-6)
    assert min(H.min(), model.components_.min()) >= 0
    errors = [row["error"] for row in model.history_]
    assert errors[-1] < errors[0] / 3
    # Normalised columns may raise the error.
    assert solver == "paper" or all(b <= a * (1 + 1e-9) for a, b in zip(errors[:-1], errors[1:], strict=True))


@pytest.mark.parametrize("tile", [1, 2, 5])
def test_the_width_of_a_tile_changes_rounding_only(tile, monkeypatch):
    A = sums_of_parts()
    expected = small("paper").fit(A).components_
    monkeypatch.setattr(PaperNMF, "tile", tile)
    np.testing.assert_allclose(small("paper").fit(A).components_, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("solver", ["paper", "anls"])
def test_a_matrix_of_zeros(solver, tmp_path):
    model = small(solver, max_iter=3)
    assert np.isfinite(fitted_rows(model, np.zeros((9, 8)), tmp_path / "run1")).all()
    assert np.isfinite(model.components_).all()
    assert model.reconstruction_err_ < 1e-12


@pytest.mark.parametrize(
    ("solver", "parameters", "message"),
    [
        ("paper", {"n_blocks": 2}, "solver='paper' updates all rows of W together: set n_blocks to 1"),
        ("paper", {"alpha_W": 0.1}, "need solver='hals'"),
        ("anls", {"extrapolate": True}, "need solver='hals'"),
        ("anls", {"convergence": "gradient"}, "need solver='hals'"),
        ("anls", {"device": "cuda"}, "solver 'anls' has no CUDA kernels"),
        ("paper", {"restarts": 2}, "solver is 'paper', but several restarts need solver='hals'"),
        ("cd", {}, "solver is 'cd': choose one of hals, mu, paper, anls"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(solver, parameters, message):
    with pytest.raises(ValueError, match=message):
        small(solver, **parameters).fit(sums_of_parts())


def test_a_saved_model_is_read_by_its_class(tmp_path):
    A = sums_of_parts()
    model = small("paper", max_iter=3).fit(A)
    model.save(str(tmp_path / "model"))
    np.testing.assert_array_equal(load_model(str(tmp_path / "model")).transform(A), model.transform(A))


def test_the_product_names_the_solvers_that_it_has():
    for solver in ("paper", "anls"):
        with pytest.raises(ValueError, match=f"solver is '{solver}': choose one of hals, mu"):
            NMF(solver=solver).fit(sums_of_parts())
