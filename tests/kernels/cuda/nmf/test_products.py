"""The products of NMF by CuPy, with NumPy in place of CuPy: what they compute, and that the host never waits."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from corpusmill.kernels.chunk import as_int32
from corpusmill.kernels.cuda.memory import upload
from corpusmill.kernels.cuda.nmf import products
from corpusmill.kernels.nmf.products import SparseRows
from helpers.on_device import emulated
from scipy import sparse

on_ptx = pytest.mark.skipif(not emulated(), reason="NumPy computes in the memory of tests/ptx only")


class Canonical(sparse.csr_matrix):
    """A sparse matrix like CuPy's, which must know that no entry is stored twice: else the host waits."""

    def __matmul__(self, dense):
        assert self.__dict__.get("_has_canonical_format"), "CuPy looks for duplicates, and the host waits"
        assert self.indptr.dtype == np.int32
        return sparse.csr_matrix((self.data, self.indices, self.indptr), self.shape) @ dense


def as_cupy_reads(array):
    """Return the memory of a device array, as CuPy's function of this name does."""
    interface = array.__cuda_array_interface__
    assert interface["stream"] is None, "CuPy lets the host wait for the stream of an array"
    return np.asarray(SimpleNamespace(__array_interface__={**interface, "version": 3}))


@pytest.fixture
def _numpy_as_cupy(monkeypatch):
    cupy = SimpleNamespace(
        asarray=as_cupy_reads,
        float64=np.float64,
        cuda=SimpleNamespace(ExternalStream=lambda handle: nullcontext()),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupyx.scipy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse", SimpleNamespace(csr_matrix=Canonical))
    monkeypatch.setattr(products, "has_cupy", lambda: True)


@on_ptx
@pytest.mark.usefixtures("_numpy_as_cupy")
def test_products_by_cupy_are_added_and_the_host_does_not_wait():
    rng = np.random.default_rng(1)
    A = sparse.random(9, 7, 0.4, "csr", dtype=np.float32, random_state=rng)
    rows = SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data)
    X = rng.random((7, 3)).astype(np.float32)
    for add, left in (
        (lambda out: products.add_sparse_product(rows, upload(X, "X"), out, "out"), A.toarray()),
        (lambda out: products.add_dense_product(upload(A.toarray(), "A"), upload(X, "X"), out, "out"), A.toarray()),
    ):
        out = upload(np.ones((9, 3), np.float32), "out")
        add(out)
        np.testing.assert_allclose(out.copy_to_host(), 1 + left @ X, rtol=1e-6)
    gram = upload(np.ones((3, 3)), "out")
    products.add_gram(upload(X, "X"), gram, "out")
    np.testing.assert_allclose(gram.copy_to_host(), 1 + X.T.astype(float) @ X, rtol=1e-12)


def test_more_non_zeros_than_32_bits_count_are_refused():
    ends = np.array([0, 1 << 31])
    with pytest.raises(ValueError, match="2,147,483,648 non-zeros of a chunk do not fit 32 bits"):
        as_int32(ends, "non-zeros of a chunk")
    np.testing.assert_array_equal(as_int32(ends - 1, "non-zeros"), [-1, (1 << 31) - 1])
