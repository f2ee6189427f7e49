"""Evaluation of the model after some epochs, on the training data and on held-out data."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from ...io.stores.store import Arrays
from .algorithm import Metrics, add
from .data import TrainingData, count_shards, reference, shard_chunks
from .executors import Executor
from .training import Training
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
    training : Training
        What is trained. Without held-out data, a model is scored on what is trained only. The first epoch is evaluated,
        too, and the last one, unless a callback ends training.
    job : tasks.Job
        What its tasks need.
    threads : int
        Number of threads of all workers.
    """

    executor: Executor
    training: Training
    job: tasks.Job
    threads: int

    def is_due(self, step: int, rows: list[Metrics]) -> bool:
        """Return whether the model is evaluated after a step. ``rows`` has the metrics of all steps until then."""
        training = self.training
        if not training.evaluate_every or step % self.job.needs.rounds:
            return False
        epoch = self.job.epoch(step)
        is_planned = epoch in (1, training.epochs) or epoch % training.evaluate_every == 0
        # Training ends with the epoch that converges, so it is the last one.
        return is_planned or training.algorithm.scores.converged(rows)

    def scores(self, step: int) -> Metrics:
        """Return the scores of the model after a step, whose shared arrays are stored."""
        metrics = self._score(self.training.data, step, self._state_steps(step), held_out=False)
        held_out = self.training.held_out
        if held_out is not None and held_out.n_tokens:
            metrics |= self._score(held_out, step, [0] * len(held_out.chunks), held_out=True)
        return metrics

    def _state_steps(self, step: int) -> list[int]:
        """Return the step at which each chunk was swept last."""
        needs = self.job.needs
        n_chunks = self.job.n_chunks
        steps = []
        for shard in range(count_shards(n_chunks, needs.shards)):
            last = step - (step - 1 - shard) % needs.rounds
            steps += [last] * len(shard_chunks(n_chunks, needs.shards, shard))
        return steps

    def _score(self, data: TrainingData, step: int, state_steps: list[int], held_out: bool) -> Metrics:
        place = reference(data)
        chunks: Sequence[int] = range(len(data.chunks))
        most = self.job.algorithm.scores.most_chunks
        if not held_out and most is not None and len(chunks) > most:
            chunks = [i * len(chunks) // most for i in range(most)]
        size = max(1, len(chunks) // (SCORES_PER_THREAD * self.threads))
        arguments = []
        for first in range(0, len(chunks), size):
            part = list(chunks[first : first + size])
            arguments.append((self.job, place, part, step, [state_steps[chunk] for chunk in part]))
        scored = self.executor.map(tasks.score_chunks, arguments, name=f"score-{data.part}-{self.job.name}-{step}")
        sums: Arrays = {}
        for chunk_sums in chain.from_iterable(scored):
            sums = add(sums, chunk_sums)
        if not sums:
            return {}
        return self.job.algorithm.scores.metrics(sums, held_out)
