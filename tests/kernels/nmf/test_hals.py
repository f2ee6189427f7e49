"""FAST-HALS in blocks of rows against its reference implementations, also with registers of other widths."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from corpusmill.kernels.nmf import hals as nmf
from corpusmill.kernels.nmf import products
from corpusmill.kernels.simd import tiles
from helpers.naive import nmf_best_rows, nmf_extrapolated
from helpers.narrow_registers import NARROW
from helpers.nmf_cases import agree, random_problem
from hypothesis import given, settings
from hypothesis import strategies as st


def rows_of(A, dtype):
    return products.SparseRows(A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data.astype(dtype))


def epoch(A, W, H, sweeps=1, l1=(0.0, 0.0), l2=(0.0, 0.0), dense=False):
    """One epoch in place; returns ‖A − HWᵀ‖² as the kernels compute it."""
    K, dtype = W.shape[1], W.dtype
    scratch, P, Q, S = nmf.make_scratch(K, dtype), np.zeros_like(W), np.zeros((K, K)), np.zeros((K, K))
    rule = nmf.update_rule(W.T @ W, l1[1], l2[1], dtype)
    if dense:
        nmf.sweep_rows((A @ W).astype(dtype), rule, H, Q, sweeps, scratch)
        P = (A.T @ H).astype(dtype)
    else:
        matrix = products.sparse_matrix(rows_of(A, dtype), len(W))
        H[:] = nmf.sweep_sparse(matrix, W, rule, H, P, Q, sweeps, scratch)
    Q = nmf.symmetric(Q)
    inner = nmf.sweep_rows(P, nmf.update_rule(Q, l1[0], l2[0], dtype), W, S, sweeps, scratch)
    return float((A.multiply(A)).sum()) - 2 * inner + np.sum(nmf.symmetric(S) * Q)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("sweeps", [1, 3])
@pytest.mark.parametrize("K", [1, 10, 33])
def test_separable_sweeps_take_each_row_to_its_minimum(K, sweeps, dense):
    A, W, H = random_problem(101, 60, K, seed=1)
    steps = nmf_best_rows(A.toarray().T, W, H.T, 6, (0.02, 0.03), (0.1, 0.2), sweeps)
    for expected_W, expected_H in steps:
        error = epoch(A, W, H, sweeps=sweeps, l1=(0.02, 0.03), l2=(0.1, 0.2), dense=dense)
        agree(W, expected_W, 1e-9)
        agree(H, expected_H.T, 1e-9)
        assert error == pytest.approx(np.sum((A.toarray() - H @ W.T) ** 2), rel=1e-9)


def test_single_precision_follows_double():
    A, W, H = random_problem(300, 200, 20, seed=2)
    W32, H32 = W.astype(np.float32), H.astype(np.float32)
    for _ in range(5):
        assert epoch(A, W32, H32) == pytest.approx(epoch(A, W, H), rel=1e-5)


@settings(max_examples=20)
@given(
    st.integers(1, 120), st.integers(1, 50), st.integers(1, 20), st.integers(0, 99), st.sampled_from([0.0, 0.05, 1.0])
)
def test_the_error_never_rises_and_factors_stay_non_negative(D, V, K, seed, density):
    A, W, H = random_problem(D, V, K, seed, density)
    errors = [epoch(A, W, H, sweeps=2) for _ in range(4)]
    scale = max(float(A.multiply(A).sum()), 1.0)
    assert all(b <= a + 1e-9 * scale for a, b in zip(errors[:-1], errors[1:], strict=True))
    assert min(W.min(), H.min()) >= 0
    assert np.isfinite(W).all() and np.isfinite(H).all()


def test_a_component_of_zeros_stays_zero():
    A, W, H = random_problem(30, 20, 4)
    W[:, 2], H[:, 2] = 0, 0
    epoch(A, W, H)
    assert (W[:, 2] == 0).all() and np.isfinite(W).all() and np.isfinite(H).all()


WIDTH = """
import sys
import numpy as np
from corpusmill.kernels.simd import tiles
assert tiles.BITS == int(sys.argv[1])
sys.path[:0] = sys.argv[2].split(":")
import test_hals as checks
from helpers.nmf_cases import planted_problem
dtype, tolerance = np.dtype(sys.argv[3]), float(sys.argv[4])
assert tiles.lanes(dtype) == tiles.BITS // 8 // dtype.itemsize
A, W, H = planted_problem(70, 33, 13)
for expected_W, expected_H in checks.nmf_best_rows(A.toarray().T, W, H.T, 1):
    W, H = W.astype(dtype), H.astype(dtype)
    checks.epoch(A, W, H)
    checks.agree(W, expected_W, tolerance)
    checks.agree(H, expected_H.T, tolerance)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "bits, dtype, tolerance",
    [
        (128, "float32", "2e-5"),
        (128, "float64", "1e-12"),
        (256, "float64", "1e-12"),
    ],
)
def test_registers_of_other_widths(bits, dtype, tolerance):
    if bits >= tiles.BITS:
        pytest.skip("the other tests use the widest registers of this processor")
    environment = os.environ | NARROW[bits]
    arguments = [str(bits), f"{Path(__file__).parent}:{Path(__file__).parents[2]}", dtype, tolerance]
    subprocess.run([sys.executable, "-c", WIDTH, *arguments], check=True, env=environment)


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-13), (np.float32, 1e-5)])
@pytest.mark.parametrize("n, K", [(1, 1), (48, 8), (500, 11), (1000, 37)])
def test_an_extrapolated_factor_is_not_negative(n, K, dtype, tolerance):
    rng = np.random.default_rng(n)
    X, before = rng.random((n, K)).astype(dtype), rng.random((n, K)).astype(dtype)
    ahead, Q = np.full_like(X, np.nan), np.zeros((K, K))
    nmf.extrapolate(X, before, dtype(0.75), ahead, Q, nmf.make_scratch(K, dtype))
    expected, product = nmf_extrapolated(X.astype(float), before.astype(float), 0.75)
    agree(ahead, expected, tolerance)
    agree(nmf.symmetric(Q), product, tolerance)
    assert n == 1 or (expected == 0).any()
