"""How NMF is scored and shown: the error of held-out rows, and the heaviest words of components."""

from dataclasses import dataclass

import numpy as np

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import Arrays
from ....kernels.nmf import products
from ....kernels.nmf.sums import gram_matrix
from ...engine.algorithm import Address, Metrics, ModelView, Scores
from ...topics import WordGroup
from ..vectors.similarity import top_indices
from .factorization import Factorization
from .rows import AnyFactor, PreparedRows, Rows, by_row, gram_of

#: Components that `FactorScores.describe` shows, and words of each.
DESCRIBED = 24
DESCRIBED_WORDS = 8


@dataclass(frozen=True)
class FactorScores(Scores):
    """What all losses share."""

    algorithm: Factorization

    def scored_rows(self, model: ModelView, n_rows: int) -> tuple[AnyFactor, np.ndarray]:
        """Return the first ``n_rows`` rows of W, and their S."""
        W = self.algorithm.factor(model, "W")
        if n_rows >= len(W):
            return W, model.shared["S"]
        some = W[:n_rows] if isinstance(W, np.ndarray) else W.first(n_rows)
        return some, gram_of(some, self.algorithm.gram)

    def scored_chunk(self, chunk: PreparedRows, W: AnyFactor) -> Rows | PreparedRows:
        """Return a chunk in the form for products with W."""
        return by_row(chunk) if isinstance(W, np.ndarray) else chunk

    def describe(self, model: ModelView, data: Corpus | Matrix) -> list[WordGroup]:
        """Return the heaviest words of the first components; no groups for a matrix, which has no words."""
        if not isinstance(data, Corpus):
            return []
        W = self.algorithm.factor(model, "W")
        names = data.vocabulary["word"]
        groups = []
        for k, column in enumerate(_columns(W, DESCRIBED)):
            words = [names[int(word)].as_py() for word in top_indices(column, DESCRIBED_WORDS)]
            groups.append(WordGroup(str(k), words))
        return groups

    def converged(self, history: list[Metrics]) -> bool:
        """Return whether the last epoch reduced the error by less than the share ``tol`` of it.

        Penalties count: with them, the error alone may rise while training goes on.
        """
        tol = self.algorithm.tol
        if len(history) < 2 or tol == 0:
            return False
        before, after = (metrics.get("penalised_error", metrics["error"]) for metrics in history[-2:])
        return self._decrease(before, after) < tol * before

    def _decrease(self, before: float, after: float) -> float:
        return before - after


@dataclass(frozen=True)
class FrobeniusScores(FactorScores):
    """Errors in the Frobenius norm."""

    convergence: str
    extrapolates: bool

    def score(
        self, model: ModelView, chunk: PreparedRows, state: Arrays | None, address: Address, n_words: int
    ) -> Arrays:
        """Return the squared error and norm of a held-out chunk. A training chunk's error is known from the epoch."""
        if state is not None:
            return {}
        A = by_row(chunk)
        W, S = self.scored_rows(model, n_words)
        H, inner = self.algorithm.fold_in(self.scored_chunk(chunk, W), W, S)
        norm = np.sum(np.square(A.data if isinstance(A, products.SparseRows) else A, dtype=np.float64))
        return {"norm": norm, "error": norm - 2 * inner + np.sum(S * gram_matrix(H))}

    def metrics(self, sums: Arrays, held_out: bool) -> Metrics:
        """Return the relative error of the held-out rows."""
        if not held_out:
            return {}
        ratio = max(sums["error"], 0.0) / max(sums["norm"], 1e-300)
        return {"held_out_relative_error": float(np.sqrt(ratio))}

    def converged(self, history: list[Metrics]) -> bool:
        """Return whether the error, or the projected gradient, has fallen as far as ``tol`` demands."""
        if self.convergence == "error":
            return super().converged(history)
        tol = self.algorithm.tol
        return bool(history) and tol > 0 and history[-1]["violation"] <= tol * history[0]["violation"]

    def _decrease(self, before: float, after: float) -> float:
        if self.extrapolates:
            # A rise of the error is a restart of the extrapolation, and no sign of convergence.
            return abs(before - after)
        return before - after


def _columns(W: AnyFactor, n: int) -> np.ndarray:
    """Return the first columns of a factor as rows: (n, V)."""
    if isinstance(W, np.ndarray):
        return W.T[:n]
    return np.concatenate([rows[:, :n] for _, _, rows in W.blocks()]).T
