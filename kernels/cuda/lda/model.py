"""The model on a device as LDA's kernels read it, and the arrays of the word that a thread block draws.

A block prepares its word before it draws the word's tokens (`expand_word`). It spreads the row of B over K floats, φ,
as the CPU does, and over K counts, and it builds the word's search tree. Afterwards it sets φ and the counts back by
the row's non-zeros (`clear_word`).

All of that lies in the block's dynamic shared memory, because the draws read it at random places. If it does not fit,
only φ lies there, and if φ does not fit either, nothing does; the rest lies in device memory and is read through the
caches. Tiles of K topics would not need more shared memory, but they would visit the entries of a document's row in
another order than the CPU's sums do.

Tests against the CPU's topics: tests/kernels/cuda/lda/test_esca.py.
Reference implementation: tests/helpers/naive.py, `lda_weights`.
"""

from enum import Enum
from typing import NamedTuple

import numpy as np
from numba import cuda, float32, float64, int32

from ...lda.model import ModelBlock, PriorTerms, make_prior
from ..arrays import Compiled, DeviceArray
from ..jit import device
from ..launch import shared_memory_limit
from ..memory import cached_copies, cached_copy, derived, workspace
from ..port import multiply64
from ..warp import ALL_LANES, WARP, prefix_sum, tree_nodes


class DeviceModel(NamedTuple):
    """A model block and its prior on the device. B has n non-zeros and W rows."""

    row_ptr: DeviceArray  # (W + 1,) int64
    topics: DeviceArray  # (n,) uint16
    counts: DeviceArray  # (n,) int32
    beta: float
    prior: PriorTerms
    smooth: DeviceArray  # prior.smooth[1:], (K,) float64: the leaves of the prior's search tree
    smooth_nodes: DeviceArray  # (`tree_nodes`,) float64: its nodes


class Place(Enum):
    """What lies in a block's shared memory."""

    ALL = "all"  # φ, the counts and the tree
    PHI = "phi"  # only φ
    NOTHING = "nothing"


#: The places for which each kind of draw is compiled. First topics do not need φ, and dense rows have few topics.
PLACES = {
    "first": (Place.ALL, Place.NOTHING),
    "sparse": (Place.ALL, Place.PHI, Place.NOTHING),
    "dense": (Place.ALL, Place.NOTHING),
}


class Word(NamedTuple):
    """The word that a thread block works on. Its row of B has n entries."""

    phi: DeviceArray  # (K,) float32
    counts: DeviceArray  # (K,) int32: the row of B with all topics
    leaves: DeviceArray  # (n,) float64: prefix sums of α_k B_vk / (N_k + Vβ), the leaves of the word's search tree
    nodes: DeviceArray  # (`tree_nodes`,) float64: its nodes


class WordScratch(NamedTuple):
    """Device memory for the words of all thread blocks: one row of each array per thread block. See `Word`.

    An array has one column if its contents lie in shared memory.
    """

    phi: DeviceArray
    counts: DeviceArray
    leaves: DeviceArray
    nodes: DeviceArray
    longest: int  # entries of the longest row of B


class Layout(NamedTuple):
    """Where the words of a launch lie, and how many warps a block should have."""

    place: Place
    longest: int  # entries of the longest row of B
    shared: int  # bytes of dynamic shared memory per block
    warps: int


def to_device_model(model: ModelBlock, subtract: int) -> DeviceModel:
    """Return the model block on the device. ``subtract`` is 1 if a token is left out of A and B, else 0."""

    def compute() -> tuple[PriorTerms, np.ndarray, np.ndarray]:
        prior = make_prior(model, subtract, subtract)
        leaves = prior.smooth[1:].copy()
        return prior, leaves, make_nodes(leaves)

    # All chunks of an epoch and all blocks of the model share totals and alpha, and so the prior.
    prior, leaves, nodes = derived((model.totals, model.alpha), ("prior", subtract, model.beta, model.n_words), compute)
    return DeviceModel(
        row_ptr=cached_copy(model.row_ptr, "model.row_ptr"),
        topics=cached_copy(model.topics, "model.topics"),
        counts=cached_copy(model.counts, "model.counts"),
        beta=float(model.beta),
        prior=cached_copies(prior, "prior"),
        smooth=cached_copy(leaves, "prior.leaves"),
        smooth_nodes=cached_copy(nodes, "prior.nodes"),
    )


def make_nodes(leaves: np.ndarray) -> np.ndarray:
    """Return the nodes of a tree with these leaves, (`tree_nodes`,) float64."""
    nodes = _last_of_each(leaves)
    return nodes if len(nodes) <= WARP else np.concatenate([nodes, _last_of_each(nodes)])


def _last_of_each(numbers: np.ndarray) -> np.ndarray:
    """Return the last of each 32 numbers, and the last of all."""
    last = np.arange(WARP - 1, len(numbers) + WARP - 1, WARP)
    return numbers[np.minimum(last, len(numbers) - 1)]


def choose_layout(model: ModelBlock, warps: int, kind: str) -> Layout:
    """Return the layout of one kind of draw. ``warps`` is the number of warps of a block that needs little memory.

    Blocks that need much shared memory have up to four times as many warps. Otherwise too few warps would be active,
    since a multiprocessor would have memory for few of these blocks.
    """
    n_topics = len(model.alpha)
    longest = max(1, int(np.diff(model.row_ptr).max(initial=1)))
    limit = shared_memory_limit()
    tree = 8 * (longest + tree_nodes(longest))
    sizes = {Place.ALL: tree + 8 * n_topics, Place.PHI: 4 * n_topics, Place.NOTHING: 0}
    # The last place always fits.
    place = next(place for place in PLACES[kind] if sizes[place] <= limit)
    quarters = max(1, -(-4 * sizes[place] // limit))
    return Layout(place, longest, sizes[place], warps * (4 if quarters == 3 else quarters))


def make_word_scratch(layout: Layout, n_topics: int, n_blocks: int) -> WordScratch:
    """Return scratch for the words of ``n_blocks`` thread blocks."""
    shared = layout.place is Place.ALL
    return WordScratch(
        phi=workspace("phi", (n_blocks, n_topics if layout.place is Place.NOTHING else 1), np.float32),
        counts=workspace("counts of words", (n_blocks, 1 if shared else n_topics), np.int32),
        leaves=workspace("leaves", (n_blocks, 1 if shared else layout.longest), np.float64),
        nodes=workspace("nodes", (n_blocks, 1 if shared else tree_nodes(layout.longest)), np.float64),
        longest=layout.longest,
    )


nodes_on_device = device(tree_nodes)


def make_new_word(place: Place) -> Compiled:
    """Return the device function that returns the block's `Word`, with φ and counts as for a word without tokens."""
    phi_is_shared = place is not Place.NOTHING
    all_is_shared = place is Place.ALL

    @device
    def new_word(scratch: WordScratch, prior: PriorTerms, thread: int) -> Word:
        """All threads of the block call it."""
        n_topics = len(prior.base)
        block = cuda.blockIdx.x
        # Size 0 means the dynamic shared memory, whose size the launch gives. All three names are the same memory. The
        # float64 numbers come first, because they must lie at a multiple of eight bytes.
        floats = cuda.shared.array(0, float32)
        doubles = cuda.shared.array(0, float64)
        integers = cuda.shared.array(0, int32)
        if all_is_shared:
            n_nodes = nodes_on_device(scratch.longest)
            leaves = doubles[: scratch.longest]
            nodes = doubles[scratch.longest : scratch.longest + n_nodes]
            after = 2 * (scratch.longest + n_nodes)
            phi = floats[after : after + n_topics]
            counts = integers[after + n_topics : after + 2 * n_topics]
        else:
            leaves = scratch.leaves[block]
            nodes = scratch.nodes[block]
            counts = scratch.counts[block]
            if phi_is_shared:
                phi = floats[:n_topics]
            else:
                phi = scratch.phi[block]
        word = Word(phi, counts, leaves, nodes)
        for k in range(thread, n_topics, cuda.blockDim.x):
            word.phi[k] = prior.base[k]
            word.counts[k] = 0
        return word

    return new_word


@device
def phi_without_token(word: Word, model: DeviceModel, k: int) -> np.float32:
    """Return φ_k of the word without one token, or φ_k as it is if the word does not have the topic."""
    prior = model.prior
    topic = np.uint32(k)
    count = word.counts[topic]
    if count == 0:
        return prior.base[topic]
    return np.float32((np.float64(count) - prior.subtract_b + model.beta) * prior.lowered[topic])


@device
def prior_weight(prior: PriorTerms, k: int, count: int) -> float:
    """Return α_k B_vk / (N_k + Vβ), rounded as on the CPU: `grain` makes it a multiple of a power of two.

    So sums of these numbers are exact, and their order does not matter.
    """
    product = multiply64(prior.word_factor[np.uint32(k)], np.float64(count))
    return (product + prior.grain) - prior.grain


@device
def expand_word(word: Word, model: DeviceModel, row: int, thread: int) -> int:
    """Spread a row of B over φ and the counts, build its search tree, return how many entries it has.

    All threads of the block call it. A warp builds the leaves of one node at a time (SaberLDA, section 3.2.4).
    """
    prior = model.prior
    head = model.row_ptr[np.uint64(row)]
    n = model.row_ptr[np.uint64(row + 1)] - head
    lane = np.uint32(thread % WARP)
    # Numbers without a sign: Numba lets others count from the end, and looks at each of them.
    first = np.uint32(thread - lane)
    # All lanes take part in the prefix sum, also after the last entry.
    while first < n:
        j = np.uint32(first + lane)
        weight = 0.0
        if j < n:
            k = np.uint32(model.topics[np.uint64(head + j)])
            count = model.counts[np.uint64(head + j)]
            word.phi[k] = (np.float64(count) + model.beta) * prior.inverse[k]
            word.counts[k] = count
            weight = prior_weight(prior, k, count)
        weight = prefix_sum(weight, lane)
        if j < n:
            word.leaves[j] = weight
        if lane == WARP - 1:
            word.nodes[np.uint32(first // WARP)] = weight
        first = np.uint32(first + cuda.blockDim.x)
    cuda.syncthreads()
    # A word with one node, as most words have, is complete.
    if n > WARP:
        _add_nodes(word, n, thread)
    return n


@device
def _add_nodes(word: Word, n: int, thread: int) -> None:
    """Replace the sums of each node's own leaves by sums of all leaves so far."""
    if thread < WARP:
        carry = 0.0
        n_nodes = (n + WARP - 1) // WARP
        for first in range(0, n_nodes, WARP):
            node = first + thread
            weight = carry + prefix_sum(word.nodes[node] if node < n_nodes else 0.0, thread)
            if node < n_nodes:
                word.nodes[node] = weight
            carry = cuda.shfl_sync(ALL_LANES, weight, WARP - 1)
            if n_nodes > WARP and thread == 0:
                word.nodes[n_nodes + first // WARP] = carry
    cuda.syncthreads()
    for j in range(WARP + thread, n, cuda.blockDim.x):
        word.leaves[np.uint32(j)] += word.nodes[np.uint32(j // WARP - 1)]
    cuda.syncthreads()


@device
def clear_word(word: Word, model: DeviceModel, row: int, thread: int) -> None:
    """Set φ and the counts back to those of a word without tokens, once all warps have drawn. All threads call it."""
    cuda.syncthreads()
    for j in range(model.row_ptr[row] + thread, model.row_ptr[row + 1], cuda.blockDim.x):
        k = np.uint32(model.topics[np.uint64(j)])
        word.phi[k] = model.prior.base[k]
        word.counts[k] = 0
