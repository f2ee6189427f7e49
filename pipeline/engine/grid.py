"""The contract for models whose updates must follow one another: a grid of cells.

Most algorithms sweep all chunks against the model of the last commit and add up the changes. Some models lose quality
in this way. A `CellAlgorithm` cuts a step into *cells* instead. Cell (i, j) trains the arrays of *row* i with those of
*column* j. Two cells without a common row or column can run at the same time, and two cells that share one run in a
fixed order. So the result is the same for any number of workers and threads.

A column has arrays of a block of the model. There are two kinds of rows:

- `GridAlgorithm`: a row has other arrays of a block, and cells train pairs of blocks.
- `ChunkGridAlgorithm`: a row has the states of some chunks, and cells train these with the blocks of the model.

For P rows and P columns, a power of two, the order has P *strata*. Stratum s has the cells (i, i xor s), of which no
two share a row or a column. The exclusive or makes the order hierarchical: n consecutive rows, if n is a power of two
and divides P, meet the same n columns in n consecutive strata. So a worker that trains n rows exchanges its columns
P / n times per pass.

Source: Gemulla, Nijkamp, Haas and Sismanis, "Large-scale matrix factorization with distributed stochastic gradient
descent" (KDD 2011), section 4, for the strata.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, NamedTuple

from ...io.stores.store import Arrays
from ...kernels import random
from .algorithm import Address, Algorithm, ChunkT, DataT, MemoryEstimate, SweepResult, block_range

#: Part of the key of the shifts. Chunks count from 0, so no chunk has this number.
SHIFT = -5


class Cell(NamedTuple):
    """A cell of the grid, and its place in the order of a step."""

    grid_pass: int
    stratum: int  # number of the pass's strata before this one
    row: int
    column: int


@dataclass(frozen=True, kw_only=True)
class CellAlgorithm(Algorithm[DataT, ChunkT]):
    """What both kinds of grids have in common: P rows by P columns of cells, and how a cell is trained.

    The number of blocks P must be a power of two, and `Needs.ranges` must be 1.
    """

    #: Number of cells that a CUDA device is wide enough for. A worker that has one trains so many at the same time.
    device_cells: ClassVar[int] = 1

    @property
    def passes(self) -> int:
        """Number of times that a step trains each cell. `Cell.grid_pass` counts them."""
        return 1

    @property
    def threads(self) -> int:
        """Minimum number of cells that a worker trains at the same time."""
        return 1

    def __post_init__(self) -> None:
        """Check the number of blocks."""
        n = self.n_blocks
        if n & (n - 1):
            below = 1 << (n.bit_length() - 1)
            raise ValueError(f"{n} blocks: a grid needs a power of two, such as {below} or {2 * below}")

    def cells_at_once(self, threads: int, is_on_device: bool) -> int:
        """Return how many cells a worker trains at the same time: one per thread, or more if they fill its device."""
        least = self.device_cells if is_on_device else 1
        return max(threads, self.threads, min(least, self.n_blocks))

    @abstractmethod
    def cell_memory(self, data: DataT) -> MemoryEstimate:
        """Return the bytes of one cell: what its row is made of and what it has, and a column."""

    @abstractmethod
    def train_cell(
        self, rows: Arrays, columns: Arrays, prepared: Arrays, shared: Arrays, cell: Cell, step: int
    ) -> None:
        """Train ``rows`` and ``columns`` in place. Threads call it for other cells at the same time."""


@dataclass(frozen=True, kw_only=True)
class GridAlgorithm(CellAlgorithm[DataT, ChunkT]):
    """Base class of algorithms that train pairs of blocks, cell by cell.

    Sweeps divide the chunks' data among the rows of the grid: the delta of block i has what the cells of row i need.
    The engine merges these deltas, calls `prepare` for each row, and then `train_cell` for each cell, in ``passes``
    passes over the grid. At the end of the step, `apply` receives each block's trained arrays as its delta.

    The number of blocks must be a power of two, and `Needs.ranges` must be 1.

    Parameters
    ----------
    bounds : tuple of int
        First row of each block, followed by the number of rows.
    passes : int, default=1
        Number of times that a step trains each cell. `Cell.grid_pass` counts them.
    threads : int, default=1
        Minimum number of cells that a worker trains at the same time, however few tasks Dask runs on it at a time.

    Attributes
    ----------
    row_arrays, column_arrays : tuple of str
        Names of the arrays that a block's cells change, as a row of the grid and as a column.

    Notes
    -----
    The parameters of methods are those of `Algorithm`, and these:

    - ``data``: the store that the algorithm reads.
    - ``row``: number of a row of the grid.
    - ``delta``: what the sweeps have collected for a row; in `apply` the arrays that its cells have trained.
    - ``rows``: the ``row_arrays`` of a cell's row, by name.
    - ``columns``: the ``column_arrays`` of a cell's column, by name.
    - ``prepared``: what `prepare` has returned for the row.
    - ``shared``: small arrays that belong to no block.
    - ``cell``: the place of the cell in the grid and in the order of the step.
    - ``step``: number of the step.
    - ``threads``: number of a worker's threads.
    - ``is_on_device``: whether the worker trains on a CUDA device.
    - ``block``: the arrays of a block, by name.
    - ``first``: a function that returns the first arrays of the block.

    Examples
    --------
    The following algorithm adds up pairs of rows and columns. Its sweeps are those of any `Algorithm`.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from corpusmill.pipeline.engine.algorithm import MemoryEstimate, SweepResult
    >>> from corpusmill.pipeline.engine.grid import GridAlgorithm
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Sums(GridAlgorithm):
    ...     name = "sums"
    ...     row_arrays = ("x",)
    ...     column_arrays = ("y",)
    ...
    ...     def memory(self, data, chunk):
    ...         return MemoryEstimate(data=4 * chunk.tokens)
    ...
    ...     def cell_memory(self, data):
    ...         return MemoryEstimate(model=16 * self.n_rows)
    ...
    ...     def begin(self, data, blocks, previous):
    ...         return ({"x": np.zeros(1), "y": np.ones(1)} for block in blocks)
    ...
    ...     def sweep(self, model, chunk, state, shard, address):
    ...         return SweepResult(None, [{} for block in shard.blocks], {})
    ...
    ...     def train_cell(self, rows, columns, prepared, shared, cell, step):
    ...         rows["x"] += columns["y"]
    >>> Sums(bounds=(0, 500, 1000)).n_blocks
    2
    """

    row_arrays: ClassVar[tuple[str, ...]]
    column_arrays: ClassVar[tuple[str, ...]]

    passes: int = 1
    threads: int = 1

    def prepare(self, row: int, delta: Arrays) -> Arrays:
        """Return what `train_cell` needs for the cells of a row, given the row's merged delta; by default the delta."""
        return delta

    def apply(self, block: Arrays, delta: Arrays, shared: Arrays, first: Callable[[], Arrays]) -> tuple[Arrays, Arrays]:
        """Return a block's next arrays, which are those that its cells have trained, and no totals."""
        return delta, {}


@dataclass(frozen=True, kw_only=True)
class ChunkGridAlgorithm(CellAlgorithm[DataT, ChunkT]):
    """Base class of algorithms whose chunks have a state that changes together with the model, cell by cell.

    Row i of the grid has consecutive chunks, `row_chunks`, and column j has block j of the model. The first step sweeps
    all chunks, which have no state yet, as for any `Algorithm`. Every later step has cells and no sweeps:

    1. `begin_row` receives the chunks of a row and their states, and `begin_column` the block of a column.
    2. `train_cell` trains each cell. What cells of different rows share, other than a column, they see as it was after
       the last step, and with the changes of their own row.
    3. `finish_row` returns the chunks' next states, and `apply` receives the trained column as the block's delta.

    There must be at least as many chunks as blocks. `Needs.rounds` and `Needs.ranges` must be 1. The parameters of
    methods are those of `Algorithm` and `GridAlgorithm`; ``rows`` and ``prepared`` are what `begin_row` has returned.
    """

    def row_chunks(self, n_chunks: int, row: int) -> range:
        """Return the consecutive chunks whose tokens are in a row of the grid."""
        return block_range(n_chunks, self.n_blocks, row)

    @abstractmethod
    def begin_row(
        self, chunks: list[ChunkT], states: list[Arrays], shared: Arrays, address: Address
    ) -> tuple[Arrays, Arrays]:
        """Return the arrays of a row that its cells change, and those that they read. ``address`` has its first chunk.

        ``chunks`` and ``states`` must stay unchanged.
        """

    @abstractmethod
    def begin_column(self, block: Arrays) -> Arrays:
        """Return the arrays of a block that cells change, in a form of which they have no other copy."""

    @abstractmethod
    def end_column(self, columns: Arrays) -> Arrays:
        """Return what another worker receives of a column: its `begin_column` makes the same arrays of it.

        `apply` may receive this, too.
        """

    @abstractmethod
    def finish_row(self, rows: Arrays, prepared: Arrays, address: Address) -> list[SweepResult]:
        """Return the results of a row's chunks after its last cell: states and sums, and no deltas."""


#: A grid algorithm for any type of data and chunks, as the engine sees it.
AnyCellAlgorithm = CellAlgorithm[Any, Any]


@dataclass(frozen=True)
class Grid:
    """The order of the cells of one step. Strata are numbered from 0 over all passes of the step.

    A stratum has one cell of each row and one cell of each column. So the cells of a row, or of a column, are trained
    in the order of their strata, and this is all that a result depends on.
    """

    seed: int
    step: int
    n_blocks: int
    passes: int

    @property
    def n_strata(self) -> int:
        """Number of strata in the step."""
        return self.passes * self.n_blocks

    @cached_property
    def _shifts(self) -> list[int]:
        """One number per pass. It permutes the strata, so that no pair of blocks is the last one in each pass."""
        draws = random.stream(random.key(self.seed, self.step, SHIFT), self.passes)
        return [int(draw) % self.n_blocks for draw in draws]

    def partner(self, number: int, block: int) -> int:
        """Return the column of a row in stratum ``number``, which is also the row of the column ``block``."""
        grid_pass, stratum = divmod(number, self.n_blocks)
        return block ^ stratum ^ self._shifts[grid_pass]

    def place(self, number: int, row: int, size: int) -> int:
        """Return the place of a cell, that of a row in stratum ``number``, in an order in which cells can be trained.

        Half of the rows are trained with half of the columns before another half is, again and again, down to ``size``
        blocks, a power of two. So any part of the order needs few blocks: if n have space in memory, one has to be read
        for every n / 3 cells or so. With the size ``n_blocks``, the order is that of the strata.
        """
        place = number // self.n_blocks
        half = self.n_blocks // 2
        while half >= size:
            turn, part = bool(number & half), bool(row & half)
            place = 4 * place + 2 * turn + (turn ^ part)
            half //= 2
        return (place * size + number % size) * size + row % size

    def cells(self, rows: range, size: int) -> Iterator[tuple[int, Cell]]:
        """Yield the cells of some rows, and the numbers of their strata, in the order of `place`.

        Workers that use the same size can train their rows in these orders and exchange columns without a deadlock,
        because the orders are parts of one order of all cells.
        """
        for grid_pass in range(self.passes):
            strata = range(grid_pass * self.n_blocks, (grid_pass + 1) * self.n_blocks)
            own = sorted(product(strata, rows), key=lambda cell: self.place(cell[0], cell[1], size))
            for number, row in own:
                yield number, Cell(grid_pass, number % self.n_blocks, row, self.partner(number, row))
