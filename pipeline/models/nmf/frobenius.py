"""Solvers for the Frobenius norm ‖A − H·Wᵀ‖: FAST-HALS, and multiplicative updates.

All of them update the rows of one factor from two products. For H these are R = A·W and S = WᵀW; for W they are
P = AᵀH and Q = HᵀH. They differ in how they solve for the rows.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.cuda.residents import RESIDENTS
from ....kernels.nmf import hals as nmf
from ....kernels.nmf import products, solvers
from ....kernels.nmf.sums import gram_matrix
from ....kernels.simd.aligned import aligned_copy
from ...engine.algorithm import Address, MemoryEstimate, Metrics, ModelView, PreviousModel, Shard, SweepResult
from ...engine.data import ChunkSize
from ...engine.device import kernels, runs_on_cuda
from .deltas import computed, computed_whole, cut_sums, is_smaller, late, shard_sums
from .factorization import FOLD_IN_SWEEPS, Factorization
from .inference import FrobeniusScores
from .rows import (
    AnyFactor,
    PreparedRows,
    Rows,
    SparseChunk,
    StreamedFactor,
    SweptRows,
    add_column_products,
    add_row_products,
    by_row,
    entries_of,
    form_of,
    gram_of,
    n_rows_of,
)

Factor = Literal["W", "H"]

#: Step in the address of the draws that replace unused components. No real step has this number.
REVIVE = -2


@dataclass(frozen=True, kw_only=True)
class SquaredError(Factorization):
    """Base class of what minimises a squared error."""

    #: ℓ1 and ℓ2 of W, then ℓ1 and ℓ2 of H.
    penalties: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def gram(self, W: np.ndarray) -> np.ndarray:
        """Return WᵀW: (K, K) float64."""
        return gram_matrix(W)

    def norm(self, rows: Rows) -> np.float64:
        """Return the sum of the squares."""
        return np.sum(np.square(entries_of(rows), dtype=np.float64))

    def explained(self, W: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """Return W·Q: what rows of A add to P if they equal H·Wᵀ."""
        return W @ Q

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
        """Return the sums over all blocks as the next shared arrays, and the errors of the step.

        ``error`` is ‖A − H·Wᵀ‖, and ``relative_error`` is its ratio to ‖A‖. With penalties, training minimises the
        objective F, which is half of the squared error plus the penalties. ``penalised_error`` is √(2F).
        """
        squared_error = max(float(sums["norm"] - totals["explained"]), 0.0)
        squared_norm = max(float(sums["norm"]), np.finfo(float).tiny)
        metrics = {
            "error": float(np.sqrt(squared_error)),
            "relative_error": float(np.sqrt(squared_error / squared_norm)),
        }
        if any(self.penalties):
            penalty = float(sums["penalty"] + totals["penalty"])
            metrics["penalised_error"] = float(np.sqrt(squared_error + 2 * penalty))
        if "violation" in sums:
            metrics["violation"] = float(sums["violation"] + totals["violation"])
        kept = {name: array for name, array in totals.items() if name not in ("explained", "penalty", "violation")}
        return shared | kept, metrics


@dataclass(frozen=True, kw_only=True)
class FrobeniusFactorization(SquaredError):
    """Base class of the solvers.

    The error of the new H and W is ‖A‖² − 2⟨P, W⟩ + ⟨S, Q⟩. An epoch has all of these products, so the error costs no
    further pass over A. With ``extrapolate``, block and shared arrays also hold ``extrapolated``, the point beyond W
    that the next epoch starts from.
    """

    #: Whether there are kernels for a CUDA device.
    has_cuda_kernels: ClassVar[bool] = False

    extrapolate: bool = False
    convergence: str = "error"  # what ``tol`` limits

    def memory(self, data: Corpus | Matrix, chunk: ChunkSize) -> MemoryEstimate:
        """Return the bytes of one sweep. Extrapolation keeps two more copies of W."""
        estimate = super().memory(data, chunk)
        if not self.extrapolate:
            return estimate
        factor = self.n_rows * self.n_components * np.dtype(self.dtype).itemsize
        return replace(estimate, model=estimate.model + 2 * factor)

    @property
    def scores(self) -> FrobeniusScores:
        """The error of held-out rows."""
        return FrobeniusScores(self, self.convergence, self.extrapolate)

    def begin(self, data: Corpus | Matrix, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield the first blocks of W. If there are several, each has the number of its first row, for `apply`."""
        for block, arrays in zip(blocks, super().begin(data, blocks, previous), strict=True):
            if self.n_blocks > 1:
                arrays["first_row"] = np.int64(self.bounds[block])
            yield arrays

    # --- an epoch ---

    def sweep(
        self,
        model: ModelView,
        chunk: PreparedRows,
        state: Arrays | None,
        shard: Shard,
        address: Address,
    ) -> SweepResult:
        """Update the chunk's rows of H, then compute P and Q."""
        if shard.is_later_range:
            return self.sweep_later_range(model, chunk, state, shard)
        name = name_of_start(model.block(0))
        W = self.joined_factor(model, name)
        S = model.shared.get("extrapolated", model.shared.get("S"))
        if S is None:
            # On a CUDA device, only the device has the contents of the joined array above.
            S = gram_of(self.factor(model, name), self.gram)
        before = self.first_rows(model, chunk, address) if state is None else state["H"]
        after: Arrays = {}
        if isinstance(W, StreamedFactor):
            Q = np.zeros(S.shape) if shard.deltas is None else shard.deltas[0]["Q"]
            H, violation = self.update_streamed(chunk, W, S, before, Q)
            # Later ranges need the Q of the shard so far.
            after["Q"] = Q.copy()
            deltas = self.range_deltas(chunk, H, Q, shard, model)
        else:
            H, violation, deltas = self.sweep_rows(form_of(chunk), W, S, before, shard.deltas)
        after["H"] = H
        entries = entries_of(chunk)
        sums: Arrays = {
            "norm": np.float64(nmf.inner_product(entries, entries)),
            "penalty": np.float64(l1_penalty(self.penalties[2], H)),
        }
        if self.convergence == "gradient":
            sums["violation"] = np.float64(violation)
        return SweepResult(after, deltas, sums)

    @abstractmethod
    def update_streamed(
        self, A: PreparedRows, W: AnyFactor, S: np.ndarray, H: np.ndarray, Q: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Update H, as `update_rows` does, with a W that is read block by block; return H and its violation.

        Q is changed. P is not: its blocks are made when the range that has them is swept.
        """

    def sweep_rows(
        self, A: SweptRows, W: np.ndarray, S: np.ndarray, H: np.ndarray, deltas: list[Arrays] | None
    ) -> tuple[np.ndarray, float, list[Arrays]]:
        """Return the updated H (D, K), its violation (see `update_rows`), and the deltas of the shard so far."""
        P, Q = shard_sums(S.shape, W, deltas, self.device)
        H, violation = self.update_rows(A, W, S, H, P, Q)
        return H, violation, cut_sums(self.bounds, P, Q)

    def joined_factor(self, model: ModelView, name: str) -> AnyFactor:
        """Return the rows of W of all blocks, (V, K), in the form that `update_rows` takes."""
        return self.factor(model, name)

    @abstractmethod
    def update_rows(
        self, A: SweptRows, W: np.ndarray, S: np.ndarray, H: np.ndarray, P: np.ndarray, Q: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Return the updated H (D, K). Coordinate descent also returns the sum of its projected gradients, others 0.

        Adds AᵀH to P (V, K), and the upper triangle of HᵀH to Q (K, K).
        """

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Update a block of W from P and Q. Its totals are S, Q and its part of the error and of the penalties.

        The rows that a previous model was trained on are not read again. Their approximation H·Wᵀ adds W·Q to P.
        """
        P = delta["P"]
        own = nmf.symmetric(delta["Q"])
        Q = own
        if self.continues:
            P = self.merge.add([{"P": P}, {"P": block["seen"]}])["P"]
            Q = Q + shared["seen"]
        revived = self._revived(block[name_of_start(block)], Q, int(block.get("first_row", 0)))
        W, S, inner, violation = self.update_columns(revived, P, Q)
        kept: Arrays = {"W": W}
        if "first_row" in block:
            kept["first_row"] = block["first_row"]
        # All blocks have the same Q.
        Q_once = Q if not block.get("first_row", 0) else np.zeros_like(Q)
        totals: Arrays = {"S": S, "Q": Q_once, "penalty": self._penalty_of_block(W, S, own)}
        if self.convergence == "gradient":
            totals["violation"] = np.float64(violation)
        if self.extrapolate:
            explained = np.float64(2 * inner - np.sum(S * Q))
            extrapolation, totals["extrapolated"] = extrapolate_step(block, W, S, explained)
            kept |= extrapolation
        if self.continues:
            # The reported error covers the new rows only.
            kept["seen"] = block["seen"]
            inner -= float(np.sum(block["seen"] * W, dtype=np.float64))
        totals["explained"] = np.float64(2 * inner - np.sum(S * own))
        return kept, totals

    @abstractmethod
    def update_columns(
        self, W: np.ndarray, P: np.ndarray, Q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Return the updated rows of a block of W (rows, K), WᵀW (K, K), ⟨P, W⟩, and the violation of `update_rows`.

        W must stay unchanged.
        """

    def _penalty_of_block(self, W: np.ndarray, S: np.ndarray, Q: np.ndarray) -> np.float64:
        """Return the penalties of a block of W, and its part of the ℓ2 penalty of H."""
        l1_W, l2_W, _, l2_H = self.penalties
        return np.float64(l1_penalty(l1_W, W) + l2_W * np.trace(S) / 2 + l2_H * np.trace(Q) / 2 / self.n_blocks)

    def _revived(self, W: np.ndarray, Q: np.ndarray, first_row: int) -> np.ndarray:
        """Return W (rows, K), in which each component that no row of H uses has a new random column.

        The product H·Wᵀ stays the same, and the next sweep may use the component. ``first_row`` is the number of the
        block's first row in the whole W. The column of all blocks is the same, however W is cut.
        """
        unused = np.flatnonzero(np.diag(Q) == 0)
        if not len(unused):
            return W
        W = W.copy()
        for k in unused:
            column = np.empty((len(W), 1), W.dtype)
            nmf.fill_uniform(random.key(self.seed, REVIVE, int(k)), first_row, column, 2 * self.scale)
            W[:, k] = column[:, 0]
        return W

    # --- new rows ---

    def fold_in(
        self, A: Rows | PreparedRows, W: AnyFactor, S: np.ndarray, sweeps: int = FOLD_IN_SWEEPS
    ) -> tuple[np.ndarray, float]:
        """Return the H (D, K) of new rows while W is fixed, and their squared error. All solvers use HALS."""
        R = np.zeros((n_rows_of(A), self.n_components), self.dtype)
        add_row_products(A, W, R)
        H = np.zeros_like(R)
        rule = nmf.update_rule(S, *self.penalties[2:], self.dtype)
        scratch = nmf.make_scratch(self.n_components, self.dtype)
        inner = nmf.sweep_rows(R, rule, H, np.zeros_like(S), sweeps, scratch)
        return H, float(self.norm(by_row(A)) - 2 * inner + np.sum(S * gram_matrix(H)))


def l1_penalty(weight: float, factor: np.ndarray) -> float:
    """Return the ℓ1 penalty of rows of a factor. The ℓ2 penalty follows from S or Q."""
    if weight == 0:
        return 0.0
    RESIDENTS.bring_back([factor], keep=True)
    return weight * float(factor.sum(dtype=np.float64))


@dataclass(frozen=True, kw_only=True)
class Hals(FrobeniusFactorization):
    """FAST-HALS that sets each entry to its optimum while all others are fixed, as scikit-learn's solver "cd" does."""

    kernel_module: ClassVar[str] = "nmf.hals"
    has_cuda_kernels: ClassVar[bool] = True

    def prepared(self, rows: Rows) -> PreparedRows:
        """Return rows in the form that is fastest where they are swept."""
        if isinstance(rows, np.ndarray) or runs_on_cuda(self.device):
            return super().prepared(rows)
        return SparseChunk(rows, self.n_rows, self.n_components)

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Update a block of W as in the base class. P may be on a CUDA device; the host needs Q, which is committed."""
        RESIDENTS.bring_back([delta["Q"]])
        return super().apply(block, computed(delta), shared, first)

    def joined_factor(self, model: ModelView, name: str) -> AnyFactor:
        """Return W. On a CUDA device, the copies of its blocks are joined there, so nothing is uploaded again."""
        if not runs_on_cuda(self.device):
            return super().joined_factor(model, name)
        from ....kernels.cuda.memory import joined

        return joined([model.block(block)[name] for block in range(self.n_blocks)], "W")

    def sweep_rows(
        self, A: SweptRows, W: np.ndarray, S: np.ndarray, H: np.ndarray, deltas: list[Arrays] | None
    ) -> tuple[np.ndarray, float, list[Arrays]]:
        """Sweep as the base class does. On the CPU, P of the first chunk of a shard is computed later, if that pays."""
        if deltas is not None:
            return super().sweep_rows(A, W, S, H, computed_whole(deltas, self.bounds))
        if not isinstance(A, products.SparseMatrix) or runs_on_cuda(self.device) or not is_smaller(A, H):
            return super().sweep_rows(A, W, S, H, None)
        scratch = nmf.make_scratch(self.n_components, self.dtype)
        Q = np.zeros(S.shape)
        swept = nmf.sweep_sparse(A, W, self.rule(S, "H"), H, None, Q, self.sweeps, scratch)
        return swept, float(scratch.violation[0]), late(A, swept, Q, self.bounds)

    def update_rows(
        self, A: SweptRows, W: np.ndarray, S: np.ndarray, H: np.ndarray, P: np.ndarray, Q: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Sweep over the rows of H ``sweeps`` times. For sparse rows, kernels do it in parts that fit the cache."""
        module = kernels("nmf.hals", self.device)
        scratch = nmf.make_scratch(self.n_components, self.dtype)
        rule = self.rule(S, "H")
        if isinstance(A, np.ndarray):
            swept = module.sweep_dense(A, W, rule, H, P, Q, self.sweeps, scratch)
        else:
            swept = module.sweep_sparse(A, W, rule, H, P, Q, self.sweeps, scratch)
        return swept, float(scratch.violation[0])

    def update_columns(
        self, W: np.ndarray, P: np.ndarray, Q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Sweep over the rows of W ``sweeps`` times."""
        scratch = nmf.make_scratch(self.n_components, self.dtype)
        module = kernels("nmf.hals", self.device)
        swept, S, inner = module.sweep_products(P, self.rule(Q, "W"), W, self.sweeps, scratch)
        return swept, S, inner, float(scratch.violation[0])

    def update_streamed(
        self, A: PreparedRows, W: AnyFactor, S: np.ndarray, H: np.ndarray, Q: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Sweep over the rows of H, once their products with all blocks are known."""
        scratch = nmf.make_scratch(self.n_components, self.dtype)
        rule = self.rule(S, "H")
        R = np.full(H.shape, -rule.penalty, self.dtype)
        add_row_products(A, W, R)
        swept = aligned_copy(H)
        nmf.sweep_rows(R, rule._replace(penalty=R.dtype.type(0)), swept, Q, self.sweeps, scratch)
        return swept, float(scratch.violation[0])

    def rule(self, S: np.ndarray, factor: Factor) -> nmf.UpdateRule:
        """Return the rule by which coordinate descent updates the rows of one of the two factors.

        ``S`` (K, K) is XᵀX of the other factor X. The rule also has the penalties of the updated one.
        """
        penalties = self.penalties[:2] if factor == "W" else self.penalties[2:]
        return nmf.update_rule(S, *penalties, self.dtype)


@dataclass(frozen=True, kw_only=True)
class FactorSolver(FrobeniusFactorization):
    """Base class of the solvers that update both factors in the same way and run on the CPU."""

    @abstractmethod
    def update(self, R: np.ndarray, S: np.ndarray, X: np.ndarray) -> None:
        """Update the rows X (n, K) of a factor in place.

        With the other factor Y, R (n, K) is the product of these rows of the data and Y, and S (K, K) is YᵀY.
        """

    def update_rows(
        self, A: SweptRows, W: np.ndarray, S: np.ndarray, H: np.ndarray, P: np.ndarray, Q: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Return the next H (D, K), after one step of the solver; add to P and Q as the base class says."""
        # Only coordinate descent takes other forms.
        assert isinstance(A, products.SparseMatrix | np.ndarray)
        H, violation = self.update_streamed(A, W, S, H, Q)
        add_column_products(A, 0, len(P), H, P)
        return H, violation

    def update_streamed(
        self, A: PreparedRows, W: AnyFactor, S: np.ndarray, H: np.ndarray, Q: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Return the next H (D, K), after one step of the solver; add to Q."""
        H = H.copy()
        R = np.zeros_like(H)
        add_row_products(A, W, R)
        self.update(R, S, H)
        Q += np.triu(gram_matrix(H))
        return H, 0.0

    def update_columns(
        self, W: np.ndarray, P: np.ndarray, Q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Return the next rows of a block of W (rows, K), after one step of the solver, with their products."""
        W = aligned_copy(W)
        self.update(P, Q, W)
        return W, nmf.symmetric(gram_matrix(W)), float(np.sum(P * W, dtype=np.float64)), 0.0


@dataclass(frozen=True, kw_only=True)
class MultiplicativeUpdates(FactorSolver):
    """Multiplicative updates (Lee and Seung 2001), to compare the other solvers with."""

    def update(self, R: np.ndarray, S: np.ndarray, X: np.ndarray) -> None:
        """Multiply each entry by the ratio of R to X·S."""
        X[:] = solvers.multiplicative_update(X, R, S.astype(self.dtype))


#: Solvers of the Frobenius norm by the parameter ``solver``.
SOLVERS: dict[str, type[FrobeniusFactorization]] = {
    "hals": Hals,
    "mu": MultiplicativeUpdates,
}


#: Share of the last step that the first extrapolation adds.
FIRST_MOMENTUM = 0.5
#: Factor of the momentum after an epoch in which the error fell.
GROWTH = 1.05
#: Divisor of the momentum after an epoch in which the error rose.
REDUCTION = 1.5


def extrapolate_step(block: Arrays, W: np.ndarray, S: np.ndarray, explained: np.float64) -> tuple[Arrays, np.ndarray]:
    """Extrapolate a block of W (rows, K) whose Gram matrix is S (K, K).

    ``block`` has the arrays of the previous epoch, and ``explained`` is the part of ‖A‖² that this block explains now.
    If it fell, the error rose, and the next epoch restarts at W itself with less momentum.

    Returns the arrays that the block keeps (``extrapolated``, ``momentum``, ``explained``), and the Gram matrix of the
    extrapolated rows, (K, K) float64.
    """
    momentum = block.get("momentum", np.float64(FIRST_MOMENTUM))
    if explained < block.get("explained", -np.inf):
        return {"extrapolated": W, "momentum": momentum / REDUCTION, "explained": explained}, S
    extrapolated = np.empty_like(W)
    gram = np.zeros_like(S)
    scratch = nmf.make_scratch(len(S), W.dtype)
    nmf.extrapolate(W, block["W"], W.dtype.type(momentum), extrapolated, gram, scratch)
    gram = nmf.symmetric(gram)
    # Columns keep the lengths that they have in W. H can undo any scale, so lengths would grow without limit.
    scale = np.sqrt(np.diag(S) / np.maximum(np.diag(gram), np.finfo(W.dtype).tiny))
    extrapolated *= scale.astype(W.dtype)
    kept = {
        "extrapolated": extrapolated,
        "momentum": np.minimum(momentum * GROWTH, 1.0),
        "explained": explained,
    }
    return kept, gram * np.outer(scale, scale)


def name_of_start(block: Arrays) -> str:
    """Return the name of the array that has the rows of W that an epoch starts from."""
    return "extrapolated" if "extrapolated" in block else "W"
