"""Evaluation of the model after some epochs, on the training data and on held-out data."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from ...io.stores.store import Arrays
from .algorithm import Metrics, add
from .data import TrainingData, reference
from .executors import Executor
from .worker import tasks

#: Tasks that score chunks, for each thread of the workers. With one task per chunk, large corpora would have too many.
SCORES_PER_THREAD = 4


@dataclass(frozen=True)
class Evaluator:
    """Scores the models of a run.

    Parameters
    ----------
    executor : Executor
        Where the tasks run.
    job : tasks.TrainingJob
        The run, and what its tasks need.
    data : TrainingData
        What is trained.
    held_out : TrainingData or None
        What is held out. Without it, a model is scored on what is trained only.
    every : int
        Epochs between two evaluations; 0 for none. The first epoch is evaluated, too, and the last one, unless a
        callback ends training.
    epochs : int
        Number of epochs to train.
    shards : sequence of sequences of int
        The chunks of each shard.
    threads : int
        Number of threads of all workers.
    """

    executor: Executor
    job: tasks.TrainingJob
    data: TrainingData
    held_out: TrainingData | None
    every: int
    epochs: int
    shards: Sequence[Sequence[int]]
    threads: int

    def is_due(self, step: int, rows: list[Metrics]) -> bool:
        """Return whether the model is evaluated after a step. ``rows`` has the metrics of all steps until then."""
        rounds = self.job.algorithm.rounds
        if not self.every or step % rounds:
            return False
        epoch = step // rounds
        is_planned = epoch in (1, self.epochs) or epoch % self.every == 0
        # Training ends with the epoch that converges, so it is the last one.
        return is_planned or self.job.algorithm.converged(rows)

    def scores(self, step: int) -> Metrics:
        """Return the scores of the model after a step, whose shared arrays are stored."""
        metrics = self._score(self.data, step, self._state_steps(step), held_out=False)
        if self.held_out is not None and self.held_out.n_tokens:
            metrics |= self._score(self.held_out, step, [0] * len(self.held_out.chunks), held_out=True)
        return metrics

    def _state_steps(self, step: int) -> list[int]:
        """Return the step at which each chunk was swept last."""
        rounds = self.job.algorithm.rounds
        steps = []
        for number, chunks in enumerate(self.shards):
            last = step - (step - 1 - number) % rounds
            steps += [last] * len(chunks)
        return steps

    def _score(self, data: TrainingData, step: int, state_steps: list[int], held_out: bool) -> Metrics:
        place = reference(data)
        n_chunks = len(data.chunks)
        size = max(1, n_chunks // (SCORES_PER_THREAD * self.threads))
        arguments = []
        for first in range(0, n_chunks, size):
            chunks = range(first, min(first + size, n_chunks))
            arguments.append((self.job, place, chunks, step, state_steps[chunks.start : chunks.stop]))
        scored = self.executor.map(tasks.score_chunks, arguments, name=f"score-{data.part}-{self.job.training}-{step}")
        sums: Arrays = {}
        for chunk_sums in chain.from_iterable(scored):
            sums = add(sums, chunk_sums)
        if not sums:
            return {}
        return self.job.algorithm.metrics_from_sums(sums, held_out)
