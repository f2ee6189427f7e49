"""Counting the topics of many chunks at once: the sum of their counts by word, B, without a table for each chunk.

Words have most of their topics in several chunks. So the tables of single chunks have three times as many entries as
their sum, and to write and to merge them takes longer than to count the tokens.

Layout: a word's tokens are counted chunk by chunk and group by group in one dense row, which is then appended to the
table. The topics of a word with few tokens are inserted into the table. Words ascend in each group, so one cursor for
each group follows the words. The arrays of any number of chunks are read by their addresses.

Reference implementation: tests/helpers/naive.py, `lda_counts`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..jit import kernel, read_only
from ..simd.addresses import addresses, prefetch_at, read_at
from .counts import (
    INSERTION_LIMIT,
    ONE,
    RowScratch,
    WordCounts,
    add_topic,
    drain_row,
    empty_table,
    first_entries,
    insert_topic,
    new_row,
)

#: Tokens between the prefetch of a topic and its use. The topics of many chunks are more streams than a processor
#: recognises.
AHEAD = np.uint64(256)


class ChunkTopics(NamedTuple):
    """The topics of the tokens of a chunk, and what is needed to count them; see `kernels.chunk.Chunk`."""

    group_ptr: np.ndarray  # (G + 1,) int64
    word_ids: np.ndarray  # (S,) uint32
    word_ptr: np.ndarray  # (S + 1,) int64
    z: np.ndarray  # (T,) uint16 in word order


class _Groups(NamedTuple):
    """The groups of all chunks: G addresses of arrays, and the next segment and the end of each group."""

    word_ids: np.ndarray  # (G,) uint64
    word_ptr: np.ndarray  # (G,) uint64
    z: np.ndarray  # (G,) uint64
    cursors: np.ndarray  # (G,) uint64
    stops: np.ndarray  # (G,) uint64


def count_chunks(chunks: Sequence[ChunkTopics], words: tuple[int, int], n_topics: int) -> WordCounts:
    """Count the topics of the words ``words[0] <= v < words[1]`` in some chunks, of which there is at least one.

    The result is the sum of `count_words` for each chunk.
    """
    # The kernel reads raw memory, so each array must have its type. No array is copied that has it.
    chunks = [
        ChunkTopics(
            chunk.group_ptr,
            np.ascontiguousarray(chunk.word_ids, np.uint32),
            np.ascontiguousarray(chunk.word_ptr, np.int64),
            np.ascontiguousarray(chunk.z, np.uint16),
        )
        for chunk in chunks
    ]
    groups = _groups(chunks, words[0])
    tokens = sum(len(chunk.z) for chunk in chunks)
    n_words = words[1] - words[0]
    # One slack entry, because `drain_row` writes one past the end.
    table = empty_table(n_words, min(tokens, n_words * n_topics) + 1)
    # Only the types of these arrays are used.
    like = ChunkTopics(*(read_only(array) for array in chunks[0]))
    end = _count_chunks(groups, words[0], like, table, new_row(n_topics))
    return first_entries(table, end)


def _groups(chunks: Sequence[ChunkTopics], first_word: int) -> _Groups:
    """Return the groups of some chunks, each at its first segment whose word is ``first_word`` or a later one."""
    owners = []
    cursors = []
    stops = []
    for chunk in chunks:
        bounds = chunk.group_ptr.tolist()
        for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
            owners.append(chunk)
            cursors.append(start + int(np.searchsorted(chunk.word_ids[start:stop], first_word)))
            stops.append(stop)
    return _Groups(
        addresses([chunk.word_ids for chunk in owners]),
        addresses([chunk.word_ptr for chunk in owners]),
        addresses([chunk.z for chunk in owners]),
        np.array(cursors, np.uint64),
        np.array(stops, np.uint64),
    )


@kernel
def _count_chunks(
    groups: _Groups, first_word: int, like: ChunkTopics, table: WordCounts, scratch: RowScratch
) -> np.int64:
    """Fill ``table``, and return its number of entries. ``like`` has arrays of the types of those in ``groups``."""
    # Local names, because each access to an array inside a tuple changes its reference count.
    word_ids, word_ptr, z, cursors, stops = groups
    like_ids = like.word_ids
    like_ptr = like.word_ptr
    like_z = like.z
    row_ptr, topics, counts = table
    row, marks = scratch
    n_groups = np.uint64(len(cursors))
    end = np.uint64(0)
    for v in range(np.uint64(len(row_ptr) - 1)):
        start = end
        n_tokens = np.uint64(0)
        is_dense = False
        for g in range(n_groups):
            s = cursors[g]
            if s < stops[g] and np.uint64(read_at(word_ids[g], s, like_ids)) == v + np.uint64(first_word):
                cursors[g] = s + ONE
                first = np.uint64(read_at(word_ptr[g], s, like_ptr))
                stop = np.uint64(read_at(word_ptr[g], s + ONE, like_ptr))
                prefetch_at(z[g], stop + AHEAD, like_z)
                n_tokens += stop - first
                if not is_dense and n_tokens > INSERTION_LIMIT:
                    # The word is not as rare as it seemed. The topics that were inserted go into the dense row.
                    is_dense = True
                    for e in range(start, end):
                        add_topic(np.uint64(topics[e]), counts[e], row, marks)
                    end = start
                if is_dense:
                    for i in range(first, stop):
                        add_topic(np.uint64(read_at(z[g], i, like_z)), np.int32(1), row, marks)
                else:
                    for i in range(first, stop):
                        end = insert_topic(read_at(z[g], i, like_z), topics, counts, start, end)
        if is_dense:
            end = drain_row(row, marks, topics, counts, end)
        row_ptr[v + ONE] = end
    return np.int64(end)
