"""The contract for models whose updates must follow one another: a grid of cells over pairs of blocks.

Most algorithms sweep all chunks against the model of the last commit and add up the changes. Word vectors lose quality
in this way. A `GridAlgorithm` cuts a step into *cells* instead. Cell (i, j) trains some arrays of block i, the *rows*,
with some arrays of block j, the *columns*. Two cells without a common block can run at the same time, and two cells
with a common block run in a fixed order. So the result is the same for any number of workers and threads.

For P blocks, a power of two, the order has P *strata*. Stratum s has the cells (i, i xor s), of which no two share a
block. The exclusive or makes the order hierarchical. If G workers (a power of two) take P / G consecutive rows each,
then a worker keeps the same columns for P / G consecutive strata, and exchanges them G times in all.

Source: Gemulla, Nijkamp, Haas and Sismanis, "Large-scale matrix factorization with distributed stochastic gradient
descent" (KDD 2011), section 4, for the strata.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple

from ...io.stores.store import Arrays
from ...kernels import random
from .algorithm import Algorithm, ChunkT, DataT, MemoryEstimate

#: Part of the key of the shifts. Chunks count from 0, so no chunk has this number.
SHIFT = -5


class Cell(NamedTuple):
    """A cell of the grid, and its place in the order of a step."""

    grid_pass: int
    stratum: int  # number of the pass's strata before this one
    row: int
    column: int


@dataclass(frozen=True, kw_only=True)
class GridAlgorithm(Algorithm[DataT, ChunkT], Generic[DataT, ChunkT]):
    """Base class of algorithms that train pairs of blocks, cell by cell.

    Sweeps divide the chunks' data among the rows of the grid: the delta of block i has what the cells of row i need.
    The engine merges these deltas, calls `prepare` for each row, and then `train_cell` for each cell, in ``passes``
    passes over the grid. At the end of the step, `apply` receives each block's trained arrays as its delta.

    The number of blocks must be a power of two, and ``n_ranges`` must be 1.

    Parameters
    ----------
    passes : int, default=1
        Number of times that a step trains each cell. `Cell.grid_pass` counts them.
    threads : int, default=1
        Number of cells that one task trains at the same time.

    Attributes
    ----------
    row_arrays, column_arrays : tuple of str
        Names of the arrays that a block's cells change, as a row of the grid and as a column.
    """

    row_arrays: ClassVar[tuple[str, ...]]
    column_arrays: ClassVar[tuple[str, ...]]
    # Trained blocks wait on a worker for their next visit. Dask writes them to disk if they exceed their share.
    held_share: ClassVar[float] = 0.3

    passes: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        """Check the number of blocks."""
        n = self.n_blocks
        if n & (n - 1):
            below = 1 << (n.bit_length() - 1)
            raise ValueError(f"{n} blocks: a grid needs a power of two, such as {below} or {2 * below}")

    def count_parallel(self, n_shards: int) -> int:
        """Return how many tasks of a step can run at the same time: one per block."""
        return self.n_blocks

    @abstractmethod
    def visit_memory(self, data: DataT, n_groups: int) -> MemoryEstimate:
        """Return the bytes of a visit, which trains two groups of blocks, if there are ``n_groups`` groups."""

    def largest_task(self, data: DataT, available: int) -> MemoryEstimate:
        """Return the memory of the largest sweep or visit. Groups are made smaller until a visit fits."""
        visit = self.visit_memory(data, self.least_groups(data, available))
        return max(super().largest_task(data, available), visit, key=lambda estimate: estimate.total)

    def least_groups(self, data: DataT, available: int) -> int:
        """Return the smallest number of groups whose visits fit into ``available`` bytes, at most the blocks."""
        n_groups = 1
        while n_groups < self.n_blocks and self.visit_memory(data, n_groups).total > available:
            n_groups *= 2
        return n_groups

    def prepare(self, row: int, delta: Arrays) -> Arrays:
        """Return what the cells of a row need, from the row's merged delta; by default the delta itself."""
        return delta

    @abstractmethod
    def train_cell(
        self, rows: Arrays, columns: Arrays, prepared: Arrays, shared: Arrays, cell: Cell, step: int
    ) -> None:
        """Train ``rows`` and ``columns`` in place. Threads call it for other cells at the same time."""


#: A grid algorithm for any type of data and chunks, as the engine sees it.
AnyGridAlgorithm = GridAlgorithm[Any, Any]


@dataclass(frozen=True)
class Grid:
    """The order of the cells of one step, and their division into visits.

    The blocks form ``n_groups`` groups of consecutive blocks. In a *visit*, one group of rows is trained with one group
    of columns. The number of groups depends on the cluster. It changes neither the order nor the result.
    """

    seed: int
    step: int
    n_blocks: int
    n_groups: int
    passes: int

    @property
    def n_visits(self) -> int:
        """Number of visits of each group. A single group needs no exchange, so it has one visit."""
        if self.n_groups == 1:
            return 1
        return self.passes * self.n_groups

    def blocks(self, group: int) -> range:
        """Return the blocks of a group."""
        size = self.n_blocks // self.n_groups
        return range(group * size, (group + 1) * size)

    def columns(self, visit: int, group: int) -> int:
        """Return the group of columns that a group of rows is trained with."""
        grid_pass, turn = divmod(visit, self.n_groups)
        size = self.n_blocks // self.n_groups
        return group ^ turn ^ (self._shift(grid_pass) // size)

    def strata(self, visit: int, group: int) -> Iterator[list[Cell]]:
        """Yield a visit's cells in order. The cells of one list have no block in common."""
        if self.n_groups == 1:
            numbers = range(self.passes * self.n_blocks)
        else:
            size = self.n_blocks // self.n_groups
            numbers = range(visit * size, (visit + 1) * size)
        for number in numbers:
            grid_pass, stratum = divmod(number, self.n_blocks)
            shifted = stratum ^ self._shift(grid_pass)
            yield [Cell(grid_pass, stratum, row, row ^ shifted) for row in self.blocks(group)]

    def _shift(self, grid_pass: int) -> int:
        """Return the number that permutes a pass's strata, so that no pair of blocks always comes last."""
        key = random.key(self.seed, self.step, SHIFT)
        return int(random.stream(key, grid_pass + 1)[grid_pass]) % self.n_blocks


def count_groups(n_blocks: int, threads: int) -> int:
    """Return the number of groups that keeps ``threads`` threads busy: a power of two, at most ``n_blocks``.

    Fewer groups exchange fewer blocks. So it is the smallest number that keeps the threads busy for at least nine
    tenths of the time that the best number would.
    """
    sizes = [1 << k for k in range(n_blocks.bit_length())]
    busy = [size / (threads * -(-size // threads)) for size in sizes]
    enough = 0.9 * max(busy)
    return next(size for size, share in zip(sizes, busy, strict=True) if share >= enough)
