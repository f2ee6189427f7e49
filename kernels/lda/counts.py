"""Counting topics: rows of A (documents) by shuffle and segmented count, rows of B (words), sums of both.

Source: SaberLDA (Li et al., ASPLOS 2017), section 3.3. Every count is an exact integer.

Reference implementation: tests/helpers/naive.py, `lda_counts`.
"""

from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ..jit import kernel

#: The largest count of one packed entry; a larger one is split over several entries of its topic.
MAX_COUNT = (1 << 16) - 1
MAX_TOPICS = 1 << 15
#: Tokens of a word in a chunk that are counted by insertion, at most.
FEW = 8
SIXTEEN = np.uint32(16)
SURPLUS = np.uint32(1 << 15)
PADDING = np.uint32(0xFFFF0000)
ONE, SIX = np.uint64(1), np.uint64(6)


class DocumentCounts(NamedTuple):
    """Sparse rows of A: the topics of document d are ``entries[row_ptr[d]:row_ptr[d + 1]]``, packed with their counts.

    A row is padded to a multiple of eight by entries of count zero. Of a topic with more than 65,535 tokens in one
    document, all but the last of its entries have the topic's highest bit set: a sampler that lowers the topic by one
    must do so once.
    """

    row_ptr: np.ndarray  # (D + 1,) int64, multiples of 8
    entries: np.ndarray  # (nnz,) uint32: topic << 16 | count


class WordCounts(NamedTuple):
    """Sparse rows of B for a block of words: topics ascend inside a row."""

    row_ptr: np.ndarray  # (W + 1,) int64
    topics: np.ndarray  # (nnz,) uint16
    counts: np.ndarray  # (nnz,) int32


def count_documents(doc_ptr: np.ndarray, word_to_doc_order: np.ndarray, z: np.ndarray) -> DocumentCounts:
    """Count topics by document, in the order of their first tokens.

    ``doc_ptr`` (D + 1,) int64, ``word_to_doc_order`` (T,) uint32 from word order to document order,
    ``z`` (T,) uint16 in word order.
    """
    return DocumentCounts(*_count_documents(doc_ptr, _shuffle(word_to_doc_order, z)))


@kernel
def _shuffle(word_to_doc_order, z):
    shuffled = np.empty(len(z), np.uint16)
    for i in range(len(z)):
        shuffled[word_to_doc_order[i]] = z[i]
    return shuffled


@kernel
def _count_documents(doc_ptr, z):
    count = np.zeros(MAX_TOPICS, np.int64)
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
        while count[k] > MAX_COUNT:
            entries[last] = (k | SURPLUS) << SIXTEEN | np.uint32(MAX_COUNT)
            last += 1
            count[k] -= MAX_COUNT
        entries[j] = k << SIXTEEN | np.uint32(count[k])
        count[k] = 0
    while last % 8:
        entries[last] = PADDING
        last += 1
    return last


def count_words(
    word_ids: np.ndarray, word_ptr: np.ndarray, z: np.ndarray, words: tuple[int, int], n_topics: int
) -> WordCounts:
    """Count the topics of words ``words[0] <= v < words[1]`` over all segments of a chunk.

    ``word_ids`` (S,) uint32, ``word_ptr`` (S + 1,) int64, ``z`` (T,) uint16 in word order.
    """
    return WordCounts(*_count_words(word_ids, word_ptr, z, words[0], words[1], n_topics))


@kernel
def _count_words(word_ids, word_ptr, z, first, last, n_topics):
    head, segments = _segments_by_word(word_ids, first, last)
    tokens = _tokens_by_word(word_ptr, head, segments)
    bound = np.minimum(tokens, n_topics).sum() + 1  # one more is written and left
    topics, counts = np.empty(bound, np.uint16), np.empty(bound, np.int32)
    row_ptr = np.zeros(last - first + 1, np.int64)
    row, marks = np.zeros(n_topics, np.int32), np.zeros((n_topics + 63) // 64, np.uint64)
    end = np.uint64(0)
    for v in range(len(tokens)):
        start = end
        for s in segments[head[v] : head[v + 1]]:
            own = z[word_ptr[s] : word_ptr[s + 1]]
            if tokens[v] <= FEW:
                end = _insert(own, topics, counts, start, end)
            else:
                _add(own, row, marks)
        if tokens[v] > FEW:
            end = _drain(row, marks, topics, counts, end)
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
def _tokens_by_word(word_ptr, head, segments):
    tokens = np.zeros(len(head) - 1, np.int64)
    for v in range(len(tokens)):
        for s in segments[head[v] : head[v + 1]]:
            tokens[v] += word_ptr[s + 1] - word_ptr[s]
    return tokens


@kernel(forceinline=True)
def _insert(own, topics, counts, start, end):
    """Add a few topics to the row that begins at ``start``, in their places; return its end."""
    for k in own:
        at = end
        while at > start and topics[at - ONE] > k:
            at -= ONE
        if at > start and topics[at - ONE] == k:
            counts[at - ONE] += 1
            continue
        behind = end
        while behind > at:
            topics[behind], counts[behind] = topics[behind - ONE], counts[behind - ONE]
            behind -= ONE
        topics[at], counts[at] = k, 1
        end += ONE
    return end


@kernel(forceinline=True)
def _add(own, row, marks):
    """Count topics in a dense row, and mark them by bits, so that they are listed in order without a sort."""
    for i in range(np.uint64(len(own))):
        k = np.uint64(own[i])
        row[k] += np.int32(1)
        marks[k >> SIX] |= ONE << (k & np.uint64(63))


@kernel(forceinline=True)
def _drain(row, marks, topics, counts, end):
    """Append the marked entries of a dense row by ascending topic, and clear row and marks."""
    n, width, start = np.uint64(len(marks)), np.uint64(64), end
    for first in range(np.uint64(0), n, width):
        # Which marks are set, in one word: a loop over all of them would mispredict.
        found = np.uint64(0)
        for each in range(first, min(first + width, n)):
            found |= np.uint64(marks[each] != 0) << (each - first)
        while found:
            w = first + np.uint64(trailing_zeros(found))
            found &= found - ONE
            bits = marks[w]
            marks[w] = 0
            # Two at a time: most words of marks have one or two set.
            while bits:
                topics[end] = (w << SIX) + np.uint64(trailing_zeros(bits))
                bits &= bits - ONE
                topics[end + ONE] = (w << SIX) + np.uint64(trailing_zeros(bits))
                end += ONE + np.uint64(bits != 0)
                bits &= bits - ONE
    for e in range(start, end):
        counts[e] = row[topics[e]]
        row[topics[e]] = 0
    return end


def merge_counts(left: WordCounts, right: WordCounts) -> WordCounts:
    """Add two tables of the same words; topics ascend in the result."""
    return WordCounts(*_merge_counts(left, right))


@kernel
def _merge_counts(left, right):
    left_ptr, left_topics, left_counts = left.row_ptr, left.topics, left.counts
    right_ptr, right_topics, right_counts = right.row_ptr, right.topics, right.counts
    bound = len(left_topics) + len(right_topics)
    topics, counts = np.empty(bound, np.uint16), np.empty(bound, np.int32)
    row_ptr = np.zeros(len(left_ptr), np.int64)
    end = np.uint64(0)
    for v in range(len(left_ptr) - 1):
        i, i_end = np.uint64(left_ptr[v]), np.uint64(left_ptr[v + 1])
        j, j_end = np.uint64(right_ptr[v]), np.uint64(right_ptr[v + 1])
        while i < i_end and j < j_end:
            a, b = left_topics[i], right_topics[j]
            of_left, of_right = np.int32(a <= b), np.int32(b <= a)
            topics[end] = min(a, b)
            # Masks and sums: which of the two is taken cannot be predicted.
            counts[end] = (left_counts[i] & -of_left) + (right_counts[j] & -of_right)
            i, j, end = i + np.uint64(of_left), j + np.uint64(of_right), end + ONE
        end = _append(left_topics, left_counts, i, i_end, topics, counts, end)
        end = _append(right_topics, right_counts, j, j_end, topics, counts, end)
        row_ptr[v + 1] = end
    return row_ptr, topics[:end].copy(), counts[:end].copy()


@kernel(forceinline=True)
def _append(from_topics, from_counts, i, behind, topics, counts, end):
    for e in range(i, behind):
        topics[end], counts[end] = from_topics[e], from_counts[e]
        end += ONE
    return end


def topic_totals(topics: np.ndarray, counts: np.ndarray, n_topics: int) -> np.ndarray:
    """Sum a table's (nnz,) uint16 topics and int32 counts over its words: (K,) int64."""
    return _topic_totals(topics, counts, n_topics)


@kernel
def _topic_totals(topics, counts, n_topics):
    totals = np.zeros(n_topics, np.int64)
    for j in range(len(topics)):
        totals[topics[j]] += counts[j]
    return totals
