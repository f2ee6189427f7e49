"""Collapsed Gibbs sampling in word order, as in gibbs.py, for rows of A that are dense and stay in the first cache.

    p(k) ∝ (A_dk + α_k) φ_vk,    φ_vk = (B_vk + β) / (N_k + Vβ),    with the token itself left out of A, B and N

The plain loop is that of gibbs_registers.py. Here, the weights of a token are summed before the token before it has its
topic:

    take_out(first); sums = cumsum((A[docs[first]] + α) φ)
    for i in tokens_of(v):
        take_out(i + 1); next_sums = cumsum((A[docs[i + 1]] + α) φ)   # without the new topic of token i
        new = search(sums, extra, uniform(key, i))
        put_in(new, i); extra = by how much that raises the weight of topic `new` for token i + 1
        z[i] = new; sums = next_sums

Each draw changes φ, and the next one waits for that. Two things shorten the wait:

- The weights of a token are summed while the token before it is still searched for its topic. That topic then has one
  token more, so its weight is larger than the sums know. The difference gets an interval of its own, at the end, after
  one interval per topic in the order of the eight lanes.
- φ of a word is kept in three versions: as it is, and with one token less or more in each topic. When a token leaves a
  topic or comes to one, a version replaces another. The new number for the version that is used up takes a division,
  but is not needed before the next token leaves that topic or comes to it.

The running sums are searched in two steps: first every fourth vector, then the vectors between two of these. A uniform
number has 24 random bits.

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
from .changing_rows import ONE, ZERO, WordRows, add_topic, close_word, new_word, open_word, padded_to_four
from .esca import AHEAD
from .model import ModelBlock, TokenOrder, inlined, phi_with_one_less, phi_with_one_more
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
def sweep(order: TokenOrder, A: np.ndarray, B: WordRows, model: ModelBlock, z: np.ndarray, key: int) -> None:
    """Draw the topics ``z`` of all tokens. A and B change with each draw.

    A, flat float32, has one row per document, padded to whole fours of vectors.
    """
    docs = order.docs
    N = model.totals.astype(np.float64)
    K, width = np.uint64(len(N)), np.uint64(padded_to_four(len(N)))
    last = np.uint64(len(z) - 1)
    beta, smoothing = model.beta, model.n_words * model.beta
    alpha = np.zeros(width, np.float32)
    alpha[: len(N)] = model.alpha
    phi = np.zeros(width, np.float32)
    lowered = np.zeros(width, np.float32)
    raised = np.zeros(width, np.float32)
    # Those of the current token and those of the next one take turns.
    sums = np.empty(2 * width, np.float32)
    here = FIRST
    word = new_word(len(N))
    _, counts, place, topics, _ = word
    for s in range(len(order.word_ids)):
        row = np.int64(order.word_ids[s])
        n = open_word(word, B, row)
        _fill(counts, N, beta, smoothing, phi, lowered, raised)
        start, end = np.uint64(order.word_ptr[s]), np.uint64(order.word_ptr[s + 1])
        next_head, next_old = np.uint64(docs[start]) * width, np.uint64(z[start])
        _take_out(next_old, next_head, A, counts, N, beta, smoothing, phi, lowered, raised)
        next_ends = prefix_sums(_weigh(A, alpha, next_head, phi, sums, here, width))
        new, extra = next_old, ZERO
        for i in range(start, end):
            head, old, ends, last_topic = next_head, next_old, next_ends, new
            if i + NEXT < end:
                _prefetch_row(A, np.uint64(docs[min(i + np.uint64(AHEAD), last)]) * width, width)
                next_head, next_old = np.uint64(docs[i + NEXT]) * width, np.uint64(z[i + NEXT])
                _take_out(next_old, next_head, A, counts, N, beta, smoothing, phi, lowered, raised)
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
            n = add_topic(place, topics, new, n)
            extra = _put_in(new, head, next_head, A, alpha, counts, N, beta, smoothing, phi, lowered, raised)
            z[i] = new
        close_word(word, B, row, n)


@inlined
def _fill(
    counts: np.ndarray,
    N: np.ndarray,
    beta: float,
    smoothing: float,
    phi: np.ndarray,
    lowered: np.ndarray,
    raised: np.ndarray,
) -> None:
    """Compute the three versions of φ of a word; ``smoothing`` is Vβ."""
    least = np.float32(beta)
    for k in range(len(N)):
        count = np.float32(counts[k])
        total = np.float32(N[k] + smoothing)
        phi[k] = (count + least) / total
        lowered[k] = (count - ONE + least) / (total - ONE)
        raised[k] = (count + ONE + least) / (total + ONE)


@inlined
def _take_out(
    old: int,
    head: int,
    A: np.ndarray,
    counts: np.ndarray,
    N: np.ndarray,
    beta: float,
    smoothing: float,
    phi: np.ndarray,
    lowered: np.ndarray,
    raised: np.ndarray,
) -> None:
    """Take a token of the document whose row begins at ``head`` out of its topic."""
    count = counts[old] - 1
    total = N[old] - 1.0
    counts[old] = count
    N[old] = total
    raised[old] = phi[old]
    _put(phi, old, lowered[old])
    lowered[old] = phi_with_one_less(count, total, beta, smoothing)
    _put(A, head + old, A[head + old] - ONE)


@inlined
def _put_in(
    new: int,
    head: int,
    next_head: int,
    A: np.ndarray,
    alpha: np.ndarray,
    counts: np.ndarray,
    N: np.ndarray,
    beta: float,
    smoothing: float,
    phi: np.ndarray,
    lowered: np.ndarray,
    raised: np.ndarray,
) -> np.float32:
    """Put a token into its new topic; return by how much that raises the weight of the topic for the next token."""
    count = counts[new] + 1
    total = N[new] + 1.0
    counts[new] = count
    N[new] = total
    before, after = phi[new], raised[new]
    weight = (A[next_head + new] + alpha[new]) * before
    lowered[new] = before
    _put(phi, new, after)
    raised[new] = phi_with_one_more(count, total, beta, smoothing)
    _put(A, head + new, A[head + new] + ONE)
    # The next token may be of the same document.
    return max((A[next_head + new] + alpha[new]) * after - weight, ZERO)


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
