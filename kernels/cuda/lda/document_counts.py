"""Counting topics by document on a CUDA device: rows of A, with the CPU's entries in its order.

Source: SaberLDA (Li et al., ASPLOS 2017), section 3.3, "shuffle and segmented count". Every count is an exact integer.

1. `_shuffle` brings the topics from word order into document order. One thread per token.
2. `count_documents` counts. A block is one warp and takes document after document. It has two tables of K integers:
   how many tokens have each topic, and which token is the first of its topic. The paper sorts a document's topics
   instead; here two atomic operations per token replace the sort, and the row's entries come in the order of their
   first tokens, as on the CPU.

A block's tables lie in shared memory if they take no more than `SHARED_TABLE_BYTES`, otherwise in device memory. More
shared memory per block would leave multiprocessors without enough active blocks.

Tested in the simulator and on a device against the CPU's arrays: tests/kernels/cuda/lda/test_esca.py.
Reference implementation: tests/helpers/naive.py, `lda_counts`.
"""

from typing import NamedTuple

import numpy as np
from numba import cuda, int32

from ...lda.counts import MAX_COUNT, PADDING, SIXTEEN
from ...simd.lanes import LANES
from ..arrays import Compiled, DeviceArray
from ..jit import device, kernel
from ..launch import launch
from ..memory import cached_copy, derived, download, upload, workspace
from ..warp import WARP, ballot

#: Blocks of a launch, at most. Each block takes several documents or words.
BLOCKS = 2048
#: Threads per block that shuffle, and that count a word.
THREADS = 256
#: Largest tables that lie in shared memory, in bytes per block.
SHARED_TABLE_BYTES = 8 << 10
#: Selects the count of a packed entry.
LOW = np.uint32(MAX_COUNT)


class DocumentRows(NamedTuple):
    """Rows of A on the device. Document d has the entries ``row_ptr[d] : row_ptr[d] + lengths[d]``.

    Unlike on the CPU, a row's place does not depend on how many topics the row has. So documents can be counted in any
    order, and gaps remain between the rows.
    """

    row_ptr: DeviceArray  # (D + 1,) int64, multiples of 32 entries, which are 128 bytes
    lengths: DeviceArray  # (D,) int32, multiples of 8: the last entries have count zero
    entries: DeviceArray  # (row_ptr[-1],) uint32: topic << 16 | count
    dense: DeviceArray  # (D * K,) float32, A_dk + α_k, K rounded up to a multiple of 8; or empty, see `add_dense_rows`


def count_documents(
    doc_ptr: np.ndarray, word_to_doc_order: np.ndarray, z: np.ndarray, n_topics: int
) -> tuple[DocumentRows, int]:
    """Count topics by document. Return the rows, on the device, and the number of their entries.

    ``doc_ptr`` (D + 1,) int64, ``word_to_doc_order`` (T,) uint32, ``z`` (T,) uint16 in word order. Raises ValueError
    for a document of more than 65,535 tokens.
    """
    longest = int(np.diff(doc_ptr).max(initial=0))
    if longest > MAX_COUNT:
        raise ValueError(f"a document has {longest:,} tokens, on a device at most {MAX_COUNT:,}: choose device 'cpu'")
    n_documents = len(doc_ptr) - 1
    row_ptr = derived(doc_ptr, ("rows of A", n_topics), lambda: make_row_ptr(doc_ptr, n_topics))
    rows = DocumentRows(
        row_ptr=cached_copy(row_ptr, "A.row_ptr"),
        lengths=workspace("A.lengths", n_documents, np.int32),
        entries=workspace("A.entries", row_ptr[-1], np.uint32),
        dense=workspace("A.none", 0, np.float32),
    )
    # All blocks add the lengths of their rows to this counter.
    n_entries = upload(np.zeros(1, np.int64), "A.n_entries")
    if len(z):
        shuffled = _shuffled_topics(word_to_doc_order, z)
        blocks = min(BLOCKS, n_documents)
        in_shared_memory = fits_shared_memory(2 * n_topics)
        launch(
            _COUNT_DOCUMENTS[in_shared_memory],
            blocks,
            WARP,
            cached_copy(doc_ptr, "doc_ptr"),
            shuffled,
            workspace("document tables", (blocks, 0 if in_shared_memory else 2 * n_topics), np.int32),
            n_topics,
            rows,
            n_entries,
            shared=8 * n_topics if in_shared_memory else 0,
        )
    return rows, int(download(n_entries, "A.n_entries")[0])


def make_row_ptr(doc_ptr: np.ndarray, n_topics: int) -> np.ndarray:
    """Return where rows of A begin, (D + 1,) int64. A row has at most one entry per token and one per topic."""
    longest = np.minimum(np.diff(doc_ptr), n_topics)
    aligned = -(-longest // WARP) * WARP
    return np.r_[0, np.cumsum(aligned)].astype(np.int64)


def _shuffled_topics(word_to_doc_order: np.ndarray, z: np.ndarray) -> DeviceArray:
    """Return the topics in document order, on the device."""
    shuffled = workspace("shuffled topics", len(z), np.uint16)
    order = cached_copy(word_to_doc_order, "word_to_doc_order")
    launch(_shuffle, min(BLOCKS, -(-len(z) // THREADS)), THREADS, order, cached_copy(z, "topics"), shuffled)
    return shuffled


def fits_shared_memory(table_size: int) -> bool:
    """Return whether a block's tables of ``table_size`` int32 lie in shared memory."""
    return 4 * table_size <= SHARED_TABLE_BYTES


@kernel
def _shuffle(word_to_doc_order: DeviceArray, z: DeviceArray, shuffled: DeviceArray) -> None:
    for i in range(cuda.grid(1), len(z), cuda.gridsize(1)):
        shuffled[word_to_doc_order[i]] = z[i]


def _make_count_documents(in_shared_memory: bool) -> Compiled:
    """Return the kernel that counts one document after another in each block, which is one warp.

    ``doc_ptr`` (D + 1,) int64, ``z`` (T,) uint16 in document order, ``tables`` (blocks, 2 * K) int32.
    """

    @kernel
    def count_documents(
        doc_ptr: DeviceArray,
        z: DeviceArray,
        tables: DeviceArray,
        n_topics: int,
        rows: DocumentRows,
        n_entries: DeviceArray,
    ) -> None:
        lane = cuda.threadIdx.x
        table = cuda.shared.array(0, int32) if in_shared_memory else tables[cuda.blockIdx.x]
        count = table[:n_topics]
        first = table[n_topics : 2 * n_topics]  # the first token of each topic, by its position in the document
        for k in range(lane, n_topics, WARP):
            count[k] = 0
            first[k] = MAX_COUNT
        cuda.syncwarp()
        for d in range(cuda.blockIdx.x, len(doc_ptr) - 1, cuda.gridDim.x):
            start = doc_ptr[d]
            n = doc_ptr[d + 1] - start
            for i in range(lane, n, WARP):
                cuda.atomic.add(count, z[start + i], 1)
                cuda.atomic.min(first, z[start + i], i)
            cuda.syncwarp()
            end = _write_document(rows, rows.row_ptr[d], z, start, n, count, first, lane)
            cuda.syncwarp()
            # Clear by the document's tokens: the tables are larger than most documents.
            for i in range(lane, n, WARP):
                count[z[start + i]] = 0
                first[z[start + i]] = MAX_COUNT
            if lane == 0:
                rows.lengths[d] = end
                cuda.atomic.add(n_entries, 0, end)
            cuda.syncwarp()

    return count_documents


@device
def _write_document(
    rows: DocumentRows, head: int, z: DeviceArray, start: int, n: int, count: DeviceArray, first: DeviceArray, lane: int
) -> int:
    """Write one entry for each token that is the first of its topic, pad the row, return its length."""
    end = 0
    for j in range(0, n, WARP):
        i = j + lane
        k = np.int64(z[start + i]) if i < n else 0
        is_first = i < n and first[k] == i
        votes = ballot(is_first)
        if is_first:
            # Lanes write next to each other: a lane's place is the number of votes of the lanes before it.
            place = head + end + cuda.popc(votes & ((1 << lane) - 1))
            rows.entries[place] = np.uint32(k) << SIXTEEN | np.uint32(count[k])
        end += cuda.popc(votes)
    padded_end = (end + LANES - 1) // LANES * LANES
    if end + lane < padded_end:
        rows.entries[head + end + lane] = PADDING
    return padded_end


def add_dense_rows(rows: DocumentRows, alpha: DeviceArray, n_topics: int) -> DocumentRows:
    """Return rows that also have A_dk + α_k of all topics; ``alpha`` (K,) float32 on the device."""
    n_documents = len(rows.lengths)
    width = -(-n_topics // LANES) * LANES
    dense = workspace("A.dense", n_documents * width, np.float32)
    launch(_make_dense, min(BLOCKS, n_documents), WARP, rows, alpha, width, dense)
    return rows._replace(dense=dense)


@kernel
def _make_dense(rows: DocumentRows, alpha: DeviceArray, width: int, dense: DeviceArray) -> None:
    """Fill one row after another in each block, which is one warp."""
    lane = cuda.threadIdx.x
    for d in range(cuda.blockIdx.x, len(rows.lengths), cuda.gridDim.x):
        for k in range(lane, width, WARP):
            # Columns after the last topic stay 0: they fill the row up to a multiple of eight.
            dense[d * width + k] = alpha[k] if k < len(alpha) else np.float32(0)
        cuda.syncwarp()
        for j in range(rows.row_ptr[d] + lane, rows.row_ptr[d] + rows.lengths[d], WARP):
            count = rows.entries[j] & LOW
            # Padding entries have count 0. Their topic is not valid.
            if count:
                topic = np.int64(rows.entries[j] >> SIXTEEN)
                dense[d * width + topic] = np.float64(alpha[topic]) + np.float64(count)


# Kernels by whether their tables lie in shared memory. Two kernels are faster than a test at run time: the compiler
# emits instructions for shared memory only where it can infer that an address lies there.
_COUNT_DOCUMENTS = {where: _make_count_documents(where) for where in (True, False)}
