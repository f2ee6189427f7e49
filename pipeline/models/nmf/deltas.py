"""The deltas of NMF: P and Q of a shard, which its sweeps add to, cut into the blocks of the model."""

import itertools

import numpy as np

from ....io.stores.store import Arrays
from ...engine.device import kernels


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
