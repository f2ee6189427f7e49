"""Small matrices and factors for the tests of NMF's kernels."""

import numpy as np
import scipy.sparse

from .naive import nmf_fast_hals


def random_problem(D, V, K, seed=0, density=0.2):
    """A sparse matrix (D, V) of documents, and W (V, K) and H (D, K) to start from."""
    rng = np.random.default_rng(seed)
    A = scipy.sparse.random(D, V, density, "csr", random_state=seed)
    return A, rng.random((V, K)), rng.random((D, K))


def planted_problem(D, V, K, seed=0):
    """A sum of K parts with noise, and factors near them.

    No component becomes zero. Rounding would decide which entries survive, and results could not be compared.
    """
    rng = np.random.default_rng(seed)
    W, H = (np.eye(K)[np.arange(n) % K] + rng.random((n, K)) / K for n in (V, D))
    A = H @ W.T + rng.random((D, V)) / K
    W = W + rng.random((V, K)) / K
    H = H + rng.random((D, K)) / K
    lengths = np.linalg.norm(W, axis=0)
    return scipy.sparse.csr_matrix(A), W / lengths, H * lengths


def assert_iterates(update, K):
    """Assert that ``update(X, P, Q, normalise)`` makes the iterates of Algorithm 1, on H and then on W."""
    A, W, H = planted_problem(60, 47, K)
    A = A.toarray()
    for expected_W, expected_H in nmf_fast_hals(A.T, W, H.T, 20):
        update(H, A @ W, W.T @ W, False)
        update(W, A.T @ H, H.T @ H, True)
        agree(W, expected_W, 1e-10)
        agree(H, expected_H.T, 1e-10)


def agree(found, expected, tolerance):
    """Assert that arrays differ by at most this share of the largest number."""
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()
