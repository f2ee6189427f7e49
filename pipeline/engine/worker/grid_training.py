"""Training the rows of a grid on one worker.

Each worker trains the cells of some consecutive rows. The arrays of its rows stay on it for the whole step. The arrays
of a column go from worker to worker: from the one that trained the column in a stratum straight to the one that trains
it in the next stratum. A step reads its blocks, and the states of chunks, from the store at its start and writes them
at its end.

Where a CUDA device trains, a row or a column stays on it until another worker or the store needs it, or until other
blocks are in use, see `Grid.cells`. If the cluster's protocol sends device memory, a column goes from the device of one
worker straight to that of the next one.
"""

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from ....io.stores.store import Arrays
from ....kernels.errors import DeviceError
from ..algorithm import add, add_numbers
from ..device import DeviceCounts, bring_back, runs_on_cuda, takes_from_device
from ..grid import AnyCellAlgorithm, Cell, ChunkGridAlgorithm, Grid, GridAlgorithm
from ..memory import UNLIMITED
from .buffers import start
from .contributions import Fetch, Source, blocks_at_once, merge_blocks
from .held import HeldArrays, Key, release_mapped
from .tasks import AppliedBlock, StepModel, Stopwatch, SweepPhase, check_finite, write_block
from .transfers import Transfers

#: Share of a CUDA device's memory that blocks may take which stay on it.
DEVICE_SHARE = 0.6
#: Seconds between two reports of a worker's progress.
REPORT_SECONDS = 0.5

Result = TypeVar("Result")


@dataclass(frozen=True)
class GridPlan:
    """The rows of each worker, and its memory, in one attempt to train a step's grid."""

    phase: SweepPhase
    attempt: str  # a name that no other attempt has
    addresses: tuple[str, ...]  # for each row, that of its worker; the rows of a worker are consecutive
    size: int  # row blocks, and column blocks, that are in use at a time; see `Grid.place`
    budget: int  # bytes of arrays that wait in each worker's memory; UNLIMITED if all have space
    cell_device_bytes: int = 0  # of a cell on a CUDA device; a column takes less

    @property
    def algorithm(self) -> AnyCellAlgorithm:
        """The run's algorithm."""
        return cast(AnyCellAlgorithm, self.phase.job.algorithm)

    @property
    def grid(self) -> Grid:
        """The order of the step's cells."""
        algorithm = self.algorithm
        return Grid(self.phase.job.training.seed, self.phase.step, algorithm.n_blocks, algorithm.passes)

    def rows(self, address: str) -> range:
        """Return the rows of a worker."""
        first = self.addresses.index(address)
        return range(first, first + self.addresses.count(address))

    def held(self, folder: Path) -> HeldArrays:
        """Return an object that holds the arrays of a worker; some are in files in the folder, if need be."""
        grid = self.grid

        def place(key: Key) -> int:
            kind, block, number = key
            # After the last stratum, rows and columns of one number are used together.
            row = block if kind == "row" or number == grid.n_strata else grid.partner(number, block)
            return grid.place(number, row, self.size)

        return HeldArrays(self.budget, folder, place)


def plan_grid(phase: SweepPhase, attempt: str, addresses: list[str], device: int = 0) -> GridPlan:
    """Plan an attempt. ``addresses`` has the worker of each row.

    ``device`` is the memory of the smallest CUDA device. Zero stands for no limit.
    """
    algorithm = cast(AnyCellAlgorithm, phase.job.algorithm)
    estimate = algorithm.cell_memory(phase.job.open(phase.job.data))
    held = phase.job.plan.held + phase.job.plan.cells
    on_device = UNLIMITED
    if device:
        on_device = int(device * DEVICE_SHARE)
    most_rows = max(addresses.count(address) for address in set(addresses))

    is_whole = most_rows * estimate.waiting <= held
    # What cells only read is mapped from files if not all has space. A third is left for blocks that are read ahead.
    blocks = 0 if is_whole else (estimate.model + estimate.state) * 3 // 2

    def fits(size: int) -> bool:
        in_use = min(size, most_rows)
        return in_use * blocks <= held and in_use * estimate.device <= on_device

    size = algorithm.n_blocks
    while size > 1 and not fits(size):
        size //= 2
    return GridPlan(phase, attempt, tuple(addresses), size, UNLIMITED if is_whole else held, estimate.device)


#: Receives the number of cells that a worker has trained since the last call, and the seconds that its threads took.
OnTrained = Callable[[int, float], None]
#: Requests the arrays of a column from the worker at an address, and puts them into the held arrays when they arrive.
#: What that does on the CUDA device is added to the counts.
RequestColumn = Callable[[str, Key, DeviceCounts], None]


def train_here(plan: GridPlan, sources: list[Source], fetch: Fetch, on_trained: OnTrained) -> list[AppliedBlock]:
    """Train all rows in this process."""

    def request_column(address: str, key: Key, device: DeviceCounts) -> None:
        raise AssertionError(f"all columns are in this process, {key} too")

    # Without a budget, nothing is written.
    folder = contextlib.nullcontext("") if plan.budget >= UNLIMITED else tempfile.TemporaryDirectory()
    with folder as path, contextlib.closing(plan.held(Path(path))) as held:
        return GridTrainer(plan, "", held, 1, request_column, on_trained).train(sources, fetch)


class GridTrainer:
    """Trains the rows of one worker."""

    def __init__(
        self,
        plan: GridPlan,
        address: str,
        held: HeldArrays,
        threads: int,
        request_column: RequestColumn,
        on_trained: OnTrained,
    ):
        self._plan = plan
        self._address = address
        self._held = held
        on_device = runs_on_cuda(plan.phase.job.needs.device)
        # More threads than blocks in use would wait for each other's blocks.
        self._threads = max(threads, min(plan.algorithm.cells_at_once(threads, on_device), plan.size))
        self._request_column = request_column
        self._on_trained = on_trained
        self._algorithm = plan.algorithm
        self._grid = plan.grid
        self._job = plan.phase.job
        self._step = plan.phase.step
        self._rows = plan.rows(address)
        self._transfers = Transfers(plan.phase, self._threads)
        self._model = StepModel(self._job, self._step - 1, shared=plan.phase.shared)
        self._prepared: dict[int, Arrays] = {}  # by row
        self._lock = threading.Lock()
        self._cells = self._grid.cells(self._rows, plan.size)
        self._arriving = self._columns_from_others()
        self._cells_trained = 0
        self._seconds = 0.0  # that threads have computed
        self._device = DeviceCounts()
        self._cells_reported = 0
        self._seconds_reported = 0.0
        self._reported_at = time.monotonic()

    def train(self, sources: list[Source], fetch: Fetch) -> list[AppliedBlock]:
        """Train all cells of the rows, write their blocks, and return the result for each block."""
        with self._transfers.opened(), ThreadPoolExecutor(self._threads) as threads:
            try:
                self._prepare(threads, sources, fetch)
                # These columns arrive while the threads train. Each one that is used requests another one.
                for _ in range(self._threads + min(self._plan.size, len(self._rows))):
                    self._request_next_column()
                _wait_for([start(threads, self._train_cells) for _ in range(self._threads)])
                self._report()
                applied = _wait_for([start(threads, self._apply, block) for block in self._rows])
            except BaseException as error:
                # This also ends threads and other workers that wait for arrays.
                self._held.fail(error)
                raise
        applied[0].measured["seconds_kernel"] = self._seconds
        add_numbers(applied[0].measured, self._device.totals)
        return applied

    # --- before the first cell ---

    def _prepare(self, threads: ThreadPoolExecutor, sources: list[Source], fetch: Fetch) -> None:
        """Begin the rows with their chunks, or merge their deltas, a few rows at a time, and prepare them."""
        if isinstance(self._algorithm, ChunkGridAlgorithm):
            _wait_for([start(threads, self._begin_row, self._algorithm, row) for row in self._rows])
            return
        at_once = blocks_at_once(sources, self._grid.n_blocks)
        for first in range(self._rows.start, self._rows.stop, at_once):
            rows = list(range(first, min(first + at_once, self._rows.stop)))
            deltas = merge_blocks(self._plan.phase, rows, sources, fetch, self._device)
            preparing = [start(threads, self._prepare_row, row, delta) for row, delta in zip(rows, deltas, strict=True)]
            _wait_for(preparing)

    def _prepare_row(self, row: int, delta: Arrays) -> None:
        algorithm = cast(GridAlgorithm[Any, Any], self._algorithm)
        started = time.perf_counter()
        prepared = algorithm.prepare(row, delta)
        self._count(0, time.perf_counter() - started)
        self._prepared[row] = self._held.keep(prepared)
        release_mapped(delta)

    def _begin_row(self, algorithm: ChunkGridAlgorithm[Any, Any], row: int) -> None:
        """Read the chunks of a row and their states."""
        own = algorithm.row_chunks(self._job.n_chunks, row)
        after = algorithm.row_chunks(self._job.n_chunks, self._rows[-1]).stop
        self._transfers.read_chunks_ahead(list(range(own.start, after)), ())
        watch = Stopwatch()
        chunks = [self._transfers.chunk(index, watch) for index in own]
        states = [cast(Arrays, self._transfers.state(index, watch)) for index in own]
        started = time.perf_counter()
        address = self._job.address(self._step, own.start)
        rows, prepared = algorithm.begin_row(chunks, states, self._model.shared, address)
        self._count(0, time.perf_counter() - started)
        self._prepared[row] = self._held.keep(prepared)
        self._held.put(("row", row, 0), rows, were_used=False)

    # --- cells ---

    def _train_cells(self) -> None:
        """Train the next cell, again and again, until there is none. Several threads do this at the same time."""
        shared = self._model.shared
        try:
            while (following := self._next_cell()) is not None:
                number, cell = following
                rows = self._take("row", cell.row, number)
                columns = self._take("column", cell.column, number)
                started = time.perf_counter()
                self._train_cell(rows, columns, shared, cell)
                self._count(1, time.perf_counter() - started)
                release_mapped(self._prepared[cell.row])
                self._put("row", cell.row, number + 1, rows)
                self._put("column", cell.column, number + 1, columns)
        except BaseException as error:
            self._held.fail(error)
            raise

    def _train_cell(self, rows: Arrays, columns: Arrays, shared: Arrays, cell: Cell) -> None:
        with self._device.counting():
            try:
                self._algorithm.train_cell(rows, columns, self._prepared[cell.row], shared, cell, self._step)
            except DeviceError as error:
                raise DeviceError(f"cell ({cell.row}, {cell.column}): {error}") from error

    def _next_cell(self) -> tuple[int, Cell] | None:
        with self._lock:
            return next(self._cells, None)

    def _take(self, kind: str, block: int, number: int) -> Arrays:
        """Return the arrays of a row or a column for stratum ``number``, when its cell of the last stratum is done."""
        algorithm = self._algorithm
        if number == 0 and isinstance(algorithm, GridAlgorithm):
            names = algorithm.row_arrays if kind == "row" else algorithm.column_arrays
            arrays = self._model.copies(block, names)
        elif number == 0 and kind == "column":
            arrays = cast(ChunkGridAlgorithm[Any, Any], algorithm).begin_column(self._model.block(block))
        else:
            arrays = self._held.request((kind, block, number)).result()
            if kind == "column" and self._grid.partner(number - 1, block) not in self._rows:
                self._request_next_column()
                if isinstance(algorithm, ChunkGridAlgorithm) and number < self._grid.n_strata:
                    arrays = algorithm.begin_column(arrays)
        self._held.use(arrays)
        return arrays

    def _put(self, kind: str, block: int, number: int, arrays: Arrays) -> None:
        """Hold arrays for stratum ``number``, in which this worker or another one uses them."""
        size = self._plan.size
        is_last = number == self._grid.n_strata
        # After the last stratum, the worker of a row writes the column of the same number to the store.
        is_own = kind == "row" or (block if is_last else self._grid.partner(number, block)) in self._rows
        is_in_use = is_own and number // size == (number - 1) // size
        if is_own:
            # If all blocks fit, those of this worker are always in use.
            stays = is_in_use or (not is_last and size == self._grid.n_blocks)
        else:
            # The device of another worker fetches the column from this one, if it can wait here so long.
            stays = not is_last and takes_from_device(self._address, 0, DEVICE_SHARE)
        if not stays:
            with self._device.counting():
                bring_back(arrays.values())
        if not is_own and isinstance(self._algorithm, ChunkGridAlgorithm):
            self._held.use(arrays, -1)
            self._held.put((kind, block, number), self._algorithm.end_column(arrays), were_used=False)
        else:
            self._held.put((kind, block, number), arrays)

    # --- columns of other workers ---

    def _columns_from_others(self) -> Iterator[tuple[str, Key]]:
        """Yield the columns that other workers train before this one does: their addresses, and the columns' keys."""
        for number, cell in self._grid.cells(self._rows, self._plan.size):
            # Before the first stratum, columns are in the store.
            if number == 0:
                continue
            before = self._grid.partner(number - 1, cell.column)
            if before not in self._rows:
                yield self._plan.addresses[before], ("column", cell.column, number)
        # The worker of a row writes the block, so it needs the block's column too.
        end = self._grid.n_strata
        for block in self._rows:
            before = self._grid.partner(end - 1, block)
            if before not in self._rows:
                yield self._plan.addresses[before], ("column", block, end)

    def _request_next_column(self) -> None:
        with self._lock:
            following = next(self._arriving, None)
        if following is not None:
            self._request_column(*following, self._device)

    # --- after the last cell ---

    def _apply(self, block: int) -> AppliedBlock:
        """Write the next arrays of a block, and the next states of the chunks of its row."""
        end = self._grid.n_strata
        delta = trained = self._take("column", block, end)
        rows = self._take("row", block, end)
        sums: Arrays = {}
        if isinstance(self._algorithm, ChunkGridAlgorithm):
            chunks = self._algorithm.row_chunks(self._job.n_chunks, block)
            address = self._job.address(self._step, chunks.start)
            results = self._algorithm.finish_row(rows, self._prepared.pop(block), address)
            for index, result in zip(chunks, results, strict=True):
                self._transfers.write_state(index, cast(Arrays, result.state))
                sums = add(sums, result.sums)
        else:
            delta = rows | trained
        first = partial(self._job.first_arrays, block)
        arrays, totals = self._algorithm.apply(self._model.block(block), delta, self._model.shared, first)
        check_finite(self._job.epoch(self._step), f"block {block} of the model", arrays)
        write_block(self._job, self._step, block, arrays)
        for used in (trained, rows):
            self._held.use(used, -1)
        return AppliedBlock(totals, {}, sums)

    # --- progress ---

    def _count(self, cells: int, seconds: float) -> None:
        with self._lock:
            self._cells_trained += cells
            self._seconds += seconds
            is_due = time.monotonic() - self._reported_at > REPORT_SECONDS
        if is_due:
            self._report()

    def _report(self) -> None:
        """Report the cells that were trained since the last report."""
        with self._lock:
            cells = self._cells_trained - self._cells_reported
            seconds = self._seconds - self._seconds_reported
            self._cells_reported = self._cells_trained
            self._seconds_reported = self._seconds
            self._reported_at = time.monotonic()
        self._on_trained(cells, seconds)


def _wait_for(futures: "list[Future[Result]]") -> list[Result]:
    return [future.result() for future in futures]
