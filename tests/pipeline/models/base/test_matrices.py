"""Sparse matrices and Arrow tables that users pass to ``fit``: damaged ones are refused in one sentence."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from corpusmill import LDA, NMF
from corpusmill.io.errors import DataError

ESTIMATORS = [NMF, LDA]


def counts():
    matrix = scipy.sparse.random(12, 6, 0.5, "csr", random_state=0)
    matrix.data[:] = np.arange(len(matrix.data)) % 4 + 1
    return matrix


def fitted(estimator, X):
    return estimator(2, max_iter=2, device="cpu").fit(X).components_


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_a_matrix_whose_arrays_contradict_each_other_is_refused(estimator, layout):
    pointers = counts().asformat(layout)
    pointers.indptr[2] = 99
    falling = counts().asformat(layout)
    falling.indptr[2] = 0
    index = counts().asformat(layout)
    index.indices[0] = 1000
    for damaged in (pointers, falling, index):
        with pytest.raises(
            ValueError, match=r"X is no valid sparse matrix .*: build its indptr, indices and data again"
        ):
            fitted(estimator, damaged)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_unsorted_indices_and_duplicate_entries_are_read_as_scipy_reads_them(estimator):
    matrix = counts()
    expected = fitted(estimator, matrix)
    unsorted = matrix.copy()
    for row in range(12):
        entries = slice(*unsorted.indptr[row : row + 2])
        unsorted.indices[entries] = unsorted.indices[entries][::-1].copy()
        unsorted.data[entries] = unsorted.data[entries][::-1].copy()
    unsorted.has_sorted_indices = False
    np.testing.assert_array_equal(fitted(estimator, unsorted), expected)
    one = np.ones(int(matrix.data.sum()))
    twice = scipy.sparse.csr_matrix(
        (one, np.repeat(matrix.indices, matrix.data.astype(int)), np.r_[0, np.cumsum(matrix.data)][matrix.indptr]),
        matrix.shape,
    )
    assert not twice.has_canonical_format
    np.testing.assert_array_equal(fitted(estimator, twice), expected)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_a_sum_of_duplicate_entries_may_exceed_their_type(estimator, layout):
    index = np.repeat([0, 1], [300, 3])
    twice = scipy.sparse.coo_matrix((np.ones(303, np.int8), (index, index)), (2, 2))
    if layout != "coo":
        compressed = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix}[layout]
        twice = compressed((twice.data, index, [0, 300, 303]), (2, 2))
    np.testing.assert_array_equal(fitted(estimator, twice), fitted(estimator, np.array([[300, 0], [0, 3]])))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_masked_entries_are_refused_and_a_mask_of_nothing_is_not(estimator):
    values = np.ma.masked_array(counts().toarray(), mask=False)
    np.testing.assert_array_equal(fitted(estimator, values), fitted(estimator, counts().toarray()))
    values[2, 3] = np.ma.masked
    with pytest.raises(ValueError, match=r"Input X masks 1 of its 72 entries, which have no value: pass X\.filled"):
        fitted(estimator, values)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_table_of_numbers_is_a_matrix_with_names(estimator):
    dense = counts().toarray()
    names = [f"gene{column}" for column in range(6)]
    table = pa.table({name: dense[:, column] for column, name in enumerate(names)})
    for given in (table, table.to_batches()[0]):
        model = estimator(2, max_iter=2, device="cpu").fit(given)
        np.testing.assert_array_equal(model.components_, fitted(estimator, dense))
        assert model.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="the column 'a' has 1 nulls: fill them"):
        fitted(estimator, pa.table({"a": [1, None], "b": [1, 2]}))
    with pytest.raises(ValueError, match="pass the column with the text alone"):
        fitted(estimator, pa.table({"text": ["a b", "b c"], "n": [1, 2]}))


@pytest.mark.parametrize("estimator", [LDA, NMF])
def test_half_precision_is_read_like_single_precision(estimator):
    counts = np.arange(12).reshape(4, 3)
    found = estimator(2, max_iter=3).fit_transform(counts.astype(np.float16))
    np.testing.assert_array_equal(found, estimator(2, max_iter=3).fit_transform(counts.astype(np.float32)))


def test_tf_idf_weights_of_a_matrix_are_refused():
    with pytest.raises(ValueError, match="weighting='tfidf' needs documents: for a matrix, use"):
        NMF(2, weighting="tfidf").fit(np.ones((4, 3)))


def test_an_array_of_text_with_two_dimensions_is_refused():
    with pytest.raises(ValueError, match=r"NMF: X is an array of text of shape \(2, 1\): pass a list of strings if"):
        NMF(2).fit(np.array([["1"], ["2"]]))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "int64[pyarrow]"])
def test_missing_values_in_nullable_columns_of_pandas_are_named(estimator, dtype):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": pandas.array([1, None], dtype=dtype)})
    with pytest.raises(ValueError, match="Input X contains NaN in row 1, column 1"):
        fitted(estimator, frame)
    assert fitted(estimator, frame[:1]).shape == (2, 2)


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_further_rows_belong_to_the_columns_of_the_model_also_if_only_one_of_the_two_has_names(estimator):
    pandas = pytest.importorskip("pandas")
    values = counts().toarray().astype(int)
    frame = pandas.DataFrame(values, columns=list("abcdef"))
    first = {"frame": (frame, {}), "array": (values, {}), "names": (values, {"vocabulary": list("abcdef")})}
    for name, (X, options) in first.items():
        expected = estimator(2, max_iter=2, device="cpu").fit(X, **options).partial_fit(X, **options)
        for further in (frame, values):
            model = estimator(2, max_iter=2, device="cpu").fit(X, **options).partial_fit(further)
            np.testing.assert_array_equal(model.components_, expected.components_, err_msg=name)
            assert model.n_features_in_ == 6
            assert model.transform(X).shape == (12, 2)


def test_a_model_of_a_matrix_whose_columns_are_no_words_does_not_go_on_with_documents():
    pandas = pytest.importorskip("pandas")
    model = NMF(2, max_iter=1).fit(pandas.DataFrame({"sea": [1, 2, 0], "oven": [0, 1, 3]}))
    with pytest.raises(DataError, match="was fitted on a matrix, whose columns are not words: pass a matrix with"):
        model.partial_fit(["sea boat", "oven bread"])
    assert model.transform([[1, 0]]).shape == (1, 2)
