"""Counting topics by word on a CUDA device: the counts of many chunks in a table, rows of B with all K topics.

Chunks wait to be counted until they are worth a table, so there are few tables in an epoch, however many chunks it has.
In the end, the rows are compressed into those of `WordCounts`, which the CPU would have counted. They stay on the
device. To merge several compressed tables, they are added to a table again, which is compressed in turn.

A frequent word is counted by a block, and a rare word by a warp, which adds its tokens to the word's row one by one. So
no topic is visited that no token has, except when the table is compressed.

A table that is too large for the device is cut. Then the counts are compressed part by part, and merged on the host.

Tests against the CPU's arrays: tests/kernels/cuda/lda/test_word_counts.py.
Reference implementation: tests/helpers/naive.py, `lda_counts`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import cuda, int32

from ...lda import counts as cpu
from ...lda.chunk_counts import ChunkTopics
from ...lda.counts import WordCounts, merge_counts
from ..arrays import Compiled, DeviceArray
from ..jit import kernel
from ..launch import launch
from ..memory import (
    allocate,
    cached_copy,
    clear,
    derived,
    device_memory,
    download,
    leave_on_device,
    readable,
    resident,
    workspace,
    zeros,
)
from ..residents import RESIDENTS
from ..warp import WARP, ballot
from .order import WordOrder, word_order

#: Blocks of a launch, at most. Each block takes several words.
BLOCKS = 2048
#: Threads per block.
THREADS = 256
#: A word with more tokens than this in a chunk is counted by a block. Its counts lie in the block's shared memory if
#: they take no more than `SHARED_BYTES`: then the row in device memory gets one addition per topic and not per token.
RARE = 256
SHARED_BYTES = 8 << 10
#: The largest share of the device's memory that one table may take. A worker may train two shards at a time.
TABLE_SHARE = 0.1

#: During a shard {"table": (W, K) int32}, whose contents are on the device, or the fields of `WordCounts`.
Counts = dict[str, np.ndarray]


def add_words(
    word_ids: np.ndarray,
    word_ptr: np.ndarray,
    z: np.ndarray,
    words: tuple[int, int],
    n_topics: int,
    before: Counts | None,
) -> Counts:
    """Add a chunk's counts of the words ``words[0] <= v < words[1]`` to those of the shard's chunks before.

    Arguments are those of the CPU function. Pass the result to `finish_words` after the shard's last chunk. Raises
    DeviceError.
    """
    n_words = words[1] - words[0]
    if n_words > _most_words(n_topics):
        # A device counts word after word, and needs no groups.
        chunk = ChunkTopics(np.zeros(0, np.int64), word_ids, word_ptr, z)
        counts = _count_in_parts([chunk], words, n_topics)
        if before is not None:
            counts = merge_counts(WordCounts(**before), counts)
        return counts._asdict()
    if before is None:
        before = {"table": leave_on_device(_new_table(n_words, n_topics), "B.table")}
    _add(_word_tokens(word_ids, word_ptr, z, words), resident(before["table"], "B.table"))
    return before


def finish_words(counts: Counts) -> Counts:
    """Return the fields of `WordCounts` for the counts of a whole shard, which stay on the device. Raises DeviceError.

    The host has ``row_ptr`` as well.
    """
    if "table" not in counts:
        return counts
    return _left_on_device(resident(counts["table"], "B.table"))._asdict()


def count_chunks(chunks: Sequence[ChunkTopics], words: tuple[int, int], n_topics: int) -> WordCounts:
    """Return the topic counts of the words ``words[0] <= v < words[1]`` in some chunks, as the CPU function does.

    They stay on the device if their table fits. Raises DeviceError.
    """
    if words[1] - words[0] > _most_words(n_topics):
        return _count_in_parts(chunks, words, n_topics)
    return _left_on_device(_table_of(chunks, words, n_topics))


def merge_many(tables: Sequence[WordCounts], n_topics: int) -> WordCounts:
    """Add tables of the same words, as the CPU function does: on the device if one of them is there, and the sum fits.

    Raises DeviceError.
    """
    n_words = len(tables[0].row_ptr) - 1
    if len(tables) == 1 or not any(RESIDENTS.find(table.topics) is not None for table in tables):
        return cpu.merge_many(tables, n_topics)
    if n_words > _most_words(n_topics):
        RESIDENTS.bring_back(array for table in tables for array in table)
        return cpu.merge_many(tables, n_topics)
    total = _new_table(n_words, n_topics)
    for table in tables:
        # A launch of zero blocks is an error.
        if len(table.topics):
            arrays = cached_copy(table.row_ptr, "B.row_ptr"), readable(table.topics, "B"), readable(table.counts, "B")
            launch(_add_rows, min(BLOCKS, n_words), WARP, *arrays, total)
    return _left_on_device(total)


def _most_words(n_topics: int) -> int:
    """Return how many words a table may have."""
    return int(TABLE_SHARE * device_memory() / (4 * n_topics))


def _count_in_parts(chunks: Sequence[ChunkTopics], words: tuple[int, int], n_topics: int) -> WordCounts:
    """Count the topics of some words, as many at a time as fit a table."""
    size = max(1, _most_words(n_topics))
    row_ptr = [np.zeros(1, np.int64)]
    topics = []
    counts = []
    for first in range(words[0], words[1], size):
        found = _on_host(_table_of(chunks, (first, min(first + size, words[1])), n_topics))
        row_ptr.append(row_ptr[-1][-1] + found.row_ptr[1:])
        topics.append(found.topics)
        counts.append(found.counts)
    return WordCounts(np.concatenate(row_ptr), np.concatenate(topics), np.concatenate(counts))


def _table_of(chunks: Sequence[ChunkTopics], words: tuple[int, int], n_topics: int) -> DeviceArray:
    """Return the table of some words in some chunks."""
    table = _new_table(words[1] - words[0], n_topics)
    for chunk in chunks:
        _add(_word_tokens(chunk.word_ids, chunk.word_ptr, chunk.z, words), table)
    return table


def _new_table(n_words: int, n_topics: int) -> DeviceArray:
    """Return a table of zeros."""
    table = allocate((n_words, n_topics), np.int32, "B.table")
    clear(table)
    return table


def _compressed(table: DeviceArray) -> tuple[np.ndarray, DeviceArray, DeviceArray]:
    """Return the counts of a table that are not zero: row_ptr on the host, topics and counts on the device."""
    n_words = len(table)
    lengths = workspace("B.lengths", n_words, np.int64)
    if n_words:
        launch(_count_entries, min(BLOCKS, n_words), WARP, table, lengths)
    row_ptr = np.r_[0, np.cumsum(download(lengths, "B.lengths"))]
    topics = allocate(row_ptr[-1], np.uint16, "B.topics")
    counts = allocate(row_ptr[-1], np.int32, "B.counts")
    if n_words:
        launch(_write_entries, min(BLOCKS, n_words), WARP, table, cached_copy(row_ptr, "B.row_ptr"), topics, counts)
    return row_ptr, topics, counts


def _left_on_device(table: DeviceArray) -> WordCounts:
    row_ptr, topics, counts = _compressed(table)
    return WordCounts(row_ptr, leave_on_device(topics, "B.topics"), leave_on_device(counts, "B.counts"))


def _on_host(table: DeviceArray) -> WordCounts:
    row_ptr, topics, counts = _compressed(table)
    return WordCounts(row_ptr, download(topics, "B.topics"), download(counts, "B.counts"))


class WordTokens(NamedTuple):
    """What counting by word reads, on the device."""

    longest_first: DeviceArray  # (n,) int64: the words that occur in the chunk, those with the most tokens first
    heads: DeviceArray  # (W + 1,) int64: where each word's segments begin in ``segments``
    segments: DeviceArray  # (S,) int64
    word_ptr: DeviceArray  # (S + 1,) int64
    z: DeviceArray  # (T,) uint16
    n_frequent: int  # words of ``longest_first`` that have more than `RARE` tokens


def _word_tokens(word_ids: np.ndarray, word_ptr: np.ndarray, z: np.ndarray, words: tuple[int, int]) -> WordTokens:
    """Return what counting the words ``words[0] <= v < words[1]`` reads, on the device."""
    order = word_order(word_ids, word_ptr)
    heads = _word_heads(word_ids, word_ptr, words)
    longest_first, n_frequent = derived(heads, ("longest first", RARE), lambda: _longest_first(order, heads))
    return WordTokens(
        longest_first=cached_copy(longest_first, "B.longest_first"),
        heads=cached_copy(heads, "B.heads"),
        segments=cached_copy(order.segments, "word order.segments"),
        word_ptr=cached_copy(word_ptr, "word_ptr"),
        z=cached_copy(z, "topics"),
        n_frequent=n_frequent,
    )


def _word_heads(word_ids: np.ndarray, word_ptr: np.ndarray, words: tuple[int, int]) -> np.ndarray:
    """Return ``heads`` of `WordTokens`. The same array again while the chunk lives."""

    def compute() -> np.ndarray:
        order = word_order(word_ids, word_ptr)
        return np.searchsorted(order.words, np.arange(words[0], words[1] + 1)).astype(np.int64)

    return derived((word_ids, word_ptr), ("heads of B", words), compute)


def _longest_first(order: WordOrder, heads: np.ndarray) -> tuple[np.ndarray, int]:
    """Return ``longest_first`` and ``n_frequent`` of `WordTokens`."""
    tokens = np.diff(order.before[heads])
    longest_first = np.argsort(-tokens, kind="stable")[: np.count_nonzero(tokens)].astype(np.int64)
    return longest_first, int(np.count_nonzero(tokens > RARE))


def _add(tokens: WordTokens, table: DeviceArray) -> None:
    """Add a chunk's counts to a table (words, K) int32: frequent words by blocks, and rare ones by warps."""
    n_rare = len(tokens.longest_first) - tokens.n_frequent
    # A launch of zero blocks is an error.
    if tokens.n_frequent:
        nbytes = 4 * table.shape[1]
        in_shared_memory = nbytes <= SHARED_BYTES
        launch(
            _ADD_WORDS[in_shared_memory],
            min(BLOCKS, tokens.n_frequent),
            THREADS,
            tokens,
            zeros("cursor", 1, np.int64),
            table,
            shared=nbytes if in_shared_memory else 0,
        )
    if n_rare:
        launch(_add_rare_words, min(BLOCKS, -(-n_rare * WARP // THREADS)), THREADS, tokens, table)


def _make_add_words(in_shared_memory: bool) -> Compiled:
    """Return the kernel that counts one frequent word after another in each block, until none is left.

    A block has a word alone. With few topics it counts in shared memory, and then adds the counts to the word's row.
    """

    @kernel
    def add_words(tokens: WordTokens, cursor: DeviceArray, table: DeviceArray) -> None:
        thread = cuda.threadIdx.x
        threads = cuda.blockDim.x
        n_topics = table.shape[1]
        taken = cuda.shared.array(1, int32)
        shared = cuda.shared.array(0, int32)
        if in_shared_memory:
            for k in range(thread, n_topics, threads):
                shared[k] = 0
        while True:
            if thread == 0:
                taken[0] = cuda.atomic.add(cursor, 0, 1)
            # The word's number is written, and `shared` is clear.
            cuda.syncthreads()
            if taken[0] >= tokens.n_frequent:
                return
            v = tokens.longest_first[taken[0]]
            row = table[v]
            shift = 0
            for h in range(tokens.heads[v], tokens.heads[v + 1]):
                segment = tokens.segments[h]
                start = tokens.word_ptr[segment]
                end = tokens.word_ptr[segment + 1]
                # Segments are often shorter than the block. Each one begins at the thread at which the last one ended,
                # so that all threads have work.
                for i in range(start + (thread - shift) % threads, end, threads):
                    if in_shared_memory:
                        cuda.atomic.add(shared, tokens.z[i], 1)
                    else:
                        cuda.atomic.add(row, tokens.z[i], 1)
                shift = (shift + end - start) % threads
            # All tokens are counted, and every thread has read the word's number.
            cuda.syncthreads()
            if in_shared_memory:
                for k in range(thread, n_topics, threads):
                    if shared[k]:
                        row[k] += shared[k]
                        shared[k] = 0

    return add_words


@kernel
def _add_rare_words(tokens: WordTokens, table: DeviceArray) -> None:
    """Count one rare word after another in each warp: one atomic addition per token."""
    lane = cuda.threadIdx.x % WARP
    first = tokens.n_frequent + cuda.grid(1) // WARP
    for number in range(first, len(tokens.longest_first), cuda.gridsize(1) // WARP):
        v = tokens.longest_first[number]
        row = table[v]
        for h in range(tokens.heads[v], tokens.heads[v + 1]):
            segment = tokens.segments[h]
            for i in range(tokens.word_ptr[segment] + lane, tokens.word_ptr[segment + 1], WARP):
                cuda.atomic.add(row, tokens.z[i], 1)


@kernel
def _add_rows(row_ptr: DeviceArray, topics: DeviceArray, counts: DeviceArray, table: DeviceArray) -> None:
    """Add sparse rows to those of a table, one after another in each block, which is one warp.

    A topic occurs once in a row, so no two lanes add to the same place.
    """
    for v in range(cuda.blockIdx.x, len(table), cuda.gridDim.x):
        for j in range(row_ptr[v] + cuda.threadIdx.x, row_ptr[v + 1], cuda.blockDim.x):
            table[v, topics[j]] += counts[j]


@kernel
def _count_entries(table: DeviceArray, lengths: DeviceArray) -> None:
    """Count the topics that occur in one row after another. A block is one warp."""
    lane = cuda.threadIdx.x
    for v in range(cuda.blockIdx.x, len(table), cuda.gridDim.x):
        found = 0
        for j in range(0, table.shape[1], WARP):
            k = j + lane
            found += cuda.popc(ballot(k < table.shape[1] and table[v, k] > 0))
        if lane == 0:
            lengths[v] = found


@kernel
def _write_entries(table: DeviceArray, row_ptr: DeviceArray, topics: DeviceArray, counts: DeviceArray) -> None:
    """Write the topics that occur in one row after another, ascending. A block is one warp."""
    lane = cuda.threadIdx.x
    for v in range(cuda.blockIdx.x, len(table), cuda.gridDim.x):
        end = row_ptr[v]
        for j in range(0, table.shape[1], WARP):
            k = j + lane
            found = table[v, k] if k < table.shape[1] else 0
            # A lane's place is the number of lanes before it that found a topic.
            votes = ballot(found > 0)
            if found > 0:
                place = end + cuda.popc(votes & ((1 << lane) - 1))
                topics[place] = k
                counts[place] = found
            end += cuda.popc(votes)


_ADD_WORDS = {where: _make_add_words(where) for where in (True, False)}
