"""LDA by collapsed Gibbs sampling in word order: the counts follow every token of a chunk.

    p(k) ∝ (A_dk + α_k) φ_vk,    φ_vk = (B_vk + β) / (N_k + Vβ),    with the token itself left out of A, B and N

ESCA draws all tokens from the counts of the last epoch. Two tokens that determine each other's topic, such as those of
a word that occurs twice, then exchange their topics instead of agreeing on one. Here, the second follows the first. So
a corpus of few or short documents needs far fewer epochs.

All three kernels below compute what this loop does:

    for v in words:                                  # word order: all tokens of a word, then those of the next word
        for i in tokens_of(v):
            d, old = docs[i], z[i]
            A[d, old] -= 1; B[v, old] -= 1; N[old] -= 1
            weights = (A[d] + alpha) * (B[v] + beta) / (N + V * beta)
            sums = cumsum(weights)
            new = first_topic_where(sums > uniform(key, i) * sums[-1])
            A[d, new] += 1; B[v, new] += 1; N[new] += 1
            z[i] = new

They differ in how they keep the rows of A, and in the order in which they sum the weights:

    topics       mean tokens per document      kernel                 rows of A
    up to 64     any number                    gibbs_registers.py     dense, in registers
    65 to 384    at least 8, and at least      gibbs_dense.py         dense, in the first cache
                 the number of topics - 128
    others                                     this file              sparse

In this file, a token is drawn as in esca.py, by inverting the cumulative distribution at one uniform number, in eight
lanes. The distribution has three parts, after SparseLDA (Yao, Mimno and McCallum, KDD 2009): A_dk φ_k for the entries
of the document's row; α_k B_vk / (N_k + Vβ) for the entries of the word's row; α_k β / (N_k + Vβ) for all topics. The
last part has N of the beginning of the sweep, with the token in it, so that it needs no new prefix sums after each
token.

Layout: the order of the tokens is that of ESCA, so one dense φ serves all tokens of a word in a group of documents. If
a draw leaves a token at its topic, which is frequent after the first epochs, no count changes here. Rows of A and B
have free places for the topics that tokens of the chunk may bring, see changing_rows.py.

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
from . import gibbs_dense as gibbs_dense
from . import gibbs_registers as gibbs_registers
from .changing_rows import (
    ONE,
    DocumentRows,
    WordRows,
    close_word,
    count_dense,
    growable_documents,
    growable_words,
    move,
    move_in_row,
    new_word,
    open_word,
    padded,
    padded_to_four,
)
from .counts import count_documents
from .esca import AHEAD, repeats, search
from .model import (
    ModelBlock,
    PriorTerms,
    TokenOrder,
    inlined,
    make_prior,
    token_order,
)
from .row_sums import LAST, ZERO, find

#: Mean number of tokens per document from which rows of A may be dense. Below, sparse ones are smaller, mostly faster.
FEWEST_DENSE_TOKENS = 8
#: Topics up to which such rows are dense. A further token per document allows one topic more, up to the second number.
DENSE_TOPICS = 128
MOST_DENSE_TOPICS = 384


class Totals(NamedTuple):
    """N, which changes with every token."""

    counts: np.ndarray  # (K,) int64: N
    inverse: np.ndarray  # (K,) float64: 1 / (N_k + Vβ)
    lowered: np.ndarray  # (K,) float64: 1 / (N_k - 1 + Vβ)


def sweep(chunk: Chunk, models: Iterable[ModelBlock], z: np.ndarray, key: np.uint64) -> np.ndarray:
    """Draw the next topics of a chunk's tokens: (T,) uint16 in word order. ``models`` are all blocks of the model.

    ``z`` (T,) uint16 are the current topics. Token i in word order takes draw i of the stream ``key``. Arguments are
    only read.
    """
    blocks = list(models)
    if len(blocks[0].alpha) <= gibbs_registers.MOST_TOPICS:
        counts = gibbs_registers.begin(blocks[0].totals, blocks[0].n_words)
        return gibbs_registers.sweep(chunk, blocks, z, key, counts)
    z = z.copy()
    key = np.uint64(key)
    model = read_only_tuple(_joined(blocks))
    order = token_order(chunk)
    B = growable_words(order, model)
    n_topics = len(model.alpha)
    if has_dense_rows(n_topics, len(z), chunk.n_documents):
        A = count_dense(chunk.docs, z, chunk.n_documents, padded_to_four(n_topics))
        gibbs_dense.sweep(order, A, B, model, z, key)
        return z
    prior = make_prior(model, 1, 1)
    totals = Totals(model.totals.astype(np.int64), prior.inverse.copy(), prior.lowered.copy())
    rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    A = growable_documents(chunk.doc_ptr, read_only_tuple(rows), n_topics)
    _sweep(order, A, B, totals, model, prior, z, key)
    return z


def has_dense_rows(n_topics: int, n_tokens: int, n_documents: int) -> bool:
    """Return whether a chunk gets dense rows of A: they take time and memory for every topic."""
    length = n_tokens / max(n_documents, 1)
    return length >= FEWEST_DENSE_TOKENS and n_topics <= min(DENSE_TOPICS + length, MOST_DENSE_TOPICS)


def _joined(blocks: list[ModelBlock]) -> ModelBlock:
    """Return all words as one block. N changes with every word, so blocks cannot be visited one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    lengths = np.concatenate([np.diff(block.row_ptr) for block in blocks])
    topics = np.concatenate([block.topics for block in blocks])
    counts = np.concatenate([block.counts for block in blocks])
    return blocks[0]._replace(row_ptr=np.r_[0, np.cumsum(lengths)], topics=topics, counts=counts)


@inlined
def _invert(N: np.ndarray, inverse: np.ndarray, lowered: np.ndarray, smoothing: float, k: int) -> None:
    """Bring the inverses of one topic up to date, see `Totals`; ``smoothing`` is Vβ."""
    total = np.float64(N[k])
    inverse[k] = 1.0 / (total + smoothing)
    lowered[k] = 1.0 / (max(total - 1.0, 0.0) + smoothing)


@kernel
def _sweep(
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
    word = new_word(K)
    phi, counts, place, word_topics, weights = word
    for k in range(K):
        phi[k] = beta * inverse[k]
    sums = np.empty(padded(K), np.float32)
    word_sums = np.empty(K + LANES, np.float32)
    for s in range(len(order.word_ids)):
        n = open_word(word, B, order.word_ids[s])
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
                n = move(counts, place, word_topics, N, old, new, n)
                for changed in (old, new):
                    _invert(N, inverse, lowered, model.n_words * beta, changed)
                    mass += _weigh(changed, place[changed], counts, alpha, beta, inverse, phi, weights)
        _clear_weights(word_topics, n, beta, inverse, phi, weights)
        close_word(word, B, order.word_ids[s], n)


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
