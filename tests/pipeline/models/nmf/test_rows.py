"""Forms of sparse rows: when they are made, how large they are, and that they do not change a model."""

import numpy as np
import pytest
import scipy.sparse
from corpusmill import NMF
from corpusmill.kernels.nmf import products, slices
from corpusmill.pipeline.models.nmf import rows
from corpusmill.pipeline.models.nmf.rows import SparseChunk

DENSITIES = {0.02: products.SparseMatrix, 0.3: slices.SlicedMatrix}


def matrix(density, D=400, V=150):
    return scipy.sparse.random(D, V, density, "csr", np.float32, random_state=0)


def chunk_of(A, dtype=np.float32):
    by_row = products.SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data.astype(dtype))
    return SparseChunk(by_row, A.shape[1], 20)


def bytes_of(form):
    if isinstance(form, tuple):
        return sum(bytes_of(field) for field in form)
    return getattr(form, "nbytes", 0)


@pytest.mark.parametrize("density", DENSITIES)
def test_a_chunk_gets_a_faster_form_for_its_second_sweep(density):
    chunk = chunk_of(matrix(density))
    assert isinstance(chunk.form(), products.SparseRows)
    second = chunk.form()
    assert isinstance(second, DENSITIES[density])
    assert chunk.form() is second


def test_a_large_factor_needs_the_faster_form_at_once(monkeypatch):
    monkeypatch.setattr(rows, "ROW_ORDER_BYTES", 1000)
    assert isinstance(chunk_of(matrix(0.3)).form(), slices.SlicedMatrix)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("density", DENSITIES)
def test_the_bytes_of_a_chunk_include_the_faster_form(density, dtype):
    chunk = chunk_of(matrix(density, 5000), dtype)
    expected = chunk.nbytes
    chunk.form()
    assert bytes_of(chunk.form()) <= expected < 1.3 * bytes_of(chunk.form())
    assert chunk.nbytes == expected


@pytest.mark.parametrize("density", DENSITIES)
def test_the_form_does_not_change_a_model(density, monkeypatch):
    A = matrix(density)
    model = NMF(20, max_iter=4, tol=0, device="cpu")
    expected = model.fit(A).components_
    monkeypatch.setattr(SparseChunk, "form", lambda chunk: chunk.by_row)
    np.testing.assert_array_equal(NMF(20, max_iter=4, tol=0, device="cpu").fit(A).components_, expected)
