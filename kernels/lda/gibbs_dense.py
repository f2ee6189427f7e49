"""Collapsed Gibbs sampling in word order, as in gibbs.py, for rows of A that are dense and stay in the first cache.

    p(k) ∝ (A_dk + α_k) φ_vk,    φ_vk = (B_vk + β) / (N_k + Vβ),    with the token itself left out of A and B

The plain loop is that of gibbs.py. Here, the weights of a token are summed before the token before it has its topic:

    take_out(first); sums = cumsum((A[docs[first]] + α) φ)
    for i in tokens_of(v):
        take_out(i + 1); next_sums = cumsum((A[docs[i + 1]] + α) φ)   # without the new topic of token i
        new = search(sums, extra, uniform(key, i))
        put_in(new, i); extra = by how much that raises the weight of topic `new` for token i + 1
        z[i] = new; sums = next_sums

Each draw changes φ, and the next one waits for that. To shorten the wait, the weights of a token are summed while the
token before it is still searched for its topic. That topic then has one token more, so its weight is larger than the
sums know. The difference gets an interval of its own, at the end, after one interval per topic in the order of the
eight lanes.

The running sums are searched in two steps: first every fourth vector, then the vectors between two of these. A uniform
number has 24 random bits. φ of a word is expanded from the word's row of B and reset afterwards, at its topics only.

Reference implementation: tests/helpers/naive_gibbs.py, `lda_gibbs_sweep`.
"""

import numpy as np

from .. import random
from ..jit import kernel
from ..simd.lanes import (
    LANES,
    Lanes,
    add_one_where_at_most,
    count_at_most,
    load,
    pick,
    prefix_sums,
    shift_up,
    splat,
    store,
    where_bits,
)
from ..simd.prefetch import prefetch
from .changing_rows import ZERO, WordRows, is_off, padded_to_four, piece_tokens
from .esca import AHEAD
from .model import ModelBlock, TokenOrder, inlined
from .row_sums import LAST, ZERO_COUNT

# Unsigned numbers, because numba lets negative indices count from the end.
FIRST = np.uint64(0)
NEXT = np.uint64(1)
STEP = np.uint64(LANES)
#: Numbers in four vectors.
FOUR_VECTORS = np.uint64(4 * LANES)
#: Numbers in a cache line.
LINE = np.uint64(16)
#: Seven numbers without bits, one with all bits, and seven without: masks of each lane.
MASKS = np.array([0] * LAST + [-1] + [0] * LAST, np.int32)


@kernel
def sweep(
    order: TokenOrder,
    segments: np.ndarray,
    A: np.ndarray,
    B: WordRows,
    N: np.ndarray,
    model: ModelBlock,
    z: np.ndarray,
    key: int,
) -> None:
    """Draw the topics ``z`` (T,) uint16 of the tokens of some segments; A, B and N (K,) int64 follow.

    ``segments`` (G, 2) int64 are the first one of each group, and the one after its last. A, flat float32, has a row
    per document, padded to whole fours of vectors. B has the words from ``model.first`` on.
    """
    docs = order.docs
    word_ids = order.word_ids
    word_ptr = order.word_ptr
    row_ptr, lengths, row_topics, row_counts = B
    K, width = np.uint64(len(N)), np.uint64(padded_to_four(len(N)))
    last = np.uint64(len(z) - 1)
    least, smoothing = np.float32(model.beta), model.n_words * model.beta
    alpha = np.zeros(width, np.float32)
    alpha[: len(N)] = model.alpha
    inverse = np.zeros(width, np.float32)
    phi = np.zeros(width, np.float32)
    # The row of the current word, and its topics. One that loses all tokens and gains one again is listed twice.
    counts = np.zeros(width, np.int32)
    topics = np.zeros(len(N) + piece_tokens(len(N)), np.int64)
    # Those of the current token and those of the next one take turns.
    sums = np.empty(2 * width, np.float32)
    here = FIRST
    most = piece_tokens(len(N))
    drawn = most
    for g in range(len(segments)):
        for s in range(segments[g, 0], segments[g, 1]):
            end = np.uint64(word_ptr[s])
            while end < np.uint64(word_ptr[s + 1]):
                begin = np.int64(end)
                if drawn >= most:
                    for t in range(len(N)):
                        inverse[t] = np.float32(1.0 / (N[t] + smoothing))
                        phi[t] = least * inverse[t]
                    drawn = 0
                row = np.int64(word_ids[s]) - model.first
                row_start, n = row_ptr[row], lengths[row]
                for j in range(n):
                    k = np.int64(row_topics[row_start + j])
                    topics[j] = k
                    counts[k] = row_counts[row_start + j]
                    phi[k] = (np.float32(counts[k]) + least) * inverse[k]
                start, end = np.uint64(begin), np.uint64(min(begin + most, word_ptr[s + 1]))
                drawn += np.int64(end - start)
                next_head, next_old = np.uint64(docs[start]) * width, np.uint64(z[start])
                _change(-1, next_old, next_head, A, counts, least, inverse, phi)
                next_ends = prefix_sums(_weigh(A, alpha, next_head, phi, sums, here, width))
                new, extra = next_old, ZERO
                i = start - NEXT
                while i + NEXT < end:
                    i += NEXT
                    head, old, ends, last_topic = next_head, next_old, next_ends, new
                    if i + NEXT < end:
                        _prefetch_row(A, np.uint64(docs[min(i + np.uint64(AHEAD), last)]) * width, width)
                        next_head, next_old = np.uint64(docs[i + NEXT]) * width, np.uint64(z[i + NEXT])
                        _change(-1, next_old, next_head, A, counts, least, inverse, phi)
                        next_ends = prefix_sums(_weigh(A, alpha, next_head, phi, sums, width - here, width))
                    total = pick(ends, LAST)
                    x = random.uniform(key, i) * (total + extra)
                    new = _find(sums, here, ends, x, width)
                    # Rounding at the end of a lane can point into the padding: the topic stays then.
                    if new >= K:
                        new = old
                    if x >= total:
                        new = last_topic
                    here = width - here
                    # The next token may be of the same document.
                    extra = (A[next_head + new] + alpha[new]) * inverse[new]
                    _change(1, new, head, A, counts, least, inverse, phi)
                    if next_head == head:
                        extra += phi[new]
                    topics[n] = new
                    n += np.int64(counts[new] == 1)
                    N[old] -= 1
                    N[new] += 1
                    z[i] = new
                    if is_off(inverse[old], N[old], smoothing) or is_off(inverse[new], N[new], smoothing):
                        # The next token is taken out already.
                        end, drawn = min(end, i + NEXT + NEXT), most
                used = 0
                for j in range(n):
                    k = topics[j]
                    if counts[k] > 0:
                        row_topics[row_start + used] = k
                        row_counts[row_start + used] = counts[k]
                        used += 1
                    counts[k] = 0
                    phi[k] = least * inverse[k]
                lengths[row] = used


@inlined
def _change(
    change: int,
    k: int,
    head: int,
    A: np.ndarray,
    counts: np.ndarray,
    beta: np.float32,
    inverse: np.ndarray,
    phi: np.ndarray,
) -> None:
    """Add a token of the document whose row begins at ``head`` to a topic, or take it out of its topic."""
    counts[k] += change
    _put(phi, k, (np.float32(counts[k]) + beta) * inverse[k])
    _put(A, head + k, A[head + k] + np.float32(change))


@inlined
def _put(array: np.ndarray, at: int, x: np.float32) -> None:
    """Set one number by a store of its whole vector: a load of the vector would wait for a store to a part of it."""
    lane = at % STEP
    start = at - lane
    mask = load(MASKS, np.uint64(LAST) - lane)
    store(array, start, where_bits(mask, splat(x), load(array, start)))


@inlined
def _prefetch_row(A: np.ndarray, head: int, width: int) -> None:
    """Begin to load a row of A."""
    for j in range(FIRST, width, LINE):
        prefetch(A, head + j)


@inlined
def _weigh(
    A: np.ndarray, alpha: np.ndarray, head: int, phi: np.ndarray, sums: np.ndarray, at: int, width: int
) -> Lanes:
    """Write the running sums of (A_dk + α_k) φ_k in each lane, from ``sums[at]`` on; return the totals of the lanes."""
    total = splat(ZERO)
    for j in range(FIRST, width, FOUR_VECTORS):
        a = _weights(A, alpha, head, phi, j)
        b = _weights(A, alpha, head, phi, j + STEP)
        c = _weights(A, alpha, head, phi, j + STEP + STEP)
        d = _weights(A, alpha, head, phi, j + STEP + STEP + STEP)
        store(sums, at + j, total + a)
        store(sums, at + j + STEP, total + a + b)
        store(sums, at + j + STEP + STEP, total + a + b + c)
        # In pairs, because an addition that waits for the one before it takes longer.
        total = total + ((a + b) + (c + d))
        store(sums, at + j + STEP + STEP + STEP, total)
    return total


@inlined
def _weights(A: np.ndarray, alpha: np.ndarray, head: int, phi: np.ndarray, j: int) -> Lanes:
    """Return the weights of the eight topics from j on."""
    return (load(A, head + j) + load(alpha, j)) * load(phi, j)


@inlined
def _find(sums: np.ndarray, at: int, ends: Lanes, x: np.float32, width: int) -> np.uint64:
    """Return the topic whose interval holds ``x``; ``ends`` are the prefix sums of the totals of the lanes."""
    lane = np.uint64(min(count_at_most(ends, x), LAST))
    rests = splat(x) - shift_up(ends)
    # Counts in all lanes at once, since eight comparisons cost as much as one.
    fours = splat(ZERO_COUNT)
    for j in range(FOUR_VECTORS - STEP, width - FOUR_VECTORS, FOUR_VECTORS):
        fours = add_one_where_at_most(fours, load(sums, at + j), rests)
    rest = pick(rests, lane)
    first = np.uint64(pick(fours, lane)) * FOUR_VECTORS + lane
    i = at + first
    steps = np.uint64(sums[i] <= rest) + np.uint64(sums[i + STEP] <= rest) + np.uint64(sums[i + STEP + STEP] <= rest)
    return first + steps * STEP
