"""Latent Dirichlet allocation on a CUDA device: the draws of kernels/lda.py's sparse line, a warp a token.

Source: SaberLDA (Li et al., ASPLOS 2017), section 3. A block takes the next word, longest first, spreads its φ over
shared memory and builds the word's W-ary tree there; its warps take the word's tokens one after another. A warp reads
32 entries of the document's row at once, in 128-byte lines. Thread t belongs to lane t % 8 of the line that the CPU
draws from, so the pieces lie in the same order, and a draw differs only where a number falls within rounding of an end.

Rows of A are rebuilt by shuffle and segmented count. Where the paper sorts, a token here asks shared memory whether it
is the first of its topic: two atomic operations a token, and rows in the order of the CPU's.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import cuda, float32, float64, int32, int64

from ..lda_counts import LARGEST, SIXTEEN, Counts
from ..lda_model import Model, Prior, prior_of
from .jit import device, kernel
from .random import uniform64
from .warp import FULL, WARP, first_where, prefix_sum, tree_search

#: Lanes of the CPU's line.
LANES = 8
#: Warps of a block that samples.
WARPS = 8
#: Blocks a launch: enough for every multiprocessor; each takes words until none is left.
BLOCKS = 1024
LOW = np.uint32(LARGEST)
#: Shared memory of a block, in bytes, on every device.
PORTABLE = 48 << 10
ZERO = np.float32(0)


class Rows(NamedTuple):
    """Rows of A in places of fixed size: entries ``row_ptr[d] : row_ptr[d] + lengths[d]`` are document d's."""

    row_ptr: np.ndarray  # (D + 1,) int64, multiples of 32 entries: 128 bytes
    lengths: np.ndarray  # (D,) int32, multiples of 32: entries of count zero fill the last line
    entries: np.ndarray  # (row_ptr[-1],) uint32: topic << 16 | count


class Word(NamedTuple):
    """The word at hand, in shared memory."""

    phi: np.ndarray  # (K,) float32
    phi_old: np.ndarray  # (K,) float32: with the token left out, where the word has the topic
    leaves: np.ndarray  # prefix sums of α_k B_vk / (N_k + Vβ) over the row's entries, float64
    nodes: np.ndarray  # the last leaf of each 32, float64


class Tokens(NamedTuple):
    """The chunk's tokens in word order, and the segments to draw, longest first."""

    segments: np.ndarray
    word_ids: np.ndarray
    word_ptr: np.ndarray
    docs: np.ndarray


class Device(NamedTuple):
    """What a sweep reads of the model and of the prior."""

    row_ptr: np.ndarray
    topics: np.ndarray
    counts: np.ndarray
    first: int
    beta: float
    prior: Prior
    smooth_nodes: np.ndarray  # of the tree over prior.smooth[1:]


def sample(chunk, rows: Rows, model: Model, z: np.ndarray, key: np.uint64, leave_out=True, out=None) -> np.ndarray:
    """Draw the next topics of a chunk's tokens whose words lie in the model's block, as kernels/lda.py's does.

    ``rows`` are this module's. Raises ValueError where the topics do not fit a block's shared memory.
    """
    out = z.copy() if out is None else out
    n_topics = len(model.alpha)
    widest = int(np.diff(model.row_ptr).max(initial=1))
    needed = shared_bytes(n_topics, widest)
    check_shared(needed, n_topics)
    left = int(leave_out)
    prior = prior_of(model, left, left)
    read = Device(
        model.row_ptr, model.topics, model.counts, model.first, model.beta, prior, tree_nodes(prior.smooth[1:])
    )
    words = chunk.word_ids.astype(np.int64) - model.first
    mine = np.flatnonzero((words >= 0) & (words < len(model.row_ptr) - 1))
    lengths = np.diff(chunk.word_ptr)[mine]
    segments = mine[np.argsort(-lengths, kind="stable")]
    if len(segments):
        cursor = np.zeros(1, np.int64)
        launch = _sweep[min(BLOCKS, len(segments)), WARPS * WARP, 0, needed]
        tokens = Tokens(segments, chunk.word_ids, chunk.word_ptr, chunk.docs)
        launch(tokens, rows, read, widest, z, np.uint64(key), cursor, out)
    return out


def shared_bytes(n_topics: int, widest: int) -> int:
    """Return the shared memory of a sampling block: φ twice, and the tree of the widest row of B."""
    return 8 * (widest + -(-widest // WARP)) + 8 * n_topics


def check_shared(needed: int, n_topics: int) -> None:
    """Raise ValueError where a block's shared memory is too small."""
    limit = getattr(cuda.current_context().device, "MAX_SHARED_MEMORY_PER_BLOCK", PORTABLE)
    if needed > limit:
        raise ValueError(
            f"{n_topics:,} topics take {needed:,} bytes of shared memory, this device has {limit:,} a block: "
            f"choose fewer topics or device cpu"
        )


def tree_nodes(leaves: np.ndarray) -> np.ndarray:
    """Return the last of each 32 leaves, and the last of all: (n / 32 rounded up,) float64."""
    return leaves[np.minimum(np.arange(WARP - 1, len(leaves) + WARP - 1, WARP), len(leaves) - 1)]


@kernel
def _sweep(tokens, rows, model, widest, z, key, cursor, out):
    n_topics = len(model.prior.alpha)
    # One piece of shared memory: the tree's doubles first, so that they are aligned, then φ and φ of the old topic.
    doubles = cuda.shared.array(0, float64)
    floats = cuda.shared.array(0, float32)
    taken = cuda.shared.array(2, int64)
    size = widest + (widest + WARP - 1) // WARP
    phi, phi_old = floats[2 * size : 2 * size + n_topics], floats[2 * size + n_topics : 2 * (size + n_topics)]
    word = Word(phi, phi_old, doubles[:widest], doubles[widest:size])
    thread = cuda.threadIdx.x
    lane = thread % WARP
    while True:
        if thread == 0:
            taken[0] = cuda.atomic.add(cursor, 0, 1)
            taken[1] = 0
        cuda.syncthreads()
        if taken[0] >= len(tokens.segments):
            return
        s = tokens.segments[taken[0]]
        row = np.int64(tokens.word_ids[s]) - model.first
        head = model.row_ptr[row]
        n = model.row_ptr[row + 1] - head
        _expand(word, model, head, n, thread)
        start, n_tokens = tokens.word_ptr[s], tokens.word_ptr[s + 1] - tokens.word_ptr[s]
        while True:
            token = np.int64(0)
            if lane == 0:
                token = cuda.atomic.add(taken, 1, 1)
            token = cuda.shfl_sync(FULL, token, 0)
            if token >= n_tokens:
                break
            i = start + token
            k = _draw(word, model, rows, head, n, tokens.docs[i], np.int64(z[i]), uniform64(key, i), lane)
            if lane == 0:
                out[i] = k
        cuda.syncthreads()


@device
def _expand(word, model, head, n, thread):
    """Spread a row of B over shared memory and build its tree."""
    prior = model.prior
    threads = cuda.blockDim.x
    for k in range(thread, len(prior.alpha), threads):
        word.phi[k] = prior.base[k]
        word.phi_old[k] = prior.base[k]
    cuda.syncthreads()
    for j in range(thread, n, threads):
        k = model.topics[head + j]
        count = np.float64(model.counts[head + j])
        word.phi[k] = (count + model.beta) * prior.inverse[k]
        word.phi_old[k] = (count - prior.left_b + model.beta) * prior.lowered[k]
        word.leaves[j] = prior.word[k] * count
    cuda.syncthreads()
    if thread < WARP:
        carry = 0.0
        for j in range(0, n, WARP):
            x = word.leaves[j + thread] if j + thread < n else 0.0
            x = carry + prefix_sum(x, thread)
            if j + thread < n:
                word.leaves[j + thread] = x
            carry = cuda.shfl_sync(FULL, x, WARP - 1)
            if thread == 0:
                word.nodes[j // WARP] = carry
    cuda.syncthreads()


@device
def _draw(word, model, rows, head, n, d, old, u, lane):
    """Draw a token's topic; a warp works on it, every thread returns it."""
    prior = model.prior
    added = word.leaves[n - 1] if n > 0 else 0.0
    own = prior.alpha[old] * word.phi_old[old]
    others = prior.smooth[len(prior.smooth) - 1] + added - prior.alpha[old] * word.phi[old]
    ends = _lane_ends(word, rows, d, old, prior.left_a, lane)
    document = cuda.shfl_sync(FULL, ends, LANES - 1)
    x = u * (own + others + document) - own
    if x < 0:
        return old
    if x < others:
        return _draw_prior(word, model, head, n, old, x, lane)
    return _draw_document(word, rows, d, old, prior.left_a, x - others, ends, lane)


@device
def _product(word, entry, old, left):
    """A_dk φ_k of an entry of the row, the old topic lowered."""
    k, count = entry >> SIXTEEN, np.int64(entry & LOW)
    if k == old:
        return np.float32(count - left if count > 0 else 0) * word.phi_old[k]
    return np.float32(count) * word.phi[k] if count > 0 else ZERO


@device
def _lane_ends(word, rows, d, old, left, lane):
    """Sum the row's products by lane: thread t returns where lane t % 8 ends on the line of the document part."""
    total = ZERO
    head = rows.row_ptr[d]
    for j in range(0, rows.lengths[d], WARP):
        total += _product(word, rows.entries[head + j + lane], old, left)
    total += cuda.shfl_xor_sync(FULL, total, 16)
    total += cuda.shfl_xor_sync(FULL, total, 8)
    ends = np.float64(total)
    step = 1
    while step < LANES:
        before = cuda.shfl_up_sync(FULL, ends, step)
        if lane % LANES >= step:
            ends += before
        step *= 2
    return ends


@device
def _draw_document(word, rows, d, old, left, x, ends, lane):
    """Find the entry that holds ``x``: its lane by the lanes' ends, then its place by a second look at the row."""
    mine = first_where((ends > x) & (lane < LANES))
    if mine == WARP:
        mine = LANES - 1
    before = cuda.shfl_sync(FULL, ends, mine - 1 if mine > 0 else 0)
    rest = np.float32(x - (before if mine > 0 else 0.0))
    head, done, last = rows.row_ptr[d], ZERO, rows.entries[rows.row_ptr[d]]
    for j in range(0, rows.lengths[d], WARP):
        entry = rows.entries[head + j + lane]
        product = _product(word, entry, old, left)
        running = product
        up = cuda.shfl_up_sync(FULL, running, 8)
        running += up if lane >= 8 else ZERO
        up = cuda.shfl_up_sync(FULL, running, 16)
        running += up if lane >= 16 else ZERO
        running += done
        found = first_where((running > rest) & (lane % LANES == mine))
        if found < WARP:
            return _topic(cuda.shfl_sync(FULL, entry, found), old)
        done = cuda.shfl_sync(FULL, running, WARP - LANES + mine)
        last = cuda.shfl_sync(FULL, entry, WARP - LANES + mine)
    return _topic(last, old)


@device
def _topic(entry, old):
    """Unpack an entry; rounding at the end of the line can point at one of no mass, and then the topic stays."""
    return np.int64(entry >> SIXTEEN) if entry & LOW else old


@device
def _draw_prior(word, model, head, n, old, x, lane):
    """Draw from α_k φ_k over all topics but the old one, from the prior's tree or from the word's."""
    smooth = model.prior.smooth
    n_topics = len(smooth) - 1
    skipped = smooth[old + 1] - smooth[old]
    mass = smooth[n_topics] - skipped
    if x < mass or n == 0:
        y = x + skipped if x >= smooth[old] else x
        return np.int64(tree_search(smooth[1:], model.smooth_nodes, n_topics, y, lane))
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


# --- counting ---


def row_places(doc_ptr: np.ndarray, n_topics: int) -> np.ndarray:
    """Return where rows of A begin, (D + 1,) int64: a document has no more topics than tokens, and no more than K."""
    lengths = np.minimum(np.diff(doc_ptr), n_topics)
    return np.r_[0, np.cumsum(-(-lengths // WARP) * WARP)].astype(np.int64)


def count_documents(doc_ptr: np.ndarray, place: np.ndarray, z: np.ndarray, n_topics: int) -> Rows:
    """Count topics by document, in the order of their first tokens, by shuffle and segmented count (section 3.3).

    ``doc_ptr`` (D + 1,) int64, ``place`` (T,) uint32, ``z`` (T,) uint16 in word order. Raises ValueError for a document
    longer than 65,535 tokens, and where the topics do not fit a block's shared memory.
    """
    longest = int(np.diff(doc_ptr).max(initial=0))
    if longest > LARGEST:
        raise ValueError(f"a document has {longest:,} tokens, on a device at most {LARGEST:,}: choose device cpu")
    check_shared(8 * n_topics, n_topics)
    row_ptr, n_documents = row_places(doc_ptr, n_topics), len(doc_ptr) - 1
    shuffled = np.empty(len(z), np.uint16)
    rows = Rows(row_ptr, np.zeros(n_documents, np.int32), np.zeros(row_ptr[-1], np.uint32))
    if len(z):
        _shuffle[min(BLOCKS, math.ceil(len(z) / 256)), 256](place, z, shuffled)
        _count[min(BLOCKS, n_documents), WARP, 0, 8 * n_topics](doc_ptr, shuffled, rows)
    return rows


@kernel
def _shuffle(place, z, shuffled):
    for i in range(cuda.grid(1), len(z), cuda.gridsize(1)):
        shuffled[place[i]] = z[i]


@kernel
def _count(doc_ptr, z, rows):
    """Count a document a warp, which is the whole block."""
    lane = cuda.threadIdx.x
    both = cuda.shared.array(0, int32)
    count, first = both[: len(both) // 2], both[len(both) // 2 :]
    for k in range(lane, len(both), WARP):
        both[k] = 0 if k < len(count) else LARGEST
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
            first[z[start + i]] = LARGEST
        if lane == 0:
            rows.lengths[d] = end
        cuda.syncwarp()


@device
def _write_row(rows, head, z, start, n, count, first, lane):
    """Write an entry for each token that is the first of its topic, fill the last line, return the row's length."""
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
    behind = (end + WARP - 1) // WARP * WARP
    if end + lane < behind:
        rows.entries[head + end + lane] = np.uint32(0)
    return behind


def count_words(
    word_ids: np.ndarray, word_ptr: np.ndarray, z: np.ndarray, words: tuple[int, int], n_topics: int
) -> Counts:
    """Count the topics of words ``words[0] <= v < words[1]`` over all segments of a chunk: kernels/lda.py's table.

    ``word_ids`` (S,) uint32, ``word_ptr`` (S + 1,) int64, ``z`` (T,) uint16 in word order.
    """
    first, behind = words
    check_shared(4 * n_topics, n_topics)
    mine = np.flatnonzero((word_ids >= first) & (word_ids < behind))
    segments = mine[np.argsort(word_ids[mine], kind="stable")]
    heads = np.searchsorted(word_ids[segments], np.arange(first, behind + 1)).astype(np.int64)
    tokens = np.zeros(behind - first, np.int64)
    np.add.at(tokens, word_ids[segments].astype(np.int64) - first, np.diff(word_ptr)[segments])
    places = np.r_[0, np.cumsum(np.minimum(tokens, n_topics))]
    topics, counts = np.empty(places[-1], np.uint16), np.empty(places[-1], np.int32)
    lengths = np.zeros(behind - first, np.int64)
    if len(segments):
        launch = _count_words[min(BLOCKS, behind - first), WARP, 0, 4 * n_topics]
        launch(segments, heads, word_ptr, z, places, topics, counts, lengths)
    used = np.arange(places[-1]) - np.repeat(places[:-1], np.diff(places)) < np.repeat(lengths, np.diff(places))
    return Counts(np.r_[0, np.cumsum(lengths)], topics[used], counts[used])


@kernel
def _count_words(segments, heads, word_ptr, z, places, topics, counts, lengths):
    """Count a word a warp, which is the whole block; topics ascend."""
    lane = cuda.threadIdx.x
    count = cuda.shared.array(0, int32)
    for k in range(lane, len(count), WARP):
        count[k] = 0
    cuda.syncwarp()
    for v in range(cuda.blockIdx.x, len(lengths), cuda.gridDim.x):
        for h in range(heads[v], heads[v + 1]):
            s = segments[h]
            for i in range(word_ptr[s] + lane, word_ptr[s + 1], WARP):
                cuda.atomic.add(count, z[i], 1)
        cuda.syncwarp()
        end = 0
        for j in range(0, len(count), WARP):
            k = j + lane
            found = count[k] if k < len(count) else 0
            votes = cuda.ballot_sync(FULL, found > 0)
            if found > 0:
                place = places[v] + end + cuda.popc(votes & ((1 << lane) - 1))
                topics[place] = k
                counts[place] = found
                count[k] = 0
            end += cuda.popc(votes)
        if lane == 0:
            lengths[v] = end
        cuda.syncwarp()
