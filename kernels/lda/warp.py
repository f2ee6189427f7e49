"""Latent Dirichlet allocation by Metropolis-Hastings in two orders: a token costs the same whatever the topics.

Source: WarpLDA (Chen et al., VLDB 2016), sections 4 and 5. The target is SaberLDA's equation (1) given the counts of
the last epoch, the token itself left out of them:

    p(k) ∝ (A_dk + α_k) (B_vk + β) / (N_k + Vβ)

One sweep makes two steps, both of which leave p unchanged as long as its counts stand:

1. in word order, propose k' from q(k) ∝ B_vk + β; in document order, accept it with probability
   min(1, (A_dk' + α_k') (N_k + Vβ) / ((A_dk + α_k) (N_k' + Vβ))): B cancels;
2. in document order, propose k' from q(k) ∝ A_dk + α_k, A counted from what step 1 has left; in word order, accept it
   with probability min(1, (B_vk' + β) (N_k + Vβ) / ((B_vk + β) (N_k' + Vβ))): A cancels.

Topic and proposal of a token share one uint32 in document order. The two passes in word order write and read it
through ``word_to_doc_order``, one cache line per token, which is prefetched. B and N are the model of the last epoch,
over all chunks; A is the chunk's own. So nothing depends on what other chunks do in the same epoch. Unlike WarpLDA,
the token is left out of the counts that propose and that accept, and no proposal outlives its sweep.

Reference implementation: tests/helpers/naive.py, `lda_warp_sweep`.
"""

from typing import NamedTuple

import numpy as np

from .. import random
from ..jit import kernel
from ..simd.lanes import LANES, splat, store
from ..simd.prefetch import prefetch
from .model import ModelBlock, block_segments, inlined, read_only, read_only_tuple, token_order

#: Tokens between the prefetch of a token's word and its use.
AHEAD = np.uint64(16)
#: Tokens of a word of which a line is written out, at most: one that stays in the second cache.
LINE = 1 << 16
#: A line is written out where it is no longer than so many times the row's entries and the tokens that draw from it.
WORTH = 32
#: Draws a token takes: word proposal; its acceptance and the document proposal; the acceptance of that.
DRAWS = np.uint64(3)
TOPIC, LOW = np.uint32(16), np.uint32(0xFFFF)
ONE = np.uint64(1)
#: Of a draw, the bits that propose; the upper ones accept.
PROPOSING = np.uint64((1 << 31) - 1)
STEP = 2.0**-31


class ProposalTerms(NamedTuple):
    """What follows from totals, alpha and beta, once a call."""

    alpha: np.ndarray  # (K,) float32
    ends: np.ndarray  # (K,) float64: prefix sums of alpha
    flat: float  # 1 / alpha where all are equal, else 0
    beta: float
    inverse: np.ndarray  # (2K,) float32: 1 / (N_k + Vβ), and 1 / (N_k - 1 + Vβ)


class Guide(NamedTuple):
    """A word's line that is too long to be written out. Entry e holds positions ``starts[e]:starts[e + 1]``."""

    starts: np.ndarray  # (K + 1,) int64
    first: np.ndarray  # (K,) int64: first position of each topic that the word has
    entries: np.ndarray  # (2K,) uint16: the entry of position g << shift


def make_prior(model: ModelBlock) -> ProposalTerms:
    """Derive what a call needs of totals and priors."""
    alpha = model.alpha.astype(np.float64)
    flat = 1.0 / alpha[0] if (alpha == alpha[0]).all() else 0.0
    norm = np.maximum(model.totals[:, None] - [0, 1], 0) + model.n_words * model.beta
    inverse = (1.0 / norm).astype(np.float32).ravel()
    return ProposalTerms(model.alpha.astype(np.float32), np.cumsum(alpha), flat, float(model.beta), inverse)


def sample(chunk, model: ModelBlock, z: np.ndarray, key: np.uint64) -> np.ndarray:
    """Make both steps for a model that is one block: (T,) uint16 topics in word order to (T,) uint16."""
    packed, out = np.empty(len(z), np.uint32), np.empty_like(z)
    propose(chunk, model, z, key, packed)
    accept_and_propose(chunk.doc_ptr, model, key, packed)
    accept(chunk, model, z, key, packed, out)
    return out


def propose(chunk, model: ModelBlock, z: np.ndarray, key: np.uint64, packed: np.ndarray) -> None:
    """Draw word proposals for the tokens whose words lie in the model's block.

    ``z`` (T,) uint16 in word order; sets ``packed`` (T,) uint32, in document order, to (topic << 16 | proposal).
    Token i in word order takes draw 3i of ``key``.
    """
    _propose(token_order(chunk), read_only_tuple(model), make_prior(model), read_only(z), np.uint64(key), packed)


def accept_and_propose(doc_ptr: np.ndarray, model: ModelBlock, key: np.uint64, packed: np.ndarray) -> None:
    """Accept or reject word proposals, then draw document proposals: ``packed`` (T,) uint32 in place.

    Token j in document order takes draw 3j + 1 of ``key``: its upper 24 bits accept, its lower 31 propose. Any block of
    the model will do: only totals and priors are read.
    """
    _accept_and_propose(read_only(doc_ptr), make_prior(model), np.uint64(key), packed)


def accept(chunk, model: ModelBlock, z: np.ndarray, key: np.uint64, packed: np.ndarray, out: np.ndarray) -> None:
    """Accept or reject document proposals of the tokens whose words lie in the model's block.

    ``z`` (T,) uint16 holds the topics that the model's counts hold; ``out`` (T,) uint16 gets the new ones. Token i in
    word order takes draw 3i + 2 of ``key``.
    """
    _accept(
        token_order(chunk),
        read_only_tuple(model),
        make_prior(model),
        read_only(z),
        np.uint64(key),
        read_only(packed),
        out,
    )


@kernel
def _propose(order, model, prior, z, key, packed):
    # Local names: an array of a tuple is a counted reference at every use. Unsigned: a signed index could count from
    # the end, which is asked at every use.
    word_ids, word_ptr, word_to_doc_order = order.word_ids, order.word_ptr, order.word_to_doc_order
    row_ptr, topics, counts, origin = model.row_ptr, model.topics, model.counts, model.first
    K, beta = len(prior.alpha), prior.beta
    near, line = np.zeros(K, np.uint16), np.zeros(K + LINE + LANES, np.uint16)
    for k in range(K):
        line[k] = k
    far = Guide(np.zeros(K + 1, np.int64), np.zeros(K, np.int64), np.zeros(2 * K, np.uint16))
    for group in range(len(order.group_ptr) - 1):
        first, behind = block_segments(order, group, model)
        for s in range(np.uint64(first), np.uint64(behind)):
            v = np.uint64(np.int64(word_ids[s]) - origin)
            head, end = np.uint64(row_ptr[v]), np.uint64(row_ptr[v + ONE])
            start, stop = np.uint64(word_ptr[s]), np.uint64(word_ptr[s + ONE])
            total = np.int64(0)
            for e in range(head, end):
                total += counts[e]
            if total <= LINE and total <= WORTH * np.int64(end - head + stop - start):
                _spell(near, line, topics, counts, head, end)
                _propose_near(start, stop, word_to_doc_order, near, line, total, beta, key, z, packed)
            else:
                shift = _guide(far, topics, counts, head, end)
                _propose_far(
                    (start, stop), word_to_doc_order, far, topics[head:end], shift, (total, beta, key), z, packed
                )


@inlined
def _spell(near, line, topics, counts, head, end):
    """Write the line, eight positions at a time: what goes too far is overwritten by the next topic."""
    origin, eight = np.uint64(len(near)), np.uint64(LANES)
    position = origin
    for e in range(head, end):
        k = topics[e]
        near[k] = position - origin
        behind = position + np.uint64(counts[e])
        store(line, position, splat(k))
        position += eight
        while position < behind:
            store(line, position, splat(k))
            position += eight
        position = behind


@inlined
def _propose_near(start, stop, word_to_doc_order, near, line, total, beta, key, z, packed):
    """Draw positions of the line: the token's own stands first among those of its topic, and is passed over.

    What the prior proposes is looked up in the line too, where it begins with all topics: no branch to mispredict.
    """
    n_topics, last = np.int64(len(near)), np.uint64(len(word_to_doc_order) - 1)
    others = np.float64(total - 1)
    mass, inverse = others + n_topics * beta, 1.0 / beta
    for i in range(start, stop):
        prefetch(packed, word_to_doc_order[min(i + AHEAD, last)])
        old = z[i]
        x = random.uniform64(key, DRAWS * i) * mass
        position = np.int64(x)
        position += n_topics + np.int64(position >= np.int64(near[old]))
        topic = min(np.int64((x - others) * inverse), n_topics - 1)
        # Masks, since LLVM makes branches of a choice between numbers that cost something.
        counted = -np.int64(x < others)
        index = np.uint64((position & counted) | (topic & ~counted))
        packed[word_to_doc_order[i]] = np.uint32(old) << TOPIC | np.uint32(line[index])


@kernel
def _guide(far, topics, counts, head, end):
    """Write only the entries of every 2^shift-th position of the line, in time proportional to the row's entries."""
    starts, first, guide = far
    n, total = np.int64(end - head), np.int64(0)
    for e in range(n):
        starts[e] = first[topics[head + np.uint64(e)]] = total
        total += counts[head + np.uint64(e)]
    starts[n] = total
    shift = 0
    while total >> shift > 2 * n:
        shift += 1
    g = 0
    for e in range(n):
        while g << shift < starts[e + 1]:
            guide[g] = e
            g += 1
    return shift


@kernel
def _propose_far(tokens, word_to_doc_order, far, topics, shift, draw, z, packed):
    """Draw the same from a line that is not written out."""
    total, beta, key = draw
    starts, first, guide = far
    n_topics, last = np.int64(len(first)), np.uint64(len(word_to_doc_order) - 1)
    others = np.float64(total - 1)
    mass, inverse = others + n_topics * beta, 1.0 / beta
    for i in range(tokens[0], tokens[1]):
        prefetch(packed, word_to_doc_order[min(i + AHEAD, last)])
        old = z[i]
        x = random.uniform64(key, DRAWS * i) * mass
        if x < others:
            position = np.int64(x)
            position += np.int64(position >= first[old])
            e = np.int64(guide[position >> shift])
            while starts[e + 1] <= position:
                e += 1
            new = np.uint32(topics[e])
        else:
            new = np.uint32(min(np.int64((x - others) * inverse), n_topics - 1))
        packed[word_to_doc_order[i]] = np.uint32(old) << TOPIC | new


@kernel
def _accept_and_propose(doc_ptr, prior, key, packed):
    K, longest = len(prior.alpha), 0
    for d in range(len(doc_ptr) - 1):
        longest = max(longest, doc_ptr[d + 1] - doc_ptr[d])
    A, drawn = np.zeros(K, np.int32), np.zeros(longest, np.int32)
    # All topics, then those of the document's tokens: what proposals are looked up in.
    line = np.zeros(K + longest, np.uint16)
    for k in range(K):
        line[k] = k
    for d in range(np.uint64(len(doc_ptr) - 1)):
        start, end = np.uint64(doc_ptr[d]), np.uint64(doc_ptr[d + ONE])
        for j in range(start, end):
            A[packed[j] >> TOPIC] += np.int32(1)
        _accept_words(start, end, A, prior, key, packed, line, drawn)
        _propose_topics(end - start, prior, drawn)
        for j in range(start, end):
            A[packed[j] >> TOPIC] = 0
            i = j - start
            packed[j] = np.uint32(line[np.uint64(K) + i]) << TOPIC | np.uint32(line[np.uint64(drawn[i])])


@inlined
def _accept_words(start, end, A, prior, key, packed, line, drawn):
    alpha, inverse, n_topics = prior.alpha, prior.inverse, np.uint64(len(prior.alpha))
    for j in range(start, end):
        old, new = packed[j] >> TOPIC, packed[j] & LOW
        bits = random.draw(key, DRAWS * j + ONE)
        u = np.float32(bits >> random.S40) * random.FLOAT32_STEP
        better = (np.float32(A[new]) + alpha[new]) * inverse[ONE * new << ONE]
        worse = (np.float32(np.int32(A[old] - np.int32(1))) + alpha[old]) * inverse[ONE * old << ONE | ONE]
        line[n_topics + j - start] = new if u * worse < better else old
        drawn[j - start] = bits & PROPOSING


@inlined
def _propose_topics(n, prior, drawn):
    """Turn bits into places in the line: another token of the document, or a topic from the prior."""
    ends, flat, n_topics = prior.ends, prior.flat, np.int32(len(prior.ends))
    others = np.float64(n) - 1
    scale = (others + ends[-1]) * STEP
    if flat > 0:
        # Without a branch or a lookup, so that LLVM makes vectors of it.
        for i in range(n):
            x = np.float64(drawn[i]) * scale
            position = np.int32(x)
            position = np.int32(position + np.int32(position >= np.int32(i)))
            topic = min(np.int32((x - others) * flat), np.int32(n_topics - 1))
            drawn[i] = np.int32(position + n_topics) if x < others else topic
    else:
        for i in range(n):
            x = np.float64(drawn[i]) * scale
            position = np.int32(x)
            if x < others:
                drawn[i] = position + np.int32(position >= np.int32(i)) + n_topics
            else:
                drawn[i] = min(np.searchsorted(ends, x - others, "right"), n_topics - 1)


@kernel
def _accept(order, model, prior, z, key, packed, out):
    row_ptr, topics, counts = model.row_ptr, model.topics, model.counts
    word_ids, word_ptr, word_to_doc_order, inverse = (
        order.word_ids,
        order.word_ptr,
        order.word_to_doc_order,
        prior.inverse,
    )
    beta, last = np.float32(prior.beta), np.uint64(len(word_to_doc_order) - 1)
    # φ of each topic, and with the token left out of its counts, which only topics of the row are asked for.
    phi = inverse * beta
    for group in range(len(order.group_ptr) - 1):
        first, behind = block_segments(order, group, model)
        for s in range(np.uint64(first), np.uint64(behind)):
            v = np.uint64(np.int64(word_ids[s]) - model.first)
            head, end = np.uint64(row_ptr[v]), np.uint64(row_ptr[v + ONE])
            for e in range(head, end):
                k, count = np.uint64(topics[e]) << ONE, counts[e]
                phi[k] = (np.float32(count) + beta) * inverse[k]
                phi[k | ONE] = (np.float32(np.int32(count - np.int32(1))) + beta) * inverse[k | ONE]
            for i in range(np.uint64(word_ptr[s]), np.uint64(word_ptr[s + ONE])):
                prefetch(packed, word_to_doc_order[min(i + AHEAD, last)])
                both = packed[word_to_doc_order[i]]
                now, new, own = both >> TOPIC, both & LOW, np.uint32(z[i])
                u = random.uniform(key, DRAWS * i + np.uint64(2))
                worse = phi[now << np.uint32(1) | np.uint32(now == own)]
                better = phi[new << np.uint32(1) | np.uint32(new == own)]
                out[i] = new if u * worse < better else now
            for e in range(head, end):
                k = np.uint64(topics[e]) << ONE
                phi[k] = beta * inverse[k]
