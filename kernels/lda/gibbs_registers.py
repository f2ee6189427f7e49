"""Collapsed Gibbs sampling in word order, as in gibbs.py, for at most 64 topics: one row per document, in registers.

    p(k) ∝ (A_dk + α_k) φ_vk,    φ_vk = (B_vk + β) / (N_k + Vβ),    with the token itself left out of A, B and N

The plain loop, with φ of a word v kept from token to token:

    φ = (B[v] + β) / (N + V β)                       # for all topics, when the word begins
    for i in tokens_of(v):
        d, old = docs[i], z[i]
        A[d, old] -= 1; B[v, old] -= 1; N[old] -= 1; φ[old] = (B[v, old] + β) / (N[old] + V β)
        new = choose((A[d] + α) φ, uniform(key, i))
        A[d, new] += 1; B[v, new] += 1; N[new] += 1; φ[new] = (B[v, new] + β) / (N[new] + V β)
        z[i] = new

There is one interval per topic, in the order of `choices.choose`, and a uniform number has 24 random bits.

Each draw changes φ, and the next one waits for that. So the time between two draws is all that counts. φ of a word
stays in registers in three versions: as it is, and with one token of the word less or more in each topic. When a token
leaves a topic or comes to one, a version replaces another there, which takes one instruction. The two numbers that
this uses up, one for the old topic and one for the new one, are computed from the counts in memory. That takes longer,
but they are not needed before the next token leaves its topic or comes to another.

Layout: A and B are dense, in rows of whole vectors. The order of the tokens is that of ESCA.

Reference implementation: tests/helpers/naive_gibbs.py, `lda_gibbs_sweep`.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .. import random
from ..chunk import Chunk
from ..jit import kernel, read_only_tuple
from ..simd.choices import MOST, choose, index_of, one_hot, prefetch_entries, row_shape, spread, to_floats, where
from ..simd.rows import Row, RowShape, load_row, store_row
from . import esca
from .changing_rows import ONE, count_dense, padded
from .counts import WordCounts, empty_table, first_entries
from .model import ModelBlock, TokenOrder, inlined, phi_with_one_less, phi_with_one_more, token_order

#: Number of topics up to which a sweep uses this kernel. For more topics, it uses the other two of gibbs.py.
MOST_TOPICS = MOST
#: Tokens between the prefetch of a document's row and its use.
AHEAD = np.uint64(esca.AHEAD)


class ShardCounts(NamedTuple):
    """Counts that follow the tokens of a shard, from chunk to chunk, with padded rows of K counts for V words."""

    totals: np.ndarray  # (K,) float64: N
    known: np.ndarray  # (V,) bool: whether the row of a word was read. Pages of other rows take no memory
    rows: np.ndarray  # (n,) int32: B
    drawn: np.ndarray  # (n,) int32: the part of B that the tokens of the shard have now, of those drawn so far


def begin(totals: np.ndarray, n_words: int) -> ShardCounts:
    """Return the counts before a shard: ``totals`` (K,) are N, for V words."""
    size = n_words * padded(len(totals))
    return ShardCounts(
        totals.astype(np.float64), np.zeros(n_words, np.bool_), np.zeros(size, np.int32), np.zeros(size, np.int32)
    )


def sweep(chunk: Chunk, models: Iterable[ModelBlock], z: np.ndarray, key: np.uint64, counts: ShardCounts) -> np.ndarray:
    """Draw the next topics of a chunk's tokens: (T,) uint16 in word order. ``models`` are all blocks of the model.

    ``z`` (T,) uint16 are the current topics. Token i in word order takes the draw ``random.uniform(key, i)``.
    ``counts`` change, other arguments are only read.
    """
    z = z.copy()
    order = token_order(chunk)
    for model in models:
        block = read_only_tuple(model)
        _read_rows(order, block, counts)
    n_topics = len(block.alpha)
    A = count_dense(chunk.docs, z, chunk.n_documents, padded(n_topics))
    _sweep(order, A, counts, block, row_shape(n_topics), z, np.uint64(key))
    return z


def drawn_counts(counts: ShardCounts, first: int, stop: int) -> WordCounts:
    """Return the counts of the shard's tokens for the words ``first`` to ``stop - 1``."""
    n_topics = len(counts.totals)
    known = counts.known[first:stop]
    # One slack entry, because the kernel writes one past the end.
    table = empty_table(stop - first, int(np.count_nonzero(known)) * n_topics + 1)
    width = padded(n_topics)
    end = _to_sparse(known, counts.drawn[first * width : stop * width], n_topics, table)
    return first_entries(table, end)


@kernel
def _read_rows(order: TokenOrder, model: ModelBlock, counts: ShardCounts) -> None:
    """Copy the rows of a block of B to dense rows, for the words that the chunk has and no chunk before it had."""
    known = counts.known
    rows = counts.rows
    row_ptr = model.row_ptr
    topics = model.topics
    tokens = model.counts
    width = padded(len(model.alpha))
    for s in range(len(order.word_ids)):
        word = np.int64(order.word_ids[s])
        row = word - model.first
        if 0 <= row < len(row_ptr) - 1 and not known[word]:
            known[word] = True
            for j in range(row_ptr[row], row_ptr[row + 1]):
                rows[word * width + topics[j]] = tokens[j]


@kernel
def _to_sparse(known: np.ndarray, rows: np.ndarray, n_topics: int, table: WordCounts) -> np.int64:
    """Fill the table with the known ones of dense rows; return its number of entries."""
    row_ptr, topics, counts = table
    width = padded(n_topics)
    end = np.int64(0)
    for v in range(len(known)):
        if known[v]:
            for k in range(n_topics):
                # Write always and advance only for a topic with tokens. A branch would often be mispredicted.
                topics[end] = k
                counts[end] = rows[v * width + k]
                end += counts[end] > 0
        row_ptr[v + 1] = end
    return end


@kernel
def _sweep(
    order: TokenOrder, A: np.ndarray, counts: ShardCounts, model: ModelBlock, shape: RowShape, z: np.ndarray, key: int
) -> None:
    """Draw the topics ``z`` of all tokens; A, B and N follow."""
    # Unsigned indices, because numba lets negative ones count from the end.
    docs = order.docs
    N, _, B, drawn_so_far = counts
    K, width = np.uint64(len(N)), np.uint64(padded(len(N)))
    last = np.uint64(len(z) - 1)
    beta, smoothing = model.beta, model.n_words * model.beta
    alpha = load_row(_padded(model.alpha, width), 0, shape)
    betas, smoothings = spread(np.float32(beta), shape), spread(np.float32(smoothing), shape)
    one, one_token = spread(ONE, shape), spread(np.int32(1), shape)
    # N in registers too: to load numbers together that were stored one by one takes long.
    first_totals, changes = load_row(_padded(N, width), 0, shape), spread(np.int32(0), shape)
    for s in range(len(order.word_ids)):
        row = np.uint64(order.word_ids[s]) * width
        b = to_floats(load_row(B, row, shape))
        n = first_totals + to_floats(changes)
        phi = _phi(b, n, betas, smoothings)
        phi_lowered = _phi(b - one, n - one, betas, smoothings)
        phi_raised = _phi(b + one, n + one, betas, smoothings)
        for i in range(np.uint64(order.word_ptr[s]), np.uint64(order.word_ptr[s + 1])):
            prefetch_entries(A, np.uint64(docs[min(i + AHEAD, last)]) * width, shape)
            head = np.uint64(docs[i]) * width
            a = load_row(A, head, shape)

            # Take the token out of its topic.
            old = np.uint64(z[i])
            own = one_hot(old, shape)
            total = N[old] - 1.0
            count = B[row + old] - 1
            N[old] = total
            B[row + old] = count
            lower = phi_with_one_less(count, total, beta, smoothing)
            phi_raised = where(own, phi, phi_raised)
            phi = where(own, phi_lowered, phi)
            phi_lowered = where(own, spread(lower, shape), phi_lowered)
            changes = where(own, changes - one_token, changes)
            a = where(own, a - one, a)

            drawn = choose((a + alpha) * phi, random.uniform(key, i))
            new = index_of(drawn)
            # Rounding at the end of a lane can point into the padding: the topic stays then.
            if new >= K:
                new, drawn = old, own

            # Put it into the new one.
            total = N[new] + 1.0
            count = B[row + new] + 1
            N[new] = total
            B[row + new] = count
            higher = phi_with_one_more(count, total, beta, smoothing)
            phi_lowered = where(drawn, phi, phi_lowered)
            phi = where(drawn, phi_raised, phi)
            phi_raised = where(drawn, spread(higher, shape), phi_raised)
            changes = where(drawn, changes + one_token, changes)
            store_row(where(drawn, a + one, a), A, head, shape)
            drawn_so_far[row + new] += 1
            z[i] = new


@inlined
def _phi(b: Row, n: Row, beta: Row, smoothing: Row) -> Row:
    """Return φ of a word whose row of B is ``b``; ``n`` are N, and ``smoothing`` is Vβ."""
    return (b + beta) / (n + smoothing)


@kernel
def _padded(numbers: np.ndarray, width: int) -> np.ndarray:
    """Return numbers as float32, followed by zeros."""
    row = np.zeros(width, np.float32)
    for k in range(len(numbers)):
        row[k] = numbers[k]
    return row
