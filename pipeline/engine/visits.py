"""The tasks that train a grid of cells. `submit_visits` submits them, after the deltas of a step are merged.

Unlike the other tasks, visits pass arrays on to each other: blocks that one worker has trained go straight to the
worker that trains them next. A step reads its blocks from the store at its start and writes them at its end. If a
worker is lost, Dask repeats the visits of this step that the lost blocks depend on.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ...io.stores.store import Arrays
from ...kernels.simd.aligned import empty_aligned
from .executors import Executor, Handle, balanced_places
from .finite import check_finite
from .grid import AnyGridAlgorithm, Cell, Grid, GridAlgorithm, count_groups
from .plan import available_bytes
from .tasks import AppliedBlock, Job, StoredModel, write_block


class Visit(NamedTuple):
    """Names one visit: the group of rows, and the number of its visits before this one."""

    grid: Grid
    number: int
    group: int


class Visited(NamedTuple):
    """The trained arrays after a visit: one entry per block of the group of rows, and of the group of columns."""

    rows: list[Arrays]
    columns: list[Arrays]
    seconds: float  # of training this group of rows, in this step


class TrainedRows(NamedTuple):
    """The part of a visit that stays with its group of rows."""

    arrays: list[Arrays]
    seconds: float


def submit_visits(
    executor: Executor, job: Job, step: int, merge: Callable[[list[int], str], Handle], name: str
) -> list[Handle]:
    """Submit the visits of a step, and the updates of its blocks; return the handles of the updates.

    ``merge`` submits a task that merges the deltas of some blocks near a worker. All keys end with ``name``.
    """
    algorithm = grid_algorithm(job)
    capacities = executor.capacities()
    slots = sum(capacity.threads for capacity in capacities)
    data = job.open(job.data)
    least = max(algorithm.least_groups(data, available_bytes(algorithm, capacity)) for capacity in capacities)
    n_groups = max(least, count_groups(algorithm.n_blocks, slots))
    grid = Grid(job.seed, step, algorithm.n_blocks, n_groups, algorithm.passes)
    addresses = balanced_places([1] * n_groups, capacities)

    def submit(task: str, near: str, function: Callable[..., object], *arguments: object) -> Handle:
        return executor.submit(function, job, *arguments, key=f"{task}-{name}", near=near or None)

    prepared = []
    for group in range(n_groups):
        deltas = merge(list(grid.blocks(group)), addresses[group])
        first = grid.blocks(group).start
        prepared.append(submit(f"prepare-{group}", addresses[group], prepare_rows, first, deltas))
    rows: list[Handle] = [None] * n_groups
    columns: list[Handle] = [None] * n_groups
    for visit in range(grid.n_visits):
        for group in range(n_groups):
            other = grid.columns(visit, group)
            number = f"{visit}-{group}"
            place = addresses[group]
            arguments = (Visit(grid, visit, group), rows[group], columns[other], prepared[group])
            visited = submit(f"visit-{number}", place, train_visit, *arguments)
            rows[group] = submit(f"rows-{number}", place, take_rows, visited)
            columns[other] = submit(f"columns-{number}", place, take_columns, visited)
    applied = []
    for group in range(n_groups):
        applied.append(
            submit(f"apply-{group}", addresses[group], apply_group, grid, group, rows[group], columns[group])
        )
    return applied


def grid_algorithm(job: Job) -> AnyGridAlgorithm:
    """Return the job's algorithm, which trains a grid."""
    assert isinstance(job.algorithm, GridAlgorithm)
    return job.algorithm


# --- tasks ---


def prepare_rows(job: Job, first: int, deltas: list[Arrays]) -> list[Arrays]:
    """Return what the cells of a group's rows need, one entry per row from row ``first`` on."""
    algorithm = grid_algorithm(job)
    return [algorithm.prepare(row, delta) for row, delta in enumerate(deltas, first)]


def train_visit(
    job: Job,
    visit: Visit,
    rows: TrainedRows | None,
    columns: list[Arrays] | None,
    prepared: list[Arrays],
) -> Visited:
    """Train a group of rows with a group of columns. None stands for arrays that this step has not trained yet."""
    algorithm = grid_algorithm(job)
    grid, number, group = visit
    model = StoredModel(job, grid.step - 1)
    row_blocks = grid.blocks(group)
    column_blocks = grid.blocks(grid.columns(number, group))
    trained_before = 0.0
    # Cells train copies, so that the visit can be repeated, and because other tasks may read the originals.
    if rows is None:
        W = [_copy_of(model.block(block), algorithm.row_arrays) for block in row_blocks]
    else:
        W = [_copy_of(arrays, algorithm.row_arrays) for arrays in rows.arrays]
        trained_before = rows.seconds
    if columns is None:
        C = [_copy_of(model.block(block), algorithm.column_arrays) for block in column_blocks]
    else:
        C = [_copy_of(arrays, algorithm.column_arrays) for arrays in columns]
    shared = model.shared

    def train(cell: Cell) -> None:
        row = cell.row - row_blocks.start
        algorithm.train_cell(W[row], C[cell.column - column_blocks.start], prepared[row], shared, cell, grid.step)

    started = time.perf_counter()
    with ThreadPoolExecutor(algorithm.threads) as pool:
        for cells in grid.strata(number, group):
            # `list` waits for all cells of the stratum, and raises the first error of a cell.
            list(pool.map(train, cells))
    return Visited(W, C, trained_before + time.perf_counter() - started)


def _copy_of(arrays: Arrays, names: tuple[str, ...]) -> Arrays:
    copies = {}
    for name in names:
        copies[name] = empty_aligned(arrays[name].shape, arrays[name].dtype)
        copies[name][...] = arrays[name]
    return copies


def take_rows(job: Job, visited: Visited) -> TrainedRows:
    """Return the part of a visit that stays with its group of rows."""
    return TrainedRows(visited.rows, visited.seconds)


def take_columns(job: Job, visited: Visited) -> list[Arrays]:
    """Return the part of a visit that the next group of rows trains."""
    return visited.columns


def apply_group(job: Job, grid: Grid, group: int, rows: TrainedRows, columns: list[Arrays]) -> list[AppliedBlock]:
    """Write the next arrays of a group's blocks, and return the result for each block."""
    model = StoredModel(job, grid.step - 1)
    measured = {"seconds_kernel": rows.seconds}
    applied = []
    for block, row, column in zip(grid.blocks(group), rows.arrays, columns, strict=True):
        arrays, totals = job.algorithm.apply(model.block(block), row | column, model.shared)
        check_finite(job.algorithm, grid.step, f"block {block} of the model", arrays)
        write_block(job, grid.step, block, arrays)
        applied.append(AppliedBlock(totals, measured))
        # The seconds are those of the group, so only its first block counts them.
        measured = {}
    return applied
