"""How many numbers FAST-HALS moves and how many operations it makes, in closed form.

Sources: Moon et al., "ALO-NMF" (KDD 2020), equations 3 and 7 to 10 and Table 3; Moon's dissertation (2019), equation
3.9. V, D and K are the sizes of A (V, D), W (V, K) and H (K, D); T is the width of a tile. C is the size of the cache
as the papers insert it: the dissertation's result of 189,208,129 uses 35 MiB in bytes, the result 338,840,256 of the
KDD paper uses the number 33. Equation 11, the best T, is in kernels/tiled.py beside
this file.
"""

import math


def moved_by_hals(V: int, D: int, K: int, C: float) -> float:
    """Equation 3: numbers that an epoch of Algorithm 1 moves between memory and a cache of size C."""
    root = math.sqrt(C)
    return K * (K * (V + D) * (1 + 2 / root) + 4 * V * D / root + 6 * V + 3 * D + 2 * K + 1)


def moved_by_loop(V: int, K: int) -> int:
    """Numbers that the loop over the columns of W moves in Algorithm 1 (section 5)."""
    return K * (V * K + K + 6 * V + 1)


def moved_by_products(V: int, K: int, T: int, C: float) -> float:
    """Equation 7: numbers moved by phase 1, and by phase 3 again."""
    return V * T * T * (1 / T + 2 / math.sqrt(C)) * (K * K - K * T) / (2 * T * T)


def moved_by_tiles(V: int, K: int, T: int) -> float:
    """Equation 8: numbers moved by phase 2."""
    return K / T * T * (V * T + T + V)


def moved(V: int, K: int, T: int, C: float) -> float:
    """Equation 9 (3.9 of the dissertation): numbers moved in updating W, vectors left out."""
    return 2 * moved_by_products(V, K, T, C) + K * V * T


def slope(K: int, T: float, C: float) -> float:
    """Equation 10: a multiple of the derivative of equation 9 by T. It is 0 at the best tile."""
    return T * T * (2 / math.sqrt(C) - 1) + K


def hals_flops(V: int, D: int, K: int) -> int:
    """Table 3, first row: an epoch of FAST-HALS, A taken for dense."""
    return (
        2 * D * V * K
        + 2 * K * V * K
        + (2 * K * D * K + 3 * K * D)
        + 2 * V * D * K
        + 2 * K * D * K
        + (2 * K * V * K + 5 * K * V + 2 * K * V)
    )


def tiled_flops(V: int, D: int, K: int, T: int) -> int:
    """Table 3, second row: the same in tiles of T, which must divide K; the count is the same."""
    tiles = K // T
    phase_1 = sum(2 * T * i * T for i in range(tiles))
    phases_2_and_3 = sum(2 * T * T + 2 * T * (tiles - i) * T for i in range(1, tiles + 1))
    return 2 * D * V * K * 2 + 2 * K * K * (V + D) + (D + V) * (phase_1 + phases_2_and_3) + tiles * T * (3 * D + 7 * V)


def flops(V: int, D: int, K: int, nonzeros: int) -> int:
    """Return the floating-point operations of an epoch.

    It has two sparse products, two sweeps, and two Gram matrices, of which only one triangle is computed.
    """
    return 4 * nonzeros * K + 3 * (V + D) * K * K


def bytes_moved(V: int, D: int, K: int, nonzeros: int, itemsize: int = 4) -> int:
    """Return bytes that an epoch of the block scheme cannot avoid: W, P and H read and written, A read twice."""
    return itemsize * K * (4 * V + 3 * D) + 2 * nonzeros * (itemsize + 4)
