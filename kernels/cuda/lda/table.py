"""The topic counts of a shard's words in a table on a CUDA device: rows of B with all K topics.

Each chunk of a shard adds its counts to the table, so that they are merged and copied to the host once per shard. At
the end, the rows are compressed into those of `WordCounts`, which the CPU would have counted.

If the table is too large for the device, each chunk's counts are compressed, copied and merged on the host instead.

Tested in the simulator and on a device against the CPU's arrays: tests/kernels/cuda/lda/test_table.py.
Reference implementation: tests/helpers/naive.py, `lda_counts`.
"""

import numpy as np
from numba import cuda, int32

from ...lda.counts import WordCounts, merge_counts
from ..arrays import Compiled, DeviceArray
from ..jit import kernel
from ..launch import launch
from ..memory import allocate, device_memory, download, leave_on_device, resident, upload, workspace
from ..warp import WARP, ballot
from .counts import BLOCKS, THREADS, WordTokens, count_words, fits_shared_memory, word_tokens

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
    if 4 * n_words * n_topics > TABLE_SHARE * device_memory():
        counts = count_words(word_ids, word_ptr, z, words, n_topics)
        if before is not None:
            counts = merge_counts(WordCounts(**before), counts)
        return counts._asdict()
    if before is None:
        table = allocate((n_words, n_topics), np.int32, "B.table")
        launch(_clear, min(BLOCKS, max(1, n_words)), THREADS, table)
        before = {"table": leave_on_device(table, "B.table")}
    _add(word_tokens(word_ids, word_ptr, z, words), resident(before["table"], "B.table"))
    return before


def finish_words(counts: Counts) -> Counts:
    """Return the fields of `WordCounts`, on the host, for the counts of a whole shard. Raises DeviceError."""
    if "table" not in counts:
        return counts
    table = resident(counts["table"], "B.table")
    n_words = len(table)
    if not n_words:
        return WordCounts(np.zeros(1, np.int64), np.empty(0, np.uint16), np.empty(0, np.int32))._asdict()
    lengths = workspace("B.lengths", n_words, np.int64)
    launch(_count_entries, min(BLOCKS, n_words), WARP, table, lengths)
    row_ptr = np.r_[0, np.cumsum(download(lengths, "B.lengths"))]
    topics = workspace("B.topics", row_ptr[-1], np.uint16)
    numbers = workspace("B.counts", row_ptr[-1], np.int32)
    launch(_write_entries, min(BLOCKS, n_words), WARP, table, upload(row_ptr, "B.row_ptr"), topics, numbers)
    return WordCounts(row_ptr, download(topics, "B.topics"), download(numbers, "B.counts"))._asdict()


def _add(tokens: WordTokens, table: DeviceArray) -> None:
    n_words = len(tokens.longest_first)
    # A launch of zero blocks is an error.
    if not n_words:
        return
    in_shared_memory = fits_shared_memory(table.shape[1])
    launch(
        _ADD_WORDS[in_shared_memory],
        min(BLOCKS, n_words),
        THREADS,
        tokens,
        upload(np.zeros(1, np.int64), "cursor"),
        table,
        shared=4 * table.shape[1] if in_shared_memory else 0,
    )


@kernel
def _clear(table: DeviceArray) -> None:
    """Clear one row after another in each block."""
    for v in range(cuda.blockIdx.x, len(table), cuda.gridDim.x):
        for k in range(cuda.threadIdx.x, table.shape[1], cuda.blockDim.x):
            table[v, k] = 0


def _make_add_words(in_shared_memory: bool) -> Compiled:
    """Return the kernel that counts one word after another in each block, until none is left.

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
            cuda.syncthreads()
            if thread == 0:
                taken[0] = cuda.atomic.add(cursor, 0, 1)
            cuda.syncthreads()
            if taken[0] >= len(tokens.longest_first):
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
            cuda.syncthreads()
            if in_shared_memory:
                for k in range(thread, n_topics, threads):
                    if shared[k]:
                        row[k] += shared[k]
                        shared[k] = 0

    return add_words


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
