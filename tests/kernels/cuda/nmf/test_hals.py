"""NMF on a device against the CPU: one sweep and several, sparse and dense, to 1e-5."""

from unittest import mock

import numpy as np
import pytest
from corpusmill.kernels.cuda.nmf import hals as nmf
from corpusmill.kernels.cuda.nmf import products as nmf_products
from corpusmill.kernels.cuda.nmf import sums as nmf_sums
from corpusmill.kernels.cuda.residents import RESIDENTS
from corpusmill.kernels.nmf import hals as cpu
from corpusmill.kernels.nmf import products
from helpers.on_device import on_device
from helpers.toy import write_topic_corpus
from scipy import sparse


@pytest.fixture(autouse=True, params=["plain kernels", "libraries"])
def _few_blocks(request):
    # With CuPy, the product's own kernels are tested too.
    if request.param == "libraries" and not nmf_products.has_cupy():
        pytest.skip("CuPy is not installed")
    by_kernels = mock.patch.object(nmf_products, "has_cupy", return_value=request.param == "libraries")
    with by_kernels, mock.patch.multiple(nmf_products, BLOCKS=2):
        with mock.patch.multiple(nmf_sums, BLOCKS=2):
            yield


def small_case(dtype, D=35, V=9, K=5):
    rng = np.random.default_rng(0)
    A = sparse.random(D, V, 0.4, "csr", dtype=dtype, random_state=rng)
    rows = products.sparse_matrix(products.SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data), V)
    return A, rows, rng.random((V, K)).astype(dtype), rng.random((D, K)).astype(dtype)


@on_device
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("block_rows", [4, 16, 32])
@pytest.mark.parametrize(("sweeps", "floor"), [(1, 0.0), (3, 0.0), (1, 1e-3)])
def test_half_an_epoch_equals_that_of_the_cpu(sweeps, floor, block_rows, dtype):
    A, rows, W, old = small_case(dtype)
    S = W.T.astype(float) @ W
    rule, scratch = cpu.update_rule(S, 0.01, 0.02, dtype), cpu.make_scratch(5, dtype)
    rule = rule._replace(floor=np.dtype(dtype).type(floor))
    expected, found, found_dense = ((np.ones_like(W), np.ones((5, 5))) for _ in range(3))
    enough = 2 * 5 * (block_rows + 1) * np.dtype(dtype).itemsize
    H = cpu.sweep_sparse(rows, W, rule, old, *expected, sweeps, scratch)
    with mock.patch.object(nmf, "shared_memory_limit", return_value=enough):
        found_H = nmf.sweep_sparse(rows, W, rule, old, *found, sweeps, scratch)
        dense_H = nmf.sweep_dense(A.toarray(), W, rule, old, *found_dense, sweeps, scratch)
        RESIDENTS.bring_back([*found, *found_dense])
        R = A @ W
        rows, gram, inner = nmf.sweep_products(R, rule, old, sweeps, scratch)
    np.testing.assert_allclose(found_H, H, atol=1e-5)
    assert np.abs(H - old).max() > 0.1
    np.testing.assert_allclose(dense_H, H, atol=1e-5)
    for P, Q in (found, found_dense):
        np.testing.assert_allclose(P, expected[0], atol=1e-5)
        np.testing.assert_allclose(np.triu(Q), np.triu(expected[1]), atol=1e-5)
    np.testing.assert_allclose(rows, H, atol=1e-5)
    np.testing.assert_allclose(gram + 1, cpu.symmetric(expected[1]), atol=1e-5)
    np.testing.assert_allclose(inner, np.sum(R * H), rtol=1e-5)


@on_device
def test_a_thousand_components_fit_the_shared_memory_that_every_device_grants():
    assert nmf._rows_per_block(1024, 4) >= nmf.MIN_ROWS


@on_device
def test_too_many_components_are_refused():
    _, rows, W, H = small_case("float32")
    rule = cpu.update_rule(W.T @ W)
    with (
        mock.patch.object(nmf, "shared_memory_limit", return_value=100),
        pytest.raises(ValueError, match=r"5 components take 200 bytes of a block's shared memory, which has 100"),
    ):
        nmf.sweep_sparse(rows, W, rule, H, np.zeros_like(W), np.zeros((5, 5)), 1, None)


@on_device
@pytest.mark.parametrize(
    "options",
    [{}, {"n_blocks": 2}, {"extrapolate": True, "n_blocks": 2}],
    ids=str,
)
def test_training_on_a_device_equals_training_on_the_cpu(options, tmp_path):
    from corpusmill import NMF

    corpus = write_topic_corpus(str(tmp_path), 2, words_per_topic=3, n_chunks=2, documents=4, length=8)
    found, expected = (NMF(3, max_iter=2, device=device, **options).fit(corpus) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-5)


@on_device
def test_training_on_a_dense_matrix_and_continuing_it_equals_that_on_the_cpu(tmp_path):
    from corpusmill import NMF

    A = np.random.default_rng(2).random((12, 7)).astype(np.float32)
    found, expected = (NMF(3, max_iter=2, device=device, random_state=1).fit(A) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-5)
    for model in (found, expected):
        model.partial_fit(A[:5])
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-5)
