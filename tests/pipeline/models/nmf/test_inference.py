"""A trained factorisation is applied to the rows of a matrix on the workers of a client."""

import numpy as np
import pytest
import scipy.special
from corpusmill import NMF, write_matrix
from corpusmill.pipeline.ingest.ingest import corpus_from
from distributed import get_task_stream
from sklearn import decomposition as scikit_learn


def test_the_workers_of_a_client_transform_and_score_the_rows_of_a_matrix(tmp_path, cluster_of):
    A = np.random.default_rng(0).random((120, 60))
    matrix = write_matrix(str(tmp_path / "m"), A, "float32", chunk_numbers=700)
    model = NMF(5, max_iter=3).fit(matrix)
    client = cluster_of(2)
    for rows in (matrix, A):
        with get_task_stream(client) as stream:
            np.testing.assert_array_equal(model.transform(rows, client=client), model.transform(rows))
            assert model.score(rows, client=client) == model.score(rows)
        names = [task["key"].rpartition("-")[0].rpartition("-")[0] for task in stream.data]
        expected = len(matrix.chunks) if rows is matrix else 1
        assert (names.count("rows_of_matrix"), names.count("error_of_matrix")) == (expected, expected)


@pytest.mark.parametrize(("loss", "solver"), [("frobenius", "hals"), ("kullback-leibler", "mu")])
def test_held_out_documents_are_scored_in_the_words_that_they_were_ingested_with(loss, solver):
    old = corpus_from(["red green blue red", "cat dog cow dog", "red blue", "cat cow"] * 20, held_out=0.3)
    names = [*old.vocabulary["word"].to_pylist(), *(f"new{k}" for k in range(9))]
    new = corpus_from([*(f"{word} new{k % 9} new{k % 4}" for k, word in enumerate(names * 3))], vocabulary=names)
    model = NMF(2, beta_loss=loss, solver=solver, max_iter=5, random_state=1).fit(old)
    model.partial_fit(new, held_out=old.held_out, evaluate_every=1)
    (measure,) = (name for name in model.history_[-1] if name.startswith("held_out"))
    W = model.components_.T[: old.n_words]
    A = old.held_out.read_chunk(0).counts(old.n_words).toarray().astype(np.float32)
    H = scikit_learn.NMF(2, beta_loss=loss, solver="mu", max_iter=1000).fit(A)
    H.components_ = W.T
    rows = H.transform(A)
    found = model.history_[-1][measure]
    if loss == "frobenius":
        expected = np.linalg.norm(A - rows @ W.T) / np.linalg.norm(A)
    else:
        expected = (scipy.special.rel_entr(A, rows @ W.T) - A + rows @ W.T).sum() / A.sum()
    np.testing.assert_allclose(found, expected, rtol=0.01)
