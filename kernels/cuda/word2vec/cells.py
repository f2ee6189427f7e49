"""Train a cell of strata on a CUDA device: each thread block trains sub-cells, which share no rows.

A cell is divided into G by G sub-cells, which are trained diagonal by diagonal (sub_cells.py). The G sub-cells of a
diagonal have no row in common, so G blocks of threads train them side by side, each batch after batch as the CPU trains
a cell. No row is changed by two blocks at a time. So there are no atomic additions, and the result has the same bits in
every run, for any number of blocks and for any number of devices. It differs from the CPU's, because the CPU does not
divide cells. With one group, it differs by rounding only.

One launch trains the whole cell. Block a begins diagonal t with group a of the centres and group a + t of the contexts.
It has the former already. The latter was trained by the block of group a + 1 in diagonal t − 1. So it waits for that
block alone (`_wait_for`). Blocks that wait for each other must be active at the same time, see `active_blocks`. Fewer
than G blocks take turns at the sub-cells of a diagonal.

Both blocks of vectors stay on the device, until the engine brings them back (`residents.py`). Uploaded are the cell's
pairs, and the negatives of the groups.

Tests against the CPU's cells: tests/kernels/cuda/word2vec/test_cells.py.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import cuda, float32, int32

from ...word2vec.cells import SHARED, CellOptions
from ...word2vec.runs import RUNS
from ...word2vec.sub_cells import group_negatives, number_of_groups, options_of_sub_cell, split_cell
from ...word2vec.text import PAD
from ..jit import device, kernel
from ..launch import launch, multiprocessors, shared_memory_limit, synchronize
from ..memory import on_device, resident, upload_to_workspace, workspace, zeros
from ..port import to_device
from ..random import draw
from ..warp import WARP
from .cell_batches import CONTEXTS, ENDS, BatchMemory, attract, read_rows, repel, shared_bytes, write_rows
from .cell_runs import SubCell, find_runs, heavy_centre, join_runs, limits_of, stride_of_device, write_heavy_run

#: Threads per block. More of them read more rows at once.
THREADS = 256

#: Blocks of each cell that a host thread of this process is training, and the lock of this list.
_ACTIVE: list[int] = []
_CHANGED = threading.Condition()

options_on_device = to_device(options_of_sub_cell, draw=draw)


def has_memory_for(D: int) -> bool:
    """Return whether the rows of a batch, of D numbers each, fit the shared memory of a block of this device."""
    return shared_bytes(D) <= shared_memory_limit()


def train_cell(W_in: np.ndarray, W_out: np.ndarray, pairs: np.ndarray, table: np.ndarray, options: CellOptions) -> None:
    """Train the blocks W_in and W_out (rows, D) float32 in place, as the CPU function of this name does.

    The blocks stay on the device; `RESIDENTS.bring_back` copies them to the host. When this returns, the kernel has
    ended, so other threads may use the blocks.

    Raises ValueError if a batch's rows do not fit a block's shared memory, and DeviceError.
    """
    D = W_in.shape[1]
    if D % PAD:
        raise ValueError(f"rows have {D} columns: pad them to a multiple of {PAD}")
    shared = shared_bytes(D)
    if not has_memory_for(D):
        raise ValueError(
            f"{D} columns take {shared:,} bytes of a block's shared memory, which has {shared_memory_limit():,}: "
            f"choose shorter vectors, or device 'auto' or 'cpu'"
        )
    if not len(pairs):
        return
    n_groups = number_of_groups(len(W_in), len(W_out))
    sorted_pairs, bounds = split_cell(pairs, options.key, n_groups)
    negatives = group_negatives(table, bounds, options, n_groups)
    # With a quarter of the multiprocessors each, four host threads train at the same time even on a small device.
    blocks = min(n_groups, max(1, multiprocessors() // 4))
    with active_blocks(blocks, multiprocessors()):
        launch(
            train_sub_cells,
            blocks,
            THREADS,
            D,
            resident(W_in, "W_in").reshape(W_in.size),
            resident(W_out, "W_out").reshape(W_out.size),
            upload_to_workspace(sorted_pairs, "pairs"),
            upload_to_workspace(bounds, "bounds"),
            on_device(
                negatives,
                tables=upload_to_workspace(negatives.tables, "negatives"),
                weights=upload_to_workspace(negatives.weights, "weights"),
                heaviest=upload_to_workspace(negatives.heaviest, "heaviest"),
            ),
            options,
            workspace("runs", len(pairs), np.int64),
            zeros("diagonals", n_groups, np.int32),
            shared=shared,
        )
        synchronize("cell")


@contextlib.contextmanager
def active_blocks(blocks: int, limit: int) -> Iterator[None]:
    """Context manager: wait until this process has at most ``limit`` blocks of cells on devices, these included.

    A block that waits for another one keeps its multiprocessor. If more blocks than multiprocessors were launched, all
    active ones could wait for blocks that cannot begin. Kernels of other kinds end by themselves, so they do not count.
    """
    with _CHANGED:
        _CHANGED.wait_for(lambda: sum(_ACTIVE) + blocks <= limit)
        _ACTIVE.append(blocks)
    try:
        yield
    finally:
        with _CHANGED:
            _ACTIVE.remove(blocks)
            _CHANGED.notify_all()


@kernel
def train_sub_cells(
    D: int,
    W_in: Any,
    W_out: Any,
    pairs: Any,
    bounds: Any,
    negatives: Any,
    options: Any,
    runs: Any,
    diagonals: Any,
) -> None:
    """Train all sub-cells; W_in and W_out (rows * D,) float32; ``runs`` (n,) int64 is scratch.

    ``diagonals`` (G,) int32 has how many diagonals each group of centres has been trained in.
    """
    n_groups = len(negatives.weights)
    memory = BatchMemory(
        cuda.shared.array(0, float32),
        cuda.shared.array(RUNS, int32),
        cuda.shared.array(ENDS, int32),
        cuda.shared.array(CONTEXTS, int32),
        cuda.shared.array(CONTEXTS, int32),
        cuda.shared.array(RUNS, int32),
        cuda.shared.array(CONTEXTS, int32),
        cuda.shared.array(WARP, int32),
    )
    for diagonal in range(n_groups):
        for row in range(cuda.blockIdx.x, n_groups, cuda.gridDim.x):
            column = (row + diagonal) % n_groups
            _wait_for(diagonals, (row + 1) % n_groups, diagonal)
            first = bounds[row * n_groups + column]
            last = bounds[row * n_groups + column + 1]
            if last > first:
                own = options_on_device(options, negatives, bounds, diagonal, row, column)
                cell = SubCell(pairs, runs, first, last, negatives.tables, column)
                _train_sub_cell(D, W_in, W_out, cell, own, memory)
            _count_diagonal(diagonals, row)


@device
def _wait_for(diagonals: Any, row: int, diagonal: int) -> None:
    """Wait until a group of centres has been trained in this many diagonals. All threads of the block call this.

    The fence lets the block see what other blocks have written before they counted. The other threads wait at the first
    barrier of `find_runs`, before they read a row.
    """
    if cuda.threadIdx.x == 0:
        while cuda.atomic.add(diagonals, row, 0) < diagonal:
            pass
        cuda.threadfence()


@device
def _count_diagonal(diagonals: Any, row: int) -> None:
    """Count a diagonal of a group of centres. All threads have written their rows: `write_rows` ends with a barrier."""
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        cuda.atomic.add(diagonals, row, 1)


@device
def _train_sub_cell(D: int, W_in: Any, W_out: Any, cell: Any, options: Any, memory: Any) -> None:
    """Train one sub-cell: first its heavy centres, in short runs with negatives of their own, then batches of runs."""
    limits = limits_of(options)
    n_runs, n_heavy = find_runs(cell, limits.run, memory.counts)
    stride = stride_of_device(n_runs)
    done = 0  # pairs so far
    heavy = 0  # heavy centres so far
    head = 0  # next pair of the heavy centre
    k = 0  # runs so far
    while heavy < n_heavy or k < n_runs:
        alpha = float32(max(options.min_alpha, options.alpha - options.slope * done))
        is_heavy = heavy < n_heavy
        if is_heavy:
            first, last = heavy_centre(cell, heavy)
            head = max(head, first)
            B = 1
            m = min(limits.heavy, last - head)
            write_heavy_run(cell, head, m, options.key, memory)
            cuda.syncthreads()
            n = m + SHARED
            strength = float32(alpha * limits.weight * m)
            head += m
            if head == last:
                heavy += 1
        else:
            if cuda.threadIdx.x < WARP:
                join_runs(cell, k, n_runs, stride, limits, options.key, memory)
            cuda.syncthreads()
            B = int(memory.counts[0])
            m = int(memory.ends[B])
            n = m
            strength = float32(alpha * limits.weight)
            k += B
        read_rows(B, m + SHARED, D, W_in, W_out, memory)
        attract(B, n, m, alpha, strength, D, memory)
        if not is_heavy:
            repel(B, m, strength, D, memory)
        write_rows(B, m + SHARED, D, W_in, W_out, memory)
        done += m
