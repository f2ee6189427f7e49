"""Restarts that leave out a random share of the entries, to measure how well they predict them.

Which entries are left out depends on the seed, the row and the column only: it is the same for all restarts and in each
epoch. If zeros are observed, they are left out like other entries. Each epoch begins by replacing left-out entries by
their predictions (expectation-maximisation), so the objective never rises, and the other zeros cost nothing. If entries
that are not stored are unknown, those that are left out become unknown too.

Source: Wold, "Cross-validatory estimation of the number of components", Technometrics 1978.
"""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import scipy.sparse

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.nmf import known, products
from ...engine.algorithm import Address, MemoryEstimate, Metrics, ModelView, Shard, SweepResult
from ...engine.data import ChunkSize
from ..base.saved import TrainedModel
from .deltas import cut_sums, shard_sums
from .known import KnownEntries, stored_entries
from .rows import PreparedRows, SpeckledRows
from .side_by_side import SideBySide, consecutive

#: Step in the address of the draws of this module. No real step has this number.
LEFT_OUT = -4


@dataclass(frozen=True, kw_only=True)
class Speckled(SideBySide):
    """Restarts of one chunk after the other, of which each replaces the left-out entries by its own predictions."""

    share: float
    seed: int

    @property
    def _observes_zeros(self) -> bool:
        return not isinstance(self.factorizations[0], KnownEntries)

    def memory(self, data: Corpus | Matrix, chunk: ChunkSize) -> MemoryEstimate:
        """Return the bytes of one sweep. Zeros that are left out are stored."""
        zeros = int(self.share * chunk.documents * self.n_rows) if self._observes_zeros else 0
        size = SimpleNamespace(documents=chunk.documents, tokens=chunk.tokens + zeros)
        return super().memory(data, size)

    def load_chunk(self, data: Corpus | Matrix, index: int, model: ModelView) -> SpeckledRows:
        """Read a chunk, and draw the entries that are left out."""
        A = stored_entries(self.factorizations[0].rows(data, index, model.shared))
        first = data.chunks[index].first_document
        keys = random.stream(random.key(self.seed, LEFT_OUT), first + len(A.indptr) - 1)[first:]
        if self._observes_zeros:
            found = [known.left_out_columns(key, self.share, self.n_rows) for key in keys]
            rows = np.repeat(np.arange(2 * len(keys)) % len(keys), [*np.diff(A.indptr), *map(len, found)])
            # The sum of an entry and 0 is the entry, and zeros stay stored.
            numbers = np.append(A.data, np.zeros(len(rows) - len(A.data), A.data.dtype))
            columns = np.concatenate([A.indices, *found])
            both = scipy.sparse.csr_matrix((numbers, (rows, columns)), (len(keys), self.n_rows))
            A = products.SparseRows(both.indptr.astype(np.int64), both.indices.astype(np.int32), both.data)
        return SpeckledRows(A, known.left_out(A, keys, self.share))

    def sweep(
        self, model: ModelView, chunk: PreparedRows, state: Arrays | None, shard: Shard, address: Address
    ) -> SweepResult:
        """Sweep all active restarts, one after the other."""
        assert isinstance(chunk, SpeckledRows)
        active = self._active(model.shared)
        W = self._active_rows_of_all_blocks(model, active)
        assert isinstance(W, np.ndarray)
        H = self._all_rows(active, state, self._seen(chunk), W, model.shared, address)
        places = consecutive([self.columns[restart] for restart in active])
        wide = consecutive([self.factorizations[restart].delta_columns for restart in active])
        squares = consecutive([self.columns[restart] ** 2 for restart in active])
        P, Q = shard_sums((squares[-1].stop,), np.empty((len(W), wide[-1].stop), W.dtype), shard.deltas)
        sums: Arrays = {"left_out": np.int64(chunk.is_left_out.sum())}
        for restart, where, terms, square in zip(active, places, wide, squares, strict=True):
            factorization = replace(self.factorizations[restart], bounds=(0, self.n_rows))
            view = TrainedModel([{"W": np.ascontiguousarray(W[:, where])}], {}, pa.table({}), {})
            before = np.ascontiguousarray(H[:, where])
            rows, error = self._replaced(chunk, before, view.blocks[0]["W"])
            K = where.stop - where.start
            deltas = cut_sums(factorization.bounds, np.ascontiguousarray(P[:, terms]), Q[square].reshape(K, K))
            own_shard = Shard(deltas, range(1))
            swept = factorization.sweep(view, factorization.prepared(rows), {"H": before}, own_shard, address)
            assert swept.state is not None
            H[:, where] = swept.state["H"]
            P[:, terms] = swept.deltas[0]["P"]
            Q[square] = swept.deltas[0]["Q"].ravel()
            for name, value in (swept.sums | {"left_out_error": np.float64(error)}).items():
                sums.setdefault(name, np.zeros(len(self.columns)))[restart] = value
        return SweepResult({"H": H, "restarts": np.array(active)}, cut_sums(self.bounds, P, Q), sums)

    def _seen(self, chunk: SpeckledRows) -> products.SparseRows:
        """Return the rows without the entries that are left out, in whose place there are zeros if these are stored."""
        A, is_left_out = chunk
        if self._observes_zeros:
            return A._replace(data=np.where(is_left_out, 0, A.data))
        before = np.append(0, np.cumsum(~is_left_out))
        return products.SparseRows(before[A.indptr], A.indices[~is_left_out], A.data[~is_left_out])

    def _replaced(self, chunk: SpeckledRows, H: np.ndarray, W: np.ndarray) -> tuple[products.SparseRows, float]:
        """Return the rows as a restart sees them, and the squared error of its predictions of what is left out."""
        A, is_left_out = chunk
        data = np.empty_like(A.data)
        error = known.predict(A, is_left_out, H, W, data)
        return (A._replace(data=data) if self._observes_zeros else self._seen(chunk)), error

    def metrics_of(self, restart: int, totals: Arrays, sums: Arrays) -> Metrics:
        """Return the metrics of the base class, and the root mean squared error of the entries that are left out.

        The latter is that of the factors with which the epoch has begun.
        """
        error = float(np.sqrt(sums["left_out_error"] / max(1, sums["left_out"])))
        return super().metrics_of(restart, totals, sums) | {"validation_error": error}

    @property
    def _measures(self) -> list[str]:
        return [*super()._measures, *(["validation_error"] if self.share else [])]
