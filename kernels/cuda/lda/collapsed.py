"""AGA-LDA on a CUDA device: kernels/lda_collapsed.py's mini-batches, a block a panel of words.

Source: Moon's dissertation (2019), section 2.5, Algorithms 8 to 12. The rows of B of a panel's words lie in shared
memory; DNT = (A_dk + α_k) / (N_k + Vβ) is computed once a document; a panel's tokens are in order of documents
(segmented CSR), so that threads side by side read the same row of DNT; sums are made twice rather than kept. The paper
changes B and N while it draws. Here atomics change them when the panel, and the mini-batch, is through: topics do not
depend on which thread comes first, and are the CPU's but for the rounding of sums.
"""

import numpy as np
from numba import cuda, int32

from ...lda.collapsed import CountTables, Tokens
from ..jit import device, kernel, launch, shared_limit
from ..memory import derived, fetched, filled, resident, residents, reused
from ..random import uniform64

#: Threads a block.
THREADS = 256
#: Blocks a launch that goes over tokens.
BLOCKS = 1024
#: Bytes of a panel: three blocks have room on a multiprocessor.
PANEL = 64 << 10


def minibatch(
    tokens: Tokens, tables: CountTables, z: np.ndarray, key: np.uint64, doc_ptr: np.ndarray, documents: int
) -> None:
    """Draw ``z`` (T,) uint16 by mini-batches of ``documents``; the tables stay as they were.

    Raises ValueError where not even one word's row fits a block's shared memory; DeviceError.
    """
    n_topics, n_documents = len(tables.alpha), len(doc_ptr) - 1
    stride = n_topics | 1  # rows of an odd length: threads with different words use different banks
    width = min(PANEL, shared_limit()) // (4 * stride)
    if not width:
        raise ValueError(f"{n_topics:,} topics do not fit a block's shared memory: choose sampler 'esca'")
    n_panels = -(-len(tables.B) // width)
    order, tiles = derived(
        tokens.word_to_doc_order,
        ("panels", width, documents),
        lambda: panels_of(tokens, doc_ptr, documents, width, n_panels),
    )
    on = (
        residents(tokens),
        tables._replace(**{k: filled(getattr(tables, k)) for k in "ABN"}, alpha=resident(tables.alpha)),
    )
    order, tiles, old, drawn = resident(order), resident(tiles), filled(z), filled(z)
    share = reused("share", (documents, n_topics), np.float32)
    for batch, first in enumerate(range(0, n_documents, documents)):
        last = min(first + documents, n_documents)
        launch(_share, last - first, THREADS, first, on[1], share)
        of_batch = on, share, first, batch * n_panels, tiles, order, old, drawn
        launch(_draw, n_panels, THREADS, *of_batch, width, np.uint64(key), shared=4 * stride * width)
        launch(_move, BLOCKS, THREADS, on, tiles, batch * n_panels, (batch + 1) * n_panels, order, old, drawn)
    z[:] = fetched(drawn)


def panels_of(
    tokens: Tokens, doc_ptr: np.ndarray, documents: int, width: int, n_panels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Order tokens by (mini-batch, panel), then by document: (T,) int64, and first tokens of the tiles."""
    in_documents = np.argsort(tokens.word_to_doc_order)
    tile = (tokens.docs // documents).astype(np.int64) * n_panels + tokens.words // width
    order = in_documents[np.argsort(tile[in_documents], kind="stable")]
    batches = -(-(len(doc_ptr) - 1) // documents)
    return order, np.searchsorted(tile[order], np.arange(batches * n_panels + 1)).astype(np.int64)


@kernel
def _share(first, tables, share):
    """DNT, a document a block."""
    d = cuda.blockIdx.x
    mass = np.float32(tables.mass)
    for k in range(cuda.threadIdx.x, len(tables.alpha), cuda.blockDim.x):
        share[d, k] = (np.float32(tables.A[first + d, k]) + tables.alpha[k]) / (np.float32(tables.N[k]) + mass)


@kernel
def _draw(on, share, first, tile, tiles, order, old, drawn, width, key):
    tokens, tables = on
    n_topics, row = len(tables.alpha), cuda.blockIdx.x * width
    start, end = tiles[tile + cuda.blockIdx.x], tiles[tile + cuda.blockIdx.x + 1]
    if start == end:
        return
    panel = cuda.shared.array(0, int32)
    n_words = min(width, len(tables.B) - row)
    _copy_panel(tables.B, row, n_words, panel, True)
    cuda.syncthreads()
    for t in range(start + cuda.threadIdx.x, end, cuda.blockDim.x):
        i = order[t]
        d, head = np.int64(tokens.docs[i]), (np.int64(tokens.words[i]) - row) * (n_topics | 1)
        drawn[i] = _topic(tables, panel, head, d, share[d - first], np.int64(old[i]), uniform64(key, i))
    cuda.syncthreads()
    for t in range(start + cuda.threadIdx.x, end, cuda.blockDim.x):
        i = order[t]
        head = (np.int64(tokens.words[i]) - row) * (n_topics | 1)
        cuda.atomic.sub(panel, head + np.int64(old[i]), 1)
        cuda.atomic.add(panel, head + np.int64(drawn[i]), 1)
    cuda.syncthreads()
    _copy_panel(tables.B, row, n_words, panel, False)


@device
def _copy_panel(B, row, n_words, panel, inwards):
    """Copy rows of B into shared memory or back, threads side by side along a row."""
    n_topics = B.shape[1]
    for place in range(cuda.threadIdx.x, n_words * n_topics, cuda.blockDim.x):
        w, k = place // n_topics, place % n_topics
        if inwards:
            panel[w * (n_topics | 1) + k] = B[row + w, k]
        else:
            B[row + w, k] = panel[w * (n_topics | 1) + k]


@device
def _topic(tables, panel, head, d, share, old, u):
    """Draw one token's topic: the sum of all products, then the product that holds the number."""
    n_topics, beta = len(tables.alpha), np.float32(tables.beta)
    a, b = np.float64(tables.A[d, old] - 1), np.float64(panel[head + old] - 1)
    left = np.float32((a + tables.alpha[old]) * (b + tables.beta) / (np.float64(tables.N[old] - 1) + tables.mass))
    total = np.float32(0)
    for k in range(n_topics):
        total += left if k == old else (np.float32(panel[head + k]) + beta) * share[k]
    x = u * np.float64(total)
    running = np.float32(0)
    for k in range(n_topics):
        running += left if k == old else (np.float32(panel[head + k]) + beta) * share[k]
        if x < running:
            return k
    return n_topics - 1


@kernel
def _move(on, tiles, first, last, order, old, drawn):
    """Bring A and N up to date behind a mini-batch."""
    tokens, tables = on
    for t in range(tiles[first] + cuda.grid(1), tiles[last], cuda.gridsize(1)):
        i = order[t]
        if old[i] != drawn[i]:
            d = np.int64(tokens.docs[i])
            cuda.atomic.sub(tables.A, (d, np.int64(old[i])), 1)
            cuda.atomic.add(tables.A, (d, np.int64(drawn[i])), 1)
            cuda.atomic.sub(tables.N, np.int64(old[i]), 1)
            cuda.atomic.add(tables.N, np.int64(drawn[i]), 1)
