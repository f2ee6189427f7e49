"""Counting topics: rows of A (documents) by shuffle and segmented count, rows of B (words), sums of both.

Source: SaberLDA (Li et al., ASPLOS 2017), section 3.3. Every count is an exact integer.
"""

from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from .jit import kernel

#: The largest count of one packed entry; a larger one is split over several entries of its topic.
LARGEST = (1 << 16) - 1
TOPICS = 1 << 15
SIXTEEN = np.uint32(16)
SURPLUS = np.uint32(1 << 15)
PADDING = np.uint32(0xFFFF0000)


class Rows(NamedTuple):
    """Sparse rows of A: the topics of document d are ``entries[row_ptr[d]:row_ptr[d + 1]]``, packed with their counts.

    A row is padded to a multiple of eight by entries of count zero. Of a topic with more than 65,535 tokens in one
    document, all but the last of its entries have the topic's highest bit set: a sampler that lowers the topic by one
    must do so once.
    """

    row_ptr: np.ndarray  # (D + 1,) int64, multiples of 8
    entries: np.ndarray  # (nnz,) uint32: topic << 16 | count


class Counts(NamedTuple):
    """Sparse rows of B for a block of words: topics ascend inside a row."""

    row_ptr: np.ndarray  # (W + 1,) int64
    topics: np.ndarray  # (nnz,) uint16
    counts: np.ndarray  # (nnz,) int32


def count_documents(doc_ptr: np.ndarray, place: np.ndarray, z: np.ndarray) -> Rows:
    """Count topics by document, in the order of their first tokens.

    ``doc_ptr`` (D + 1,) int64, ``place`` (T,) uint32 from word order to document order, ``z`` (T,) uint16 in word
    order.
    """
    return Rows(*_count_documents(doc_ptr, _shuffle(place, z)))


@kernel
def _shuffle(place, z):
    shuffled = np.empty(len(z), np.uint16)
    for i in range(len(z)):
        shuffled[place[i]] = z[i]
    return shuffled


@kernel
def _count_documents(doc_ptr, z):
    count = np.zeros(TOPICS, np.int64)
    row_ptr = np.zeros(len(doc_ptr), np.int64)
    entries = np.empty(_bound(doc_ptr), np.uint32)
    end = 0
    for d in range(len(doc_ptr) - 1):
        start = end
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            k = z[i]
            entries[end] = k
            end += count[k] == 0
            count[k] += 1
        end = _pack(entries, start, end, count)
        row_ptr[d + 1] = end
    return row_ptr, entries[:end].copy()


@kernel
def _bound(doc_ptr):
    """Return how many entries the rows can have: one a token, the padding, and one more that is written and left."""
    bound = 1
    for d in range(len(doc_ptr) - 1):
        bound += (doc_ptr[d + 1] - doc_ptr[d] + 7) // 8 * 8
    return bound


@kernel
def _pack(entries, start, end, count):
    """Replace the topics of one row by packed entries, clear their counts and pad the row."""
    last = end
    for j in range(start, end):
        k = entries[j]
        while count[k] > LARGEST:
            entries[last] = (k | SURPLUS) << SIXTEEN | np.uint32(LARGEST)
            last += 1
            count[k] -= LARGEST
        entries[j] = k << SIXTEEN | np.uint32(count[k])
        count[k] = 0
    while last % 8:
        entries[last] = PADDING
        last += 1
    return last


def count_words(
    word_ids: np.ndarray, word_ptr: np.ndarray, z: np.ndarray, words: tuple[int, int], n_topics: int
) -> Counts:
    """Count the topics of words ``words[0] <= v < words[1]`` over all segments of a chunk.

    ``word_ids`` (S,) uint32, ``word_ptr`` (S + 1,) int64, ``z`` (T,) uint16 in word order.
    """
    return Counts(*_count_words(word_ids, word_ptr, z, words[0], words[1], n_topics))


@kernel
def _count_words(word_ids, word_ptr, z, first, last, n_topics):
    head, segments = _segments_by_word(word_ids, first, last)
    bound = 0
    for v in range(last - first):
        tokens = 0
        for s in segments[head[v] : head[v + 1]]:
            tokens += word_ptr[s + 1] - word_ptr[s]
        bound += min(tokens, n_topics)
    topics, counts = np.empty(bound, np.uint16), np.empty(bound, np.int32)
    row_ptr = np.zeros(last - first + 1, np.int64)
    row = np.zeros(n_topics, np.int32)
    marks, upper = _bits(n_topics)
    end = 0
    for v in range(last - first):
        for s in segments[head[v] : head[v + 1]]:
            for i in range(word_ptr[s], word_ptr[s + 1]):
                row[z[i]] += 1
                _mark(marks, upper, z[i])
        end = _drain(row, marks, upper, topics, counts, end)
        row_ptr[v + 1] = end
    return row_ptr, topics[:end].copy(), counts[:end].copy()


@kernel
def _segments_by_word(word_ids, first, last):
    """List the segments of each word of a block: (W + 1,) heads and the segments in that order."""
    head = np.zeros(last - first + 1, np.int64)
    for v in word_ids:
        if first <= v < last:
            head[v - first + 1] += 1
    head = np.cumsum(head)
    cursor = head[:-1].copy()
    segments = np.empty(head[-1], np.int64)
    for s in range(len(word_ids)):
        v = np.int64(word_ids[s]) - first
        if 0 <= v < last - first:
            segments[cursor[v]] = s
            cursor[v] += 1
    return head, segments


@kernel
def _bits(n):
    """Two levels of bits over n topics, so that the touched ones are listed in order without a sort."""
    marks = np.zeros((n + 63) // 64, np.uint64)
    return marks, np.zeros((len(marks) + 63) // 64, np.uint64)


@kernel(inline="always")
def _mark(marks, upper, k):
    marks[k >> 6] |= np.uint64(1) << np.uint64(k & 63)
    upper[k >> 12] |= np.uint64(1) << np.uint64((k >> 6) & 63)


@kernel
def _drain(row, marks, upper, topics, counts, end):
    """Append the marked entries of a dense row by ascending topic, and clear row and marks."""
    one = np.uint64(1)
    for h in range(len(upper)):
        while upper[h]:
            w = h * 64 + np.int64(trailing_zeros(upper[h]))
            upper[h] &= upper[h] - one
            while marks[w]:
                k = w * 64 + np.int64(trailing_zeros(marks[w]))
                marks[w] &= marks[w] - one
                topics[end] = k
                counts[end] = row[k]
                row[k] = 0
                end += 1
    return end


def merge_counts(left: Counts, right: Counts) -> Counts:
    """Add two tables of the same words; topics ascend in the result."""
    return Counts(*_merge_counts(left, right))


@kernel
def _merge_counts(left, right):
    bound = len(left.topics) + len(right.topics)
    topics, counts = np.empty(bound, np.uint16), np.empty(bound, np.int32)
    row_ptr = np.zeros(len(left.row_ptr), np.int64)
    end = 0
    for v in range(len(left.row_ptr) - 1):
        i, j = left.row_ptr[v], right.row_ptr[v]
        i_end, j_end = left.row_ptr[v + 1], right.row_ptr[v + 1]
        while i < i_end or j < j_end:
            a = np.int64(left.topics[i]) if i < i_end else TOPICS
            b = np.int64(right.topics[j]) if j < j_end else TOPICS
            topics[end] = min(a, b)
            counts[end] = (left.counts[i] if a <= b else 0) + (right.counts[j] if b <= a else 0)
            i += a <= b
            j += b <= a
            end += 1
        row_ptr[v + 1] = end
    return row_ptr, topics[:end].copy(), counts[:end].copy()


def topic_totals(topics: np.ndarray, counts: np.ndarray, n_topics: int) -> np.ndarray:
    """Sum a table's (nnz,) uint16 topics and int32 counts over its words: (K,) int64."""
    return _topic_totals(topics, counts, n_topics)


@kernel
def _topic_totals(topics, counts, n_topics):
    totals = np.zeros(n_topics, np.int64)
    for j in range(len(topics)):
        totals[topics[j]] += counts[j]
    return totals
