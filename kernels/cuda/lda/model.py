"""What LDA's kernels read of the model on a device, and the word that a thread block works on.

A block spreads the row of B of its word over K floats, φ, as the CPU does (`expand_word`), draws the word's tokens, and
sets φ back by the row's non-zeros (`clear_word`).

φ lies in the block's dynamic shared memory, because the draws read it at random places. Where a device has too little
shared memory for K floats, φ lies in device memory and is read through the caches. Tiles of K topics would not need
more shared memory, but they would visit the entries of a document's row in another order than the CPU's sums do.

Tested in the simulator and on a device against the CPU's topics: tests/kernels/cuda/lda/test_esca.py.
Reference implementation: tests/helpers/naive.py, `lda_weights`.
"""

from typing import NamedTuple

import numpy as np
from numba import cuda, float32

from ...lda.model import ModelBlock, PriorTerms, make_prior
from ..arrays import DeviceArray
from ..exact import multiply64
from ..jit import device
from ..launch import shared_memory_limit
from ..memory import cached_copies, cached_copy, derived, workspace
from ..warp import ALL_LANES, WARP, prefix_sum


class DeviceModel(NamedTuple):
    """A model block and its prior on the device. B has n non-zeros and W rows."""

    row_ptr: DeviceArray  # (W + 1,) int64
    topics: DeviceArray  # (n,) uint16
    counts: DeviceArray  # (n,) int32
    beta: float
    prior: PriorTerms
    smooth: DeviceArray  # prior.smooth[1:], (K,) float64: the leaves of the prior's search tree
    smooth_nodes: DeviceArray  # (K / 32 rounded up,) float64: its nodes, see `tree_search`


class Word(NamedTuple):
    """The word that a thread block works on. Its row of B has n entries."""

    phi: DeviceArray  # (K,) float32, in shared memory or in device memory
    phi_old: DeviceArray  # (K,) float32: φ without the token's own count, where the word has the topic
    leaves: DeviceArray  # (n,) float64: prefix sums of α_k B_vk / (N_k + Vβ), the leaves of the word's search tree
    nodes: DeviceArray  # (n / 32 rounded up,) float64: its nodes


class WordScratch(NamedTuple):
    """Device memory for the words of all thread blocks: one row of each array per thread block. See `Word`."""

    phi: DeviceArray  # one column where φ lies in shared memory
    phi_old: DeviceArray
    leaves: DeviceArray
    nodes: DeviceArray


def to_device_model(model: ModelBlock, subtract: int) -> DeviceModel:
    """Return the model block on the device. ``subtract`` is 1 if a token is left out of A and B, else 0."""

    def compute() -> tuple[PriorTerms, np.ndarray, np.ndarray]:
        prior = make_prior(model, subtract, subtract)
        leaves = prior.smooth[1:].copy()
        return prior, leaves, tree_nodes(leaves)

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


def tree_nodes(leaves: np.ndarray) -> np.ndarray:
    """Return the last of each 32 leaves, and the last of all: (n / 32 rounded up,) float64."""
    last = np.arange(WARP - 1, len(leaves) + WARP - 1, WARP)
    return leaves[np.minimum(last, len(leaves) - 1)]


def fits_shared_memory(n_topics: int) -> bool:
    """Return whether φ of all topics fits a block's shared memory."""
    return 4 * n_topics <= shared_memory_limit()


def make_word_scratch(model: ModelBlock, n_blocks: int) -> WordScratch:
    """Return scratch for the words of ``n_blocks`` thread blocks."""
    n_topics = len(model.alpha)
    longest = max(1, int(np.diff(model.row_ptr).max(initial=1)))
    columns = 1 if fits_shared_memory(n_topics) else n_topics
    return WordScratch(
        phi=workspace("phi", (n_blocks, columns), np.float32),
        phi_old=workspace("phi_old", (n_blocks, n_topics), np.float32),
        leaves=workspace("leaves", (n_blocks, longest), np.float64),
        nodes=workspace("nodes", (n_blocks, -(-longest // WARP)), np.float64),
    )


@device
def new_word(scratch: WordScratch, prior: PriorTerms, thread: int, in_shared_memory: bool) -> Word:
    """Return the block's `Word`, with φ as for a word without counts. All threads of the block call it."""
    n_topics = len(prior.base)
    # Size 0 means the dynamic shared memory, whose size the launch gives.
    floats = cuda.shared.array(0, float32)
    block = cuda.blockIdx.x
    phi = floats[:n_topics] if in_shared_memory else scratch.phi[block]
    word = Word(phi, scratch.phi_old[block], scratch.leaves[block], scratch.nodes[block])
    for k in range(thread, n_topics, cuda.blockDim.x):
        word.phi[k] = prior.base[k]
        word.phi_old[k] = prior.base[k]
    return word


@device
def expand_word(word: Word, model: DeviceModel, row: int, thread: int) -> int:
    """Spread a row of B over φ, build its search tree, return how many entries it has. All threads call it."""
    prior = model.prior
    head = model.row_ptr[row]
    n = model.row_ptr[row + 1] - head
    for j in range(thread, n, cuda.blockDim.x):
        k = model.topics[head + j]
        count = np.float64(model.counts[head + j])
        word.phi[k] = (count + model.beta) * prior.inverse[k]
        word.phi_old[k] = (count - prior.subtract_b + model.beta) * prior.lowered[k]
    if thread < WARP:
        # The first warp builds the tree: 32 prefix sums at a time, and the last one of them is a node. The sums are
        # the CPU's, although the order differs: `grain` makes every product a multiple of a power of two.
        carry = 0.0
        for j in range(0, n, WARP):
            x = 0.0
            if j + thread < n:
                k = model.topics[head + j + thread]
                product = multiply64(prior.word_factor[k], np.float64(model.counts[head + j + thread]))
                x = (product + prior.grain) - prior.grain
            x = carry + prefix_sum(x, thread)
            if j + thread < n:
                word.leaves[j + thread] = x
            carry = cuda.shfl_sync(ALL_LANES, x, WARP - 1)
            if thread == 0:
                word.nodes[j // WARP] = carry
    cuda.syncthreads()
    return n


@device
def clear_word(word: Word, model: DeviceModel, row: int, thread: int) -> None:
    """Set φ back to that of a word without counts, once all warps have drawn. All threads of the block call it."""
    cuda.syncthreads()
    for j in range(model.row_ptr[row] + thread, model.row_ptr[row + 1], cuda.blockDim.x):
        k = model.topics[j]
        word.phi[k] = model.prior.base[k]
        word.phi_old[k] = model.prior.base[k]
