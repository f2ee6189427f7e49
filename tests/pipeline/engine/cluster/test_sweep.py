"""Sweeps on many workers: few tasks, no waiting for slow workers, and the same bits whichever workers die."""

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import dask
import numpy as np
import pytest
from corpusmill import LDA, ingest
from corpusmill.pipeline.engine.algorithm import Merge
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.engine.cluster.pool_sweeper import PoolSweeper
from corpusmill.pipeline.engine.cluster.watch import TaskLost, workers_of
from corpusmill.pipeline.engine.epoch import Training, _Engine, train
from corpusmill.pipeline.engine.events import ShardSwept
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.run import RunStore
from distributed import Client, LocalCluster, Status, Worker, get_worker
from distributed.diagnostics.plugin import SchedulerPlugin
from helpers.toy import Tally, equal_blocks, model_of, write_toy_corpus

pytestmark = pytest.mark.usefixtures("forking")

N_CHUNKS = 16
EPOCHS = 3


class AnyOrder(Merge):
    """Adds integers in any order."""

    def exact_bytes(self, step):
        return 0


@dataclass(frozen=True, kw_only=True)
class Fragile(Tally):
    """Kills its worker in a chosen method and step, once. Its sweeps may take time, more on one of the workers."""

    name: ClassVar[str] = "fragile"

    bounds: tuple[int, ...] = equal_blocks(4)
    killed: tuple[tuple[str, int], ...] = ()  # (method, number of the call in this run)
    folder: str = ""
    deadly_chunk: int = -1  # kills its worker each time
    seconds: float = 0.0
    slow_worker: str = ""
    gate: str = ""  # a file that sweeps wait for; if there is one, only the first epoch takes time
    waiting_workers: int = 0  # in the first epoch, sweeps wait until as many workers sweep
    is_tree: bool = True

    @property
    def merge(self):
        return Merge() if self.is_tree else AnyOrder()

    def kill_if_listed(self, method):
        if not self.killed:
            return
        number = len(list(Path(self.folder).glob(f"{method}-*")))
        Path(self.folder, f"{method}-{time.monotonic_ns()}").touch()
        if (method, number) in self.killed:
            os.kill(os.getpid(), signal.SIGKILL)

    def sweep(self, model, chunk, state, deltas, address):
        self.kill_if_listed("sweep")
        if chunk.number == self.deadly_chunk:
            os.kill(os.getpid(), signal.SIGKILL)
        while self.gate and chunk.number and not Path(self.gate).exists():
            time.sleep(0.1)
        if self.waiting_workers and chunk.number and address.step == 1:
            Path(self.folder, f"worker-{os.getpid()}").touch()
            while len(list(Path(self.folder).glob("worker-*"))) < self.waiting_workers:
                time.sleep(0.1)
        if self.seconds and not (self.gate and address.step > 1):
            is_slow = str(get_worker().name) == self.slow_worker
            time.sleep(self.seconds * (10 if is_slow else 1))
        return super().sweep(model, chunk, state, deltas, address)

    def apply(self, *arguments):
        self.kill_if_listed("apply")
        return super().apply(*arguments)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_toy_corpus(tmp_path_factory.mktemp("toy") / "corpus", n_chunks=N_CHUNKS, documents=4)


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory):
    return trained(corpus, tmp_path_factory.mktemp("expected") / "run", Tally())


def trained(corpus, folder, algorithm, executor=None, **options):
    run = RunStore(str(folder))
    train(Training(algorithm, corpus, run, EPOCHS, seed=7, **options), executor or Synchronous())
    return model_of(run, algorithm)


# --- tasks ---


class TaskCounter(SchedulerPlugin):
    """Counts the tasks of each step that finished."""

    name = "task-counter"

    def __init__(self):
        self.counts = Counter()

    def transition(self, key, start, finish, *args, **kwargs):
        kind, _, step = str(key).split("-")[:3]
        if kind in ("sweep", "update") and start == "processing" and finish == "memory":
            self.counts[int(step)] += 1


def train_and_count_tasks(corpus, folder, n_workers, threads):
    """Train on a cluster of threads; return the model, and the number of tasks of each step."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=threads, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(TaskCounter())
        found = trained(corpus, folder, Fragile(), OnDask(client), evaluate_every=0)
        counts = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["task-counter"].counts)
    return found, counts


def test_an_epoch_takes_at_most_two_tasks_per_worker(corpus, expected, tmp_path):
    n_workers = 5
    found, counts = train_and_count_tasks(corpus, tmp_path / "run", n_workers, threads=1)
    np.testing.assert_array_equal(found, expected)
    assert sorted(counts) == [1, 2, 3]
    assert all(n_workers < count <= 2 * n_workers for count in counts.values()), counts


def test_an_epoch_on_one_worker_takes_one_task(corpus, expected, tmp_path):
    found, counts = train_and_count_tasks(corpus, tmp_path / "run", 1, threads=2)
    np.testing.assert_array_equal(found, expected)
    assert counts == {1: 1, 2: 1, 3: 1}


def test_all_workers_are_found_although_dask_describes_five(tmp_path):
    with (
        LocalCluster(n_workers=7, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        # Another thread of the client replaces its description every two seconds.
        client.sync(client._update_scheduler_info)
        assert len(client._scheduler_identity["workers"]) < 7
        assert sorted(workers_of(client)) == sorted(worker.address for worker in cluster.workers.values())
        assert len(OnDask(client).capacities()) == 7


def test_workers_are_planned_once_if_they_are_equal(corpus, tmp_path):
    estimates = []

    @dataclass(frozen=True, kw_only=True)
    class Counted(Fragile):
        def memory(self, data, chunk):
            estimates.append(chunk)
            return super().memory(data, chunk)

    numbers = []
    for n_workers in (1, 4):
        with (
            LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            estimates.clear()
            _Engine(Training(Counted(), corpus, RunStore(str(tmp_path / "run")), 1), OnDask(client))
            numbers.append(len(estimates))
    assert numbers[0] == numbers[1]


def test_threads_of_a_worker_sweep_together(corpus, expected, tmp_path):
    with (
        LocalCluster(n_workers=1, threads_per_worker=4, processes=False, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        started = time.perf_counter()
        found = trained(corpus, tmp_path / "run", Fragile(seconds=0.2), OnDask(client))
        elapsed = time.perf_counter() - started
    np.testing.assert_array_equal(found, expected)
    assert elapsed < 0.8 * EPOCHS * N_CHUNKS * 0.2


# --- slow workers, and workers that join ---


@pytest.mark.slow
def test_a_slow_worker_sweeps_few_shards(corpus, expected, tmp_path, cluster_of):
    client = cluster_of(2)
    slow = str(max(worker["name"] for worker in client.scheduler_info()["workers"].values()))
    swept = []

    def note(event):
        if isinstance(event, ShardSwept) and event.epoch == EPOCHS:
            swept.append(event.worker)

    algorithm = Fragile(seconds=0.05, slow_worker=slow)
    found = trained(corpus, tmp_path / "run", algorithm, OnDask(client), callbacks=[note])
    np.testing.assert_array_equal(found, expected)
    assert len(swept) == N_CHUNKS
    assert swept.count(slow) <= N_CHUNKS // 4


@dataclass(frozen=True, kw_only=True)
class Pausing(Fragile):
    """In the first step, worker 1 ends after its first shard. Then worker 0, which has swept one, is paused."""

    workers: ClassVar[dict[str, Worker]] = {}

    def sweep(self, model, chunk, state, deltas, address):
        worker = get_worker()
        if address.step == 1:
            begun = Path(self.folder, str(worker.name))
            begun.touch()
            while len(list(Path(self.folder).iterdir())) < 2:
                time.sleep(0.01)
            if worker.name == 1:
                sweeper = worker.plugins[PoolSweeper.name]
                (pool,) = sweeper._pools
                sweeper.stop(pool)
            elif worker.status is Status.running:
                while self.workers[1].state.executing_count:
                    time.sleep(0.01)
                worker.status = Status.paused
        return super().sweep(model, chunk, state, deltas, address)


@pytest.mark.slow
def test_workers_that_have_ended_sweep_what_a_paused_worker_leaves(corpus, expected, tmp_path):
    swept = []

    def note(event):
        if isinstance(event, ShardSwept) and event.epoch == 1:
            swept.append(event.worker)

    # Without a limit of memory, no worker changes its status by itself.
    options = {"threads_per_worker": 1, "processes": False, "memory_limit": 0, "dashboard_address": None}
    (tmp_path / "begun").mkdir()
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster, set_as_default=False) as client:
        Pausing.workers.update(cluster.workers)
        algorithm = Pausing(folder=str(tmp_path / "begun"))
        found = trained(corpus, tmp_path / "run", algorithm, OnDask(client), callbacks=[note])
    np.testing.assert_array_equal(found, expected)
    assert len(swept) == N_CHUNKS
    # Worker 0 had taken a few shards when it was paused.
    assert swept.count("0") <= N_CHUNKS // 4


def test_a_run_below_the_working_directory_of_the_client_is_resumed(corpus, tmp_path, cluster_of, monkeypatch):
    client = cluster_of(1)
    # The worker keeps the working directory that it was started in.
    monkeypatch.chdir(tmp_path)
    ingest([["boat", "sea"], ["bread", "oven"]] * 4, "corpus")
    assert LDA(2, max_iter=2).fit("corpus", client, run="run").n_iter_ == 2
    assert LDA(2, max_iter=3).fit("corpus", client, run="run").n_iter_ == 3


@pytest.mark.slow
def test_a_worker_that_joins_is_used_in_the_same_epoch(corpus, expected, tmp_path):
    swept = []
    with open_cluster("local", n_workers=1, memory_limit="1GiB") as client:

        def join(event):
            if isinstance(event, ShardSwept) and event.epoch == 1:
                swept.append(event.worker)
                if len(swept) == 1:
                    client.cluster.scale(2)

        # Without a limit of time, because a worker takes long to start on a busy machine.
        algorithm = Fragile(waiting_workers=2, folder=str(tmp_path))
        found = trained(corpus, tmp_path / "run", algorithm, OnDask(client), callbacks=[join])
    np.testing.assert_array_equal(found, expected)
    assert len(swept) == N_CHUNKS
    assert len(set(swept)) == 2


@pytest.mark.slow
def test_an_adaptive_cluster_grows_during_an_epoch_and_shrinks_after_the_run(corpus, expected, tmp_path):
    numbers = []
    limits = {"minimum": 1, "maximum": 3, "interval": "200ms"}
    with open_cluster("local", n_workers=1, memory_limit="1GiB", adapt=limits) as client:

        def grow(event):
            if isinstance(event, ShardSwept) and not numbers:
                client.wait_for_workers(3, timeout=120)
                numbers.append(3)
                (tmp_path / "gate").touch()

        algorithm = Fragile(gate=str(tmp_path / "gate"))
        found = trained(corpus, tmp_path / "run", algorithm, OnDask(client), callbacks=[grow])
        deadline = time.monotonic() + 120
        while len(client.scheduler_info(n_workers=-1)["workers"]) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 1
    np.testing.assert_array_equal(found, expected)
    assert numbers == [3]


# --- workers that die ---


@pytest.mark.slow
@pytest.mark.parametrize("is_tree", [True, False])
@pytest.mark.parametrize(
    "killed",
    [(("sweep", N_CHUNKS + 3), ("sweep", N_CHUNKS + 9)), (("apply", 4), ("apply", 6))],
    ids=["in sweeps", "in updates"],
)
def test_workers_that_die_cost_no_bit(corpus, expected, tmp_path, cluster_of, killed, is_tree):
    algorithm = Fragile(killed=killed, folder=str(tmp_path), is_tree=is_tree)
    found = trained(corpus, tmp_path / "run", algorithm, OnDask(cluster_of(3)))
    np.testing.assert_array_equal(found, expected)
    assert len(list(tmp_path.glob(f"{killed[0][0]}-*"))) > killed[0][1] + 1


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["sweep", "update"])
def test_half_of_the_workers_may_die_at_once(corpus, expected, tmp_path, cluster_of, moment):
    client = cluster_of(4)
    killed = []

    def kill(event):
        # The last shard is reported when all deltas are on the workers, and before they are fetched.
        position = 2 if moment == "sweep" else N_CHUNKS
        if isinstance(event, ShardSwept) and event.epoch == 2 and not killed:
            swept.append(event.shard)
            if len(swept) == position:
                killed.extend(sorted(client.run(os.getpid).values())[:2])
                for process in killed:
                    os.kill(process, signal.SIGKILL)

    swept = []
    found = trained(corpus, tmp_path / "run", Fragile(seconds=0.1), OnDask(client), callbacks=[kill])
    np.testing.assert_array_equal(found, expected)
    assert len(killed) == 2


def _allow_failures(number, dask_scheduler):
    before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, number
    return before


@pytest.mark.slow
def test_a_shard_that_kills_every_worker_ends_the_run_with_a_sentence(corpus, tmp_path, cluster_of):
    client = cluster_of(2)
    before = client.run_on_scheduler(_allow_failures, 1)
    try:
        with pytest.raises(TaskLost, match=r"gave up task sweep.* on 2 different workers, .* died .*; resume the run"):
            trained(corpus, tmp_path / "run", Fragile(deadly_chunk=5), OnDask(client))
    finally:
        client.run_on_scheduler(_allow_failures, before)


@pytest.mark.slow
def test_updates_that_kill_every_worker_end_the_run_with_a_sentence(corpus, tmp_path, cluster_of, monkeypatch):
    monkeypatch.setattr("corpusmill.pipeline.engine.sweeps.MAX_SWEEPS", 2)
    algorithm = Fragile(killed=tuple(("apply", number) for number in range(20)), folder=str(tmp_path))
    with pytest.raises(TaskLost, match=r"step 1: \d+ shards were lost 2 times, .* then resume the run"):
        trained(corpus, tmp_path / "run", algorithm, OnDask(cluster_of(2)))


@pytest.mark.slow
def test_a_cluster_of_the_user_that_writes_results_to_disk_keeps_deltas_in_memory(corpus, expected, tmp_path):
    options = {"threads_per_worker": 1, "memory_limit": "1GiB", "dashboard_address": None}
    with (
        dask.config.set({"distributed.worker.memory.target": 1e-9}),
        LocalCluster(n_workers=2, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        found = trained(corpus, tmp_path / "run", Fragile(), OnDask(client))
    np.testing.assert_array_equal(found, expected)


def _topics_with_subscribers(dask_scheduler):
    topics = dask_scheduler._broker._topics
    return [name for name, topic in topics.items() if name.startswith("corpusmill") and topic.subscribers]


def test_after_a_failed_sweep_no_worker_reports_to_the_client(tmp_path, cluster_of):
    client = cluster_of(2)
    corpus = write_toy_corpus(tmp_path / "corpus", n_chunks=N_CHUNKS)

    def stop(event):
        if isinstance(event, ShardSwept):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Training(Tally(), corpus, RunStore(str(tmp_path / "run")), 2, seed=7, callbacks=[stop]), OnDask(client))
    # The scheduler would log an error, with a traceback, for each report to a client that is closing.
    deadline = time.monotonic() + 10
    while client.run_on_scheduler(_topics_with_subscribers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert client.run_on_scheduler(_topics_with_subscribers) == []
