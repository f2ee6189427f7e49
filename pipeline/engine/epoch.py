"""The epoch engine: sweep all shards, merge their deltas along a fixed tree, apply them to the model, commit.

The store is the only truth. Tasks exchange names, numbers and deltas, so a lost worker costs only the sweeps that it
computed in the current epoch.
"""

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from ...io.errors import DataError
from ...io.stores.conditional import read_commit
from ...io.stores.filesystems import REQUESTS
from ...io.stores.in_memory import StoreInMemory
from ...io.stores.store import DATA_KINDS, Arrays, JsonObject, check_free
from ...kernels.errors import DeviceError
from .algorithm import AnyAlgorithm, Metrics, add, add_numbers, cut_of, nbytes, recut
from .data import TrainingData, count_shards, equal_blocks, reference, shard_chunks, unit_of
from .events import (
    CellsTrained,
    Described,
    EpochFinished,
    EpochStarted,
    Event,
    RunFailed,
    RunFinished,
    RunStarted,
    ShardSwept,
)
from .executors import Executor
from .grid import CellAlgorithm, ChunkGridAlgorithm
from .memory import COMPILING_BYTES, Capacity, begin_peak, peak_bytes
from .plan import describe_devices, must_compile, plan_run
from .run import OwnedRun, blocks_folder, check_run, describe, describe_changes, is_same_run, name_blocks
from .sweeps import RangeSweep
from .training import Training
from .worker import tasks
from .worker.tasks import Diverged, SweepPhase, check_finite

#: Shared arrays of at most this size travel with the tasks, so that these need not wait until they are stored.
SHARED_BYTES = 1 << 16


#: Share of the sweeps in the time of a step of a grid, for the display of progress. Cells take the rest.
SWEEP_SHARE = 0.1
#: Tasks that score chunks, for each thread of the workers. With one task per chunk, large corpora would have too many.
SCORES_PER_THREAD = 4


def train(training: Training, executor: Executor) -> str:
    """Train, or continue the run from its last commit, and return why it ended: "epochs", "converged" or "stopped".

    Raises DataError if the folder holds another run or if a task does not fit into the workers' memory, and
    `io.errors.Locked` if another process trains the run.
    """
    with training.run.locked(), executor.guarded():
        # The lock has made the folder.
        executor.check_folders([], written=[training.run.store.absolute])
        engine = _Engine(training, executor)
        with engine.owning_the_run():
            return engine.run_steps()


@contextlib.contextmanager
def _interrupts_in_kernels() -> Iterator[None]:
    """Raise the exception of a signal, such as KeyboardInterrupt, that arrived while a kernel was called.

    Python raises SystemError instead, because the kernel has a result although there is an exception.
    """
    try:
        yield
    except SystemError as error:
        interrupt = error.__cause__
        if interrupt is None or isinstance(interrupt, Exception):
            raise
        raise interrupt from None


class _Engine:
    """Trains one run. A *step* is one commit; an epoch has ``needs.rounds`` steps."""

    #: The run and what its tasks need, once this process owns the run.
    run: OwnedRun
    job: tasks.Job
    #: The last step that was trained, and the metrics of all steps so far.
    step: int
    rows: list[Metrics]
    #: Deletes the files of earlier steps.
    pruner: ThreadPoolExecutor

    def __init__(self, training: Training, executor: Executor):
        self.executor = executor
        self.algorithm = training.algorithm
        self.data: TrainingData = training.data
        self.name = uuid.uuid4().hex  # of this call of `train`; see `Job`
        if not self.data.chunks:
            raise DataError(f"{self.data.title}: has no chunk to train on")
        n_chunks = len(self.data.chunks)
        if isinstance(self.algorithm, ChunkGridAlgorithm) and self.algorithm.n_blocks > n_chunks:
            raise ValueError(f"{self.algorithm.n_blocks} blocks for {n_chunks} chunks: each row of a grid needs one")
        needs = self.algorithm.needs(self.data, 1)
        workers = self.executor.capacities(devices=needs.device != "cpu")
        store = training.run.store
        check_free(store, *DATA_KINDS)
        self.found, self.tag = read_commit(store, "run.json")
        #: As the run was begun. Its identity has this cut, and the blocks of the last step may have another one.
        self.begun = self.algorithm
        if self.found is not None:
            check_run(self.found, training.run.url)
            if training.cut is not None:
                self.begun = _cut_as_stored(self.algorithm, self.found["parameters"])
        stored = _cut_as_stored(self.begun, (self.found or {}).get("cut", cut_of(self.begun)))
        self.stored_cut = cut_of(stored)
        if training.cut is not None:
            self.algorithm = stored
        self.algorithm, self.plan = plan_run(self.algorithm, training.cut, self.data, workers, training.smaller)
        if self.found is None:
            self.begun = self.algorithm
        self.training = replace(training, algorithm=self.algorithm)
        self.needs = self.algorithm.needs(self.data, len(workers))
        n_shards = count_shards(n_chunks, needs.shards)
        self.shards = [list(shard_chunks(n_chunks, needs.shards, shard)) for shard in range(n_shards)]
        if needs.rounds > n_shards:
            raise ValueError(
                f"rounds is {needs.rounds}, but there are {n_shards} shards, and each round sweeps at "
                f"least one: choose fewer rounds, or ingest with a smaller chunk_tokens"
            )
        if isinstance(self.algorithm, CellAlgorithm) and needs.ranges != 1:
            raise ValueError(f"ranges is {needs.ranges}: a grid is swept in one range, so leave it out")
        self.shard_tokens = [sum(self.data.chunks[c].tokens for c in shard) for shard in self.shards]
        self.shared: Arrays | None = None  # of the last step, once it is known
        self._stored_shared = 0  # the last step whose shared arrays are stored
        self._awaits_commit = False  # whether the last step is trained, but not committed yet
        self._pruning: Future[None] | None = None
        self.grid = self.algorithm if isinstance(self.algorithm, CellAlgorithm) else None
        self.threads = sum(self._training_threads(worker, False) for worker in workers)
        # A device trains more cells at the same time than its worker has threads.
        self.at_once = sum(self._training_threads(worker, bool(worker.device)) for worker in workers)
        self.devices = describe_devices(self.needs, self.data, workers, self.grid is not None)
        # The choice of blocks does not depend on these, which are there for a while.
        if must_compile(self.needs.kernels, bool(self.devices)):
            self.plan = replace(self.plan, compiling=COMPILING_BYTES)
        if executor.runs_here:
            self.plan = replace(self.plan, process=max(self.plan.process, peak_bytes("VmRSS")))

    def _training_threads(self, worker: Capacity, has_device: bool) -> int:
        if self.grid is None:
            return worker.threads
        return self.grid.cells_at_once(worker.threads, has_device and self.needs.device != "cpu")

    # --- the run ---

    @contextlib.contextmanager
    def owning_the_run(self) -> Iterator[None]:
        """Context manager: own the run, report an error, and leave the run's folder complete and clean."""
        with ThreadPoolExecutor(1, "corpusmill-prune") as self.pruner:
            try:
                self.step = self._open()
                self.rows = self.run.metrics
                with self._reporting_failures(), _interrupts_in_kernels():
                    yield
            finally:
                self.executor.end_run(self.name)
        # The run's folder is complete when training ends, without a step that was begun and not needed.
        self._check_pruning()
        self.run.prune(is_over=True)

    @contextlib.contextmanager
    def _reporting_failures(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            reason = "failed" if isinstance(error, Exception) else "stopped"
            event = RunFailed(self.run.url, self.step // self.needs.rounds, reason)
            for callback in self.training.callbacks:
                # The callback may be what failed. Its second error must not hide the first one.
                with contextlib.suppress(Exception):
                    callback(event)
            if isinstance(error, Diverged):
                raise Diverged(f"{error}; {self.training.advice.divergence}") from error
            if isinstance(error, DeviceError):
                # After a fault of a kernel, a process cannot use its device any more.
                raise DeviceError(
                    f"{error}; {self.run.url} has the epochs up to {event.epoch}: start the workers, or "
                    f"this process, again, and train with the same parameters, or with device 'cpu'; if memory was "
                    f"short, fewer threads_per_worker need less; without run=FOLDER, or run.url, no epoch is kept"
                ) from error
            raise

    def run_steps(self) -> str:
        """Train until there is a reason to end, and return it."""
        self._emit(
            RunStarted(
                run=self.run.url,
                algorithm=self.algorithm.name,
                epoch=self.step // self.needs.rounds,
                epochs=self.training.epochs,
                shards=len(self.shards),
                tokens=sum(self.shard_tokens),
                plan=self.plan.as_numbers(),
                idle=self._idle_warning(),
                history=tuple(self.rows),
                devices=self.devices,
                unit=unit_of(self.data.kind),
                compiles=bool(self.plan.compiling),
            )
        )
        self.executor.on_each_worker(begin_peak)
        try:
            reason = self._reason_to_end()
            while not reason:
                row = self._train_step(self.step + 1)
                if row is None:
                    reason = "stopped"
                else:
                    self.step += 1
                    self.rows = [*self.rows, row]
                    self._awaits_commit = True
                    reason = self._reason_to_end()
            if self._awaits_commit:
                peak = max(self.executor.on_each_worker(peak_bytes), default=0)
                measured = {"memory_planned": float(self.plan.total), "memory_peak": float(peak)}
                self.rows = [*self.rows[:-1], self.rows[-1] | measured]
        finally:
            # Also after an error, because the next step may fail before it commits this one.
            self._commit_last()
        last_row = self.rows[-1] if self.rows else {}
        self._emit(RunFinished(self.run.url, self.step // self.needs.rounds, reason, last_row))
        return reason

    def _commit_last(self) -> bool:
        """Commit the last step if it is not committed yet; return whether a callback stops training after it."""
        if not self._awaits_commit:
            return False
        self._awaits_commit = False  # now, because a commit that fails is not repeated
        self._store_shared(self.step)
        self._commit(self.step, self.rows)
        rounds = self.needs.rounds
        if self.step % rounds:
            return False
        epoch = self.step // rounds
        is_stopped = self._emit(EpochFinished(epoch, self.rows[-1]))
        if self.training.callbacks and self._is_scored(self.step, self.rows):
            lists = self.algorithm.scores.describe(tasks.StepModel(self.job, self.step), self.data)
            self._emit(Described(epoch, lists))
        return is_stopped

    def _idle_warning(self) -> str:
        """Return a warning if the cluster has more threads than a round has tasks, else nothing."""
        n_tasks = -(-len(self.shards) // self.needs.rounds)
        if self.grid is not None:
            n_tasks = self.grid.n_blocks
        if n_tasks >= self.threads:
            return ""
        work = "1 task" if n_tasks == 1 else f"{n_tasks} tasks"
        return f"{work} at a time for {self.threads} threads of workers: {self.training.advice.idle}"

    def _reason_to_end(self) -> str:
        """Return why training ends with the last step; nothing if it continues."""
        is_whole_epoch = self.step % self.needs.rounds == 0
        if self.rows and is_whole_epoch and self.algorithm.scores.converged(self.rows):
            return "converged"
        if self.step >= self.training.epochs * self.needs.rounds:
            return "epochs"
        return ""

    def _commit(self, step: int, rows: list[Metrics]) -> None:
        """Commit a step. Its predecessors are deleted during the next steps."""
        self.run.commit(step, rows, keep=self.needs.rounds + 1)
        # If a deletion takes longer than a step, the next one deletes the files of several steps.
        if self._pruning is None or self._pruning.done():
            self._check_pruning()
            self._pruning = self.pruner.submit(self.run.prune)

    def _check_pruning(self) -> None:
        """Wait for the last deletion, and raise its error."""
        if self._pruning is not None:
            self._pruning.result()

    def _open(self) -> int:
        """Become the owner of the run, or of a new one in its folder; return its last committed step."""
        training = self.training
        description = describe(self.begun, self.data, training.previous, training.seed, self.shards, training.config)
        store = training.run.store
        found = self.found
        if found is not None:
            check_run(found, training.run.url)
            if not is_same_run(found, description):
                data = found["data"].get("title", found["data"]["url"])
                changes = describe_changes(found, description, training.advice.names)
                raise DataError(
                    f"{training.run.url}: holds another run ({found['algorithm']} on {data}), which differs in "
                    f"{changes}: train with the same parameters and data, choose another folder, or delete that run "
                    f"(on the command line, use 'corpusmill train CONFIG --overwrite')"
                )
            self._check_length()
        # A HEAD without run.json is left over from a run whose deletion was interrupted.
        self.run = replace(training.run.take_over(is_new=found is None), blocks=blocks_folder(found or {}))
        # Written again when a run is resumed: the data may have moved, and the number of epochs may be new.
        is_cut_again = found is not None and cut_of(self.algorithm) != self.stored_cut
        if is_cut_again or cut_of(self.algorithm) != cut_of(self.begun):
            description["cut"] = cut_of(self.algorithm)
            description["blocks"] = name_blocks(description["cut"]) if is_cut_again else self.run.blocks
        if is_cut_again and self.run.step >= 0:
            self._recut(description)
        else:
            self._write_meta(description)
        self.job = tasks.Job(
            training=training.for_tasks(self.run.for_tasks()),
            n_chunks=len(self.data.chunks),
            needs=self.needs,
            # A store in memory does not make threads wait, so other threads would only cost time.
            plan=replace(self.plan, buffers=0) if isinstance(store, StoreInMemory) else self.plan,
            name=self.name,
        )
        if self.run.step < 0:
            self._begin()
        return self.run.step

    def _write_meta(self, description: JsonObject) -> None:
        """Write run.json. It has the present cut of the model if that is not the one that the run was begun with."""
        self.run.write_meta(description, self.tag)
        self.run = replace(self.run, blocks=blocks_folder(description))

    def _recut(self, description: JsonObject) -> None:
        """Write the blocks of the last step again, as the model is cut now.

        They are in another folder until run.json is replaced. So readers, and a run that is interrupted here, have the
        former blocks.
        """
        before = self.run.for_tasks()
        after = replace(before, blocks=blocks_folder(description))
        bounds = self.stored_cut["bounds"]
        arguments = [
            (before, after, self.run.step, bounds, self.algorithm, block) for block in range(self.algorithm.n_blocks)
        ]
        self.executor.map(tasks.recut_block, arguments, name="recut")
        self._write_meta(description)

    def _check_length(self) -> None:
        """Raise DataError if the run has more epochs than are wanted now.

        Its model cannot go back to fewer epochs. To return it anyway would make the result depend on what was trained
        in this folder before.
        """
        step = self.training.run.step
        if step > self.training.epochs * self.needs.rounds:
            trained = -(-step // self.needs.rounds)
            raise DataError(
                f"{self.training.run.url}: has {trained} epochs already, and max_iter is {self.training.epochs}: raise "
                f"max_iter to {trained}, choose another folder, or delete that run (on the command line, use "
                f"'corpusmill train CONFIG --overwrite')"
            )

    def _begin(self) -> None:
        self.run.write_shared(0, self.algorithm.begin_shared(self.data, self.training.previous))
        n_blocks = self.algorithm.n_blocks
        # Blocks of a new model often share much work. With a previous model, each has to read a part of that.
        bounds = equal_blocks(n_blocks, 1 if self.training.previous is None else min(n_blocks, self.threads))
        arguments = [(self.job, range(first, stop)) for first, stop in pairwise(bounds)]
        self.executor.map(tasks.begin_blocks, arguments, name="begin")
        self._commit(0, [])

    # --- one step ---

    def _train_step(self, step: int) -> Metrics | None:
        """Train a step, and return its row of metrics; None if a callback stops training after the step before.

        The step before is committed while workers sweep, so that they do not wait for the disk or the store. They need
        only its blocks, which are written, and its shared arrays, which are written or travel with the tasks.
        """
        started = time.perf_counter()
        phase = SweepPhase(self.job, step)
        shards = phase.shards
        sums: Arrays = {}
        totals: Arrays = {}
        measured: Metrics = {}
        seconds_merge = 0.0
        seconds_waited = 0.0
        for range_index in range(self.needs.ranges):
            sweep = self._range_sweep(step, range_index)
            with sweep.running() as finish:
                if range_index == 0:
                    if self._commit_last():
                        return None
                    self._emit(EpochStarted(self.job.epoch(step), tuple(shards)))
                finish()
            # In the order of the shards, and then of the blocks, so that floating-point sums have the same bits in
            # every run.
            for report in sweep.reports:
                sums = add(sums, report["sums"])
                add_numbers(measured, {f"seconds_{cause}": value for cause, value in report["seconds"].items()})
                add_numbers(measured, report["device"])
                add_numbers(measured, report["requests"])
            seconds_waited += sweep.seconds_waited
            merging = time.perf_counter()
            updated = sweep.update()
            for applied in updated:
                totals = add(totals, applied.totals)
                sums = add(sums, applied.sums)
                add_numbers(measured, applied.measured)
            # The cells of a grid are trained, and blocks updated, by all threads at the same time.
            training = sum(applied.measured.get("seconds_kernel", 0.0) for applied in updated) / self.at_once
            seconds_merge += sweep.seconds_update + time.perf_counter() - merging - training
        metrics = self._reduce(step, totals, sums)
        # The requests of this process: those of this step, and those of the commit of the last one.
        add_numbers(measured, REQUESTS.take())
        elapsed = time.perf_counter() - started - seconds_waited
        tokens = sum(self.shard_tokens[s] for s in shards) if phase.has_sweeps else sum(self.shard_tokens)
        before = self.rows[-1]["training_seconds"] if self.rows else 0.0
        row = {
            "step": step,
            "epoch": self.job.epoch(step),
            "tokens": tokens,
            "seconds": elapsed,
            "tokens_per_second": tokens / elapsed,
            "seconds_merge": seconds_merge,
            "training_seconds": before + elapsed,
            **measured,
            **metrics,
        }
        return row | self._scores(step, [*self.rows, row])

    def _range_sweep(self, step: int, range_index: int) -> RangeSweep:
        """Return the sweep of the shards for one range of blocks. It emits one event per shard."""
        n_ranges = self.needs.ranges
        shared = self.shared
        if shared is not None and nbytes(shared) > SHARED_BYTES:
            shared = None
        phase = SweepPhase(self.job, step, range_index, shared)
        tokens = [self.shard_tokens[shard] for shard in phase.shards]
        # For the display of progress, the time of a step is divided between sweeps and cells.
        swept_share = 1.0
        cell_tokens = 0.0
        if self.grid is not None and phase.has_cells:
            swept_share = SWEEP_SHARE if phase.has_sweeps else 0.0
            in_cells = (1 - swept_share) * sum(tokens or self.shard_tokens)
            cell_tokens = in_cells / (self.grid.passes * self.grid.n_blocks**2)

        def emit(position: int, report: tasks.ShardProgress) -> None:
            # The shares of the ranges add up to the tokens of the shard.
            share = tokens[position] * (range_index + 1) // n_ranges - tokens[position] * range_index // n_ranges
            event = ShardSwept(
                self.job.epoch(step),
                phase.shards[position],
                share * swept_share,
                report["worker"],
                report["seconds"],
                report["cached"],
            )
            self._emit(event)

        def emit_cells(worker: str, cells: int, seconds: float) -> None:
            self._emit(CellsTrained(self.job.epoch(step), cells, cells * cell_tokens, worker, {"kernel": seconds}))

        return RangeSweep(self.executor, phase, tokens, emit, emit_cells)

    def _reduce(self, step: int, totals: Arrays, sums: Arrays) -> Metrics:
        if self.shared is None:
            self.shared = self.run.shared(step - 1)
        # They may overflow although the model does not, and the metrics would then be wrong.
        check_finite(self.job.epoch(step), "the totals of the model", totals)
        self.shared, metrics = self.algorithm.reduce(self.shared, totals, sums, self.rows)
        check_finite(self.job.epoch(step), "the shared part of the model", self.shared)
        # Else they are written when the step is committed, while workers sweep.
        if nbytes(self.shared) > SHARED_BYTES:
            self._store_shared(step)
        return metrics

    def _store_shared(self, step: int) -> None:
        """Write the shared arrays of the last step, unless they are stored already."""
        if self._stored_shared < step and self.shared is not None:
            tasks.write_shared(self.job, step, self.shared)
            self._stored_shared = step

    # --- scores ---

    def _is_scored(self, step: int, rows: list[Metrics]) -> bool:
        """Return whether the model is scored after a step: the first and the last epoch, and some between them.

        ``rows`` has the metrics of all steps until then.
        """
        training = self.training
        if not training.evaluate_every or step % self.needs.rounds:
            return False
        epoch = self.job.epoch(step)
        is_planned = epoch in (1, training.epochs) or epoch % training.evaluate_every == 0
        # Training ends with the epoch that converges, so it is the last one.
        return is_planned or self.algorithm.scores.converged(rows)

    def _scores(self, step: int, rows: list[Metrics]) -> Metrics:
        """Return the scores of the model after a step; none if it is not due. ``rows`` includes that of the step."""
        if not self._is_scored(step, rows):
            return {}
        started = time.perf_counter()
        # The tasks that score read the shared arrays from the store.
        self._store_shared(step)
        metrics = self._score(self.data, step, held_out=False)
        held_out = self.training.held_out
        if held_out is not None and held_out.n_tokens:
            metrics |= self._score(held_out, step, held_out=True)
        return metrics | {"seconds_evaluate": time.perf_counter() - started}

    def _score(self, data: TrainingData, step: int, held_out: bool) -> Metrics:
        # The step at which each chunk was swept last; 0 for chunks that never are.
        state_steps = [0] * len(data.chunks)
        for number, shard in enumerate(() if held_out else self.shards):
            for chunk in shard:
                state_steps[chunk] = step - (step - 1 - number) % self.needs.rounds
        scores = self.algorithm.scores
        chunks: Sequence[int] = range(len(data.chunks))
        most = scores.most_chunks
        if not held_out and most is not None and len(chunks) > most:
            chunks = [i * len(chunks) // most for i in range(most)]
        size = max(1, len(chunks) // (SCORES_PER_THREAD * self.threads))
        arguments = []
        for first in range(0, len(chunks), size):
            scored_chunks = list(chunks[first : first + size])
            steps = [state_steps[chunk] for chunk in scored_chunks]
            arguments.append((self.job, reference(data), scored_chunks, step, steps))
        scored = self.executor.map(tasks.score_chunks, arguments, name=f"score-{data.part}-{self.name}-{step}")
        sums: Arrays = {}
        for chunk_sums in chain.from_iterable(scored):
            sums = add(sums, chunk_sums)
        return scores.metrics(sums, held_out) if sums else {}

    # --- helpers ---

    def _emit(self, event: Event) -> bool:
        """Call every callback; return whether one of them returned True."""
        answers = [callback(event) for callback in self.training.callbacks]
        return any(answers)


def _cut_as_stored(algorithm: AnyAlgorithm, cut: Mapping[str, Any]) -> AnyAlgorithm:
    """Return the algorithm with the blocks of a stored run, so that the run can be resumed.

    If the run has another number of rows, the algorithm is returned as it is: `_open` refuses to resume such a run.
    """
    if cut["bounds"][-1] != algorithm.n_rows:
        return algorithm
    return recut(algorithm, cut)
