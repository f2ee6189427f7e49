"""First factors from singular vectors (Boutsidis and Gallopoulos, Pattern Recognition 2008).

The singular vectors are computed by randomised subspace iteration, which reads the data chunk by chunk, ten times.
Vectors of all words are in temporary files, and a few rows of them in memory.
"""

import tempfile
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.nmf import hals as nmf
from ....kernels.nmf.products import GROUP_ROWS
from ....kernels.nmf.sums import gram_matrix
from ...engine.memory import naming_the_space
from .rows import PreparedRows, StreamedFactor, add_column_products, add_row_products, gram_of, n_rows_of

#: Step in the address of the draws of this module. No real step has this number.
FILL = -3
#: Entries below this value count as zero, as in scikit-learn.
SMALLEST = 1e-6
#: Passes of the subspace iteration, and vectors that it uses in addition to K.
ITERATIONS = 8
OVERSAMPLING = 10
#: Smallest divisor.
TINY = 1e-300
#: What is added to the diagonal of a Gram matrix, as a share of it, because its vectors may depend on each other.
SHIFT = 1e-12
#: Bytes of the rows of a file that are in memory at a time, if they are at least a group.
PART_BYTES = 16 << 20


#: Reads the data A (D, V), chunk by chunk, in the form for products with a `StreamedFactor` of float64.
Chunks = Callable[[], Iterable[PreparedRows]]


class Fill(NamedTuple):
    """How zeros of the first factors are filled."""

    init: str  # "nndsvd" leaves them, "nndsvda" takes the mean of A, "nndsvdar" takes small random numbers
    mean: float  # of A
    seed: int


def begin_bytes(n_columns: int, n_rows: int, K: int) -> int:
    """Return the memory that `nndsvd` takes besides a chunk with ``n_rows`` rows."""
    width = 8 * (K + OVERSAMPLING)
    return width * (2 * n_rows + 3 * min(n_columns, _part_rows(K + OVERSAMPLING)) + 6 * (K + OVERSAMPLING))


def nndsvd(chunks: Chunks, n_columns: int, K: int, fill: Fill) -> Callable[[int, int, str], Arrays]:
    """Return a function of a first row, the one after the last row, and a type.

    It returns these rows of ``W`` and ``start``, both (rows, K), for V columns of A. ``start`` gives the first H as
    max(A·start, 0). Each pair of singular vectors is split into its positive and its negative part, and the heavier
    part is kept. Zeros are filled by `fill_zeros`.
    """
    values, right = _singular_vectors(chunks, n_columns, K, fill.seed)
    right_lengths = np.sqrt(sum(_part_squares(rows) for _, _, rows in right.factor.blocks()))
    left_lengths = np.sqrt(sum(_part_squares(_products(A, right) / values) for A in chunks()))
    heavier = np.argmax(left_lengths * right_lengths, axis=0)
    signs = 1 - 2 * heavier
    left_length = left_lengths[heavier, range(K)]
    right_length = right_lengths[heavier, range(K)]
    # The entries of the first pair all have the same sign (Perron and Frobenius).
    signs[0] = 1 if sum(rows[:, 0].sum() for _, _, rows in right.factor.blocks()) > 0 else -1
    left_length[0] = np.linalg.norm(left_lengths[:, 0])
    right_length[0] = np.linalg.norm(right_lengths[:, 0])
    weight = np.sqrt(values * left_length * right_length)

    def read(first: int, stop: int, dtype: str) -> Arrays:
        found = {name: np.empty((stop - first, K), dtype) for name in ("W", "start")}
        for begin in range(first, stop, GROUP_ROWS):
            end = min(begin + GROUP_ROWS, stop)
            rows = right.read(begin, end)
            part = np.maximum(signs * rows, 0)
            part[:, 0] = np.abs(rows[:, 0])
            W = weight * part / np.maximum(right_length, TINY)
            fill_zeros(W, fill, 0, begin)
            own = slice(begin - first, end - first)
            found["W"][own] = W
            found["start"][own] = weight * signs * rows / np.maximum(values * left_length, TINY)
        return found

    return read


def fill_zeros(X: np.ndarray, fill: Fill, part: int, first_row: int = 0) -> None:
    """Fill the zeros of some rows of a factor, X (n, K), in place. They begin at ``first_row`` of the factor.

    ``part`` is 0 for W and 1, 2, ... for the chunks, so that each of them gets other random numbers.
    """
    empty = X < SMALLEST
    X[empty] = 0
    if fill.init == "nndsvda":
        X[empty] = fill.mean
    elif fill.init == "nndsvdar":
        drawn = np.empty_like(X)
        nmf.fill_uniform(random.key(fill.seed, FILL, part), first_row, drawn, fill.mean / 50)
        X[empty] = drawn[empty]


def _part_rows(columns: int) -> int:
    """Return how many rows of float64 are in memory at a time: whole groups."""
    return GROUP_ROWS * max(1, PART_BYTES // (8 * columns * GROUP_ROWS))


class _FileOfRows:
    """Rows (n, columns) float64 in a temporary file, zeros at first."""

    def __init__(self, n: int, columns: int):
        self.columns = columns
        self._file = tempfile.TemporaryFile(prefix="corpusmill-")  # noqa: SIM115  deleted with this object
        self._file.truncate(8 * n * columns)
        bounds = (*range(0, n, _part_rows(columns)), n)
        self.factor = StreamedFactor(bounds, lambda block: self.read(bounds[block], bounds[block + 1]))

    def read(self, first: int, stop: int) -> np.ndarray:
        self._file.seek(8 * first * self.columns)
        found = np.fromfile(self._file, np.float64, (stop - first) * self.columns)
        return found.reshape(stop - first, self.columns)

    def write(self, first: int, rows: np.ndarray) -> None:
        self._file.seek(8 * first * self.columns)
        with naming_the_space(8 * len(self.factor) * self.columns, "singular vectors of this size need three times"):
            rows.tofile(self._file)

    def multiply(self, matrix: np.ndarray) -> "_FileOfRows":
        """Return the product with a matrix (columns, m)."""
        found = _FileOfRows(len(self.factor), matrix.shape[1])
        for first, _, rows in self.factor.blocks():
            found.write(first, rows @ matrix)
        return found


def _products(A: PreparedRows, X: _FileOfRows) -> np.ndarray:
    """Return A·X (D, columns)."""
    found = np.zeros((n_rows_of(A), X.columns))
    add_row_products(A, X.factor, found)
    return found


def _singular_vectors(chunks: Chunks, n: int, K: int, seed: int) -> tuple[np.ndarray, _FileOfRows]:
    """Return the K largest singular values (K,) of A with ``n`` columns, falling, and right singular vectors (V, K)."""
    basis = _FileOfRows(n, min(n, K + OVERSAMPLING))
    for first, stop in pairwise(basis.factor.bounds):
        drawn = np.empty((stop - first, basis.columns))
        nmf.fill_uniform(random.key(seed, FILL, -1), first, drawn, 1.0)
        basis.write(first, drawn - 0.5)
    for _ in range(ITERATIONS):
        product = _FileOfRows(n, basis.columns)
        for A in chunks():
            projection = _products(A, basis)
            for first, stop, rows in product.factor.blocks():
                add_column_products(A, first, stop, projection, rows)
                product.write(first, rows)
        # The second time, vectors that were almost dependent are orthogonal too.
        basis = _orthogonal(_orthogonal(product))
    squares, vectors = np.linalg.eigh(sum(gram_matrix(_products(A, basis)) for A in chunks()))
    largest = np.argsort(-squares)[:K]
    return np.sqrt(np.maximum(squares[largest], TINY)), basis.multiply(vectors[:, largest])


def _orthogonal(X: _FileOfRows) -> _FileOfRows:
    """Return an orthonormal basis of the columns of X, up to rounding, by Cholesky's decomposition of XᵀX."""
    gram = gram_of(X.factor)
    scale = 1 / np.sqrt(np.maximum(np.diag(gram), TINY))
    lower = np.linalg.cholesky(gram * np.outer(scale, scale) + SHIFT * np.eye(len(gram)))
    return X.multiply(scale[:, np.newaxis] * np.linalg.inv(lower).T)


def _part_squares(X: np.ndarray) -> np.ndarray:
    """Return the squared lengths of the positive and of the negative parts of the columns of X: (2, K)."""
    return np.array([np.sum(np.maximum(sign * X, 0) ** 2, axis=0) for sign in (1, -1)])
