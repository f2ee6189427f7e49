"""Latent Dirichlet allocation by ESCA on a CUDA device: the same draws as kernels/lda/esca.py, bit for bit.

Source: SaberLDA (Li et al., ASPLOS 2017), section 3.

Grid. A launch has up to `BLOCKS` blocks of `WARPS` warps or more. A block takes job after job (`order.Jobs`), each a
run of tokens of one word, until none is left. It prepares the word in shared memory (`model.py`); its warps take tokens
from a counter, since some documents have much longer rows than others.

Warp. The paper's warp draws one token and reads 32 entries of its document's row of A at a time. Here a warp draws
eight tokens, with four threads each. Rows have some ten to a hundred entries, so 32 threads would often be idle, and
most instructions of a draw do not depend on the row. The CPU sums a row in eight lanes (`simd/lanes.py`), of which a
thread has two. In the code, "lane" is a thread's number in its warp, and the "lanes" of a row are those eight partial
sums. Threads whose row ends early wait for the longest of the eight rows.

A token's draw points a uniform number into the same line as on the CPU. If the number falls into the prior part, the
whole warp looks the topic up, one token after another, in a search tree (section 3.2.4): that of the prior,
or that of the word.

Tests against the CPU's topics: tests/kernels/cuda/lda/test_esca.py.
Reference implementation: tests/helpers/naive.py, `lda_sweep`.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from numba import cuda, int32, int64

from ...chunk import Chunk
from ...lda.counts import SIXTEEN
from ...lda.esca import DENSE
from ...lda.model import ModelBlock
from ...simd.lanes import LANES
from ..arrays import Compiled, DeviceArray
from ..jit import device, lean_kernel
from ..launch import launch
from ..memory import allocate, cached_copies, cached_copy, derived, download, zeros
from ..port import multiply64
from ..random import uniform64
from ..warp import ALL_LANES, WARP, ballot, first_lane, tree_search
from .document_counts import DocumentRows, add_dense_rows, count_documents, entry_bounds
from .model import (
    PLACES,
    DeviceModel,
    Place,
    Word,
    WordScratch,
    choose_layout,
    clear_word,
    expand_word,
    make_new_word,
    make_word_scratch,
    phi_without_token,
    prior_weight,
    to_device_model,
)
from .order import Jobs, WordOrder, make_jobs, word_order
from .rows import LOW, SHARERS, find_entry, lane_ends
from .word_counts import add_words, count_chunks, finish_words, merge_many

__all__ = ["add_words", "count_chunks", "finish_words", "merge_many", "sweep"]

#: Tokens that a warp draws at a time.
TOKENS = WARP // SHARERS
#: Warps of a block, at least: 256 threads, the best of SaberLDA's figure 10c. See `model.choose_layout`.
WARPS = 8
#: Blocks of a launch, at most: enough for every multiprocessor, since each block takes jobs until none is left.
BLOCKS = 1024
#: The longest job has the words' tokens divided by this number, so that no block is left with a very frequent word.
JOBS = 8 * BLOCKS


class Tokens(NamedTuple):
    """A chunk's tokens on the device."""

    order: WordOrder
    word_ptr: DeviceArray  # (S + 1,) int64
    docs: DeviceArray  # (T,) uint32, in word order


class OldTopics(NamedTuple):
    """The topics of the last sweep on the device."""

    rows: DocumentRows
    z: DeviceArray  # (T,) uint16, in word order
    most_sparse: int  # rows with more entries than this in all are drawn from in dense form


def sweep(
    chunk: Chunk, models: Iterable[ModelBlock], z: np.ndarray | None, key: np.uint64, leave_out: bool = True
) -> np.ndarray:
    """Draw the next topics of a chunk's tokens, (T,) uint16 in word order, from the blocks of the model.

    The result is the same as on the CPU. ``chunk`` has the fields of a corpus chunk. Without ``z`` (T,) uint16, first
    topics are drawn. Raises ValueError for a document that a device cannot count, and DeviceError.
    """
    order = word_order(chunk.word_ids, chunk.word_ptr)
    tokens = Tokens(
        cached_copies(order, "word order"), cached_copy(chunk.word_ptr, "word_ptr"), cached_copy(chunk.docs, "docs")
    )
    out = allocate(len(chunk.docs), np.uint16, "new topics")
    old: OldTopics | int = 0
    kinds: tuple[str, ...] = ("first",)
    for model in models:
        # The rows of A are the same for all blocks of the model. The first block counts them.
        if z is not None and kinds == ("first",):
            old, kinds = _old_topics(chunk, z, model.alpha)
        _draw_block(kinds, order, tokens, model, int(leave_out and z is not None), old, np.uint64(key), out)
    return download(out, "topics", keep=True)


def _old_topics(chunk: Chunk, z: np.ndarray, alpha: np.ndarray) -> tuple[OldTopics, tuple[str, ...]]:
    """Count topics by document; return the rows, and the kinds of draws to launch: "sparse", "dense" or both.

    The CPU chooses by the number of entries. Here only the device has this number, and the host does not wait for it:
    if both kinds are possible, both kernels are launched, and one of them returns at once.
    """
    n_topics = len(alpha)
    most_sparse = n_topics * (len(chunk.doc_ptr) - 1) // DENSE
    fewest, most = entry_bounds(chunk.doc_ptr, n_topics)
    kinds: tuple[str, ...] = ("sparse", "dense")
    if most <= most_sparse:
        kinds = ("sparse",)
    elif fewest > most_sparse:
        kinds = ("dense",)
    rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z, n_topics)
    if "dense" in kinds:
        rows = add_dense_rows(rows, cached_copy(alpha, "alpha"), n_topics, most_sparse)
    return OldTopics(rows, cached_copy(z, "topics"), most_sparse), kinds


def _draw_block(
    kinds: tuple[str, ...],
    order: WordOrder,
    tokens: Tokens,
    model: ModelBlock,
    subtract: int,
    old: OldTopics | int,
    key: np.uint64,
    out: DeviceArray,
) -> None:
    """Draw the tokens whose words lie in one block of the model."""
    words = model.first, model.first + len(model.row_ptr) - 1
    for kind in kinds:
        layout = choose_layout(model, WARPS, kind)
        # Each job expands the row of its word before it draws, so it should have several tokens per warp.
        smallest = TOKENS * layout.warps * 4
        name = "jobs", words, smallest
        jobs = derived(order.segments, name, partial(make_jobs, order, words, smallest, JOBS))
        if not len(jobs.rows):
            return
        n_blocks = min(BLOCKS, len(jobs.rows))
        launch(
            _DRAW[kind, layout.place],
            n_blocks,
            layout.warps * WARP,
            cached_copies(jobs, "jobs"),
            tokens,
            to_device_model(model, subtract),
            make_word_scratch(layout, len(model.alpha), n_blocks),
            old,
            key,
            zeros("cursor", 1, np.int64),
            out,
            shared=layout.shared,
        )


# --- kernels ---


def _make_kernel(kind: str, draw_job: Compiled, place: Place) -> Compiled:
    """Return the kernel whose blocks take jobs until none is left, and draw each job's tokens by ``draw_job``."""
    new_word = make_new_word(place)
    is_first = kind == "first"
    is_dense = kind == "dense"

    @lean_kernel
    def draw(
        jobs: Jobs,
        tokens: Tokens,
        model: DeviceModel,
        scratch: WordScratch,
        old: OldTopics,
        key: np.uint64,
        cursor: DeviceArray,
        out: DeviceArray,
    ) -> None:
        thread = cuda.threadIdx.x
        # The kernel of the other kind draws these tokens; see `_old_topics`.
        if not is_first and (old.rows.n_entries[0] > old.most_sparse) != is_dense:
            return
        word = new_word(scratch, model.prior, thread)
        drawn = cuda.shared.array(1, int32)
        while True:
            job = _take_job(jobs, cursor, thread, drawn)
            # Jobs are taken from a counter until none is left, which balances words of very different frequency.
            if job == len(jobs.rows):
                return
            positions = jobs.starts[job], jobs.ends[job], jobs.segments[job]
            n = expand_word(word, model, jobs.rows[job], thread)
            draw_job(word, model, jobs.rows[job], n, tokens, positions, drawn, old, key, out)
            clear_word(word, model, jobs.rows[job], thread)

    return draw


@device
def _take_job(jobs: Jobs, cursor: DeviceArray, thread: int, drawn: DeviceArray) -> int:
    """Take the next job for the block; return its number, or the number of all jobs if none is left.

    ``drawn[0]``, the number of the job's tokens that warps have taken, begins at 0.
    """
    taken = cuda.shared.array(1, int64)
    # Every thread has read the last job's number: `expand_word` has a barrier, and `clear_word` another one.
    if thread == 0:
        taken[0] = cuda.atomic.add(cursor, 0, 1)
        drawn[0] = 0
    cuda.syncthreads()
    return min(taken[0], len(jobs.rows))


@device
def _take_tokens(drawn: DeviceArray, n: int, lane: int) -> np.int32:
    """Take ``n`` tokens of the job for the warp; return how many tokens other warps have taken before."""
    before = np.int32(0)
    if lane == 0:
        before = np.int32(cuda.atomic.add(drawn, 0, n))
    return np.int32(cuda.shfl_sync(ALL_LANES, before, 0))


@device
def _find_token(tokens: Tokens, segment: int, t: int) -> tuple[int, np.uint64]:
    """Return the segment of the token at position ``t`` and its index in the chunk.

    ``segment`` is where the search begins: the token's own segment or one before it.
    """
    order, word_ptr, _ = tokens
    # Indices have no sign: Numba lets the others count from the end, and looks at each of them.
    while t >= order.before[np.uint64(segment + 1)]:
        segment += 1
    before = order.before[np.uint64(segment)]
    return segment, np.uint64(word_ptr[np.uint64(order.segments[np.uint64(segment)])] + t - before)


@device
def _draw_first(
    word: Word,
    model: DeviceModel,
    row: int,
    n: int,
    tokens: Tokens,
    positions: tuple[int, int, int],
    drawn: DeviceArray,
    old: OldTopics,
    key: np.uint64,
    out: DeviceArray,
) -> None:
    """Draw first topics from p(k) ∝ α_k φ_k; each warp draws one token at a time.

    ``row`` is the word's row in the block of the model, and ``n`` how many non-zeros it has. ``positions`` are the
    first and the last + 1 position of the job in `WordOrder`, and the segment of the first one.
    """
    start, end, segment = positions
    lane = np.uint32(cuda.threadIdx.x % WARP)
    smooth = model.smooth[len(model.smooth) - 1]
    mass = smooth + word.leaves[n - 1] if n > 0 else smooth
    while True:
        t = start + _take_tokens(drawn, 1, lane)
        if t >= end:
            return
        segment, i = _find_token(tokens, segment, t)
        x = multiply64(uniform64(key, i), mass)
        if x < smooth or n == 0:
            k = tree_search(model.smooth, model.smooth_nodes, len(model.smooth), x, lane)
        else:
            j = tree_search(word.leaves, word.nodes, n, x - smooth, lane)
            k = np.uint32(model.topics[np.uint64(model.row_ptr[row] + j)])
        if lane == 0:
            out[i] = k


def _make_draw_next(dense: bool) -> Compiled:
    """Return the function that draws next topics, from sparse rows of A or from dense ones.

    A warp draws `TOKENS` tokens at a time. The arguments are those of `_draw_first`.
    """

    @device
    def draw_next(
        word: Word,
        model: DeviceModel,
        row: int,
        n: int,
        tokens: Tokens,
        positions: tuple[int, int, int],
        drawn: DeviceArray,
        old: OldTopics,
        key: np.uint64,
        out: DeviceArray,
    ) -> None:
        start, end, segment = positions
        lane = np.uint32(cuda.threadIdx.x % WARP)
        rows, z, _ = old
        while True:
            first = start + _take_tokens(drawn, TOKENS, lane)
            if first >= end:
                return
            t = first + lane // SHARERS
            # After the job's end, threads draw its last token once more, since all of a warp must take part in its
            # operations. They do not write it.
            segment, i = _find_token(tokens, segment, min(t, end - 1))
            d = tokens[2][i]
            old_topic = np.uint32(z[i])
            u = uniform64(key, i)
            if dense:
                k = _draw_dense(rows, d, word, model, old_topic, u, lane)
            else:
                k = _draw_sparse(rows, d, word, model, row, n, old_topic, u, lane)
            if lane % SHARERS == 0 and t < end:
                out[i] = k

    return draw_next


@device
def _draw_sparse(
    rows: DocumentRows,
    d: np.uint32,
    word: Word,
    model: DeviceModel,
    row: int,
    n: int,
    old: np.uint32,
    u: float,
    lane: np.uint32,
) -> np.uint32:
    """Draw from p(k) ∝ (A_dk + α_k) φ_k as a sum of three parts, which lie one after another on a line.

    The parts are: the α_k φ_k of the old topic (``own``); the sum of α_k φ_k over all other topics (``others``); and
    the sum of A_dk φ_k over the topics of the document. The old topic has its own part, because the token itself is
    left out of its φ. ``x`` is the distance of the random number from the end of the first part.
    """
    prior = model.prior
    head = rows.row_ptr[d]
    size = rows.lengths[d]
    phi_old = phi_without_token(word, model, old)
    ends = lane_ends(False, rows, head, size, word.phi, phi_old, old, prior.subtract_a, lane)
    alpha = prior.alpha[old]
    own = multiply64(alpha, np.float64(phi_old))
    smooth = model.smooth[np.uint64(len(model.smooth) - 1)]
    mass = smooth + word.leaves[np.uint64(n - 1)] if n > 0 else smooth
    others = mass - multiply64(alpha, np.float64(word.phi[old]))
    x = multiply64(u, own + others + cuda.shfl_sync(ALL_LANES, ends[1], lane | np.uint32(SHARERS - 1))) - own
    # Every thread searches the document part, since a search is a warp operation. Some do not use what they find.
    found = find_entry(False, rows, head, size, word.phi, phi_old, old, prior.subtract_a, ends, x - others, lane)
    entry = rows.entries[np.uint64(head + found)]
    k = np.uint32(entry >> SIXTEEN) if entry & LOW else old
    if x < 0:
        k = old
    # The warp serves the tokens that fell into the prior part, one after another.
    waiting = ballot((x >= 0) & (x < others) & (lane % SHARERS == 0))
    while waiting:
        source = first_lane(waiting)
        waiting = np.uint32(waiting & (waiting - np.uint32(1)))
        old_of_source = np.uint32(cuda.shfl_sync(ALL_LANES, np.int32(old), source))
        drawn = _draw_prior(word, model, row, n, old_of_source, cuda.shfl_sync(ALL_LANES, x, source), lane)
        if lane // SHARERS == source // SHARERS:
            k = drawn
    return k


@device
def _draw_dense(
    rows: DocumentRows, d: np.uint32, word: Word, model: DeviceModel, old: np.uint32, u: float, lane: np.uint32
) -> np.uint32:
    """Draw from the line that holds (A_dk + α_k) φ_k of all topics."""
    n_topics = len(word.phi)
    size = (n_topics + LANES - 1) // LANES * LANES
    head = d * size
    subtract = model.prior.subtract_a
    phi_old = phi_without_token(word, model, old)
    ends = lane_ends(True, rows, head, size, word.phi, phi_old, old, subtract, lane)
    x = multiply64(u, cuda.shfl_sync(ALL_LANES, ends[1], lane | np.uint32(SHARERS - 1)))
    k = find_entry(True, rows, head, size, word.phi, phi_old, old, subtract, ends, x, lane)
    return np.uint32(k) if k < n_topics else old


@device
def _draw_prior(
    word: Word, model: DeviceModel, row: int, n: int, old: np.uint32, x: float, lane: np.uint32
) -> np.uint32:
    """Draw from α_k φ_k over all topics but the old one, in the prior's tree or in the word's. The whole warp calls."""
    smooth = model.prior.smooth
    head = model.row_ptr[np.uint64(row)]
    # The old topic has a φ of its own and was handled by the caller, so its interval is cut out of the prior's
    # mass.
    before = smooth[old]
    skipped = smooth[np.uint32(old + 1)] - before
    mass = smooth[np.uint64(len(smooth) - 1)] - skipped
    if x < mass or n == 0:
        y = x + skipped if x >= before else x
        return tree_search(model.smooth, model.smooth_nodes, len(model.smooth), y, lane)
    x -= mass
    k = np.uint32(model.topics[np.uint64(head + tree_search(word.leaves, word.nodes, n, x, lane))])
    count = word.counts[old]
    if count > 0 and k >= old:
        # Likewise, skip the old topic's interval among the word's own counts. Sums of weights are exact, so this is the
        # interval between the topic's leaf and the one before. A topic below the old one needs no second search.
        x += prior_weight(model.prior, old, count)
        k = np.uint32(model.topics[np.uint64(head + tree_search(word.leaves, word.nodes, n, x, lane))])
    return k


def _make_kernels() -> dict[tuple[str, Place], Compiled]:
    """Return the kernels by the kind of draw, and by what lies in shared memory."""
    draws = {"first": _draw_first, "sparse": _make_draw_next(False), "dense": _make_draw_next(True)}
    found = {}
    for kind, draw_job in draws.items():
        for place in PLACES[kind]:
            found[kind, place] = _make_kernel(kind, draw_job, place)
    return found


_DRAW = _make_kernels()
