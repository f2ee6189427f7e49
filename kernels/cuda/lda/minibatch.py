"""AGA-LDA on a CUDA device: mini-batches of documents, one thread block per panel of words.

Source: Moon's dissertation (2019), section 2.5, Algorithms 8 to 12. Each mini-batch takes three launches:

1. `_document_factors`, one block per document: DNT = (A_dk + α_k) / (N_k + Vβ), which all tokens of a document share.
2. `_draw`, one block per panel, that is a range of words: the rows of B of these words lie in shared memory. Each
   thread draws tokens. A panel's tokens are in order of documents (the paper's segmented CSR), so that threads side by
   side read the same row of DNT. A draw adds up the products twice instead of storing them: first for the total, then
   up to the product that holds the random number.
3. `_update`, one thread per token: A and N follow the topics that changed.

The paper changes B and N while it draws. Here atomic operations change B when the panel is done, and N when the
mini-batch is done. So topics do not depend on which thread comes first. They equal those of `minibatch` on the CPU,
except where a draw lies so close to the boundary between two topics that the rounding of sums decides. The paper leaves
the token in DNT; here it is left out of A, B and N.

Tests against the CPU's topics: tests/kernels/cuda/lda/test_minibatch.py.
Reference implementation: tests/helpers/naive.py, `lda_minibatch`.
"""

from typing import NamedTuple

import numpy as np
from numba import cuda, int32

from ...lda.minibatch import CountTables, Tokens
from ..arrays import DeviceArray
from ..jit import device, kernel
from ..launch import launch, shared_memory_limit, stream
from ..memory import cached_copies, cached_copy, derived, download, on_device, upload, workspace, zeros
from ..random import uniform64

#: Threads per block.
THREADS = 256
#: Blocks of the launch that updates A and N.
BLOCKS = 1024
#: Bytes of a panel, at most: so that several blocks fit the shared memory of a multiprocessor.
PANEL_BYTES = 64 << 10


class Tiles(NamedTuple):
    """The tokens of each mini-batch and panel.

    Tile ``batch * n_panels + panel`` has the tokens ``order[ptr[tile]:ptr[tile + 1]]``.
    """

    order: np.ndarray  # (T,) int64: tokens by their index in word order
    ptr: np.ndarray  # (batches * n_panels + 1,) int64


class Topics(NamedTuple):
    """Topics by index in word order, (T,) uint16."""

    old: DeviceArray
    drawn: DeviceArray


def minibatch(
    tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64, doc_ptr: np.ndarray, documents: int
) -> None:
    """Draw ``z`` (T,) uint16 in mini-batches of ``documents`` documents. The tables do not change.

    The topics are those of the CPU except for rounding; see the top of this file. Raises ValueError if not even one
    word's row fits a block's shared memory, and DeviceError.
    """
    n_topics = len(tables.alpha)
    n_documents = len(doc_ptr) - 1
    row_bytes = 4 * _stride(n_topics)
    # A panel is a range of words whose rows of B fit the shared memory of a block.
    panel_words = min(PANEL_BYTES, shared_memory_limit()) // row_bytes
    if not panel_words:
        raise ValueError(f"{n_topics:,} topics do not fit a block's shared memory: choose sampler 'esca'")
    n_panels = -(-len(tables.B) // panel_words)
    host_tiles = derived(
        (tokens.word_to_doc_order, doc_ptr),
        ("tiles", panel_words, documents),
        lambda: make_tiles(tokens, doc_ptr, documents, panel_words, n_panels),
    )
    copies = cached_copies(tokens, "tokens")
    # Two copies: the tables are updated after a mini-batch, from its old and its new topics.
    topics = Topics(upload(z, "topics"), workspace("drawn topics", z.shape, z.dtype))
    topics.drawn.copy_to_device(topics.old, stream=stream())
    A = zeros("A", tables.A.shape, np.int32)
    launch(_count_documents, BLOCKS, THREADS, copies, topics.old, A)
    counts = on_device(
        tables,
        A=A,
        B=upload(tables.B, "B"),
        N=upload(tables.N, "N"),
        alpha=cached_copy(tables.alpha, "alpha"),
    )
    tiles = cached_copies(host_tiles, "tiles")
    # Shared by all batches, so it has the documents of one batch only.
    factors = workspace("document factors", (documents, n_topics), np.float32)
    for batch, first in enumerate(range(0, n_documents, documents)):
        last = min(first + documents, n_documents)
        first_tile = batch * n_panels
        launch(_document_factors, last - first, THREADS, first, counts, factors)
        launch(
            _draw,
            n_panels,
            THREADS,
            (copies, counts),
            factors,
            first,
            first_tile,
            tiles,
            topics,
            panel_words,
            np.uint64(key),
            shared=row_bytes * panel_words,
        )
        launch(_update, BLOCKS, THREADS, (copies, counts), tiles, first_tile, first_tile + n_panels, topics)
    z[:] = download(topics.drawn, "topics")


def _stride(n_topics: int) -> int:
    """Return the distance of a panel's rows, an odd number of integers.

    Threads that read the same topic of different words then use different banks of shared memory.
    """
    return n_topics | 1


def make_tiles(tokens: Tokens, doc_ptr: np.ndarray, documents: int, panel_words: int, n_panels: int) -> Tiles:
    """Order tokens by (mini-batch, panel), then by document, for panels of ``panel_words`` words."""
    in_documents = np.argsort(tokens.word_to_doc_order)
    tile = (tokens.docs // documents).astype(np.int64) * n_panels + tokens.words // panel_words
    order = in_documents[np.argsort(tile[in_documents], kind="stable")]
    batches = -(-(len(doc_ptr) - 1) // documents)
    ptr = np.searchsorted(tile[order], np.arange(batches * n_panels + 1)).astype(np.int64)
    return Tiles(order, ptr)


@kernel
def _count_documents(tokens: Tokens, z: DeviceArray, A: DeviceArray) -> None:
    """Count the topics of each document in A (D, K), which is zero. They take less time than a copy of A would."""
    for i in range(cuda.grid(1), len(z), cuda.gridsize(1)):
        cuda.atomic.add(A, (np.int64(tokens.docs[i]), np.int64(z[i])), 1)


@kernel
def _document_factors(first: int, tables: CountTables, factors: DeviceArray) -> None:
    """Compute DNT, (documents, K) float32, of the mini-batch that begins with document ``first``; Algorithm 12."""
    d = cuda.blockIdx.x
    mass = np.float32(tables.mass)
    for k in range(cuda.threadIdx.x, len(tables.alpha), cuda.blockDim.x):
        factors[d, k] = (np.float32(tables.A[first + d, k]) + tables.alpha[k]) / (np.float32(tables.N[k]) + mass)


@kernel
def _draw(
    state: tuple[Tokens, CountTables],
    factors: DeviceArray,
    first: int,
    first_tile: int,
    tiles: Tiles,
    topics: Topics,
    panel_words: int,
    key: np.uint64,
) -> None:
    """Draw the tokens of one panel in each block; Algorithm 10."""
    tokens, tables = state
    n_topics = len(tables.alpha)
    stride = n_topics | 1
    tile = first_tile + cuda.blockIdx.x
    start = tiles.ptr[tile]
    end = tiles.ptr[tile + 1]
    # All threads of the block return here, or none does. A barrier that some threads miss would hang.
    if start == end:
        return
    first_word = cuda.blockIdx.x * panel_words
    n_words = min(panel_words, len(tables.B) - first_word)
    panel = cuda.shared.array(0, int32)
    _copy_panel(tables.B, first_word, n_words, panel, True)
    cuda.syncthreads()
    for t in range(start + cuda.threadIdx.x, end, cuda.blockDim.x):
        i = tiles.order[t]
        d = np.int64(tokens.docs[i])
        head = (np.int64(tokens.words[i]) - first_word) * stride
        # The draw belongs to the token, not to the thread, so the result does not depend on the launch.
        u = uniform64(key, i)
        topics.drawn[i] = _draw_topic(tables, panel, head, d, factors[d - first], np.int64(topics.old[i]), u)
    cuda.syncthreads()
    for t in range(start + cuda.threadIdx.x, end, cuda.blockDim.x):
        i = tiles.order[t]
        head = (np.int64(tokens.words[i]) - first_word) * stride
        # Two tokens of the panel (a group of words) may have the same word and topic.
        cuda.atomic.sub(panel, head + np.int64(topics.old[i]), 1)
        cuda.atomic.add(panel, head + np.int64(topics.drawn[i]), 1)
    cuda.syncthreads()
    _copy_panel(tables.B, first_word, n_words, panel, False)


@device
def _copy_panel(B: DeviceArray, first_word: int, n_words: int, panel: DeviceArray, into_panel: bool) -> None:
    """Copy rows of B into shared memory or back. Neighbouring threads copy neighbouring numbers."""
    n_topics = B.shape[1]
    for place in range(cuda.threadIdx.x, n_words * n_topics, cuda.blockDim.x):
        w = place // n_topics
        k = place % n_topics
        if into_panel:
            panel[w * (n_topics | 1) + k] = B[first_word + w, k]
        else:
            B[first_word + w, k] = panel[w * (n_topics | 1) + k]


@device
def _draw_topic(
    tables: CountTables, panel: DeviceArray, head: int, d: int, factor: DeviceArray, old: int, u: float
) -> int:
    """Draw one token's topic: add up all products, then again up to the product that holds the random number.

    The word's row of B begins at ``panel[head]``; ``factor`` is the document's row of DNT.
    """
    n_topics = len(tables.alpha)
    beta = np.float32(tables.beta)
    # The product of the old topic without the token itself, in float64 as on the CPU.
    a = np.float64(tables.A[d, old] - 1)
    b = np.float64(panel[head + old] - 1)
    own = np.float32((a + tables.alpha[old]) * (b + tables.beta) / (np.float64(tables.N[old] - 1) + tables.mass))
    total = np.float32(0)
    for k in range(n_topics):
        total += own if k == old else (np.float32(panel[head + k]) + beta) * factor[k]
    x = u * np.float64(total)
    running = np.float32(0)
    for k in range(n_topics):
        running += own if k == old else (np.float32(panel[head + k]) + beta) * factor[k]
        if x < running:
            return k
    return n_topics - 1


@kernel
def _update(state: tuple[Tokens, CountTables], tiles: Tiles, first: int, last: int, topics: Topics) -> None:
    """Bring A and N up to date after a mini-batch, whose tiles are ``first <= tile < last``; Algorithm 11."""
    tokens, tables = state
    for t in range(tiles.ptr[first] + cuda.grid(1), tiles.ptr[last], cuda.gridsize(1)):
        i = tiles.order[t]
        old = np.int64(topics.old[i])
        drawn = np.int64(topics.drawn[i])
        # Late in training most topics stay, and this saves their four atomic additions.
        if old != drawn:
            d = np.int64(tokens.docs[i])
            cuda.atomic.sub(tables.A, (d, old), 1)
            cuda.atomic.add(tables.A, (d, drawn), 1)
            cuda.atomic.sub(tables.N, old, 1)
            cuda.atomic.add(tables.N, drawn, 1)
