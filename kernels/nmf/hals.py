"""FAST-HALS for A ≈ Hᵀ·Wᵀ, in blocks of rows that stay in the cache: products, sweep, and sums of products.

    h_k ← max(ε, h_k + r_k − Σ_j s_kj h_j)    (H; s_kk is 1, since W has columns of length 1)
    w_k ← max(ε, w_k q_kk + p_k − Σ_j q_kj w_j), then scaled to length 1    (W)

with R = AᵀW, S = WᵀW, P = AHᵀ and Q = HHᵀ, for the paper's A ≈ WH.

Source: Moon et al., "ALO-NMF" (KDD 2020), Algorithms 1 and 2. The letters are theirs, W (V, K) and H (K, D). Here A is
stored by document, (D, V), and H too, (D, K), so that both factors are swept row by row.

Given S and its row of R, a row of H does not depend on the other rows. So the sweep takes a block of rows at a time and
keeps it in the cache:

1. The block is transposed to x (K, lanes): one row of H per lane.
2. Four of its K rows at a time are set to max(ε, keep·x + step·(r − S·x)). The product S·x runs over all of x, which
   has new values above these rows and old ones below. So phases 1 and 3 of Algorithm 2 are one product, and its
   phase 2 corrects four rows in registers (`tiles.descend`).
3. While x is in the cache, Q += x·xᵀ.

R is computed for some thousand rows at a time. P += AᵀH runs afterwards, see `products.add_column_products`. An epoch
moves about 12(V + D)K bytes, in addition to A.

Layout: sparse A is given by row, in both orders, or in slices, see `SparseForm`. K is padded to whole tiles, see
`padded`.

Reference implementation: tests/helpers/naive.py, `nmf_fast_hals`, `nmf_best_rows` and `nmf_extrapolated`.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import random
from ..jit import kernel, vector_kernel
from ..simd import tiles
from ..simd.aligned import aligned_copy, empty_aligned
from ..simd.tiles import add_to, descend, multiply_add, transpose, zeros
from . import slices
from .products import (
    SparseMatrix,
    SparseRows,
    add_column_products,
    add_dense_column_products,
    add_dense_products,
    add_products,
    add_transposed_products,
)
from .slices import BLOCK_ROWS, SlicedMatrix

#: Sparse A in one order, in both, or in slices. The results are the same, bit for bit.
SparseForm = SparseRows | SparseMatrix | SlicedMatrix
#: Vectors in a row of a strip. Times the four rows of a tile, they fill the registers.
STRIP = 3
#: Strips in a block of rows.
STRIPS = 2
#: Blocks whose products are summed in the factors' own type before they are added to Q in float64.
FLUSH = 16
#: Bytes of R that are computed before the sweep reads them, so that they stay in the cache.
CACHED_BYTES = 1 << 19


class UpdateRule(NamedTuple):
    """How a row x changes: x_k ← max(floor, keep_k x_k + step_k (r_k − penalty − S_k·x)), for k = 0, 1, ..., K − 1."""

    S: np.ndarray  # the padded (K, K) matrix, flat in the order (K/4, K, 4): four of its rows side by side
    keep: np.ndarray  # (K,)
    step: np.ndarray  # (K,)
    penalty: float  # ℓ1
    floor: float  # ε of the paper, or 0


class Scratch(NamedTuple):
    """Buffers for one block; K is padded."""

    x: np.ndarray  # (STRIPS, K, STRIP * lanes): the block's rows, transposed
    r: np.ndarray  # (STRIPS, K, STRIP * lanes): their rows of R, transposed
    rows: np.ndarray  # (STRIPS * STRIP * lanes, K + 2 * lanes): the block's rows as they are stored
    gram: np.ndarray  # (K, K): sums of x·xᵀ since the last flush
    gradients: np.ndarray  # (STRIP * lanes,): sums of |projected gradient| of the block, by column of a strip
    violation: np.ndarray  # (1,) float64: their sum over all sweeps with these buffers
    lanes: int


class Columns(NamedTuple):
    """A range of columns that is a factorisation of its own, for sweeps of several side by side."""

    where: slice
    rule: UpdateRule
    Q: np.ndarray  # (K, K) float64: gets the upper triangle of HᵀH
    scratch: Scratch


def padded(K: int, dtype: Any) -> int:
    """Return K rounded up to whole tiles."""
    step = 2 * tiles.lanes(dtype)
    return -(-K // step) * step


def make_scratch(K: int, dtype: Any) -> Scratch:
    """Return buffers of zeros for blocks of K columns."""
    lanes = tiles.lanes(dtype)
    Kp = padded(K, dtype)
    strips = (STRIPS, Kp, STRIP * lanes)
    # Rows are longer than K, so that the rows of a transposed square do not compete for the same sets of the cache.
    block = (STRIPS * STRIP * lanes, Kp + 2 * lanes)
    buffers = [empty_aligned(shape, dtype) for shape in (strips, strips, block, (Kp, Kp))]
    for array in buffers:
        array[...] = 0
    x, r, rows, gram = buffers
    return Scratch(x, r, rows, gram, np.zeros(STRIP * lanes, dtype), np.zeros(1), lanes)


def update_rule(S: np.ndarray, l1: float = 0.0, l2: float = 0.0, dtype: Any = np.float32) -> UpdateRule:
    """Return the rule of a sweep for S (K, K), the product of the other factor with itself, and the penalties.

    Each coordinate goes to its minimum, (r − S·x) / S_kk, as in scikit-learn's coordinate descent.
    """
    K = len(S)
    Kp = padded(len(S), dtype)
    full = np.zeros((Kp, Kp), dtype)
    full[:K, :K] = S + l2 * np.eye(K)
    packed = full.reshape(Kp // tiles.ROWS, tiles.ROWS, Kp).transpose(0, 2, 1)
    diagonal = np.diag(full).astype(np.float64)
    # A component whose column of the other factor is zero has no minimum, so it does not change.
    used = diagonal > np.finfo(dtype).tiny / np.finfo(dtype).eps
    step = np.where(used, 1 / np.where(used, diagonal, 1), 0)
    scalar = np.dtype(dtype).type
    return UpdateRule(packed.ravel(), np.ones(Kp, dtype), step.astype(dtype), scalar(l1), scalar(0))


# --- one block ---


@vector_kernel(inline="always")
def _sweep_strip(x: np.ndarray, r: np.ndarray, rule: UpdateRule, K: int, gradients: np.ndarray) -> None:
    """Sweep the K rows of one strip (K, width), four at a time."""
    Kp, width = x.shape
    for t in range((K + 3) // 4):
        tile = zeros(x, 3)
        for k in range(K):
            tile = multiply_add(tile, rule.S, (t * Kp + k) * 4, x, k * width)
        at = 4 * t * width
        descend(tile, x, r, at, rule.S, (t * Kp + 4 * t) * 4, rule.keep, rule.step, 4 * t, rule.floor, gradients)


@vector_kernel
def _to_strips(rows: np.ndarray, out: np.ndarray, lanes: int) -> None:
    """Transpose a block's rows (B, K + pad) to strips (STRIPS, K, width), one square of ``lanes`` at a time."""
    strips, Kp, width = out.shape
    ld = rows.shape[1]
    for s in range(strips):
        for b in range(0, width, lanes):
            for k in range(0, Kp, lanes):
                transpose(rows, (s * width + b) * ld + k, ld, out, (s * Kp + k) * width + b, width)


@vector_kernel
def _to_rows(strips: np.ndarray, rows: np.ndarray, lanes: int) -> None:
    """Transpose strips (STRIPS, K, width) back to a block's rows (B, K + pad)."""
    n, Kp, width = strips.shape
    ld = rows.shape[1]
    for s in range(n):
        for b in range(0, width, lanes):
            for k in range(0, Kp, lanes):
                transpose(strips, (s * Kp + k) * width + b, width, rows, (s * width + b) * ld + k, ld)


@vector_kernel(inline="always")
def _copy_columns(X: np.ndarray, first: int, last: int, column: int, K: int, rows: np.ndarray) -> None:
    """Copy K columns of the rows ``first`` to ``last - 1`` of X to the columns of ``rows`` from 0 on."""
    for i in range(first, last):
        # One row at a time, because a part of a row is contiguous.
        source = X[i][column : column + K]
        target = rows[i - first]
        for k in range(K):
            target[k] = source[k]


@vector_kernel
def _sweep_block(
    H: np.ndarray, first: int, last: int, column: int, K: int, rule: UpdateRule, sweeps: int, scratch: Scratch
) -> None:
    """Sweep K columns of the rows ``first`` to ``last - 1`` of H, from ``column`` on.

    ``scratch.rows`` holds their rows of R, and gets their new values.
    """
    n = last - first
    # Rows of zeros past the last one have no gradient.
    scratch.rows[n:] = 0
    _to_strips(scratch.rows, scratch.r, scratch.lanes)
    _copy_columns(H, first, last, column, K, scratch.rows)
    scratch.rows[n:] = 0
    _to_strips(scratch.rows, scratch.x, scratch.lanes)
    for _ in range(sweeps):
        for s in range(len(scratch.x)):
            _sweep_strip(scratch.x[s], scratch.r[s], rule, K, scratch.gradients)
    for column in range(len(scratch.gradients)):
        scratch.violation[0] += scratch.gradients[column]
    scratch.gradients[:] = 0
    _to_rows(scratch.x, scratch.rows, scratch.lanes)
    # A sweep also changes the lanes past the last row, which must not count in Q.
    scratch.rows[n:] = 0


@vector_kernel
def _add_gram(rows: np.ndarray, K: int, gram: np.ndarray, lanes: int) -> None:
    """Add rowsᵀ·rows to the tiles on and above the diagonal of ``gram`` (K, K).

    The inner loop changes the four columns of a tile and keeps the wider side, two vectors, so that this stays in the
    first-level cache. One vector is enough where the other one is below the diagonal or beyond K.
    """
    Kp = len(gram)
    ld = rows.shape[1]
    for j in range(0, K, 2 * lanes):
        middle = j + lanes
        for i in range(0, min(middle, K), 4):
            if middle < K:
                tile = zeros(rows, 2)
                for b in range(len(rows)):
                    tile = multiply_add(tile, rows, b * ld + i, rows, b * ld + j)
                add_to(tile, gram, i * Kp + j, Kp)
            else:
                _add_narrow_tile(rows, i, j, gram)
        # With two lanes, the four rows of the last tile above extend beyond ``middle``. They must not be added twice.
        covered = -(-middle // tiles.ROWS) * tiles.ROWS
        for i in range(covered, min(middle + lanes, K), 4):
            _add_narrow_tile(rows, i, middle, gram)


@vector_kernel(inline="always")
def _add_narrow_tile(rows: np.ndarray, i: int, j: int, gram: np.ndarray) -> None:
    """Add the columns i to i + 3 of rowsᵀ·rows at one vector of columns, from j on, to ``gram``."""
    Kp = len(gram)
    ld = rows.shape[1]
    tile = zeros(rows, 1)
    for b in range(len(rows)):
        tile = multiply_add(tile, rows, b * ld + i, rows, b * ld + j)
    add_to(tile, gram, i * Kp + j, Kp)


@vector_kernel
def _flush(gram: np.ndarray, Q: np.ndarray) -> None:
    """Add the upper triangle of ``gram`` to Q (K, K) float64 and set ``gram`` to zero."""
    for i in range(len(Q)):
        for j in range(i, len(Q)):
            Q[i, j] += gram[i, j]
    gram[:] = 0


# --- sweeps ---


def sweep_sparse(
    A: SparseForm,
    W: np.ndarray,
    rule: UpdateRule,
    H: np.ndarray,
    P: np.ndarray | None,
    Q: np.ndarray,
    sweeps: int,
    scratch: Scratch,
) -> np.ndarray:
    """Return the swept H (D, K), for sparse A and W (V, K).

    Adds AᵀH to P (V, K) unless it is None, the upper triangle of HᵀH to Q (K, K) float64, and the projected gradients
    to ``scratch.violation``.
    """
    swept = aligned_copy(H)
    sweep_side_by_side(A, W, [Columns(slice(0, H.shape[1]), rule, Q, scratch)], swept, 0, P, sweeps)
    return swept


def sweep_dense(
    A: np.ndarray,
    W: np.ndarray,
    rule: UpdateRule,
    H: np.ndarray,
    P: np.ndarray,
    Q: np.ndarray,
    sweeps: int,
    scratch: Scratch,
) -> np.ndarray:
    """Return the swept H (D, K), for dense A (D, V) and W (V, K). Otherwise like `sweep_sparse`."""
    swept = H.copy()
    R = np.full(H.shape, -rule.penalty, H.dtype)
    add_dense_products(A, W, R)
    sweep_rows(R, rule._replace(penalty=H.dtype.type(0)), swept, Q, sweeps, scratch)
    add_dense_column_products(A, swept, P)
    return swept


def sweep_products(
    R: np.ndarray, rule: UpdateRule, X: np.ndarray, sweeps: int, scratch: Scratch
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the swept X (n, K) given its products R (n, K), its XᵀX (K, K) float64, and ⟨R, X⟩.

    Adds the projected gradients to ``scratch.violation``.
    """
    K = X.shape[1]
    # Products with A read rows of W in a random order, and more of them from memory if they straddle cache lines.
    swept = aligned_copy(X)
    gram = np.zeros((K, K))
    inner = sweep_rows(R, rule, swept, gram, sweeps, scratch)
    return swept, symmetric(gram), inner


def sweep_side_by_side(
    A: SparseForm | np.ndarray,
    W: np.ndarray,
    parts: Sequence[Columns],
    H: np.ndarray,
    column: int,
    P: np.ndarray | None,
    sweeps: int,
) -> None:
    """Sweep several factorisations of A at once, which are ranges of columns of W (V, K) and P (V, K).

    In H, which may have more columns, they begin at ``column``. Products with A take all columns together. Each range
    is swept on its own. For sparse A, its result is that of `sweep_sparse` for this range alone, bit for bit. Adds AᵀH
    to P unless it is None.
    """
    D = len(H)
    K = W.shape[1]
    # Whole groups, because Q is summed group by group, and whole blocks of slices.
    group = math.lcm(FLUSH * len(parts[0].scratch.rows), BLOCK_ROWS)
    size = group * max(1, CACHED_BYTES // (group * K * H.itemsize))
    R = empty_aligned((min(size, D), K), H.dtype)
    for first in range(0, D, size):
        rows = slice(first, min(first + size, D))
        products = R[: rows.stop - first]
        start_from_penalties(products, parts)
        _add_products(A, rows, W, products)
        for part in parts:
            sweep_columns(products, part, H[rows], column, sweeps)
    if P is None:
        return
    if isinstance(A, SlicedMatrix):
        slices.add_column_products(A, H, P, column)
        return
    own = np.ascontiguousarray(H[:, column : column + K])
    if isinstance(A, SparseMatrix):
        add_column_products(A, own, P)
    elif isinstance(A, SparseRows):
        add_transposed_products(A, own, P)
    else:
        add_dense_column_products(A, own, P)


def _add_products(A: SparseForm | np.ndarray, rows: slice, W: np.ndarray, R: np.ndarray) -> None:
    """Add A[rows]·W to R (n, K), for W (V, K) and A (D, V) in any of its forms."""
    if isinstance(A, SlicedMatrix):
        slices.add_row_products(A, rows.start, rows.stop, W, R)
    elif isinstance(A, SparseMatrix):
        add_products(A.by_row.part(rows.start, rows.stop), W, R)
    elif isinstance(A, SparseRows):
        add_products(A.part(rows.start, rows.stop), W, R)
    else:
        add_dense_products(A[rows], W, R)


def start_from_penalties(R: np.ndarray, parts: Sequence[Columns]) -> None:
    """Set R to minus the penalties. Sums that begin there need no subtraction later."""
    for part in parts:
        R[:, part.where] = -part.rule.penalty


def sweep_columns(R: np.ndarray, part: Columns, H: np.ndarray, column: int, sweeps: int) -> None:
    """Sweep one range of columns in place, given R (n, K), from which the penalty is subtracted already."""
    without_penalty = part.rule._replace(penalty=H.dtype.type(0))
    at = part.where.start
    _sweep_range(R, at, without_penalty, H, column + at, part.Q, sweeps, part.scratch)


def sweep_rows(R: np.ndarray, rule: UpdateRule, H: np.ndarray, Q: np.ndarray, sweeps: int, scratch: Scratch) -> float:
    """Sweep H (D, K) in place given R (D, K); return ⟨R, H⟩ float64.

    Adds the upper triangle of HᵀH to Q (K, K) float64, and the projected gradients to ``scratch.violation``.
    """
    return _sweep_range(R, 0, rule, H, 0, Q, sweeps, scratch)


@vector_kernel
def _sweep_range(
    R: np.ndarray,
    column_R: int,
    rule: UpdateRule,
    H: np.ndarray,
    column_H: int,
    Q: np.ndarray,
    sweeps: int,
    scratch: Scratch,
) -> float:
    """Sweep as many columns of H as Q (K, K) has, in place. They begin at ``column_H`` in H and ``column_R`` in R."""
    D = len(H)
    size = len(scratch.rows)
    K = len(Q)
    total = 0.0
    for first in range(0, D, size):
        last = min(first + size, D)
        for d in range(first, last):
            r = R[d][column_R : column_R + K]
            row = scratch.rows[d - first]
            for k in range(K):
                row[k] = r[k] - rule.penalty
        _sweep_block(H, first, last, column_H, K, rule, sweeps, scratch)
        _add_gram(scratch.rows, K, scratch.gram, scratch.lanes)
        for d in range(first, last):
            r = R[d][column_R : column_R + K]
            h = H[d][column_H : column_H + K]
            row = scratch.rows[d - first]
            for k in range(K):
                h[k] = row[k]
            dot = R.dtype.type(0)
            for k in range(K):
                dot += r[k] * row[k]
            total += dot
        if first // size % FLUSH == FLUSH - 1 or last == D:
            _flush(scratch.gram, Q)
    return total


@vector_kernel
def extrapolate(
    X: np.ndarray, before: np.ndarray, momentum: np.floating, ahead: np.ndarray, Q: np.ndarray, scratch: Scratch
) -> None:
    """Set ``ahead`` (n, K) to max(X + momentum·(X − before), 0).

    Adds the upper triangle of aheadᵀ·ahead to Q (K, K) float64. ``before`` (n, K) is X one epoch ago.
    """
    n = len(X)
    size = len(scratch.rows)
    K = X.shape[1]
    for first in range(0, n, size):
        last = min(first + size, n)
        for i in range(first, last):
            for k in range(K):
                x = X[i, k] + momentum * (X[i, k] - before[i, k])
                ahead[i, k] = scratch.rows[i - first, k] = max(x, X.dtype.type(0))
        scratch.rows[last - first :] = 0
        _add_gram(scratch.rows, K, scratch.gram, scratch.lanes)
        if first // size % FLUSH == FLUSH - 1 or last == n:
            _flush(scratch.gram, Q)


# --- sums and first values ---


def symmetric(Q: np.ndarray) -> np.ndarray:
    """Return the whole of a matrix given by its upper triangle: (K, K) float64."""
    return np.triu(Q) + np.triu(Q, 1).T


@vector_kernel
def inner_product(X: np.ndarray, Y: np.ndarray) -> float:
    """Return ⟨X, Y⟩ of (n,) numbers, multiplied and summed in float64."""
    total = 0.0
    for i in range(len(X)):
        total += np.float64(X[i]) * np.float64(Y[i])
    return total


@kernel
def fill_uniform(key: np.uint64, first: int, out: np.ndarray, scale: float) -> None:
    """Fill ``out`` (n, K) float32 or float64 with the rows from ``first`` on of a random matrix in [0, scale)."""
    K = out.shape[1]
    for i in range(len(out)):
        for k in range(K):
            out[i, k] = scale * random.uniform64(key, (first + i) * K + k)
