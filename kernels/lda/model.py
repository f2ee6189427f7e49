"""What LDA's kernels read and share: the model, a chunk's order, priors, and the word at hand.

Reference implementation: tests/helpers/naive.py, `lda_weights`.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from ..jit import kernel
from ..simd.lanes import LANES
from .counts import MAX_COUNT, MAX_TOPICS, SURPLUS

#: For what a loop over tokens calls: LLVM's own judgement leaves it a call.
inlined = partial(kernel, forceinline=True)


class ModelBlock(NamedTuple):
    """What a sweep reads of the model: B for a block of W words from ``first`` on, and what all blocks share."""

    row_ptr: np.ndarray  # (W + 1,) int64
    topics: np.ndarray  # (nnz,) uint16, ascending inside a row
    counts: np.ndarray  # (nnz,) int32
    first: int  # the block's first word
    totals: np.ndarray  # (K,) int64: N, over all words
    alpha: np.ndarray  # (K,) float32
    beta: float
    n_words: int  # V


class TokenOrder(NamedTuple):
    """The part of a chunk that sampling reads: see the corpus chunk's fields of the same names."""

    doc_ptr: np.ndarray
    group_ptr: np.ndarray
    word_ids: np.ndarray
    word_ptr: np.ndarray
    docs: np.ndarray
    word_to_doc_order: np.ndarray


class PriorTerms(NamedTuple):
    """What follows from totals, alpha and beta, once a call."""

    alpha: np.ndarray  # (K,) float64
    inverse: np.ndarray  # (K,) float64: 1 / (N_k + Vβ)
    lowered: np.ndarray  # (K,) float64: 1 / (N_k - 1 + Vβ), or `inverse` where B keeps the token
    word_factor: np.ndarray  # (K,) float64: α_k / (N_k + Vβ)
    smooth: np.ndarray  # (K + 1,) float64: prefix sums of α_k β / (N_k + Vβ)
    base: np.ndarray  # (K,) float32: β / (N_k + Vβ)
    grain: float  # x + grain - grain is x in steps so coarse that sums of a word's are exact, in any order
    subtract_a: int  # what the token's own count takes away from A: 1 or 0
    subtract_b: int  # the same for B


class WordScratch(NamedTuple):
    """Scratch for the word at hand and the token at hand."""

    phi: np.ndarray  # float32: φ by topic, and again with the SURPLUS bit where a row may have such entries
    phi_old: np.ndarray  # (K,) float32: φ with the token left out, where the word has the topic
    prefix: np.ndarray  # (K + 1,) float64: prefix sums of α_k B_vk / (N_k + Vβ) over the row's entries
    sums: np.ndarray  # float32: running sums of the eight lanes
    surplus: bool


def token_order(chunk) -> TokenOrder:
    """Return a chunk's fields that sampling reads."""
    return read_only_tuple(TokenOrder(*(getattr(chunk, name) for name in TokenOrder._fields)))


def read_only_tuple(arrays):
    """Return a named tuple with read-only views: one compiled kernel serves arrays of any origin."""
    return type(arrays)(*(read_only(a) if isinstance(a, np.ndarray) else a for a in arrays))


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def make_prior(model: ModelBlock, subtract_a: int, subtract_b: int) -> PriorTerms:
    """Derive what a call needs; ``subtract_a``, ``subtract_b``: what a token left out takes from A and B, 1 or 0."""
    mass = model.n_words * model.beta
    alpha = model.alpha.astype(np.float64)
    inverse = 1.0 / (model.totals + mass)
    return PriorTerms(
        alpha=alpha,
        inverse=inverse,
        lowered=1.0 / (np.maximum(model.totals - 1, 0) + mass) if subtract_b else inverse,
        word_factor=alpha * inverse,
        smooth=np.r_[0.0, np.cumsum(alpha * model.beta * inverse)],
        base=(model.beta * inverse).astype(np.float32),
        # A word's masses add up to less than Σ α_k, so in steps of that times 2^-50 to less than 53 bits.
        grain=1.5 * 2.0 ** (np.ceil(np.log2(alpha.sum())) + 2),
        subtract_a=subtract_a,
        subtract_b=subtract_b,
    )


@kernel
def new_word_scratch(doc_ptr, prior):
    """Return scratch for no word yet: ``phi`` (65536,) float32 as for a word without counts."""
    n_topics = len(prior.alpha)
    longest = 0
    for d in range(len(doc_ptr) - 1):
        longest = max(longest, doc_ptr[d + 1] - doc_ptr[d])
    phi = np.zeros(2 * MAX_TOPICS, np.float32)
    phi[:n_topics] = prior.base
    phi[MAX_TOPICS : MAX_TOPICS + n_topics] = prior.base
    sums = np.empty(max(longest, n_topics) + LANES, np.float32)
    return WordScratch(phi, prior.base.copy(), np.zeros(n_topics + 1), sums, longest > MAX_COUNT)


@kernel
def expand_word(word, model, prior, row):
    """Spread a row of B over ``phi`` (K,) float32 and return Σ α_k φ_k, the mass of the prior part."""
    # Local names: an array of a tuple is a counted reference at every use.
    phi, phi_old, prefix, surplus = word.phi, word.phi_old, word.prefix, word.surplus
    topics, counts, beta, left = model.topics, model.counts, model.beta, prior.subtract_b
    inverse, lowered, weight, grain = prior.inverse, prior.lowered, prior.word_factor, prior.grain
    mass = 0.0
    start = model.row_ptr[row]
    for j in range(start, model.row_ptr[row + 1]):
        k = topics[j]
        count = np.float64(counts[j])
        phi[k] = (count + beta) * inverse[k]
        phi_old[k] = (count - left + beta) * lowered[k]
        mass += (weight[k] * count + grain) - grain
        prefix[j - start + 1] = mass
        if surplus:
            phi[k | SURPLUS] = phi[k]
    return prior.smooth[-1] + mass


@kernel
def clear_word(word, model, prior, row):
    """Set ``phi`` (K,) float32 back to that of a word without counts, by the row's non-zeros."""
    phi, phi_old, base, topics, surplus = word.phi, word.phi_old, prior.base, model.topics, word.surplus
    for j in range(model.row_ptr[row], model.row_ptr[row + 1]):
        k = topics[j]
        phi[k] = phi_old[k] = base[k]
        if surplus:
            phi[k | SURPLUS] = base[k]


@kernel
def block_segments(order, group, model):
    """Return the span of a group's block_segments whose words, ascending ``word_ids`` (S,) uint32, are in the block."""
    start, end = order.group_ptr[group], order.group_ptr[group + 1]
    words = order.word_ids[start:end]
    behind = model.first + len(model.row_ptr) - 1
    return start + np.searchsorted(words, model.first), start + np.searchsorted(words, behind)
