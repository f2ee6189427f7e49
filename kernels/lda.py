"""Latent Dirichlet allocation by ESCA: every token's topic is drawn given the counts of the last epoch.

Source: SaberLDA (Li et al., ASPLOS 2017), sections 2 and 3, equation (1):

    p(k) ∝ (A_dk + α_k) (B_vk + β) / (N_k + Vβ)

By default the token's own old topic is lowered by one in A, B and N (which ESCA as published does not do).

The line that a uniform number points into has two parts. First the prior part, α_k φ_k, in three pieces: the old
topic; what every topic has from β, topics ascending; what the word's own counts add, topics ascending. Then the
document part, A_dk φ_k, over the packed entries of the document's row dealt to eight lanes: entries 0, 8, 16, ...,
then 1, 9, 17, ... and so on. φ_k = (B_vk + β) / (N_k + Vβ).
"""

from typing import NamedTuple

import numpy as np

from . import random
from .jit import kernel
from .lda_counts import Counts, Rows, count_documents, count_words, merge_counts, topic_totals

__all__ = [
    "Counts",
    "Model",
    "Rows",
    "completion",
    "count_documents",
    "count_words",
    "fold_in",
    "initial",
    "log_likelihood",
    "merge_counts",
    "sample",
    "topic_totals",
]

LANES = 8
SIXTEEN = np.uint32(16)
LOW = np.uint32(0xFFFF)


class Model(NamedTuple):
    """What a sweep reads of the model: B for a block of W words from ``first`` on, and what all blocks share."""

    row_ptr: np.ndarray  # (W + 1,) int64
    topics: np.ndarray  # (nnz,) uint16, ascending inside a row
    counts: np.ndarray  # (nnz,) int32
    first: int  # the block's first word
    totals: np.ndarray  # (K,) int64: N, over all words
    alpha: np.ndarray  # (K,) float32
    beta: float
    n_words: int  # V


class Prior(NamedTuple):
    """What follows from totals, alpha and beta once a call."""

    alpha: np.ndarray  # (K,) float64
    inverse: np.ndarray  # (K,) float64: 1 / (N_k + Vβ)
    lowered: np.ndarray  # (K,) float64: 1 / (N_k - 1 + Vβ), or `inverse` where tokens stay in
    smooth: np.ndarray  # (K + 1,) float64: prefix sums of α_k β / (N_k + Vβ)


class Word(NamedTuple):
    """Scratch for the word at hand."""

    phi: np.ndarray  # (K,) float32: (B_vk + β) / (N_k + Vβ)
    phi_old: np.ndarray  # (K,) float32: the same with the token left out, where the word has the topic
    prefix: np.ndarray  # (K + 1,) float64: prefix sums of α_k B_vk / (N_k + Vβ) over the row's entries


def sample(chunk, rows: Rows, model: Model, z: np.ndarray, key: np.uint64, leave_out=True, out=None) -> np.ndarray:
    """Draw the next topics of a chunk's tokens whose words lie in the model's block.

    ``chunk`` has the fields of a corpus chunk, ``rows`` are its documents' counts of ``z`` (T,) uint16 in word order;
    the draw of token i in word order is ``random.uniform64(key, i)``. Returns (T,) uint16: ``out``, which keeps what
    other blocks drew, or a copy of ``z``.
    """
    out = z.copy() if out is None else out
    _sample(_tokens(chunk), rows, model, _prior(model, leave_out), z, key, leave_out, out)
    return out


def initial(chunk, model: Model, key: np.uint64, out: np.ndarray | None = None) -> np.ndarray:
    """Draw first topics from p(k) ∝ α_k (B_vk + β) / (N_k + Vβ), for tokens whose words lie in the model's block.

    Uniform where the model is empty and alpha symmetric. ``out`` (T,) uint16 keeps what other blocks drew.
    """
    out = np.zeros(len(chunk.docs), np.uint16) if out is None else out
    _initial(_tokens(chunk), model, _prior(model, False), key, out)
    return out


def log_likelihood(chunk, rows: Rows, model: Model) -> float:
    """Sum log p(token) over a chunk's tokens whose words lie in the model's block, from the counts of their topics.

    The sum over blocks and chunks is the log of equation 2.3 of Moon's dissertation (2019); divided by the tokens,
    equation 2.4.
    """
    return _log_likelihood(_tokens(chunk), rows, model, _prior(model, False), np.diff(chunk.doc_ptr))


class _Tokens(NamedTuple):
    word_ids: np.ndarray
    word_ptr: np.ndarray
    docs: np.ndarray


def _tokens(chunk) -> _Tokens:
    return _Tokens(chunk.word_ids, chunk.word_ptr, chunk.docs)


def _prior(model: Model, leave_out: bool) -> Prior:
    mass = model.n_words * model.beta
    alpha = model.alpha.astype(np.float64)
    inverse = 1.0 / (model.totals + mass)
    lowered = 1.0 / (np.maximum(model.totals - 1, 0) + mass) if leave_out else inverse
    return Prior(alpha, inverse, lowered, np.r_[0.0, np.cumsum(alpha * model.beta * inverse)])


@kernel
def _new_word(model, prior):
    n_topics = len(model.alpha)
    phi = np.empty(n_topics, np.float32)
    for k in range(n_topics):
        phi[k] = model.beta * prior.inverse[k]
    return Word(phi, phi.copy(), np.zeros(n_topics + 1))


@kernel
def _expand(word, model, prior, row, left):
    """Spread a row of B over K floats; ``left`` is what the token's own count takes away: 1 or 0."""
    mass = 0.0
    start = model.row_ptr[row]
    for j in range(start, model.row_ptr[row + 1]):
        k = model.topics[j]
        count = model.counts[j]
        word.phi[k] = (count + model.beta) * prior.inverse[k]
        word.phi_old[k] = (count - left + model.beta) * prior.lowered[k]
        mass += prior.alpha[k] * count * prior.inverse[k]
        word.prefix[j - start + 1] = mass


@kernel
def _clear(word, model, prior, row):
    for k in model.topics[model.row_ptr[row] : model.row_ptr[row + 1]]:
        word.phi[k] = model.beta * prior.inverse[k]


@kernel
def _sample(tokens, rows, model, prior, z, key, leave_out, out):
    left = 1 if leave_out else 0
    word = _new_word(model, prior)
    products = np.empty(longest_row(rows.row_ptr) + LANES, np.float32)
    for s in range(len(tokens.word_ids)):
        row = np.int64(tokens.word_ids[s]) - model.first
        if row < 0 or row >= len(model.row_ptr) - 1:
            continue
        _expand(word, model, prior, row, left)
        length = model.row_ptr[row + 1] - model.row_ptr[row]
        prior_mass = prior.smooth[-1] + word.prefix[length]
        for i in range(tokens.word_ptr[s], tokens.word_ptr[s + 1]):
            old = z[i]
            d = tokens.docs[i]
            entries = rows.entries[rows.row_ptr[d] : rows.row_ptr[d + 1]]
            own = prior.alpha[old] * np.float64(word.phi_old[old])
            others = prior_mass - prior.alpha[old] * np.float64(word.phi[old])
            lanes = _products(entries, word, old, left, products)
            x = random.uniform64(key, i) * (own + others + _total(lanes))
            if x < own:
                out[i] = old
            elif x < own + others:
                out[i] = _draw_prior(x - own, word, model, prior, row, old)
            else:
                out[i] = entries[_find(x - own - others, products, lanes, len(entries))] >> SIXTEEN
        _clear(word, model, prior, row)


@kernel
def longest_row(row_ptr):
    """Return the largest number of entries of a row."""
    longest = 0
    for d in range(len(row_ptr) - 1):
        longest = max(longest, row_ptr[d + 1] - row_ptr[d])
    return longest


@kernel
def _products(entries, word, old, left, products):
    """Multiply a row of A by φ and return the sums of the eight lanes; ``products`` keeps running sums."""
    lanes = np.zeros(LANES, np.float32)
    for j in range(len(entries)):
        k = entries[j] >> SIXTEEN
        count = np.float32(entries[j] & LOW)
        phi = word.phi[k]
        if k == old:
            count -= np.float32(left)
            phi = word.phi_old[k]
        lanes[j % LANES] += count * phi
        products[j] = lanes[j % LANES]
    return lanes


@kernel
def _total(lanes):
    total = 0.0
    for lane in lanes:
        total += lane
    return total


@kernel
def _find(x, products, lanes, n):
    lane = 0
    while lane < LANES - 1 and x >= lanes[lane]:
        x -= lanes[lane]
        lane += 1
    j = lane
    while j + LANES < n and x >= products[j]:
        j += LANES
    return min(j, n - 1)


@kernel
def _draw_prior(x, word, model, prior, row, old):
    """Draw from α_k φ_k over all topics but the old one."""
    start, end = model.row_ptr[row], model.row_ptr[row + 1]
    smooth = prior.smooth[-1] - (prior.smooth[old + 1] - prior.smooth[old])
    if x < smooth or start == end:
        x += prior.smooth[old + 1] - prior.smooth[old] if x >= prior.smooth[old] else 0.0
        return min(np.searchsorted(prior.smooth[1:], x, "right"), len(prior.alpha) - 1)
    x -= smooth
    prefix = word.prefix[: end - start + 1]
    j = np.searchsorted(model.topics[start:end], old)
    if j < end - start and model.topics[start + j] == old and x >= prefix[j]:
        x += prefix[j + 1] - prefix[j]
    return np.int64(model.topics[start + min(np.searchsorted(prefix[1:], x, "right"), end - start - 1)])


@kernel
def _initial(tokens, model, prior, key, out):
    word = _new_word(model, prior)
    smooth = prior.smooth[-1]
    for s in range(len(tokens.word_ids)):
        row = np.int64(tokens.word_ids[s]) - model.first
        if row < 0 or row >= len(model.row_ptr) - 1:
            continue
        _expand(word, model, prior, row, 0)
        start, end = model.row_ptr[row], model.row_ptr[row + 1]
        prefix = word.prefix[: end - start + 1]
        for i in range(tokens.word_ptr[s], tokens.word_ptr[s + 1]):
            x = random.uniform64(key, i) * (smooth + prefix[-1])
            if x < smooth or start == end:
                out[i] = min(np.searchsorted(prior.smooth[1:], x, "right"), len(prior.alpha) - 1)
            else:
                j = np.searchsorted(prefix[1:], x - smooth, "right")
                out[i] = model.topics[start + min(j, end - start - 1)]
        _clear(word, model, prior, row)


@kernel
def _log_likelihood(tokens, rows, model, prior, lengths):
    word = _new_word(model, prior)
    products = np.empty(longest_row(rows.row_ptr) + LANES, np.float32)
    alpha = prior.alpha.sum()
    total = 0.0
    for s in range(len(tokens.word_ids)):
        row = np.int64(tokens.word_ids[s]) - model.first
        if row < 0 or row >= len(model.row_ptr) - 1:
            continue
        _expand(word, model, prior, row, 0)
        prior_mass = prior.smooth[-1] + word.prefix[model.row_ptr[row + 1] - model.row_ptr[row]]
        for d in tokens.docs[tokens.word_ptr[s] : tokens.word_ptr[s + 1]]:
            entries = rows.entries[rows.row_ptr[d] : rows.row_ptr[d + 1]]
            mass = prior_mass + _total(_products(entries, word, len(prior.alpha), 0, products))
            total += np.log(mass / (lengths[d] + alpha))
        _clear(word, model, prior, row)
    return total


def fold_in(doc_ptr: np.ndarray, words: np.ndarray, model: Model, iterations: int, keys: np.ndarray) -> np.ndarray:
    """Estimate the topics of new documents under a fixed model.

    ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 in document order, all inside the model's block; ``keys`` (D,)
    uint64, one a document, so that a document's result does not depend on its company. Returns (D, K) float32, rows
    that sum to one: A + α averaged over the second half of the sweeps. A document without tokens gets the prior.
    """
    return _fold_in(doc_ptr, words, model, _prior(model, False), iterations, keys)


@kernel
def _fold_in(doc_ptr, words, model, prior, iterations, keys):
    n_topics = len(prior.alpha)
    theta = np.zeros((len(doc_ptr) - 1, n_topics), np.float32)
    weights, count = np.empty(n_topics), np.empty(n_topics)
    for d in range(len(doc_ptr) - 1):
        tokens = words[doc_ptr[d] : doc_ptr[d + 1]]
        z = np.zeros(len(tokens), np.int64)
        count[:] = 0
        for t in range(iterations + 1):
            for i in range(len(tokens)):
                row = np.int64(tokens[i]) - model.first
                if t > 0:
                    count[z[i]] -= 1
                total = 0.0
                j, end = model.row_ptr[row], model.row_ptr[row + 1]
                for k in range(n_topics):
                    b = 0
                    if j < end and model.topics[j] == k:
                        b = model.counts[j]
                        j += 1
                    total += (count[k] + prior.alpha[k]) * (b + model.beta) * prior.inverse[k]
                    weights[k] = total
                x = random.uniform64(keys[d], t * len(tokens) + i) * total
                z[i] = min(np.searchsorted(weights, x, "right"), n_topics - 1)
                count[z[i]] += 1
            if 2 * t > iterations:
                theta[d] += count
        sweeps = iterations - iterations // 2
        theta[d] = theta[d] / sweeps + prior.alpha
        theta[d] /= theta[d].sum()
    return theta


def completion(theta: np.ndarray, model: Model, doc_ptr: np.ndarray, words: np.ndarray) -> tuple[float, int]:
    """Score the other half of held-out documents: the sum of log Σ_k θ_dk φ_kv over tokens, and their number.

    ``theta`` (D, K) float32, ``doc_ptr`` (D + 1,) int64 and ``words`` (T,) uint32 in document order.
    """
    return _completion(theta, model, _prior(model, False), doc_ptr, words), len(words)


@kernel
def _completion(theta, model, prior, doc_ptr, words):
    word = _new_word(model, prior)
    total = 0.0
    for d in range(len(doc_ptr) - 1):
        smooth = 0.0
        for k in range(theta.shape[1]):
            smooth += theta[d, k] * model.beta * prior.inverse[k]
        for v in words[doc_ptr[d] : doc_ptr[d + 1]]:
            row = np.int64(v) - model.first
            mass = smooth
            for j in range(model.row_ptr[row], model.row_ptr[row + 1]):
                k = model.topics[j]
                mass += theta[d, k] * model.counts[j] * prior.inverse[k]
            total += np.log(mass)
    return total
