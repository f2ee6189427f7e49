"""``transform`` of documents in memory: the same rows as from a corpus on disk, without writing one."""

import tempfile

import numpy as np
import pytest
import scipy.sparse
from corpusmill import LDA, NMF, RandomIndexing, Word2Vec, ingest, write_matrix
from corpusmill.io.errors import DataError
from corpusmill.io.readers import bags, reader
from corpusmill.io.stores import matrix
from helpers.documents import BOATS_AND_BREAD

#: Documents with words that no model has, without words, and of other lengths.
NEW = ["boat sea unheardof boat", "", "oven bread sea " * 50]


def models():
    return [
        LDA(2, max_iter=3, device="cpu"),
        RandomIndexing(16, seed_length=4, device="cpu"),
        Word2Vec(vector_size=8, min_count=1, epochs=1, device="cpu"),
        NMF(2, max_iter=3, device="cpu"),
        NMF(2, max_iter=3, weighting="tfidf", device="cpu"),
    ]


@pytest.mark.parametrize("model", models(), ids=lambda model: type(model).__name__)
def test_documents_in_memory_are_transformed_without_files(model, tmp_path, monkeypatch):
    model.fit(BOATS_AND_BREAD)
    stored = [model.transform(ingest(documents, str(tmp_path / name))) for name, documents in forms()]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    for rows, (_, documents) in zip(stored, forms(), strict=True):
        np.testing.assert_array_equal(model.transform(documents), rows)


def test_many_documents_in_memory_are_read_in_batches(tmp_path, monkeypatch):
    documents = NEW * 20
    model = LDA(2, max_iter=3, device="cpu").fit(BOATS_AND_BREAD)
    rows = model.transform(ingest(documents, str(tmp_path / "corpus")))
    monkeypatch.setattr(reader, "BATCH_BYTES", 100)
    assert len(list(model._transform_in_memory(documents))) > 10
    np.testing.assert_array_equal(model.transform(documents), rows)


def forms():
    """Return the same documents as texts and as lists of words."""
    return [("texts", NEW), ("lists", [text.split() for text in NEW])]


def test_a_matrix_in_memory_is_transformed_without_files(tmp_path, monkeypatch):
    counts = np.random.default_rng(0).poisson(0.7, size=(20, 8))
    counts[3] = 0
    model = LDA(3, max_iter=5, device="cpu").fit(counts)
    rows = model.transform(ingest(counts, str(tmp_path / "corpus")))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    for form in (counts, counts.astype(np.float32), scipy.sparse.csr_array(counts), scipy.sparse.csc_matrix(counts)):
        np.testing.assert_array_equal(model.transform(form), rows)
    np.testing.assert_array_equal(model.transform(counts[5:6]), rows[5:6])


def test_many_rows_of_counts_in_memory_are_read_in_batches(tmp_path, monkeypatch):
    counts = np.random.default_rng(0).poisson(0.7, size=(20, 8))
    model = LDA(3, max_iter=5, device="cpu").fit(counts)
    rows = model.transform(ingest(counts, str(tmp_path / "corpus")))
    monkeypatch.setattr(bags, "BATCH_TOKENS", 30)
    assert len(list(model._transform_in_memory(model._checked_input(counts)))) > 3
    np.testing.assert_array_equal(model.transform(counts), rows)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nmf_transforms_a_matrix_in_memory_without_files(tmp_path, monkeypatch, dtype):
    rows = np.random.default_rng(0).gamma(1.0, size=(20, 8))
    rows[rows < 1] = 0
    model = NMF(3, max_iter=5, dtype=dtype, device="cpu").fit(rows)
    expected = {
        "dense": model.transform(write_matrix(str(tmp_path / "dense"), rows, dtype)),
        "sparse": model.transform(write_matrix(str(tmp_path / "sparse"), scipy.sparse.csr_matrix(rows), dtype)),
    }
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    monkeypatch.setattr(matrix, "CHUNK_NUMBERS", 30)
    np.testing.assert_array_equal(model.transform(rows), expected["dense"])
    for form in (scipy.sparse.csr_array(rows), scipy.sparse.csc_matrix(rows), scipy.sparse.coo_matrix(rows)):
        np.testing.assert_array_equal(model.transform(form), expected["sparse"])
    assert expected["dense"].dtype == dtype
    assert len(list(model._transform_in_memory(model._checked_input(rows)))) > 3


def numbered_counts():
    """Return counts (20, 8) whose columns are not in the order of frequency, which is that of a corpus."""
    counts = np.random.default_rng(0).poisson(1.0, size=(20, 8))
    counts[:, 5] += 9
    return counts


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("estimator", [LDA, NMF])
def test_numbered_columns_of_a_corpus_are_found_by_their_numbers(estimator, workers, tmp_path, cluster_of):
    counts = numbered_counts()
    corpus = ingest(counts, str(tmp_path / "corpus"))
    model = estimator(3, max_iter=5, device="cpu").fit(corpus)
    client = cluster_of(workers) if workers else None
    np.testing.assert_array_equal(model.transform(counts, client=client), model.transform(corpus))
    assert model.score(counts, client=client) == model.score(corpus)


@pytest.mark.parametrize("estimator", [LDA, NMF])
def test_a_matrix_without_some_of_the_numbered_columns_is_refused(estimator, tmp_path):
    counts = numbered_counts()
    model = estimator(3, max_iter=5, device="cpu").fit(ingest(counts, str(tmp_path / "corpus")))
    known = f"{estimator.__name__} was fitted on columns with numbers up to 7, counted from 0"
    for call in (model.transform, model.score):
        with pytest.raises(DataError, match=f"X has 5 columns, but {known}: pass all columns of the training data"):
            call(counts[:, :5])
    with pytest.warns(UserWarning, match=f"X has 16 columns, but {known}: those from 8 on are skipped"):
        rows = model.transform(np.c_[counts, counts])
    np.testing.assert_array_equal(rows, model.transform(counts))


def test_nmf_of_a_corpus_refuses_a_stored_matrix_whose_columns_may_be_in_another_order(tmp_path):
    counts = numbered_counts()
    model = NMF(3, max_iter=5, device="cpu").fit(ingest(counts, str(tmp_path / "corpus")))
    matrix = write_matrix(str(tmp_path / "matrix"), counts)
    for call in (model.transform, model.score, model.partial_fit):
        with pytest.raises(DataError, match="a matrix, where documents are needed: pass a corpus or its path"):
            call(matrix)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 1e39])
def test_nmf_refuses_entries_that_are_no_weights(bad):
    rows = np.random.default_rng(0).gamma(1.0, size=(20, 8))
    model = NMF(3, max_iter=5, device="cpu").fit(rows)
    rows[4, 2] = bad
    with pytest.raises(ValueError, match="row 4, column 2"):
        model.transform(rows)


@pytest.mark.parametrize("model", models(), ids=lambda model: type(model).__name__)
def test_no_documents_are_refused(model):
    model.fit(BOATS_AND_BREAD)
    with pytest.raises(DataError, match="contains no document"):
        model.transform([])


def test_nmf_of_a_matrix_refuses_documents():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.eye(3, dtype=int), columns=["boat", "sea", "oven"])
    model = NMF(2, max_iter=3, device="cpu").fit(frame)
    documents = [["boat", "sea"]]
    message = r"this NMF was fitted on a matrix, .*: pass a matrix with the same"
    calls = (model.transform, model.score, model.match_halves, lambda documents: model.query(documents[0]))
    for call in calls:
        with pytest.raises(DataError, match=message):
            call(documents)
    with pytest.raises(AttributeError, match=r"fitted on a matrix, .*: feature_names_in_ has the names of the columns"):
        _ = model.words_
    assert model.feature_names_in_.tolist() == ["boat", "sea", "oven"]


@pytest.mark.parametrize("call", ["transform", "score"])
@pytest.mark.parametrize("data", [3, b"boat sea", None], ids=["number", "bytes", "None"])
@pytest.mark.parametrize("estimator", [LDA, NMF])
def test_what_is_neither_documents_nor_a_matrix_is_refused_by_its_type(estimator, data, call):
    message = rf"{estimator.__name__} takes documents .*, a matrix, a store or its path, not {type(data).__name__}"
    for trained_on in (BOATS_AND_BREAD, np.eye(3, dtype=int)):
        model = estimator(2, max_iter=3, device="cpu").fit(trained_on)
        with pytest.raises(ValueError, match=message):
            getattr(model, call)(data)
