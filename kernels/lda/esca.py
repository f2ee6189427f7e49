"""Latent Dirichlet allocation by ESCA: every token's topic is drawn given the counts of the last epoch.

Source: SaberLDA (Li et al., ASPLOS 2017), sections 2 and 3, equation (1):

    p(k) ∝ (A_dk + α_k) (B_vk + β) / (N_k + Vβ)

By default the token's own old topic is lowered by one in A, B and N (which ESCA as published does not do).

Tokens are drawn word by word. The word's φ_k = (B_vk + β) / (N_k + Vβ) is spread over K floats, used for all of its
tokens in a group of documents, and cleared by its non-zeros. Each draw points a uniform number into a line:

- Where rows of A are nearly dense (`is_dense`), the line holds (A_dk + α_k) φ_k of all topics.
- Elsewhere it holds first the prior part, α_k φ_k, in three pieces: the old topic; what every other topic has from β,
  topics ascending; what the word's own counts add, topics ascending. Then the document part, A_dk φ_k, of the row's
  entries. Only tokens that fall into the prior part look at more than the document's own topics.

Topics and entries are dealt to eight lanes, one register: 0, 8, 16, ... come first on the line, then 1, 9, 17, ...

Reference implementation: tests/helpers/naive.py, `lda_sweep` and `lda_log_likelihood`.
"""

from collections.abc import Iterable

import numpy as np

from .. import random
from ..jit import kernel
from ..simd.lanes import (
    LANES,
    count_at_most,
    count_below,
    gather,
    high_half,
    load,
    low_half,
    pick,
    prefix_sums,
    shift_up,
    splat,
    store,
    to_double,
    to_float,
    where_equal,
)
from ..simd.prefetch import prefetch
from .counts import (
    MAX_TOPICS,
    SIXTEEN,
    DocumentCounts,
    WordCounts,
    count_documents,
    count_words,
    merge_counts,
    topic_totals,
)
from .model import (
    ModelBlock,
    block_segments,
    clear_word,
    expand_word,
    inlined,
    make_prior,
    new_word_scratch,
    read_only,
    read_only_tuple,
    token_order,
)

__all__ = [
    "DocumentCounts",
    "ModelBlock",
    "WordCounts",
    "count_documents",
    "count_words",
    "draw_initial",
    "log_likelihood",
    "merge_counts",
    "sample",
    "sweep",
    "topic_totals",
]

#: Rows of A are made dense where so many times their entries are more than all topics: a product in eight lanes costs a
#: third of a look-up. So dense rows also take no more than twelve bytes a token.
DENSE = 3
#: Tokens between the prefetch of a document's row and its use.
AHEAD = 8
LOW = np.uint32(0xFFFF)
ZERO, ZERO_COUNT, LAST = np.float32(0), np.uint32(0), LANES - 1
EIGHT_TOPICS = np.arange(LANES, dtype=np.uint32)


def sweep(chunk, models: Iterable[ModelBlock], z: np.ndarray | None, key: np.uint64, leave_out=True) -> np.ndarray:
    """Draw the next topics of a chunk's tokens, (T,) uint16 in word order, from the blocks of the model.

    ``chunk`` has the fields of a corpus chunk; without ``z`` (T,) uint16, first topics are drawn. Arguments are only
    read.
    """
    out = np.zeros(len(chunk.docs), np.uint16)
    rows = None if z is None else count_documents(chunk.doc_ptr, chunk.word_to_doc_order, z)
    for model in models:
        if z is None or rows is None:
            draw_initial(chunk, model, key, out)
        else:
            sample(chunk, rows, model, z, key, leave_out, out)
    return out


def sample(
    chunk, rows: DocumentCounts, model: ModelBlock, z: np.ndarray, key: np.uint64, leave_out=True, out=None
) -> np.ndarray:
    """Draw the next topics of a chunk's tokens whose words lie in the model's block.

    ``chunk`` has the fields of a corpus chunk, ``rows`` are its documents' counts of ``z`` (T,) uint16 in word order;
    the draw of token i in word order is ``random.uniform64(key, i)``. Returns (T,) uint16: ``out``, which keeps what
    other blocks drew, or a copy of ``z``.
    """
    out = z.copy() if out is None else out
    left = int(leave_out)
    draw = _sweep_dense if is_dense(rows, len(model.alpha)) else _sweep_sparse
    prior = make_prior(model, left, left)
    draw(token_order(chunk), read_only_tuple(rows), read_only_tuple(model), prior, read_only(z), np.uint64(key), out)
    return out


def is_dense(rows: DocumentCounts, n_topics: int) -> bool:
    """Say whether draws from these rows point into the line of all topics."""
    return DENSE * len(rows.entries) > n_topics * (len(rows.row_ptr) - 1)


def draw_initial(chunk, model: ModelBlock, key: np.uint64, out: np.ndarray | None = None) -> np.ndarray:
    """Draw first topics from p(k) ∝ α_k (B_vk + β) / (N_k + Vβ), for tokens whose words lie in the model's block.

    Uniform where the model is empty and alpha symmetric. ``out`` (T,) uint16 keeps what other blocks drew.
    """
    out = np.zeros(len(chunk.docs), np.uint16) if out is None else out
    _first_sweep(token_order(chunk), read_only_tuple(model), make_prior(model, 0, 0), np.uint64(key), out)
    return out


def log_likelihood(chunk, rows: DocumentCounts, model: ModelBlock) -> float:
    """Sum log p(token) over a chunk's tokens whose words lie in the model's block, from the counts of their topics.

    The sum over blocks and chunks is the log of equation 2.3 of Moon's dissertation (2019); divided by the tokens,
    equation 2.4.
    """
    return _log_likelihood(token_order(chunk), read_only_tuple(rows), read_only_tuple(model), make_prior(model, 0, 0))


@inlined
def _repeats(docs, z, start, i):
    """Say whether a token has the last one's word, document and topic, and so its line: often, in real text."""
    return (i > start) & (docs[i] == docs[i - 1]) & (z[i] == z[i - 1])


@kernel
def _sweep_sparse(order, rows, model, prior, z, key, out):
    # The loop over tokens takes its arrays from local names: those of a tuple are counted references, at every use.
    docs, row_ptr, entries, alpha = order.docs, rows.row_ptr, rows.entries, prior.alpha
    word = new_word_scratch(order.doc_ptr, prior)
    phi, phi_old, sums = word.phi, word.phi_old, word.sums
    for group in range(len(order.group_ptr) - 1):
        first, behind = block_segments(order, group, model)
        for s in range(first, behind):
            row = np.int64(order.word_ids[s]) - model.first
            mass = expand_word(word, model, prior, row)
            start, end = order.word_ptr[s], order.word_ptr[s + 1]
            for i in range(start, end):
                ahead = row_ptr[docs[min(i + AHEAD, len(z) - 1)]]
                prefetch(entries, ahead)
                prefetch(entries, ahead + 16)
                if not _repeats(docs, z, start, i):
                    old, head = np.int64(z[i]), row_ptr[docs[i]]
                    n = row_ptr[docs[i] + 1] - head
                    ends = _products(entries, head, n, old, prior.subtract_a, phi, phi_old[old], sums)
                    own = alpha[old] * phi_old[old]
                    others = mass - alpha[old] * phi[old]
                x = random.uniform64(key, i) * (own + others + pick(ends, LAST)) - own
                if x >= others:
                    out[i] = _topic(entries[head + _find(sums, ends, x - others, n)], old)
                else:
                    out[i] = old if x < 0 else _draw_prior(x, word, model, prior, row, old)
            clear_word(word, model, prior, row)


@inlined
def _products(entries, head, n, old, left, phi, phi_old, sums):
    """Sum A_dk φ_k over a row, the old topic lowered: ``sums`` inside each lane, and the lanes' ends on the line."""
    total = splat(ZERO)
    own, phi_own, less = splat(np.uint32(old)), splat(phi_old), splat(np.uint32(left))
    for j in range(0, n, LANES):
        packed = load(entries, head + j)
        k, count = high_half(packed), low_half(packed)
        weight = where_equal(k, own, phi_own, gather(phi, k))
        total = total + to_float(where_equal(k, own, count - less, count)) * weight
        store(sums, j, total)
    return prefix_sums(to_double(total))


@inlined
def _find(sums, ends, x, n):
    """Return which of n numbers, dealt to lanes, holds ``x``."""
    lane = min(count_at_most(ends, x), LANES - 1)
    rest = splat(np.float32(x - pick(shift_up(ends), lane)))
    steps = splat(ZERO_COUNT)
    for j in range(0, n, LANES):
        steps = count_below(steps, load(sums, j), rest)
    return min(np.int64(pick(steps, lane)) * LANES, n - LANES) + lane


@inlined
def _topic(entry, old):
    """Unpack an entry; rounding at the end of the line can point at one of no mass, and then the topic stays."""
    return np.int64(entry >> SIXTEEN) & (MAX_TOPICS - 1) if entry & LOW else old


@kernel
def _draw_prior(x, word, model, prior, row, old):
    """Draw from α_k φ_k over all topics but the old one."""
    skipped = prior.smooth[old + 1] - prior.smooth[old]
    smooth = prior.smooth[-1] - skipped
    start, end = model.row_ptr[row], model.row_ptr[row + 1]
    if x < smooth or start == end:
        return _search(prior.smooth, x + skipped if x >= prior.smooth[old] else x)
    x -= smooth
    prefix = word.prefix[: end - start + 1]
    j = np.searchsorted(model.topics[start:end], old)
    if j < end - start and model.topics[start + j] == old and x >= prefix[j]:
        x += prefix[j + 1] - prefix[j]
    return np.int64(model.topics[start + _search(prefix, x)])


@kernel
def _search(prefix, x):
    """Return which interval of (n + 1,) prefix sums holds ``x``."""
    return min(np.searchsorted(prefix, x, "right") - 1, len(prefix) - 2)


@kernel
def _sweep_dense(order, rows, model, prior, z, key, out):
    docs = order.docs
    word = new_word_scratch(order.doc_ptr, prior)
    phi, phi_old, sums = word.phi, word.phi_old, word.sums
    n_topics = len(prior.alpha)
    width = (n_topics + LANES - 1) // LANES * LANES
    for group in range(len(order.group_ptr) - 1):
        first, behind = block_segments(order, group, model)
        A, first_doc = _dense_rows(order, rows, prior, group, width)
        for s in range(first, behind):
            row = np.int64(order.word_ids[s]) - model.first
            expand_word(word, model, prior, row)
            start, end = order.word_ptr[s], order.word_ptr[s + 1]
            for i in range(start, end):
                prefetch(A, (np.int64(docs[min(i + AHEAD, len(z) - 1)]) - first_doc) * width)
                if not _repeats(docs, z, start, i):
                    head = (np.int64(docs[i]) - first_doc) * width
                    ends = _dense_products(A, head, width, z[i], prior.subtract_a, phi, phi_old[z[i]], sums)
                k = _find(sums, ends, random.uniform64(key, i) * pick(ends, LAST), width)
                out[i] = k if k < n_topics else z[i]
            clear_word(word, model, prior, row)


@kernel
def _dense_rows(order, rows, prior, group, width):
    """Return A_dk + α_k of a group's documents, one row of ``width`` floats a document, and the first document."""
    tokens = order.word_ptr[order.group_ptr[group]], order.word_ptr[order.group_ptr[group + 1]]
    first = np.searchsorted(order.doc_ptr, tokens[0], "right") - 1
    behind = np.searchsorted(order.doc_ptr, tokens[1])
    A = np.zeros((max(behind - first, 0), width), np.float32)
    for d in range(first, behind):
        A[d - first, : len(prior.alpha)] = prior.alpha
        for entry in rows.entries[rows.row_ptr[d] : rows.row_ptr[d + 1]]:
            if entry & LOW:
                A[d - first, _topic(entry, 0)] += entry & LOW
    return A.ravel(), first


@inlined
def _dense_products(A, head, n, old, left, phi, phi_old, sums):
    """Sum (A_dk + α_k) φ_k over all topics as `_products` does over a row's."""
    total = splat(ZERO)
    k, eight = load(EIGHT_TOPICS, 0), splat(np.uint32(LANES))
    own, phi_own, less = splat(np.uint32(old)), splat(phi_old), splat(np.float32(left))
    for j in range(0, n, LANES):
        a = load(A, head + j)
        total = total + where_equal(k, own, (a - less) * phi_own, a * load(phi, j))
        store(sums, j, total)
        k = k + eight
    return prefix_sums(to_double(total))


@kernel
def _first_sweep(order, model, prior, key, out):
    word = new_word_scratch(order.doc_ptr, prior)
    for group in range(len(order.group_ptr) - 1):
        first, behind = block_segments(order, group, model)
        for s in range(first, behind):
            row = np.int64(order.word_ids[s]) - model.first
            mass = expand_word(word, model, prior, row)
            start, end = model.row_ptr[row], model.row_ptr[row + 1]
            for i in range(order.word_ptr[s], order.word_ptr[s + 1]):
                x = random.uniform64(key, i) * mass
                if x < prior.smooth[-1] or start == end:
                    out[i] = _search(prior.smooth, x)
                else:
                    out[i] = model.topics[start + _search(word.prefix[: end - start + 1], x - prior.smooth[-1])]
            clear_word(word, model, prior, row)


@kernel
def _log_likelihood(order, rows, model, prior):
    word = new_word_scratch(order.doc_ptr, prior)
    alpha = prior.alpha.sum()
    total = 0.0
    for group in range(len(order.group_ptr) - 1):
        first, behind = block_segments(order, group, model)
        for s in range(first, behind):
            row = np.int64(order.word_ids[s]) - model.first
            mass = expand_word(word, model, prior, row)
            for d in order.docs[order.word_ptr[s] : order.word_ptr[s + 1]]:
                head, length = rows.row_ptr[d], order.doc_ptr[d + 1] - order.doc_ptr[d]
                n = rows.row_ptr[d + 1] - head
                ends = _products(rows.entries, head, n, 0, 0, word.phi, word.phi[0], word.sums)
                total += np.log((mass + pick(ends, LAST)) / (length + alpha))
            clear_word(word, model, prior, row)
    return total
