"""Multiplicative updates for the Kullback-Leibler divergence (Lee and Seung, NIPS 2001)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import Arrays
from ....kernels.nmf import products, solvers
from ...engine.algorithm import Address, Metrics, ModelView, Shard, SweepResult
from .deltas import cut_sums, shard_sums
from .factorization import FOLD_IN_SWEEPS, Factorization
from .inference import FactorScores
from .rows import AnyFactor, PreparedRows, Rows, StreamedChunk, StreamedFactor, by_row, entries_of, gram_of, n_rows_of


@dataclass(frozen=True)
class DivergenceScores(FactorScores):
    """Scores of held-out rows by their Kullback-Leibler divergence from H·Wᵀ."""

    def metrics(self, sums: Arrays, held_out: bool) -> Metrics:
        """Return the divergence of the held-out rows per unit of their sum."""
        if not held_out:
            return {}
        return {"held_out_divergence": float(sums["error"] / max(sums["norm"], 1e-300))}


@dataclass(frozen=True, kw_only=True)
class KullbackLeibler(Factorization):
    """Minimises D(A ‖ H·Wᵀ).

    Here P is (A / H·Wᵀ)ᵀH by block, Q (K,) is the sum of the rows of H, and S (K,) the sum of the rows of W. The error
    is √(2D), as in scikit-learn, of the new H and the W that it was computed with. The divergence of the new W would
    need another pass over A.
    """

    def rows(self, data: Corpus | Matrix, index: int, shared: Arrays) -> Rows:
        """Read a chunk as sparse rows, because only non-zeros are ever divided."""
        return _sparse(super().rows(data, index, shared))

    def sweep(
        self,
        model: ModelView,
        chunk: PreparedRows,
        state: Arrays | None,
        shard: Shard,
        address: Address,
    ) -> SweepResult:
        """Update the chunk's rows of H, then divide A by the new H·Wᵀ and compute P and Q."""
        if shard.is_later_range:
            return self.sweep_later_range(model, chunk, state, shard)
        W = self.factor(model, "W")
        S = gram_of(W, self.gram)
        H = self.first_rows(model, chunk, address) if state is None else state["H"].copy()
        A = chunk if isinstance(chunk, StreamedChunk) else _sparse(by_row(chunk))
        for _ in range(self.sweeps):
            _multiply(A, W, S, H)
        sum_of_rows = H.sum(axis=0, dtype=np.float64)
        after: Arrays = {"H": H}
        if isinstance(A, StreamedChunk):
            assert isinstance(W, StreamedFactor)
            logarithms = _logarithms(A, W, H)
            after["Q"] = sum_of_rows if shard.deltas is None else shard.deltas[0]["Q"] + sum_of_rows
            deltas = self.range_deltas(A, H, after["Q"], shard, model)
        else:
            assert isinstance(W, np.ndarray)
            ratio = products.SparseRows(A.indptr, A.indices, np.empty_like(A.data))
            logarithms = solvers.kullback_leibler_ratios(A, H, W, ratio.data)
            P, Q = shard_sums(S.shape, W, shard.deltas)
            products.add_products(products.transposed(ratio, len(W)), H, P)
            Q += sum_of_rows
            deltas = cut_sums(self.bounds, P, Q)
        total = np.sum(entries_of(A), dtype=np.float64)
        return SweepResult(after, deltas, {"divergence": logarithms - total + S @ sum_of_rows, "norm": total})

    def add_columns(self, A: PreparedRows, H: np.ndarray, block: int, model: ModelView, P: np.ndarray) -> None:
        """Add (A / H·Wᵀ)ᵀH of the words of a block."""
        assert isinstance(A, StreamedChunk)
        ratio, _ = _ratios_of_block(A, H, self.bounds[block], self.bounds[block + 1], model.block(block)["W"])
        products.add_products(ratio, H, P)

    def norm(self, rows: Rows) -> np.float64:
        """Return the sum of the entries."""
        return np.sum(entries_of(rows), dtype=np.float64)

    @property
    def scores(self) -> DivergenceScores:
        """The divergence of held-out rows."""
        return DivergenceScores(self)

    def gram(self, W: np.ndarray) -> np.ndarray:
        """Return the sum of the rows: (K,) float64."""
        return W.sum(axis=0, dtype=np.float64)

    def explained(self, W: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """Return what rows of A add to W·P if they equal H·Wᵀ, given their Q (K,)."""
        return W * Q

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Set W to W·P / Q. Rows of a previous training are replaced by their approximation."""
        weight = block["W"] * delta["P"]
        Q = delta["Q"]
        kept: Arrays = {}
        if self.continues:
            weight = weight + block["seen"]
            Q = Q + shared["seen"]
            kept["seen"] = block["seen"]
        kept["W"] = (weight / np.maximum(Q, np.finfo(self.dtype).tiny)).astype(self.dtype)
        return kept, {"S": self.gram(kept["W"]), "Q": Q / self.n_blocks}

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
        """Return S and Q as the next shared arrays, and the error √(2D) of the divergence D."""
        divergence = max(float(sums["divergence"]), 0.0)
        return shared | totals, {"error": float(np.sqrt(2 * divergence))}

    def fold_in(
        self, A: Rows | PreparedRows, W: AnyFactor, S: np.ndarray, sweeps: int = FOLD_IN_SWEEPS
    ) -> tuple[np.ndarray, float]:
        """Return the H (D, K) of new rows while W is fixed, and their divergence."""
        chunk = A if isinstance(A, StreamedChunk) else _sparse(by_row(A))
        H = np.ones((n_rows_of(A), self.n_components), self.dtype)
        for _ in range(sweeps):
            _multiply(chunk, W, S, H)
        by_document = chunk.by_row if isinstance(chunk, StreamedChunk) else chunk
        if isinstance(W, StreamedFactor):
            logarithms = _logarithms(chunk, W, H)
        else:
            logarithms = solvers.kullback_leibler_ratios(by_document, H, W, np.empty_like(by_document.data))
        total = np.sum(by_document.data, dtype=np.float64)
        return H, float(logarithms - total + S @ H.sum(axis=0, dtype=np.float64))


def _sparse(A: Rows) -> products.SparseRows:
    """Return the sparse form of rows."""
    if isinstance(A, products.SparseRows):
        return A
    found = scipy.sparse.csr_matrix(A)
    return products.SparseRows(found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data)


def _ratios_of_block(
    A: StreamedChunk, H: np.ndarray, first: int, stop: int, W: np.ndarray
) -> tuple[products.SparseRows, float]:
    """Return A / H·Wᵀ of the words of a block, by word, and the part of the divergence that `solvers` returns."""
    part = A.part(first, stop)
    entries = slice(part.indptr[0], part.indptr[-1])
    own = products.SparseRows(part.indptr - part.indptr[0], part.indices[entries], part.data[entries])
    ratio = own._replace(data=np.empty_like(own.data))
    return ratio, solvers.kullback_leibler_ratios(own, W, H, ratio.data)


def _logarithms(A: products.SparseRows | StreamedChunk, W: StreamedFactor, H: np.ndarray) -> float:
    """Return the part of the divergence that depends on the non-zeros, for a streamed chunk."""
    assert isinstance(A, StreamedChunk)
    return float(sum(_ratios_of_block(A, H, *block)[1] for block in W.blocks()))


def _multiply(A: products.SparseRows | StreamedChunk, W: AnyFactor, S: np.ndarray, H: np.ndarray) -> None:
    """Update H (D, K) in place: H · ((A / H·Wᵀ) W) / S."""
    R = np.zeros_like(H)
    if isinstance(A, StreamedChunk):
        assert isinstance(W, StreamedFactor)
        for first, stop, rows in W.blocks():
            products.add_transposed_products(_ratios_of_block(A, H, first, stop, rows)[0], rows, R)
    else:
        assert isinstance(W, np.ndarray)
        ratio = products.SparseRows(A.indptr, A.indices, np.empty_like(A.data))
        solvers.kullback_leibler_ratios(A, H, W, ratio.data)
        products.add_products(ratio, W, R)
    H *= (R / np.maximum(S, np.finfo(H.dtype).tiny)).astype(H.dtype)
