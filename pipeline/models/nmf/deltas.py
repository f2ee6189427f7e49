"""The deltas of NMF: P and Q of a shard, which its sweeps add to, cut into the blocks of the model, and their sums.

On the CPU, P = AᵀH may be computed later, when deltas are merged. P has a row for each word, and a chunk has only a
part of the words. So P is often several times as large as the rows of Aᵀ and H, and larger than the caches. A late
delta has the latter. When it is merged, its sums are added to those of another shard, row by row, and its own P is
never stored. Each sum is rounded as in P, so the bits are the same.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....io.stores.store import Arrays
from ....kernels.nmf.products import SparseMatrix, SparseRows, add_finished_products, add_products
from ...engine.algorithm import Merge, nbytes
from ...engine.device import kernels, runs_on_cuda


def shard_sums(
    shape: tuple[int, ...], like: np.ndarray, deltas: list[Arrays] | None, device: str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """Return P and Q of the shard so far, to which a sweep adds: P as ``like`` (V, K), Q float64 of this shape.

    They are zero for the shard's first chunk. All chunks add to the same arrays. Those of a CUDA device are on the
    device from the beginning.
    """
    if deltas is None:
        return kernels("nmf.sums", device).zero_sums(len(like), shape, like.shape[1], like.dtype)
    # `cut_sums` has cut P into the blocks' deltas, without a copy.
    P = deltas[0]["P"].base
    assert P is not None
    return P, deltas[0]["Q"]


def cut_sums(bounds: tuple[int, ...], P: np.ndarray, Q: np.ndarray) -> list[Arrays]:
    """Return one delta per block: its rows of P (n_rows, K), without a copy, and the whole of Q (K, K)."""
    return [{"P": P[first:stop], "Q": Q} for first, stop in itertools.pairwise(bounds)]


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


@dataclass(frozen=True)
class FactorSums(Merge):
    """Adds P and Q, on a CUDA device if they are there. P may be computed only now."""

    device: str

    def add(self, deltas: Sequence[Arrays], may_overwrite: bool = False) -> Arrays:
        """Add P in place if the deltas may be overwritten. On a CUDA device, a new array costs nothing."""
        add_sums = kernels("nmf.sums", self.device).add_sums
        total = deltas[0]
        for delta in deltas[1:]:
            if is_late(total) or is_late(delta):
                total = add_late(total, delta, may_overwrite)
            elif may_overwrite and not runs_on_cuda(self.device):
                np.add(total["P"], delta["P"], out=total["P"])
                # The deltas of all blocks have the same Q, so its sum is a new array.
                total = {"P": total["P"], "Q": total["Q"] + delta["Q"]}
            else:
                total = {name: add_sums(array, delta[name], name) for name, array in total.items()}
        return total

    def pack(self, arrays: Arrays) -> Arrays:
        """Return the delta as it travels: with its product P, also if P was to be computed later."""
        return computed(arrays)
