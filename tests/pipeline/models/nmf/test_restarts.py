"""Restarts that are trained side by side equal separate trainings, and finish, begin and resume on their own."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from corpusmill import NMF
from corpusmill.io.errors import DataError
from corpusmill.io.stores.matrix import MatrixChunkInfo, write_matrix
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.models.nmf.side_by_side import COHORT_COLUMNS, admit, cohorts, most_epochs
from helpers.models import interrupt_after
from helpers.toy import write_topic_corpus

#: Different numbers of components, also more than a cohort has, and more columns than are trained at the same time.
RUNS = [(5, 0), (7, 1), (20, 2), (30, 3), (30, 4), (5, 9), (70, 1)]
pytestmark = pytest.mark.filterwarnings("ignore:.*n_components is 70; choose at most 40")


def cells(D=150, V=40, seed=0):
    return scipy.sparse.random(D, V, 0.2, "csr", np.float32, random_state=seed)


def small(**parameters):
    return NMF(**({"max_iter": 12, "tol": 5e-3, "device": "cpu"} | parameters))


def assert_same(found, expected):
    assert found.n_iter_ == expected.n_iter_
    np.testing.assert_array_equal(found.components_, expected.components_)
    assert [row["error"] for row in found.history_] == [row["error"] for row in expected.history_]


OPTIONS = [{}, {"convergence": "gradient", "tol": 0.1}, {"alpha_W": 0.01, "l1_ratio": 0.5, "n_blocks": 2}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_restart_equals_its_separate_run(options, tmp_path):
    # Several chunks, one of them larger than the part for which products are computed ahead.
    matrix = write_matrix(tmp_path / "matrix", [cells(2000), cells(150)], chunk_numbers=16000)
    assert len(matrix.chunks) > 1
    found = small(**options).fit_restarts(matrix, RUNS, max_columns=80)
    for (K, seed), model in zip(RUNS, found, strict=True):
        assert_same(model, small(n_components=K, random_state=seed, **options).fit(matrix))
    assert len({model.n_iter_ for model in found}) > 1


def test_components_that_no_row_uses_get_the_numbers_of_the_separate_run(tmp_path):
    # Nothing uses a component of a matrix of zeros.
    matrix = write_matrix(tmp_path / "matrix", np.zeros((9, 8)))
    options = {"n_blocks": 2, "max_iter": 3, "tol": 0}
    found = small(**options).fit_restarts(matrix, RUNS[:2])
    for (K, seed), model in zip(RUNS, found, strict=False):
        assert_same(model, small(n_components=K, random_state=seed, **options).fit(matrix))
        assert len(np.unique(model.components_)) > 4 * K, "the blocks have different numbers"


def test_restarts_on_a_dense_matrix_equal_separate_runs_up_to_rounding():
    A = cells().toarray()
    found = small(tol=0, max_iter=10, dtype="float64").fit_restarts(A, RUNS[:4])
    for (K, seed), model in zip(RUNS, found, strict=False):
        expected = small(tol=0, max_iter=10, dtype="float64", n_components=K, random_state=seed).fit(A)
        np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-6, atol=1e-9)


def test_restarts_on_weights_of_a_corpus_transform_documents(tmp_path):
    corpus = write_topic_corpus(tmp_path / "corpus", 2)
    options = {"weighting": "tfidf", "max_iter": 5}
    (found,) = small(**options).fit_restarts(corpus, [(3, 4)])
    expected = small(**options, n_components=3, random_state=4).fit(corpus)
    assert_same(found, expected)
    np.testing.assert_array_equal(found.transform(corpus), expected.transform(corpus))


def test_an_interrupted_training_of_restarts_continues_to_the_same_factors(tmp_path):
    A = cells()
    matrix = write_matrix(tmp_path / "matrix", A)
    expected = small().fit_restarts(matrix, RUNS, max_columns=80)
    run = str(tmp_path / "run")
    for epoch in (2, 7):
        with pytest.raises(KeyboardInterrupt):
            small().fit_restarts(matrix, RUNS, run=run, max_columns=80, callbacks=[interrupt_after(epoch)])
        assert RunStore(run).step == epoch
    found = small().fit_restarts(matrix, RUNS, run=run, max_columns=80)
    for model, separate in zip(found, expected, strict=True):
        assert_same(model, separate)
    # The rows of the factor H of restarts that have left are not kept.
    last = RunStore(run)
    assert last.state(last.step, 0)["H"].shape[1] < sum(K for K, _ in RUNS)


def test_an_epoch_does_not_copy_the_columns_of_idle_restarts(tmp_path):
    matrix = write_matrix(tmp_path / "matrix", cells())
    algorithm = small(restarts=3, n_components=5)._algorithm(matrix)
    algorithm = replace(algorithm, max_columns=10)
    block = next(algorithm.begin(matrix, range(1), None))
    assert block["idle_restarts"].tolist() == [2]
    delta = {"P": np.ones((40, 10), np.float32), "Q": np.ones(50)}
    after, _ = algorithm.apply(block, delta, algorithm.begin_shared(matrix, None), dict)
    assert after["idle_W"] is block["idle_W"]
    assert after["W"] is not block["W"]


def test_a_run_of_restarts_continues_with_more_epochs(tmp_path):
    matrix = write_matrix(tmp_path / "matrix", cells())
    run = str(tmp_path / "run")
    for max_iter in (2, 5, 12):
        found = small(max_iter=max_iter).fit_restarts(matrix, RUNS, run=run)
    for model, separate in zip(found, small().fit_restarts(matrix, RUNS), strict=True):
        assert_same(model, separate)
    steps = RunStore(run).step
    with pytest.raises(DataError, match="has 12 epochs already, and max_iter is 5"):
        small(max_iter=5).fit_restarts(matrix, RUNS, run=run)
    assert RunStore(run).step == steps


def test_restarts_whose_rows_were_not_kept_continue_too(tmp_path):
    matrix = write_matrix(tmp_path / "matrix", cells())
    run = str(tmp_path / "run")
    few = small(max_iter=3).fit_restarts(matrix, RUNS, run=run, max_columns=70)
    more = small(max_iter=12).fit_restarts(matrix, RUNS, run=run, max_columns=70)
    for model, before, separate in zip(more, few, small().fit_restarts(matrix, RUNS), strict=True):
        assert 3 < model.n_iter_ <= 12
        assert model.reconstruction_err_ < before.reconstruction_err_
        assert model.reconstruction_err_ < 1.01 * separate.reconstruction_err_


def test_several_numbers_of_components_keep_the_best_of_the_chosen_number(tmp_path):
    A = cells()
    options = {"n_components": 4, "restarts": 3, "restart_components": [3, 4, 6], "max_iter": 5}
    model = small(**options).fit(A)
    assert [restart.n_components for restart in model.restarts_] == [3, 3, 3, 4, 4, 4, 6, 6, 6]
    errors = [restart.reconstruction_err_ for restart in model.restarts_[3:6]]
    assert model.reconstruction_err_ == min(errors)
    assert model.components_.shape[0] == 4
    for numbers in ([3, 6], [4, 4]):
        with pytest.raises(ValueError, match="with n_components, 4"):
            small(**options | {"restart_components": numbers}).fit(A)


def test_a_cluster_gives_the_same_restarts(cluster_of, tmp_path):
    matrix = write_matrix(tmp_path / "matrix", cells(), chunk_numbers=500)
    expected = small(max_iter=5).fit_restarts(matrix, RUNS[:3])
    found = small(max_iter=5).fit_restarts(matrix, RUNS[:3], client=cluster_of(2))
    for model, separate in zip(found, expected, strict=True):
        assert_same(model, separate)


def test_fit_with_restarts_keeps_the_best(tmp_path):
    A = cells()
    matrix = write_matrix(tmp_path / "matrix", A)
    model = small(n_components=4, restarts=5, random_state=3).fit(matrix, run=str(tmp_path / "run"))
    errors = [restart.reconstruction_err_ for restart in model.restarts_]
    assert [restart.random_state for restart in model.restarts_] == [3, 4, 5, 6, 7]
    assert len(set(errors)) == 5
    assert model.reconstruction_err_ == min(errors)
    best = model.restarts_[int(np.argmin(errors))]
    np.testing.assert_array_equal(model.components_, best.components_)
    np.testing.assert_array_equal(NMF.from_run(str(tmp_path / "run")).components_, best.components_)
    # Each restart is a model of its own.
    best.save(str(tmp_path / "best"))
    np.testing.assert_array_equal(NMF.load(str(tmp_path / "best")).transform(A), best.transform(A))
    with pytest.raises(ValueError, match="columns"):
        best.transform(A[:, :5])


def test_a_single_factorisation_has_no_restarts():
    assert small(n_components=2, max_iter=2).fit(cells()).restarts_ == []


def test_wrong_restarts_are_refused():
    A = cells()
    with pytest.raises(ValueError, match=r"restarts is 2: give pairs \(n_components, random_state\)"):
        small().fit_restarts(A, 2)
    with pytest.raises(ValueError, match="restarts has 2 pairs, 1 of them different"):
        small().fit_restarts(A, [(2, 1), (2, 1)])
    for options in ({"solver": "mu"}, {"extrapolate": True}, {"init": "nndsvd"}):
        with pytest.raises(ValueError, match="restarts and validation_fraction need"):
            small(**options).fit_restarts(A, [(2, 1), (2, 2)])
        with pytest.raises(ValueError, match="several restarts need"):
            small(**options).fit_restarts(A, [(2, 1)])
    with pytest.raises(ValueError, match="no CUDA kernels"):
        small(device="cuda").fit_restarts(A, [(2, 1)])
    model = small(n_components=2, restarts=2, max_iter=2).fit(A)
    with pytest.raises(ValueError, match="partial_fit continues one factorisation: leave restarts"):
        model.partial_fit(A)


def test_other_restarts_in_the_same_run_folder_are_refused(tmp_path):
    A = cells()
    small(max_iter=2).fit_restarts(A, [(2, 1)], run=str(tmp_path / "run"))
    with pytest.raises(DataError, match="holds another run"):
        small(max_iter=2).fit_restarts(A, [(2, 2)], run=str(tmp_path / "run"))


def test_groups_are_packed_in_order_up_to_their_width():
    assert COHORT_COLUMNS == 64
    assert list(cohorts([20, 20, 20, 20, 100, 1], [0, 1, 2, 3, 4, 5])) == [[0, 1, 2], [3], [4], [5]]
    # Restart 1 has left, so 3 joins the first cohort.
    assert list(cohorts([20, 20, 20, 20, 100, 1], [0, 2, 3, 5])) == [[0, 2, 3, 5]]


def test_restarts_begin_in_order_as_columns_become_free():
    columns = [30, 30, 30, 100, 10]
    assert admit(columns, [], range(5), 64) == [0, 1]
    assert admit(columns, [1], range(2, 5), 64) == [1, 2]
    # The fourth is wider than the limit, so it is trained alone, and the last one waits for its turn.
    assert admit(columns, [2], range(3, 5), 64) == [2]
    assert admit(columns, [], range(3, 5), 64) == [3]
    assert most_epochs(columns, 64, 7) == 4 * 7


def test_the_memory_estimate_grows_with_the_columns_that_are_trained_at_once(tmp_path):
    matrix = write_matrix(tmp_path / "matrix", cells())
    chunk = MatrixChunkInfo(documents=1000, tokens=10_000, first_document=0)
    totals = []
    for max_columns in (64, 128):
        trainer = small(restarts=10, n_components=20)
        trainer._max_columns = max_columns
        totals.append(trainer._algorithm(matrix).memory(matrix, chunk))
    assert totals[1].state == 2 * totals[0].state == 2 * 1000 * 128 * 4
    assert totals[1].delta > totals[0].delta
    assert totals[1].model == totals[0].model


@pytest.mark.parametrize(
    ("restarts", "message"),
    [
        ([], "restarts is empty"),
        ([5, 6], "restarts has 5: give pairs of whole numbers"),
        ([(5.9, 0)], "give pairs of whole numbers"),
        ([("a", 0)], "give pairs of whole numbers"),
        ([(0, 1)], "at least 1 component"),
    ],
)
def test_what_is_not_a_pair_of_numbers_is_refused(restarts, message):
    with pytest.raises(ValueError, match=message):
        NMF().fit_restarts(np.ones((4, 3)), restarts)
