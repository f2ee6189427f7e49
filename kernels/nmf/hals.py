"""FAST-HALS for A ≈ Hᵀ·Wᵀ by blocks of rows: products, sweep and sums of a block while it is in the cache.

Letters are those of Moon et al., "ALO-NMF" (KDD 2020): W (V, K), H (K, D), R = AᵀW, S = WᵀW, P = AHᵀ, Q = HHᵀ. Here A
is stored by document, (D, V), and H by document too, (D, K), so that both factors are swept row by row.

A row is independent of the others given S and its row of R. A block of rows is transposed to x (K, lanes), and four of
its K rows at a time are set to max(ε, keep·x + step·(r − S·x)): S·x is a product with all of x, which holds new values
to the left and old ones to the right, so that phases 1 and 3 of Algorithm 2 are one product, and phase 2 corrects four
rows in registers. Then Q += x·xᵀ while x is hot, and P += AᵀH in the order of words, which touches a row of P once.
Bytes moved an epoch: about 12(V + D)K, beside A itself, where Algorithm 1 moves those of equation 3.

Reference implementation: tests/helpers/naive.py, `nmf_fast_hals` and `nmf_best_rows`.
"""

from typing import NamedTuple

import numpy as np

from .. import random
from ..jit import kernel, vector_kernel
from ..simd import tiles
from ..simd.aligned import CACHE_LINE_BYTES, empty_aligned
from ..simd.prefetch import prefetch
from ..simd.tiles import add_to, descend, multiply_add, transpose, zeros

#: Vectors in a row of a strip: with four rows they fill the registers.
STRIP = 3
#: Strips in a block of rows.
STRIPS = 2
#: Blocks whose products are summed in the factors' own type before they are added in float64.
FLUSH = 16


class SparseRows(NamedTuple):
    """Sparse rows (CSR) of n non-zeros: some documents of A."""

    indptr: np.ndarray  # (D + 1,) int64
    indices: np.ndarray  # (n,) int32
    data: np.ndarray  # (n,) float32 or float64


class SparseMatrix(NamedTuple):
    """Sparse A (D, V) in both orders, so that both of its products run row by row."""

    by_row: SparseRows
    by_column: SparseRows  # the rows of Aᵀ


class UpdateRule(NamedTuple):
    """How a row x moves: max(floor, keep·x + step·(r − penalty − S·x)), one of K after the other."""

    S: np.ndarray  # flat (K/4, K, 4) of the padded matrix: four of its rows side by side
    keep: np.ndarray  # (K,)
    step: np.ndarray  # (K,)
    penalty: float  # ℓ1
    floor: float  # ε of the paper, or 0


class Scratch(NamedTuple):
    """Room for one block."""

    x: np.ndarray  # (STRIPS, K, STRIP * lanes), K padded
    r: np.ndarray  # likewise
    rows: np.ndarray  # (STRIPS * STRIP * lanes, K + 2 * lanes), K padded
    gram: np.ndarray  # (K, K), K padded
    lanes: int


def padded(K: int, dtype) -> int:
    """Return K rounded up to whole tiles."""
    step = 2 * tiles.lanes(dtype)
    return -(-K // step) * step


def make_scratch(K: int, dtype) -> Scratch:
    """Return scratch for blocks of K columns."""
    lanes, Kp = tiles.lanes(dtype), padded(K, dtype)
    strips, block = (STRIPS, Kp, STRIP * lanes), (STRIPS * STRIP * lanes, Kp + 2 * lanes)
    scratch = [empty_aligned(shape, dtype) for shape in (strips, strips, block, (Kp, Kp))]
    for array in scratch:
        array[...] = 0
    x, r, rows, gram = scratch
    return Scratch(x, r, rows, gram, lanes)


def update_rule(S: np.ndarray, sweep: str, side: str, l1: float = 0.0, l2: float = 0.0, dtype=np.float32) -> UpdateRule:
    """Return the rule of a sweep for S (K, K): the other factor's products with itself.

    "separable": each row to its own best, (r − S·x) / S_kk, as scikit-learn's coordinate descent. "paper": Algorithm 1,
    which takes S_kk for 1 in H (side "H") and scales W by Q_kk (side "W"), normalised afterwards.
    """
    K, Kp = len(S), padded(len(S), dtype)
    full = np.zeros((Kp, Kp), dtype)
    full[:K, :K] = S + l2 * np.eye(K)
    packed = full.reshape(Kp // tiles.ROWS, tiles.ROWS, Kp).transpose(0, 2, 1)
    diagonal = np.diag(full).astype(np.float64)
    keep, step = np.ones(Kp), np.ones(Kp)
    if sweep == "separable":
        # A component that is nowhere used has no best value: it stays as it is.
        used = diagonal > np.finfo(dtype).tiny / np.finfo(dtype).eps
        step = np.where(used, 1 / np.where(used, diagonal, 1), 0)
    elif side == "W":
        keep = diagonal
    floor = 0.0 if sweep == "separable" else np.finfo(dtype).eps
    scalar = np.dtype(dtype).type
    return UpdateRule(packed.ravel(), keep.astype(dtype), step.astype(dtype), scalar(l1), scalar(floor))


@vector_kernel(inline="always")
def _sweep_strip(x, r, rule, K):
    """Sweep the K rows of one strip (K, width)."""
    Kp, width = x.shape
    for t in range((K + 3) // 4):
        tile = zeros(x, 3)
        for k in range(K):
            tile = multiply_add(tile, rule.S, (t * Kp + k) * 4, x, k * width)
        at = 4 * t * width
        descend(tile, x, r, at, rule.S, (t * Kp + 4 * t) * 4, rule.keep, rule.step, 4 * t, rule.floor)


@vector_kernel
def _to_strips(rows, out, lanes):
    """Transpose a block's rows (B, K + pad) to strips (STRIPS, K, width)."""
    strips, Kp, width = out.shape
    ld = rows.shape[1]
    for s in range(strips):
        for b in range(0, width, lanes):
            for k in range(0, Kp, lanes):
                transpose(rows, (s * width + b) * ld + k, ld, out, (s * Kp + k) * width + b, width)


@vector_kernel
def _to_rows(strips, rows, lanes):
    """Transpose strips back to a block's rows."""
    n, Kp, width = strips.shape
    ld = rows.shape[1]
    for s in range(n):
        for b in range(0, width, lanes):
            for k in range(0, Kp, lanes):
                transpose(strips, (s * Kp + k) * width + b, width, rows, (s * width + b) * ld + k, ld)


@vector_kernel
def _sweep_block(H, first, last, rule, sweeps, scratch):
    """Sweep rows first to last of H (D, K), whose products are in ``scratch.rows``; leave their new values there."""
    K = H.shape[1]
    n = last - first
    _to_strips(scratch.rows, scratch.r, scratch.lanes)
    scratch.rows[:n, :K] = H[first:last]
    scratch.rows[n:] = 0
    _to_strips(scratch.rows, scratch.x, scratch.lanes)
    for _ in range(sweeps):
        for s in range(len(scratch.x)):
            _sweep_strip(scratch.x[s], scratch.r[s], rule, K)
    _to_rows(scratch.x, scratch.rows, scratch.lanes)
    scratch.rows[n:] = 0


@vector_kernel
def _add_gram(rows, gram, lanes):
    """Add rowsᵀ·rows to the tiles on and above the diagonal of ``gram`` (K, K); a tile's wider side stays in L1."""
    Kp, ld = len(gram), rows.shape[1]
    for j in range(0, Kp, 2 * lanes):
        for i in range(0, j + 2 * lanes, 4):
            tile = zeros(rows, 2)
            for b in range(len(rows)):
                tile = multiply_add(tile, rows, b * ld + i, rows, b * ld + j)
            add_to(tile, gram, i * Kp + j, Kp)


@vector_kernel
def _flush(gram, Q):
    """Add the upper triangle to Q (K, K) float64 and begin anew."""
    for i in range(len(Q)):
        for j in range(i, len(Q)):
            Q[i, j] += gram[i, j]
    gram[:] = 0


@vector_kernel
def _prefetch_row(X, i):
    """Prefetch row ``i`` of X."""
    K = X.shape[1]
    for k in range(0, K, CACHE_LINE_BYTES // X.itemsize):
        prefetch(X, np.int64(i) * K + k)


@vector_kernel
def _add_row_product(row, A, i, X):
    """Add Σ a·X[index] over the non-zeros of row ``i`` of A, four at a time: ``row`` is read a quarter as often.

    The next four rows of X, also those of A's next row, are asked for meanwhile.
    """
    j, last, K = A.indptr[i], A.indptr[i + 1], X.shape[1]
    while j + 4 <= last:
        for ahead in range(j + 4, min(j + 8, len(A.indices))):
            _prefetch_row(X, A.indices[ahead])
        a, b, c, d = A.data[j], A.data[j + 1], A.data[j + 2], A.data[j + 3]
        s, t = X[A.indices[j]], X[A.indices[j + 1]]
        u, v = X[A.indices[j + 2]], X[A.indices[j + 3]]
        for k in range(K):
            row[k] += a * s[k] + b * t[k] + c * u[k] + d * v[k]
        j += 4
    while j < last:
        a, s = A.data[j], X[A.indices[j]]
        for k in range(K):
            row[k] += a * s[k]
        j += 1


@vector_kernel
def add_products(A, X, out):
    """Add A·X to ``out`` (n, K) for n sparse rows and X (m, K), all float32 or float64."""
    for i in range(len(A.indptr) - 1):
        _add_row_product(out[i], A, i, X)


@vector_kernel
def transposed(A, n):
    """Return the transpose of sparse rows of ``n`` columns: (n,) sparse rows int64, int32 and float."""
    indptr = np.zeros(n + 1, np.int64)
    for v in A.indices:
        indptr[v + 1] += 1
    for v in range(n):
        indptr[v + 1] += indptr[v]
    at, indices, data = indptr.copy(), np.empty(len(A.indices), np.int32), np.empty_like(A.data)
    for d in range(len(A.indptr) - 1):
        for i in range(A.indptr[d], A.indptr[d + 1]):
            v = A.indices[i]
            indices[at[v]], data[at[v]] = d, A.data[i]
            at[v] += 1
    return SparseRows(indptr, indices, data)


def sparse_matrix(A, n):
    """Return both orders of sparse rows of ``n`` columns."""
    return SparseMatrix(A, transposed(A, n))


@vector_kernel
def sweep_sparse(A, W, rule, H, P, Q, sweeps, scratch):
    """Sweep H (D, K) for SparseMatrix A and W (V, K); add AᵀH to P (V, K), the upper half of HᵀH to Q (K, K) float64.

    P is added up word by word: each of its rows is touched once, and four rows of H at a time are added to it.
    """
    D, size, K = len(H), len(scratch.rows), H.shape[1]
    for first in range(0, D, size):
        last = min(first + size, D)
        for d in range(first, last):
            scratch.rows[d - first] = -rule.penalty
            _add_row_product(scratch.rows[d - first], A.by_row, d, W)
        _sweep_block(H, first, last, rule, sweeps, scratch)
        _add_gram(scratch.rows, scratch.gram, scratch.lanes)
        H[first:last] = scratch.rows[: last - first, :K]
        if first // size % FLUSH == FLUSH - 1 or last == D:
            _flush(scratch.gram, Q)
    add_products(A.by_column, H, P)


@vector_kernel
def sweep_rows(R, rule, H, Q, sweeps, scratch):
    """Sweep H (D, K) given R (D, K); add the upper half of HᵀH to Q (K, K) float64; return ⟨R, H⟩ float64."""
    D, size, K = len(H), len(scratch.rows), H.shape[1]
    total = 0.0
    for first in range(0, D, size):
        last = min(first + size, D)
        scratch.rows[: last - first, :K] = R[first:last] - rule.penalty
        _sweep_block(H, first, last, rule, sweeps, scratch)
        _add_gram(scratch.rows, scratch.gram, scratch.lanes)
        H[first:last] = scratch.rows[: last - first, :K]
        for d in range(first, last):
            dot = R.dtype.type(0)
            for k in range(K):
                dot += R[d, k] * H[d, k]
            total += dot
        if first // size % FLUSH == FLUSH - 1 or last == D:
            _flush(scratch.gram, Q)
    return total


@vector_kernel
def extrapolate(X, before, momentum, ahead, Q, scratch):
    """Set ``ahead`` (n, K) to max(X + momentum·(X − before), 0); add the upper half of aheadᵀ·ahead to Q float64."""
    n, size, K = len(X), len(scratch.rows), X.shape[1]
    for first in range(0, n, size):
        last = min(first + size, n)
        for i in range(first, last):
            for k in range(K):
                x = X[i, k] + momentum * (X[i, k] - before[i, k])
                ahead[i, k] = scratch.rows[i - first, k] = max(x, X.dtype.type(0))
        scratch.rows[last - first :] = 0
        _add_gram(scratch.rows, scratch.gram, scratch.lanes)
        if first // size % FLUSH == FLUSH - 1 or last == n:
            _flush(scratch.gram, Q)


def symmetric(Q: np.ndarray) -> np.ndarray:
    """Return the whole of a matrix given by its upper triangle: (K, K) float64."""
    return np.triu(Q) + np.triu(Q, 1).T


@vector_kernel
def inner_product(X, Y):
    """Return ⟨X, Y⟩ of (n,) numbers, multiplied and summed in float64."""
    total = 0.0
    for i in range(len(X)):
        total += np.float64(X[i]) * np.float64(Y[i])
    return total


@vector_kernel
def count_tokens(word_ptr, docs):
    """Merge a word's tokens in one document: (S,) sparse rows of counts from word order, docs (T,) uint32."""
    indptr = np.zeros(len(word_ptr), np.int64)
    indices, data = np.empty(len(docs), np.int32), np.empty(len(docs), np.float32)
    n = 0
    for s in range(len(word_ptr) - 1):
        for i in range(word_ptr[s], word_ptr[s + 1]):
            if i > word_ptr[s] and docs[i] == docs[i - 1]:
                data[n - 1] += 1
            else:
                indices[n], data[n] = docs[i], 1
                n += 1
        indptr[s + 1] = n
    return SparseRows(indptr, indices[:n].copy(), data[:n].copy())


@kernel
def apply_tfidf(A, idf):
    """Multiply sparse rows by idf (V,) float64 and scale each to length 1, in place, as tf-idf has it."""
    for d in range(len(A.indptr) - 1):
        total = 0.0
        for i in range(A.indptr[d], A.indptr[d + 1]):
            A.data[i] *= idf[A.indices[i]]
            total += A.data[i] * A.data[i]
        for i in range(A.indptr[d], A.indptr[d + 1]):
            A.data[i] /= np.sqrt(total)


@kernel
def fill_uniform(key, first, out, scale):
    """Fill out (n, K), rows ``first`` on of a random matrix in [0, scale), float32 or float64."""
    K = out.shape[1]
    for i in range(len(out)):
        for k in range(K):
            out[i, k] = scale * random.uniform64(key, (first + i) * K + k)
