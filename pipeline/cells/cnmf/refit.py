"""Passes over matrices of cells that keep one factor fixed: usages of given spectra, and sums over cells by gene.

Write X (C, G) for the matrix, S (K, G) for spectra and U (C, K) for usages. A pass reads X in blocks of rows, so it
needs memory for U and for one block.

    usages      argmin over U >= 0 of ‖X − U S‖², from X Sᵀ and S Sᵀ, row by row
    error       ‖X − U S‖² = ‖X‖² − 2⟨X Sᵀ, U⟩ + ⟨Uᵀ U, S Sᵀ⟩, without the residual matrix
    moments     sums and squares by gene, and Uᵀ X, from which all regressions of X on U follow

A cell's shares are its usages scaled to sum 1.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse

from ....io.matrices.blocks import Block, RowBlocks, check_not_negative
from ....kernels.nmf import hals, products

#: Called with the numbers of cells that are done and of all cells.
Progress = Callable[[int, int], None]

#: Sweeps of coordinate descent between two tests of the gradient, and the maximum number of sweeps.
SWEEPS = 20
MOST_SWEEPS = 4000
#: Coordinate descent ends when the projected gradient is at most this share of that of the first sweep.
TOLERANCE = 1e-9


class Refit(NamedTuple):
    """The usages of some spectra, and how well their product approximates the matrix."""

    usages: np.ndarray  # (C, K) float64
    squared_error: float


class Moments(NamedTuple):
    """Sums over the C cells of a matrix with G genes."""

    n_cells: int
    sums: np.ndarray  # (G,)
    squares: np.ndarray  # (G,)
    products: list[np.ndarray]  # Uᵀ X (K, G), for each U
    share_products: list[np.ndarray]  # the same for the shares of each U

    @property
    def means(self) -> np.ndarray:
        """Mean of each gene: (G,)."""
        return self.sums / self.n_cells

    @property
    def variances(self) -> np.ndarray:
        """Population variance of each gene: (G,)."""
        return np.maximum(self.squares / self.n_cells - self.means**2, 0)


def refit_usages(
    matrix: RowBlocks, spectra: Sequence[np.ndarray], progress: Progress, weights: np.ndarray | None = None
) -> list[Refit]:
    """Return the non-negative usages (C, K) of each of the spectra (K, G), in one pass over the matrix.

    The columns of the matrix are multiplied by ``weights`` (G,).
    """
    n_cells = matrix.shape[0]
    factor = np.ascontiguousarray(np.concatenate(spectra).T, np.float64)
    stops = np.cumsum([len(each) for each in spectra]).tolist()
    grams = [each @ each.T for each in spectra]
    usages = [np.zeros((n_cells, len(each))) for each in spectra]
    explained = np.zeros(len(spectra))
    norm = 0.0
    first = 0
    for block in matrix.blocks():
        check_not_negative(block, matrix, first)
        rows = slice(first, first + block.shape[0])
        product, squares = _times(_weighted(block, weights), factor)
        norm += squares
        for place, gram in enumerate(grams):
            R = product[:, stops[place] - len(gram) : stops[place]]
            usages[place][rows], part = nonnegative_rows(R, gram)
            explained[place] += part
        first = rows.stop
        progress(first, n_cells)
    return [Refit(found, norm - part) for found, part in zip(usages, explained.tolist(), strict=True)]


def moments(matrix: RowBlocks, usages: Sequence[np.ndarray], progress: Progress) -> Moments:
    """Return the sums over the cells, and the products with each U (C, K) and its shares, in one pass."""
    n_cells, n_genes = matrix.shape
    sums = np.zeros(n_genes)
    squares = np.zeros(n_genes)
    found = [np.zeros((n_genes, 2 * U.shape[1])) for U in usages]
    first = 0
    for block in matrix.blocks():
        check_not_negative(block, matrix, first)
        rows = slice(first, first + block.shape[0])
        block = _weighted(block, None)
        sums += np.asarray(block.sum(axis=0)).ravel()
        squares += _squares_by_column(block)
        for U, total in zip(usages, found, strict=True):
            both = np.concatenate([U[rows], shares(U[rows])], axis=1)
            # The kernel takes C order, and a choice of columns has another one.
            _add_transposed(block, np.ascontiguousarray(both), total)
        first = rows.stop
        progress(first, n_cells)
    halves = [np.split(total.T, 2) for total in found]
    return Moments(n_cells, sums, squares, [half[0] for half in halves], [half[1] for half in halves])


def shares(usages: np.ndarray) -> np.ndarray:
    """Return usages scaled to sum 1 in each cell. A cell without usages has zeros."""
    sums = usages.sum(axis=1, keepdims=True)
    return usages / np.where(sums > 0, sums, 1)


def nonnegative_rows(R: np.ndarray, S: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the X >= 0 (n, K) that minimises ½xᵀSx − rᵀx in each row, and 2⟨R, X⟩ − ⟨XᵀX, S⟩. All are float64.

    Coordinate descent runs until its gradient has almost vanished.
    """
    R = np.ascontiguousarray(R)
    X = np.zeros_like(R)
    rule = hals.update_rule(S, dtype=np.float64)
    scratch = hals.make_scratch(len(S), np.float64)
    hals.sweep_rows(R, rule, X, np.zeros_like(S), 1, scratch)
    first = float(scratch.violation[0])
    for _ in range(MOST_SWEEPS // SWEEPS):
        scratch.violation[0] = 0
        gram = np.zeros_like(S)
        inner = hals.sweep_rows(R, rule, X, gram, SWEEPS, scratch)
        if scratch.violation[0] <= SWEEPS * TOLERANCE * first:
            break
    return X, 2 * inner - float(np.sum(hals.symmetric(gram) * S))


# --- blocks of rows ---


def _weighted(block: Block, weights: np.ndarray | None) -> Block:
    """Return rows with entries of type float64, and their columns multiplied by ``weights`` (G,)."""
    rows = block.astype(np.float64)
    if weights is None:
        return rows
    if scipy.sparse.issparse(rows):
        rows.data *= weights[rows.indices]
        return rows
    return rows * weights


def _times(rows: Block, factor: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the product of rows with a factor (G, K), and the sum of the squares of the rows' entries."""
    if not scipy.sparse.issparse(rows):
        return rows @ factor, float(np.vdot(rows, rows))
    found = np.zeros((rows.shape[0], factor.shape[1]))
    products.add_products(_sparse(rows), factor, found)
    return found, float(np.vdot(rows.data, rows.data))


def _squares_by_column(rows: Block) -> np.ndarray:
    if scipy.sparse.issparse(rows):
        return np.bincount(rows.indices, weights=rows.data**2, minlength=rows.shape[1])
    return np.einsum("ij,ij->j", rows, rows)


def _add_transposed(rows: Block, U: np.ndarray, total: np.ndarray) -> None:
    """Add rowsᵀ·U to ``total`` (G, K), for the usages U (n, K) of the rows."""
    if scipy.sparse.issparse(rows):
        products.add_transposed_products(_sparse(rows), U, total)
    else:
        total += rows.T @ U


def _sparse(rows: scipy.sparse.csr_matrix) -> products.SparseRows:
    return products.SparseRows(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)
