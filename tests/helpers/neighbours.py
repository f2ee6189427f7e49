"""A small algorithm that trains a grid, and the same training without blocks, tasks and stores."""

import os
import signal
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from corpusmill.pipeline.engine.algorithm import MemoryEstimate, Merge, SweepResult
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.executors import Synchronous
from corpusmill.pipeline.engine.grid import Grid, GridAlgorithm
from corpusmill.pipeline.engine.run import RunStore

from .toy import equal_blocks

EPOCHS = 2


class Joined(Merge):
    """Joins pairs in the order of the text."""

    def add(self, deltas, may_overwrite=False):
        return {"pairs": np.concatenate([delta["pairs"] for delta in deltas])}


@dataclass(frozen=True, kw_only=True)
class Neighbours(GridAlgorithm):
    """Each pair of neighbouring words moves the number ``left`` of the first and ``right`` of the second.

    The moves do not commute, so that another order of the cells gives other bits. A cell of the table ``killed``
    (step, row, column) kills its process when it is trained for the first time.
    """

    name: ClassVar[str] = "neighbours"
    row_arrays: ClassVar[tuple[str, ...]] = ("left",)
    column_arrays: ClassVar[tuple[str, ...]] = ("right",)

    killed: tuple[tuple[int, int, int], ...] = ()
    folder: str = ""
    seconds: float = 0.0  # that each cell takes longer

    def memory(self, data, chunk):
        return MemoryEstimate(data=8 * chunk.tokens, delta=16 * chunk.tokens, model=16 * self.n_rows)

    def cell_memory(self, data):
        return MemoryEstimate(model=64 * self.n_rows // self.n_blocks)

    def begin(self, data, blocks, previous):
        for block in blocks:
            words = np.arange(self.bounds[block], self.bounds[block + 1])
            yield {"left": 1 / (1.0 + words), "right": 1 + words / 100, "fixed": words}

    def begin_shared(self, data, previous):
        return {"pairs": np.int64(0)}

    def sweep(self, model, chunk, state, shard, address):
        pairs = neighbours(chunk)
        added = []
        for block in range(self.n_blocks):
            is_own = (pairs[:, 0] >= self.bounds[block]) & (pairs[:, 0] < self.bounds[block + 1])
            added.append({"pairs": pairs[is_own]})
        return SweepResult(None, shard.plus(added, self.merge), {"pairs": np.int64(len(pairs))})

    @property
    def merge(self):
        return Joined()

    def train_cell(self, rows, columns, prepared, shared, cell, step):
        self.kill_if_listed(step, cell)
        time.sleep(self.seconds)
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

    def apply(self, block, delta, shared, first):
        return block | delta, {"moved": np.int64((block["left"] != delta["left"]).sum())}

    def reduce(self, shared, totals, sums, history):
        return {"pairs": shared["pairs"] + sums["pairs"]}, {"moved": float(totals["moved"])}


def neighbours(chunk):
    """Return the pairs of neighbouring words of a chunk: (n, 2) int64."""
    words = chunk.words
    ends = set(chunk.doc_ptr.tolist())
    return np.array([(words[i - 1], words[i]) for i in range(1, len(words)) if i not in ends], np.int64).reshape(-1, 2)


def move(left, i, right, j, pairs):
    """Move two numbers towards each other, in place."""
    left[i] = 0.9 * left[i] + 0.1 * right[j] + pairs * 1e-9
    right[j] = 0.8 * right[j] + 0.2 * left[i]


def algorithm_of(n_blocks, kind=Neighbours, **parameters):
    """Return the algorithm for this number of blocks."""
    return kind(bounds=equal_blocks(n_blocks), **parameters)


def trained(corpus, folder, algorithm, executor=None, epochs=EPOCHS, callbacks=()):
    """Train, and return the arrays of the model."""
    run = RunStore(str(folder))
    train(Training(algorithm, corpus, run, epochs, seed=7, callbacks=callbacks), executor or Synchronous())
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
    """Check that all models have the same bits."""
    for name in models[0]:
        for other in models[1:]:
            np.testing.assert_array_equal(models[0][name], other[name])
