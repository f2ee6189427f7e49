"""Multiplicative updates for the Kullback-Leibler divergence as an algorithm of the engine."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ....io.stores.store import Arrays
from ....kernels.nmf import hals as nmf
from ....kernels.nmf import solvers as nmf_solvers
from ...engine.algorithm import Address, Model, SweepResult
from .algorithm import FOLD_IN_SWEEPS, HALS


@dataclass(frozen=True, kw_only=True)
class Divergence(HALS):
    """D(A ‖ H·Wᵀ) by Lee and Seung's updates. State: H by chunk. Delta: P = (A / HWᵀ)ᵀH by block, Q = ΣH (K,).

    Shared: S = ΣW (K,). The error is √(2D), as scikit-learn has it, of the new H and the W that it was found with: the
    divergence of the new W would take another pass over A.
    """

    def rows(self, chunk: Any, shared: Arrays) -> Any:
        """Return a chunk as sparse rows: only non-zeros are ever divided."""
        A = super().rows(chunk, shared)
        return A if isinstance(A, nmf.SparseRows) else sparse(A)

    def sweep(
        self, model: Model, chunk: Any, state: Arrays | None, deltas: list[Arrays] | None, address: Address
    ) -> SweepResult:
        """Update the chunk's rows of H, then divide A by the new HWᵀ and add up P and Q."""
        A, W = chunk.by_row, self._joined(model, "W")
        S = self.summed(W)
        H = self._first(model, A, address) if state is None else state["H"].copy()
        for _ in range(self.sweeps):
            _multiply(A, W, S, H)
        ratio = nmf.SparseRows(A.indptr, A.indices, np.empty_like(A.data))
        logs = nmf_solvers.kullback_leibler_ratios(A, H, W, ratio.data)
        P, Q = np.zeros_like(W), H.sum(axis=0, dtype=np.float64)
        nmf.add_products(nmf.transposed(ratio, len(W)), H, P)
        found = [{"P": P[i:j], "Q": Q} for i, j in zip(self.bounds[:-1], self.bounds[1:], strict=True)]
        if deltas is not None:
            found = [self.merge(a, b) for a, b in zip(deltas, found, strict=True)]
        total = np.sum(A.data, dtype=np.float64)
        return SweepResult({"H": H}, found, {"divergence": logs - total + S @ Q, "norm": total})

    def summed(self, W: np.ndarray) -> np.ndarray:
        """Return S of W: (K,) float64."""
        return W.sum(axis=0, dtype=np.float64)

    def explained(self, W: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """Return W·P of rows of A that are just HWᵀ, for their Q."""
        return W * Q

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
        """Set W to W·P / Q; rows that an earlier model has seen count as it has them."""
        weight, Q = block["W"] * delta["P"], delta["Q"]
        if self.continues:
            weight, Q = weight + block["seen"], Q + shared["seen"]
        W = (weight / np.maximum(Q, np.finfo(self.dtype).tiny)).astype(self.dtype)
        kept = {"W": W, "seen": block["seen"]} if self.continues else {"W": W}
        return kept, {"S": self.summed(W), "Q": Q / self.n_blocks}

    def reduce_shared(self, shared: Arrays, totals: Arrays, sums: Arrays) -> tuple[Arrays, dict[str, float]]:
        """Keep S and Q; report √(2D)."""
        return shared | totals, {"error": float(np.sqrt(2 * max(float(sums["divergence"]), 0.0)))}

    def fold_in(self, A: Any, W: np.ndarray, S: np.ndarray, sweeps: int = FOLD_IN_SWEEPS) -> tuple[np.ndarray, float]:
        """Return the H (D, K) of new rows, W being fixed, and their divergence."""
        A = A if isinstance(A, nmf.SparseRows) else sparse(A)
        H = np.ones((len(A.indptr) - 1, self.n_components), self.dtype)
        for _ in range(sweeps):
            _multiply(A, W, S, H)
        logs = nmf_solvers.kullback_leibler_ratios(A, H, W, np.empty_like(A.data))
        return H, float(logs - np.sum(A.data, dtype=np.float64) + S @ H.sum(axis=0, dtype=np.float64))

    def score(self, model: Model, chunk: Any, state: Arrays | None, address: Address) -> Arrays:
        """Divergence of a held-out chunk, its rows of H found with W fixed."""
        if state is not None:
            return {}
        A = chunk.by_row
        error = self.fold_in(A, self._joined(model, "W"), model.shared["S"])[1]
        return {"norm": np.sum(A.data, dtype=np.float64), "error": np.float64(error)}

    def metrics_from_sums(self, sums: Arrays, held_out: bool) -> dict[str, float]:
        """Divergence of the held-out rows for each unit of their sum."""
        return {"held_out_divergence": float(sums["error"] / max(sums["norm"], 1e-300))} if held_out else {}


def sparse(A: np.ndarray) -> nmf.SparseRows:
    """Return the sparse rows of a dense array."""
    found = scipy.sparse.csr_matrix(A)
    return nmf.SparseRows(found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data)


def _multiply(A: nmf.SparseRows, W: np.ndarray, S: np.ndarray, H: np.ndarray) -> None:
    ratio = nmf.SparseRows(A.indptr, A.indices, np.empty_like(A.data))
    nmf_solvers.kullback_leibler_ratios(A, H, W, ratio.data)
    R = np.zeros_like(H)
    nmf.add_products(ratio, W, R)
    H *= (R / np.maximum(S, np.finfo(H.dtype).tiny)).astype(H.dtype)
