"""Products of dense sparse rows with a dense factor: tiles of the factor in the first-level cache, pairs of rows.

    R = A·X, as R_i += a_ij X_j over the non-zeros of A

The loop of `products` reads rows of X from the second-level cache if X is larger than the first one, and it waits for
the sum of one non-zero before it begins the next one. If a tenth of A is not zero, as for counts of genes in cells,
another order of the same sums is faster:

1. The columns of A are cut into tiles, so that the rows of X of a tile fit the first-level cache. They are copied there
   with aligned rows.
2. The rows of A are cut into blocks, so that their sums stay in the second-level cache. Tile after tile is added.
3. The non-zeros of a row in one tile are a segment. The segments of a tile are sorted by their length, and neighbours
   make pairs, whose entries alternate. Two sums advance at the same time, and the processor predicts where loops end.

The shorter segment of a pair is filled up with entries of value 0 that point to a row of zeros. Each sum still adds
its non-zeros in the order of their columns, so the results are those of `products`, bit for bit.

Aᵀ·X has the same form: its "rows" are the columns of A, and tiles are cut from the rows of A.

Reference implementation: tests/helpers/naive.py, `sparse_products`.
"""

from typing import Any, NamedTuple

import numpy as np

from ..jit import kernel, vector_kernel
from ..simd.aligned import empty_aligned
from ..simd.prefetch import prefetch
from ..simd.rows import RowShape, add_multiple, load_row, panels, store_row
from .products import SparseRows, check_layout

#: Rows of a block.
BLOCK_ROWS = 768
#: Bytes of the rows of X in a tile. With the streams of A and of the sums, they stay in 32 KiB of cache.
TILE_BYTES = 28 << 10
#: Most entries of a segment: positions in a tile are 16 bits.
MAX_TILE = 1 << 13
#: Vectors of a panel. Two rows of sums have twice as many registers.
MAX_VECTORS = 6
#: Mean length of segments from which this order is faster than that of `products`.
MIN_SEGMENT = 8
#: Entries between a prefetch and its use.
AHEAD = 256


#: The arrays of `Slices`, in the same order.
SliceArrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Slices(NamedTuple):
    """Sparse rows in the order of their tiles. A slice is a pair of segments."""

    first: np.ndarray  # (blocks * tiles + 1,) int64: first slice of each tile of each block
    rows: np.ndarray  # (slices, 2) int32: the rows of a pair
    begin: np.ndarray  # (slices + 1,) int64: first entry of each slice
    positions: np.ndarray  # (entries,) uint16: column within the tile, those of the two segments in turn
    data: np.ndarray  # (entries,) float32 or float64
    tile: int  # columns of a tile
    n_tiles: int
    n_columns: int


class SlicedMatrix(NamedTuple):
    """Sparse A (D, V) as slices for both products, and by row for everything else."""

    by_row: SparseRows
    row_slices: Slices  # blocks of BLOCK_ROWS rows, tiles of columns
    column_slices: Slices  # all columns in one block, tiles of rows


def tile_columns(K: int, dtype: Any) -> int:
    """Return how many rows of a factor with K columns make a tile."""
    widest = max(panel.shape.n * panel.shape.width for panel in panels(K, dtype, MAX_VECTORS))
    return min(MAX_TILE, max(1, TILE_BYTES // (widest * np.dtype(dtype).itemsize)))


def pays_off(A: SparseRows, n_columns: int, K: int) -> bool:
    """Return whether products of sparse rows with factors of K columns are faster with slices."""
    n_rows = len(A.indptr) - 1
    tile = min(tile_columns(K, A.data.dtype), n_rows, n_columns)
    return len(A.data) * tile >= MIN_SEGMENT * n_rows * n_columns > 0


def sliced(A: SparseRows, n_columns: int, K: int) -> SlicedMatrix:
    """Return sparse rows as slices for products with factors of K columns. The indices of each row must ascend."""
    tile = tile_columns(K, A.data.dtype)
    n_rows = len(A.indptr) - 1
    rows = _slices(_slice_rows(A, n_columns, tile, BLOCK_ROWS), tile, n_columns)
    columns = _slices(_slice_columns(A, n_columns, tile), tile, n_rows)
    return SlicedMatrix(A, rows, columns)


def _slices(arrays: SliceArrays, tile: int, n_columns: int) -> Slices:
    first, rows, begin, positions, data = arrays
    return Slices(first, rows, begin, positions, data, tile, -(-n_columns // tile), n_columns)


# --- preparation ---


@kernel
def _pair_up(
    counts: np.ndarray, block: int, slices: int, entries: int, rows: np.ndarray, begin: np.ndarray, at: np.ndarray
) -> tuple[int, int]:
    """Make pairs of segments with ``counts`` (n,) entries, which belong to the rows ``block``, ``block + 1``, ...

    ``slices`` and ``entries`` are the numbers of those that exist already. Sets ``rows`` and ``begin`` of the new
    slices, and ``at`` (n,) to the place of the first entry of each segment. Returns the new numbers.
    """
    n = len(counts)
    most = np.int64(0)
    for count in counts:
        most = max(most, count)
    places = np.zeros(most + 2, np.int64)
    for count in counts:
        places[count + 1] += 1
    for count in range(1, len(places)):
        places[count] += places[count - 1]
    order = np.empty(n, np.int64)
    for i in range(n):
        order[places[counts[i]]] = i
        places[counts[i]] += 1
    for pair in range(n % 2, n + 1, 2):
        if pair == 0:
            continue
        longer = order[pair - 1]
        if counts[longer] == 0:
            continue
        # A segment without a partner is paired with an empty one of the same row, which is written before it.
        shorter = order[pair - 2] if pair > 1 else longer
        rows[slices, 0] = block + shorter
        rows[slices, 1] = block + longer
        begin[slices] = entries
        at[shorter] = entries
        at[longer] = entries + 1
        slices += 1
        entries += 2 * counts[longer]
    begin[slices] = entries
    return slices, entries


@kernel
def _fill_up(first: int, stop: int, begin: np.ndarray, tile: int, positions: np.ndarray, data: np.ndarray) -> None:
    """Set all entries of the slices ``first`` to ``stop - 1`` to 0, at the row of zeros that follows a tile."""
    for i in range(begin[first], begin[stop]):
        positions[i] = tile
        data[i] = 0


@kernel
def _slice_rows(A: SparseRows, n_columns: int, tile: int, block: int) -> SliceArrays:
    """Return the first five fields of `Slices` for A, in blocks of rows and tiles of columns."""
    n_rows = len(A.indptr) - 1
    n_tiles = (n_columns + tile - 1) // tile
    n_blocks = (n_rows + block - 1) // block
    tile_of = np.empty(n_columns, np.int32)
    for column in range(n_columns):
        tile_of[column] = column // tile
    first = np.zeros(n_blocks * n_tiles + 1, np.int64)
    most_slices = n_tiles * ((n_rows + 1) // 2 + n_blocks)
    rows = np.empty((most_slices, 2), np.int32)
    begin = np.zeros(most_slices + 1, np.int64)
    # Sorted neighbours differ little: in each tile, all fillings together are at most two of its longest segments.
    most_entries = len(A.data) + 2 * tile * n_tiles * n_blocks
    positions = np.empty(most_entries, np.uint16)
    data = np.empty(most_entries, A.data.dtype)
    at = np.empty((n_tiles, block), np.int64)
    # Of this type from the start, because Numba would compile `_pair_up` once more for a constant 0.
    slices = np.int64(0)
    entries = np.int64(0)
    for b in range(n_blocks):
        start = b * block
        stop = min(start + block, n_rows)
        counts = np.zeros((n_tiles, stop - start), np.int64)
        for i in range(start, stop):
            for j in range(A.indptr[i], A.indptr[i + 1]):
                counts[tile_of[A.indices[j]], i - start] += 1
        before = slices
        for t in range(n_tiles):
            slices, entries = _pair_up(counts[t], start, slices, entries, rows, begin, at[t])
            first[b * n_tiles + t + 1] = slices
        _fill_up(before, slices, begin, tile, positions, data)
        for i in range(start, stop):
            for j in range(A.indptr[i], A.indptr[i + 1]):
                t = tile_of[A.indices[j]]
                place = at[t, i - start]
                at[t, i - start] = place + 2
                positions[place] = A.indices[j] - t * tile
                data[place] = A.data[j]
    return first, rows[:slices].copy(), begin[: slices + 1].copy(), positions[:entries], data[:entries]


@kernel
def _slice_columns(A: SparseRows, n_columns: int, tile: int) -> SliceArrays:
    """Return the first five fields of `Slices` for Aᵀ, in one block of all columns of A and tiles of its rows."""
    n_rows = len(A.indptr) - 1
    n_tiles = (n_rows + tile - 1) // tile
    first = np.zeros(n_tiles + 1, np.int64)
    most_slices = n_tiles * (n_columns + 1) // 2 + n_tiles
    rows = np.empty((most_slices, 2), np.int32)
    begin = np.zeros(most_slices + 1, np.int64)
    most_entries = len(A.data) + 2 * tile * n_tiles
    positions = np.empty(most_entries, np.uint16)
    data = np.empty(most_entries, A.data.dtype)
    at = np.empty(n_columns, np.int64)
    # Of this type from the start, because Numba would compile `_pair_up` once more for a constant 0.
    slices = np.int64(0)
    entries = np.int64(0)
    for t in range(n_tiles):
        start = t * tile
        stop = min(start + tile, n_rows)
        counts = np.zeros(n_columns, np.int64)
        for j in range(A.indptr[start], A.indptr[stop]):
            counts[A.indices[j]] += 1
        before = slices
        slices, entries = _pair_up(counts, np.int64(0), slices, entries, rows, begin, at)
        first[t + 1] = slices
        _fill_up(before, slices, begin, tile, positions, data)
        for i in range(start, stop):
            for j in range(A.indptr[i], A.indptr[i + 1]):
                place = at[A.indices[j]]
                at[A.indices[j]] = place + 2
                positions[place] = i - start
                data[place] = A.data[j]
    return first, rows[:slices].copy(), begin[: slices + 1].copy(), positions[:entries], data[:entries]


# --- products ---


def add_row_products(A: SlicedMatrix, first: int, stop: int, X: np.ndarray, out: np.ndarray) -> None:
    """Add rows ``first`` to ``stop - 1`` of A·X to ``out`` (stop - first, K), as `products.add_products` does.

    ``first`` is the first row of a block. ``stop`` is one too, or the number of rows.
    """
    blocks = range(first // BLOCK_ROWS, -(-stop // BLOCK_ROWS))
    tiles = range(blocks.start * A.row_slices.n_tiles, blocks.stop * A.row_slices.n_tiles)
    _add(A.row_slices, tiles, X, out, first)


def add_column_products(A: SlicedMatrix, X: np.ndarray, out: np.ndarray, column: int = 0) -> None:
    """Add Aᵀ·X to ``out`` (V, K) for K columns of X, from ``column`` on, as `products.add_transposed_products` does."""
    _add(A.column_slices, range(A.column_slices.n_tiles), X, out, 0, column)


def _add(A: Slices, tiles: range, X: np.ndarray, out: np.ndarray, first: int, column: int = 0) -> None:
    """Add the products of some tiles to ``out``, whose first row is the row ``first``."""
    check_layout(A.data.dtype, X, out)
    for panel in panels(out.shape[1], X.dtype, MAX_VECTORS):
        stride = panel.shape.n * panel.shape.width
        scratch = empty_aligned((A.tile + 1, stride), X.dtype)
        scratch[A.tile] = 0
        packed = RowShape(stride, panel.shape.width)
        at = (column + panel.start, panel.start)
        _add_slices(A, tiles.start, tiles.stop, X, out, first, scratch.reshape(-1), at, panel.shape, packed)


@vector_kernel
def _add_slices(
    A: Slices,
    tile: int,
    last_tile: int,
    X: np.ndarray,
    out: np.ndarray,
    first: int,
    scratch: np.ndarray,
    columns: tuple[int, int],
    shape: RowShape,
    packed: RowShape,
) -> None:
    """Add the products of tiles ``tile`` to ``last_tile - 1``, for the panel that begins at ``columns`` of X and out.

    ``packed`` is the shape of rows of ``scratch``: whole vectors one after the other. Indices are unsigned, so that
    numba does not test whether they count from the end.
    """
    in_X, in_out = columns
    K = out.shape[1]
    stride = len(scratch) // (A.tile + 1)
    for u in range(tile, last_tile):
        row = (u % A.n_tiles) * A.tile
        for i in range(min(A.tile, A.n_columns - row)):
            store_row(load_row(X, (row + i) * X.shape[1] + in_X, shape), scratch, i * stride, packed)
        for s in range(np.uint64(A.first[u]), np.uint64(A.first[u + 1])):
            at_a = (np.int64(A.rows[s, 0]) - first) * K + in_out
            at_b = (np.int64(A.rows[s, 1]) - first) * K + in_out
            a = load_row(out, at_a, shape)
            b = load_row(out, at_b, shape)
            for i in range(np.uint64(A.begin[s]), np.uint64(A.begin[s + np.uint64(1)]), np.uint64(2)):
                j = i + np.uint64(1)
                prefetch(A.data, i + np.uint64(AHEAD))
                prefetch(A.positions, i + np.uint64(AHEAD))
                a = add_multiple(a, A.data[i], scratch, np.int64(A.positions[i]) * stride, packed)
                b = add_multiple(b, A.data[j], scratch, np.int64(A.positions[j]) * stride, packed)
            store_row(a, out, at_a, shape)
            store_row(b, out, at_b, shape)
