"""Sums of rows of random indexing: of several chunks, and of the words of documents."""

from collections.abc import Sequence

import numpy as np

from ..jit import kernel, vector_kernel

#: Message of the error that a sum is too large.
OVERFLOW = "a sum exceeds 2^31 - 1: exclude the most frequent words (stop_words, max_count)"


@kernel
def add_rows(out: np.ndarray, rows: np.ndarray, sums: np.ndarray, sign: int) -> bool:
    """Add ``sign`` times ``sums`` (n, D) to the rows ``rows`` (n,) int64 of ``out`` (V, D), all of them integers.

    Returns False if a sum overflows. int64 holds the sum of any two int32.
    """
    # -x is the complement of x, plus one.
    flipped = np.int64(-1) if sign < 0 else np.int64(0)
    lost = np.int64(0)
    for r in range(len(rows)):
        row = out[rows[r]]
        added = sums[r]
        for k in range(len(row)):
            total = np.int64(row[k]) + (np.int64(added[k]) ^ flipped) - flipped
            stored = row.dtype.type(total)
            row[k] = stored
            # Without a branch, so that the loop is done in vectors.
            lost |= total ^ np.int64(stored)
    return lost == 0


@kernel
def add_float_rows(out: np.ndarray, rows: np.ndarray, sums: np.ndarray) -> None:
    """Add ``sums`` (n, D) float32 to the rows ``rows`` (n,) of ``out`` (V, D) float32. No row occurs twice.

    NumPy would copy the rows twice, and the new memory takes longer than the additions.
    """
    for r in range(len(rows)):
        row = out[rows[r]]
        for k in range(len(row)):
            row[k] += sums[r, k]


def sum_at(n_rows: int, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the sum (n_rows, columns) of several parts: the positions of some rows, and these rows (n, columns).

    Positions of integers of at most 32 bits may repeat. Raises OverflowError if their sum exceeds 2^31 - 1.
    """
    first = parts[0][1]
    # Sums of 16 bits are those of single pieces.
    dtype = np.int32 if first.dtype == np.int16 else first.dtype
    total = np.zeros((n_rows, first.shape[1]), dtype)
    for positions, rows in parts:
        if dtype == np.int32:
            add_exactly(total, positions, rows)
        elif dtype == np.float32:
            add_float_rows(total, positions, rows)
        else:
            total[positions] += rows
    return total


def add_exactly(total: np.ndarray, positions: np.ndarray, rows: np.ndarray) -> None:
    """Add rows (n, D) of integers to ``total`` (V, D) at their positions; raise OverflowError if a sum is too large."""
    if not add_rows(total, positions.astype(np.int64, copy=False), rows, 1):
        raise OverflowError(OVERFLOW)


@vector_kernel
def sum_documents(doc_ptr: np.ndarray, words: np.ndarray, weights: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Sum the weighted term vectors of each document's words: (documents, D) float32.

    ``doc_ptr`` (documents + 1,) int64, ``words`` (T,) in document order, ``weights`` (V,) and ``vectors`` (V, D)
    float32.
    """
    out = np.zeros((len(doc_ptr) - 1, vectors.shape[1]), np.float32)
    for d in range(len(out)):
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            w = weights[words[i]]
            row = vectors[words[i]]
            for k in range(len(row)):
                out[d, k] += w * row[k]
    return out
