"""The epoch engine: sweep every shard, merge by a fixed tree, apply, commit. It knows no model by name.

Storage is the truth: a task is told names and numbers, so a lost worker costs only its own sweeps of this epoch.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...io.stores.store import Arrays, DataError, Store, check_free
from . import tasks
from .algorithm import Algorithm, add
from .events import Described, EpochFinished, EpochStarted, RunFinished, RunStarted, ShardSwept, Subscriber
from .executors import Capacity, Executor, balanced_places
from .plan import plan
from .run import RunStore, describe

#: Shards a run is cut into, at most: a fixed number, never a function of the workers.
MAX_SHARDS = 256


@dataclass(frozen=True)
class Training:
    """What to train on what, for how long, and who is told."""

    algorithm: Algorithm
    data: Any
    run: RunStore
    epochs: int
    seed: int = 0
    held_out: Any | None = None
    evaluate_every: int = 10
    config: dict[str, Any] = field(default_factory=dict)
    subscribers: Sequence[Subscriber] = ()
    should_stop: Callable[[list[dict[str, float]]], bool] = lambda history: False


def train(training: Training, executor: Executor) -> str:
    """Train, or go on from the last commit of the same run, and return why it ended.

    Raises DataError when the run's folder holds another run, or when a task does not fit the workers' memory;
    io.exclusive.Locked when another process trains it.
    """
    with training.run.locked(), executor.guarded():
        return _Engine(training, executor).train()


def shards_of(chunks: Sequence[Any], most: int | None = None) -> list[list[int]]:
    """Group chunks into at most ``most`` (None: MAX_SHARDS) shards of consecutive chunks."""
    size = -(-len(chunks) // (most or MAX_SHARDS))
    return [list(range(first, min(first + size, len(chunks)))) for first in range(0, len(chunks), size)]


class _Engine:
    def __init__(self, training: Training, executor: Executor):
        self.training, self.executor = training, executor
        self.algorithm, self.data, self.run = training.algorithm, training.data, training.run
        if not self.data.chunks:
            raise DataError(f"{self.data.url}: has no chunk to train on")
        self.shards = shards_of(self.data.chunks, self.algorithm.shards)
        self.weights = [sum(self.data.chunks[c].tokens for c in s) for s in self.shards]
        self.shared: Arrays | None = None  # of the last step, once it is known
        workers = self._workers()
        self.threads = sum(w.threads for w in workers)
        self.plan = min((plan(self.algorithm, self.data, w) for w in workers), key=lambda p: p.cache)
        self.job = tasks.Job(
            training=uuid.uuid4().hex,
            run=self.run.store.absolute,
            data=Store(self.data.url).absolute,
            part=getattr(self.data, "part", ""),
            algorithm=self.algorithm,
            seed=training.seed,
            cache_bytes=self.plan.cache,
        )

    def _workers(self) -> list[Capacity]:
        return self.executor.capacities(devices=self.algorithm.device != "cpu")

    def _idle(self) -> str:
        """Say that there are more threads than a round has tasks, and the way out; nothing where there are not."""
        at_once = -(-len(self.shards) // self.algorithm.rounds) * self.algorithm.parts
        if at_once >= self.threads:
            return ""
        work = "1 task" if at_once == 1 else f"{at_once} tasks"
        return f"{work} at a time for {self.threads} threads of workers: to use more, {self.algorithm.more_at_once}"

    def train(self) -> str:
        step = self._open()
        rows = self.run.metrics
        rounds = self.algorithm.rounds
        self._tell(
            RunStarted(
                run=self.run.url,
                algorithm=self.algorithm.name,
                epoch=step // rounds,
                epochs=self.training.epochs,
                shards=len(self.shards),
                tokens=sum(self.weights),
                plan=self.plan.as_numbers(),
                idle=self._idle(),
            )
        )
        reason = self._over(step, rows)
        while not reason:
            step += 1
            rows = [*rows, self._epoch(step, rows)]
            self.run.commit(step, rows, keep=rounds + 1)
            reason = self._over(step, rows)
            if step % rounds == 0:
                self._tell(EpochFinished(step // rounds, rows[-1]))
                self._describe(step)
                stopped = self.training.should_stop(rows)
                reason = reason or ("stopped" if stopped else "")
        self._tell(RunFinished(self.run.url, step // rounds, reason, rows[-1] if rows else {}))
        return reason

    def _over(self, step: int, rows: list[dict[str, float]]) -> str:
        """Say why training is over; nothing while it is not."""
        whole = rows and step % self.algorithm.rounds == 0
        if whole and self.algorithm.converged(rows):
            return "converged"
        return "epochs" if step >= self.training.epochs * self.algorithm.rounds else ""

    def _open(self) -> int:
        """Begin the run, or check that the one that is there is this one; return its last committed step."""
        wanted = describe(self.algorithm, self.data, self.training.seed, self.shards, self.training.config)
        store = self.run.store
        check_free(store, "corpus", "matrix", "graph")
        if store.exists("run.json"):
            found = self.run.meta
            if found["fingerprint"] != wanted["fingerprint"]:
                raise DataError(
                    f"{self.run.url}: holds another run ({found['algorithm']} on {found['data']['url']}) with other "
                    f"parameters, data or seed: choose another run folder, or begin this one anew with --overwrite"
                )
        # Also where it goes on: what does not decide the result, such as the number of epochs, may be new.
        store.write_json("run.json", wanted)
        step = self.run.step
        if step < 0:
            self._begin()
            step = 0
        return step

    def _begin(self) -> None:
        self.run.write_shared(0, self.algorithm.begin_shared())
        blocks = [(self.job, j) for j in range(self.algorithm.blocks)]
        for _ in self.executor.run(tasks.begin_block, blocks, key=self._key(0, "begin")):
            pass
        self.run.commit(0, [], keep=1)

    def _epoch(self, step: int, rows: list[dict[str, float]]) -> dict[str, float]:
        started = time.perf_counter()
        rounds = self.algorithm.rounds
        shards = tuple(range((step - 1) % rounds, len(self.shards), rounds))
        epoch = -(-step // rounds)
        self._tell(EpochStarted(epoch, shards))
        sweeps = _Sweeps(self, step, shards)
        applied, reports = sweeps.submit()
        sums, seconds = self._collect(epoch, shards, reports)
        swept = time.perf_counter()
        totals: Arrays = {}
        for part in self.executor.gather(applied):
            totals = add(totals, part)
        if self.shared is None:
            self.shared = self.run.shared(step - 1)
        shared, metrics = self.algorithm.finish(self.shared, totals, sums)
        self.shared = self.algorithm.steer(shared, rows)
        self.run.write_shared(step, self.shared)
        finished = time.perf_counter()
        tokens = sum(self.weights[s] for s in shards)
        row = {
            "step": step,
            "epoch": epoch,
            "tokens": tokens,
            "seconds": finished - started,
            "tokens_per_second": tokens / (finished - started),
            "seconds_merge": finished - swept,
            "training_seconds": (rows[-1]["training_seconds"] if rows else 0.0) + finished - started,
            **{f"seconds_{k}": v for k, v in seconds.items()},
            **metrics,
        }
        return row | self._scores(step)

    def _collect(self, epoch: int, shards: tuple[int, ...], reports: list[Any]) -> tuple[Arrays, dict[str, float]]:
        """Tell of each shard as it is done; add the sums in the shards' order, whatever the order they came in."""
        by_position: dict[int, Arrays] = {}
        seconds: dict[str, float] = {}
        for position, report in self.executor.completed(reports):
            by_position[position] = report["sums"]
            for cause, value in report["seconds"].items():
                seconds[cause] = seconds.get(cause, 0.0) + value
            part, nth = divmod(position, len(shards))
            weight, parts = self.weights[shards[nth]], self.algorithm.parts
            tokens = weight * (part + 1) // parts - weight * part // parts
            self._tell(ShardSwept(epoch, shards[nth], tokens, report["worker"], report["seconds"], report["cached"]))
        sums: Arrays = {}
        for position in sorted(by_position):
            sums = add(sums, by_position[position])
        return sums, seconds

    def _is_evaluated(self, step: int) -> bool:
        epoch, every = step // self.algorithm.rounds, self.training.evaluate_every
        whole = step % self.algorithm.rounds == 0
        return bool(every) and whole and (epoch in (1, self.training.epochs) or epoch % every == 0)

    def _describe(self, step: int) -> None:
        if self.training.subscribers and self._is_evaluated(step):
            lines = self.algorithm.describe(tasks.StoredModel(self.job, step), self.data)
            self._tell(Described(step // self.algorithm.rounds, lines))

    def _scores(self, step: int) -> dict[str, float]:
        if not self._is_evaluated(step):
            return {}
        rounds = self.algorithm.rounds
        metrics: dict[str, float] = {}
        shard_of = {c: s for s, chunks in enumerate(self.shards) for c in chunks}
        state_steps = [step - (step - 1 - shard_of[c]) % rounds for c in range(len(self.data.chunks))]
        parts = [(self.data, state_steps)]
        if self.training.held_out is not None and self.training.held_out.n_tokens:
            parts.append((self.training.held_out, [0] * len(self.training.held_out.chunks)))
        for data, steps in parts:
            place = Store(data.url).absolute, getattr(data, "part", "")
            arguments = [(self.job, place, c, step, steps[c]) for c in range(len(data.chunks))]
            key = self._key(step, f"score-{place[1]}")
            results = dict(self.executor.run(tasks.score_chunk, arguments, key=key))
            sums: Arrays = {}
            for chunk in sorted(results):
                sums = add(sums, results[chunk])
            metrics |= self.algorithm.rate(sums, held_out=data is not self.data) if sums else {}
        return metrics

    def _key(self, step: int, what: str) -> str:
        # A key that was used before returns the old result: a second call of train() needs new ones.
        return f"{what}-{self.run.url}-{step}-{self.job.training}"

    def _tell(self, event: Any) -> None:
        for subscriber in self.training.subscribers:
            subscriber(event)


class _Sweeps:
    """Submits the tasks of one step, each subtree's merges right after its sweeps, so that few deltas wait."""

    def __init__(self, engine: _Engine, step: int, shards: tuple[int, ...]):
        self.engine, self.step, self.shards = engine, step, shards
        executor = engine.executor
        self.places = balanced_places([engine.weights[s] for s in shards], executor.capacities())
        self.reports: list[Any] = []

    def submit(self) -> tuple[list[Any], list[Any]]:
        """Return the handles of the applied blocks and of the shards' reports."""
        applied = []
        for part in range(self.engine.algorithm.parts):
            roots = self._tree(part, 0, len(self.shards))
            # Applied before the next part is swept: Dask prefers what was submitted first.
            applied += [
                self._apply(j, root) for j, root in zip(self.engine.algorithm.blocks_of(part), roots, strict=True)
            ]
        return applied, self.reports

    def _apply(self, block: int, root: Any) -> Any:
        engine, key = self.engine, self.engine._key(self.step, f"apply-{block}")
        return engine.executor.submit(tasks.apply_block, engine.job, block, self.step, root, key=key)

    def _tree(self, part: int, first: int, last: int) -> list[Any]:
        """Return a handle a block of the merged deltas of shards[first:last]."""
        if last - first == 1:
            return self._leaf(part, first)
        middle = (first + last + 1) // 2
        left, right = self._tree(part, first, middle), self._tree(part, middle, last)
        engine, submit = self.engine, self.engine.executor.submit
        return [
            submit(
                tasks.merge_deltas,
                engine.algorithm,
                a,
                b,
                key=engine._key(self.step, f"merge-{part}-{j}-{first}-{last}"),
            )
            for j, (a, b) in enumerate(zip(left, right, strict=True))
        ]

    def _leaf(self, part: int, position: int) -> list[Any]:
        engine, submit = self.engine, self.engine.executor.submit
        shard, place = self.shards[position], self.places[position]
        chunks = tuple(engine.shards[shard])
        key = engine._key(self.step, f"sweep-{shard}-{part}")
        swept = submit(tasks.sweep_shard, engine.job, chunks, self.step, part, key=key, near=place or None)
        self.reports.append(submit(tasks.take_report, swept, key=f"report-{key}"))
        return [
            submit(tasks.take_delta, swept, j, key=f"delta-{j}-{key}")
            for j, _ in enumerate(engine.algorithm.blocks_of(part))
        ]
