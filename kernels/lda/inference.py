"""Applying trained topics to documents: topics' weights θ under a model that stands still.

A document's θ_k = α_k + n_k is the fixed point of expectation-maximisation: each token gives each topic its share,

    n_k = Σ_w c_w θ_k φ_wk / Σ_j θ_j φ_wj,   φ_wk = (B_wk + β) / (N_k + Vβ),

over the document's distinct words w with counts c_w, beginning with θ in proportion to α. What β gives is the same for
all words, so a sweep costs as much as the words' rows of B have entries. Nothing is drawn: a few sweeps come nearer to
the average of very many Gibbs sweeps than twenty of those do.

Reference implementation: tests/helpers/naive.py, `lda_folded_in`.
"""

from typing import NamedTuple

import numpy as np

from ..jit import kernel, vector_kernel
from .model import ModelBlock, inlined, read_only, read_only_tuple

#: Sweeps over a document, at most.
SWEEPS = 50
#: A document is done when a sweep moves no more than this share of its mass.
STILL = np.float32(0.05)
#: Each step is longer by so much than expectation-maximisation's: a quarter of the sweeps fewer.
FURTHER = np.float32(0.5)
ZERO = np.float32(0)


class WordWeights(NamedTuple):
    """What a word's row of B adds to φ, and what β gives to all."""

    row_ptr: np.ndarray  # (W + 1,) int64
    topics: np.ndarray  # (nnz,) uint16
    weights: np.ndarray  # (nnz,) float32: B_wk / (N_k + Vβ)
    base: np.ndarray  # (K,) float32: β / (N_k + Vβ)
    alpha: np.ndarray  # (K,) float32


def word_weights(model: ModelBlock) -> WordWeights:
    """Derive what inference needs of a model that is one block."""
    inverse = 1.0 / (model.totals + model.n_words * model.beta)
    weights = model.counts * inverse.astype(np.float32)[model.topics]
    base = (model.beta * inverse).astype(np.float32)
    return read_only_tuple(
        WordWeights(model.row_ptr, model.topics, weights.astype(np.float32), base, model.alpha.astype(np.float32))
    )


def fold_in(doc_ptr: np.ndarray, words: np.ndarray, rows: WordWeights) -> np.ndarray:
    """Estimate the topics of new documents: ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 in document order.

    Returns (D, K) float32, rows that sum to one, each a function of its document alone; one without tokens is the
    prior's.
    """
    theta = np.empty((len(doc_ptr) - 1, len(rows.alpha)), np.float32)
    _fold_in(read_only(doc_ptr), read_only(words), rows, theta)
    return theta


def score_completion(
    given: tuple[np.ndarray, np.ndarray], scored: tuple[np.ndarray, np.ndarray], rows: WordWeights
) -> float:
    """Sum log Σ_k θ_dk φ_kv over the tokens ``scored`` of documents, θ being that of the tokens ``given``.

    Each is ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 in document order.
    """
    return _score_completion(*map(read_only, (*given, *scored)), rows)


@vector_kernel
def _fold_in(doc_ptr, words, rows, out):
    counts, fresh = np.zeros(len(rows.row_ptr) - 1, np.int32), np.empty(len(rows.alpha), np.float32)
    for d in range(len(doc_ptr) - 1):
        _topics(words[doc_ptr[d] : doc_ptr[d + 1]], rows, counts, fresh, out[d])


@vector_kernel
def _score_completion(doc_ptr, words, scored_ptr, scored, rows):
    counts, fresh = np.zeros(len(rows.row_ptr) - 1, np.int32), np.empty(len(rows.alpha), np.float32)
    theta, total = np.empty_like(fresh), 0.0
    for d in range(len(doc_ptr) - 1):
        _topics(words[doc_ptr[d] : doc_ptr[d + 1]], rows, counts, fresh, theta)
        flat = _flat(theta, rows)
        for v in scored[scored_ptr[d] : scored_ptr[d + 1]]:
            total += np.log(np.float64(_mass(flat, theta, rows, v)))
    return total


@vector_kernel
def _topics(own, rows, counts, fresh, theta):
    """Set θ to the topics of a document of these words, shares of one; ``counts`` are zero before and after."""
    distinct = _count(own, counts)
    prior = rows.alpha.sum()
    mass = prior + len(own)
    theta[:] = rows.alpha * (mass / prior)
    for _ in range(SWEEPS):
        spread = _share(distinct, counts, rows, theta, fresh)
        if _move(theta, fresh, spread, rows) <= STILL * mass:
            break
    theta /= theta.sum()
    for v in distinct:
        counts[v] = 0


@vector_kernel
def _count(own, counts):
    """Count a document's words; return those that it has, in the order in which they come."""
    distinct, n = np.empty(len(own), np.uint32), 0
    for v in own:
        if counts[v] == 0:
            distinct[n] = v
            n += 1
        counts[v] += 1
    return distinct[:n]


@vector_kernel
def _share(distinct, counts, rows, theta, fresh):
    """Set ``fresh`` (K,) to Σ c_w B_wk / (N_k + Vβ) / Σ_j θ_j φ_wj; return the sum of its factors without B."""
    row_ptr, topics, weights = rows.row_ptr, rows.topics, rows.weights
    flat, spread = _flat(theta, rows), ZERO
    fresh[:] = 0
    for v in distinct:
        share = np.float32(counts[v]) / _mass(flat, theta, rows, v)
        spread += share
        for j in range(np.uint64(row_ptr[v]), np.uint64(row_ptr[v + 1])):
            fresh[topics[j]] += share * weights[j]
    return spread


@inlined
def _flat(theta, rows):
    """Return what β gives to every word: Σ_k θ_k β / (N_k + Vβ)."""
    flat = ZERO
    for k in range(len(theta)):
        flat += theta[k] * rows.base[k]
    return flat


@inlined
def _mass(flat, theta, rows, v):
    """Return Σ_k θ_k φ_vk, as four sums, none of which waits for another."""
    topics, weights = rows.topics, rows.weights
    one, two, three, four = flat, ZERO, ZERO, ZERO
    # Unsigned: a signed index could count from the end, which is asked at every use.
    j, end = np.uint64(rows.row_ptr[v]), np.uint64(rows.row_ptr[v + 1])
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
def _move(theta, fresh, spread, rows):
    """Step beyond α + n, and return how far away that was."""
    alpha, base, moved = rows.alpha, rows.base, ZERO
    for k in range(len(theta)):
        step = alpha[k] + theta[k] * (fresh[k] + spread * base[k]) - theta[k]
        moved += abs(step)
        theta[k] = max(alpha[k], theta[k] + (1 + FURTHER) * step)
    return moved


@kernel
def copy_ranges(topics, counts, starts, to_topics, to_counts, places, lengths):
    """Copy ranges of sparse rows: ``starts``, ``places`` and ``lengths`` are (R,) int64."""
    for r in range(len(starts)):
        for j in range(lengths[r]):
            to_topics[places[r] + j] = topics[starts[r] + j]
            to_counts[places[r] + j] = counts[starts[r] + j]
