"""Two processes train the same run on a cluster that loses workers. Whatever happens, every commit is complete."""

from functools import cache
from typing import NamedTuple

import numpy as np
from corpusmill.io.errors import DataError
from corpusmill.io.stores.corpus import Corpus
from corpusmill.pipeline.engine.algorithm import Merge
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.executors import Synchronous
from corpusmill.pipeline.engine.run import RunStore
from helpers.toy import Tally, equal_blocks, write_toy_corpus

from .calls import EXCUSED, Caller
from .cluster import Cluster, Simulated
from .object_store import PROTOCOL, Bucket, SimulatedStore, StoredObject
from .world import World

EPOCHS = 3
CHUNKS = 3
CORPUS = f"{PROTOCOL}://bucket/corpus"
RUN = f"{PROTOCOL}://bucket/run"


class TreeTally(Tally):
    """Merges along the tree."""


class AnyOrder(Merge):
    """Adds integers in any order."""

    def exact_bytes(self, step: int) -> int:
        return 0


class AnyOrderTally(Tally):
    """Merges in any order, as sums of integers allow."""

    @property
    def merge(self) -> Merge:
        return AnyOrder()


ALGORITHMS = (
    TreeTally(bounds=equal_blocks(2)),
    AnyOrderTally(bounds=equal_blocks(2)),
    TreeTally(bounds=equal_blocks(2), rounds=2),
    TreeTally(bounds=equal_blocks(2), n_ranges=2),
)


class Step(NamedTuple):
    """The arrays that a commit must have."""

    blocks: list[np.ndarray]
    total: int


@cache
def stored_corpus() -> dict[str, StoredObject]:
    """Return the objects of a corpus."""
    World(0)
    SimulatedStore.bucket = Bucket()
    write_toy_corpus(CORPUS, n_chunks=CHUNKS, documents=3)
    return SimulatedStore.bucket.objects


@cache
def expected_steps(number: int) -> dict[int, Step]:
    """Return the steps of an undisturbed run."""
    algorithm = ALGORITHMS[number]
    corpus = stored_corpus()
    world = World(0, is_faulty=False)
    SimulatedStore.bucket = Bucket()
    SimulatedStore.bucket.objects |= corpus
    run = RunStore(RUN)
    steps = {}

    def keep(path: str, content: bytes | None) -> None:
        if path.endswith("/HEAD"):
            with world.observing():
                if run.step >= 0:
                    steps[run.step] = read_step(run, run.step, algorithm.n_blocks)

    SimulatedStore.bucket.watchers.append(keep)
    training = Training(algorithm, Corpus(CORPUS), run, EPOCHS, seed=7, evaluate_every=1)
    world.run_alone(lambda: train(training, Synchronous()))
    return steps


def read_step(run: RunStore, step: int, n_blocks: int) -> Step:
    """Read a committed step."""
    blocks = [run.block(step, block)["counts"] for block in range(n_blocks)]
    return Step(blocks, int(run.shared(step)["total"]))


class TrainingScenario:
    """Trains a run with one or two processes, and reads it with another one."""

    def __init__(self, world: World):
        self.world = world
        self.number = world.random.randrange(len(ALGORITHMS))
        self.algorithm = ALGORITHMS[self.number]
        self.steps = expected_steps(self.number)
        corpus = stored_corpus()
        World.current = world
        SimulatedStore.bucket = Bucket()
        SimulatedStore.bucket.objects |= corpus
        SimulatedStore.bucket.watchers.append(self._watch)
        self.step = -1
        self.committers: list[str] = []
        cluster = Cluster(world, world.random.choice((1, 2, 3)))
        world.add_fault("process stopped", world.stop_a_process)
        world.add_fault("clock moved", world.move_clock)
        self.callers = [Caller(world, "trainer", lambda: self._train(cluster))]
        if world.random.random() < 0.6:
            self.callers.append(Caller(world, "rival", lambda: self._train(cluster)))
        world.start("reader", world.start_process("reader"), self._read)

    def _train(self, cluster: Cluster) -> None:
        run = RunStore(RUN)
        training = Training(self.algorithm, Corpus(CORPUS), run, EPOCHS, seed=7, evaluate_every=1)
        ended = train(training, Simulated(cluster))
        self.world.check(ended == "epochs", f"training ended with {ended}")

    def _read(self) -> None:
        """Read the run from time to time, as a report does."""
        while not all(caller.is_done for caller in self.callers):
            self.world.sleep(self.world.random.choice((0.5, 3.0, 10.0)))
            try:
                run = RunStore(RUN)
                step = run.step
                if step >= 0:
                    self._compare(step, read_step(run, step, self.algorithm.n_blocks))
            except EXCUSED:
                # Steps that are too old are deleted.
                continue

    def _compare(self, step: int, found: Step) -> None:
        wanted = self.steps[step]
        same = [np.array_equal(a, b) for a, b in zip(found.blocks, wanted.blocks, strict=True)]
        self.world.check(all(same) and found.total == wanted.total, f"step {step} has other bits")

    def _watch(self, path: str, content: bytes | None) -> None:
        """Check the run after each change of its HEAD."""
        if not path.endswith("/HEAD"):
            return
        with self.world.observing():
            run = RunStore(RUN)
            try:
                step = run.step
                if step < 0:
                    return
                rows = [row["step"] for row in run.metrics]
                found = read_step(run, step, self.algorithm.n_blocks)
            except DataError as error:
                self.world.check(False, f"a commit is incomplete: {error}")
        self.world.check(step >= self.step, f"the commit of step {self.step} is lost: HEAD names step {step}")
        self.world.check(rows == list(range(1, step + 1)), f"step {step} has metrics of the steps {rows}")
        self._compare(step, found)
        self.step = step
        self._check_owner()

    def _check_owner(self) -> None:
        process = self.world.process
        name = process.name if process is not None else "network"
        if self.committers and self.committers[-1] != name:
            self.world.check(name not in self.committers, f"{name} commits after {self.committers[-1]} took over")
        self.committers.append(name)

    def close(self) -> None:
        """Free what the scenario holds."""

    def check_end(self) -> None:
        """Check the run after all processes have ended."""
        with self.world.observing():
            run = RunStore(RUN)
            step = EPOCHS * self.algorithm.rounds
            self.world.check(run.step == step, f"the run ends at step {run.step} of {step}")
            self._compare(step, read_step(run, step, self.algorithm.n_blocks))
