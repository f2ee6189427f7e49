"""A grid of cells: every cell once per pass, blocks in a fixed order, and the same bits wherever it runs."""

import itertools
import os
import signal
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from corpusmill.pipeline.engine.algorithm import MemoryEstimate, SweepResult
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.grid import Grid, GridAlgorithm
from corpusmill.pipeline.engine.run import RunStore
from helpers.toy import equal_blocks, write_toy_corpus
from hypothesis import given
from hypothesis import strategies as st

EPOCHS = 2


@dataclass(frozen=True, kw_only=True)
class Neighbours(GridAlgorithm):
    """Each pair of neighbouring words moves the number ``left`` of the first and ``right`` of the second.

    The moves do not commute, so that another order of the cells gives other bits. A cell of the table ``killed``
    (step, row, column) kills its process when it is trained for the first time.
    """

    name: ClassVar[str] = "neighbours"
    keeps_state: ClassVar[bool] = False
    row_arrays: ClassVar[tuple[str, ...]] = ("left",)
    column_arrays: ClassVar[tuple[str, ...]] = ("right",)

    killed: tuple[tuple[int, int, int], ...] = ()
    folder: str = ""

    def memory(self, data, chunk):
        return MemoryEstimate(data=8 * chunk.tokens, delta=16 * chunk.tokens, model=16 * self.n_rows)

    def cell_memory(self, data):
        return MemoryEstimate(model=64 * self.n_rows // self.n_blocks)

    def begin(self, data, block, previous):
        words = np.arange(self.bounds[block], self.bounds[block + 1])
        return {"left": 1 / (1.0 + words), "right": 1 + words / 100, "fixed": words}

    def begin_shared(self, data, previous):
        return {"pairs": np.int64(0)}

    def sweep(self, model, chunk, state, deltas, address):
        pairs = neighbours(chunk)
        added = []
        for block in range(self.n_blocks):
            is_own = (pairs[:, 0] >= self.bounds[block]) & (pairs[:, 0] < self.bounds[block + 1])
            added.append({"pairs": pairs[is_own]})
        if deltas is not None:
            added = [self.merge(old, new) for old, new in zip(deltas, added, strict=True)]
        return SweepResult(None, added, {"pairs": np.int64(len(pairs))})

    def merge(self, left, right):
        return {"pairs": np.concatenate([left["pairs"], right["pairs"]])}

    def train_cell(self, rows, columns, prepared, shared, cell, step):
        self.kill_if_listed(step, cell)
        first, last = self.bounds[cell.column], self.bounds[cell.column + 1]
        for number, (left, right) in enumerate(prepared["pairs"]):
            if number % self.passes == cell.grid_pass and first <= right < last:
                move(rows["left"], left - self.bounds[cell.row], columns["right"], right - first, shared["pairs"])

    def kill_if_listed(self, step, cell):
        if (step, cell.row, cell.column) not in self.killed:
            return
        name = f"{step}-{cell.row}-{cell.column}"
        is_first = not list(Path(self.folder).glob(f"{name}-*"))
        Path(self.folder, f"{name}-{uuid.uuid4().hex}").touch()
        if is_first:
            os.kill(os.getpid(), signal.SIGKILL)

    def apply(self, block, delta, shared):
        return block | delta, {"moved": np.int64((block["left"] != delta["left"]).sum())}

    def reduce_shared(self, shared, totals, sums):
        return {"pairs": shared["pairs"] + sums["pairs"]}, {"moved": float(totals["moved"])}


def neighbours(chunk):
    """Return the pairs of neighbouring words of a chunk: (n, 2) int64."""
    words = chunk.words
    ends = set(chunk.doc_ptr.tolist())
    return np.array([(words[i - 1], words[i]) for i in range(1, len(words)) if i not in ends], np.int64).reshape(-1, 2)


def move(left, i, right, j, pairs):
    left[i] = 0.9 * left[i] + 0.1 * right[j] + pairs * 1e-9
    right[j] = 0.8 * right[j] + 0.2 * left[i]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_toy_corpus(tmp_path_factory.mktemp("toy") / "corpus", n_chunks=4, documents=8)


def algorithm_of(n_blocks, **parameters):
    return Neighbours(bounds=equal_blocks(n_blocks), **parameters)


def trained(corpus, folder, algorithm, executor=None, epochs=EPOCHS):
    run = RunStore(str(folder))
    train(Training(algorithm, corpus, run, epochs, seed=7), executor or Synchronous())
    blocks = [run.block(run.step, j) for j in range(algorithm.n_blocks)]
    return {name: np.concatenate([block[name] for block in blocks]) for name in ("left", "right", "fixed")}


def trained_by_hand(corpus, algorithm):
    """Train cell after cell in the order of the strata, without blocks, tasks or stores."""
    words = np.arange(algorithm.n_rows)
    left, right = 1 / (1.0 + words), 1 + words / 100
    pairs = np.concatenate([neighbours(corpus.read_chunk(c)) for c in range(len(corpus.chunks))])
    block_of = np.searchsorted(algorithm.bounds, words, side="right") - 1
    row_of_pair = block_of[pairs[:, 0]]
    number = np.empty(len(pairs), np.int64)  # of each pair among those of its row
    for block in range(algorithm.n_blocks):
        number[row_of_pair == block] = np.arange((row_of_pair == block).sum())
    for epoch in range(EPOCHS):
        grid = Grid(7, epoch + 1, algorithm.n_blocks, algorithm.passes)
        for _, cell in grid.cells(range(grid.n_blocks), grid.n_blocks):
            is_own = (row_of_pair == cell.row) & (block_of[pairs[:, 1]] == cell.column)
            for a, b in pairs[is_own & (number % algorithm.passes == cell.grid_pass)]:
                move(left, a, right, b, epoch * len(pairs))
    return {"left": left, "right": right, "fixed": words}


def assert_same(models):
    for name in models[0]:
        for other in models[1:]:
            np.testing.assert_array_equal(models[0][name], other[name])


@pytest.mark.parametrize(("n_blocks", "passes"), [(1, 1), (2, 3), (8, 2)])
def test_cells_are_trained_one_after_another(corpus, tmp_path, n_blocks, passes):
    algorithm = algorithm_of(n_blocks, passes=passes)
    assert_same([trained_by_hand(corpus, algorithm), trained(corpus, tmp_path / "run", algorithm)])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_same_bits_on_any_number_of_workers(corpus, tmp_path, workers, cluster_of):
    algorithm = algorithm_of(8, passes=2)
    expected = trained_by_hand(corpus, algorithm)
    assert_same([expected, trained(corpus, tmp_path / "run", algorithm, OnDask(cluster_of(workers)))])


def test_same_bits_with_several_threads(corpus, tmp_path):
    algorithm = algorithm_of(8, passes=2)
    expected = trained(corpus, tmp_path / "one", algorithm)
    assert_same([expected, trained(corpus, tmp_path / "four", replace(algorithm, threads=4))])


def test_a_killed_worker_changes_no_bit(corpus, tmp_path, cluster_of):
    client = cluster_of(2)
    killed = ((1, 0, 3), (2, 5, 1))
    algorithm = algorithm_of(8, passes=2, killed=killed, folder=str(tmp_path))
    result = trained(corpus, tmp_path / "run", algorithm, OnDask(client))
    for step, row, column in killed:
        assert len(list(tmp_path.glob(f"{step}-{row}-{column}-*"))) >= 2
    assert_same([trained_by_hand(corpus, algorithm_of(8, passes=2)), result])


def test_a_run_is_resumed_after_each_step(corpus, tmp_path):
    algorithm = algorithm_of(4)
    trained(corpus, tmp_path / "run", algorithm, epochs=1)
    assert_same([trained_by_hand(corpus, algorithm), trained(corpus, tmp_path / "run", algorithm)])


def test_a_number_of_blocks_that_is_no_power_of_two_is_refused():
    with pytest.raises(ValueError, match="3 blocks: a grid needs a power of two, such as 2 or 4"):
        algorithm_of(3)


def test_a_grid_warns_of_idle_threads(corpus, tmp_path, cluster_of):
    warnings = []
    run = RunStore(str(tmp_path / "run"))
    training = Training(
        algorithm_of(2), corpus, run, 1, callbacks=[lambda event: warnings.append(getattr(event, "idle", ""))]
    )
    train(training, OnDask(cluster_of(3)))
    assert warnings[0].startswith("2 tasks at a time for 3 threads of workers")


# --- the order of the cells ---

sizes = st.integers(0, 5).flatmap(lambda k: st.tuples(st.just(1 << k), st.integers(0, k).map(lambda g: 1 << g)))


@given(sizes, st.integers(1, 3), st.integers(0, 9))
def test_each_pass_trains_each_cell_once(sizes, passes, step):
    n_blocks, size = sizes
    grid = Grid(3, step, n_blocks, passes)
    cells = [cell for _, cell in grid.cells(range(n_blocks), size)]
    every = itertools.product(range(passes), range(n_blocks), range(n_blocks))
    assert sorted((cell.grid_pass, cell.row, cell.column) for cell in cells) == sorted(every)


@given(sizes, st.integers(1, 3), st.integers(0, 9))
def test_cells_of_a_row_and_of_a_column_are_in_the_order_of_the_strata(sizes, passes, step):
    n_blocks, size = sizes
    numbers = {}
    for number, cell in Grid(3, step, n_blocks, passes).cells(range(n_blocks), size):
        numbers.setdefault(("row", cell.row), []).append(number)
        numbers.setdefault(("column", cell.column), []).append(number)
    assert len(numbers) == 2 * n_blocks
    assert all(found == list(range(passes * n_blocks)) for found in numbers.values())


@given(sizes, st.integers(1, 3), st.data())
def test_workers_train_their_rows_in_one_common_order(sizes, passes, data):
    n_blocks, size = sizes
    first = data.draw(st.integers(0, n_blocks - 1))
    rows = range(first, data.draw(st.integers(first + 1, n_blocks)))
    grid = Grid(3, 1, n_blocks, passes)
    common = [cell for _, cell in grid.cells(range(n_blocks), size) if cell.row in rows]
    assert [cell for _, cell in grid.cells(rows, size)] == common


@given(sizes, st.integers(1, 2))
def test_few_blocks_are_used_by_turns(sizes, passes):
    n_blocks, size = sizes
    cells = [cell for _, cell in Grid(3, 1, n_blocks, passes).cells(range(n_blocks), size)]
    for turn in range(0, len(cells), size * size):
        used = cells[turn : turn + size * size]
        assert len({cell.row for cell in used}) == len({cell.column for cell in used}) == size
