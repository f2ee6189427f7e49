"""A start from singular vectors (Boutsidis and Gallopoulos, Pattern Recognition 2008), read chunk by chunk."""

from typing import Any

import numpy as np
import scipy.sparse

from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.nmf import hals as nmf

#: Address of the small random numbers of nndsvdar.
FILL = -3
#: What is below counts as zero, as in scikit-learn.
NONE = 1e-6


def singular_start(data: Any, algorithm: Any) -> Arrays:
    """Return ``W`` (V, K) and ``start`` (V, K), which gives the first H as max(A·start, 0), its zeros filled as W's.

    Each singular pair is split into its positive and its negative part, of which the heavier is kept.
    """
    K = algorithm.n_components
    values, right = _singular(data, algorithm)
    W, start = np.zeros((data.n_words, K)), np.zeros((data.n_words, K))
    lengths = _part_lengths(data, algorithm, right / values)
    for k in range(K):
        sign, u, v = _heavier(right[:, k], lengths[:, k], whole=k == 0)
        weight = np.sqrt(values[k] * u * np.linalg.norm(v))
        W[:, k] = weight * v / max(float(np.linalg.norm(v)), 1e-300)
        start[:, k] = weight * sign * right[:, k] / max(values[k] * u, 1e-300)
    fill(W, algorithm, 0)
    return {"W": W.astype(algorithm.dtype), "start": start.astype(algorithm.dtype)}


def _heavier(v: np.ndarray, lengths: np.ndarray, whole: bool) -> tuple[int, float, np.ndarray]:
    """Return the sign, the length of u's part and v's part (V,) of the heavier side; the first pair has one sign."""
    if whole:
        sign = 1 if v.sum() > 0 else -1
        return sign, float(np.linalg.norm(lengths)), np.abs(v)
    sides = [(sign, float(lengths[i]), np.maximum(sign * v, 0)) for i, sign in enumerate((1, -1))]
    return max(sides, key=lambda side: side[1] * np.linalg.norm(side[2]))


def fill(X: np.ndarray, algorithm: Any, part: int) -> None:
    """Fill what is all but zero in a factor: "nndsvda" with A's mean, "nndsvdar" with a part's small random numbers."""
    mean = algorithm.scale**2 * algorithm.n_components
    empty = X < NONE
    X[empty] = mean if algorithm.init == "nndsvda" else 0
    if algorithm.init == "nndsvdar":
        drawn = np.empty_like(X)
        nmf.fill_uniform(random.key(algorithm.seed, FILL, part), 0, drawn, mean / 50)
        X[empty] = drawn[empty]


def _parts(data: Any, algorithm: Any) -> Any:
    """Yield the chunks as arrays that multiply."""
    shared = algorithm.begin_shared(data, None)
    for c in range(len(data.chunks)):
        chunk = data.read_chunk(c)
        A = algorithm.rows(chunk, shared)
        if isinstance(A, nmf.SparseRows):
            A = scipy.sparse.csr_matrix((A.data, A.indices, A.indptr), (chunk.n_documents, data.n_words))
        yield A.astype(np.float64)


def _singular(data: Any, algorithm: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the K largest singular values, falling, and right singular vectors (V, K)."""
    n, K = data.n_words, algorithm.n_components
    drawn = np.empty((n, min(n, K + 10)))
    nmf.fill_uniform(random.key(algorithm.seed, FILL, -1), 0, drawn, 1.0)
    basis = drawn - 0.5
    for _ in range(8):
        basis, _ = np.linalg.qr(sum(A.T @ (A @ basis) for A in _parts(data, algorithm)))
    small = sum(product.T @ product for product in (A @ basis for A in _parts(data, algorithm)))
    squares, vectors = np.linalg.eigh(small)
    largest = np.argsort(-squares)[:K]
    return np.sqrt(np.maximum(squares[largest], 1e-300)), basis @ vectors[:, largest]


def _part_lengths(data: Any, algorithm: Any, weights: np.ndarray) -> np.ndarray:
    """Return the lengths of the positive and the negative parts of the left singular vectors: (2, K)."""
    squares = np.zeros((2, weights.shape[1]))
    for A in _parts(data, algorithm):
        u = A @ weights
        squares += [np.sum(np.maximum(sign * u, 0) ** 2, axis=0) for sign in (1, -1)]
    return np.sqrt(squares)
