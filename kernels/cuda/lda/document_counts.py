"""Counting topics by document on a CUDA device: rows of A, with the CPU's entries in its order.

Source: SaberLDA (Li et al., ASPLOS 2017), section 3.3, "shuffle and segmented count". Every count is an exact integer.

1. `_shuffle` brings the topics from word order into document order. One thread per token.
2. `count_documents` counts. A warp takes document after document, and has a hash table in shared memory for the topics
   of one document. The paper sorts a document's topics instead; with the table, a row's entries come in the order of
   their first tokens, as on the CPU.

A table has two to four slots per token, or one per topic if that is less. So the work, and the shared memory, depend on
the length of a document and not on the number of topics. Most documents have small tables, and a block has several
warps. The few long documents have a launch of their own, with one warp per block.

Tests against the CPU's arrays: tests/kernels/cuda/lda/test_esca.py.
Reference implementation: tests/helpers/naive.py, `lda_counts`.
"""

from typing import NamedTuple

import numpy as np
from numba import cuda, uint32

from ...lda.counts import MAX_COUNT, SIXTEEN
from ...simd.lanes import LANES
from ..arrays import Compiled, DeviceArray
from ..jit import device, kernel
from ..launch import launch, shared_memory_limit
from ..memory import cached_copies, cached_copy, derived, workspace, zeros
from ..warp import WARP, ballot, lanes_with

#: Blocks of a launch, at most. Each block takes several documents.
BLOCKS = 2048
#: Threads per block that shuffle.
THREADS = 256
#: Warps of a block that counts short documents, and the most slots of their tables: 4 KiB per warp, so that a
#: multiprocessor has enough shared memory for almost all the warps that can be active.
WARPS = 8
SHORT_SLOTS = 1 << 10
#: Selects the count of a packed entry.
LOW = np.uint32(MAX_COUNT)
#: A slot without a topic. No topic has 16 bits.
EMPTY = np.uint32(0xFFFFFFFF)
#: In place of a topic in lanes after a document's end.
NO_TOPIC = 1 << 16


class DocumentRows(NamedTuple):
    """Rows of A on the device. Document d has the entries ``row_ptr[d] : row_ptr[d] + lengths[d]``.

    Unlike on the CPU, a row's place does not depend on how many topics the row has. So documents can be counted in any
    order, and gaps remain between the rows.
    """

    row_ptr: DeviceArray  # (D + 1,) int64, multiples of 32 entries, which are 128 bytes
    lengths: DeviceArray  # (D,) int32, multiples of 8: the last entries may be 0, of count zero
    entries: DeviceArray  # (row_ptr[-1],) uint32: topic << 16 | count
    n_entries: DeviceArray  # (1,) int64: the sum of the lengths
    dense: DeviceArray  # (D * K,) float32, A_dk + α_k, K rounded up to a multiple of 8; or empty, see `add_dense_rows`


class Documents(NamedTuple):
    """The documents of a chunk that are counted by one launch, those with the largest tables first."""

    numbers: np.ndarray  # (n,) int64
    slots: np.ndarray  # (n,) int32: the size of each document's table, a power of two


def count_documents(doc_ptr: np.ndarray, word_to_doc_order: np.ndarray, z: np.ndarray, n_topics: int) -> DocumentRows:
    """Count topics by document, and return the rows. The host does not wait.

    ``doc_ptr`` (D + 1,) int64, ``word_to_doc_order`` (T,) uint32, ``z`` (T,) uint16 in word order. Raises ValueError
    for a document of more than 65,535 tokens.
    """
    longest = int(np.diff(doc_ptr).max(initial=0))
    if longest > MAX_COUNT:
        raise ValueError(f"a document has {longest:,} tokens, on a device at most {MAX_COUNT:,}: choose device 'cpu'")
    row_ptr = derived(doc_ptr, ("rows of A", n_topics), lambda: make_row_ptr(doc_ptr, n_topics))
    rows = DocumentRows(
        row_ptr=cached_copy(row_ptr, "A.row_ptr"),
        lengths=workspace("A.lengths", len(doc_ptr) - 1, np.int32),
        entries=workspace("A.entries", row_ptr[-1], np.uint32),
        n_entries=zeros("A.n_entries", 1, np.int64),
        dense=workspace("A.none", 0, np.float32),
    )
    if not len(z):
        return rows
    shuffled = _shuffled_topics(word_to_doc_order, z)
    short, long = derived(doc_ptr, ("documents", n_topics), lambda: by_table_size(doc_ptr, n_topics))
    for documents, warps in ((short, WARPS), (long, 1)):
        if len(documents.numbers):
            _count(documents, warps, doc_ptr, shuffled, rows)
    return rows


def make_row_ptr(doc_ptr: np.ndarray, n_topics: int) -> np.ndarray:
    """Return where rows of A begin, (D + 1,) int64. A row has at most one entry per token and one per topic."""
    longest = np.minimum(np.diff(doc_ptr), n_topics)
    aligned = -(-longest // WARP) * WARP
    return np.r_[0, np.cumsum(aligned)].astype(np.int64)


def entry_bounds(doc_ptr: np.ndarray, n_topics: int) -> tuple[int, int]:
    """Return the least and the largest number of entries that the rows of A can have, with their padding."""

    def compute() -> tuple[int, int]:
        tokens = np.diff(doc_ptr)
        longest = -(-np.minimum(tokens, n_topics) // LANES) * LANES
        return LANES * int(np.count_nonzero(tokens)), int(longest.sum())

    return derived(doc_ptr, ("bounds of A", n_topics), compute)


def by_table_size(doc_ptr: np.ndarray, n_topics: int) -> tuple[Documents, Documents]:
    """Return the short documents of a chunk and the long ones, by the size of their tables."""
    tokens = np.diff(doc_ptr)
    most = np.minimum(2 * tokens, n_topics)
    slots = (1 << np.ceil(np.log2(np.maximum(most, WARP))).astype(np.int64)).astype(np.int32)
    largest_first = np.argsort(-slots, kind="stable").astype(np.int64)
    n_long = np.count_nonzero(slots > SHORT_SLOTS)
    parts = (largest_first[n_long:], largest_first[:n_long])
    return Documents(parts[0], slots[parts[0]]), Documents(parts[1], slots[parts[1]])


def _shuffled_topics(word_to_doc_order: np.ndarray, z: np.ndarray) -> DeviceArray:
    """Return the topics in document order, on the device."""
    shuffled = workspace("shuffled topics", len(z), np.uint16)
    order = cached_copy(word_to_doc_order, "word_to_doc_order")
    launch(_shuffle, min(BLOCKS, -(-len(z) // THREADS)), THREADS, order, cached_copy(z, "topics"), shuffled)
    return shuffled


def _count(documents: Documents, warps: int, doc_ptr: np.ndarray, shuffled: DeviceArray, rows: DocumentRows) -> None:
    """Launch the count of some documents."""
    blocks = min(BLOCKS, -(-len(documents.numbers) // warps))
    slots = int(documents.slots[0])
    nbytes = 4 * slots * warps
    in_shared_memory = nbytes <= shared_memory_limit()
    launch(
        _COUNT_DOCUMENTS[in_shared_memory],
        blocks,
        warps * WARP,
        cached_copies(documents, "documents"),
        cached_copy(doc_ptr, "doc_ptr"),
        shuffled,
        slots,
        workspace("document tables", 0 if in_shared_memory else blocks * warps * slots, np.uint32),
        rows,
        shared=nbytes if in_shared_memory else 0,
    )


@kernel
def _shuffle(word_to_doc_order: DeviceArray, z: DeviceArray, shuffled: DeviceArray) -> None:
    """Write ``z`` (T,), in word order, to ``shuffled`` (T,), in document order. Reads are coalesced, writes are not."""
    for i in range(cuda.grid(1), len(z), cuda.gridsize(1)):
        shuffled[word_to_doc_order[i]] = z[i]


def _make_count_documents(in_shared_memory: bool) -> Compiled:
    """Return the kernel that counts one document after another in each warp.

    Its arguments: ``doc_ptr`` (D + 1,) int64; ``z`` (T,) uint16 in document order; ``most_slots``, those of the largest
    table of the launch, which is the distance of two warps' tables; ``rows``, which the kernel fills.

    Tables lie in device memory, ``tables``, only if a document is so long that its table does not fit the shared memory
    of a block.
    """

    @kernel
    def count_documents(
        documents: Documents,
        doc_ptr: DeviceArray,
        z: DeviceArray,
        most_slots: int,
        tables: DeviceArray,
        rows: DocumentRows,
    ) -> None:
        lane = cuda.threadIdx.x % WARP
        warps = cuda.blockDim.x // WARP
        warp = cuda.threadIdx.x // WARP
        n_entries = 0
        shared = cuda.shared.array(0, uint32)
        if in_shared_memory:
            whole = shared[warp * most_slots : (warp + 1) * most_slots]
        else:
            first = (cuda.blockIdx.x * warps + warp) * most_slots
            whole = tables[first : first + most_slots]
        for number in range(cuda.blockIdx.x * warps + warp, len(documents.numbers), cuda.gridDim.x * warps):
            d = documents.numbers[number]
            table = whole[: documents.slots[number]]
            for slot in range(lane, len(table), WARP):
                table[slot] = EMPTY
            cuda.syncwarp()
            start = doc_ptr[d]
            end = _list_topics(rows, rows.row_ptr[d], z, start, doc_ptr[d + 1] - start, table, lane)
            end = _write_counts(rows, rows.row_ptr[d], end, table, lane)
            n_entries += end
            if lane == 0:
                rows.lengths[d] = end
            cuda.syncwarp()
        if lane == 0:
            cuda.atomic.add(rows.n_entries, 0, n_entries)

    return count_documents


@device
def _list_topics(
    rows: DocumentRows, head: int, z: DeviceArray, start: int, n: int, table: DeviceArray, lane: int
) -> int:
    """Count a document's topics in its table, list them in the order of their first tokens, return how many there are.

    A warp reads 32 tokens at a time, in the document's order. The first lane of those with the same topic counts them.
    """
    end = 0
    for first in range(0, n, WARP):
        i = first + lane
        k = np.int64(z[start + i]) if i < n else NO_TOPIC
        same = lanes_with(k)
        is_new = False
        if i < n and same & ((np.uint32(1) << np.uint32(lane)) - np.uint32(1)) == 0:
            is_new = _add(table, np.uint32(k), np.uint32(cuda.popc(same)))
        votes = ballot(is_new)
        if is_new:
            # Lanes write next to each other: a lane's place is the number of votes of the lanes before it.
            place = head + end + cuda.popc(votes & ((1 << lane) - 1))
            rows.entries[place] = np.uint32(k)
        end += cuda.popc(votes)
        cuda.syncwarp()
    return end


@device
def _add(table: DeviceArray, k: np.uint32, n: np.uint32) -> bool:
    """Add ``n`` to the count of topic k, and return whether the topic is new in the table.

    A slot has topic << 16 | count. The search begins at the slot of the topic's lowest bits and goes on to the next
    slots. If there is a slot for every topic, it ends at once.
    """
    last = np.int64(len(table) - 1)
    slot = np.int64(k) & last
    while True:
        found = cuda.atomic.cas(table, slot, EMPTY, k << SIXTEEN | n)
        if found == EMPTY:
            return True
        if found >> SIXTEEN == k:
            # No other lane has this topic. But lanes with other topics may be comparing this slot.
            cuda.atomic.add(table, slot, n)
            return False
        slot = (slot + 1) & last


@device
def _write_counts(rows: DocumentRows, head: int, end: int, table: DeviceArray, lane: int) -> int:
    """Replace the listed topics by packed entries, pad the row, return its length."""
    last = np.int64(len(table) - 1)
    for j in range(lane, end, WARP):
        k = rows.entries[head + j]
        slot = np.int64(k) & last
        while table[slot] >> SIXTEEN != k:
            slot = (slot + 1) & last
        rows.entries[head + j] = table[slot]
    padded_end = (end + LANES - 1) // LANES * LANES
    if end + lane < padded_end:
        rows.entries[head + end + lane] = np.uint32(0)
    return padded_end


def add_dense_rows(rows: DocumentRows, alpha: DeviceArray, n_topics: int, most_sparse: int) -> DocumentRows:
    """Return rows that also have A_dk + α_k of all topics; ``alpha`` (K,) float32 on the device.

    If the rows have at most ``most_sparse`` entries, they are drawn from in sparse form, and the dense ones stay empty.
    """
    n_documents = len(rows.lengths)
    width = -(-n_topics // LANES) * LANES
    dense = workspace("A.dense", n_documents * width, np.float32)
    launch(_make_dense, min(BLOCKS, n_documents), WARP, rows, alpha, width, most_sparse, dense)
    return rows._replace(dense=dense)


@kernel
def _make_dense(rows: DocumentRows, alpha: DeviceArray, width: int, most_sparse: int, dense: DeviceArray) -> None:
    """Fill one row after another in each block, which is one warp."""
    if rows.n_entries[0] <= most_sparse:
        return
    lane = cuda.threadIdx.x
    for d in range(cuda.blockIdx.x, len(rows.lengths), cuda.gridDim.x):
        for k in range(lane, width, WARP):
            # Columns after the last topic stay 0: they fill the row up to a multiple of eight.
            dense[d * width + k] = alpha[k] if k < len(alpha) else np.float32(0)
        cuda.syncwarp()
        for j in range(rows.row_ptr[d] + lane, rows.row_ptr[d] + rows.lengths[d], WARP):
            count = rows.entries[j] & LOW
            # Padding entries have count 0.
            if count:
                topic = np.int64(rows.entries[j] >> SIXTEEN)
                dense[d * width + topic] = np.float64(alpha[topic]) + np.float64(count)


# Kernels by whether their tables lie in shared memory. Two kernels are faster than a test at run time: the compiler
# emits instructions for shared memory only where it can infer that an address lies there.
_COUNT_DOCUMENTS = {where: _make_count_documents(where) for where in (True, False)}
