"""NMF of known entries: what is not stored, or is NaN, does not count."""

import dask.array
import numpy as np
import pytest
import scipy.sparse
from corpusmill import NMF, DataError, write_matrix
from corpusmill.configs.model_schema import NMFConfig
from corpusmill.kernels.nmf import known, products
from helpers.naive import nmf_known_row
from helpers.planted import planted_ratings
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays


def nmf(K=4, **parameters):
    return NMF(K, missing="unknown", random_state=1, **parameters)


def stored(A):
    """Return the known entries as a sparse matrix, zeros among them."""
    at = np.nonzero(~np.isnan(A))
    return scipy.sparse.csr_matrix((A[at], at), A.shape)


entries = st.one_of(st.just(np.nan), st.just(0.0), st.floats(0.01, 5))
factor = st.one_of(st.just(0.0), st.floats(0.01, 2))


@given(st.data(), st.integers(1, 7), st.integers(1, 6), st.integers(1, 5), st.integers(1, 3))
def test_rows_are_those_of_the_reference(data, n, m, K, sweeps):
    A = data.draw(arrays.arrays(float, (n, m), elements=entries))
    X = data.draw(arrays.arrays(float, (n, K), elements=factor))
    Y = data.draw(arrays.arrays(float, (m, K), elements=factor))
    l1, l2 = data.draw(st.sampled_from([(0.0, 0.0), (0.1, 0.0), (0.05, 0.2)]))
    cut = data.draw(st.integers(0, m))
    sparse = stored(A)
    rows = products.SparseRows(sparse.indptr.astype(np.int64), sparse.indices, sparse.data)
    terms = np.zeros((n, known.n_terms(K)))
    known.add_terms(rows, Y[:cut], 0, terms)
    known.add_terms(rows, Y[cut:], cut, terms)
    found = X.copy()
    explained, penalty = known.sweep_terms(terms, l1, l2, sweeps, found)
    expected = np.array([nmf_known_row(a, x, Y, l1, l2, sweeps) for a, x in zip(A, X, strict=True)])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    error = np.nansum((A - found @ Y.T) ** 2)
    np.testing.assert_allclose(np.nansum(A**2) - explained, error, rtol=1e-6, atol=1e-6)
    counts = (~np.isnan(A)).sum(axis=1)[:, None]
    np.testing.assert_allclose(penalty, np.sum(counts * (l1 * found + l2 / 2 * found**2)), rtol=1e-6, atol=1e-9)


def test_unknown_entries_are_predicted():
    A, truth = planted_ratings(0, 4)
    model = nmf(max_iter=100).fit(A)
    H = model.transform(A)
    is_unknown = np.isnan(A)
    found = model.inverse_transform(H)
    assert np.sqrt(np.mean((found - truth)[is_unknown] ** 2)) < 0.1
    # With zeros in their place, they are not.
    zeros = NMF(4, random_state=1).fit(np.nan_to_num(A))
    filled = zeros.inverse_transform(zeros.transform(np.nan_to_num(A)))
    assert np.sqrt(np.mean((filled - truth)[is_unknown] ** 2)) > 0.5
    last = model.history_[-1]
    expected = np.sqrt(np.nanmean((found - A) ** 2))
    assert last["rmse"] == pytest.approx(expected, rel=1e-3)
    assert model.reconstruction_err_ == pytest.approx(expected * np.sqrt((~is_unknown).sum()), rel=1e-3)
    assert model.score(A) == pytest.approx(-expected / np.sqrt(np.nanmean(A**2)), rel=1e-3)
    assert model.topic_sizes_.sum() == pytest.approx(1)


@pytest.mark.parametrize("penalties", [{}, {"alpha_W": 0.02}, {"alpha_W": 0.01, "alpha_H": 0.03, "l1_ratio": 0.5}])
def test_the_objective_never_rises(penalties):
    model = nmf(max_iter=30, tol=0, dtype="float64", **penalties).fit(planted_ratings(0, 4)[0])
    errors = [row["penalised_error" if penalties else "error"] for row in model.history_]
    assert np.all(np.diff(errors) <= 1e-10 * errors[0])


def test_if_all_entries_are_known_the_minimum_is_that_of_all_entries():
    A = planted_ratings(0, 4, 60, 30, share=1.1)[0]
    options = {"alpha_W": 0.01, "l1_ratio": 0.5, "dtype": "float64", "tol": 1e-7, "max_iter": 500, "random_state": 1}
    expected = NMF(4, device="cpu", **options).fit(A).history_[-1]
    found = NMF(4, missing="unknown", **options).fit(A).history_[-1]
    assert found["penalised_error"] == pytest.approx(expected["penalised_error"], rel=1e-3)


@pytest.mark.parametrize("form", ["sparse", "coo", "dask", "dask-sparse", "frame", "store"])
def test_all_forms_of_a_matrix_have_the_same_known_entries(form, tmp_path):
    A = planted_ratings(0, 4, 60, 30)[0]
    expected = nmf(max_iter=3).fit(A)
    forms = {
        "sparse": lambda: stored(A),
        "coo": lambda: stored(A).tocoo(),
        "dask": lambda: dask.array.from_array(A, (60, 10)),
        "dask-sparse": lambda: dask.array.from_array(stored(A), (60, 30), asarray=False),
        "frame": lambda: pytest.importorskip("pandas").DataFrame(A, columns=[f"c{k}" for k in range(30)]),
        "store": lambda: write_matrix(tmp_path / "matrix", stored(A)),
    }
    data = forms[form]()
    found = nmf(max_iter=3).fit(data)
    np.testing.assert_array_equal(found.components_, expected.components_)
    np.testing.assert_array_equal(found.transform(data), expected.transform(A))


def test_sparse_entries_that_are_nan_are_unknown():
    A = planted_ratings(0, 4, 60, 30)[0]
    with_nan = stored(np.where(np.isnan(A), 7.0, A))
    with_nan.data[np.isnan(A).ravel()] = np.nan
    expected = nmf(max_iter=3).fit(A)
    np.testing.assert_array_equal(nmf(max_iter=3).fit(with_nan).components_, expected.components_)


def test_a_saved_model_keeps_the_meaning_of_missing_entries(tmp_path):
    A = planted_ratings(0, 4, 60, 30)[0]
    model = nmf(max_iter=3).fit(A)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(NMF.load(tmp_path / "model").transform(A), model.transform(A))


def test_rows_and_columns_without_a_known_entry_have_weights_of_0():
    A = planted_ratings(0, 4)[0]
    A[[0, 17]] = np.nan
    A[:, [3, 119]] = np.nan
    model = nmf(max_iter=5).fit(A)
    H = model.transform(A)
    assert np.isfinite(model.history_[-1]["rmse"])
    assert not H[[0, 17]].any()
    assert not model.components_[:, [3, 119]].any()
    assert H.any(axis=1).sum() == len(A) - 2


@pytest.mark.filterwarnings("ignore:.*choose at most")
def test_more_components_than_rows_are_trained():
    model = nmf(9, max_iter=50).fit(planted_ratings(0, 4, 5, 7, share=0.8)[0])
    assert model.components_.shape == (9, 7)
    assert model.history_[-1]["relative_error"] < 0.05


@pytest.mark.parametrize("A", [np.full((4, 3), np.nan), scipy.sparse.csr_matrix((4, 3))], ids=["nan", "sparse"])
def test_data_without_a_known_entry_are_refused(A):
    with pytest.raises(DataError, match="no entry is known"):
        nmf(2).fit(A)


def test_nan_without_the_option_is_refused_and_the_option_named():
    A = planted_ratings(0, 4, 20, 10)[0]
    with pytest.raises(ValueError, match=r"NaN in row 0.*missing='unknown'"):
        NMF(2).fit(A)
    with pytest.raises(ValueError, match="NaN in row 0"):
        NMF(2).fit(np.nan_to_num(A)).transform(A)


@pytest.mark.parametrize("value", [-1.0, np.inf])
def test_known_entries_must_be_finite_and_not_negative(value):
    A = planted_ratings(0, 4, 20, 10)[0]
    A[3, 4] = value
    with pytest.raises(ValueError, match="row 3, column"):
        nmf(2).fit(A)


def test_what_does_not_work_is_refused_with_the_reason():
    A = planted_ratings(0, 4, 20, 10)[0]
    with pytest.raises(ValueError, match="partial_fit cannot continue"):
        nmf(2, max_iter=2).fit(A).partial_fit(A)
    with pytest.raises(ValueError, match="needs a matrix"):
        nmf(2).fit(["sea boat", "bread oven"])
    with pytest.raises(ValueError, match=r"unknown' needs .* init='random'"):
        nmf(2, init="nndsvd").fit(A)
    with pytest.raises(ValueError, match="no CUDA kernels"):
        nmf(2, device="cuda").fit(A)


def test_a_configuration_has_the_option():
    assert NMFConfig(missing="unknown").missing == "unknown"
