"""The estimator NMF: on stores and arrays, against scikit-learn's meanings, through the engine, out of core."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.linalg
import scipy.sparse
from corpusmill import NMF
from corpusmill.io.errors import DataError
from corpusmill.io.stores.chunk import TABLE, write_chunk_table
from corpusmill.io.stores.matrix import Matrix, MatrixChunkInfo, write_matrix
from corpusmill.kernels import random
from corpusmill.kernels.nmf import hals as nmf
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.ingest.ingest import corpus_from
from corpusmill.pipeline.models.base.saved import SavedModel
from corpusmill.pipeline.models.nmf import factorization, nndsvd
from corpusmill.pipeline.models.nmf.deltas import cut_sums
from corpusmill.pipeline.models.registry import load_model
from corpusmill.pipeline.models.vectors.similarity import top_indices
from helpers.faults import peak_rss
from helpers.models import fitted_rows
from helpers.toy import write_topic_corpus

from benchmarks.papers.kernels.pivoting import block_principal_pivoting


def sums_of_parts(D=120, V=60, K=5, seed=0):
    """A dense matrix of rank K, most of it zero."""
    rng = np.random.default_rng(seed)
    return (rng.random((D, K)) * (rng.random((D, K)) < 0.4)) @ (rng.random((K, V)) * (rng.random((K, V)) < 0.4))


def small(**parameters):
    return NMF(**({"n_components": 5, "max_iter": 30, "tol": 0.0, "dtype": "float64"} | parameters))


def distance(A, H, model):
    return float(np.linalg.norm(A - H @ model.components_))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_topic_corpus(tmp_path_factory.mktemp("nmf") / "corpus", 4)


@pytest.mark.parametrize(("V", "rows"), [(1, 1), (7, 2), (40, 40), (41, 8)])
def test_the_largest_entries_of_a_factor_are_found_part_by_part(V, rows, monkeypatch):
    W = np.random.default_rng(V).integers(0, 6, (V, 3)).astype(np.float32)  # many are equal
    monkeypatch.setattr(factorization, "PART_BYTES", 12 * rows)
    for n in (1, 5, 50):
        for k, (numbers, entries) in enumerate(factorization.heaviest_rows(W, n)):
            np.testing.assert_array_equal(numbers, top_indices(W[:, k], n))
            np.testing.assert_array_equal(entries, W[numbers, k])


def matrix_of(corpus):
    return np.concatenate(
        [corpus.read_chunk(c).counts(corpus.n_words).toarray() for c in range(len(corpus.chunks))]
    ).astype(float)


OPTIONS = [
    {},
    {"solver": "mu"},
    {"sweeps": 3},
    {"extrapolate": True},
    {"n_blocks": 3, "extrapolate": True},
    {"init": "nndsvd"},
    {"init": "nndsvda"},
    {"init": "nndsvdar"},
]


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_error_reported_is_the_error(options, convert, tmp_path):
    A = sums_of_parts()
    model = small(**options)
    H = fitted_rows(model, convert(A), tmp_path / "run1")
    assert model.components_.shape == (5, 60)
    assert model.reconstruction_err_ == pytest.approx(distance(A, H, model), rel=1e-6, abs=1e-6)
    assert min(H.min(), model.components_.min()) >= 0
    errors = [row["error"] for row in model.history_]
    assert errors[-1] < errors[0] / 3
    rises = [i for i in range(1, len(errors)) if errors[i] > errors[i - 1] * (1 + 1e-9)]
    if options.get("extrapolate"):
        # When the error rises, extrapolation restarts: the next epoch is a plain one, and its error falls.
        assert not any(i + 1 in rises for i in rises)
    else:
        assert not rises


def test_extrapolation_needs_fewer_epochs():
    A = scipy.sparse.random(300, 200, 0.1, "csr", random_state=0)
    plain = small(n_components=20, max_iter=40).fit(A)
    ahead = small(n_components=20, max_iter=26, extrapolate=True).fit(A)
    assert ahead.reconstruction_err_ < plain.reconstruction_err_
    assert ahead.model_.blocks[0].keys() == {"W"}


def test_sparse_and_dense_are_the_same():
    A = sums_of_parts()
    dense, sparse = small().fit(A), small().fit(scipy.sparse.csr_matrix(A))
    np.testing.assert_allclose(dense.components_, sparse.components_, rtol=1e-8, atol=1e-12)


def test_chunks_and_blocks_change_nothing_but_rounding(tmp_path):
    A = sums_of_parts()
    whole = small(init="nndsvda").fit(A)
    matrix = write_matrix(str(tmp_path / "m"), A, "float64", chunk_numbers=700)
    assert len(matrix.chunks) > 5
    cut = small(init="nndsvda", n_blocks=4).fit(matrix)
    np.testing.assert_allclose(cut.components_, whole.components_, rtol=1e-6, atol=1e-9)


def test_deltas_that_are_added_in_place_have_the_same_bits_in_all_blocks(tmp_path):
    algorithm = small(n_blocks=3)._algorithm(write_matrix(str(tmp_path / "m"), sums_of_parts(), "float64"))
    rng = np.random.default_rng(0)
    # The deltas of all blocks have the same Q, as those of a sweep do.
    left, right = (cut_sums(algorithm.bounds, rng.random((60, 5)), rng.random((5, 5))) for _ in range(2))
    expected = [algorithm.merge.add(pair) for pair in zip(left, right, strict=True)]
    found = [algorithm.merge.add(pair, may_overwrite=True) for pair in zip(left, right, strict=True)]
    for block, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(block["P"], wanted["P"])
        np.testing.assert_array_equal(block["Q"], wanted["Q"])


def test_any_number_of_workers_gives_the_same_bits(tmp_path, cluster_of):
    matrix = write_matrix(str(tmp_path / "m"), sums_of_parts(), "float32", chunk_numbers=700)
    options = {"dtype": "float32", "n_blocks": 2, "extrapolate": True}
    here = small(**options).fit(matrix)
    client = cluster_of(2)
    there = small(**options).fit(matrix, client=client)
    np.testing.assert_array_equal(here.components_, there.components_)
    assert [r["error"] for r in here.history_] == [r["error"] for r in there.history_]


PENALTIES = {"alpha_W": 0.002, "alpha_H": 0.003, "l1_ratio": 0.4}


@pytest.mark.parametrize("penalties", [{}, {"alpha_W": 0.01}, PENALTIES], ids=str)
def test_epochs_and_penalties_equal_those_of_scikit_learn(penalties, tmp_path):
    decomposition = pytest.importorskip("sklearn.decomposition")
    A = sums_of_parts(40, 30, 4) + 0.01
    model = small(n_components=4, max_iter=3, **penalties)
    H = fitted_rows(model, A, tmp_path / "run1")
    matrix = model._open_data(A)
    algorithm = model._algorithm(matrix)
    start = np.zeros((40, 4))
    nmf.fill_uniform(random.key(0, 1, 0), 0, start, 2 * algorithm.scale)
    peer = decomposition.NMF(4, init="custom", solver="cd", tol=0, max_iter=3, **penalties)
    expected = peer.fit_transform(A, W=start, H=np.ascontiguousarray(algorithm.first_block(matrix, 0, None)["W"].T))
    np.testing.assert_allclose(H, expected, atol=1e-10)
    np.testing.assert_allclose(model.components_, peer.components_, atol=1e-10)
    assert model.reconstruction_err_ == pytest.approx(peer.reconstruction_err_, rel=1e-8)


@pytest.mark.parametrize("n_columns", [30, 7_000])
@pytest.mark.parametrize("init", ["nndsvd", "nndsvda"])
def test_starts_from_singular_vectors_equal_those_of_scikit_learn(init, n_columns, tmp_path, monkeypatch):
    decomposition = pytest.importorskip("sklearn.decomposition")
    # Of many columns, a group of rows is in memory at a time.
    monkeypatch.setattr(nndsvd, "PART_BYTES", 0)
    A = sums_of_parts(40, n_columns, 8)
    peer = decomposition.NMF(4, init=init, solver="cd", tol=0, max_iter=1, random_state=0)
    expected = peer.fit_transform(A)
    model = small(n_components=4, init=init, max_iter=1)
    np.testing.assert_allclose(fitted_rows(model, scipy.sparse.csr_matrix(A), tmp_path / "run1"), expected, atol=1e-6)
    np.testing.assert_allclose(model.components_, peer.components_, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("penalties", [{}, PENALTIES], ids=str)
def test_the_gradient_criterion_stops_in_the_same_epoch_as_scikit_learn(penalties, sparse):
    decomposition = pytest.importorskip("sklearn.decomposition")
    A = sums_of_parts(110, 30, 4) + 0.01
    given = scipy.sparse.csr_matrix(A) if sparse else A
    model = small(n_components=4, max_iter=500, tol=1e-3, convergence="gradient", **penalties)
    matrix = model._open_data(given)
    algorithm = model._algorithm(matrix)
    start = np.zeros((110, 4))
    nmf.fill_uniform(random.key(0, 1, 0), 0, start, 2 * algorithm.scale)
    peer = decomposition.NMF(4, init="custom", solver="cd", tol=1e-3, max_iter=500, **penalties)
    peer.fit_transform(A, W=start, H=np.ascontiguousarray(algorithm.first_block(matrix, 0, None)["W"].T))
    model.fit(matrix)
    assert 10 < model.n_iter_ < 500
    assert model.n_iter_ == peer.n_iter_
    np.testing.assert_allclose(model.components_, peer.components_, rtol=1e-6, atol=1e-9)


def test_the_gradient_criterion_is_the_same_with_blocks_and_refused_where_no_gradient_is_known():
    A = sums_of_parts()
    whole = small(convergence="gradient", max_iter=4).fit(A)
    blocks = small(convergence="gradient", max_iter=4, n_blocks=3).fit(A)
    found = [[row["violation"] for row in model.history_] for model in (whole, blocks)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
    assert found[0][3] < found[0][0]
    with pytest.raises(ValueError, match="convergence='gradient' needs"):
        small(convergence="gradient", solver="mu").fit(A)
    with pytest.raises(ValueError, match="no CUDA kernels"):
        small(convergence="gradient", device="cuda").fit(A)


def test_tol_stops_early():
    model = small(tol=1e-2, max_iter=100).fit(sums_of_parts())
    assert 1 < model.n_iter_ < 100
    a, b = (row["error"] for row in model.history_[-2:])
    assert a - b < 1e-2 * a


def test_transform_finds_the_best_rows():
    A = sums_of_parts()
    model = small(max_iter=60).fit(A)
    H = model.transform(A)
    best = block_principal_pivoting(A @ model.components_.T, model.components_ @ model.components_.T)
    assert distance(A, H, model) <= distance(A, best, model) * 1.01 + 1e-9
    np.testing.assert_allclose(model.inverse_transform(H), H @ model.components_)
    np.testing.assert_allclose(model.transform(A[7:8]), H[7:8], atol=1e-9)


def test_a_corpus_is_factorised_as_counts_or_as_tf_idf(corpus, tmp_path):
    A = matrix_of(corpus)
    model = small(n_components=4)
    H = fitted_rows(model, corpus, tmp_path / "run1")
    assert model.reconstruction_err_ == pytest.approx(distance(A, H, model), rel=1e-6)
    words = [{w["word"] for w in t["words"]} for t in model.topics(20)]
    truth = [{f"w{i:03d}" for i in range(20 * k, 20 * k + 20)} for k in range(4)]
    assert all(max(len(t & w) for w in words) >= 19 for t in truth)
    weighed = small(n_components=4, weighting="tfidf")
    H = fitted_rows(weighed, corpus, tmp_path / "run2")
    frequency = np.asarray(corpus.vocabulary["document_frequency"])
    B = A * (np.log((1 + len(A)) / (1 + frequency)) + 1)
    B /= np.maximum(np.linalg.norm(B, axis=1, keepdims=True), 1e-300)
    assert weighed.reconstruction_err_ == pytest.approx(distance(B, H, weighed), rel=1e-5)
    assert "held_out_relative_error" in model.history_[-1]
    np.testing.assert_array_equal(model.transform(corpus).shape, (len(A), 4))


@pytest.mark.parametrize("options", [{}, {"solver": "mu", "beta_loss": "kullback-leibler"}], ids=str)
def test_partial_fit_continues_from_the_model(options, tmp_path):
    A = sums_of_parts(400, 40, 3)
    model = small(n_components=3, max_iter=15, **options).partial_fit(A[:300])
    before = model.components_
    model.save(str(tmp_path / "model"))
    unlike = np.random.default_rng(1).random((4, 40)) * A.mean()
    model.partial_fit(unlike)
    # Four unusual rows change a model of 300 rows a little. Without the old rows' weight they would replace it.
    near = [np.corrcoef(before[k], model.components_[k])[0, 1] for k in range(3)]
    assert min(near) > 0.95 and np.abs(before - model.components_).max() > 0
    again = NMF.load(str(tmp_path / "model")).partial_fit(A[300:])
    assert distance(A, again.transform(A), again) < 0.1 * np.linalg.norm(A)
    with pytest.raises(ValueError, match="X has 39 features, but NMF is expecting 40"):
        again.partial_fit(A[:, :39])
    with pytest.raises(ValueError, match="was trained with 3"):
        again.set_params(n_components=4).partial_fit(A)


@pytest.mark.parametrize("weighting", ["counts", "tfidf"])
def test_partial_fit_adds_new_words_and_keeps_the_old_ones(weighting):
    old, new = ["red green blue", "red green", "cat dog", "dog cat cow"] * 5, ["red green pink", "dog cat fish"] * 5
    model = small(n_components=2, weighting=weighting, max_iter=12).fit(corpus_from(old))
    before = dict(zip(model.words_, model.components_.T, strict=True))
    model.partial_fit(corpus_from(new))
    after = dict(zip(model.words_, model.components_.T, strict=True))
    assert after.keys() == before.keys() | {"pink", "fish"}
    np.testing.assert_array_equal(after["blue"], before["blue"])
    red, cat = int(np.argmax(before["red"])), int(np.argmax(before["cat"]))
    assert np.argmax(after["red"]) == np.argmax(after["pink"]) == red
    assert np.argmax(after["cat"]) == np.argmax(after["fish"]) == cat


def test_a_corpus_is_transformed_to_files_and_scored(corpus, tmp_path):
    model = small(n_components=4, max_iter=15).fit(corpus)
    counts = model.transform_to(corpus, str(tmp_path / "rows"))
    rows = np.concatenate(
        [np.stack(pq.read_table(f)["weights"].to_numpy()) for f in sorted((tmp_path / "rows").glob("*.parquet"))]
    )
    np.testing.assert_array_equal(rows, model.transform(corpus))
    assert counts["documents"] == corpus.n_documents and counts["unseen_tokens"] == 0
    vague = small(n_components=1, max_iter=3).fit(corpus)
    # Four equal topics of 20 words each: knowing a document's topics is worth up to ln 4.
    assert vague.score(corpus) + 0.5 < model.score(corpus) < -np.log(20)


def test_the_divergence_falls_and_equals_that_of_scikit_learn(corpus, tmp_path):
    options = {"solver": "mu", "beta_loss": "kullback-leibler"}
    A = matrix_of(corpus)
    model = small(n_components=4, max_iter=25, **options)
    H = fitted_rows(model, corpus, tmp_path / "run1")
    errors = [row["error"] for row in model.history_]
    assert all(b <= a * (1 + 1e-9) for a, b in zip(errors[:-1], errors[1:], strict=True))
    decomposition = pytest.importorskip("sklearn.decomposition")
    peer = decomposition.NMF(4, solver="mu", beta_loss="kullback-leibler", init="custom", tol=0, max_iter=1)
    start = H.copy(), model.components_.copy()
    peer.fit_transform(A, W=start[0], H=start[1])
    # One more update for scikit-learn, because NMF reports the error before the update of W.
    assert peer.reconstruction_err_ <= errors[-1] and peer.reconstruction_err_ == pytest.approx(errors[-1], rel=2e-3)
    assert "held_out_divergence" in model.history_[-1]
    assert np.isfinite(model.transform(corpus)).all()


@pytest.mark.parametrize("options", [{"init": "nndsvd"}, {"solver": "mu", "beta_loss": "kullback-leibler"}], ids=str)
def test_the_size_of_a_component_is_its_share_of_the_data(options):
    # Three groups of rows with words of their own, of which each has twice the weight of the one before.
    A = scipy.linalg.block_diag(*(weight * np.ones((6, 4)) for weight in (1.0, 2.0, 4.0)))
    model = small(n_components=3, max_iter=200, **options).fit(A)
    np.testing.assert_allclose(sorted(model.topic_sizes_), np.array([1, 2, 4]) / 7, rtol=1e-6)
    largest = max(model.topics(), key=lambda topic: topic["size"])
    assert {entry["word"] for entry in largest["words"][:4]} == {"8", "9", "10", "11"}


def test_the_size_of_a_component_does_not_depend_on_its_scale():
    model = small(max_iter=5).fit(sums_of_parts())
    sizes = model.topic_sizes_
    # The same H·Wᵀ.
    model.model_.blocks[0]["W"][:, 2] *= 1000
    model.model_.shared["Q"][2] /= 1000
    model.model_.shared["Q"][:, 2] /= 1000
    np.testing.assert_allclose(model.topic_sizes_, sizes, rtol=1e-9)
    assert [topic["size"] for topic in model.topics()] == model.topic_sizes_.tolist()


def test_dask_arrays():
    dask_array = pytest.importorskip("dask.array")
    A = sums_of_parts()
    model = small().fit(dask_array.from_array(A, chunks=(37, 25)))
    assert model.reconstruction_err_ < 0.3 * np.linalg.norm(A)


def test_saved_models_and_vectors(tmp_path):
    A = sums_of_parts()
    model = small().fit(A)
    model.save(str(tmp_path / "model"))
    loaded = load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.components_, model.components_)
    np.testing.assert_array_equal(loaded.transform(A), model.transform(A))
    vectors = model.vectors_
    for ending in ("safetensors", "parquet", "zarr"):
        vectors.save(str(tmp_path / f"w.{ending}"))
        found = type(vectors).load(str(tmp_path / f"w.{ending}"))
        np.testing.assert_array_equal(found.vectors, model.components_.T.astype(np.float32))


def test_empty_rows_and_columns_are_allowed(tmp_path):
    A = sums_of_parts()
    A[3], A[:, 7] = 0, 0
    model = small()
    H = fitted_rows(model, A, tmp_path / "run1")
    assert np.isfinite(H).all() and np.isfinite(model.components_).all()
    np.testing.assert_allclose(H[3] @ model.components_, 0, atol=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("options", [{}, {"init": "nndsvd"}], ids=str)
def test_a_matrix_of_zeros(options, tmp_path):
    model = small(max_iter=3, **options)
    assert np.isfinite(fitted_rows(model, np.zeros((9, 8)), tmp_path / "run1")).all()
    assert np.isfinite(model.components_).all()
    assert model.reconstruction_err_ < 1e-12


def test_documents_may_come_as_strings_or_tokens_and_be_empty():
    documents = ["red green blue", "", "cat dog", "red dog"]
    model = small(n_components=2, max_iter=3).fit(documents)
    np.testing.assert_array_equal(
        model.components_, small(n_components=2, max_iter=3).fit(corpus_from(documents)).components_
    )
    rows = model.transform([["red", "dog"], [], ["zebra"]])
    assert rows[0].max() > 0 and not rows[1:].any()
    np.testing.assert_array_equal(model.transform(["", ""]), np.zeros((2, 2)))
    with pytest.raises(DataError, match="no word to train on"):
        small().fit(["", ""])


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"n_components": 61, "init": "nndsvd"}, "choose 1 to 60"),
        ({"n_components": 0}, "n_components is 0: choose an integer of 1 or more"),
        ({"solver": "cd"}, "solver is 'cd'"),
        ({"init": "custom"}, "init is 'custom'"),
        ({"sweeps": 0}, "sweeps is 0: choose an integer of 1 or more"),
        ({"beta_loss": "kullback-leibler"}, "solver='mu'"),
        ({"solver": "mu", "alpha_W": 0.1}, "solver='hals'"),
        ({"solver": "mu", "extrapolate": True}, "solver='hals'"),
        ({"alpha_W": 0.1, "extrapolate": True}, "compares errors without penalties"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(sums_of_parts())


def test_bad_entries_and_shapes_are_refused():
    A = sums_of_parts()
    model = small().fit(A)
    with pytest.raises(ValueError, match="X has 59 features, but NMF is expecting 60"):
        model.transform(A[:, :59])
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        model.transform(A[0])
    A[5, 6] = -1
    for matrix in (A, scipy.sparse.csr_matrix(A)):
        with pytest.raises(ValueError, match=r"Negative values .* row 5, column 6"):
            small().fit(matrix)
    A[5, 6] = np.nan
    for matrix in (A, scipy.sparse.csr_matrix(A)):
        with pytest.raises(ValueError, match="Input X contains NaN in row 5, column 6"):
            small().fit(matrix)


@pytest.mark.slow
def test_a_matrix_three_times_the_memory_limit_trains_within_the_estimate(tmp_path):
    limit, rows = 640 << 20, np.random.default_rng(0).random((1024, 2048), np.float32)
    matrix = write_matrix(str(tmp_path / "m"), rows, chunk_numbers=rows.size)
    # All chunks are links to one chunk, so the disk need not hold three times the memory.
    first, count = tmp_path / "m" / "train" / "000000", 3 * limit // rows.nbytes
    for c in range(1, count):
        shutil.copytree(first, first.with_name(f"{c:06d}"), copy_function=os.link)
    chunks = [replace(matrix.chunks[0], first_document=len(rows) * c) for c in range(count)]
    write_chunk_table(matrix.store, TABLE, MatrixChunkInfo, chunks)
    counts = {"chunks": count, "n_documents": count * matrix.n_documents, "n_tokens": count * matrix.n_tokens}
    matrix.store.write_json("matrix.json", matrix.meta | counts | {"total": matrix.total * count})
    plans, model = [], NMF(2, tol=0, max_iter=1)
    with open_cluster("local", n_workers=1, threads_per_worker=1, memory_limit=limit) as client:
        model.fit(matrix.url, client=client, callbacks=[lambda event: plans.append(getattr(event, "plan", None))])
        (peak,) = client.run(peak_rss).values()
    assert model.history_[-1]["relative_error"] < 0.6
    assert peak <= next(p for p in plans if p)["total"] <= limit


# --- reading the data and the previous model ---


class Counted:
    """Counts the calls of a method of a class."""

    def __init__(self, monkeypatch, cls, name):
        self.calls = 0
        method = getattr(cls, name)

        def counting(*arguments):
            self.calls += 1
            return method(*arguments)

        monkeypatch.setattr(cls, name, counting)


def test_singular_vectors_are_computed_once_for_all_blocks(monkeypatch, tmp_path):
    matrix = write_matrix(str(tmp_path / "m"), [sums_of_parts(60, 20, 3)], "float64")
    reads = Counted(monkeypatch, Matrix, "read_chunk")
    small(n_components=3, max_iter=1, init="nndsvd").fit(matrix)
    of_one_block = reads.calls
    small(n_components=3, max_iter=1, init="nndsvd", n_blocks=4).fit(matrix)
    assert reads.calls == 2 * of_one_block


def test_partial_fit_reads_the_previous_model_one_block_at_a_time(monkeypatch, tmp_path):
    A = sums_of_parts(60, 20, 3)
    model = small(n_components=3, max_iter=1, n_blocks=4).fit(A)
    whole = Counted(monkeypatch, SavedModel, "load")
    blocks = Counted(monkeypatch, SavedModel, "block")
    model.partial_fit(A)
    assert whole.calls == 0
    # Each of the four new blocks looks for its rows in each of the four old ones.
    assert blocks.calls == 16


@pytest.mark.parametrize("options", [{}, {"extrapolate": True}, {"init": "nndsvd"}], ids=str)
def test_a_component_that_no_row_uses_gets_new_numbers_that_do_not_depend_on_the_cut(options, tmp_path):
    matrix = write_matrix(str(tmp_path / "m"), [sums_of_parts(60, 20, 3)], "float64")

    def new_column(n_blocks):
        algorithm = small(n_components=3, n_blocks=n_blocks, **options)._algorithm(matrix)
        shared = algorithm.begin_shared(matrix, None)
        column = []
        for block in algorithm.begin(matrix, range(n_blocks), None):
            # The block must keep in mind where it is.
            for _ in range(2):
                delta = {"P": np.zeros_like(block["W"]), "Q": np.diag([1.0, 0.0, 2.0])}
                block, _ = algorithm.apply(block, delta, shared, dict)
            column += block["W"][:, 1].tolist()
        return column

    assert new_column(4) == new_column(1)
    assert len(set(new_column(4))) == 20


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
def test_an_error_that_overflows_float32_ends_training(convert):
    A = np.random.default_rng(0).random((30, 8)) * 1e20
    with pytest.raises(DataError, match=r"training diverged: in epoch 1, the array 'explained' .* not finite"):
        NMF(2, max_iter=3).fit(convert(A))
