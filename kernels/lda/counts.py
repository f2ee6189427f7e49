"""Counting topics: sparse rows of A (per document) and of B (per word), and their sums.

    A_dk = tokens of document d with topic k,    B_vk = tokens of word v with topic k,    N_k = Σ_v B_vk

Source: SaberLDA (Li et al., ASPLOS 2017), section 3.3: topics are brought into the order of the rows ("shuffle") and
counted row by row ("segmented count"). Every count is an exact integer, so tables of chunks add up without rounding.

Layout: both tables are compressed sparse rows. A row of A packs topic and count into one uint32, because the sampler
reads it for every token; see `DocumentCounts`. A row of B has its topics in ascending order; see `WordCounts`.

Reference implementation: tests/helpers/naive.py, `lda_counts`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from ..jit import kernel, read_only
from ..simd.addresses import addresses, read_at

#: The largest count of one packed entry. A larger count is split over several entries of the same topic.
MAX_COUNT = (1 << 16) - 1
#: Topics have 15 bits, since the highest of their 16 bits marks surplus entries.
MAX_TOPICS = 1 << 15
#: A word with at most this many tokens in a chunk is counted by insertion into its row. Above, a dense row is faster.
INSERTION_LIMIT = 8
#: Unsigned constants: numba makes int64 or float64 of an operation that mixes signed and unsigned integers.
SIXTEEN = np.uint32(16)
SURPLUS = np.uint32(1 << 15)
#: An entry of count zero. Its topic is one that no model has, so it never equals a token's topic.
PADDING = np.uint32(0xFFFF0000)
ONE = np.uint64(1)
SIX = np.uint64(6)


class DocumentCounts(NamedTuple):
    """Sparse rows of A: the topics of document d are ``entries[row_ptr[d]:row_ptr[d + 1]]``, packed with their counts.

    A row is padded to a multiple of eight with entries of count zero, so that the sampler reads it in whole vectors.
    If a topic has more than 65,535 tokens in one document, it has several entries, and all but the last of them have
    the topic's highest bit set. A sampler that lowers the topic's count by one does so at the entry without that bit.
    """

    row_ptr: np.ndarray  # (D + 1,) int64, multiples of 8
    entries: np.ndarray  # (nnz,) uint32: topic << 16 | count


class WordCounts(NamedTuple):
    """Sparse rows of B for a block of W words; topics ascend inside a row."""

    row_ptr: np.ndarray  # (W + 1,) int64
    topics: np.ndarray  # (nnz,) uint16
    counts: np.ndarray  # (nnz,) int32


class RowScratch(NamedTuple):
    """A dense row of counts. NumPy allocates it, because numba compiles each allocation anew."""

    row: np.ndarray  # (K,) int32, zeros between two rows
    marks: np.ndarray  # (K / 64,) uint64: one bit per topic that the row has


# --- rows of A ---


def count_documents(doc_ptr: np.ndarray, word_to_doc_order: np.ndarray, z: np.ndarray) -> DocumentCounts:
    """Count the topics of each document; inside a row, topics are in the order of their first tokens.

    ``doc_ptr`` (D + 1,) int64, ``word_to_doc_order`` (T,) uint32, topics ``z`` (T,) uint16 in word order.
    """
    shuffled = np.empty(len(z), np.uint16)
    _shuffle(word_to_doc_order, z, shuffled)
    row_ptr = np.zeros(len(doc_ptr), np.int64)
    entries = np.empty(_entries_bound(doc_ptr), np.uint32)
    end = _count_documents(doc_ptr, shuffled, row_ptr, entries, np.zeros(MAX_TOPICS, np.int64))
    return DocumentCounts(row_ptr, entries[:end])


@kernel
def _shuffle(word_to_doc_order: np.ndarray, z: np.ndarray, shuffled: np.ndarray) -> None:
    """Write the topics ``z`` (T,), which are in word order, to ``shuffled`` (T,) uint16 in document order."""
    for i in range(len(z)):
        shuffled[word_to_doc_order[i]] = z[i]


@kernel
def _count_documents(
    doc_ptr: np.ndarray, z: np.ndarray, row_ptr: np.ndarray, entries: np.ndarray, count: np.ndarray
) -> np.int64:
    """Count the topics ``z`` (T,) in document order, and fill the arrays of `DocumentCounts`.

    Returns the number of entries. It is less than the length of ``entries``, which has space for the largest number.
    ``count`` (MAX_TOPICS,) int64 are zeros before and after.
    """
    # A literal 0 has a type of its own, for which `_pack` would be compiled again.
    end = np.int64(0)
    for d in range(len(doc_ptr) - 1):
        start = end
        for i in range(doc_ptr[d], doc_ptr[d + 1]):
            k = z[i]
            # Write always and advance only for a new topic. A branch would be mispredicted for every other token.
            entries[end] = k
            end += count[k] == 0
            count[k] += 1
        end = _pack(entries, start, end, count)
        row_ptr[d + 1] = end
    return end


@kernel
def _entries_bound(doc_ptr: np.ndarray) -> int:
    """Return how many entries the rows need at most: one per token, the padding, and one slack entry.

    The slack entry is for the loop without branches, which writes one entry past the end.
    """
    bound = 1
    for d in range(len(doc_ptr) - 1):
        bound += (doc_ptr[d + 1] - doc_ptr[d] + 7) // 8 * 8
    return bound


@kernel
def _pack(entries: np.ndarray, start: np.int64, end: np.int64, count: np.ndarray) -> np.int64:
    """Replace the topics of one row by packed entries, clear their counts and pad the row; return its end."""
    last = end
    for j in range(start, end):
        k = entries[j]
        # An entry has 16 bits for the count, so a larger count is split into several entries.
        while count[k] > MAX_COUNT:
            entries[last] = (k | SURPLUS) << SIXTEEN | np.uint32(MAX_COUNT)
            last += 1
            count[k] -= MAX_COUNT
        entries[j] = k << SIXTEEN | np.uint32(count[k])
        count[k] = 0
    # Vector code reads eight entries at a time. Padding entries count nothing.
    while last % 8:
        entries[last] = PADDING
        last += 1
    return last


# --- rows of B ---


def count_words(
    word_ids: np.ndarray, word_ptr: np.ndarray, z: np.ndarray, words: tuple[int, int], n_topics: int
) -> WordCounts:
    """Count the topics of the words ``words[0] <= v < words[1]`` over all segments of a chunk.

    ``word_ids`` (S,) uint32, ``word_ptr`` (S + 1,) int64, topics ``z`` (T,) uint16 in word order.
    """
    head, segments = segments_by_word(word_ids, words[0], words[1])
    tokens = np.zeros(len(head) - 1, np.int64)
    _tokens_by_word(word_ptr, head, segments, tokens)
    # One slack entry, because `drain_row` writes one past the end.
    table = empty_table(words[1] - words[0], int(np.minimum(tokens, n_topics).sum()) + 1)
    end = _count_words(head, segments, tokens, word_ptr, z, table, new_row(n_topics))
    return first_entries(table, end)


def new_row(n_topics: int) -> RowScratch:
    """Return a dense row of zeros."""
    return RowScratch(np.zeros(n_topics, np.int32), np.zeros((n_topics + 63) // 64, np.uint64))


def empty_table(n_words: int, bound: int) -> WordCounts:
    """Return a table for ``n_words`` rows and at most ``bound`` entries.

    NumPy allocates the arrays, because it uses huge pages for large ones. Numba does not, and page faults then take
    longer than merging. Pages that are never written take no memory, so the arrays need no copy of the right length.
    """
    return WordCounts(np.zeros(n_words + 1, np.int64), np.empty(bound, np.uint16), np.empty(bound, np.int32))


def first_entries(table: WordCounts, end: np.int64) -> WordCounts:
    """Return a table without its unused entries."""
    return table._replace(topics=table.topics[:end], counts=table.counts[:end])


@kernel
def _count_words(
    head: np.ndarray,
    segments: np.ndarray,
    tokens: np.ndarray,
    word_ptr: np.ndarray,
    z: np.ndarray,
    table: WordCounts,
    scratch: RowScratch,
) -> np.int64:
    """Count the topics of the words with these segments; fill ``table`` and return its number of entries."""
    row_ptr, topics, counts = table
    row, marks = scratch
    end = np.uint64(0)
    for v in range(len(tokens)):
        start = end
        for j in range(head[v], head[v + 1]):
            first = np.uint64(word_ptr[segments[j]])
            stop = np.uint64(word_ptr[segments[j] + 1])
            if tokens[v] <= INSERTION_LIMIT:
                end = _insert(z, first, stop, topics, counts, start, end)
            else:
                _add(z, first, stop, row, marks)
        if tokens[v] > INSERTION_LIMIT:
            end = drain_row(row, marks, topics, counts, end)
        row_ptr[v + 1] = end
    return np.int64(end)


def segments_by_word(word_ids: np.ndarray, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the segments of the W words ``first`` to ``last - 1``, grouped by word.

    Segment s has tokens of the word ``word_ids[s]``. Word ``first + w`` has the segments ``found[ptr[w]:ptr[w + 1]]``,
    where ptr (W + 1,) int64 and found (n,) int64 are the two results.
    """
    head = np.zeros(last - first + 1, np.int64)
    segments = np.empty(len(word_ids), np.int64)
    _segments_by_word(read_only(word_ids), first, head, np.empty(last - first, np.int64), segments)
    return head, segments[: head[-1]]


@kernel
def _segments_by_word(
    word_ids: np.ndarray, first: int, head: np.ndarray, cursor: np.ndarray, segments: np.ndarray
) -> None:
    """Count and sort the segments of the words from ``first`` on; ``cursor`` (W,) is scratch."""
    n_words = len(cursor)
    for s in range(len(word_ids)):
        v = np.int64(word_ids[s]) - first
        if 0 <= v < n_words:
            head[v + 1] += 1
    # Counting sort: the next free place of each word. Segments of a word stay in order.
    for row in range(n_words):
        cursor[row] = head[row]
        head[row + 1] += head[row]
    for s in range(len(word_ids)):
        v = np.int64(word_ids[s]) - first
        if 0 <= v < n_words:
            segments[cursor[v]] = s
            cursor[v] += 1


@kernel
def _tokens_by_word(word_ptr: np.ndarray, head: np.ndarray, segments: np.ndarray, tokens: np.ndarray) -> None:
    """Add the number of tokens of each word to ``tokens`` (W,) int64."""
    for v in range(len(tokens)):
        for j in range(head[v], head[v + 1]):
            tokens[v] += word_ptr[segments[j] + 1] - word_ptr[segments[j]]


@kernel(forceinline=True)
def _insert(
    z: np.ndarray,
    first: np.uint64,
    stop: np.uint64,
    topics: np.ndarray,
    counts: np.ndarray,
    start: np.uint64,
    end: np.uint64,
) -> np.uint64:
    """Add the topics ``z[first:stop]`` to the row that begins at ``start``, in ascending order; return its new end."""
    for i in range(first, stop):
        end = insert_topic(z[i], topics, counts, start, end)
    return end


@kernel(forceinline=True)
def insert_topic(k: np.uint16, topics: np.ndarray, counts: np.ndarray, start: np.uint64, end: np.uint64) -> np.uint64:
    """Add one topic to the row of a table that begins at ``start`` and ends at ``end``; return its new end.

    ``topics`` (nnz,) uint16 and ``counts`` (nnz,) int32 are those of `WordCounts`.
    """
    at = end
    while at > start and topics[at - ONE] > k:
        at -= ONE
    is_new = at == start or topics[at - ONE] != k
    if is_new:
        # Move larger topics one entry up.
        free = end
        while free > at:
            topics[free] = topics[free - ONE]
            counts[free] = counts[free - ONE]
            free -= ONE
        topics[at] = k
        counts[at] = 1
    else:
        counts[at - ONE] += 1
    return end + np.uint64(is_new)


@kernel(forceinline=True)
def _add(z: np.ndarray, first: np.uint64, stop: np.uint64, row: np.ndarray, marks: np.ndarray) -> None:
    """Count the topics ``z[first:stop]`` in a dense row (K,) int32.

    Their bits in ``marks`` are set, which later lists them in order.
    """
    for i in range(first, stop):
        add_topic(np.uint64(z[i]), np.int32(1), row, marks)


@kernel(forceinline=True)
def add_topic(k: np.uint64, count: np.int32, row: np.ndarray, marks: np.ndarray) -> None:
    """Add ``count`` tokens of topic k to a dense ``row`` (K,) int32, and to ``marks`` (K / 64,) uint64."""
    row[k] += count
    marks[k >> SIX] |= ONE << (k & np.uint64(63))


@kernel(forceinline=True)
def drain_row(row: np.ndarray, marks: np.ndarray, topics: np.ndarray, counts: np.ndarray, end: np.uint64) -> np.uint64:
    """Append the marked entries of a dense row by ascending topic, and clear row and marks; return the new end.

    ``row`` (K,) int32 and ``marks`` (K / 64,) uint64 are a `RowScratch`; ``topics`` uint16 and ``counts`` int32 are
    those of `WordCounts`, with one slack entry.
    """
    n = np.uint64(len(marks))
    width = np.uint64(64)
    start = end
    for first in range(np.uint64(0), n, width):
        # First find which of 64 words of marks have bits. A loop that tests each word would mispredict its branch.
        found = np.uint64(0)
        for each in range(first, min(first + width, n)):
            found |= np.uint64(marks[each] != 0) << (each - first)
        while found:
            w = first + np.uint64(trailing_zeros(found))
            found &= found - ONE
            bits = marks[w]
            marks[w] = 0
            # Two bits per round, because most words of marks have one or two bits.
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


# --- sums ---


def merge_counts(left: WordCounts, right: WordCounts) -> WordCounts:
    """Add two tables of the same words. In each row, topics must ascend in both tables, and they do in the sum."""
    table = empty_table(len(left.row_ptr) - 1, len(left.topics) + len(right.topics))
    return first_entries(table, _merge_counts(left, right, table))


def merge_many(tables: Sequence[WordCounts], n_topics: int) -> WordCounts:
    """Add any number of tables of the same words and topics, each with ascending topics in its rows.

    Each entry is read once. Merging the tables one after the other would read the growing sum every time.
    """
    if len(tables) == 1:
        return tables[0]
    if len(tables) == 2:
        return merge_counts(*tables)
    bound = sum(len(table.topics) for table in tables)
    # One slack entry, because `drain_row` writes one past the end.
    merged = empty_table(len(tables[0].row_ptr) - 1, bound + 1)
    # The kernel reads raw memory, so each array must have its type. No array is copied that has it.
    row_ptrs = [np.ascontiguousarray(table.row_ptr, np.int64) for table in tables]
    topics = [np.ascontiguousarray(table.topics, np.uint16) for table in tables]
    counts = [np.ascontiguousarray(table.counts, np.int32) for table in tables]
    sources = WordCounts(addresses(row_ptrs), addresses(topics), addresses(counts))
    return first_entries(merged, _merge_many(sources, merged, n_topics))


@kernel
def _merge_many(sources: WordCounts, table: WordCounts, n_topics: int) -> np.int64:
    """Add the tables at the addresses ``sources``, each (n,) uint64; return the number of entries of ``table``."""
    row_ptrs, all_topics, all_counts = sources
    row_ptr, topics, counts = table
    n_tables = len(row_ptrs)
    row = np.zeros(n_topics, np.int32)
    marks = np.zeros((n_topics + 63) // 64, np.uint64)
    end = np.uint64(0)
    for v in range(len(row_ptr) - 1):
        # A row that only one table has is copied.
        filled = 0
        only = 0
        for t in range(n_tables):
            if read_at(row_ptrs[t], v, row_ptr) < read_at(row_ptrs[t], v + 1, row_ptr):
                filled += 1
                only = t
        first = only if filled == 1 else 0
        last = only + 1 if filled == 1 else n_tables
        for t in range(first, last):
            from_topics = all_topics[t]
            from_counts = all_counts[t]
            for e in range(read_at(row_ptrs[t], v, row_ptr), read_at(row_ptrs[t], v + 1, row_ptr)):
                k = np.uint64(read_at(from_topics, e, topics))
                count = read_at(from_counts, e, counts)
                if filled == 1:
                    topics[end] = k
                    counts[end] = count
                    end += ONE
                else:
                    add_topic(k, count, row, marks)
        if filled > 1:
            end = drain_row(row, marks, topics, counts, end)
        row_ptr[v + 1] = end
    return np.int64(end)


def add_words(
    word_ids: np.ndarray,
    word_ptr: np.ndarray,
    z: np.ndarray,
    words: tuple[int, int],
    n_topics: int,
    before: dict[str, np.ndarray] | None,
) -> dict[str, np.ndarray]:
    """Add the counts of a chunk to those of the shard's chunks before; see `count_words`.

    ``before`` is the last result, or None for the shard's first chunk. Pass the result of the last chunk to
    `finish_words`.
    """
    counts = count_words(word_ids, word_ptr, z, words, n_topics)
    if before is not None:
        counts = merge_counts(WordCounts(**before), counts)
    return counts._asdict()


def finish_words(counts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the fields of `WordCounts` for the counts of a whole shard. On the CPU, they are there already."""
    return counts


@kernel
def _merge_counts(left: WordCounts, right: WordCounts, table: WordCounts) -> np.int64:
    """Merge the sorted rows of two tables; fill ``table`` and return its number of entries."""
    left_ptr = left.row_ptr
    left_topics = left.topics
    left_counts = left.counts
    right_ptr = right.row_ptr
    right_topics = right.topics
    right_counts = right.counts
    row_ptr, topics, counts = table
    end = np.uint64(0)
    for v in range(len(left_ptr) - 1):
        i, i_end = np.uint64(left_ptr[v]), np.uint64(left_ptr[v + 1])
        j, j_end = np.uint64(right_ptr[v]), np.uint64(right_ptr[v + 1])
        while i < i_end and j < j_end:
            a = left_topics[i]
            b = right_topics[j]
            of_left = np.int32(a <= b)
            of_right = np.int32(b <= a)
            topics[end] = min(a, b)
            # Masks and sums in place of branches: no processor can predict which of the two tables comes next.
            counts[end] = (left_counts[i] & -of_left) + (right_counts[j] & -of_right)
            i += np.uint64(of_left)
            j += np.uint64(of_right)
            end += ONE
        end = _append(left_topics, left_counts, i, i_end, topics, counts, end)
        end = _append(right_topics, right_counts, j, j_end, topics, counts, end)
        row_ptr[v + 1] = end
    return np.int64(end)


@kernel(forceinline=True)
def _append(
    from_topics: np.ndarray,
    from_counts: np.ndarray,
    start: np.uint64,
    stop: np.uint64,
    topics: np.ndarray,
    counts: np.ndarray,
    end: np.uint64,
) -> np.uint64:
    """Copy the entries start to stop of one table to the end of another; return the new end."""
    for e in range(start, stop):
        topics[end] = from_topics[e]
        counts[end] = from_counts[e]
        end += ONE
    return end


@kernel
def topic_totals(topics: np.ndarray, counts: np.ndarray, n_topics: int) -> np.ndarray:
    """Sum a table over its words: ``topics`` (nnz,) uint16 and ``counts`` (nnz,) int32 to (K,) int64."""
    totals = np.zeros(n_topics, np.int64)
    for j in range(len(topics)):
        totals[topics[j]] += counts[j]
    return totals


@kernel
def copy_ranges(
    topics: np.ndarray,
    counts: np.ndarray,
    starts: np.ndarray,
    to_topics: np.ndarray,
    to_counts: np.ndarray,
    to_starts: np.ndarray,
    lengths: np.ndarray,
) -> None:
    """Copy R ranges of sparse rows: ``starts``, ``to_starts`` and ``lengths`` are (R,) int64."""
    for r in range(len(starts)):
        for j in range(lengths[r]):
            to_topics[to_starts[r] + j] = topics[starts[r] + j]
            to_counts[to_starts[r] + j] = counts[starts[r] + j]
