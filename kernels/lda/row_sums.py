"""Sums of A_dk φ_k over a sparse row of A, and the search in them for the interval of a random number.

A draw inverts a cumulative distribution. Its intervals are the products A_dk φ_k of a row's entries, summed in eight
lanes: lane l holds the entries l, l + 8, l + 16, .... See esca.py.

Most time goes into looking φ up at the topics of a document. Tokens of one word in one document differ only in the
old topic, which is left out. So the products are kept, and only the first of these tokens looks φ up.

Reference implementation: tests/helpers/naive.py, `lda_sweep`.
"""

import numpy as np

from ..simd.lanes import (
    LANES,
    Lanes,
    add_one_where_at_most,
    count_at_most,
    gather_by_high_half,
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
from .model import inlined

ZERO = np.float32(0)
ZERO_COUNT = np.uint32(0)
LAST = LANES - 1


@inlined
def row_products(
    entries: np.ndarray,
    head: int,
    n: int,
    old: int,
    subtract: int,
    phi: np.ndarray,
    phi_old: np.float32,
    products: np.ndarray,
    sums: np.ndarray,
) -> Lanes:
    """Sum A_dk φ_k over the n entries of a row, with the old topic lowered.

    Writes the running sums of each lane to ``sums``, and the products before the old topic is lowered to ``products``.
    Returns the prefix sums of the lanes' totals, eight float64: the end of each lane's share of the distribution.
    """
    total = splat(ZERO)
    own = splat(np.uint32(old))
    phi_own = splat(phi_old)
    less = splat(np.uint32(subtract))
    for j in range(0, n, LANES):
        packed = load(entries, head + j)
        k = high_half(packed)
        count = low_half(packed)
        product = to_float(count) * gather_by_high_half(phi, entries, head + j)
        store(products, j, product)
        # The token itself is left out: its topic has a smaller count here and another φ.
        total = total + where_equal(k, own, to_float(count - less) * phi_own, product)
        store(sums, j, total)
    return prefix_sums(to_double(total))


@inlined
def lowered_sums(
    entries: np.ndarray,
    head: int,
    n: int,
    old: int,
    subtract: int,
    phi_old: np.float32,
    products: np.ndarray,
    sums: np.ndarray,
) -> Lanes:
    """Do the same as `row_products` for another old topic of the same document and word, whose products are given."""
    total = splat(ZERO)
    own = splat(np.uint32(old))
    phi_own = splat(phi_old)
    less = splat(np.uint32(subtract))
    for j in range(0, n, LANES):
        packed = load(entries, head + j)
        lowered = to_float(low_half(packed) - less) * phi_own
        total = total + where_equal(high_half(packed), own, lowered, load(products, j))
        store(sums, j, total)
    return prefix_sums(to_double(total))


@inlined
def find(sums: np.ndarray, ends: Lanes, x: float, n: int) -> int:
    """Return the index below n of the item whose interval holds ``x``: first its lane, then its row within the lane.

    ``sums`` (n,) float32 are the running sums of the lanes, and ``ends`` the prefix sums of their totals.
    """
    lane = min(count_at_most(ends, x), LANES - 1)
    rest = splat(np.float32(x - pick(shift_up(ends), lane)))
    # Counts in all lanes at once, since eight comparisons cost as much as one.
    steps = splat(ZERO_COUNT)
    for j in range(0, n, LANES):
        steps = add_one_where_at_most(steps, load(sums, j), rest)
    return min(np.int64(pick(steps, lane)) * LANES, n - LANES) + lane
