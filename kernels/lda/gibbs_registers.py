"""Collapsed Gibbs sampling in word order, as in gibbs.py, for at most 64 topics: one row per document, in registers.

    p(k) ∝ (A_dk + α_k) (B_vk + β) / (N_k + Vβ),    with the token itself left out of A and B

The plain loop:

    for v in words:
        inverse = 1 / (N + V β)                      # and again after some tokens, see `_most`
        for i in tokens_of(v):
            d, old = docs[i], z[i]
            A[d, old] -= 1; B[v, old] -= 1
            new = choose((A[d] + α) (B[v] + β) inverse, uniform(key, i))
            A[d, new] += 1; B[v, new] += 1
            z[i] = new
        N += by how much B[v] changed

There is one interval per topic, in the order of `choices.choose`, and a uniform number has 24 random bits.

Each draw changes B, and the next one waits for that: a chain, whose time is that of its instructions one after another.
So the processor has nothing to do most of the time. With at most 32 topics, two chains fit into its registers, and they
take turns, token by token. They must not wait for each other, so they have neither a document nor a word in common: one
has the first half of the documents and of the words, the other one has the second halves. Then they change halves:

    first half of the documents:      first words,  then second words
    second half of the documents:     second words, then first words

Both chains begin with the same N, and their changes of N are added up before they change halves.

Layout: A and B are dense, in rows of whole vectors. While the tokens of a word are drawn, only the changes of B are in
registers, so that they are exact however large B is. The order of the tokens is that of ESCA.

Reference implementation: tests/helpers/naive_gibbs.py, `lda_gibbs_sweep`.
"""

from typing import NamedTuple

import numpy as np

from .. import random
from ..jit import kernel
from ..simd.choices import (
    MOST,
    Mask,
    choose,
    index_of,
    one_hot,
    prefetch_entries,
    spread,
    to_floats,
    to_integers,
    where,
)
from ..simd.rows import Row, RowShape, load_row, store_row
from . import esca
from .changing_rows import ONE, padded, piece_tokens
from .model import ModelBlock, TokenOrder, inlined

#: Number of topics up to which a sweep uses this kernel. For more topics, it uses the other two of gibbs.py.
MOST_TOPICS = MOST
#: Number of topics up to which two chains take turns. The registers of AVX2 hold no more.
MOST_PAIRED_TOPICS = 32
#: Tokens between the prefetch of a document's row and its use.
AHEAD = np.uint64(esca.AHEAD)
#: 1 / (N + Vβ) is computed again after this part (1 / SHARE) of the mean number of tokens of a topic, or earlier.
SHARE = 16


def has_pairs(N: np.ndarray) -> bool:
    """Return whether two chains take turns. They do not know each other's changes of N, so N must be large."""
    return len(N) <= MOST_PAIRED_TOPICS and _most(N) == piece_tokens(len(N))


@kernel
def sweep(
    order: TokenOrder,
    segments: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    N: np.ndarray,
    model: ModelBlock,
    shape: RowShape,
    z: np.ndarray,
    key: int,
) -> None:
    """Draw the topics ``z`` (T,) uint16 of the tokens of some segments; A, B and N follow.

    ``segments`` (G, 2) int64 are the first one of each group, and the one after its last. A, flat float32, has a row
    per document, and B, flat int32, a row per word from ``model.first`` on. N is (K,) int64.
    """
    ends = order.word_ptr[1:].copy()
    chain = _new_chain(len(N))
    for g in range(len(segments)):
        first, stop = segments[g]
        if first < stop:
            _one_chain(order, ends, _before(first, stop, 0), A, B, N, chain, model, shape, z, key)
            _add_changes(N, chain)


@kernel
def sweep_in_pairs(
    order: TokenOrder,
    segments: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    N: np.ndarray,
    model: ModelBlock,
    shape: RowShape,
    z: np.ndarray,
    key: int,
) -> None:
    """Do the same as `sweep`, for (K,) int64 N, with two chains, for at most `MOST_PAIRED_TOPICS` topics."""
    # The first token of each segment that belongs to the second half of the group's documents.
    middles = np.empty(len(order.word_ids), np.int64)
    here = _new_chain(len(N))
    other = _new_chain(len(N))
    for g in range(len(segments)):
        first, stop = segments[g]
        if first == stop:
            continue
        middle = _halve(order, g, first, stop, middles)
        halves = (first, middle), (middle, stop)
        for turn in range(2):
            a, b = halves[turn], halves[1 - turn]
            parts = _before(*a, 0), _before(*b, 1)
            _two_chains(order, middles, *parts, A, B, N, here, other, model, shape, z, key)
            _add_changes(N, here)
            _add_changes(N, other)


class Chain(NamedTuple):
    """What a chain has in memory while its registers hold something else."""

    changes: np.ndarray  # (width,) int32, of N
    inverse: np.ndarray  # (width,) float32: 1 / (N_k + Vβ) of the current word


@kernel
def _new_chain(n_topics: int) -> Chain:
    return Chain(np.zeros(padded(n_topics), np.int32), np.empty(padded(n_topics), np.float32))


@kernel
def _add_changes(N: np.ndarray, chain: Chain) -> None:
    """Add the changes of a chain to N, and begin new ones."""
    for k in range(len(N)):
        N[k] += chain.changes[k]
        chain.changes[k] = 0


@kernel
def _halve(order: TokenOrder, group: int, first: int, stop: int, middles: np.ndarray) -> int:
    """Cut a group's documents in halves, and its segments from ``first`` on; return the second half's first segment.

    Both are halves of the tokens. ``middles`` get the first token in each segment of the second half of the documents.
    """
    docs = order.docs
    word_ptr = order.word_ptr
    tokens = word_ptr[order.group_ptr[group]] + word_ptr[order.group_ptr[group + 1]]
    cut = np.searchsorted(order.doc_ptr, tokens // 2)
    for s in range(first, stop):
        low, high = word_ptr[s], word_ptr[s + 1]
        while low < high:
            i = (low + high) // 2
            if docs[i] < cut:
                low = i + 1
            else:
                high = i
        middles[s] = low
    return first + np.searchsorted(word_ptr[first:stop], (word_ptr[first] + word_ptr[stop]) // 2)


class Place(NamedTuple):
    """How far one of two chains has come. Each draws the tokens of consecutive segments in half of the documents."""

    segment: int  # of which tokens are drawn now
    stop: int  # the segment after the last one
    side: int  # 0 for the first half of the documents, 1 for the second
    token: int  # the next one
    piece_end: int  # the token after those that are drawn with the same 1 / (N + Vβ)
    segment_end: int  # the token after those of the segment in this half of the documents


@kernel
def _before(first: int, stop: int, side: int) -> Place:
    """Return the place of a sequence that has not drawn any token of its segments, ``first`` to ``stop``."""
    return Place(first - 1, stop, side, 0, 0, 0)


@inlined
def _next_piece(place: Place, word_ptr: np.ndarray, middles: np.ndarray, most: int) -> Place:
    """Return the place of the next piece, which has at most ``most`` tokens of a word.

    Its segment is ``place.stop`` if all tokens were drawn.
    """
    s, stop, side, i, _, end = place
    if i == end:
        s += 1
        while s < stop and (middles[s] == word_ptr[s + 1] if side else word_ptr[s] == middles[s]):
            s += 1
        if s < stop:
            i, end = (middles[s], word_ptr[s + 1]) if side else (word_ptr[s], middles[s])
    return Place(s, stop, side, i, min(end, i + most), end)


@inlined
def _at(place: Place, token: int) -> Place:
    """Return a place at another token of the same piece."""
    s, stop, side, _, end, segment_end = place
    return Place(s, stop, side, token, end, segment_end)


@kernel
def _most(N: np.ndarray) -> int:
    """Return how many tokens of a word may be drawn with the same 1 / (N + Vβ): few, if topics have few tokens."""
    return max(1, min(piece_tokens(len(N)), N.sum() // (SHARE * len(N))))


@inlined
def _inverse(totals: Row, changes: Row, own: Mask, most: int, one: Row, smoothing: Row) -> Row:
    """Return 1 / (N + Vβ). If one token only is drawn with it, that token, whose topic is ``own``, is left out of N."""
    n = totals + to_floats(changes)
    if most == 1:
        n = where(own, n - one, n)
    return one / (n + smoothing)


@inlined
def _close(B: np.ndarray, row: int, moved: Row, changes: Row, shape: RowShape) -> Row:
    """Add what the draws of a word's tokens moved to its row of B, and to the changes of N, which are returned."""
    moves = to_integers(moved)
    store_row(load_row(B, row, shape) + moves, B, row, shape)
    return changes + moves


@inlined
def _draw(
    i: np.uint64,
    docs: np.ndarray,
    z: np.ndarray,
    A: np.ndarray,
    base: Row,
    moved: Row,
    inverse: Row,
    alpha: Row,
    one: Row,
    last: np.uint64,
    n_topics: int,
    width: int,
    shape: RowShape,
    key: int,
) -> Row:
    """Draw one token, given B + β of the word at first (``base``), and by how much B has changed since; return that."""
    prefetch_entries(A, np.uint64(docs[min(i + AHEAD, last)]) * width, shape)
    head = np.uint64(docs[i]) * width
    a = load_row(A, head, shape)
    old = np.uint64(z[i])
    own = one_hot(old, shape)
    a = where(own, a - one, a)
    moved = where(own, moved - one, moved)
    drawn = choose(((a + alpha) * inverse) * (base + moved), random.uniform(key, i))
    new = index_of(drawn)
    # Rounding at the end of a lane can point into the padding: the topic stays then.
    if new >= n_topics:
        new, drawn = old, own
    store_row(where(drawn, a + one, a), A, head, shape)
    z[i] = new
    return where(drawn, moved + one, moved)


@kernel
def _one_chain(
    order: TokenOrder,
    middles: np.ndarray,
    place: Place,
    A: np.ndarray,
    B: np.ndarray,
    N: np.ndarray,
    chain: Chain,
    model: ModelBlock,
    shape: RowShape,
    z: np.ndarray,
    key: int,
) -> None:
    """Draw the tokens from a place on, which may be within a piece."""
    docs = order.docs
    word_ids = order.word_ids
    word_ptr = order.word_ptr
    # Unsigned indices, because numba lets negative ones count from the end.
    K, width = np.uint64(len(N)), np.uint64(padded(len(N)))
    most, last = _most(N), np.uint64(len(z) - 1)
    alpha = load_row(_padded(model.alpha, width), 0, shape)
    betas = spread(np.float32(model.beta), shape)
    smoothing = spread(np.float32(model.n_words * model.beta), shape)
    one, zeros = spread(ONE, shape), spread(np.float32(0), shape)
    totals = load_row(_padded(N, width), 0, shape)
    changes = load_row(chain.changes, 0, shape)
    inverse = load_row(chain.inverse, 0, shape)
    base = moved = zeros
    row, i, end = np.uint64(0), place.token, place.piece_end
    if i < end:
        row = np.uint64(word_ids[place.segment] - model.first) * width
        base = to_floats(load_row(B, row, shape)) + betas
        place = _at(place, end)
    while True:
        if i == end:
            changes = _close(B, row, moved, changes, shape)
            place = _next_piece(place, word_ptr, middles, most)
            if place.segment == place.stop:
                break
            i, end = place.token, place.piece_end
            row = np.uint64(word_ids[place.segment] - model.first) * width
            base, moved = to_floats(load_row(B, row, shape)) + betas, zeros
            inverse = _inverse(totals, changes, one_hot(np.uint64(z[i]), shape), most, one, smoothing)
            place = _at(place, end)
        moved = _draw(np.uint64(i), docs, z, A, base, moved, inverse, alpha, one, last, K, width, shape, key)
        i += 1
    store_row(changes, chain.changes, 0, shape)


@kernel
def _two_chains(
    order: TokenOrder,
    middles: np.ndarray,
    place: Place,
    other_place: Place,
    A: np.ndarray,
    B: np.ndarray,
    N: np.ndarray,
    chain: Chain,
    other_chain: Chain,
    model: ModelBlock,
    shape: RowShape,
    z: np.ndarray,
    key: int,
) -> None:
    """Do the same as `_one_chain` for two parts that share neither a document nor a word."""
    docs = order.docs
    word_ids = order.word_ids
    word_ptr = order.word_ptr
    K, width = np.uint64(len(N)), np.uint64(padded(len(N)))
    most, last = _most(N), np.uint64(len(z) - 1)
    alpha = load_row(_padded(model.alpha, width), 0, shape)
    betas = spread(np.float32(model.beta), shape)
    smoothing = spread(np.float32(model.n_words * model.beta), shape)
    one, zeros = spread(ONE, shape), spread(np.float32(0), shape)
    totals = load_row(_padded(N, width), 0, shape)
    changes = load_row(chain.changes, 0, shape)
    other_changes = load_row(other_chain.changes, 0, shape)
    inverse = other_inverse = base = other_base = moved = other_moved = zeros
    row = other_row = np.uint64(0)
    i = end = j = other_end = 0
    while True:
        if i == end:
            changes = _close(B, row, moved, changes, shape)
            moved = zeros
            place = _next_piece(place, word_ptr, middles, most)
            if place.segment == place.stop:
                break
            i, end = place.token, place.piece_end
            row = np.uint64(word_ids[place.segment] - model.first) * width
            base = to_floats(load_row(B, row, shape)) + betas
            inverse = _inverse(totals, changes, one_hot(np.uint64(z[i]), shape), most, one, smoothing)
            place = _at(place, end)
        if j == other_end:
            other_changes = _close(B, other_row, other_moved, other_changes, shape)
            other_moved = zeros
            other_place = _next_piece(other_place, word_ptr, middles, most)
            if other_place.segment == other_place.stop:
                break
            j, other_end = other_place.token, other_place.piece_end
            other_row = np.uint64(word_ids[other_place.segment] - model.first) * width
            other_base = to_floats(load_row(B, other_row, shape)) + betas
            other_inverse = _inverse(totals, other_changes, one_hot(np.uint64(z[j]), shape), most, one, smoothing)
            other_place = _at(other_place, other_end)
        moved = _draw(np.uint64(i), docs, z, A, base, moved, inverse, alpha, one, last, K, width, shape, key)
        other_moved = _draw(
            np.uint64(j),
            docs,
            z,
            A,
            other_base,
            other_moved,
            other_inverse,
            alpha,
            one,
            last,
            K,
            width,
            shape,
            key,
        )
        i += 1
        j += 1
    # One of the two has ended. The other one goes on, perhaps within a piece.
    changes = _close(B, row, moved, changes, shape)
    other_changes = _close(B, other_row, other_moved, other_changes, shape)
    store_row(changes, chain.changes, 0, shape)
    store_row(other_changes, other_chain.changes, 0, shape)
    store_row(inverse, chain.inverse, 0, shape)
    store_row(other_inverse, other_chain.inverse, 0, shape)
    if place.segment < place.stop:
        _one_chain(order, middles, _at(place, i), A, B, N, chain, model, shape, z, key)
    if other_place.segment < other_place.stop:
        _one_chain(order, middles, _at(other_place, j), A, B, N, other_chain, model, shape, z, key)


@kernel
def _padded(numbers: np.ndarray, width: int) -> np.ndarray:
    """Return numbers as float32, followed by zeros."""
    row = np.zeros(width, np.float32)
    for k in range(len(numbers)):
        row[k] = numbers[k]
    return row
