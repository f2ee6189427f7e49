"""LDA by the WarpLDA sampler: Metropolis-Hastings steps that cost the same per token whatever the number of topics.

The target distribution is that of ESCA, given the counts after the previous epoch, with the token itself left out:

    p(k) ∝ (A_dk + α_k) (B_vk + β) / (N_k + Vβ)

Source: WarpLDA (Chen et al., VLDB 2016), sections 4 and 5. One sweep makes two steps. Each leaves p unchanged as long
as the counts in it do not change:

1. In word order, propose k' from q(k) ∝ B_vk + β. In document order, accept it with probability
   min(1, (A_dk' + α_k') (N_k + Vβ) / ((A_dk + α_k) (N_k' + Vβ))): B cancels.
2. In document order, propose k' from q(k) ∝ A_dk + α_k, with A counted after step 1. In word order, accept it with
   probability min(1, (B_vk' + β) (N_k + Vβ) / ((B_vk + β) (N_k' + Vβ))): A cancels.

So a pass in word order reads one row of B at a time, and a pass in document order one row of A. B and N are the model
after the previous epoch, over all chunks; A is counted from the chunk. Hence a chunk does not depend on what other
chunks do in the same epoch. What differs from WarpLDA:

- The token is left out of the counts, both for proposing and for accepting.
- No proposal is carried over to the next sweep.
- B and N stay the same during a sweep. The authors' program (github.com/thu-ml/warplda, src/warplda.cpp) counts a
  word's row of B from the current topics whenever it comes to the word, and N after each pass.

The passes in word order take the words one after the other, each in all groups of documents of the chunk. So a row of B
is expanded once per chunk. With a large vocabulary, expanding rows takes longer than drawing.

Layout: topic and proposal of one token are packed into one uint32, stored in document order. The passes in word order
reach it through ``word_to_doc_order``, one cache line per token, which they prefetch. To propose from counts, a
position is drawn in an *urn*: an array that holds the topic of every token of the word or of the document. The topics
of a word's urn ascend.

Reference implementation: tests/helpers/naive.py, `lda_warp_sweep`.
"""

from typing import NamedTuple

import numpy as np

from .. import random
from ..chunk import Chunk
from ..jit import kernel, read_only, read_only_tuple
from ..search import rank
from ..simd.lanes import COPIES, fill
from ..simd.prefetch import prefetch
from .counts import segments_by_word
from .model import ModelBlock, TokenOrder, inlined, token_order

#: Tokens between the prefetch of a token's packed topics and their use.
AHEAD = np.uint64(16)
#: A word with at most this many tokens has an urn in memory. Such an urn stays in the second-level cache.
MAX_URN = 1 << 16
#: An urn is written only if its length is at most this multiple of the row's entries plus the tokens that draw from it.
URN_PER_USE = 32
#: Draws that a token takes: the word proposal; its acceptance with the document proposal; the acceptance of that.
DRAWS = np.uint64(3)
#: Shift of the topic, and mask of the proposal, in a packed uint32.
TOPIC = np.uint32(16)
LOW = np.uint32(0xFFFF)
ONE = np.uint64(1)
#: The lower 31 bits of one draw make the document proposal; its upper 24 bits decide on the word proposal.
PROPOSING = np.uint64((1 << 31) - 1)
STEP = 2.0**-31


class ProposalTerms(NamedTuple):
    """Terms that do not depend on the word or document, computed once per call."""

    alpha: np.ndarray  # (K,) float32
    ends: np.ndarray  # (K,) float64: prefix sums of alpha
    flat: float  # 1 / alpha if alpha is symmetric, else 0
    beta: float
    inverse: np.ndarray  # (2K,) float32: 1 / (N_k + Vβ) at 2k, and 1 / (N_k - 1 + Vβ) at 2k + 1


class UrnIndex(NamedTuple):
    """Replaces an urn that is too long to be written. Entry e has the positions ``starts[e]:starts[e + 1]``."""

    starts: np.ndarray  # (K + 1,) int64
    entries: np.ndarray  # (2K + 1,) uint16: the entry at each position g << shift


class UrnScratch(NamedTuple):
    """Arrays for the current word. NumPy allocates them, because numba compiles each allocation anew."""

    urn: np.ndarray  # (K + MAX_URN + COPIES,) uint16, which begins with all topics
    long_urn: UrnIndex


class DocumentScratch(NamedTuple):
    """Arrays for the current document."""

    A: np.ndarray  # (K,) int32: its counts by topic
    drawn: np.ndarray  # (longest document,) int32: random bits, and then positions in the urn
    urn: np.ndarray  # (K + longest document,) uint16, which begins with all topics


def make_prior(model: ModelBlock) -> ProposalTerms:
    """Return the terms of the proposals that depend only on the topic, not on the word or the document."""
    alpha = model.alpha.astype(np.float64)
    flat = 1.0 / alpha[0] if (alpha == alpha[0]).all() else 0.0
    norm = np.maximum(model.totals[:, None] - [0, 1], 0) + model.n_words * model.beta
    inverse = (1.0 / norm).astype(np.float32).ravel()
    return ProposalTerms(model.alpha.astype(np.float32), np.cumsum(alpha), flat, float(model.beta), inverse)


# --- called by the model ---


def sample(chunk: Chunk, model: ModelBlock, z: np.ndarray, key: np.uint64) -> np.ndarray:
    """Make both steps for a model with a single block. Take and return topics (T,) uint16 in word order."""
    packed = np.empty(len(z), np.uint32)
    out = np.empty_like(z)
    propose(chunk, model, z, key, packed)
    accept_and_propose(chunk.doc_ptr, model, key, packed)
    accept(chunk, model, z, key, packed, out)
    return out


def propose(chunk: Chunk, model: ModelBlock, z: np.ndarray, key: np.uint64, packed: np.ndarray) -> None:
    """Draw word proposals for the tokens whose words are in the model's block.

    ``z`` (T,) uint16 in word order; sets ``packed`` (T,) uint32, in document order, to (topic << 16 | proposal). Token
    i in word order takes draw 3i of ``key``.
    """
    order = token_order(chunk)
    n_topics = len(model.alpha)
    # The urn begins with each topic once, for proposals from β.
    urn = np.zeros(n_topics + MAX_URN + COPIES, np.uint16)
    urn[:n_topics] = np.arange(n_topics)
    scratch = UrnScratch(urn, new_urn_index(n_topics))
    segments = _segments(order, model)
    block = read_only_tuple(model)
    _propose(order, segments, block, make_prior(model), scratch, read_only(z), np.uint64(key), packed)


def new_urn_index(n_topics: int) -> UrnIndex:
    """Return memory for the index of any urn of ``n_topics`` topics."""
    return UrnIndex(np.zeros(n_topics + 1, np.int64), np.zeros(2 * n_topics + 1, np.uint16))


def accept_and_propose(doc_ptr: np.ndarray, model: ModelBlock, key: np.uint64, packed: np.ndarray) -> None:
    """Accept or reject word proposals, then draw document proposals: ``packed`` (T,) uint32 in place.

    Token j in document order takes draw 3j + 1 of ``key``. Only totals and priors are read, so any block of the model
    serves.
    """
    n_topics = len(model.alpha)
    longest = int(np.diff(doc_ptr).max(initial=0))
    # The document's urn: each topic once, for proposals from α, then the topics of its tokens.
    urn = np.zeros(n_topics + longest, np.uint16)
    urn[:n_topics] = np.arange(n_topics)
    scratch = DocumentScratch(np.zeros(n_topics, np.int32), np.zeros(longest, np.int32), urn)
    _accept_and_propose(read_only(doc_ptr), make_prior(model), scratch, np.uint64(key), packed)


def accept(chunk: Chunk, model: ModelBlock, z: np.ndarray, key: np.uint64, packed: np.ndarray, out: np.ndarray) -> None:
    """Accept or reject document proposals of the tokens whose words are in the model's block.

    ``z`` (T,) uint16 are the topics from which the model was counted; ``out`` (T,) uint16 gets the new ones. Token i in
    word order takes draw 3i + 2 of ``key``.
    """
    order = token_order(chunk)
    block = read_only_tuple(model)
    # The counts of one word by topic.
    B = np.zeros(len(model.alpha), np.int32)
    segments = _segments(order, model)
    _accept(order, segments, block, make_prior(model), B, read_only(z), np.uint64(key), read_only(packed), out)


def _segments(order: TokenOrder, model: ModelBlock) -> tuple[np.ndarray, np.ndarray]:
    """Return the segments of the block's words, sorted by word; see `segments_by_word`."""
    return segments_by_word(order.word_ids, model.first, model.first + len(model.row_ptr) - 1)


# --- step 1, proposals in word order ---


@kernel
def _propose(
    order: TokenOrder,
    segments_of_words: tuple[np.ndarray, np.ndarray],
    model: ModelBlock,
    prior: ProposalTerms,
    scratch: UrnScratch,
    z: np.ndarray,
    key: np.uint64,
    packed: np.ndarray,
) -> None:
    """Propose from q(k) ∝ B_vk + β for all tokens of the block's words."""
    # Local names, because each access to an array inside a tuple changes its reference count. Indices are unsigned,
    # because a signed index may count from the end, which numba tests at every access.
    word_ptr = order.word_ptr
    word_to_doc_order = order.word_to_doc_order
    row_ptr = model.row_ptr
    topics = model.topics
    counts = model.counts
    beta = prior.beta
    n_topics = len(prior.alpha)
    urn, index = scratch
    head, segments = segments_of_words
    for v in range(len(row_ptr) - 1):
        # Positions instead of slices, because a slice of an array changes its reference count.
        mine = range(head[v], head[v + 1])
        if head[v] == head[v + 1]:
            continue
        start, end = np.uint64(row_ptr[v]), np.uint64(row_ptr[v + 1])
        total = np.int64(0)
        for e in range(start, end):
            total += counts[e]
        n_tokens = np.int64(0)
        for j in mine:
            n_tokens += word_ptr[segments[j] + 1] - word_ptr[segments[j]]
        if total <= MAX_URN and total <= URN_PER_USE * (np.int64(end - start) + n_tokens):
            _fill_urn(urn, n_topics, topics, counts, start, end)
            for j in mine:
                tokens = (np.uint64(word_ptr[segments[j]]), np.uint64(word_ptr[segments[j] + 1]))
                _propose_from_urn(tokens, word_to_doc_order, urn, n_topics, total, beta, key, z, packed)
        else:
            shift = _index_urn(index, counts, start, end)
            draw = (n_topics, beta, key)
            for j in mine:
                tokens = (np.uint64(word_ptr[segments[j]]), np.uint64(word_ptr[segments[j] + 1]))
                _propose_from_index(tokens, word_to_doc_order, index, topics[start:end], shift, draw, z, packed)


@inlined
def _fill_urn(
    urn: np.ndarray, n_topics: int, topics: np.ndarray, counts: np.ndarray, head: np.uint64, end: np.uint64
) -> None:
    """Write each topic of a row of B as often as it is counted, after the topics with which the urn begins.

    COPIES positions are written at once. Those past the topic's last one are overwritten by the next topic.
    """
    copies = np.uint64(COPIES)
    position = np.uint64(n_topics)
    for e in range(head, end):
        k = topics[e]
        stop = position + np.uint64(counts[e])
        fill(urn, position, k)
        position += copies
        while position < stop:
            fill(urn, position, k)
            position += copies
        position = stop


@inlined
def _propose_from_urn(
    tokens: tuple[np.uint64, np.uint64],
    word_to_doc_order: np.ndarray,
    urn: np.ndarray,
    n_topics: int,
    total: int,
    beta: float,
    key: np.uint64,
    z: np.ndarray,
    packed: np.ndarray,
) -> None:
    """Propose a topic for each token of a segment by drawing a position of the urn.

    The token itself is taken to be the first of its topic in the urn, and is skipped: a position at which the topic is
    the token's or a later one moves up by one. A proposal from β is looked up in the urn as well, at the topics with
    which it begins, so that no branch can be mispredicted.
    """
    last = np.uint64(len(word_to_doc_order) - 1)
    others = np.float64(total - 1)
    mass = others + n_topics * beta
    inverse = 1.0 / beta
    last_topic = np.int64(n_topics) - np.int64(1)
    for i in range(tokens[0], tokens[1]):
        prefetch(packed, word_to_doc_order[min(i + AHEAD, last)])
        old = z[i]
        x = random.uniform64(key, DRAWS * i) * mass
        position = np.int64(x) + n_topics
        # Rounding can give n_topics.
        topic = min(np.int64((x - others) * inverse), last_topic)
        # Masks, because LLVM makes a branch of a choice between two results that take time to compute.
        counted = -np.int64(x < others)
        index = np.uint64((position & counted) | (topic & ~counted))
        index += np.uint64(np.int64(urn[index] >= old) & counted)
        packed[word_to_doc_order[i]] = np.uint32(old) << TOPIC | np.uint32(urn[index])


@kernel
def _index_urn(index: UrnIndex, counts: np.ndarray, head: np.uint64, end: np.uint64) -> int:
    """Index every 2^shift-th position of the urn, in time proportional to the row's entries; return ``shift``."""
    starts, entries = index
    n = np.int64(end - head)
    total = np.int64(0)
    for e in range(n):
        starts[e] = total
        total += counts[head + np.uint64(e)]
    starts[n] = total
    shift = 0
    # About two index entries per entry of the row, so the index is built in the time that the row takes. The last one
    # may have fewer positions than the others. So there is one more than twice the entries of the row, at most.
    while total >> shift > 2 * n:
        shift += 1
    g = 0
    for e in range(n):
        while g << shift < starts[e + 1]:
            entries[g] = e
            g += 1
    return shift


@kernel
def _propose_from_index(
    tokens: tuple[np.uint64, np.uint64],
    word_to_doc_order: np.ndarray,
    index: UrnIndex,
    topics: np.ndarray,
    shift: int,
    draw: tuple[int, float, np.uint64],
    z: np.ndarray,
    packed: np.ndarray,
) -> None:
    """Propose the same topics as `_propose_from_urn`, without an urn in memory.

    The index of the urn finds the entry of a row of B that a place of the urn would hold.
    """
    n_topics, beta, key = draw
    starts, entries = index
    total = starts[len(topics)]
    last = np.uint64(len(word_to_doc_order) - 1)
    others = np.float64(total - 1)
    mass = others + n_topics * beta
    inverse = 1.0 / beta
    last_topic = np.int64(n_topics) - np.int64(1)
    for i in range(tokens[0], tokens[1]):
        prefetch(packed, word_to_doc_order[min(i + AHEAD, last)])
        old = z[i]
        x = random.uniform64(key, DRAWS * i) * mass
        if x < others:
            position = np.int64(x)
            e = np.int64(entries[position >> shift])
            # The index gives an entry at or before the position. The right one is a few steps on.
            while starts[e + 1] <= position:
                e += 1
            # Skip one position of the old topic: the token is left out of its own counts.
            position += np.int64(topics[e] >= old)
            e += np.int64(starts[e + 1] <= position)
            new = np.uint32(topics[e])
        else:
            # Rounding can give n_topics.
            new = np.uint32(min(np.int64((x - others) * inverse), last_topic))
        packed[word_to_doc_order[i]] = np.uint32(old) << TOPIC | new


# --- step 1, acceptance, and step 2, proposals, in document order ---


@kernel
def _accept_and_propose(
    doc_ptr: np.ndarray, prior: ProposalTerms, scratch: DocumentScratch, key: np.uint64, packed: np.ndarray
) -> None:
    """Finish step 1 and begin step 2 document by document."""
    K = len(prior.alpha)
    A, drawn, urn = scratch
    for d in range(np.uint64(len(doc_ptr) - 1)):
        start, end = np.uint64(doc_ptr[d]), np.uint64(doc_ptr[d + ONE])
        for j in range(start, end):
            A[packed[j] >> TOPIC] += np.int32(1)
        _accept_words(start, end, A, prior, key, packed, urn, drawn)
        _draw_positions(end - start, prior, drawn)
        for j in range(start, end):
            A[packed[j] >> TOPIC] = 0
            i = j - start
            packed[j] = np.uint32(urn[np.uint64(K) + i]) << TOPIC | np.uint32(urn[np.uint64(drawn[i])])


@inlined
def _accept_words(
    start: np.uint64,
    end: np.uint64,
    A: np.ndarray,
    prior: ProposalTerms,
    key: np.uint64,
    packed: np.ndarray,
    urn: np.ndarray,
    drawn: np.ndarray,
) -> None:
    """Decide on the word proposals of one document; write its topics to ``urn`` and bits for step 2 to ``drawn``."""
    alpha = prior.alpha
    inverse = prior.inverse
    n_topics = np.uint64(len(prior.alpha))
    for j in range(start, end):
        old = packed[j] >> TOPIC
        new = packed[j] & LOW
        # One draw serves both steps: its upper bits decide here, and its lower bits propose in step 2.
        bits = random.draw(key, DRAWS * j + ONE)
        u = np.float32(bits >> random.S40) * random.FLOAT32_STEP
        better = (np.float32(A[new]) + alpha[new]) * inverse[ONE * new << ONE]
        worse = (np.float32(np.int32(A[old] - np.int32(1))) + alpha[old]) * inverse[ONE * old << ONE | ONE]
        # Metropolis and Hastings, without a division: accept if u < better / worse.
        urn[n_topics + j - start] = new if u * worse < better else old
        drawn[j - start] = bits & PROPOSING


@inlined
def _draw_positions(n: np.uint64, prior: ProposalTerms, drawn: np.ndarray) -> None:
    """Turn random bits into positions of the document's urn: another token of it, or a topic drawn from α."""
    ends = prior.ends
    flat = prior.flat
    n_topics = np.int32(len(prior.ends))
    others = np.float64(n) - 1
    scale = (others + ends[-1]) * STEP
    if flat > 0:
        # Symmetric alpha needs no search, and without a branch or a look-up LLVM vectorises this loop.
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
                drawn[i] = min(rank(ends, len(ends), x - others), n_topics - 1)


# --- step 2, acceptance in word order ---


@kernel
def _accept(
    order: TokenOrder,
    segments_of_words: tuple[np.ndarray, np.ndarray],
    model: ModelBlock,
    prior: ProposalTerms,
    B: np.ndarray,
    z: np.ndarray,
    key: np.uint64,
    packed: np.ndarray,
    out: np.ndarray,
) -> None:
    """Decide on the document proposals of the block's words."""
    row_ptr = model.row_ptr
    topics = model.topics
    counts = model.counts
    word_ptr = order.word_ptr
    word_to_doc_order = order.word_to_doc_order
    inverse = prior.inverse
    beta = np.float32(prior.beta)
    last = np.uint64(len(word_to_doc_order) - 1)
    head, segments = segments_of_words
    for v in range(len(row_ptr) - 1):
        # Positions instead of slices, because a slice of an array changes its reference count.
        mine = range(head[v], head[v + 1])
        if head[v] == head[v + 1]:
            continue
        start, end = np.uint64(row_ptr[v]), np.uint64(row_ptr[v + 1])
        for e in range(start, end):
            B[topics[e]] = counts[e]
        for j in mine:
            for i in range(np.uint64(word_ptr[segments[j]]), np.uint64(word_ptr[segments[j] + 1])):
                prefetch(packed, word_to_doc_order[min(i + AHEAD, last)])
                both = packed[word_to_doc_order[i]]
                now = both >> TOPIC
                new = both & LOW
                # The token is left out where the topic is the one that the model counted for it.
                worse = _word_weight(B, now, np.int32(now == z[i]), beta, inverse)
                better = _word_weight(B, new, np.int32(new == z[i]), beta, inverse)
                u = random.uniform(key, DRAWS * i + np.uint64(2))
                out[i] = new if u * worse < better else now
        for e in range(start, end):
            B[topics[e]] = 0


@inlined
def _word_weight(B: np.ndarray, k: np.uint32, own: np.int32, beta: np.float32, inverse: np.ndarray) -> np.float32:
    """Return (B_k + β) / (N_k + Vβ), with both counts lowered by ``own``."""
    return (np.float32(np.int32(B[k] - own)) + beta) * inverse[k << np.uint32(1) | np.uint32(own)]
