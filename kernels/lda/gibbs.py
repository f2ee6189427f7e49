"""LDA by collapsed Gibbs sampling in word order: the counts follow every token of a chunk.

    p(k) ∝ (A_dk + α_k) φ_vk,    φ_vk = (B_vk + β) / (N_k + Vβ),    with the token itself left out of A, B and N

ESCA draws all tokens from the counts of the last epoch. Two tokens that determine each other's topic, such as those of
a word that occurs twice, then exchange their topics instead of agreeing on one. Here, the second follows the first. So
a corpus of few or short documents needs far fewer epochs.

For at most 64 topics, few_topics.py has another kernel. Here, a token is drawn as in esca.py, by inverting the
cumulative distribution at one uniform number, in eight lanes. The intervals are in this order:

- If rows of A are nearly dense (`esca.is_dense`): one interval for each of the K topics.
- Otherwise the distribution has three parts, after SparseLDA (Yao, Mimno and McCallum, KDD 2009): A_dk φ_k for the
  entries of the document's row; α_k B_vk / (N_k + Vβ) for the entries of the word's row; α_k β / (N_k + Vβ) for all
  topics. The last part has N of the beginning of the sweep, so that it needs no new prefix sums after each token.

Layout: the order of the tokens is that of ESCA, so one dense φ serves all tokens of a word in a group of documents. If
a draw leaves a token at its topic, which is frequent after the first epochs, no count changes. Rows of A and B have
free places for the topics that tokens of the chunk may bring, see changing_rows.py.

Reference implementation: tests/helpers/naive_gibbs.py, `lda_gibbs_sweep`.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .. import random
from ..chunk import Chunk
from ..jit import kernel, read_only_tuple
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
from . import few_topics
from .changing_rows import (
    ONE,
    DocumentRows,
    WordRows,
    dense_rows,
    growable_documents,
    growable_words,
    move_in_row,
    padded,
)
from .counts import count_documents
from .esca import AHEAD, EIGHT_TOPICS, is_dense, repeats, search
from .model import (
    ModelBlock,
    PriorTerms,
    TokenOrder,
    inlined,
    make_prior,
    token_order,
)
from .row_sums import LAST, ZERO, find


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

    ``z`` (T,) uint16 are the current topics. Token i in word order takes draw i of the stream ``key``. Arguments are
    only read.
    """
    blocks = list(models)
    if len(blocks[0].alpha) <= few_topics.MOST_TOPICS:
        counts = few_topics.begin(blocks[0].totals, blocks[0].n_words)
        return few_topics.sweep(chunk, blocks, z, key, counts)
    z = z.copy()
    model = _joined(blocks)
    order = token_order(chunk)
    prior = make_prior(model, 1, 1)
    totals = Totals(model.totals.astype(np.int64), prior.inverse.copy(), prior.lowered.copy())
    block = read_only_tuple(model)
    A = _changing_rows(chunk, z, len(model.alpha))
    B = growable_words(order, block)
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
        return dense_rows(chunk.docs, z, chunk.n_documents, padded(n_topics))
    return growable_documents(chunk.doc_ptr, read_only_tuple(rows), n_topics)


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
    # Local names, because each access to an array inside a tuple changes its reference count.
    counts = word.counts
    place = word.place
    topics = word.topics
    row_topics = B.topics
    row_counts = B.counts
    start = B.row_ptr[row]
    n = B.lengths[row]
    for j in range(n):
        k = np.int64(row_topics[start + j])
        counts[k] = row_counts[start + j]
        place[k] = j
        topics[j] = k
    return n


@kernel
def _close_word(word: Word, B: WordRows, row: int, n: int) -> None:
    """Write the counts of the current word, which had ``n`` topics, to its row of B, and reset the scratch."""
    counts = word.counts
    place = word.place
    topics = word.topics
    row_topics = B.topics
    row_counts = B.counts
    end = B.row_ptr[row]
    for j in range(n):
        k = topics[j]
        if counts[k] > 0:
            row_topics[end] = k
            row_counts[end] = counts[k]
            end += 1
        counts[k] = 0
        place[k] = -1
    B.lengths[row] = end - B.row_ptr[row]


@inlined
def _move(counts: np.ndarray, place: np.ndarray, topics: np.ndarray, N: np.ndarray, old: int, new: int, n: int) -> int:
    """Move one token of the current word from one topic to another; return the number of the word's topics.

    The first arrays are those of `Word`. They are separate arguments, because each access to an array inside a tuple
    changes its reference count, which takes longer than the rest.
    """
    counts[old] -= 1
    counts[new] += 1
    N[old] -= 1
    N[new] += 1
    if place[new] < 0:
        place[new] = n
        topics[n] = new
        n += 1
    return n


@inlined
def _invert(N: np.ndarray, inverse: np.ndarray, lowered: np.ndarray, smoothing: float, k: int) -> None:
    """Bring the inverses of one topic up to date, see `Totals`; ``smoothing`` is Vβ."""
    total = np.float64(N[k])
    inverse[k] = 1.0 / (total + smoothing)
    lowered[k] = 1.0 / (max(total - 1.0, 0.0) + smoothing)


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
    width = padded(K)
    alpha = np.zeros(width, np.float32)
    for k in range(K):
        alpha[k] = model.alpha[k]
    sums = np.empty(width, np.float32)
    word = _new_word(K)
    phi, counts, place, topics, _ = word
    N, inverse, lowered = totals
    for s in range(len(order.word_ids)):
        row = np.int64(order.word_ids[s])
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
            if moved or not repeats(docs, z, start, i):
                own = np.float32((counts[old] - 1 + beta) * lowered[old])
                ends = _dense_products(A, alpha, head, width, old, phi, own, sums)
            new = np.int64(find(sums, ends, random.uniform64(key, i) * pick(ends, LAST), width))
            # Rounding at the very end of the distribution can point into the padding: the topic stays then.
            moved = (new != old) & (new < K)
            if moved:
                z[i] = new
                A[head + old] -= ONE
                A[head + new] += ONE
                n = _move(counts, place, topics, N, old, new, n)
                _invert(N, inverse, lowered, smoothing, old)
                _invert(N, inverse, lowered, smoothing, new)
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
    row_ptr, lengths, topics, tokens = A
    N, inverse, lowered = totals
    alpha = prior.alpha
    smooth = prior.smooth
    beta = model.beta
    K = len(alpha)
    word = _new_word(K)
    phi, counts, place, word_topics, weights = word
    for k in range(K):
        phi[k] = beta * inverse[k]
    sums = np.empty(padded(K), np.float32)
    word_sums = np.empty(K + LANES, np.float32)
    for s in range(len(order.word_ids)):
        n = _open_word(word, B, order.word_ids[s])
        mass = 0.0
        for j in range(n):
            mass += _weigh(word_topics[j], j, counts, alpha, beta, inverse, phi, weights)
        moved = True
        start, end = order.word_ptr[s], order.word_ptr[s + 1]
        for i in range(start, end):
            _prefetch_row(topics, tokens, row_ptr[docs[min(i + AHEAD, len(z) - 1)]])
            d = docs[i]
            old = np.int64(z[i])
            head = row_ptr[d]
            length = lengths[d]
            if moved or not repeats(docs, z, start, i):
                own = np.float32((counts[old] - 1 + beta) * lowered[old])
                ends = _sparse_products(topics, tokens, head, length, old, phi, own, sums)
                own_weight = np.float32(alpha[old] * (counts[old] - 1) * lowered[old])
                others = max(mass - weights[place[old]] + own_weight, 0.0)
            of_document = pick(ends, LAST)
            x = random.uniform64(key, i) * (of_document + others + smooth[-1])
            if x < of_document:
                new = _topic_at(topics, tokens, head + find(sums, ends, x, padded(length)), old)
            else:
                x -= of_document
                new = _draw_prior(weights, word_topics, n, x, place[old], own_weight, word_sums, smooth, others)
            moved = new != old
            if moved:
                z[i] = new
                lengths[d] = move_in_row(topics, tokens, head, length, old, new, K)
                n = _move(counts, place, word_topics, N, old, new, n)
                for changed in (old, new):
                    _invert(N, inverse, lowered, model.n_words * beta, changed)
                    mass += _weigh(changed, place[changed], counts, alpha, beta, inverse, phi, weights)
        _clear_weights(word_topics, n, beta, inverse, phi, weights)
        _close_word(word, B, order.word_ids[s], n)


@inlined
def _clear_weights(
    topics: np.ndarray, n: int, beta: float, inverse: np.ndarray, phi: np.ndarray, weights: np.ndarray
) -> None:
    """Set the weights of a word's n topics to zero, and φ to that of a topic without tokens of the word."""
    for j in range(n):
        k = topics[j]
        phi[k] = beta * inverse[k]
        weights[j] = ZERO


@inlined
def _weigh(
    k: int,
    place: int,
    counts: np.ndarray,
    alpha: np.ndarray,
    beta: float,
    inverse: np.ndarray,
    phi: np.ndarray,
    weights: np.ndarray,
) -> np.float64:
    """Bring φ of the current word and its weight at topic k up to date; return by how much the weight rose."""
    phi[k] = (counts[k] + beta) * inverse[k]
    before = np.float64(weights[place])
    weights[place] = alpha[k] * counts[k] * inverse[k]
    return np.float64(weights[place]) - before


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


@inlined
def _prefetch_row(topics: np.ndarray, tokens: np.ndarray, at: int) -> None:
    """Begin to load the first entries of a row of A."""
    prefetch(topics, at)
    prefetch(tokens, at)


@inlined
def _topic_at(topics: np.ndarray, tokens: np.ndarray, at: int, old: np.int64) -> np.int64:
    """Return the topic of an entry. Rounding can point to a place that is not in use: the topic stays then."""
    if tokens[at] > ZERO:
        return np.int64(topics[at])
    return old


@kernel
def _draw_prior(
    weights: np.ndarray,
    topics: np.ndarray,
    n: int,
    x: float,
    own: int,
    own_weight: np.float32,
    sums: np.ndarray,
    smooth: np.ndarray,
    mass: float,
) -> np.int64:
    """Return the topic at ``x`` of the second part, of width ``mass``, or of the third part.

    In the second part, which is that of the word's own counts, the old topic has the place ``own``.
    """
    if x >= mass:
        return search(smooth, len(smooth) - 1, x - mass)
    kept = weights[own]
    weights[own] = own_weight
    total = splat(ZERO)
    for j in range(0, n, LANES):
        total = total + load(weights, j)
        store(sums, j, total)
    weights[own] = kept
    j = find(sums, prefix_sums(to_double(total)), x, padded(n))
    return np.int64(topics[min(j, n - 1)])
