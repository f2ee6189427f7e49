"""How much data skip-gram with negative sampling moves, in closed form (Moon's dissertation, equations 4.4 to 4.7).

Counts are of matrix elements and word ids, read or written. C_rand is 0: the window at its widest, as in the paper.
"""

from typing import NamedTuple


class Case(NamedTuple):
    """A corpus and how it is trained, in the paper's terms."""

    sentences: float  # S
    length: float  # L, words of a sentence
    dimension: int  # K
    window: int  # C
    negative: int  # T
    cache: float  # tau, elements that the cache holds
    batch: int = 24  # B

    @property
    def shared(self) -> int:
        """Negatives that a mini-batch shares, at most: O, an int."""
        return 2 * self.window * self.negative


def sgns_total(case: Case) -> float:
    """Elements moved by the original algorithm, a float: equation 4.4."""
    S, L, K, C, T = case[:5]
    return S * L * (1 + 2 * C * (1 + 4 * K + 8 * K * (T + 1)))


def sgns_repulsion(case: Case) -> float:
    """Elements moved by the original algorithm for negatives, a float: equation 4.5."""
    S, L, K, C, T = case[:5]
    return S * L * 2 * C * (1 + 4 * K + 8 * K * T)


def par_repulsion(case: Case) -> float:
    """Elements moved by PAR-Word2Vec for negatives, a float: equation 4.7."""
    S, L, K, B, O = case.sentences, case.length, case.dimension, case.batch, case.shared  # noqa: E741
    products = 6 * O * K * B / case.cache**0.5
    return S * L / B * (products + O + 4 * K * B + 4 * K * O + 2 * O * B)


def par_total(case: Case) -> float:
    """Elements moved by PAR-Word2Vec, a float: equation 4.6."""
    S, L, K, C = case[:4]
    return S * L * (1 + 2 * C * (1 + 8 * K)) + par_repulsion(case)
