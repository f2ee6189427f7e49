"""LDA by collapsed Gibbs sampling in word order: the counts follow every token of a chunk.

    p(k) ∝ (A_dk + α_k) φ_vk,    φ_vk = (B_vk + β) / (N_k + Vβ),    with the token itself left out of A, B and N

ESCA draws all tokens from the counts of the last epoch. Two tokens that determine each other's topic, such as those of
a word that occurs twice, then exchange their topics instead of agreeing on one. Here, the second follows the first. So
a corpus of few or short documents needs far fewer epochs.

A token is drawn as in esca.py, by inverting the cumulative distribution at one uniform number, in eight lanes. The
intervals are in this order:

- If rows of A are nearly dense (`esca.is_dense`): one interval for each of the K topics.
- Otherwise the distribution has three parts, after SparseLDA (Yao, Mimno and McCallum, KDD 2009): A_dk φ_k for the
  entries of the document's row; α_k B_vk / (N_k + Vβ) for the entries of the word's row; α_k β / (N_k + Vβ) for all
  topics. The last part has N of the beginning of the sweep, so that it needs no new prefix sums after each token.

Layout: the order of the tokens is that of ESCA, so one dense φ serves all tokens of a word in a group of documents. If
a draw leaves a token at its topic, which is frequent after the first epochs, no count changes. Rows of A and B have
free places for the topics that tokens of the chunk may bring, see `DocumentRows` and `WordRows`.

Reference implementation: tests/helpers/naive.py, `lda_gibbs_sweep`.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .. import random
from ..chunk import Chunk
from ..jit import kernel
from ..simd.lanes import (
    LANES,
    Lanes,
    gather,
    load,
    pick,
    prefix_sums,
    splat,
    store,
    to_double,
    where_equal,
)
from ..simd.prefetch import prefetch
from .counts import MAX_TOPICS, SIXTEEN, DocumentCounts, WordCounts, count_documents
from .esca import AHEAD, EIGHT_TOPICS, LAST, LOW, ZERO, find, is_dense, search
from .model import ModelBlock, PriorTerms, TokenOrder, block_segments, inlined, make_prior, read_only_tuple, token_order

ONE = np.float32(1)


class DocumentRows(NamedTuple):
    """Sparse rows of A that change. A row has a place for each topic that its tokens can have."""

    row_ptr: np.ndarray  # (D + 1,) int64, multiples of eight
    lengths: np.ndarray  # (D,) int64: entries in use
    topics: np.ndarray  # (n,) uint32; K in places that are not in use, so that they are never a token's topic
    counts: np.ndarray  # (n,) float32; 0 in places that are not in use


class WordRows(NamedTuple):
    """Sparse rows of B (W words) that change. A row has a place for each topic it can get in the chunk."""

    row_ptr: np.ndarray  # (W + 1,) int64
    lengths: np.ndarray  # (W,) int64: entries in use
    topics: np.ndarray  # (n,) uint16
    counts: np.ndarray  # (n,) int32


class Totals(NamedTuple):
    """N, which changes with every token."""

    counts: np.ndarray  # (K,) int64: N
    inverse: np.ndarray  # (K,) float64: 1 / (N_k + Vβ)
    lowered: np.ndarray  # (K,) float64: 1 / (N_k - 1 + Vβ)


class Word(NamedTuple):
    """The current word."""

    phi: np.ndarray  # (K + 8,) float32, zeros from K on
    counts: np.ndarray  # (K,) int32: its row of B
    place: np.ndarray  # (K,) int32: the place of each of its topics in ``topics``, or -1
    topics: np.ndarray  # (K + 8,) int32: its topics, those without tokens included
    weights: np.ndarray  # (K + 8,) float32: α_k B_vk / (N_k + Vβ) of these topics, then zeros


def sweep(chunk: Chunk, models: Iterable[ModelBlock], z: np.ndarray, key: np.uint64) -> np.ndarray:
    """Draw the next topics of a chunk's tokens: (T,) uint16 in word order. ``models`` are all blocks of the model.

    ``z`` (T,) uint16 are the current topics. Token i in word order takes the draw ``random.uniform64(key, i)``.
    Arguments are only read.
    """
    z = z.copy()
    model = _joined(list(models))
    order = token_order(chunk)
    prior = make_prior(model, 1, 1)
    totals = Totals(model.totals.astype(np.int64), prior.inverse.copy(), prior.lowered.copy())
    block = read_only_tuple(model)
    A = _changing_rows(chunk, z, len(model.alpha))
    B = _roomy_words(order, block)
    draw = _sweep_dense if isinstance(A, np.ndarray) else _sweep_sparse
    draw(order, A, B, totals, block, prior, z, np.uint64(key))
    return z


def _joined(blocks: list[ModelBlock]) -> ModelBlock:
    """Return all words as one block. N changes with every word, so blocks cannot be visited one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    lengths = np.concatenate([np.diff(block.row_ptr) for block in blocks])
    topics = np.concatenate([block.topics for block in blocks])
    counts = np.concatenate([block.counts for block in blocks])
    return blocks[0]._replace(row_ptr=np.r_[0, np.cumsum(lengths)], topics=topics, counts=counts)


def _changing_rows(chunk: Chunk, z: np.ndarray, n_topics: int) -> DocumentRows | np.ndarray:
    """Return rows of A that draws can change: dense ones if the rows are nearly dense."""
    rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    if is_dense(rows, n_topics):
        return _dense_rows(chunk.docs, z, chunk.n_documents, padded(n_topics))
    return _roomy_documents(chunk.doc_ptr, read_only_tuple(rows), n_topics)


def padded(n_topics: int) -> int:
    """Return K rounded up to whole vectors."""
    return (n_topics + LANES - 1) // LANES * LANES


def with_changes(model: ModelBlock, gained: WordCounts, lost: WordCounts, totals: np.ndarray) -> ModelBlock:
    """Return a block of the model with the counts ``gained`` added and ``lost`` subtracted, and with the given N.

    The rows need not be in ascending order for `sweep`, and they are not.
    """
    counts = _with_changes(read_only_tuple(model), read_only_tuple(gained), read_only_tuple(lost))
    return model._replace(row_ptr=counts[0], topics=counts[1], counts=counts[2], totals=totals)


@kernel
def _with_changes(
    model: ModelBlock, gained: WordCounts, lost: WordCounts
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of `with_changes`: the fields of `WordCounts`."""
    W = len(model.row_ptr) - 1
    row = np.zeros(len(model.alpha), np.int32)
    row_ptr = np.zeros(W + 1, np.int64)
    topics = np.empty(len(model.topics) + len(gained.topics), np.uint16)
    counts = np.empty(len(topics), np.int32)
    end = 0
    for v in range(W):
        start = end
        for j in range(model.row_ptr[v], model.row_ptr[v + 1]):
            row[model.topics[j]] = model.counts[j]
            topics[end] = model.topics[j]
            end += 1
        for j in range(gained.row_ptr[v], gained.row_ptr[v + 1]):
            if row[gained.topics[j]] == 0:
                topics[end] = gained.topics[j]
                end += 1
            row[gained.topics[j]] += gained.counts[j]
        for j in range(lost.row_ptr[v], lost.row_ptr[v + 1]):
            row[lost.topics[j]] -= lost.counts[j]
        used = start
        for j in range(start, end):
            k = topics[j]
            if row[k] > 0:
                topics[used] = k
                counts[used] = row[k]
                used += 1
            row[k] = 0
        end = used
        row_ptr[v + 1] = end
    return row_ptr, topics[:end].copy(), counts[:end].copy()


# --- rows with free places ---


@kernel
def _dense_rows(docs: np.ndarray, z: np.ndarray, n_documents: int, width: int) -> np.ndarray:
    """Count topics ``z`` (T,) uint16 of the documents ``docs`` (T,): flat float32, ``width`` numbers per document."""
    A = np.zeros(n_documents * width, np.float32)
    for i in range(len(z)):
        A[np.int64(docs[i]) * width + z[i]] += ONE
    return A


@kernel
def _roomy_documents(doc_ptr: np.ndarray, rows: DocumentCounts, n_topics: int) -> DocumentRows:
    """Copy rows of A to rows with a place for each topic that the document's tokens can have."""
    D = len(doc_ptr) - 1
    row_ptr = np.zeros(D + 1, np.int64)
    for d in range(D):
        places = min(doc_ptr[d + 1] - doc_ptr[d], n_topics)
        row_ptr[d + 1] = row_ptr[d] + (places + LANES - 1) // LANES * LANES
    lengths = np.zeros(D, np.int64)
    topics = np.full(row_ptr[-1], n_topics, np.uint32)
    counts = np.zeros(row_ptr[-1], np.float32)
    place = np.full(n_topics, -1, np.int64)
    for d in range(D):
        start = row_ptr[d]
        end = start
        for entry in rows.entries[rows.row_ptr[d] : rows.row_ptr[d + 1]]:
            if entry & LOW == 0:
                continue
            k = np.int64(entry >> SIXTEEN) & (MAX_TOPICS - 1)
            # A topic of many tokens has several packed entries.
            if place[k] < 0:
                place[k] = end
                topics[end] = k
                end += 1
            counts[place[k]] += np.float32(entry & LOW)
        for j in range(start, end):
            place[topics[j]] = -1
        lengths[d] = end - start
    return DocumentRows(row_ptr, lengths, topics, counts)


@kernel
def _roomy_words(order: TokenOrder, model: ModelBlock) -> WordRows:
    """Copy the rows of B to rows with a place for each topic that a word can have in this chunk."""
    n_topics = len(model.alpha)
    W = len(model.row_ptr) - 1
    places = np.zeros(W, np.int64)
    for s in range(len(order.word_ids)):
        row = np.int64(order.word_ids[s]) - model.first
        if 0 <= row < W:
            places[row] += order.word_ptr[s + 1] - order.word_ptr[s]
    row_ptr = np.zeros(W + 1, np.int64)
    lengths = model.row_ptr[1:] - model.row_ptr[:-1]
    for row in range(W):
        # The words that the chunk lacks are not read.
        if places[row] == 0:
            lengths[row] = 0
        row_ptr[row + 1] = row_ptr[row] + min(places[row] + lengths[row], n_topics)
    topics = np.empty(row_ptr[-1], np.uint16)
    counts = np.empty(row_ptr[-1], np.int32)
    for row in range(W):
        for j in range(lengths[row]):
            topics[row_ptr[row] + j] = model.topics[model.row_ptr[row] + j]
            counts[row_ptr[row] + j] = model.counts[model.row_ptr[row] + j]
    return WordRows(row_ptr, lengths, topics, counts)


# --- the current word ---


@kernel
def _new_word(n_topics: int) -> Word:
    """Return scratch for one word after another."""
    phi = np.zeros(n_topics + LANES, np.float32)
    counts = np.zeros(n_topics, np.int32)
    place = np.full(n_topics, -1, np.int32)
    topics = np.zeros(n_topics + LANES, np.int32)
    return Word(phi, counts, place, topics, np.zeros(n_topics + LANES, np.float32))


@kernel
def _open_word(word: Word, B: WordRows, row: int) -> int:
    """Read a row of B; return the number of its topics."""
    start = B.row_ptr[row]
    n = B.lengths[row]
    for j in range(n):
        k = np.int64(B.topics[start + j])
        word.counts[k] = B.counts[start + j]
        word.place[k] = j
        word.topics[j] = k
    return n


@kernel
def _close_word(word: Word, B: WordRows, row: int, n: int) -> None:
    """Write the counts of the current word, which had ``n`` topics, to its row of B, and reset the scratch."""
    start = B.row_ptr[row]
    used = 0
    for j in range(n):
        k = word.topics[j]
        if word.counts[k] > 0:
            B.topics[start + used] = k
            B.counts[start + used] = word.counts[k]
            used += 1
        word.counts[k] = 0
        word.place[k] = -1
    B.lengths[row] = used


@inlined
def _move(word: Word, totals: Totals, mass: float, old: int, new: int, n: int) -> int:
    """Move one token of the current word from one topic to another; return the number of the word's topics."""
    word.counts[old] -= 1
    word.counts[new] += 1
    if word.place[new] < 0:
        word.place[new] = n
        word.topics[n] = new
        n += 1
    totals.counts[old] -= 1
    totals.counts[new] += 1
    for k in (old, new):
        total = np.float64(totals.counts[k])
        totals.inverse[k] = 1.0 / (total + mass)
        totals.lowered[k] = 1.0 / (max(total - 1.0, 0.0) + mass)
    return n


@inlined
def _repeats(docs: np.ndarray, z: np.ndarray, start: int, i: int) -> bool:
    """Return whether token i has the document and topic of the token before it, of the same word."""
    return (i > start) & (docs[i] == docs[i - 1]) & (z[i] == z[i - 1])


# --- dense rows ---


@kernel
def _sweep_dense(
    order: TokenOrder,
    A: np.ndarray,
    B: WordRows,
    totals: Totals,
    model: ModelBlock,
    prior: PriorTerms,
    z: np.ndarray,
    key: np.uint64,
) -> None:
    """Draw from the distribution with one interval per topic, over dense rows of A."""
    # Local names, because each access to an array inside a tuple changes its reference count.
    docs = order.docs
    beta = model.beta
    smoothing = model.n_words * beta
    K = len(model.alpha)
    width = (K + LANES - 1) // LANES * LANES
    alpha = np.zeros(width, np.float32)
    alpha[:K] = model.alpha
    sums = np.empty(width, np.float32)
    word = _new_word(K)
    phi = word.phi
    counts = word.counts
    inverse = totals.inverse
    lowered = totals.lowered
    for group in range(len(order.group_ptr) - 1):
        first, stop = block_segments(order, group, model)
        for s in range(first, stop):
            row = np.int64(order.word_ids[s]) - model.first
            n = _open_word(word, B, row)
            for k in range(K):
                phi[k] = (counts[k] + beta) * inverse[k]
            moved = True
            start, end = order.word_ptr[s], order.word_ptr[s + 1]
            for i in range(start, end):
                prefetch(A, np.int64(docs[min(i + AHEAD, len(z) - 1)]) * width)
                old = np.int64(z[i])
                head = np.int64(docs[i]) * width
                # If the token before it has stayed, this one has the same distribution.
                if moved or not _repeats(docs, z, start, i):
                    own = np.float32((counts[old] - 1 + beta) * lowered[old])
                    ends = _dense_products(A, alpha, head, width, old, phi, own, sums)
                new = np.int64(find(sums, ends, random.uniform64(key, i) * pick(ends, LAST), width))
                # Rounding at the very end of the distribution can point into the padding: the topic stays then.
                moved = (new != old) & (new < K)
                if moved:
                    z[i] = new
                    A[head + old] -= ONE
                    A[head + new] += ONE
                    n = _move(word, totals, smoothing, old, new, n)
                    phi[old] = (counts[old] + beta) * inverse[old]
                    phi[new] = (counts[new] + beta) * inverse[new]
            _close_word(word, B, row, n)


@inlined
def _dense_products(
    A: np.ndarray,
    alpha: np.ndarray,
    head: int,
    n: int,
    old: int,
    phi: np.ndarray,
    phi_old: np.float32,
    sums: np.ndarray,
) -> Lanes:
    """Sum (A_dk + α_k) φ_k over all topics, with the old topic lowered.

    Writes the running sums of each lane to ``sums``. Returns the prefix sums of the lanes' totals, eight float64.
    """
    total = splat(ZERO)
    k = load(EIGHT_TOPICS, 0)
    eight = splat(np.uint32(LANES))
    own = splat(np.uint32(old))
    phi_own = splat(phi_old)
    one = splat(ONE)
    for j in range(0, n, LANES):
        a = load(A, head + j) + load(alpha, j)
        total = total + where_equal(k, own, (a - one) * phi_own, a * load(phi, j))
        store(sums, j, total)
        k = k + eight
    return prefix_sums(to_double(total))


# --- sparse rows ---


@kernel
def _sweep_sparse(
    order: TokenOrder,
    A: DocumentRows,
    B: WordRows,
    totals: Totals,
    model: ModelBlock,
    prior: PriorTerms,
    z: np.ndarray,
    key: np.uint64,
) -> None:
    """Draw from the distribution in three parts."""
    docs = order.docs
    row_ptr = A.row_ptr
    lengths = A.lengths
    topics = A.topics
    tokens = A.counts
    beta = model.beta
    smoothing = model.n_words * beta
    K = len(model.alpha)
    alpha = prior.alpha
    smooth = prior.smooth
    word = _new_word(K)
    phi = word.phi
    counts = word.counts
    place = word.place
    weights = word.weights
    inverse = totals.inverse
    lowered = totals.lowered
    longest = LANES
    for d in range(len(row_ptr) - 1):
        longest = max(longest, row_ptr[d + 1] - row_ptr[d])
    sums = np.empty(longest, np.float32)
    word_sums = np.empty(K + LANES, np.float32)
    for k in range(K):
        phi[k] = beta * inverse[k]
    for group in range(len(order.group_ptr) - 1):
        first, stop = block_segments(order, group, model)
        for s in range(first, stop):
            row = np.int64(order.word_ids[s]) - model.first
            n = _open_word(word, B, row)
            mass = 0.0
            for j in range(n):
                k = word.topics[j]
                phi[k] = (counts[k] + beta) * inverse[k]
                weights[j] = alpha[k] * counts[k] * inverse[k]
                mass += weights[j]
            moved = True
            start, end = order.word_ptr[s], order.word_ptr[s + 1]
            for i in range(start, end):
                ahead = row_ptr[docs[min(i + AHEAD, len(z) - 1)]]
                prefetch(topics, ahead)
                prefetch(tokens, ahead)
                d = docs[i]
                old = np.int64(z[i])
                head = row_ptr[d]
                length = lengths[d]
                if moved or not _repeats(docs, z, start, i):
                    own = np.float32((counts[old] - 1 + beta) * lowered[old])
                    ends = _sparse_products(topics, tokens, head, length, old, phi, own, sums)
                    own_weight = np.float32(alpha[old] * (counts[old] - 1) * lowered[old])
                    others = max(mass - weights[place[old]] + own_weight, 0.0)
                new = old
                x = random.uniform64(key, i) * (pick(ends, LAST) + others + smooth[-1])
                if x < pick(ends, LAST):
                    at = head + find(sums, ends, x, (length + LANES - 1) // LANES * LANES)
                    # Rounding can point to a place that is not in use.
                    if tokens[at] > ZERO:
                        new = np.int64(topics[at])
                elif x < pick(ends, LAST) + others:
                    new = _draw_from_word(word, n, x - pick(ends, LAST), place[old], own_weight, word_sums)
                else:
                    new = search(smooth, x - pick(ends, LAST) - others)
                moved = new != old
                if moved:
                    z[i] = new
                    _move_in_row(A, d, old, new, K)
                    mass -= np.float64(weights[place[old]])
                    if place[new] >= 0:
                        mass -= np.float64(weights[place[new]])
                    n = _move(word, totals, smoothing, old, new, n)
                    for k in (old, new):
                        phi[k] = (counts[k] + beta) * inverse[k]
                        weights[place[k]] = alpha[k] * counts[k] * inverse[k]
                        mass += np.float64(weights[place[k]])
            for j in range(n):
                k = word.topics[j]
                phi[k] = beta * inverse[k]
                weights[j] = ZERO
            _close_word(word, B, row, n)


@inlined
def _sparse_products(
    topics: np.ndarray,
    tokens: np.ndarray,
    head: int,
    n: int,
    old: int,
    phi: np.ndarray,
    phi_old: np.float32,
    sums: np.ndarray,
) -> Lanes:
    """Sum A_dk φ_k over the n entries of a row, with the old topic lowered; results as in `_dense_products`."""
    total = splat(ZERO)
    own = splat(np.uint32(old))
    phi_own = splat(phi_old)
    one = splat(ONE)
    for j in range(0, n, LANES):
        k = load(topics, head + j)
        count = load(tokens, head + j)
        weight = where_equal(k, own, (count - one) * phi_own, count * gather(phi, k))
        total = total + weight
        store(sums, j, total)
    return prefix_sums(to_double(total))


@kernel
def _draw_from_word(word: Word, n: int, x: float, own: int, own_weight: np.float32, sums: np.ndarray) -> int:
    """Return the topic at ``x`` of the part of the word's own counts, in which the old topic has the place ``own``."""
    kept = word.weights[own]
    word.weights[own] = own_weight
    total = splat(ZERO)
    for j in range(0, n, LANES):
        total = total + load(word.weights, j)
        store(sums, j, total)
    word.weights[own] = kept
    j = find(sums, prefix_sums(to_double(total)), x, (n + LANES - 1) // LANES * LANES)
    return np.int64(word.topics[min(j, n - 1)])


@kernel
def _move_in_row(A: DocumentRows, d: int, old: int, new: int, n_topics: int) -> None:
    """Move one token of document d from one topic to another. Entries in use stay at the beginning of the row."""
    start = A.row_ptr[d]
    end = start + A.lengths[d]
    at = start
    while A.topics[at] != old:
        at += 1
    A.counts[at] -= ONE
    if A.counts[at] == ZERO:
        end -= 1
        A.topics[at] = A.topics[end]
        A.counts[at] = A.counts[end]
        A.topics[end] = n_topics
        A.counts[end] = ZERO
    at = start
    while at < end and A.topics[at] != new:
        at += 1
    if at == end:
        A.topics[end] = new
        end += 1
    A.counts[at] += ONE
    A.lengths[d] = end - start
