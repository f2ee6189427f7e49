"""Rows of A and B that change while tokens are drawn, for gibbs.py.

The counts of `counts` are packed: a row has exactly its entries. Here, a row also has a free place for each topic that
its tokens may come to. Entries in use are at its beginning, in no particular order.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel
from ..simd.lanes import LANES
from .counts import SIXTEEN, DocumentCounts, RowScratch, WordCounts, add_topic, drain_row
from .model import inlined

#: The bits of a packed entry of A that hold its count.
LOW = np.uint32(0xFFFF)
ZERO = np.float32(0)
ONE = np.float32(1)


class DocumentRows(NamedTuple):
    """Sparse rows of A that change. A row has a place for each topic that its tokens can have."""

    row_ptr: np.ndarray  # (D + 1,) int64, multiples of eight
    lengths: np.ndarray  # (D,) int64: entries in use
    #: (n,) uint32: a topic in the high half and its count in the low half; topic K, count 0 in places not in use
    entries: np.ndarray


class WordRows(NamedTuple):
    """Sparse rows of B (W words) that change. A row has a place for each topic that its tokens can have."""

    row_ptr: np.ndarray  # (W + 1,) int64
    lengths: np.ndarray  # (W,) int64: entries in use
    topics: np.ndarray  # (n,) uint16
    counts: np.ndarray  # (n,) int32


@kernel
def padded(n: int) -> int:
    """Return the number ``n`` of topics (int), rounded up to a multiple of the numbers in a vector register."""
    return (n + LANES - 1) // LANES * LANES


@kernel
def padded_to_four(n: int) -> int:
    """Return the number ``n`` of topics (int), rounded up to a multiple of the numbers in four vector registers."""
    return (n + 4 * LANES - 1) // (4 * LANES) * (4 * LANES)


@kernel
def piece_tokens(n_topics: int) -> int:
    """Return how many tokens of a word may be drawn before 1 / (N + Vβ) of the K topics is computed again."""
    return max(64, 4 * n_topics)


@inlined
def is_off(inverse: float, total: int, smoothing: float) -> bool:
    """Return whether ``inverse``, once 1 / (N_k + Vβ), is so far from that of N_k now that it has to be computed again.

    Otherwise a topic that was empty would gain ever more tokens: B would grow, but not N. In a corpus of a few tokens,
    this holds after each change.
    """
    ratio = (total + smoothing) * inverse
    return ratio > 1.06 or ratio < 0.94


@kernel
def count_dense(docs: np.ndarray, z: np.ndarray, n_documents: int, width: int) -> np.ndarray:
    """Count topics ``z`` (T,) uint16 of the documents ``docs`` (T,): flat float32, ``width`` numbers per document."""
    A = np.zeros(n_documents * width, np.float32)
    for i in range(len(z)):
        A[np.int64(docs[i]) * width + z[i]] += ONE
    return A


@kernel
def growable_documents(doc_ptr: np.ndarray, rows: DocumentCounts, n_topics: int) -> DocumentRows:
    """Copy rows of A to rows with a place for each topic that the document's tokens can have.

    ``doc_ptr`` (D + 1,) int64 counts the tokens of the documents. No document may be longer than `counts.MAX_COUNT`.
    """
    D = len(doc_ptr) - 1
    row_ptr = np.zeros(D + 1, np.int64)
    for d in range(D):
        row_ptr[d + 1] = row_ptr[d] + padded(min(doc_ptr[d + 1] - doc_ptr[d], n_topics))
    lengths = np.zeros(D, np.int64)
    entries = np.full(row_ptr[-1], np.uint32(n_topics) << SIXTEEN, np.uint32)
    for d in range(D):
        end = row_ptr[d]
        for entry in rows.entries[rows.row_ptr[d] : rows.row_ptr[d + 1]]:
            if entry & LOW:
                entries[end] = entry
                end += 1
        lengths[d] = end - row_ptr[d]
    return DocumentRows(row_ptr, lengths, entries)


@kernel
def growable_words(rows: WordCounts, n_topics: int) -> WordRows:
    """Copy rows of B to rows with a place for each of K topics (int) that the tokens they count can come to."""
    W = len(rows.row_ptr) - 1
    lengths = np.empty(W, np.int64)
    row_ptr = np.zeros(W + 1, np.int64)
    for row in range(W):
        tokens = 0
        for j in range(rows.row_ptr[row], rows.row_ptr[row + 1]):
            tokens += rows.counts[j]
        lengths[row] = rows.row_ptr[row + 1] - rows.row_ptr[row]
        row_ptr[row + 1] = row_ptr[row] + min(tokens, n_topics)
    topics = np.empty(row_ptr[-1], np.uint16)
    counts = np.empty(row_ptr[-1], np.int32)
    for row in range(W):
        for j in range(lengths[row]):
            topics[row_ptr[row] + j] = rows.topics[rows.row_ptr[row] + j]
            counts[row_ptr[row] + j] = rows.counts[rows.row_ptr[row] + j]
    return WordRows(row_ptr, lengths, topics, counts)


@kernel
def used_words(words: WordRows) -> WordCounts:
    """Copy rows of B (W words) without their free places. `growable_words` makes the same rows of the copy."""
    W = len(words.lengths)
    row_ptr = np.zeros(W + 1, np.int64)
    for row in range(W):
        row_ptr[row + 1] = row_ptr[row] + words.lengths[row]
    topics = np.empty(row_ptr[W], np.uint16)
    counts = np.empty(row_ptr[W], np.int32)
    for row in range(W):
        for j in range(words.lengths[row]):
            topics[row_ptr[row] + j] = words.topics[words.row_ptr[row] + j]
            counts[row_ptr[row] + j] = words.counts[words.row_ptr[row] + j]
    return WordCounts(row_ptr, topics, counts)


@kernel
def pack_words(words: WordRows, table: WordCounts, scratch: RowScratch) -> np.int64:
    """Copy rows of B to a table with ascending topics and a slack entry; return its number of entries (int).

    ``scratch`` has a row of (K,) int32.
    """
    row, marks = scratch
    end = np.uint64(0)
    for v in range(len(words.lengths)):
        start = words.row_ptr[v]
        for j in range(start, start + words.lengths[v]):
            add_topic(np.uint64(words.topics[j]), words.counts[j], row, marks)
        end = drain_row(row, marks, table.topics, table.counts, end)
        table.row_ptr[v + 1] = end
    return np.int64(end)


@kernel
def dense_words(rows: WordCounts, width: int) -> np.ndarray:
    """Copy rows of B to dense ones: flat int32, ``width`` (int) numbers per word."""
    W = len(rows.row_ptr) - 1
    dense = np.zeros(W * width, np.int32)
    for row in range(W):
        for j in range(rows.row_ptr[row], rows.row_ptr[row + 1]):
            dense[row * width + rows.topics[j]] = rows.counts[j]
    return dense


@kernel
def pack_dense(words: np.ndarray, width: int) -> WordCounts:
    """Return the counts of dense rows of B, flat int32, ``width`` (int) numbers per word."""
    W = len(words) // width
    used = 0
    for count in words:
        used += count != 0
    row_ptr = np.zeros(W + 1, np.int64)
    # One more: each number is written, and the next one replaces a zero. A branch would often be predicted wrongly.
    topics = np.empty(used + 1, np.uint16)
    counts = np.empty(used + 1, np.int32)
    # Without a sign, because Numba would look whether an index counts from the end.
    end = np.uint64(0)
    for row in range(np.uint64(W)):
        for k in range(np.uint64(width)):
            count = words[row * np.uint64(width) + k]
            topics[end] = k
            counts[end] = count
            end += np.uint64(count != 0)
        row_ptr[row + np.uint64(1)] = end
    return WordCounts(row_ptr, topics[:-1], counts[:-1])
