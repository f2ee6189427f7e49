"""Submits the tasks of one step: sweeps, the merge tree of their deltas, and the update of each block."""

from collections.abc import Callable
from dataclasses import dataclass, field

from . import tasks
from .executors import Executor, Handle, balanced_places
from .grid import GridAlgorithm
from .visits import submit_visits


@dataclass
class Submitted:
    """Handles of the tasks whose results the client waits for."""

    reports: list[Handle] = field(default_factory=list)  # shard after shard, one range of blocks after another
    applied: list[Handle] = field(default_factory=list)  # block after block


def submit_sweeps(
    executor: Executor,
    job: tasks.Job,
    shards: list[tuple[int, tuple[int, ...], int]],
    step: int,
    key: Callable[[int, str], str],
) -> Submitted:
    """Submit all tasks of a step. ``shards`` has one entry (number, chunks, tokens) per shard."""
    return _Step(executor, job, shards, step, key).submit()


class _Step:
    def __init__(
        self,
        executor: Executor,
        job: tasks.Job,
        shards: list[tuple[int, tuple[int, ...], int]],
        step: int,
        key: Callable[[int, str], str],
    ):
        self.executor = executor
        self.job = job
        self.shards = shards
        self.step = step
        self.key = key
        self.addresses = balanced_places([tokens for _, _, tokens in shards], executor.capacities())
        self.submitted = Submitted()

    def submit(self) -> Submitted:
        algorithm = self.job.algorithm
        if isinstance(algorithm, GridAlgorithm):
            merged = self._merge_tree(0, 0, len(self.shards))
            self.submitted.applied = submit_visits(self.executor, self.job, merged, self.step, self.key)
            return self.submitted
        for range_index in range(algorithm.n_ranges):
            merged = self._merge_tree(range_index, 0, len(self.shards))
            # Blocks are applied before the next range is swept, because Dask prefers tasks that were submitted first.
            for block, delta in zip(algorithm.blocks_of(range_index), merged, strict=True):
                self.submitted.applied.append(self._apply(block, delta))
        return self.submitted

    def _merge_tree(self, range_index: int, first: int, stop: int) -> list[Handle]:
        """Return one handle per block of the merged deltas of ``shards[first:stop]``.

        The tree is submitted depth first. Merges then follow their sweeps at once, and few deltas wait in memory.
        """
        if stop - first == 1:
            return self._sweep(range_index, first)
        middle = (first + stop + 1) // 2
        left = self._merge_tree(range_index, first, middle)
        right = self._merge_tree(range_index, middle, stop)
        merged = []
        for block, (a, b) in enumerate(zip(left, right, strict=True)):
            key = self.key(self.step, f"merge-{range_index}-{block}-{first}-{stop}")
            merged.append(self.executor.submit(tasks.merge_deltas, self.job.algorithm, a, b, key=key))
        return merged

    def _sweep(self, range_index: int, position: int) -> list[Handle]:
        number, chunks, _ = self.shards[position]
        address = self.addresses[position] or None
        key = self.key(self.step, f"sweep-{number}-{range_index}")
        submit = self.executor.submit
        swept = submit(tasks.sweep_shard, self.job, chunks, self.step, range_index, key=key, near=address)
        self.submitted.reports.append(submit(tasks.take_report, swept, key=f"report-{key}"))
        n_blocks = len(self.job.algorithm.blocks_of(range_index))
        return [submit(tasks.take_delta, swept, index, key=f"delta-{index}-{key}") for index in range(n_blocks)]

    def _apply(self, block: int, delta: Handle) -> Handle:
        key = self.key(self.step, f"apply-{block}")
        return self.executor.submit(tasks.apply_block, self.job, block, self.step, delta, key=key)
