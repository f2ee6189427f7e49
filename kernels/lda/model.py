"""Data that the LDA samplers share: a block of the model, a chunk's order, terms of the priors, and one word's φ.

With A the counts of topics per document, B those per word, N_k = Σ_v B_vk, and V words, all samplers draw from

    p(k) ∝ (A_dk + α_k) φ_vk,    φ_vk = (B_vk + β) / (N_k + Vβ)

Source: SaberLDA (Li et al., ASPLOS 2017), equation (1).

Layout: a row of B is sparse, but a draw looks up φ at the topics of a document. So φ of one word is expanded to a dense
array, used for all tokens of the word in one group of documents, and reset entry by entry (`expand_word`,
`clear_word`).

Reference implementation: tests/helpers/naive.py, `lda_weights`.
"""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..chunk import Chunk
from ..jit import kernel, read_only_tuple
from ..simd.lanes import LANES
from .counts import MAX_COUNT, MAX_TOPICS, SURPLUS

#: For functions inside a loop over tokens, which LLVM by its own judgement would not inline.
inlined = partial(kernel, forceinline=True)


class ModelBlock(NamedTuple):
    """The model as one sweep reads it: B for a block of W consecutive words, and the arrays that all blocks share."""

    row_ptr: np.ndarray  # (W + 1,) int64
    topics: np.ndarray  # (nnz,) uint16, ascending inside a row
    counts: np.ndarray  # (nnz,) int32
    first: int  # the first word of the block
    totals: np.ndarray  # (K,) int64: N, over all words
    alpha: np.ndarray  # (K,) float32
    beta: float
    n_words: int  # V


class TokenOrder(NamedTuple):
    """The fields of a chunk that sampling reads; see `kernels.chunk.Chunk`."""

    doc_ptr: np.ndarray
    group_ptr: np.ndarray
    word_ids: np.ndarray
    word_ptr: np.ndarray
    docs: np.ndarray
    word_to_doc_order: np.ndarray


class PriorTerms(NamedTuple):
    """Terms of the equation that do not depend on the word, computed once per call."""

    alpha: np.ndarray  # (K,) float64
    inverse: np.ndarray  # (K,) float64: 1 / (N_k + Vβ)
    lowered: np.ndarray  # (K,) float64: 1 / (N_k - 1 + Vβ) if the token is left out of B and N, else `inverse`
    word_factor: np.ndarray  # (K,) float64: α_k / (N_k + Vβ)
    smooth: np.ndarray  # (K + 1,) float64: prefix sums of α_k β / (N_k + Vβ)
    base: np.ndarray  # (K,) float32: β / (N_k + Vβ), the φ_k of a word without counts
    grain: float  # x + grain - grain rounds x so coarsely that the sums of a word are exact, in any order
    subtract_a: int  # 1 if a token is left out of A, else 0
    subtract_b: int  # 1 if a token is left out of B and N, else 0


class WordScratch(NamedTuple):
    """Arrays for the current word and the current token."""

    phi: np.ndarray  # (2 MAX_TOPICS,) float32: φ by topic; the second half is for topics with the SURPLUS bit
    phi_old: np.ndarray  # (K,) float32: φ without the current token, valid for topics that the word has
    prefix: np.ndarray  # (K + 1,) float64: prefix sums of α_k B_vk / (N_k + Vβ) over the entries of the word's row
    products: np.ndarray  # float32: A_dk φ_k of the entries of the current document's row
    sums: np.ndarray  # float32: running sums of the eight lanes
    surplus: bool  # whether a row of A may have entries with the SURPLUS bit


def token_order(chunk: Chunk | TokenOrder) -> TokenOrder:
    """Return read-only views of the fields of a chunk that sampling reads."""
    order = TokenOrder(
        chunk.doc_ptr, chunk.group_ptr, chunk.word_ids, chunk.word_ptr, chunk.docs, chunk.word_to_doc_order
    )
    return read_only_tuple(order)


def make_prior(model: ModelBlock, subtract_a: int, subtract_b: int) -> PriorTerms:
    """Return the terms of the draws that depend only on the topic, not on the word or the document.

    ``subtract_a`` and ``subtract_b`` are 1 if a token is left out of A and of B, else 0.
    """
    mass = model.n_words * model.beta
    alpha = model.alpha.astype(np.float64)
    inverse = 1.0 / (model.totals + mass)
    lowered = inverse
    if subtract_b:
        lowered = 1.0 / (np.maximum(model.totals - 1, 0) + mass)
    return PriorTerms(
        alpha=alpha,
        inverse=inverse,
        lowered=lowered,
        word_factor=alpha * inverse,
        smooth=np.r_[0.0, np.cumsum(alpha * model.beta * inverse)],
        base=(model.beta * inverse).astype(np.float32),
        # The masses of a word add up to less than Σ α_k. In multiples of 2^-50 times that sum they need less than the
        # 53 bits of a float64, so no addition rounds. CUDA kernels add in another order and get the same bits.
        grain=1.5 * 2.0 ** (np.ceil(np.log2(alpha.sum())) + 2),
        subtract_a=subtract_a,
        subtract_b=subtract_b,
    )


def new_word_scratch(doc_ptr: np.ndarray, prior: PriorTerms) -> WordScratch:
    """Return scratch in which ``phi`` (65536,) float32 is that of a word without counts.

    Not compiled: numba takes longer to compile an assignment to a slice than any of the samplers.
    """
    n_topics = len(prior.alpha)
    longest = int(np.diff(doc_ptr).max(initial=0))
    phi = np.zeros(2 * MAX_TOPICS, np.float32)
    phi[:n_topics] = prior.base
    # The upper half is for surplus entries, whose topics have the bit SURPLUS set.
    phi[MAX_TOPICS : MAX_TOPICS + n_topics] = prior.base
    products = np.empty(longest + LANES, np.float32)
    sums = np.empty(max(longest, n_topics) + LANES, np.float32)
    return WordScratch(phi, prior.base.copy(), np.zeros(n_topics + 1), products, sums, longest > MAX_COUNT)


@kernel
def expand_word(word: WordScratch, model: ModelBlock, prior: PriorTerms, row: int) -> float:
    """Write φ of one row of B to ``phi`` (K,) float32; return Σ α_k φ_k, the mass of the prior part."""
    # Local names, because each access to an array inside a tuple changes its reference count.
    phi = word.phi
    phi_old = word.phi_old
    prefix = word.prefix
    surplus = word.surplus
    topics = model.topics
    counts = model.counts
    beta = model.beta
    subtract = prior.subtract_b
    inverse = prior.inverse
    lowered = prior.lowered
    weight = prior.word_factor
    grain = prior.grain
    mass = 0.0
    start = model.row_ptr[row]
    for j in range(start, model.row_ptr[row + 1]):
        k = topics[j]
        count = np.float64(counts[j])
        phi[k] = (count + beta) * inverse[k]
        phi_old[k] = (count - subtract + beta) * lowered[k]
        mass += (weight[k] * count + grain) - grain
        prefix[j - start + 1] = mass
        if surplus:
            phi[k | SURPLUS] = phi[k]
    return prior.smooth[-1] + mass


@kernel
def clear_word(word: WordScratch, model: ModelBlock, prior: PriorTerms, row: int) -> None:
    """Reset ``phi`` (K,) float32 to that of a word without counts, only at the topics of the row."""
    phi = word.phi
    phi_old = word.phi_old
    base = prior.base
    topics = model.topics
    surplus = word.surplus
    for j in range(model.row_ptr[row], model.row_ptr[row + 1]):
        k = topics[j]
        phi[k] = phi_old[k] = base[k]
        if surplus:
            phi[k | SURPLUS] = base[k]


def block_segments(order: TokenOrder, model: ModelBlock) -> np.ndarray:
    """Return the segments of each group whose words are in the model's block: (G, 2) int64, first and one after last.

    ``word_ids`` (S,) uint32 ascend inside a group.
    """
    words = [model.first, model.first + len(model.row_ptr) - 1]
    bounds = np.empty((len(order.group_ptr) - 1, 2), np.int64)
    for group, (start, end) in enumerate(pairwise(order.group_ptr.tolist())):
        bounds[group] = start + np.searchsorted(order.word_ids[start:end], words)
    return bounds
