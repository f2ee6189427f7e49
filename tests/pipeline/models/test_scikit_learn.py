"""Estimators inside scikit-learn: its own checks, pipelines, searches, clone, pickle, joblib, data frames."""

import pickle
from functools import partial

import joblib
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from corpusmill import LDA, NMF, RandomIndexing
from corpusmill.io.data import Kind, recognise
from helpers.documents import BOATS_AND_BREAD
from sklearn import exceptions
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

LABELS = np.arange(len(BOATS_AND_BREAD)) % 2


def failed_checks(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 40
    return {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"}


class RoundedLDA(LDA):
    """LDA of rounded entries. scikit-learn's checks pass fractions, which LDA refuses because they are not counts."""

    def _rounded(self, X):
        """Return ten times the entries, rounded. Return anything but a matrix of real numbers unchanged."""
        if recognise(X).kind is not Kind.MATRIX:
            return X
        if scipy.sparse.issparse(X):
            return (X.tocsr() * 10).rint()
        if hasattr(X, "columns"):
            return (X * 10).round()
        values = np.asarray(X)
        if values.dtype.kind == "O":
            values = values.astype(float)
        return np.round(values * 10) if values.dtype.kind in "iuf" else X

    def fit(self, X, y=None, **options):
        return super().fit(self._rounded(X), y, **options)

    def partial_fit(self, X, y=None, **options):
        return super().partial_fit(self._rounded(X), y, **options)

    def transform(self, X, **options):
        return super().transform(self._rounded(X), **options)

    def score(self, X, y=None, **options):
        return super().score(self._rounded(X), y, **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*choose at most")
@pytest.mark.filterwarnings("ignore:.*Estimator .* does not inherit from")
@pytest.mark.timeout(900)
def test_nmf_passes_all_of_scikit_learns_checks():
    assert failed_checks(NMF(max_iter=20, device="cpu")) == {}


@pytest.mark.filterwarnings("ignore:.*Estimator .* does not inherit from")
@pytest.mark.timeout(900)
def test_lda_fails_scikit_learns_checks_only_because_fractions_are_not_counts():
    for name, error in failed_checks(LDA(max_iter=2, device="cpu")).items():
        is_about_counts = "is not a count" in error
        # These three checks replace the error by a text of their own.
        assert is_about_counts or name.startswith("check_estimator_sparse"), (name, error)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*choose at most")
@pytest.mark.filterwarnings("ignore:.*Estimator .* does not inherit from")
@pytest.mark.timeout(900)
def test_lda_of_rounded_entries_passes_all_of_scikit_learns_checks():
    assert failed_checks(RoundedLDA(5, max_iter=2, device="cpu")) == {}


@pytest.mark.parametrize(
    "steps",
    [
        (CountVectorizer(), LDA(2, doc_topic_prior=0.1, max_iter=40)),
        (TfidfVectorizer(), NMF(2)),
        (LDA(2, doc_topic_prior=0.1, max_iter=40),),
        (NMF(2, weighting="tfidf"),),
        (RandomIndexing(vector_size=64, seed_length=4),),
    ],
    ids=["counts-lda", "tfidf-nmf", "text-lda", "text-nmf", "text-random-indexing"],
)
def test_a_pipeline_learns_to_predict_labels(steps):
    pipeline = make_pipeline(*(clone(step) for step in steps), LogisticRegression(C=100))
    assert pipeline.fit(BOATS_AND_BREAD, LABELS).score(BOATS_AND_BREAD, LABELS) > 0.9


def test_a_grid_search_chooses_the_number_of_topics_by_score():
    search = GridSearchCV(LDA(max_iter=5), {"n_components": [2, 8]}, cv=2).fit(BOATS_AND_BREAD)
    assert set(search.cv_results_["param_n_components"]) == {2, 8}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_grid_search_scores_matrices_by_their_error():
    A = np.random.default_rng(0).gamma(1.0, size=(40, 12))
    search = GridSearchCV(NMF(max_iter=50), {"n_components": [1, 6]}, cv=2).fit(A)
    assert search.best_params_ == {"n_components": 6}


def test_fit_transform_is_transform_of_the_same_data():
    model = NMF(2, max_iter=10)
    rows = model.fit_transform(BOATS_AND_BREAD)
    np.testing.assert_array_equal(rows, model.transform(BOATS_AND_BREAD))


def test_fit_transform_transforms_with_the_client_that_trains(cluster_of):
    client = cluster_of(2)
    before = client.run_on_scheduler(_transforms)
    NMF(2, max_iter=1).fit_transform(BOATS_AND_BREAD, client=client)
    assert client.run_on_scheduler(_transforms) - before


def _transforms(dask_scheduler):
    keys = {str(row[0]) for row in dask_scheduler.transition_log}
    return {key for key in keys if key.startswith("transform_chunk-")}


@pytest.mark.parametrize("module", [pickle, joblib])
def test_a_fitted_model_survives_pickle_and_joblib(module, tmp_path):
    model = LDA(2, max_iter=3).fit(BOATS_AND_BREAD)
    with (tmp_path / "model").open("wb") as file:
        module.dump(model, file)
    with (tmp_path / "model").open("rb") as file:
        again = module.load(file)
    np.testing.assert_array_equal(again.transform(BOATS_AND_BREAD), model.transform(BOATS_AND_BREAD))


def test_an_estimator_that_is_not_fitted_raises_the_error_of_scikit_learn():
    for estimator in (LDA(2), NMF(2), RandomIndexing()):
        with pytest.raises(exceptions.NotFittedError, match="is not fitted: call fit first"):
            estimator.transform(BOATS_AND_BREAD)
        with pytest.raises(exceptions.NotFittedError):
            check_is_fitted(estimator)


# --- data frames ---


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    counts = np.random.default_rng(1).poisson(1.0, size=(30, 5)) + 1
    return pandas.DataFrame(counts, columns=list("abcde"), index=[f"row{i}" for i in range(30)])


@pytest.mark.parametrize("model", [LDA(2, max_iter=3), NMF(2, max_iter=3)], ids=["lda", "nmf"])
def test_columns_of_a_data_frame_name_the_words(model, frame):
    model = clone(model).fit(frame)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert model.n_features_in_ == 5
    assert {word["word"] for topic in model.topics() for word in topic["words"]} == set("abcde")
    assert model.components_.shape == (2, 5)
    reordered = frame[["b", "a", "c", "d", "e"]]
    with pytest.raises(ValueError, match=r"feature names should match(.|\n)*X\[model\.feature_names_in_\]"):
        model.transform(reordered)
    np.testing.assert_array_equal(model.transform(reordered[model.feature_names_in_]), model.transform(frame))


@pytest.mark.parametrize("estimator", [LDA, NMF])
def test_a_table_with_two_columns_of_the_same_name_is_refused(estimator, frame):
    frame.columns = list("abcad")
    table = pa.Table.from_arrays([pa.array(column) for column in frame.to_numpy().T], names=list("abcad"))
    for data in (frame, table):
        with pytest.raises(ValueError, match="X, columns: the name 'a' occurs a second time at position 3; rename or"):
            estimator(2, max_iter=3).fit(data)


def test_warnings_of_column_names_are_shown_at_the_line_of_the_caller(frame):
    model = LDA(2, max_iter=3).fit(frame)
    calls = (model.transform, model.score, partial(model.coherence, measure="u_mass"), model.partial_fit)
    for call in calls:
        with pytest.warns(UserWarning, match="X does not have valid feature names") as shown:
            call(frame.to_numpy())
        assert [warning.filename for warning in shown] == [__file__]


def test_set_output_returns_data_frames(frame):
    model = LDA(2, max_iter=3).set_output(transform="pandas")
    rows = model.fit(frame).transform(frame)
    assert list(rows.columns) == list(model.get_feature_names_out()) == ["lda0", "lda1"]
    assert list(rows.index) == list(frame.index)
    assert clone(model)._sklearn_output_config == {"transform": "pandas"}
    texts = BOATS_AND_BREAD[:2]
    assert list(model.fit(BOATS_AND_BREAD).transform(texts).index) == [0, 1]
    series = type(frame["a"])(texts, index=["x", "y"])
    assert list(model.transform(series).index) == ["x", "y"]


def test_nmf_of_documents_keeps_the_index_of_a_data_frame():
    pandas = pytest.importorskip("pandas")
    model = NMF(2, max_iter=3).set_output(transform="pandas").fit(BOATS_AND_BREAD)
    counts = pandas.DataFrame(np.eye(2, dtype=int), columns=model.words_[:2], index=["x", "y"])
    assert list(model.transform(counts).index) == ["x", "y"]


def test_components_follow_the_columns_of_a_matrix_after_saving(frame, tmp_path):
    matrix = scipy.sparse.csr_matrix(frame.to_numpy() * [1, 0, 5, 0, 20])
    model = LDA(2, max_iter=3).fit(matrix)
    model.save(str(tmp_path / "model"))
    again = LDA.load(str(tmp_path / "model"))
    assert again.n_features_in_ == 5
    np.testing.assert_array_equal(again.components_, model.components_)
    assert (model.components_[:, [1, 3]] == model.components_[0, 1]).all()


@pytest.mark.parametrize("columns", [3, 7])
def test_a_matrix_with_other_columns_is_refused(columns):
    model = LDA(2, max_iter=2).fit(np.ones((4, 5), int))
    with pytest.raises(ValueError, match=f"X has {columns} features, but LDA is expecting 5"):
        model.transform(np.ones((4, columns), int))


def test_a_data_frame_of_text_is_refused_with_advice():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"split": "train", "year": 1851, "text": BOATS_AND_BREAD})
    with pytest.raises(
        ValueError, match=r"columns 'split', 'text': pass .* table\[NAME\], or ingest\(table, .*text=NAME"
    ):
        LDA(2).fit(frame)
    assert LDA(2, max_iter=2).fit(frame["text"]).n_iter_ == 2


@pytest.mark.parametrize("new_generator", [np.random.RandomState, np.random.default_rng])
@pytest.mark.parametrize("model", [LDA(2, max_iter=2), NMF(2, max_iter=2), RandomIndexing(64, seed_length=2)])
def test_a_generator_gives_a_seed_to_every_fit(tmp_path, model, new_generator):
    def seeds_of_two_fits():
        estimator = clone(model).set_params(random_state=new_generator(5))
        first = estimator.fit(BOATS_AND_BREAD)._seed_number()
        return first, estimator.fit(BOATS_AND_BREAD)._seed_number(), estimator

    first, second, estimator = seeds_of_two_fits()
    assert (first, second) == seeds_of_two_fits()[:2]
    assert first != second
    same = clone(model).set_params(random_state=second).fit(BOATS_AND_BREAD)
    assert estimator.model_.digest() == same.model_.digest()
    # Files have the seed, so what is read is reproducible and continues with the same draws.
    estimator.save(str(tmp_path / "model"))
    assert type(model).load(str(tmp_path / "model")).get_params() == same.get_params()
    assert isinstance(estimator.get_params()["random_state"], type(new_generator(0)))
    both = [each.partial_fit(BOATS_AND_BREAD[:4]).model_.digest() for each in (estimator, same)]
    assert both[0] == both[1]


def test_a_run_with_a_generator_is_resumed_with_the_seed_that_it_drew(tmp_path):
    run = str(tmp_path / "run")
    model = LDA(2, max_iter=4, random_state=np.random.RandomState(5))
    stopped = clone(model).fit(BOATS_AND_BREAD, run=run, callbacks=[lambda event: getattr(event, "epoch", 0) == 2])
    resumed = LDA(2, max_iter=4, random_state=stopped._seed_number()).fit(BOATS_AND_BREAD, run=run)
    assert resumed.n_iter_ == 4
    assert resumed.model_.digest() == model.fit(BOATS_AND_BREAD).model_.digest()
