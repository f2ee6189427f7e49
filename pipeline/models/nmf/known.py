"""NMF of known entries: what is not stored is unknown, and does not count. Memory and time follow the stored entries.

Every row of a factor has a problem of its own, whose terms are sums over its known entries: see `kernels.nmf.known`.
The terms of a row of H are dropped once it is updated. Those of the rows of W are sums over all documents: they are
the P of a chunk's delta.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import Arrays
from ....kernels.nmf import known, products
from ....kernels.nmf.hals import symmetric
from ...engine.algorithm import Address, MemoryEstimate, Metrics, ModelView, Shard, SweepResult
from ...engine.data import ChunkSize
from .factorization import FOLD_IN_SWEEPS
from .frobenius import SquaredError
from .inference import FrobeniusScores
from .rows import AnyFactor, PreparedRows, Rows, StreamedFactor, by_row

#: Bytes of the terms of rows of H that are made at a time. A streamed W is read once for them.
TERMS_BYTES = 4 << 20
#: Sweeps over a row for each of the parameter ``sweeps``. They take less time than its terms.
INNER_SWEEPS = 5


@dataclass(frozen=True, kw_only=True)
class KnownEntries(SquaredError):
    """Coordinate descent for the squared error of the known entries.

    S and Q are WᵀW and HᵀH as in the base class, but only measure the components.
    """

    kernel_module: ClassVar[str] = "nmf.known"

    @property
    def delta_columns(self) -> int:
        """Number of terms of a row of W, which are the columns of P."""
        return known.n_terms(self.n_components)

    def memory(self, data: Corpus | Matrix, chunk: ChunkSize) -> MemoryEstimate:
        """Return the bytes of one sweep."""
        estimate = super().memory(data, chunk)
        terms = min(chunk.documents, self._rows_at_a_time) * self.delta_columns * np.dtype(self.dtype).itemsize
        return replace(estimate, scratch=estimate.scratch + terms)

    @property
    def _rows_at_a_time(self) -> int:
        return max(1, TERMS_BYTES // (self.delta_columns * np.dtype(self.dtype).itemsize))

    @property
    def scores(self) -> FrobeniusScores:
        """The error of held-out rows."""
        return FrobeniusScores(self, "error", False)

    def load_chunk(self, data: Corpus | Matrix, index: int, model: ModelView) -> PreparedRows:
        """Read the known entries of a chunk."""
        return self.prepared(self.rows(data, index, model.shared))

    def prepared(self, rows: Rows) -> products.SparseMatrix:
        """Return known entries by row and by column."""
        return products.sparse_matrix(stored_entries(rows), self.n_rows)

    def sweep(
        self, model: ModelView, chunk: PreparedRows, state: Arrays | None, shard: Shard, address: Address
    ) -> SweepResult:
        """Update the chunk's rows of H, then compute the terms of the rows of W."""
        assert isinstance(chunk, products.SparseMatrix)
        after: Arrays | None = None
        sums: Arrays = {}
        if shard.is_later_range:
            assert state is not None
            H, Q = state["H"], state["Q"]
        else:
            H = self.first_rows(model, chunk, address) if state is None else state["H"].copy()
            sweeps = self.sweeps * INNER_SWEEPS
            penalty = self._update_rows(chunk.by_row, self.factor(model, "W"), H, sweeps)[1]
            Q = np.triu(self.gram(H)) + (0 if shard.deltas is None else shard.deltas[0]["Q"])
            after = {"H": H} if self.n_ranges == 1 else {"H": H, "Q": Q}
            sums = {"norm": self.norm(chunk.by_row), "penalty": np.float64(penalty)}
            sums["known"] = np.int64(len(chunk.by_row.data))
        deltas = []
        for position, block in enumerate(shard.blocks):
            first, stop = self.bounds[block : block + 2]
            P = np.zeros((stop - first, self.delta_columns), H.dtype)
            if shard.deltas is not None:
                P = shard.deltas[position]["P"]
            known.add_terms(chunk.by_column.part(first, stop), H, 0, P)
            deltas.append({"P": P, "Q": Q})
        return SweepResult(after, deltas, sums)

    def _update_rows(self, A: products.SparseRows, W: AnyFactor, H: np.ndarray, sweeps: int) -> tuple[float, float]:
        """Update the rows of H (D, K) in place, `_rows_at_a_time`; return what they explain, and their penalties."""
        explained = penalty = 0.0
        for first in range(0, len(H), self._rows_at_a_time):
            rows = H[first : first + self._rows_at_a_time]
            terms = np.zeros((len(rows), self.delta_columns), H.dtype)
            for start, _, Y in W.blocks() if isinstance(W, StreamedFactor) else [(0, len(W), W)]:
                known.add_terms(A.part(first, first + len(rows)), Y, start, terms)
            found = known.sweep_terms(terms, *self.penalties[2:], sweeps, rows)
            explained += found[0]
            penalty += found[1]
        return explained, penalty

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Update a block of W. Its totals are S, and its parts of Q, of what the factors explain, and of penalties."""
        W = block["W"].copy()
        explained, penalty = known.sweep_terms(delta["P"], *self.penalties[:2], self.sweeps * INNER_SWEEPS, W)
        totals = {"S": self.gram(W), "Q": symmetric(delta["Q"]) / self.n_blocks}
        return {"W": W}, totals | {"explained": np.float64(explained), "penalty": np.float64(penalty)}

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
        """Return the errors of the base class, and the root mean squared error of the known entries."""
        after, metrics = super().reduce(shared, totals, sums, history)
        return after, metrics | {"rmse": metrics["error"] / float(np.sqrt(max(1, int(sums["known"]))))}

    def fold_in(
        self, A: Rows | PreparedRows, W: AnyFactor, S: np.ndarray, sweeps: int = FOLD_IN_SWEEPS
    ) -> tuple[np.ndarray, float]:
        """Return the H (D, K) of new rows while W is fixed, and the squared error of their known entries."""
        rows = stored_entries(by_row(A))
        H = np.zeros((len(rows.indptr) - 1, self.n_components), self.dtype)
        return H, float(self.norm(rows) - self._update_rows(rows, W, H, sweeps)[0])


def stored_entries(A: Rows) -> products.SparseRows:
    """Return rows in sparse form. All entries of a dense array are stored."""
    if isinstance(A, products.SparseRows):
        return A
    D, V = A.shape
    return products.SparseRows(np.arange(D + 1) * V, np.tile(np.arange(V, dtype=np.int32), D), A.reshape(-1))
