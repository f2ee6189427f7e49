"""Cosine similarity and ranking of plain arrays."""

import numpy as np

#: Rows squared at once when lengths are computed, so that no temporary copy of a large array is made.
ROWS_PER_BLOCK = 1 << 15
#: Scores of which only the largest are compared to find the n largest: this many groups for each of them.
GROUPS_PER_SCORE = 16


def unit_vector(vector: np.ndarray) -> np.ndarray:
    """Divide a vector (D,) by its Euclidean length. A vector of zeros is returned unchanged."""
    length = np.linalg.norm(vector)
    if length == 0:
        return vector
    return vector / length


def row_lengths(rows: np.ndarray) -> np.ndarray:
    """Return the Euclidean length of each row of (n, D): (n,) of the type of the rows, or float32 for integers.

    A row of zeros gets length 1, so dividing by these lengths is always safe. Its cosine with any vector is 0.
    """
    lengths = np.empty(len(rows), rows.dtype if rows.dtype.kind == "f" else np.float32)
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        block = slice(first, first + ROWS_PER_BLOCK)
        lengths[block] = np.linalg.norm(rows[block], axis=1)
    lengths[lengths == 0] = 1
    return lengths


def top_indices(scores: np.ndarray, n: int) -> np.ndarray:
    """Return the indices of the ``n`` largest scores (V,), largest first, ties by index: (min(n, V),) int64.

    NaN comes last. Takes linear time in V: only few candidates, which include the n largest, are sorted.
    """
    n = min(n, len(scores))
    if n <= 0:
        return np.empty(0, np.int64)
    if np.isnan(scores.min()):
        scores = np.where(np.isnan(scores), -np.inf, scores)
    # As many groups as wanted scores have one that reaches the bound. This is faster than a partition of all scores,
    # most of all if many are equal.
    size = max(1, len(scores) // (GROUPS_PER_SCORE * n))
    largest = scores[: len(scores) // size * size].reshape(-1, size).max(axis=1)
    bound = np.partition(largest, len(largest) - n)[len(largest) - n]
    candidates = np.flatnonzero(scores >= bound)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:n]


def mean_vectors(vectors: np.ndarray, doc_ptr: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return the mean of the ``vectors`` (V, D) of each document's words: (documents, D) float32, zeros without words.

    The words of document d are ``words[doc_ptr[d]:doc_ptr[d + 1]]``.
    """
    rows = np.zeros((len(doc_ptr) - 1, vectors.shape[1]), np.float32)
    for document in range(len(rows)):
        own = words[doc_ptr[document] : doc_ptr[document + 1]]
        if len(own):
            rows[document] = vectors[own].mean(axis=0)
    return rows
