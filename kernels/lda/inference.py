"""Applying trained topics to documents: the topic weights θ of a document under a model that does not change.

θ_k = α_k + n_k is the fixed point of expectation-maximisation, in which each token gives each topic a share:

    n_k = Σ_w c_w θ_k φ_wk / Σ_j θ_j φ_wj,    φ_wk = (B_wk + β) / (N_k + Vβ)

over the document's distinct words w with counts c_w, starting at θ in proportion to α. Source: the MAP
algorithm of Asuncion et al., "On smoothing and inference for topic models" (UAI 2009), with α in place of α - 1.
Nothing is drawn, so a row depends only on its document. A few sweeps come nearer to the mean of very many Gibbs sweeps
than twenty Gibbs sweeps do.

Layout: the part of φ that β gives is the same for all words, so a sweep costs as much as the words' rows of B have
entries. Those rows are scaled once by 1 / (N_k + Vβ), see `WordWeights`.

Reference implementation: tests/helpers/naive.py, `lda_folded_in`.
"""

from typing import NamedTuple

import numpy as np

from .. import random
from ..jit import kernel, read_only, read_only_tuple, vector_kernel
from ..search import rank
from .model import ModelBlock, inlined

#: Sweeps over a document, at most.
MAX_SWEEPS = 50
#: Sweeps end when one moves no more than this share of the document's mass.
TOLERANCE = np.float32(0.05)
#: Each step is longer than that of expectation-maximisation by this share, which saves a quarter of the sweeps.
OVERSTEP = np.float32(0.5)
ZERO = np.float32(0)


class WordWeights(NamedTuple):
    """φ in two parts: the entries of each word's row of B, and what β gives to all words."""

    row_ptr: np.ndarray  # (W + 1,) int64
    topics: np.ndarray  # (nnz,) uint16
    weights: np.ndarray  # (nnz,) float32: B_wk / (N_k + Vβ)
    base: np.ndarray  # (K,) float32: β / (N_k + Vβ)
    alpha: np.ndarray  # (K,) float32


def word_weights(model: ModelBlock) -> WordWeights:
    """Compute both parts of φ for a model with a single block."""
    inverse = 1.0 / (model.totals + model.n_words * model.beta)
    weights = model.counts * inverse.astype(np.float32)[model.topics]
    base = (model.beta * inverse).astype(np.float32)
    alpha = model.alpha.astype(np.float32)
    return read_only_tuple(WordWeights(model.row_ptr, model.topics, weights.astype(np.float32), base, alpha))


def fold_in(doc_ptr: np.ndarray, words: np.ndarray, rows: WordWeights) -> np.ndarray:
    """Estimate the topics of new documents: ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 in document order.

    Returns (D, K) float32, whose rows sum to one. The row of an empty document is that of the prior.
    """
    theta = np.empty((len(doc_ptr) - 1, len(rows.alpha)), np.float32)
    _fold_in(read_only(doc_ptr), read_only(words), rows, theta)
    return theta


def score_completion(
    given: tuple[np.ndarray, np.ndarray], scored: tuple[np.ndarray, np.ndarray], rows: WordWeights
) -> float:
    """Sum log Σ_k θ_dk φ_kv over the tokens ``scored`` of documents, with θ estimated from their tokens ``given``.

    Each argument is ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 in document order.
    """
    return _score_completion(*map(read_only, (*given, *scored)), rows)


@vector_kernel
def _fold_in(doc_ptr: np.ndarray, words: np.ndarray, rows: WordWeights, out: np.ndarray) -> None:
    counts = np.zeros(len(rows.row_ptr) - 1, np.int32)
    fresh = np.empty(len(rows.alpha), np.float32)
    for d in range(len(doc_ptr) - 1):
        _topics(words[doc_ptr[d] : doc_ptr[d + 1]], rows, counts, fresh, out[d])


@vector_kernel
def _score_completion(
    doc_ptr: np.ndarray, words: np.ndarray, scored_ptr: np.ndarray, scored: np.ndarray, rows: WordWeights
) -> float:
    counts = np.zeros(len(rows.row_ptr) - 1, np.int32)
    fresh = np.empty(len(rows.alpha), np.float32)
    theta = np.empty_like(fresh)
    total = 0.0
    for d in range(len(doc_ptr) - 1):
        _topics(words[doc_ptr[d] : doc_ptr[d + 1]], rows, counts, fresh, theta)
        flat = _flat(theta, rows)
        for v in scored[scored_ptr[d] : scored_ptr[d + 1]]:
            # float32 is exact enough for one token, but not for the sum over millions.
            total += np.log(np.float64(_mass(flat, theta, rows, v)))
    return total


@vector_kernel
def _topics(own: np.ndarray, rows: WordWeights, counts: np.ndarray, fresh: np.ndarray, theta: np.ndarray) -> None:
    """Set θ (K,) to the topic shares of a document with these words (n,); ``counts`` (W,) are zero before and after."""
    distinct = _count(own, counts)
    prior = rows.alpha.sum()
    mass = prior + len(own)
    # Start from the prior, scaled to the mass of a document with these tokens.
    theta[:] = rows.alpha * (mass / prior)
    for _ in range(MAX_SWEEPS):
        spread = _share(distinct, counts, rows, theta, fresh)
        if _move(theta, fresh, spread, rows) <= TOLERANCE * mass:
            break
    theta /= theta.sum()
    for v in distinct:
        counts[v] = 0


@vector_kernel
def _count(own: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Count a document's words; return its distinct words in the order of their first tokens."""
    distinct = np.empty(len(own), np.uint32)
    n = 0
    for v in own:
        if counts[v] == 0:
            distinct[n] = v
            n += 1
        counts[v] += 1
    return distinct[:n]


@vector_kernel
def _share(
    distinct: np.ndarray, counts: np.ndarray, rows: WordWeights, theta: np.ndarray, fresh: np.ndarray
) -> np.float32:
    """Set ``fresh`` (K,) to Σ_w s_w B_wk / (N_k + Vβ) with s_w = c_w / Σ_j θ_j φ_wj; return Σ_w s_w."""
    row_ptr = rows.row_ptr
    topics = rows.topics
    weights = rows.weights
    flat = _flat(theta, rows)
    spread = ZERO
    fresh[:] = 0
    for v in distinct:
        share = np.float32(counts[v]) / _mass(flat, theta, rows, v)
        spread += share
        for j in range(np.uint64(row_ptr[v]), np.uint64(row_ptr[v + 1])):
            fresh[topics[j]] += share * weights[j]
    return spread


@inlined
def _flat(theta: np.ndarray, rows: WordWeights) -> np.float32:
    """Return what β gives to every word: Σ_k θ_k β / (N_k + Vβ)."""
    flat = ZERO
    for k in range(len(theta)):
        flat += theta[k] * rows.base[k]
    return flat


@inlined
def _mass(flat: np.float32, theta: np.ndarray, rows: WordWeights, v: int) -> np.float32:
    """Return Σ_k θ_k φ_vk. Four partial sums let the processor start an addition before the previous one ends."""
    topics = rows.topics
    weights = rows.weights
    one = flat
    two = ZERO
    three = ZERO
    four = ZERO
    # Unsigned, because a signed index may count from the end, which numba tests at every access.
    j = np.uint64(rows.row_ptr[v])
    end = np.uint64(rows.row_ptr[v + 1])
    while j + np.uint64(4) <= end:
        one += theta[topics[j]] * weights[j]
        two += theta[topics[j + np.uint64(1)]] * weights[j + np.uint64(1)]
        three += theta[topics[j + np.uint64(2)]] * weights[j + np.uint64(2)]
        four += theta[topics[j + np.uint64(3)]] * weights[j + np.uint64(3)]
        j += np.uint64(4)
    while j < end:
        one += theta[topics[j]] * weights[j]
        j += np.uint64(1)
    return (one + two) + (three + four)


@vector_kernel
def _move(theta: np.ndarray, fresh: np.ndarray, spread: np.float32, rows: WordWeights) -> np.float32:
    """Move θ (K,) float32 to its next estimate α + n and OVERSTEP times as far again, but never below α.

    Return Σ_k |α_k + n_k - θ_k|, the distance before the step, with which convergence is tested.
    """
    alpha = rows.alpha
    base = rows.base
    moved = ZERO
    for k in range(len(theta)):
        step = alpha[k] + theta[k] * (fresh[k] + spread * base[k]) - theta[k]
        moved += abs(step)
        theta[k] = max(alpha[k], theta[k] + (1 + OVERSTEP) * step)
    return moved


# --- the likelihood of a whole document, estimated by particles from left to right ---

#     p(w) ≈ Π_n (1/R) Σ_r Σ_k φ_{w_n, k} (n_k^(r) + α_k) / (n + Σ α)
#
# where particle r has drawn topics for the first n words, and n_k^(r) counts them. Before each word, a particle draws
# the topics of all earlier words again. Source: Wallach, Murray, Salakhutdinov and Mimno, "Evaluation methods for topic
# models" (ICML 2009), algorithm 3. The cost grows with the square of the document's length, so this is for small sets
# of documents. Reference implementation: tests/helpers/naive.py, `lda_left_to_right`.


@kernel
def left_to_right(words: np.ndarray, phi: np.ndarray, alpha: np.ndarray, key: np.uint64, particles: int) -> float:
    """Estimate log p(words) of one document.

    ``words`` (T,) int64 are rows of ``phi`` (W, K) float64, the probability of each word under each topic; ``alpha``
    (K,) float64. Particle r takes the draws of the stream ``random.draw(key, r)`` in turn.
    """
    likelihood = np.zeros(len(words))
    ends = np.empty(len(alpha))
    total = alpha.sum()
    for r in range(particles):
        stream = random.draw(key, r)
        taken = 0
        z = np.empty(len(words), np.int64)
        counts = np.zeros(len(alpha), np.int64)
        for n in range(len(words)):
            # Draw the topics of all earlier words again, given the other topics so far (Wallach et al., Algorithm 3).
            for i in range(n):
                counts[z[i]] -= 1
                _accumulate(phi[words[i]], alpha, counts, ends)
                z[i] = _draw(ends, random.uniform64(stream, taken))
                counts[z[i]] += 1
                taken += 1
            likelihood[n] += _accumulate(phi[words[n]], alpha, counts, ends) / (total + n)
            # `ends` still has the distribution of word n, which the line above scored.
            z[n] = _draw(ends, random.uniform64(stream, taken))
            counts[z[n]] += 1
            taken += 1
    return np.log(likelihood / particles).sum()


@kernel
def _accumulate(phi: np.ndarray, alpha: np.ndarray, counts: np.ndarray, ends: np.ndarray) -> float:
    """Write the prefix sums of (n_k + α_k) φ_k to ``ends`` (K,); return the last one."""
    mass = 0.0
    for k in range(len(alpha)):
        mass += (counts[k] + alpha[k]) * phi[k]
        ends[k] = mass
    return mass


@kernel
def _draw(ends: np.ndarray, u: float) -> int:
    """Return the topic that a uniform number u falls on."""
    return min(rank(ends, len(ends), u * ends[-1]), len(ends) - 1)
