"""Latent Dirichlet allocation by Metropolis-Hastings in two orders: a token costs the same whatever the topics.

Source: WarpLDA (Chen et al., VLDB 2016), sections 4 and 5. The target is SaberLDA's equation (1) given the counts of
the last epoch, the token itself left out of them:

    p(k) ∝ (A_dk + α_k) (B_vk + β) / (N_k + Vβ)

One sweep makes two steps, both of which leave p unchanged as long as its counts stand:

1. in word order, propose k' from q(k) ∝ B_vk + β; in document order, accept it with probability
   min(1, (A_dk' + α_k') (N_k + Vβ) / ((A_dk + α_k) (N_k' + Vβ))): B cancels;
2. in document order, propose k' from q(k) ∝ A_dk + α_k, A counted from what step 1 has left; in word order, accept it
   with probability min(1, (B_vk' + β) (N_k + Vβ) / ((B_vk + β) (N_k' + Vβ))): A cancels.

Topic and proposal of a token share one uint32 in document order: the two passes in word order write and read it
through ``place``, one cache line a token each, asked for ahead. B and N are the model of the last epoch, over all
chunks; A is the chunk's own. So nothing depends on what other chunks do in the same epoch. Unlike WarpLDA, the token
is left out of the counts that propose and that accept, and no proposal outlives its sweep.
"""

from typing import NamedTuple

import numpy as np

from . import random
from .jit import kernel
from .lda_model import Model, frozen, order_of, read_only, segments
from .vector import prefetch

#: Tokens between the prefetch of a token's word and its use.
AHEAD = 16
#: Tokens of a word of which a line is written out, at most: one that stays in the second cache.
LINE = 1 << 16
#: Draws a token takes: word proposal, its acceptance, document proposal, its acceptance.
DRAWS = 4
TOPIC, LOW = np.uint32(16), np.uint32(0xFFFF)


class Prior(NamedTuple):
    """What follows from totals, alpha and beta, once a call."""

    alpha: np.ndarray  # (K,) float64
    ends: np.ndarray  # (K,) float64: prefix sums of alpha
    flat: float  # 1 / alpha where all are equal, else 0
    beta: float
    norm: np.ndarray  # (K,) float64: N_k + Vβ


class Row(NamedTuple):
    """The word at hand: its tokens in a line, topics ascending. Entry e holds positions ``starts[e]:starts[e + 1]``."""

    starts: np.ndarray  # (K + 1,) int64
    first: np.ndarray  # (K,) int64: first position of each topic that the word has
    line: np.ndarray  # (2K + LINE,) uint16: the topic of each position, or the entry of position g << shift


def prior_of(model: Model) -> Prior:
    """Derive what a call needs of totals and priors."""
    alpha = model.alpha.astype(np.float64)
    flat = 1.0 / alpha[0] if (alpha == alpha[0]).all() else 0.0
    return Prior(alpha, np.cumsum(alpha), flat, model.beta, model.totals + model.n_words * model.beta)


def sample(chunk, model: Model, z: np.ndarray, key: np.uint64) -> np.ndarray:
    """Make both steps for a model that is one block: (T,) uint16 topics in word order to (T,) uint16."""
    packed, out = np.empty(len(z), np.uint32), np.empty_like(z)
    propose(chunk, model, z, key, packed)
    by_document(chunk.doc_ptr, model, key, packed)
    accept(chunk, model, z, key, packed, out)
    return out


def propose(chunk, model: Model, z: np.ndarray, key: np.uint64, packed: np.ndarray) -> None:
    """Draw word proposals for the tokens whose words lie in the model's block.

    ``z`` (T,) uint16 in word order; sets ``packed`` (T,) uint32, in document order, to (topic << 16 | proposal).
    Token i in word order takes draw 4i of ``key``.
    """
    _propose(order_of(chunk), frozen(model), prior_of(model), read_only(z), np.uint64(key), packed)


def by_document(doc_ptr: np.ndarray, model: Model, key: np.uint64, packed: np.ndarray) -> None:
    """Accept or reject word proposals, then draw document proposals: ``packed`` (T,) uint32 in place.

    Token j in document order takes draws 4j + 1 and 4j + 2 of ``key``. Any block of the model will do: only totals and
    priors are read.
    """
    _by_document(read_only(doc_ptr), prior_of(model), np.uint64(key), packed)


def accept(chunk, model: Model, z: np.ndarray, key: np.uint64, packed: np.ndarray, out: np.ndarray) -> None:
    """Accept or reject document proposals of the tokens whose words lie in the model's block.

    ``z`` (T,) uint16 holds the topics that the model's counts hold; ``out`` (T,) uint16 gets the new ones. Token i in
    word order takes draw 4i + 3 of ``key``.
    """
    _accept(order_of(chunk), frozen(model), prior_of(model), read_only(z), np.uint64(key), read_only(packed), out)


@kernel
def _propose(order, model, prior, z, key, packed):
    K = len(prior.norm)
    row = Row(np.zeros(K + 1, np.int64), np.zeros(K, np.int64), np.zeros(2 * K + LINE, np.uint16))
    for group in range(len(order.group_ptr) - 1):
        first, behind = segments(order, group, model)
        for s in range(first, behind):
            v = np.int64(order.word_ids[s]) - model.first
            head, n = model.row_ptr[v], model.row_ptr[v + 1] - model.row_ptr[v]
            tokens = order.word_ptr[s], order.word_ptr[s + 1]
            topics = model.topics[head : head + n]
            total = _line_up(row, topics, model.counts[head : head + n])
            draw = total, prior.beta, key
            if total <= max(2 * n, min(LINE, 4 * (tokens[1] - tokens[0]))):
                _spell(row, topics)
                _propose_by_line(tokens, order.place, row, draw, z, packed)
            else:
                shift = _guide(row, n)
                _propose_by_guide(tokens, order.place, row, topics, shift, draw, z, packed)


@kernel
def _line_up(row, topics, counts):
    """Find where each topic's tokens begin in the line; return its length."""
    starts, first = row.starts, row.first
    total = np.int64(0)
    for e in range(len(topics)):
        starts[e] = first[topics[e]] = total
        total += counts[e]
    starts[len(topics)] = total
    return total


@kernel
def _spell(row, topics):
    """Write the line, where it is no longer than what is drawn from it."""
    starts, line = row.starts, row.line
    for e in range(len(topics)):
        for position in range(starts[e], starts[e + 1]):
            line[position] = topics[e]


@kernel
def _guide(row, n):
    """Write only the entries of every 2^shift-th position of the line, in time proportional to the row's entries."""
    starts, line = row.starts, row.line
    shift = 0
    while starts[n] >> shift > 2 * n:
        shift += 1
    g = 0
    for e in range(n):
        while g << shift < starts[e + 1]:
            line[g] = e
            g += 1
    return shift


@kernel
def _propose_by_line(tokens, place, row, draw, z, packed):
    """Draw positions of the line: the token's own stands first among those of its topic, and is passed over."""
    n, beta, key = draw
    first, line = row.first, row.line
    last, n_topics = len(place) - 1, len(first)
    others = n - 1
    mass = others + n_topics * beta
    for i in range(tokens[0], tokens[1]):
        prefetch(packed, np.int64(place[min(i + AHEAD, last)]))
        old = z[i]
        x = random.uniform64(key, DRAWS * i) * mass
        if x < others:
            position = np.int64(x)
            new = np.uint32(line[position + (position >= first[old])])
        else:
            new = np.uint32(min(int((x - others) / beta), n_topics - 1))
        packed[place[i]] = np.uint32(old) << TOPIC | new


@kernel
def _propose_by_guide(tokens, place, row, topics, shift, draw, z, packed):
    """Draw the same from a line that is not written out."""
    n, beta, key = draw
    starts, first, guide = row.starts, row.first, row.line
    last, n_topics = len(place) - 1, len(first)
    mass = (n - 1) + n_topics * beta
    for i in range(tokens[0], tokens[1]):
        prefetch(packed, np.int64(place[min(i + AHEAD, last)]))
        old = z[i]
        x = random.uniform64(key, DRAWS * i) * mass
        if x < n - 1:
            position = np.int64(x)
            position += position >= first[old]
            e = np.int64(guide[position >> shift])
            while starts[e + 1] <= position:
                e += 1
            new = np.uint32(topics[e])
        else:
            new = np.uint32(min(int((x - (n - 1)) / beta), n_topics - 1))
        packed[np.int64(place[i])] = np.uint32(old) << TOPIC | new


@kernel
def _by_document(doc_ptr, prior, key, packed):
    longest = 0
    for d in range(len(doc_ptr) - 1):
        longest = max(longest, doc_ptr[d + 1] - doc_ptr[d])
    A, fresh = np.zeros(len(prior.norm), np.int32), np.empty(longest, np.uint16)
    for d in range(len(doc_ptr) - 1):
        start, end = doc_ptr[d], doc_ptr[d + 1]
        for j in range(start, end):
            A[packed[j] >> TOPIC] += 1
        _accept_words(start, end, A, prior, key, packed, fresh)
        for j in range(start, end):
            A[packed[j] >> TOPIC] = 0
        _propose_topics(start, end, prior, key, packed, fresh)


@kernel
def _accept_words(start, end, A, prior, key, packed, fresh):
    alpha, norm = prior.alpha, prior.norm
    for j in range(start, end):
        old, new = packed[j] >> TOPIC, packed[j] & LOW
        u = random.uniform64(key, DRAWS * j + 1)
        better = (A[new] + alpha[new]) * (norm[old] - 1)
        fresh[j - start] = new if u * ((A[old] - 1 + alpha[old]) * norm[new]) < better else old


@kernel
def _propose_topics(start, end, prior, key, packed, fresh):
    """Propose the topic of another token of the document, or one from the prior."""
    ends, others = prior.ends, end - start - 1
    flat, n_topics = prior.flat, len(prior.ends)
    mass = others + ends[-1]
    for j in range(start, end):
        x = random.uniform64(key, DRAWS * j + 2) * mass
        if x < others:
            position = np.int64(x)
            new = np.uint32(fresh[position + (position >= j - start)])
        elif flat > 0:
            new = np.uint32(min(int((x - others) * flat), n_topics - 1))
        else:
            new = np.uint32(min(np.searchsorted(ends, x - others, "right"), n_topics - 1))
        packed[j] = np.uint32(fresh[j - start]) << TOPIC | new


@kernel
def _accept(order, model, prior, z, key, packed, out):
    B = np.zeros(len(prior.norm), np.int32)
    for group in range(len(order.group_ptr) - 1):
        first, behind = segments(order, group, model)
        for s in range(first, behind):
            v = np.int64(order.word_ids[s]) - model.first
            for e in range(model.row_ptr[v], model.row_ptr[v + 1]):
                B[model.topics[e]] = model.counts[e]
            _accept_topics(order.word_ptr[s], order.word_ptr[s + 1], order.place, B, prior, z, key, packed, out)
            for e in range(model.row_ptr[v], model.row_ptr[v + 1]):
                B[model.topics[e]] = 0


@kernel
def _accept_topics(start, end, place, B, prior, z, key, packed, out):
    norm, beta, last = prior.norm, prior.beta, len(place) - 1
    for i in range(start, end):
        prefetch(packed, np.int64(place[min(i + AHEAD, last)]))
        both = packed[np.int64(place[i])]
        now, new, own = both >> TOPIC, both & LOW, np.uint32(z[i])
        at_now, at_new = np.int32(now == own), np.int32(new == own)
        u = random.uniform64(key, DRAWS * i + 3)
        better = (B[new] - at_new + beta) * (norm[now] - at_now)
        out[i] = new if u * ((B[now] - at_now + beta) * (norm[new] - at_new)) < better else now
