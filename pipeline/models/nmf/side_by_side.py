"""The algorithm of several restarts: one pass over the data updates the factors of all of them.

`restarts` says what a restart is, and has the estimator's side. Here, a restart is an index into
`SideBySide.factorizations`, and the columns of its factors are packed next to those of others, so that they share the
products with A. A product of sparse rows with few columns is limited by its loop over the non-zeros, not by arithmetic.
So restarts are packed into *cohorts* of up to 64 columns, whose products take one pass over the non-zeros. Wider ones
gain nothing, because their rows leave the cache. Everything else is done for each restart on its own, by the functions
of its own factorisation, so its factors are those of a separate run.

Restarts begin in order. Those that are active at the same time have at most ``max_columns`` columns together. A restart
leaves when it has converged, or has had ``max_iter`` epochs. Then the next one takes its place, and the next sweep
packs the cohorts again. If a run is continued with more epochs, restarts that have not converged return. Rows of H of
restarts that left early are computed again, so their factors then differ from those of a separate run.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from ....io.stores.corpus import Corpus
from ....io.stores.matrix import Matrix
from ....io.stores.store import Arrays
from ....kernels.nmf import hals as nmf
from ....kernels.simd.aligned import join_rows
from ...engine.algorithm import (
    MAX_SHARDS,
    Address,
    Algorithm,
    MemoryEstimate,
    Metrics,
    ModelView,
    Needs,
    PreviousModel,
    Scores,
    Shard,
    SweepResult,
    cut_of,
    recut,
)
from ...engine.data import ChunkSize
from ...engine.worker.merging import count_waiting
from .deltas import FactorSums, cut_sums, shard_sums
from .frobenius import Hals, l1_penalty
from .known import KnownEntries
from .rows import (
    AnyFactor,
    PreparedRows,
    StreamedFactor,
    add_row_products,
    columns_of,
    entries_of,
    form_of,
    gram_of,
    n_rows_of,
    prepare_for_hals,
)

#: Columns of a cohort, unless one restart has more.
COHORT_COLUMNS = 64
#: Columns of all restarts that are trained at the same time, unless one restart has more.
MAX_COLUMNS = 1024
#: Errors that each restart reports, by name.
MEASURES = ("error", "relative_error", "penalised_error", "validation_error", "violation")
#: Numbers of each restart that its factorisation sums over the blocks of W.
TOTALS = ("explained", "penalty", "violation")
#: Arrays of a block that a trained model keeps. Those after W are only in blocks of several restarts.
BLOCK_ARRAYS = ("W", "restarts", "idle_W", "idle_restarts")


def admit(columns: Sequence[int], active: Sequence[int], waiting: Iterable[int], max_columns: int) -> list[int]:
    """Return the active restarts and the first waiting ones that fit beside them. ``columns`` has K of each restart.

    If no restart is active, at least one is admitted.
    """
    admitted = list(active)
    used = sum(columns[restart] for restart in admitted)
    for restart in waiting:
        if admitted and used + columns[restart] > max_columns:
            break
        admitted.append(restart)
        used += columns[restart]
    return admitted


def cohorts(columns: Sequence[int], active: Sequence[int]) -> Iterator[list[int]]:
    """Cut the active restarts into cohorts of up to COHORT_COLUMNS columns."""
    cohort: list[int] = []
    for restart in active:
        if cohort and sum(columns[other] for other in cohort) + columns[restart] > COHORT_COLUMNS:
            yield cohort
            cohort = []
        cohort.append(restart)
    if cohort:
        yield cohort


def most_epochs(columns: Sequence[int], max_columns: int, max_iter: int) -> int:
    """Return the number of epochs in which all restarts finish, even if none converges."""
    waves = 0
    begun = 0
    while begun < len(columns):
        begun += len(admit(columns, [], range(begun, len(columns)), max_columns))
        waves += 1
    return waves * max_iter


@dataclass(frozen=True)
class RestartScores(Scores):
    """Says when several restarts have finished."""

    restarts: int
    max_iter: int

    def converged(self, history: list[Metrics]) -> bool:
        """Return whether all restarts have finished: each has converged, or had all its epochs."""
        if not history or history[-1]["restarts_active"] > 0:
            return False
        last = history[-1]
        return last.get("restarts_converged") == self.restarts or last.get("max_iter", 0) >= self.max_iter


@dataclass(frozen=True, kw_only=True)
class SideBySide(Algorithm[Corpus | Matrix, PreparedRows]):
    """Restarts of coordinate descent, each with its own number of components and seed.

    A block has W (rows, active columns) of the ``restarts`` that the last epoch trained, side by side, and ``idle_W``
    of the ``idle_restarts``, which have left or not begun. The state has H (D, active columns), and the numbers of the
    ``restarts`` that these columns belong to. The shared arrays S and Q hold the matrices of all restarts, one after
    the other.
    """

    name: ClassVar[str] = "nmf"

    factorizations: tuple[Hals | KnownEntries, ...]
    max_iter: int
    max_columns: int = MAX_COLUMNS
    n_ranges: int = 1  # see `Needs.ranges`; with more than one, W is not held as a whole

    def __post_init__(self) -> None:
        """Cut all factorisations as this object is cut."""
        cut = tuple(recut(factorization, cut_of(self)) for factorization in self.factorizations)
        object.__setattr__(self, "factorizations", cut)

    @cached_property
    def columns(self) -> list[int]:
        """Number of components of each restart."""
        return [factorization.n_components for factorization in self.factorizations]

    @property
    def _restarts(self) -> range:
        """The positions of the restarts in ``factorizations``."""
        return range(len(self.factorizations))

    @property
    def _cohort_columns(self) -> int:
        """The most columns of a cohort."""
        return min(self._most_active, max(COHORT_COLUMNS, *self.columns))

    @cached_property
    def _squares(self) -> list[slice]:
        """The range of each restart in the flat arrays S and Q."""
        return consecutive([K * K for K in self.columns])

    def memory(self, data: Corpus | Matrix, chunk: ChunkSize) -> MemoryEstimate:
        """Return the bytes of one sweep."""
        item = np.dtype(self.factorizations[0].dtype).itemsize
        total = sum(self.columns)
        widest = max(self.columns)
        active = self._most_active
        rows = self.factorizations[0].swept_rows
        # W, P and H of one cohort, or products of all rows with a block of W.
        cohort = self._cohort_columns if self.n_ranges == 1 else active
        grams = 8 * sum(K * K for K in self.columns)
        return MemoryEstimate(
            data=(24 + 2 * item) * chunk.tokens + 16 * chunk.documents,
            # H before and after the sweep.
            state=2 * chunk.documents * active * item,
            # W before and after the update.
            model=2 * rows * total * item + 2 * grams,
            # P of this chunk, P of the shard, and one that is merged; Q.
            delta=3 * rows * self._delta_columns * item + 3 * grams,
            # The transposition of the chunk.
            scratch=2 * (4 + item) * chunk.tokens
            + 16 * self.n_rows
            + cohort * (chunk.documents + 2 * rows) * item
            + 4 * widest**2 * item,
        )

    @property
    def _most_active(self) -> int:
        """The largest number of columns of active restarts."""
        return min(sum(self.columns), max(self.max_columns, *self.columns))

    @property
    def _delta_columns(self) -> int:
        """An upper bound of the columns of P, over all restarts that may be active at the same time."""
        return self._most_active * max(-(-each.delta_columns // each.n_components) for each in self.factorizations)

    def needs(self, data: Corpus | Matrix, n_workers: int) -> Needs:
        """Return the kernels, and the bytes of the P that wait to be merged, except for the one in `memory`."""
        item = np.dtype(self.factorizations[0].dtype).itemsize
        waiting = max(0, count_waiting(min(len(data.chunks), MAX_SHARDS)) - 1)
        kept = self.factorizations[0].swept_rows * self._delta_columns * item * waiting
        return Needs(kernels={"nmf.hals"}, kept=kept, ranges=self.n_ranges)

    @property
    def merge(self) -> FactorSums:
        """Sums of P and Q."""
        return FactorSums("cpu")

    @property
    def scores(self) -> RestartScores:
        """When all restarts have finished. They are not scored otherwise."""
        return RestartScores(len(self.factorizations), self.max_iter)

    # --- before the first sweep ---

    def begin(self, data: Corpus | Matrix, blocks: range, previous: PreviousModel | None) -> Iterator[Arrays]:
        """Yield blocks of the first W of all restarts."""
        for block in blocks:
            first = [factorization.first_block(data, block, None)["W"] for factorization in self.factorizations]
            begun = self._block(admit(self.columns, [], range(len(first)), self.max_columns), first.__getitem__)
            begun["first_row"] = np.int64(self.bounds[block])
            yield begun

    def recut_block(self, arrays: Arrays, block: int) -> Arrays:
        """Set the number of a block's first row, and keep one of its lists of restarts.

        A block that was joined from several has their lists, which are equal, one after another.
        """
        found = arrays | {"first_row": np.int64(self.bounds[block])}
        for name in ("restarts", "idle_restarts"):
            found[name] = np.array([*dict.fromkeys(arrays[name].tolist())], np.int64)
        return found

    def begin_shared(self, data: Corpus | Matrix, previous: PreviousModel | None) -> Arrays:
        """Return the weights of words, and which restarts begin."""
        n = len(self.factorizations)
        squares = self._squares[-1].stop
        shared = self.factorizations[0].begin_shared(data, None)
        shared |= {name: np.zeros((n, self.max_iter)) for name in self._measures}
        return shared | {
            "restart_components": np.array(self.columns),
            "restart_seeds": np.array([factorization.seed for factorization in self.factorizations]),
            "restart_epochs": np.zeros(n, np.int64),
            "active": np.array(admit(self.columns, [], range(n), self.max_columns)),
            "S": np.zeros(squares),
            "Q": np.zeros(squares),
        }

    @property
    def _measures(self) -> list[str]:
        first = self.factorizations[0]
        missing = {"validation_error"}
        if not any(first.penalties):
            missing.add("penalised_error")
        if first.scores.convergence != "gradient":
            missing.add("violation")
        return [name for name in MEASURES if name not in missing]

    def load_chunk(self, data: Corpus | Matrix, index: int, model: ModelView) -> PreparedRows:
        """Return the rows of a chunk. Sparse ones are prepared once for the sweeps of all cohorts."""
        if self.n_ranges > 1:
            return self.factorizations[0].streamed_chunk(data, index, model.shared)
        rows = self.factorizations[0].rows(data, index, model.shared)
        if isinstance(rows, np.ndarray):
            return rows
        # One sweep already uses the faster form several times, once for each cohort.
        return prepare_for_hals(rows, self.n_rows, self._cohort_columns)

    # --- an epoch ---

    def sweep(
        self,
        model: ModelView,
        chunk: PreparedRows,
        state: Arrays | None,
        shard: Shard,
        address: Address,
    ) -> SweepResult:
        """Update the chunk's rows of H of all active restarts, then compute P and Q."""
        if shard.is_later_range:
            return self.factorizations[0].sweep_later_range(model, chunk, state, shard)
        active = self._active(model.shared)
        places = consecutive([self.columns[restart] for restart in active])
        W = self._active_rows_of_all_blocks(model, active)
        H = self._all_rows(active, state, chunk, W, model.shared, address)
        squares = consecutive([self.columns[restart] ** 2 for restart in active])
        violation = np.zeros(len(self.factorizations))
        scratches = {K: nmf.make_scratch(K, H.dtype) for K in {self.columns[restart] for restart in active}}
        after: Arrays = {"H": H, "restarts": np.array(active)}
        sweeps = self.factorizations[0].sweeps
        if isinstance(W, StreamedFactor):
            Q = np.zeros(squares[-1].stop) if shard.deltas is None else shard.deltas[0]["Q"]
            parts = self._parts(active, model.shared, W, [Q[square] for square in squares], scratches)
            R = np.empty_like(H)
            nmf.start_from_penalties(R, parts)
            add_row_products(chunk, W, R)
            for restart, part in zip(active, parts, strict=True):
                nmf.sweep_columns(R, part, H, 0, sweeps)
                violation[restart] = part.scratch.violation[0]
            # Later ranges need the Q of the shard so far.
            after["Q"] = Q.copy()
            deltas = self.factorizations[0].range_deltas(chunk, H, Q, shard, model)
        else:
            swept = form_of(chunk)
            P, Q = shard_sums((squares[-1].stop,), np.empty((len(W), places[-1].stop), W.dtype), shard.deltas)
            done = 0
            for cohort in cohorts(self.columns, active):
                where = slice(places[done].start, places[done + len(cohort) - 1].stop)
                products = np.ascontiguousarray(P[:, where])
                factor = np.ascontiguousarray(W[:, where])
                grams = [Q[square] for square in squares[done : done + len(cohort)]]
                parts = self._parts(cohort, model.shared, factor, grams, scratches)
                nmf.sweep_side_by_side(swept, factor, parts, H, where.start, products, sweeps)
                for restart, part in zip(cohort, parts, strict=True):
                    violation[restart] = part.scratch.violation[0]
                P[:, where] = products
                done += len(cohort)
            deltas = cut_sums(self.bounds, P, Q)
        entries = entries_of(chunk)
        penalty = np.zeros(len(self.factorizations))
        for restart, where in zip(active, places, strict=True):
            penalty[restart] = l1_penalty(self.factorizations[restart].penalties[2], H[:, where])
        norm = np.float64(nmf.inner_product(entries, entries))
        return SweepResult(after, deltas, {"norm": norm, "penalty": penalty, "violation": violation})

    def _active(self, shared: Arrays) -> list[int]:
        """Return the restarts of the next epoch."""
        # All had left, but there are more epochs now.
        return shared["active"].tolist() or self._admit(shared, [])

    def _admit(self, shared: Arrays, going: list[int]) -> list[int]:
        """Return the restarts ``going`` and the first unfinished ones that fit beside them."""
        others = [restart for restart in self._restarts if restart not in going]
        waiting = (restart for restart in others if not self._has_finished(shared, restart))
        return admit(self.columns, going, waiting, self.max_columns)

    def _all_rows(
        self,
        active: list[int],
        state: Arrays | None,
        A: PreparedRows,
        W: AnyFactor,
        shared: Arrays,
        address: Address,
    ) -> np.ndarray:
        """Return a new H (D, K) of all active restarts before the sweep."""
        if state is not None and state["restarts"].tolist() == active:
            return state["H"].copy()
        places = consecutive([self.columns[restart] for restart in active])
        parts = []
        for restart, where in zip(active, places, strict=True):
            parts.append(self._rows(restart, state, A, columns_of(W, where), shared, address))
        return np.concatenate(parts, axis=1)

    def _rows(
        self, restart: int, state: Arrays | None, A: PreparedRows, W: AnyFactor, shared: Arrays, address: Address
    ) -> np.ndarray:
        """Return the H (D, K) of one restart: from the state, or random numbers if it begins now."""
        if state is not None and restart in state["restarts"]:
            present = state["restarts"].tolist()
            places = consecutive([self.columns[other] for other in present])
            return state["H"][:, places[present.index(restart)]]
        algorithm = self.factorizations[restart]
        if shared["restart_epochs"][restart] > 0:
            # It left when it had all its epochs, and has more now. Its rows of H were not kept.
            return algorithm.fold_in(A, W, gram_of(W, algorithm.gram))[0]
        # The address of the first step of a separate run.
        return algorithm.random_first_rows(n_rows_of(A), Address(algorithm.seed, 1, address.chunk))

    def _parts(
        self,
        cohort: list[int],
        shared: Arrays,
        W: AnyFactor,
        grams: list[np.ndarray],
        scratches: dict[int, nmf.Scratch],
    ) -> list[nmf.Columns]:
        """Return the arguments of the kernel for each restart of a cohort, from their columns of W and their Q.

        ``scratches`` has buffers by number of components. Restarts are swept one after the other and share them.
        """
        found = []
        places = consecutive([self.columns[restart] for restart in cohort])
        for restart, where, gram in zip(cohort, places, grams, strict=True):
            algorithm = self.factorizations[restart]
            assert isinstance(algorithm, Hals)
            K = algorithm.n_components
            S = shared["S"][self._squares[restart]].reshape(K, K)
            if shared["restart_epochs"][restart] == 0:
                S = gram_of(columns_of(W, where), algorithm.gram)
            scratch = scratches[K]._replace(violation=np.zeros(1))
            found.append(nmf.Columns(where, algorithm.rule(S, "H"), gram.reshape(K, K), scratch))
        return found

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Update a block of W of all active restarts."""
        active = self._active(shared)
        before = self._active_rows(block, active)
        first_row = block["first_row"]
        W = np.empty_like(before)
        totals: Arrays = {name: np.zeros_like(shared[name]) for name in ("S", "Q")}
        totals |= {name: np.zeros(len(self.factorizations)) for name in TOTALS}
        columns = consecutive([self.columns[restart] for restart in active])
        wide = consecutive([self.factorizations[restart].delta_columns for restart in active])
        squares = consecutive([self.columns[restart] ** 2 for restart in active])
        for restart, where, terms, square in zip(active, columns, wide, squares, strict=True):
            K = self.columns[restart]
            own = {"W": np.ascontiguousarray(before[:, where]), "first_row": first_row}
            products = {"P": np.ascontiguousarray(delta["P"][:, terms]), "Q": delta["Q"][square].reshape(K, K)}
            kept, found = self.factorizations[restart].apply(own, products, {}, first)
            W[:, where] = kept["W"]
            for name in ("S", "Q"):
                totals[name][self._squares[restart]] = found[name].ravel()
            for name in TOTALS:
                totals[name][restart] = found.get(name, 0.0)
        if block["restarts"].tolist() != active:
            block = self._block(active, partial(columns_of_one, block, self.columns))
        # The same arrays of idle restarts as before: they are large, and a copy per epoch would take time.
        return block | {"W": W, "first_row": first_row}, totals

    # --- the columns of W ---

    def _block(self, active: list[int], rows_of_one: Callable[[int], np.ndarray]) -> Arrays:
        """Return a block in which these restarts are active. ``rows_of_one`` returns the W (rows, K) of a restart."""
        idle = [restart for restart in self._restarts if restart not in active]
        found: Arrays = {"W": np.concatenate([rows_of_one(restart) for restart in active], axis=1)}
        found["restarts"] = np.array(active, np.int64)
        found["idle_restarts"] = np.array(idle, np.int64)
        # The columns of no restart come first, because NumPy cannot join nothing.
        found["idle_W"] = np.concatenate([found["W"][:, :0], *(rows_of_one(restart) for restart in idle)], axis=1)
        return found

    def _active_rows_of_all_blocks(self, model: ModelView, active: list[int]) -> AnyFactor:
        """Return W (V, columns) of the active restarts side by side."""
        if self.n_ranges > 1:
            return StreamedFactor(self.bounds, lambda block: self._active_rows(model.block(block), active))
        if model.block(0)["restarts"].tolist() == active:
            return model.joined("W")
        return join_rows([self._active_rows(model.block(block), active) for block in range(self.n_blocks)])

    def _active_rows(self, block: Arrays, active: list[int]) -> np.ndarray:
        """Return W (rows, columns) of the active restarts side by side. If the block has just these, it is no copy."""
        if block["restarts"].tolist() == active:
            return block["W"]
        return np.concatenate([columns_of_one(block, self.columns, restart) for restart in active], axis=1)

    def reduce(self, shared: Arrays, totals: Arrays, sums: Arrays, history: list[Metrics]) -> tuple[Arrays, Metrics]:
        """Record the errors of the active restarts. Restarts that have finished make room for waiting ones."""
        after = {name: array.copy() for name, array in shared.items()}
        for name in self._measures:
            # A run may be continued with more epochs.
            missing = max(0, self.max_iter - after[name].shape[1])
            after[name] = np.pad(after[name], ((0, 0), (0, missing)))
        going = []
        for restart in self._active(shared):
            square = self._squares[restart]
            for name in ("S", "Q"):
                after[name][square] = totals[name][square]
            own_totals = {name: totals[name][restart] for name in TOTALS}
            own_sums = {name: array[restart] if np.ndim(array) else array for name, array in sums.items()}
            metrics = self.metrics_of(restart, own_totals, own_sums)
            epoch = int(after["restart_epochs"][restart])
            for name in self._measures:
                after[name][restart, epoch] = metrics[name]
            after["restart_epochs"][restart] += 1
            if not self._has_finished(after, restart):
                going.append(restart)
        begun = int(np.count_nonzero(after["restart_epochs"]))
        after["active"] = np.array(self._admit(after, going), np.int64)
        metrics = lowest_errors(after)
        metrics["restarts_active"] = len(after["active"])
        metrics["restarts_finished"] = begun - len(going)
        metrics["restarts_converged"] = sum(self._has_converged(after, restart) for restart in self._restarts)
        metrics["max_iter"] = self.max_iter
        return after, metrics

    def metrics_of(self, restart: int, totals: Arrays, sums: Arrays) -> Metrics:
        """Return the metrics of an epoch of one restart."""
        return self.factorizations[restart].reduce({}, totals, sums, [])[1]

    def _has_finished(self, shared: Arrays, restart: int) -> bool:
        return int(shared["restart_epochs"][restart]) >= self.max_iter or self._has_converged(shared, restart)

    def _has_converged(self, shared: Arrays, restart: int) -> bool:
        epochs = int(shared["restart_epochs"][restart])
        # The criteria compare the last epoch with the one before it, or with the first one.
        decisive = sorted({0, max(0, epochs - 2), max(0, epochs - 1)})
        return epochs > 0 and self.factorizations[restart].scores.converged(restart_history(shared, restart, decisive))


def last_errors(shared: Arrays, name: str | None = None) -> np.ndarray:
    """Return a measure of each restart after its last epoch: (restarts,) float64, infinite before its first.

    By default it is what training minimises: the error, including penalties if there are any.
    """
    if name is None:
        name = "penalised_error" if "penalised_error" in shared else "error"
    epochs = shared["restart_epochs"]
    last = shared[name][np.arange(len(epochs)), np.maximum(epochs - 1, 0)]
    return np.where(epochs == 0, np.inf, last)


def lowest_errors(shared: Arrays) -> Metrics:
    """Return the errors of the best restart so far."""
    return {name: float(last_errors(shared, name).min()) for name in MEASURES[:4] if name in shared}


def restart_history(shared: Arrays, restart: int, epochs: Iterable[int] | None = None) -> list[Metrics]:
    """Return the metrics of each epoch of one restart, or of some epochs, counted from 0."""
    measures = [name for name in MEASURES if name in shared]
    rows = []
    for epoch in range(int(shared["restart_epochs"][restart])) if epochs is None else epochs:
        measured = {name: float(shared[name][restart, epoch]) for name in measures}
        rows.append({"step": epoch + 1, "epoch": epoch + 1} | measured)
    return rows


def columns_of_one(block: Arrays, columns: Sequence[int], restart: int) -> np.ndarray:
    """Return the W (rows, K) of one restart in a block, as a view. ``columns`` has K of each restart."""
    present = block["restarts"].tolist()
    W = block["W"]
    if restart not in present:
        present = block["idle_restarts"].tolist()
        W = block["idle_W"]
    places = consecutive([columns[other] for other in present])
    return W[:, places[present.index(restart)]]


def consecutive(sizes: Sequence[int]) -> list[slice]:
    """Return ranges of these sizes, each beginning where the one before ends."""
    stops = np.cumsum(sizes).tolist()
    return [slice(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]
