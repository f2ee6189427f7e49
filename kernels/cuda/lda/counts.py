"""Counting topics on a CUDA device: rows of A by shuffle and segmented count, rows of B by word.

Source: SaberLDA (Li et al., ASPLOS 2017), section 3.3. Where the paper sorts a document's topics, a token here asks a
table of all topics whether it is the first of its topic: two atomic operations a token, and rows in the order of the
CPU's. The table lies in shared memory while it is small, else in device memory, whose cache holds it.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, int32

from ...lda.counts import MAX_COUNT, PADDING, SIXTEEN, WordCounts
from ..jit import device, kernel, launch
from ..memory import derived, fetched, filled, resident, reused
from ..warp import FULL, WARP

#: Lanes of the CPU's line: rows of A end at a multiple.
LANES = 8
#: Blocks a launch.
BLOCKS = 2048
#: Threads that count a word.
THREADS = 256
#: Bytes of a table in shared memory, at most: more would leave multiprocessors idle.
TABLE = 8 << 10
LOW = np.uint32(MAX_COUNT)


class Rows(NamedTuple):
    """Rows of A in places of fixed size: entries ``row_ptr[d] : row_ptr[d] + lengths[d]`` are document d's."""

    row_ptr: Any  # (D + 1,) int64, multiples of 32 entries: 128 bytes
    lengths: Any  # (D,) int32, multiples of 8: entries of count zero fill the last line
    entries: Any  # (row_ptr[-1],) uint32: topic << 16 | count
    dense: Any  # (D * K,) float32, K a multiple of 8: A_dk + α_k; or nothing


class WordOrder(NamedTuple):
    """A chunk's segments in order of words, and how many tokens lie before each."""

    words: np.ndarray  # (S,) uint32, ascending
    segments: np.ndarray  # (S,) int64
    before: np.ndarray  # (S + 1,) int64


def word_order(word_ids: np.ndarray, word_ptr: np.ndarray) -> WordOrder:
    """Order a chunk's segments, (S,) uint32 words and (S + 1,) int64 pointers, by word."""

    def make() -> WordOrder:
        segments = np.argsort(word_ids, kind="stable")
        before = np.r_[0, np.cumsum(np.diff(word_ptr)[segments])].astype(np.int64)
        return WordOrder(word_ids[segments], segments.astype(np.int64), before)

    return derived(word_ids, "order", make)


# --- by document ---


def count_documents(
    doc_ptr: np.ndarray, word_to_doc_order: np.ndarray, z: np.ndarray, n_topics: int
) -> tuple[Rows, int]:
    """Count topics by document, in the order of their first tokens: rows on the device, and how many entries.

    ``doc_ptr`` (D + 1,) int64, ``word_to_doc_order`` (T,) uint32, ``z`` (T,) uint16 in word order. Raises ValueError
    for a document longer than 65,535 tokens.
    """
    longest = int(np.diff(doc_ptr).max(initial=0))
    if longest > MAX_COUNT:
        raise ValueError(f"a document has {longest:,} tokens, on a device at most {MAX_COUNT:,}: choose device 'cpu'")
    row_ptr, n_documents = derived(doc_ptr, n_topics, lambda: row_places(doc_ptr, n_topics)), len(doc_ptr) - 1
    rows = Rows(
        resident(row_ptr),
        reused("lengths", n_documents, np.int32),
        reused("entries", row_ptr[-1], np.uint32),
        reused("none", 0, np.float32),
    )
    entries = filled(np.zeros(1, np.int64))
    if len(z):
        shuffled = reused("shuffled", len(z), np.uint16)
        launch(
            _shuffle, min(BLOCKS, -(-len(z) // THREADS)), THREADS, resident(word_to_doc_order), resident(z), shuffled
        )
        blocks = min(BLOCKS, n_documents)
        shared = 8 * n_topics if 8 * n_topics <= TABLE else 0
        tables = reused("tables", (blocks, 1 if shared else 2 * n_topics), np.int32)
        launch(_count, blocks, WARP, resident(doc_ptr), shuffled, tables, 2 * n_topics, rows, entries, shared=shared)
    return rows, int(fetched(entries)[0])


def row_places(doc_ptr: np.ndarray, n_topics: int) -> np.ndarray:
    """Return where rows of A begin, (D + 1,) int64: a document has no more topics than tokens, and no more than K."""
    lengths = np.minimum(np.diff(doc_ptr), n_topics)
    return np.r_[0, np.cumsum(-(-lengths // WARP) * WARP)].astype(np.int64)


@kernel
def _shuffle(word_to_doc_order, z, shuffled):
    for i in range(cuda.grid(1), len(z), cuda.gridsize(1)):
        shuffled[word_to_doc_order[i]] = z[i]


@kernel
def _count(doc_ptr, z, tables, size, rows, entries):
    """Count a document a warp, which is the whole block."""
    lane = cuda.threadIdx.x
    both = cuda.shared.array(0, int32) if tables.shape[1] < size else tables[cuda.blockIdx.x]
    count, first = both[: size // 2], both[size // 2 : size]
    for k in range(lane, size // 2, WARP):
        count[k] = 0
        first[k] = MAX_COUNT
    cuda.syncwarp()
    for d in range(cuda.blockIdx.x, len(doc_ptr) - 1, cuda.gridDim.x):
        start, n = doc_ptr[d], doc_ptr[d + 1] - doc_ptr[d]
        for i in range(lane, n, WARP):
            cuda.atomic.add(count, z[start + i], 1)
            cuda.atomic.min(first, z[start + i], i)
        cuda.syncwarp()
        end = _write_row(rows, rows.row_ptr[d], z, start, n, count, first, lane)
        cuda.syncwarp()
        for i in range(lane, n, WARP):
            count[z[start + i]] = 0
            first[z[start + i]] = MAX_COUNT
        if lane == 0:
            rows.lengths[d] = end
            cuda.atomic.add(entries, 0, end)
        cuda.syncwarp()


@device
def _write_row(rows, head, z, start, n, count, first, lane):
    """Write an entry for each token that is the first of its topic, fill the last eight, return the row's length."""
    end = 0
    for j in range(0, n, WARP):
        i = j + lane
        k = np.int64(z[start + i]) if i < n else 0
        leads = i < n and first[k] == i
        votes = cuda.ballot_sync(FULL, leads)
        if leads:
            entry = np.uint32(k) << SIXTEEN | np.uint32(count[k])
            rows.entries[head + end + cuda.popc(votes & ((1 << lane) - 1))] = entry
        end += cuda.popc(votes)
    behind = (end + LANES - 1) // LANES * LANES
    if end + lane < behind:
        rows.entries[head + end + lane] = PADDING
    return behind


def dense_rows(rows: Rows, alpha: Any, n_topics: int) -> Rows:
    """Return rows that also hold A_dk + α_k of all topics; ``alpha`` (K,) float32 on the device."""
    n_documents = len(rows.lengths)
    width = -(-n_topics // LANES) * LANES
    dense = reused("dense", n_documents * width, np.float32)
    launch(_make_dense, min(BLOCKS, n_documents), WARP, rows, alpha, width, dense)
    return rows._replace(dense=dense)


@kernel
def _make_dense(rows, alpha, width, dense):
    lane = cuda.threadIdx.x
    for d in range(cuda.blockIdx.x, len(rows.lengths), cuda.gridDim.x):
        for k in range(lane, width, WARP):
            dense[d * width + k] = alpha[k] if k < len(alpha) else np.float32(0)
        cuda.syncwarp()
        for j in range(rows.row_ptr[d] + lane, rows.row_ptr[d] + rows.lengths[d], WARP):
            count = rows.entries[j] & LOW
            if count:
                topic = np.int64(rows.entries[j] >> SIXTEEN)
                dense[d * width + topic] = np.float64(alpha[topic]) + np.float64(count)


# --- by word ---


def count_words(
    word_ids: np.ndarray, word_ptr: np.ndarray, z: np.ndarray, words: tuple[int, int], n_topics: int
) -> WordCounts:
    """Count the topics of words ``words[0] <= v < words[1]`` over all segments of a chunk: kernels/lda.py's table.

    ``word_ids`` (S,) uint32, ``word_ptr`` (S + 1,) int64, ``z`` (T,) uint16 in word order.
    """
    order = word_order(word_ids, word_ptr)
    places, heads, longest = derived(word_ids, (words, n_topics), lambda: _word_places(order, words, n_topics))
    n_words = words[1] - words[0]
    if not places[-1]:
        return WordCounts(np.zeros(n_words + 1, np.int64), np.empty(0, np.uint16), np.empty(0, np.int32))
    topics, counts = reused("topics", places[-1], np.uint16), reused("counts", places[-1], np.int32)
    lengths = filled(np.zeros(n_words, np.int64))
    tokens = resident(longest), resident(heads), resident(order.segments), resident(word_ptr), resident(z)
    blocks = min(BLOCKS, len(longest))
    shared = 4 * n_topics if 4 * n_topics <= TABLE else 0
    tables = reused("word tables", (blocks, 1 if shared else n_topics), np.int32)
    written = resident(places), topics, counts, lengths
    cursor = filled(np.zeros(1, np.int64))
    launch(_count_words, blocks, THREADS, tokens, tables, n_topics, cursor, written, shared=shared)
    row_ptr = np.r_[0, np.cumsum(fetched(lengths))]
    tight = reused("tight topics", row_ptr[-1], np.uint16), reused("tight counts", row_ptr[-1], np.int32)
    launch(_tighten, min(BLOCKS, n_words), WARP, filled(row_ptr), *written[:3], *tight)
    return WordCounts(row_ptr, fetched(tight[0]), fetched(tight[1]))


def _word_places(order: WordOrder, words: tuple[int, int], n_topics: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where a word's entries have room, its segments in the order, and the words that occur, longest first."""
    heads = np.searchsorted(order.words, np.arange(words[0], words[1] + 1)).astype(np.int64)
    tokens = np.diff(order.before[heads])
    places = np.r_[0, np.cumsum(np.minimum(tokens, n_topics))]
    longest = np.argsort(-tokens, kind="stable")[: np.count_nonzero(tokens)]
    return places, heads, longest.astype(np.int64)


@kernel
def _count_words(tokens, tables, n_topics, cursor, written):
    """Count a word a block; topics ascend."""
    longest, heads, segments, word_ptr, z = tokens
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    count = cuda.shared.array(0, int32) if tables.shape[1] < n_topics else tables[cuda.blockIdx.x]
    taken = cuda.shared.array(2, int32)
    for k in range(thread, n_topics, threads):
        count[k] = 0
    while True:
        cuda.syncthreads()
        if thread == 0:
            taken[0] = cuda.atomic.add(cursor, 0, 1)
        cuda.syncthreads()
        if taken[0] >= len(longest):
            return
        v = longest[taken[0]]
        turn = 0
        for h in range(heads[v], heads[v + 1]):
            start, end = word_ptr[segments[h]], word_ptr[segments[h] + 1]
            # Short segments begin with different threads, so that all have work.
            for i in range(start + (thread - turn) % threads, end, threads):
                cuda.atomic.add(count, z[i], 1)
            turn = (turn + end - start) % threads
        cuda.syncthreads()
        if thread < WARP:
            _write_word(v, n_topics, count, written, thread)


@device
def _write_word(v, n_topics, count, written, lane):
    """Write the topics that occur and clear their counts; one warp does."""
    places, topics, counts, lengths = written
    end = 0
    for j in range(0, n_topics, WARP):
        k = j + lane
        found = count[k] if k < n_topics else 0
        votes = cuda.ballot_sync(FULL, found > 0)
        if found > 0:
            place = places[v] + end + cuda.popc(votes & ((1 << lane) - 1))
            topics[place] = k
            counts[place] = found
            count[k] = 0
        end += cuda.popc(votes)
    if lane == 0:
        lengths[v] = end


@kernel
def _tighten(row_ptr, places, topics, counts, tight_topics, tight_counts):
    """Leave out the room that words did not need."""
    for v in range(cuda.blockIdx.x, len(row_ptr) - 1, cuda.gridDim.x):
        for j in range(cuda.threadIdx.x, row_ptr[v + 1] - row_ptr[v], WARP):
            tight_topics[row_ptr[v] + j] = topics[places[v] + j]
            tight_counts[row_ptr[v] + j] = counts[places[v] + j]
