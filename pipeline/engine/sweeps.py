"""One step of training: sweep all shards, then update each block of the model with the merged deltas.

If workers die, their shards are swept again. The result is the same, because a shard's delta does not depend on who
computes it, and deltas are merged in an order that does not depend on it either.
"""

import contextlib
from collections.abc import Callable, Iterator

from .cluster.watch import TaskLost
from .executors import Executor, FinishSweep, OnCells
from .worker.contributions import Contribution, ContributionLost, SweepOutcome
from .worker.tasks import AppliedBlock, ShardProgress, ShardReport, SweepPhase

#: A shard that was lost this many times in one step, with the worker that swept it, is not swept again.
MAX_SWEEPS = 10


class RangeSweep:
    """Sweeps the shards of a phase, and keeps the contributions of the workers until all blocks are updated.

    Workers sweep within the context `running`. Call `update` afterwards.
    """

    def __init__(
        self,
        executor: Executor,
        phase: SweepPhase,
        tokens: list[int],
        emit: Callable[[int, ShardProgress], None],
        emit_cells: OnCells,
    ):
        self._executor = executor
        self._phase = phase
        self._tokens = tokens
        self._emit = emit
        self._emit_cells = emit_cells
        self._emitted: set[int] = set()
        self._cells_emitted = 0
        self._sweeps = 0
        #: Seconds in which nothing was swept because the client did something else.
        self.seconds_waited = 0.0
        self._contributions: list[Contribution] = []
        self._applied: dict[int, AppliedBlock] = {}  # by block

    @property
    def reports(self) -> list[ShardReport]:
        """The reports of all shards, in order."""
        found: dict[int, ShardReport] = {}
        for contribution in self._contributions:
            found |= contribution.reports
        return [found[position] for position in range(len(self._phase.shards))]

    @property
    def seconds_update(self) -> float:
        """Seconds in which workers that have swept all shards updated the blocks."""
        return sum(contribution.seconds_update for contribution in self._contributions)

    @contextlib.contextmanager
    def running(self) -> Iterator[Callable[[], None]]:
        """Let the workers sweep, and yield a function that waits until all shards are swept.

        Shards of workers that die are swept again. If the context is left without that call, the sweeps end.
        """
        if not self._phase.has_sweeps:
            yield lambda: None
            return
        with self._start(self._missing()) as finish_first:

            def finish() -> None:
                self._add(finish_first())
                self._sweep_missing()

            yield finish

    def _start(self, positions: list[int]) -> contextlib.AbstractContextManager[FinishSweep]:
        self._sweeps += 1
        tokens = [self._tokens[position] for position in positions]
        return self._executor.sweep(self._phase, positions, tokens, self._report)

    def _add(self, swept: SweepOutcome) -> None:
        self._contributions += swept.contributions
        self.seconds_waited += swept.seconds_waited

    def _sweep_missing(self) -> None:
        """Sweep the shards that no contribution has, and report those that were not reported yet."""
        while missing := self._missing():
            if self._sweeps == MAX_SWEEPS:
                raise TaskLost(
                    f"step {self._phase.step}: {len(missing)} shards were lost {MAX_SWEEPS} times, because the workers "
                    f"that swept them died; look at the workers' logs, then resume the run"
                )
            with self._start(missing) as finish:
                self._add(finish())
        for position, report in enumerate(self.reports):
            self._report(position, report)

    def _missing(self) -> list[int]:
        """Return the positions of the shards that no contribution has."""
        swept: set[int] = set()
        accepted = []
        for contribution in reversed(self._contributions):
            # If Dask believes that a worker has died, others sweep its shards again.
            if contribution.reports and swept.isdisjoint(contribution.reports):
                swept |= contribution.reports.keys()
                accepted.append(contribution)
        self._contributions = accepted
        return [position for position in range(len(self._phase.shards)) if position not in swept]

    def _report(self, position: int, report: ShardProgress) -> None:
        if position not in self._emitted:
            self._emitted.add(position)
            self._emit(position, report)

    def update(self) -> list[AppliedBlock]:
        """Update all blocks, and return the results in the order of the blocks."""
        attempts = 0
        while True:
            try:
                if self._phase.has_cells:
                    return self._train_grid()
                return self._update_blocks()
            except ContributionLost as lost:
                attempts += 1
                if attempts == MAX_SWEEPS and not self._phase.has_sweeps:
                    raise TaskLost(
                        f"step {self._phase.step}: workers died {MAX_SWEEPS} times while they trained the model; look "
                        f"at the workers' logs, then resume the run"
                    ) from lost
                self._contributions = [c for c in self._contributions if c.source.address != lost.address]
                self._sweep_missing()

    def _update_blocks(self) -> list[AppliedBlock]:
        for contribution in self._contributions:
            # One worker has swept all shards, and has updated the blocks too.
            if contribution.applied is not None:
                return contribution.applied
        waiting = [block for block in self._phase.blocks if block not in self._applied]
        for blocks, results in self._executor.update(self._phase, self._contributions, waiting):
            self._applied.update(zip(blocks, results, strict=True))
        return [self._applied[block] for block in self._phase.blocks]

    def _train_grid(self) -> list[AppliedBlock]:
        trained = 0

        def emit(worker: str, cells: int, seconds: float) -> None:
            nonlocal trained
            trained += cells
            # After the loss of a worker, cells that were reported before are trained again.
            new = min(cells, trained - self._cells_emitted)
            if new > 0:
                self._cells_emitted += new
                self._emit_cells(worker, new, seconds)

        return self._executor.train_grid(self._phase, self._contributions, emit)
