"""Deltas of NMF on the CPU whose P = AᵀH is computed when they are merged.

P has a row for each word, and a chunk has only a part of the words. So P is often several times as large as the rows of
Aᵀ and H, and larger than the caches. A late delta has the latter. When it is merged, its sums are added to those of
another shard, row by row, and its own P is never stored. Each sum is rounded as in P, so the bits are the same.
"""

import itertools

import numpy as np

from ....io.stores.store import Arrays
from ....kernels.nmf.products import SparseMatrix, SparseRows, add_finished_products, add_products
from ...engine.algorithm import nbytes
from .deltas import cut_sums


def late(A: SparseMatrix, H: np.ndarray, Q: np.ndarray, bounds: tuple[int, ...]) -> list[Arrays]:
    """Return the late deltas of the blocks, for A (D, V) and the H (D, K) and Q of its sweep."""
    deltas = []
    for first, stop in itertools.pairwise(bounds):
        deltas.append(A.by_column.part(first, stop)._asdict() | {"H": H, "Q": Q})
    return deltas


def is_smaller(A: SparseMatrix, H: np.ndarray) -> bool:
    """Return whether a late delta occupies less memory than P."""
    n_columns = len(A.by_column.indptr) - 1
    return nbytes(A.by_column._asdict()) + H.nbytes < n_columns * H.shape[1] * H.itemsize


def is_late(delta: Arrays) -> bool:
    """Return whether P of a delta is not computed yet."""
    return "H" in delta


def computed(delta: Arrays) -> Arrays:
    """Return a delta with its P. Arrays of another form stay as they are."""
    if not is_late(delta):
        return delta
    H = delta["H"]
    P = np.zeros((len(delta["indptr"]) - 1, H.shape[1]), H.dtype)
    add_products(_rows(delta), H, P)
    return {"P": P, "Q": delta["Q"]}


def computed_whole(deltas: list[Arrays], bounds: tuple[int, ...]) -> list[Arrays]:
    """Return the deltas of all blocks with their P, which are parts of one array."""
    if not is_late(deltas[0]):
        return deltas
    P = np.concatenate([computed(delta)["P"] for delta in deltas])
    return cut_sums(bounds, P, deltas[0]["Q"])


def add_late(left: Arrays, right: Arrays, may_overwrite: bool) -> Arrays:
    """Add two deltas, of which one is late or both. With ``may_overwrite``, the P of the other one is overwritten."""
    # The order of two numbers makes no difference to their sum.
    delta, other = (left, right) if is_late(left) else (right, left)
    P = computed(other)["P"]
    if not may_overwrite and not is_late(other):
        P = P.copy()
    add_finished_products(_rows(delta), delta["H"], P)
    return {"P": P, "Q": left["Q"] + right["Q"]}


def _rows(delta: Arrays) -> SparseRows:
    return SparseRows(delta["indptr"], delta["indices"], delta["data"])
