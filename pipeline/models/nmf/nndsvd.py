"""First factors from singular vectors (Boutsidis and Gallopoulos, Pattern Recognition 2008).

The singular vectors are computed by randomised subspace iteration, which reads the data chunk by chunk, ten times.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse

from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.nmf import hals as nmf
from ....kernels.nmf import products

#: Step in the address of the draws of this module. No real step has this number.
FILL = -3
#: Entries below this value count as zero, as in scikit-learn.
SMALLEST = 1e-6
#: Passes of the subspace iteration, and vectors that it uses in addition to K.
ITERATIONS = 8
OVERSAMPLING = 10
#: Smallest divisor.
TINY = 1e-300


#: Reads the data A (D, V), chunk by chunk.
Chunks = Callable[[], Iterable[products.SparseRows | np.ndarray]]


class Fill(NamedTuple):
    """How zeros of the first factors are filled."""

    init: str  # "nndsvd" leaves them, "nndsvda" takes the mean of A, "nndsvdar" takes small random numbers
    mean: float  # of A
    seed: int


def nndsvd(chunks: Chunks, n_columns: int, K: int, fill: Fill) -> Arrays:
    """Return ``W`` and ``start``, both (V, K) float64, for V columns of A.

    ``start`` gives the first H as max(A·start, 0). Each pair of singular vectors is split into its positive and its
    negative part, and the heavier part is kept. Zeros are filled by `fill_zeros`.
    """
    values, right = _singular_vectors(chunks, n_columns, K, fill.seed)
    W = np.zeros((n_columns, K))
    start = np.zeros((n_columns, K))
    lengths = _part_lengths(chunks, right / values)
    for k in range(K):
        part = _leading_part(right[:, k], lengths[:, k]) if k == 0 else _heavier_part(right[:, k], lengths[:, k])
        right_length = float(np.linalg.norm(part.right))
        weight = np.sqrt(values[k] * part.left_length * np.linalg.norm(part.right))
        W[:, k] = weight * part.right / max(right_length, TINY)
        start[:, k] = weight * part.sign * right[:, k] / max(values[k] * part.left_length, TINY)
    fill_zeros(W, fill, 0)
    return {"W": W, "start": start}


def fill_zeros(X: np.ndarray, fill: Fill, part: int) -> None:
    """Fill the zeros of a factor X (n, K) in place.

    ``part`` is 0 for W and 1, 2, ... for the chunks, so that each of them gets other random numbers.
    """
    empty = X < SMALLEST
    X[empty] = 0
    if fill.init == "nndsvda":
        X[empty] = fill.mean
    elif fill.init == "nndsvdar":
        drawn = np.empty_like(X)
        nmf.fill_uniform(random.key(fill.seed, FILL, part), 0, drawn, fill.mean / 50)
        X[empty] = drawn[empty]


class _Part(NamedTuple):
    """The positive or the negative part of a pair of singular vectors."""

    sign: int
    left_length: float
    right: np.ndarray  # (V,), not negative


def _leading_part(right: np.ndarray, lengths: np.ndarray) -> _Part:
    """Return the part of the first pair, whose entries all have the same sign (Perron and Frobenius)."""
    sign = 1 if right.sum() > 0 else -1
    return _Part(sign, float(np.linalg.norm(lengths)), np.abs(right))


def _heavier_part(right: np.ndarray, lengths: np.ndarray) -> _Part:
    """Return the part with the larger product of lengths; ``lengths`` (2,) are those of the left vector's parts."""
    positive = _Part(1, float(lengths[0]), np.maximum(right, 0))
    negative = _Part(-1, float(lengths[1]), np.maximum(-right, 0))
    return max(positive, negative, key=lambda part: part.left_length * np.linalg.norm(part.right))


def _float64(chunks: Chunks, n_columns: int) -> Iterator[scipy.sparse.csr_matrix | np.ndarray]:
    """Yield the chunks of A in float64, in a form that supports ``@``."""
    for A in chunks():
        if isinstance(A, products.SparseRows):
            A = scipy.sparse.csr_matrix((A.data, A.indices, A.indptr), (len(A.indptr) - 1, n_columns))
        yield A.astype(np.float64)


def _singular_vectors(chunks: Chunks, n: int, K: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the K largest singular values (K,) of A with ``n`` columns, falling, and right singular vectors (V, K)."""
    drawn = np.empty((n, min(n, K + OVERSAMPLING)))
    nmf.fill_uniform(random.key(seed, FILL, -1), 0, drawn, 1.0)
    basis = drawn - 0.5
    for _ in range(ITERATIONS):
        basis, _ = np.linalg.qr(sum(A.T @ (A @ basis) for A in _float64(chunks, n)))
    projections = (A @ basis for A in _float64(chunks, n))
    squares, vectors = np.linalg.eigh(sum(part.T @ part for part in projections))
    largest = np.argsort(-squares)[:K]
    return np.sqrt(np.maximum(squares[largest], TINY)), basis @ vectors[:, largest]


def _part_lengths(chunks: Chunks, weights: np.ndarray) -> np.ndarray:
    """Return the lengths of the positive and the negative parts of the left singular vectors A·weights: (2, K)."""
    squares = np.zeros((2, weights.shape[1]))
    for A in _float64(chunks, len(weights)):
        left = A @ weights
        squares[0] += np.sum(np.maximum(left, 0) ** 2, axis=0)
        squares[1] += np.sum(np.maximum(-left, 0) ** 2, axis=0)
    return np.sqrt(squares)
