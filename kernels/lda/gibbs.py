"""LDA by collapsed Gibbs sampling in word order: the counts follow every token.

    p(k) ∝ (A_dk + α_k) φ_vk,    φ_vk = (B_vk + β) / (N_k + Vβ),    with the token itself left out of A and B

ESCA draws all tokens from the counts of the last epoch. Two tokens that determine each other's topic, such as those of
a word that occurs twice, then exchange their topics instead of agreeing on one. Here, the second follows the first. So
a corpus of few or short documents needs far fewer epochs.

All three kernels compute what this loop does:

    inverse = 1 / (N + V * beta)
    for v in words:                                  # word order: all tokens of a word, then those of the next word
        for i in tokens_of(v):
            d, old = docs[i], z[i]
            A[d, old] -= 1; B[v, old] -= 1
            sums = cumsum((A[d] + alpha) * (B[v] + beta) * inverse)
            new = first_topic_where(sums > uniform(key, i) * sums[-1])
            A[d, new] += 1; B[v, new] += 1; z[i] = new
        N += by how much B[v] changed
        if enough_tokens: inverse = 1 / (N + V * beta)

A and B are those of the moment. N is a sum over a whole topic, which one token hardly changes, so its inverse stays the
same for a while: for at most `piece_tokens` of a word with up to 64 topics, and about as many of several words with
more. Then φ takes no division. It is computed earlier if N has changed by more than a few percent.

The kernels differ in how they keep the rows of A, and in the order in which they sum the weights:

    topics       mean tokens per document      kernel                 rows of A
    up to 64     any number                    gibbs_registers.py     dense, in registers
    65 to 384    at least 8, and at least      gibbs_dense.py         dense, in the first cache
                 the number of topics - 128
    others                                     this file              sparse

Documents of more than 65,535 tokens always have dense rows, because a count of a sparse row has 16 bits.

In this file, a token is drawn as in esca.py, by inverting the cumulative distribution at one uniform number, in eight
lanes. The distribution has three parts, after SparseLDA (Yao, Mimno and McCallum, KDD 2009): A_dk φ_k for the entries
of the document's row; α_k B_vk / (N_k + Vβ) for the entries of the word's row; α_k β / (N_k + Vβ) for all topics.

Layout: the order of the tokens is that of ESCA, so one dense φ serves all tokens of a word in a group of documents. If
a draw leaves a token at its topic, which is frequent after the first epochs, no count changes here. The products of a
row of A with φ are kept for further tokens of the word in the same document. Rows of A and B have free places for the
topics that tokens may come to, see changing_rows.py.

Reference implementation: tests/helpers/naive_gibbs.py, `lda_gibbs_sweep`.
"""

from typing import TypeAlias

import numpy as np

from .. import random
from ..chunk import Chunk
from ..jit import kernel, read_only_tuple
from ..simd.choices import row_shape
from ..simd.lanes import (
    LANES,
    first_equal,
    high_half,
    load,
    pick,
    prefix_sums,
    splat,
    store,
    to_double,
)
from ..simd.prefetch import prefetch
from . import gibbs_dense as gibbs_dense
from . import gibbs_registers as gibbs_registers
from .changing_rows import (
    LOW,
    DocumentRows,
    WordRows,
    count_dense,
    dense_words,
    growable_documents,
    growable_words,
    is_off,
    pack_dense,
    pack_words,
    padded,
    padded_to_four,
    piece_tokens,
    used_words,
)
from .counts import MAX_COUNT, SIXTEEN, WordCounts, count_documents, empty_table, first_entries, new_row
from .esca import AHEAD, repeats, search
from .model import ModelBlock, TokenOrder, block_segments, inlined, token_order
from .row_sums import LAST, ZERO, find, lowered_sums, row_products

#: Mean number of tokens per document from which rows of A may be dense. Below, sparse ones are smaller, mostly faster.
FEWEST_DENSE_TOKENS = 8
#: Topics up to which such rows are dense. A further token per document allows one topic more, up to the second number.
DENSE_TOPICS = 128
MOST_DENSE_TOPICS = 384
#: A packed entry with a count of one.
ONE_TOKEN = np.uint32(1)

#: Rows of A: dense ones, flat float32, or sparse ones.
Documents: TypeAlias = "np.ndarray | DocumentRows"
#: Rows of B: dense ones, flat int32, for topics that fit into registers, else sparse ones.
Words: TypeAlias = "np.ndarray | WordRows"


def draw(
    chunk: Chunk | TokenOrder, A: Documents, B: Words, N: np.ndarray, model: ModelBlock, z: np.ndarray, key: np.uint64
) -> None:
    """Draw the topics ``z`` (T,) uint16 of the tokens whose words are in a block of the model; A, B and N follow.

    B are the rows of the block and N is (K,) int64. Of ``model``, only the priors and the range of words are read.
    Calls with other blocks, in any order, draw the other tokens.
    """
    order = token_order(chunk)
    segments = block_segments(order, model)
    model = read_only_tuple(model)
    key = np.uint64(key)
    if isinstance(A, DocumentRows):
        _sweep(order, segments, A, B, N, model, z, key)
    elif isinstance(B, WordRows):
        gibbs_dense.sweep(order, segments, A, B, N, model, z, key)
    else:
        sweep_rows = gibbs_registers.sweep_in_pairs if gibbs_registers.has_pairs(N) else gibbs_registers.sweep
        sweep_rows(order, segments, A, B, N, model, row_shape(len(N)), z, key)


def document_rows(chunk: Chunk, z: np.ndarray, n_topics: int) -> Documents:
    """Count the topics of a chunk's documents, in the form in which they are changed."""
    longest = int(np.diff(chunk.doc_ptr).max(initial=0))
    width = dense_width(n_topics, len(z), chunk.n_documents, longest)
    if width:
        return count_dense(chunk.docs, z, chunk.n_documents, width)
    rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    return growable_documents(chunk.doc_ptr, read_only_tuple(rows), n_topics)


def word_rows(rows: WordCounts, n_topics: int) -> Words:
    """Copy rows of B to rows that can change while tokens that they count are drawn."""
    rows = read_only_tuple(rows)
    if n_topics <= gibbs_registers.MOST_TOPICS:
        return dense_words(rows, padded(n_topics))
    return growable_words(rows, n_topics)


def packed_rows(words: Words, n_topics: int) -> WordCounts:
    """Return rows of B with ascending topics, and without free places."""
    if isinstance(words, WordRows):
        table = empty_table(len(words.lengths), int(words.lengths.sum()) + 1)
        return first_entries(table, pack_words(words, table, new_row(n_topics)))
    return pack_dense(words, padded(n_topics))


def used_rows(words: Words, n_topics: int) -> WordCounts:
    """Return rows of B without free places, with entries in the same order. `word_rows` makes the same rows of them."""
    return used_words(words) if isinstance(words, WordRows) else pack_dense(words, padded(n_topics))


def dense_width(n_topics: int, n_tokens: int, n_documents: int, longest: int) -> int:
    """Return the width of a chunk's rows of A if they are dense, which takes time and memory for every topic, else 0.

    ``longest`` is the number of tokens of the longest document.
    """
    if n_topics <= gibbs_registers.MOST_TOPICS:
        return int(padded(n_topics))
    length = n_tokens / max(n_documents, 1)
    most = min(DENSE_TOPICS + length, MOST_DENSE_TOPICS) if length >= FEWEST_DENSE_TOKENS else 0
    return int(padded_to_four(n_topics)) if n_topics <= most or longest > MAX_COUNT else 0


@kernel
def _sweep(
    order: TokenOrder,
    segments: np.ndarray,
    A: DocumentRows,
    B: WordRows,
    N: np.ndarray,
    model: ModelBlock,
    z: np.ndarray,
    key: int,
) -> None:
    """Draw from the distribution in three parts. Arguments are those of `gibbs_dense.sweep`, but A has sparse rows."""
    # Local names, because each access to an array inside a tuple changes its reference count.
    docs = order.docs
    word_ids = order.word_ids
    word_ptr = order.word_ptr
    row_ptr, lengths, entries = A
    word_row_ptr, word_lengths, row_topics, row_counts = B
    alpha = model.alpha
    beta, smoothing = model.beta, model.n_words * model.beta
    least = np.float32(beta)
    K = len(N)
    unused = np.uint32(K) << SIXTEEN
    last = len(z) - 1
    longest = 0
    for d in range(len(lengths)):
        longest = max(longest, row_ptr[d + 1] - row_ptr[d])
    # The topic K of unused entries has φ of zero.
    phi = np.zeros(K + 1, np.float32)
    inverse = np.empty(K, np.float32)
    alpha_inverse = np.empty(K, np.float32)
    smooth = np.zeros(K + 1)
    sums = np.empty(longest + LANES, np.float32)
    products = np.empty(longest + LANES, np.float32)
    # The row of the current word, its topics, the place of each topic among them, and α_k B_vk / (N_k + Vβ) of each.
    counts = np.zeros(K, np.int32)
    topics = np.zeros(K + LANES, np.int64)
    place = np.full(K, -1, np.int64)
    weights = np.zeros(K + LANES, np.float32)
    word_sums = np.empty(K + LANES, np.float32)
    most = piece_tokens(K)
    drawn = most
    for g in range(len(segments)):
        for s in range(segments[g, 0], segments[g, 1]):
            end = word_ptr[s]
            while end < word_ptr[s + 1]:
                begin = end
                if drawn >= most:
                    for t in range(K):
                        inverse[t] = np.float32(1.0 / (N[t] + smoothing))
                        alpha_inverse[t] = alpha[t] * inverse[t]
                        smooth[t + 1] = smooth[t] + np.float64(alpha_inverse[t]) * beta
                        phi[t] = least * inverse[t]
                    drawn = 0
                row = np.int64(word_ids[s]) - model.first
                row_start, n = word_row_ptr[row], word_lengths[row]
                mass = 0.0
                for j in range(n):
                    k = np.int64(row_topics[row_start + j])
                    count = np.float32(row_counts[row_start + j])
                    counts[k] = row_counts[row_start + j]
                    topics[j] = k
                    place[k] = j
                    phi[k] = (count + least) * inverse[k]
                    weights[j] = count * alpha_inverse[k]
                    mass += np.float64(weights[j])
                start, end = begin, min(begin + most, word_ptr[s + 1])
                drawn += end - start
                moved = True
                i = start - 1
                while i + 1 < end:
                    i += 1
                    prefetch(entries, row_ptr[docs[min(i + AHEAD, last)]])
                    d = docs[i]
                    old = np.int64(z[i])
                    head, m = row_ptr[d], lengths[d]
                    if moved or not repeats(docs, z, start, i):
                        own = np.float32((counts[old] - 1 + beta) / (N[old] - 1 + smoothing))
                        if i > start and d == docs[i - 1]:
                            ends = lowered_sums(entries, head, m, old, 1, own, products, sums)
                        else:
                            ends = row_products(entries, head, m, old, 1, phi, own, products, sums)
                        others = max(mass - np.float64(alpha_inverse[old]), 0.0)
                    of_document = pick(ends, LAST)
                    x = random.uniform64(key, i) * (of_document + others + smooth[K])
                    at = np.int64(-1)
                    if x < of_document:
                        at = find(sums, ends, x, padded(m))
                        # Rounding can point to a place that is not in use: the topic stays then.
                        new = np.int64(entries[head + at] >> SIXTEEN) if entries[head + at] & LOW else old
                    elif x - of_document < others:
                        new = _draw_of_word(
                            weights, topics, n, x - of_document, place[old], alpha_inverse[old], word_sums
                        )
                    else:
                        new = search(smooth, K, x - of_document - others)
                    moved = new != old
                    if not moved:
                        continue
                    z[i] = new
                    # The row of A. The last entry takes the place of one that has no tokens left.
                    was = _entry(entries, head, m, old)
                    left = (entries[head + was] - ONE_TOKEN) & LOW
                    entries[head + was] -= ONE_TOKEN
                    if left == 0:
                        m -= 1
                        entries[head + was] = entries[head + m]
                        entries[head + m] = unused
                        products[was] = products[m]
                        products[m] = ZERO
                        if at == m:
                            at = was
                    if at < 0:
                        at = _entry(entries, head, m, new)
                    if at < 0:
                        at = m
                        entries[head + m] = np.uint32(new) << SIXTEEN
                        if m % LANES == 0:
                            store(products, m, splat(ZERO))
                        m += 1
                    entries[head + at] += ONE_TOKEN
                    lengths[d] = m
                    # The word.
                    N[old] -= 1
                    N[new] += 1
                    if place[new] < 0:
                        place[new] = n
                        topics[n] = new
                        n += 1
                    counts[old] -= 1
                    counts[new] += 1
                    for changed in (old, new):
                        count = np.float32(counts[changed])
                        phi[changed] = (count + least) * inverse[changed]
                        weights[place[changed]] = count * alpha_inverse[changed]
                        if is_off(inverse[changed], N[changed], smoothing):
                            end, drawn = i + 1, most
                    mass += np.float64(alpha_inverse[new]) - np.float64(alpha_inverse[old])
                    products[at] = np.float32(entries[head + at] & LOW) * phi[new]
                    if left > 0:
                        products[was] = np.float32(left) * phi[old]
                used = 0
                for j in range(n):
                    k = topics[j]
                    if counts[k] > 0:
                        row_topics[row_start + used] = k
                        row_counts[row_start + used] = counts[k]
                        used += 1
                    counts[k] = 0
                    place[k] = -1
                    weights[j] = ZERO
                    phi[k] = least * inverse[k]
                word_lengths[row] = used


@inlined
def _entry(entries: np.ndarray, head: int, n: int, k: int) -> np.int64:
    """Return the place of a topic among the n entries of a row, -1 if it has none."""
    wanted = splat(np.uint32(k))
    for j in range(0, n, LANES):
        lane = first_equal(high_half(load(entries, head + j)), wanted)
        if lane < LANES:
            return np.int64(j + lane)
    return np.int64(-1)


@kernel
def _draw_of_word(
    weights: np.ndarray, topics: np.ndarray, n: int, x: float, own: int, of_token: np.float32, sums: np.ndarray
) -> int:
    """Return the topic at ``x`` of the part of the word's own counts.

    Of the n weights, that at the place ``own`` is too large by ``of_token``, the weight of the token itself.
    """
    kept = weights[own]
    weights[own] = max(kept - of_token, ZERO)
    total = splat(ZERO)
    for j in range(0, n, LANES):
        total = total + load(weights, j)
        store(sums, j, total)
    weights[own] = kept
    return topics[min(find(sums, prefix_sums(to_double(total)), x, padded(n)), n - 1)]
