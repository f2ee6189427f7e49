"""LDA by the ESCA sampler: every token's topic is drawn given the counts after the previous epoch.

    p(k) ∝ (A_dk + α_k) φ_vk,    φ_vk = (B_vk + β) / (N_k + Vβ)

Source: SaberLDA (Li et al., ASPLOS 2017), sections 2 and 3, equation (1). By default the token itself is left out: its
old topic is lowered by one in A, B and N. ESCA as published does not do that.

A draw inverts the cumulative distribution at one uniform number. The topics' intervals are in this order:

- If rows of A are nearly dense (`is_dense`): one interval (A_dk + α_k) φ_k for each of the K topics.
- Otherwise the distribution has two parts. The prior part α_k φ_k comes first, in three pieces: the old topic; what
  the other topics have from β, by ascending topic; what the word's own counts add, by ascending topic. Then comes the
  document part A_dk φ_k, with one interval per entry of the document's row. Only draws that fall into the prior part
  read more than the document's own topics.

Layout: tokens are drawn word by word inside a group of documents, so that one dense array of φ serves all tokens of a
word, and the rows of the group's documents stay in the cache. Sums over topics or entries run in eight vector lanes:
lane l holds the items l, l + 8, l + 16, .... So the intervals of lane 0 come first, then those of lane 1, and so on.

Reference implementation: tests/helpers/naive.py, `lda_sweep` and `lda_log_likelihood`.
"""

from collections.abc import Iterable

import numpy as np

from .. import random
from ..chunk import Chunk
from ..jit import kernel, read_only, read_only_tuple
from ..search import rank
from ..simd.lanes import (
    LANES,
    Lanes,
    gather_by_high_half,
    load,
    low_half,
    pick,
    prefix_sums,
    splat,
    store,
    to_double,
    to_float,
    where_equal,
)
from ..simd.prefetch import prefetch
from .chunk_counts import count_chunks
from .counts import (
    MAX_TOPICS,
    SIXTEEN,
    SURPLUS,
    DocumentCounts,
    add_words,
    count_documents,
    finish_words,
    merge_many,
)
from .model import (
    ModelBlock,
    PriorTerms,
    TokenOrder,
    WordScratch,
    block_segments,
    clear_word,
    expand_word,
    inlined,
    make_prior,
    new_word_scratch,
    token_order,
)
from .row_sums import LAST, ZERO, find, lowered_sums, row_products

__all__ = ["add_words", "count_chunks", "finish_words", "merge_many", "sweep"]

#: Rows of A are made dense if three times their entries are more than all topics: a product of eight contiguous topics
#: costs a third of eight look-ups. Dense rows then need at most twelve bytes per token.
DENSE = 3
#: Tokens between the prefetch of a document's row and its use.
AHEAD = 8
#: The bits of an entry that hold its count.
LOW = np.uint32(0xFFFF)
EIGHT_TOPICS = np.arange(LANES, dtype=np.uint32)


# --- called by the model ---


def sweep(
    chunk: Chunk, models: Iterable[ModelBlock], z: np.ndarray | None, key: np.uint64, leave_out: bool = True
) -> np.ndarray:
    """Draw the next topics of a chunk's tokens, (T,) uint16 in word order, from the blocks of the model in turn.

    ``z`` (T,) uint16 are the current topics; without them, first topics are drawn. Arguments are only read.
    """
    out = np.zeros(len(chunk.word_to_doc_order), np.uint16)
    if z is None:
        for model in models:
            draw_initial(chunk, model, key, out)
        return out
    # Counted once: all tokens of the sweep are drawn from the topics before the sweep.
    rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    for model in models:
        sample(chunk, rows, model, z, key, leave_out, out)
    return out


def sample(
    chunk: Chunk,
    rows: DocumentCounts,
    model: ModelBlock,
    z: np.ndarray,
    key: np.uint64,
    leave_out: bool = True,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Draw the next topics of the tokens whose words are in the model's block.

    ``rows`` are the documents' counts of ``z`` (T,) uint16 in word order. Token i in word order takes the draw
    ``random.uniform64(key, i)``. Returns (T,) uint16: ``out``, in which the tokens of other blocks stay unchanged, or a
    changed copy of ``z``.
    """
    out = z.copy() if out is None else out
    subtract = int(leave_out)
    # With few topics, most entries of a row are above zero, and dense rows need no gather.
    draw = _sweep_dense if is_dense(rows, len(model.alpha)) else _sweep_sparse
    block = _open_block(chunk, model, subtract)
    draw(*block, read_only_tuple(rows), read_only(z), np.uint64(key), out)
    return out


def is_dense(rows: DocumentCounts, n_topics: int) -> bool:
    """Return whether draws from these rows use the distribution with one interval per topic."""
    return DENSE * len(rows.entries) > n_topics * (len(rows.row_ptr) - 1)


def draw_initial(chunk: Chunk, model: ModelBlock, key: np.uint64, out: np.ndarray | None = None) -> np.ndarray:
    """Draw first topics from p(k) ∝ α_k φ_k, for the tokens whose words are in the model's block.

    If the model has no counts and alpha is symmetric, all topics are equally likely. Returns ``out`` (T,) uint16, in
    which the tokens of other blocks stay unchanged.
    """
    out = np.zeros(len(chunk.word_to_doc_order), np.uint16) if out is None else out
    _first_sweep(*_open_block(chunk, model, 0), np.uint64(key), out)
    return out


def log_likelihood(chunk: Chunk, rows: DocumentCounts, model: ModelBlock) -> float:
    """Sum log Σ_k θ_dk φ_vk over the tokens whose words are in the model's block.

    The sum over all blocks and chunks is equation 2.3 of Moon's dissertation (2019), where a sum is printed as a
    product. Divided by the number of tokens it is equation 2.4. There, both are for test documents.
    """
    return _log_likelihood(*_open_block(chunk, model, 0), read_only_tuple(rows))


def _open_block(
    chunk: Chunk, model: ModelBlock, subtract: int
) -> tuple[TokenOrder, np.ndarray, ModelBlock, PriorTerms, WordScratch]:
    """Return what all sweeps over the tokens of a block read, and their scratch."""
    order = token_order(chunk)
    prior = make_prior(model, subtract, subtract)
    return order, block_segments(order, model), read_only_tuple(model), prior, new_word_scratch(chunk.doc_ptr, prior)


# --- sparse rows ---


@inlined
def of_same_document(docs: np.ndarray, start: int, i: int) -> bool:
    """Return whether token i has the document of the token before it. Both have the word that begins at ``start``."""
    return (i > start) & (docs[i] == docs[i - 1])


@inlined
def repeats(docs: np.ndarray, z: np.ndarray, start: int, i: int) -> bool:
    """Return whether token i has the word, document and topic of the token before it, and so the same distribution.

    In real text this is frequent, because words are repeated within a document.
    """
    return (i > start) & (docs[i] == docs[i - 1]) & (z[i] == z[i - 1])


@kernel
def _sweep_sparse(
    order: TokenOrder,
    segments: np.ndarray,
    model: ModelBlock,
    prior: PriorTerms,
    word: WordScratch,
    rows: DocumentCounts,
    z: np.ndarray,
    key: np.uint64,
    out: np.ndarray,
) -> None:
    """Draw from the distribution in two parts, reading the entries of each document's row."""
    # Local names, because each access to an array inside a tuple changes its reference count.
    docs = order.docs
    row_ptr = rows.row_ptr
    entries = rows.entries
    alpha = prior.alpha
    subtract = prior.subtract_a
    phi = word.phi
    phi_old = word.phi_old
    products = word.products
    sums = word.sums
    smooth = prior.smooth
    prefix = word.prefix
    topics = model.topics
    for group in range(len(segments)):
        for s in range(segments[group, 0], segments[group, 1]):
            row = np.int64(order.word_ids[s]) - model.first
            first, stop = model.row_ptr[row], model.row_ptr[row + 1]
            mass = expand_word(word, model, prior, row)
            start, end = order.word_ptr[s], order.word_ptr[s + 1]
            for i in range(start, end):
                # The row of a later token: its first two cache lines, which hold sixteen entries each.
                ahead = row_ptr[docs[min(i + AHEAD, len(z) - 1)]]
                prefetch(entries, ahead)
                prefetch(entries, ahead + 16)
                if not repeats(docs, z, start, i):
                    old = np.int64(z[i])
                    head = row_ptr[docs[i]]
                    n = row_ptr[docs[i] + 1] - head
                    if of_same_document(docs, start, i):
                        ends = lowered_sums(entries, head, n, old, subtract, phi_old[old], products, sums)
                    else:
                        ends = row_products(entries, head, n, old, subtract, phi, phi_old[old], products, sums)
                    own = alpha[old] * phi_old[old]
                    others = mass - alpha[old] * phi[old]
                # The old topic has the interval [-own, 0), so that the other pieces of the prior part start at 0.
                x = random.uniform64(key, i) * (own + others + pick(ends, LAST)) - own
                if x >= others:
                    out[i] = _topic(entries[head + find(sums, ends, x - others, n)], old)
                else:
                    out[i] = old if x < 0 else _draw_prior(x, smooth, prefix, topics, first, stop, old)
            clear_word(word, model, prior, row)


@inlined
def _topic(entry: np.uint32, old: np.int64) -> np.int64:
    """Return the topic of an entry. An entry of count zero, at which rounding can point, gives the old topic."""
    return np.int64(entry >> SIXTEEN) & (MAX_TOPICS - 1) if entry & LOW else old


@kernel
def _draw_prior(
    x: float,
    smooth: np.ndarray,
    prefix: np.ndarray,
    topics: np.ndarray,
    start: np.int64,
    end: np.int64,
    old: np.int64,
) -> np.int64:
    """Return the topic at ``x`` of the prior part without the old topic: the piece of β, then that of the counts.

    The arrays are fields of `PriorTerms`, `WordScratch` and `ModelBlock`, and the word's row of B is from ``start`` to
    ``end``. They are separate arguments, because all fields of a tuple would be copied for each call.
    """
    # The prefix sums include the old topic: from its interval on, x moves up by the width of that interval.
    skipped = smooth[old + 1] - smooth[old]
    rest = smooth[-1] - skipped
    if x < rest or start == end:
        return search(smooth, len(smooth) - 1, x + skipped if x >= smooth[old] else x)
    x -= rest
    j = _entry_of(topics, start, end, old) - start
    if j < end - start and topics[start + j] == old and x >= prefix[j]:
        x += prefix[j + 1] - prefix[j]
    return np.int64(topics[start + search(prefix, end - start, x)])


@inlined
def _entry_of(topics: np.ndarray, start: int, end: int, k: int) -> np.int64:
    """Return the first entry from ``start`` to ``end`` whose topic is ``k`` or more; topics ascend."""
    low = np.int64(start)
    high = np.int64(end)
    while low < high:
        middle = (low + high) >> 1
        if np.int64(topics[middle]) < k:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def search(prefix: np.ndarray, n: int, x: float) -> np.int64:
    """Return which of the first n intervals of ``prefix`` holds ``x``; the last of them for a larger x.

    ``prefix`` float64 are n + 1 prefix sums, and may have more elements.
    """
    return min(rank(prefix, n + 1, x) - 1, np.int64(n - 1))


# --- dense rows ---


@kernel
def _sweep_dense(
    order: TokenOrder,
    segments: np.ndarray,
    model: ModelBlock,
    prior: PriorTerms,
    word: WordScratch,
    rows: DocumentCounts,
    z: np.ndarray,
    key: np.uint64,
    out: np.ndarray,
) -> None:
    """Draw from the distribution with one interval per topic, over dense rows of A + α."""
    docs = order.docs
    phi = word.phi
    phi_old = word.phi_old
    sums = word.sums
    n_topics = len(prior.alpha)
    width = (n_topics + LANES - 1) // LANES * LANES
    for group in range(len(segments)):
        A, first_doc = _dense_rows(order, rows, prior, group, width)
        for s in range(segments[group, 0], segments[group, 1]):
            row = np.int64(order.word_ids[s]) - model.first
            expand_word(word, model, prior, row)
            start, end = order.word_ptr[s], order.word_ptr[s + 1]
            for i in range(start, end):
                prefetch(A, (np.int64(docs[min(i + AHEAD, len(z) - 1)]) - first_doc) * width)
                if not repeats(docs, z, start, i):
                    head = (np.int64(docs[i]) - first_doc) * width
                    ends = _dense_products(A, head, width, z[i], prior.subtract_a, phi, phi_old[z[i]], sums)
                k = find(sums, ends, random.uniform64(key, i) * pick(ends, LAST), width)
                # Rounding at the very end of the distribution can point into the padding: the topic stays then.
                out[i] = k if k < n_topics else z[i]
            clear_word(word, model, prior, row)


@kernel
def _dense_rows(
    order: TokenOrder, rows: DocumentCounts, prior: PriorTerms, group: int, width: int
) -> tuple[np.ndarray, int]:
    """Return A_dk + α_k of a group's documents, flat float32 with ``width`` numbers per document, and the first one."""
    first_token = order.word_ptr[order.group_ptr[group]]
    stop_token = order.word_ptr[order.group_ptr[group + 1]]
    n_documents = len(order.doc_ptr) - 1
    first = rank(order.doc_ptr, n_documents + 1, first_token) - 1
    stop = rank(order.doc_ptr, n_documents + 1, stop_token - 1)
    A = np.zeros(max(stop - first, 0) * width, np.float32)
    for d in range(first, stop):
        head = (d - first) * width
        for k in range(len(prior.alpha)):
            A[head + k] = prior.alpha[k]
        for e in range(rows.row_ptr[d], rows.row_ptr[d + 1]):
            entry = rows.entries[e]
            if entry & LOW:
                A[head + _topic(entry, 0)] += entry & LOW
    return A, first


@inlined
def _dense_products(
    A: np.ndarray, head: int, n: int, old: int, subtract: int, phi: np.ndarray, phi_old: np.float32, sums: np.ndarray
) -> Lanes:
    """Sum (A_dk + α_k) φ_k over all topics, with the old topic lowered; results as in `row_products`."""
    total = splat(ZERO)
    k = load(EIGHT_TOPICS, 0)
    eight = splat(np.uint32(LANES))
    own = splat(np.uint32(old))
    phi_own = splat(phi_old)
    less = splat(np.float32(subtract))
    for j in range(0, n, LANES):
        a = load(A, head + j)
        total = total + where_equal(k, own, (a - less) * phi_own, a * load(phi, j))
        store(sums, j, total)
        k = k + eight
    return prefix_sums(to_double(total))


# --- first topics and likelihood ---


@kernel
def _first_sweep(
    order: TokenOrder,
    segments: np.ndarray,
    model: ModelBlock,
    prior: PriorTerms,
    word: WordScratch,
    key: np.uint64,
    out: np.ndarray,
) -> None:
    """Draw from α_k φ_k: the piece of β first, then that of the word's counts."""
    for group in range(len(segments)):
        for s in range(segments[group, 0], segments[group, 1]):
            row = np.int64(order.word_ids[s]) - model.first
            mass = expand_word(word, model, prior, row)
            start, end = model.row_ptr[row], model.row_ptr[row + 1]
            for i in range(order.word_ptr[s], order.word_ptr[s + 1]):
                x = random.uniform64(key, i) * mass
                if x < prior.smooth[-1] or start == end:
                    out[i] = search(prior.smooth, len(prior.alpha), x)
                else:
                    out[i] = model.topics[start + search(word.prefix, end - start, x - prior.smooth[-1])]
            clear_word(word, model, prior, row)


@kernel
def _log_likelihood(
    order: TokenOrder,
    segments: np.ndarray,
    model: ModelBlock,
    prior: PriorTerms,
    word: WordScratch,
    rows: DocumentCounts,
) -> float:
    """Sum log((Σ_k α_k φ_k + Σ_k A_dk φ_k) / (n_d + Σ α_k)) over tokens.

    The chunk may be a sample with about two tokens of a word, so φ is expanded without what only draws need.
    """
    docs, doc_ptr, row_ptr, entries = order.docs, order.doc_ptr, rows.row_ptr, rows.entries
    topics, counts, beta = model.topics, model.counts, model.beta
    phi, base, inverse, weight = word.phi, prior.base, prior.inverse, prior.word_factor
    alpha = prior.alpha.sum()
    total = 0.0
    for group in range(len(segments)):
        for s in range(segments[group, 0], segments[group, 1]):
            row = np.int64(order.word_ids[s]) - model.first
            mass = prior.smooth[-1]
            own = range(np.uint64(model.row_ptr[row]), np.uint64(model.row_ptr[row + 1]))
            for j in own:
                k = topics[j]
                phi[k] = phi[k | SURPLUS] = (counts[j] + beta) * inverse[k]
                mass += weight[k] * counts[j]
            for i in range(order.word_ptr[s], order.word_ptr[s + 1]):
                prefetch(entries, row_ptr[docs[min(i + AHEAD, len(docs) - 1)]])
                d = docs[i]
                in_lanes = splat(ZERO)
                for e in range(row_ptr[d], row_ptr[d + 1], LANES):
                    in_lanes = in_lanes + to_float(low_half(load(entries, e))) * gather_by_high_half(phi, entries, e)
                of_document = pick(prefix_sums(to_double(in_lanes)), LAST)
                total += np.log((mass + of_document) / (doc_ptr[d + 1] - doc_ptr[d] + alpha))
            for j in own:
                phi[topics[j]] = phi[topics[j] | SURPLUS] = base[topics[j]]
    return total
