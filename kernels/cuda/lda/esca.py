"""Latent Dirichlet allocation on a CUDA device: the draws of kernels/lda.py, to the bit.

Source: SaberLDA (Li et al., ASPLOS 2017), section 3. A block takes the next word, longest first, spreads its φ over
shared memory and sums up its W-ary tree; its warps take the word's tokens. The paper's warp has one token and reads 32
entries of its document's row at a time. Here a warp has four tokens, of eight threads each: rows have some ten to a
hundred entries, what a token needs beside its row is shared by four, and the eight threads are the eight lanes of the
CPU's line, so every sum is made in the CPU's order. Threads that have read their row wait for the longest of the four.

What falls into the prior part is looked up by the whole warp, in the tree of the prior or of the word.

Where a device has too little shared memory for the φ of all topics, it lies in device memory and, as far as it is in
use, in the caches. Tiles of K instead would visit a row's entries in another order than the CPU's sums do.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, int64

from ...lda.counts import MAX_COUNT, SIXTEEN
from ...lda.esca import DENSE
from ...lda.model import ModelBlock, PriorTerms, make_prior
from ..exact import times32, times64
from ..jit import device, launch, lean_kernel, shared_limit
from ..memory import derived, fetched, filled, new, resident, residents, reused
from ..random import uniform64
from ..warp import FULL, WARP, prefix_sum, tree_search
from .counts import LANES, Rows, WordOrder, count_documents, count_words, dense_rows, word_order

__all__ = ["count_words", "sweep"]

#: Tokens that a warp draws at a time.
TOKENS = WARP // LANES
#: Warps of a block that samples: 256 threads, the best of SaberLDA's figure 10c.
WARPS = 8
#: Blocks a launch: enough for every multiprocessor; each takes jobs until none is left.
BLOCKS = 1024
#: Jobs that a launch is cut into beside one a word, so that no block is left with a word that everyone uses.
PIECES = 8 * BLOCKS
LOW = np.uint32(MAX_COUNT)
ZERO = np.float32(0)


class Jobs(NamedTuple):
    """Runs of one word's tokens, longest first, by their places among the tokens in order of words."""

    rows: np.ndarray  # (J,) int64: the word's row of the block of B
    starts: np.ndarray  # (J,) int64
    ends: np.ndarray  # (J,) int64
    segments: np.ndarray  # (J,) int64: where the first token lies, in `WordOrder`


class Device(NamedTuple):
    """What a sweep reads of the model and of the prior."""

    row_ptr: Any
    topics: Any
    counts: Any
    beta: float
    prior: PriorTerms
    smooth: Any  # prior.smooth[1:]: the leaves of the prior's tree
    smooth_nodes: Any


class Word(NamedTuple):
    """The word at hand: φ by topic in shared memory, the rest where the block has it in device memory."""

    phi: Any  # (K,) float32
    phi_old: Any  # (K,) float32: with the token left out, where the word has the topic
    leaves: Any  # prefix sums of α_k B_vk / (N_k + Vβ) over the row's entries, float64
    nodes: Any  # the last leaf of each 32, float64


class Scratch(NamedTuple):
    """A row a block: see `Word`."""

    phi: Any
    phi_old: Any
    leaves: Any
    nodes: Any


def sweep(chunk, models: Iterable[ModelBlock], z: np.ndarray | None, key: np.uint64, leave_out=True) -> np.ndarray:
    """Draw the next topics of a chunk's tokens, as kernels/lda.py's does: (T,) uint16 in word order.

    Raises ValueError for a document that a device cannot count, DeviceError.
    """
    order = word_order(chunk.word_ids, chunk.word_ptr)
    tokens = residents(order), resident(chunk.word_ptr), resident(chunk.docs)
    out, rows, kind = new(len(chunk.docs), np.uint16), None, "first"
    for model in models:
        if z is not None and rows is None:
            rows, kind = _rows(chunk, z, model.alpha)
        old = 0 if z is None else (rows, resident(z))
        _launch(kind, chunk.word_ids, order, tokens, model, int(leave_out and z is not None), old, np.uint64(key), out)
    return fetched(out, remember=True)


def _rows(chunk, z: np.ndarray, alpha: np.ndarray) -> tuple[Rows, str]:
    """Count topics by document; say whether the CPU would draw from dense rows."""
    n_topics = len(alpha)
    rows, entries = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z, n_topics)
    if DENSE * entries > n_topics * (len(chunk.doc_ptr) - 1):
        return dense_rows(rows, resident(alpha), n_topics), "dense"
    return rows, "sparse"


def _launch(kind: str, word_ids, order: WordOrder, tokens, model: ModelBlock, left: int, old, key, out) -> None:
    words = model.first, model.first + len(model.row_ptr) - 1
    jobs = derived(word_ids, ("jobs", words), lambda: jobs_of(order, words))
    if not len(jobs.rows):
        return
    n_topics, n_blocks = len(model.alpha), min(BLOCKS, len(jobs.rows))
    widest = max(1, int(np.diff(model.row_ptr).max(initial=1)))
    wide = 4 * n_topics > shared_limit()
    scratch = Scratch(
        reused("phi", (n_blocks, n_topics if wide else 1), np.float32),
        reused("phi_old", (n_blocks, n_topics), np.float32),
        reused("leaves", (n_blocks, widest), np.float64),
        reused("nodes", (n_blocks, -(-widest // WARP)), np.float64),
    )
    cursor, shared = filled(np.zeros(1, np.int64)), 0 if wide else 4 * n_topics
    arguments = residents(jobs), tokens, _on_device(model, left), scratch, old, key, cursor, out
    launch(_DRAW[kind, wide], n_blocks, WARPS * WARP, *arguments, shared=shared)


def _on_device(model: ModelBlock, left: int) -> Device:
    """Return the model's copy; what follows from totals and priors is made once for all chunks and blocks."""

    def make() -> tuple[PriorTerms, np.ndarray, np.ndarray]:
        prior = make_prior(model, left, left)
        leaves = prior.smooth[1:].copy()
        return prior, leaves, tree_nodes(leaves)

    prior, leaves, nodes = derived(model.totals, ("prior", left, model.beta, id(model.alpha)), make)
    return Device(
        resident(model.row_ptr),
        resident(model.topics),
        resident(model.counts),
        float(model.beta),
        residents(prior),
        resident(leaves),
        resident(nodes),
    )


def jobs_of(order: WordOrder, words: tuple[int, int]) -> Jobs:
    """Cut the tokens of words ``words[0] <= v < words[1]`` into jobs."""
    first, behind = np.searchsorted(order.words, words)
    heads = first + np.flatnonzero(np.diff(order.words[first:behind].astype(np.int64), prepend=-1))
    starts, ends = order.before[heads], order.before[np.r_[heads[1:], behind]] if len(heads) else order.before[heads]
    most = max(TOKENS * WARPS * 4, -(-int((ends - starts).sum()) // PIECES))
    pieces = -(-(ends - starts) // most)
    word = np.repeat(np.arange(len(heads)), pieces)
    start = starts[word] + most * (np.arange(len(word)) - np.repeat(np.cumsum(pieces) - pieces, pieces))
    end = np.minimum(start + most, ends[word])
    longest = np.argsort(start - end, kind="stable")
    rows = order.words[heads[word]].astype(np.int64) - words[0]
    segments = np.searchsorted(order.before, start, "right") - 1
    return Jobs(*(np.ascontiguousarray(a[longest]) for a in (rows, start, end, segments)))


def tree_nodes(leaves: np.ndarray) -> np.ndarray:
    """Return the last of each 32 leaves, and the last of all: (n / 32 rounded up,) float64."""
    return leaves[np.minimum(np.arange(WARP - 1, len(leaves) + WARP - 1, WARP), len(leaves) - 1)]


# --- drawing: what all kernels do with a word ---


@device
def _block_word(scratch, prior, thread, wide):
    """Return the block's word, φ as for a word without counts: in shared memory, or ``wide`` in device memory."""
    n_topics = len(prior.base)
    floats = cuda.shared.array(0, float32)
    block = cuda.blockIdx.x
    phi = scratch.phi[block] if wide else floats[:n_topics]
    word = Word(phi, scratch.phi_old[block], scratch.leaves[block], scratch.nodes[block])
    for k in range(thread, n_topics, cuda.blockDim.x):
        word.phi[k] = prior.base[k]
        word.phi_old[k] = prior.base[k]
    return word


@device
def _next_job(jobs, cursor, thread):
    """Take a job for the whole block: its number, or one behind the last."""
    taken = cuda.shared.array(1, int64)
    cuda.syncthreads()
    if thread == 0:
        taken[0] = cuda.atomic.add(cursor, 0, 1)
    cuda.syncthreads()
    return min(taken[0], len(jobs.rows))


@device
def _expand(word, model, row, thread):
    """Spread a row of B over φ and build its tree; return how many entries it has."""
    prior, head = model.prior, model.row_ptr[row]
    n = model.row_ptr[row + 1] - head
    for j in range(thread, n, cuda.blockDim.x):
        k = model.topics[head + j]
        count = np.float64(model.counts[head + j])
        word.phi[k] = (count + model.beta) * prior.inverse[k]
        word.phi_old[k] = (count - prior.subtract_b + model.beta) * prior.lowered[k]
    if thread < WARP:
        carry = 0.0
        for j in range(0, n, WARP):
            x = 0.0
            if j + thread < n:
                k = model.topics[head + j + thread]
                product = times64(prior.word_factor[k], np.float64(model.counts[head + j + thread]))
                x = (product + prior.grain) - prior.grain
            x = carry + prefix_sum(x, thread)
            if j + thread < n:
                word.leaves[j + thread] = x
            carry = cuda.shfl_sync(FULL, x, WARP - 1)
            if thread == 0:
                word.nodes[j // WARP] = carry
    cuda.syncthreads()
    return n


@device
def _clear(word, model, row, thread):
    """Set φ back to that of a word without counts, once all warps are through."""
    cuda.syncthreads()
    for j in range(model.row_ptr[row] + thread, model.row_ptr[row + 1], cuda.blockDim.x):
        k = model.topics[j]
        word.phi[k] = model.prior.base[k]
        word.phi_old[k] = model.prior.base[k]


@device
def _place(tokens, segment, t):
    """Return (segment, place in the chunk) of the token at ``t`` in order of words, ``segment`` not behind it."""
    order, word_ptr, _ = tokens
    while t >= order.before[segment + 1]:
        segment += 1
    return segment, word_ptr[order.segments[segment]] + t - order.before[segment]


# --- kernels ---


def _kernel(draw_job, wide):
    """Make the kernel that takes jobs until none is left, and draws each job's tokens by ``draw_job``."""

    @lean_kernel
    def draw(jobs, tokens, model, scratch, old, key, cursor, out):
        thread = cuda.threadIdx.x
        word = _block_word(scratch, model.prior, thread, wide)
        while True:
            job = _next_job(jobs, cursor, thread)
            if job == len(jobs.rows):
                return
            places = jobs.starts[job], jobs.ends[job], jobs.segments[job]
            n = _expand(word, model, jobs.rows[job], thread)
            draw_job(word, model, jobs.rows[job], n, tokens, places, old, key, out)
            _clear(word, model, jobs.rows[job], thread)

    return draw


@device
def _draw_first(word, model, row, n, tokens, places, old, key, out):
    """Draw first topics from α_k φ_k, a warp a token."""
    start, end, segment = places
    lane, warp = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
    smooth = model.smooth[len(model.smooth) - 1]
    mass = smooth + word.leaves[n - 1] if n > 0 else smooth
    for t in range(start + warp, end, cuda.blockDim.x // WARP):
        segment, i = _place(tokens, segment, t)
        x = times64(uniform64(key, i), mass)
        if x < smooth or n == 0:
            k = np.int64(tree_search(model.smooth, model.smooth_nodes, len(model.smooth), x, lane))
        else:
            j = tree_search(word.leaves, word.nodes, n, x - smooth, lane)
            k = np.int64(model.topics[model.row_ptr[row] + j])
        if lane == 0:
            out[i] = k


def _draw_next(dense):
    """Make the function that draws next topics, from sparse rows of A or from dense ones."""

    @device
    def draw_next(word, model, row, n, tokens, places, old, key, out):
        start, end, segment = places
        lane, warp = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
        rows, z = old
        for first in range(start + TOKENS * warp, end, cuda.blockDim.x // LANES):
            t = first + lane // LANES
            # What lies behind the job's end draws its last token once more, and does not write it.
            segment, i = _place(tokens, segment, min(t, end - 1))
            d, before = np.int64(tokens[2][i]), np.int64(z[i])
            u = uniform64(key, i)
            if dense:
                k = _from_dense(rows, d, word, model.prior.subtract_a, before, u, lane)
            else:
                k = _from_sparse(rows, d, word, model, row, n, before, u, lane)
            if lane % LANES == 0 and t < end:
                out[i] = k

    return draw_next


@device
def _from_sparse(rows, d, word, model, row, n, old, u, lane):
    """Draw from the line of kernels/lda.py: the old topic, the other topics' prior part, the document part."""
    prior = model.prior
    head, size, phi_old = rows.row_ptr[d], np.int64(rows.lengths[d]), word.phi_old[old]
    ends = _lane_ends(False, rows, head, size, word.phi, phi_old, old, prior.subtract_a, lane)
    own = times64(prior.alpha[old], np.float64(phi_old))
    smooth = model.smooth[len(model.smooth) - 1]
    mass = smooth + word.leaves[n - 1] if n > 0 else smooth
    others = mass - times64(prior.alpha[old], np.float64(word.phi[old]))
    x = times64(u, own + others + cuda.shfl_sync(FULL, ends, lane | (LANES - 1))) - own
    found = _find(False, rows, head, size, word.phi, phi_old, old, prior.subtract_a, ends, x - others, lane)
    entry = rows.entries[head + found]
    k = np.int64(entry >> SIXTEEN) if entry & LOW else old
    if x < 0:
        k = old
    waiting = cuda.ballot_sync(FULL, (x >= 0) & (x < others) & (lane % LANES == 0))
    while waiting:
        source = cuda.ffs(waiting) - 1
        waiting &= waiting - 1
        drawn = _draw_prior(
            word, model, row, n, cuda.shfl_sync(FULL, old, source), cuda.shfl_sync(FULL, x, source), lane
        )
        if lane // LANES == source // LANES:
            k = drawn
    return k


@device
def _from_dense(rows, d, word, left, old, u, lane):
    """Draw from the line that holds (A_dk + α_k) φ_k of all topics."""
    n_topics = len(word.phi)
    size = (n_topics + LANES - 1) // LANES * LANES
    head, phi_old = d * size, word.phi_old[old]
    ends = _lane_ends(True, rows, head, size, word.phi, phi_old, old, left, lane)
    x = times64(u, cuda.shfl_sync(FULL, ends, lane | (LANES - 1)))
    k = _find(True, rows, head, size, word.phi, phi_old, old, left, ends, x, lane)
    return k if k < n_topics else old


@device
def _product(dense, rows, head, j, size, phi, phi_old, old, left):
    """The product at place ``j`` of a document's row with φ, the old topic lowered; nothing behind its end."""
    if j >= size:
        return ZERO
    if dense:
        if j >= len(phi):
            return ZERO
        a = rows.dense[head + j]
        return times32(a - np.float32(left), phi_old) if j == old else times32(a, phi[j])
    entry = rows.entries[head + j]
    k, count = np.int64(entry >> SIXTEEN), np.int64(entry & LOW)
    if count == 0:
        return ZERO
    return times32(np.float32(count - left), phi_old) if k == old else times32(np.float32(count), phi[k])


@device
def _lane_ends(dense, rows, head, size, phi, phi_old, old, left, lane):
    """Sum a row's products by lane, and the lanes: return where this thread's lane ends on the line."""
    longest = size
    longest = max(longest, cuda.shfl_xor_sync(FULL, longest, 8))
    longest = max(longest, cuda.shfl_xor_sync(FULL, longest, 16))
    total = ZERO
    for j in range(lane % LANES, longest, LANES):
        total += _product(dense, rows, head, j, size, phi, phi_old, old, left)
    ends = np.float64(total)
    step = 1
    while step < LANES:
        before = cuda.shfl_up_sync(FULL, ends, step)
        if lane % LANES >= step:
            ends += before
        step *= 2
    return ends


@device
def _find(dense, rows, head, size, phi, phi_old, old, left, ends, x, lane):
    """Return the place of a row's product that holds ``x``: its lane by the lanes' ends, then among the lane's own.

    The eight threads make eight of the lane's products at a time; each sums them in order.
    """
    below = cuda.ballot_sync(FULL, ends <= x) >> (lane - lane % LANES) & ((1 << LANES) - 1)
    mine = min(cuda.popc(below), LANES - 1)
    group = lane - lane % LANES
    before = cuda.shfl_sync(FULL, ends, group + max(mine - 1, 0))
    rest = np.float32(x - (before if mine > 0 else 0.0))
    steps, running, start = 0, ZERO, 0
    while cuda.any_sync(FULL, (start < size) & (running <= rest)):
        product = _product(dense, rows, head, start + lane % LANES * LANES + mine, size, phi, phi_old, old, left)
        for source in range(LANES):
            running += cuda.shfl_sync(FULL, product, group + source)
            steps += 1 if running <= rest else 0
        start += LANES * LANES
    return min(steps * LANES, size - LANES) + mine


@device
def _draw_prior(word, model, row, n, old, x, lane):
    """Draw from α_k φ_k over all topics but the old one, from the prior's tree or from the word's; a warp a token."""
    smooth, head = model.prior.smooth, model.row_ptr[row]
    skipped = smooth[old + 1] - smooth[old]
    mass = smooth[len(smooth) - 1] - skipped
    if x < mass or n == 0:
        y = x + skipped if x >= smooth[old] else x
        return np.int64(tree_search(model.smooth, model.smooth_nodes, len(model.smooth), y, lane))
    x -= mass
    j = _place_of(model.topics, head, n, old)
    if j < n and model.topics[head + j] == old:
        before = word.leaves[j - 1] if j > 0 else 0.0
        if x >= before:
            x += word.leaves[j] - before
    return np.int64(model.topics[head + tree_search(word.leaves, word.nodes, n, x, lane)])


@device
def _place_of(topics, head, n, topic):
    """Return how many of a row's ascending topics lie below ``topic``."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if topics[head + middle] < topic:
            low = middle + 1
        else:
            high = middle
    return low


#: Kernels by kind and by where φ lies.
_DRAW = {
    (kind, wide): _kernel(draw_job, wide)
    for kind, draw_job in {"first": _draw_first, "sparse": _draw_next(False), "dense": _draw_next(True)}.items()
    for wide in (False, True)
}
