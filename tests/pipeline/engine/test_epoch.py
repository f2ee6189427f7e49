"""The epoch engine: the same bits on any workers and after any process dies, and no leftover files."""

import multiprocessing
import os
import re
import shutil
import signal
import time
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from corpusmill.io.errors import DataError, Locked
from corpusmill.pipeline.engine.cluster import watch
from corpusmill.pipeline.engine.cluster.leases import Leases
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.engine.cluster.pool import balanced_places
from corpusmill.pipeline.engine.cluster.watch import TaskLost
from corpusmill.pipeline.engine.data import count_shards, shard_chunks
from corpusmill.pipeline.engine.epoch import train
from corpusmill.pipeline.engine.events import EpochFinished, RunFinished, RunStarted, ShardSwept
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.memory import PLANNED_SHARE, PROCESS_BYTES, Capacity, limit_for
from corpusmill.pipeline.engine.plan import make_plan, plan_run
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.engine.training import Training
from corpusmill.pipeline.engine.worker import tasks
from helpers.faults import Faulty
from helpers.toy import Tally, TallyScores, equal_blocks, job_of, model_of, write_toy_corpus

pytestmark = pytest.mark.usefixtures("forking")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_toy_corpus(tmp_path_factory.mktemp("toy") / "corpus")


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory):
    return trained(corpus, tmp_path_factory.mktemp("expected") / "run")


@pytest.fixture
def cluster(cluster_of):
    return cluster_of(2)


def trained(corpus, folder, executor=None, algorithm=None, epochs=4, **options):
    algorithm = algorithm or Tally()
    run = RunStore(str(folder))
    train(Training(algorithm, corpus, run, epochs, seed=7, **options), executor or Synchronous())
    return model_of(run, algorithm)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_bits(corpus, expected, tmp_path, workers, cluster_of):
    client = cluster_of(workers)
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run", OnDask(client)), expected)


@pytest.mark.parametrize(("blocks", "parts"), [(2, 1), (5, 1), (2, 2), (5, 3)])
def test_any_number_of_blocks_gives_the_same_bits(corpus, expected, tmp_path, blocks, parts):
    algorithm = Tally(bounds=equal_blocks(blocks), n_ranges=parts)
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run", algorithm=algorithm), expected)


def test_parts_of_a_shard_add_up(corpus, cluster, tmp_path):
    events = []
    trained(
        corpus,
        tmp_path / "run",
        OnDask(cluster),
        Tally(bounds=equal_blocks(3), n_ranges=3),
        1,
        callbacks=[events.append],
    )
    swept = [e for e in events if isinstance(e, ShardSwept)]
    assert sorted(e.shard for e in swept) == sorted(3 * list(range(6)))
    assert sum(e.tokens for e in swept) == corpus.n_tokens


def test_an_interrupt_within_a_kernel_is_an_interrupt(corpus, expected, tmp_path):
    faulty = Faulty(Tally(), ((2, 1, 1, "interrupt"),), str(tmp_path))
    events = []
    with pytest.raises(KeyboardInterrupt):
        trained(corpus, tmp_path / "run", algorithm=faulty, callbacks=[events.append])
    assert (events[-1].epoch, events[-1].reason) == (1, "stopped")
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run", algorithm=faulty), expected)


@pytest.mark.slow
def test_a_killed_worker_costs_its_own_sweeps_only(corpus, expected, cluster, tmp_path):
    faulty = Faulty(Tally(), ((2, 1, 1, "kill"), (3, 4, 1, "kill"), (3, 4, 2, "kill")), str(tmp_path))
    result = trained(corpus, tmp_path / "run", OnDask(cluster), faulty)
    np.testing.assert_array_equal(result, expected)
    assert faulty.attempts(2, 1) >= 2
    assert faulty.attempts(3, 4) >= 3
    # The epochs before and after are not affected: tasks read from storage, not from the dead worker's memory.
    for chunk in range(6):
        assert faulty.attempts(1, chunk) == 1
        assert faulty.attempts(4, chunk) == 1


@pytest.mark.slow
def test_a_run_whose_workers_stay_paused_fails_with_advice(corpus, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "STALLED_SECONDS", 3.0)
    faulty = Faulty(Tally(), ((2, 1, 1, "hoard"),), str(tmp_path))
    with (
        open_cluster("local", n_workers=1, memory_limit="1GiB") as client,
        pytest.raises(TaskLost, match=r"all workers were paused for 3 s .*1.00 GiB each.*fewer threads.*, then resume"),
    ):
        trained(corpus, tmp_path / "run", OnDask(client), faulty)
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run", algorithm=faulty), expected)


@pytest.mark.slow
def test_a_worker_that_stays_paused_keeps_nobody_waiting(corpus, expected, tmp_path):
    faulty = Faulty(Tally(), ((2, 1, 1, "hoard"),), str(tmp_path))
    with open_cluster("local", n_workers=2, memory_limit="1GiB", dashboard_address=":0") as client:
        result = trained(corpus, tmp_path / "run", OnDask(client), faulty)
        states = {worker["status"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()}
    np.testing.assert_array_equal(result, expected)
    assert states == {"paused", "running"}


def test_the_scheduler_has_no_tasks_of_finished_epochs(corpus, cluster, tmp_path):
    def keys():
        return cluster.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])

    held = []
    # Other tests use this cluster, too. What an interrupted run leaves is released when Python collects its garbage.
    of_others = set(keys())

    def look(event):
        if isinstance(event, EpochFinished):
            # The sweeps of the next epoch have begun.
            sweep_of_next = re.compile(rf"sweep-[0-9a-f]+-{event.epoch + 1}-")
            # The messages that release tasks are under way for a moment, for seconds on a busy machine.
            deadline = time.monotonic() + 30
            while True:
                old = [key for key in keys() if key not in of_others and not sweep_of_next.match(key)]
                if not old or time.monotonic() > deadline:
                    break
                time.sleep(0.02)
            held.append(old)

    trained(corpus, tmp_path / "run", OnDask(cluster), callbacks=[look])
    assert held == [[], [], [], []]


def test_nothing_is_kept_for_a_run_that_is_over(corpus, cluster, tmp_path):
    def is_released():
        pools = cluster.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.plugins[Leases.name].pools))
        return not pools and set(cluster.run(_cached_bytes).values()) == {0}

    cached = []

    def look(event):
        if isinstance(event, EpochFinished):
            cached.append(tasks.CACHE.nbytes)

    trained(corpus, tmp_path / "here", callbacks=[look])
    assert min(cached) > 0
    assert tasks.CACHE.nbytes == 0
    trained(corpus, tmp_path / "run", OnDask(cluster))
    # The message to the workers is under way for a moment.
    deadline = time.monotonic() + 30
    while not is_released() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert is_released()


def _cached_bytes():
    from corpusmill.pipeline.engine.worker.buffers import CACHE

    return CACHE.nbytes


def _train_and_die(corpus, folder, table, attempts):
    faulty = Faulty(Tally(), table, str(attempts))
    train(Training(faulty, corpus, RunStore(str(folder)), 4, seed=7), Synchronous())


@pytest.mark.slow
@pytest.mark.parametrize("epoch, chunk", [(1, 0), (1, 5), (3, 2)])
def test_a_run_is_resumed_after_the_client_is_killed_during_an_epoch(corpus, expected, tmp_path, epoch, chunk):
    attempts = tmp_path / "attempts"
    attempts.mkdir()
    table = ((epoch, chunk, 1, "kill"),)
    process = multiprocessing.get_context("spawn").Process(
        target=_train_and_die, args=(corpus, tmp_path / "run", table, attempts)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert RunStore(str(tmp_path / "run")).step == epoch - 1
    faulty = Faulty(Tally(), table, str(attempts))
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run", algorithm=faulty), expected)
    for e in range(1, 5):
        for c in range(6):
            repeated = e == epoch and c <= chunk
            assert faulty.attempts(e, c) == (2 if repeated else 1)


def _train_until(corpus, folder, last):
    def die(event):
        if isinstance(event, EpochFinished) and event.epoch == last:
            os.kill(os.getpid(), signal.SIGKILL)

    train(Training(Tally(), corpus, RunStore(str(folder)), 4, seed=7, callbacks=[die]), Synchronous())


@pytest.mark.slow
def test_a_run_is_resumed_after_the_client_is_killed_between_commits(corpus, expected, tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=_train_until, args=(corpus, tmp_path / "run", 2))
    process.start()
    process.join()
    run = RunStore(str(tmp_path / "run"))
    assert run.step == 2
    assert [row["epoch"] for row in run.metrics] == [1, 2]
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run"), expected)
    assert [row["epoch"] for row in run.metrics] == [1, 2, 3, 4]


def test_a_second_call_trains_nothing_more(corpus, expected, tmp_path):
    trained(corpus, tmp_path / "run")
    events = []
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run", callbacks=[events.append]), expected)
    assert [type(e) for e in events] == [RunStarted, RunFinished]


def test_more_epochs_continue_from_the_last_commit(corpus, expected, tmp_path):
    trained(corpus, tmp_path / "run", epochs=1)
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run", epochs=4), expected)


def test_files_of_other_programs_among_the_epochs_are_kept_and_ignored(corpus, expected, tmp_path):
    trained(corpus, tmp_path / "run", epochs=1)
    epochs = tmp_path / "run" / "epochs"
    (epochs / ".DS_Store").write_text("")
    (epochs / "my-backup").mkdir()
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run", epochs=4), expected)
    assert RunStore(str(tmp_path / "run")).store.names("epochs") == [
        ".DS_Store",
        "000003-0002",
        "000004-0002",
        "my-backup",
    ]


def test_only_the_last_two_versions_are_kept(corpus, tmp_path):
    trained(corpus, tmp_path / "run")
    assert RunStore(str(tmp_path / "run")).store.names("epochs") == ["000003-0001", "000004-0001"]


def test_rounds_sweep_each_shard_once_per_epoch(corpus, tmp_path):
    faulty = Faulty(Tally(rounds=4), (), str(tmp_path))
    trained(corpus, tmp_path / "run", algorithm=faulty, epochs=2)
    swept = [[c for c in range(6) if faulty.attempts(step, c)] for step in range(1, 9)]
    assert swept == [[0, 4], [1, 5], [2], [3]] * 2


def test_more_rounds_than_shards_are_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match="rounds is 7, but there are 6 shards"):
        trained(corpus, tmp_path / "run", algorithm=Tally(rounds=7))


def test_events_report_every_shard_and_every_epoch(corpus, tmp_path):
    events = []
    trained(corpus, tmp_path / "run", epochs=2, callbacks=[events.append], held_out=corpus.held_out, evaluate_every=1)
    assert isinstance(events[0], RunStarted)
    assert events[0].tokens == corpus.n_tokens
    swept = [e for e in events if isinstance(e, ShardSwept)]
    assert [(e.epoch, e.shard) for e in swept] == [(e, s) for e in (1, 2) for s in range(6)]
    assert sum(e.cached for e in swept[6:]) == 12
    finished = [e for e in events if isinstance(e, EpochFinished)]
    assert finished[-1].metrics["held_out_tokens"] == corpus.held_out.n_tokens
    assert finished[-1].metrics["train_tokens"] == corpus.n_tokens
    assert finished[-1].metrics["known_False"] >= 0
    assert isinstance(events[-1], RunFinished)


def test_two_runs_in_one_process_keep_their_models_separate(corpus, expected, tmp_path):
    for name, algorithm in (("a", Tally()), ("b", Tally(bounds=equal_blocks(2))), ("c", Tally())):
        run = RunStore(str(tmp_path / name))
        store = tasks.StepModel(job_of(algorithm, corpus, run, name, 1 << 30), 1)
        trained(corpus, tmp_path / name, algorithm=algorithm, epochs=1)
        np.testing.assert_array_equal(store.block(0)["counts"], run.block(1, 0)["counts"])


def test_a_new_run_in_the_folder_of_a_deleted_one_starts_from_scratch(corpus, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained(corpus, "run", algorithm=Tally(bounds=equal_blocks(2)))
    shutil.rmtree("run")
    np.testing.assert_array_equal(trained(corpus, "run"), expected)


class Settled(Tally):
    """Has converged after two epochs."""

    @property
    def scores(self):
        return SettledScores()


class SettledScores(TallyScores):
    """Ends training after two epochs, and notes the steps that are scored."""

    scored: ClassVar[list[int]] = []

    def score(self, model, chunk, state, address, data):
        self.scored.append(address.step)
        return super().score(model, chunk, state, address, data)

    def converged(self, history):
        return len(history) >= 2


def test_a_converged_run_stays_as_it_is(corpus, tmp_path):
    events = []
    for _ in range(2):
        training = Training(Settled(), corpus, RunStore(str(tmp_path / "run")), 9, callbacks=[events.append])
        assert train(training, Synchronous()) == "converged"
    assert [e.epoch for e in events if isinstance(e, EpochFinished)] == [1, 2]
    assert [len(e.history) for e in events if isinstance(e, RunStarted)] == [0, 2]


@pytest.mark.parametrize(("every", "evaluated"), [(9, [1, 2]), (2, [1, 2]), (0, [])])
def test_the_epoch_that_converges_is_evaluated_once(corpus, tmp_path, every, evaluated):
    scored = SettledScores.scored
    scored.clear()
    run = RunStore(str(tmp_path / "run"))
    train(Training(Settled(), corpus, run, 9, evaluate_every=every), Synchronous())
    assert [row["step"] for row in run.metrics if "train_tokens" in row] == evaluated
    assert [row["step"] for row in run.metrics if row.get("seconds_evaluate", 0) > 0] == evaluated
    assert scored == [step for step in evaluated for _ in corpus.chunks]


class Forgetful(Tally):
    """Sweeps each range as if it were the first one."""

    def sweep(self, model, chunk, state, shard, address):
        return super().sweep(model, chunk, state, shard._replace(is_later_range=False), address)


def test_a_later_range_cannot_replace_the_states_of_the_first_one(corpus, tmp_path):
    with pytest.raises(ValueError, match=r"Forgetful.sweep returned a state for a later range.*is_later_range"):
        trained(corpus, tmp_path / "run", algorithm=Forgetful(bounds=(0, 20, 50), n_ranges=2))


def test_another_run_in_the_folder_is_refused(corpus, tmp_path):
    trained(corpus, tmp_path / "run", epochs=1)
    with pytest.raises(DataError, match="another run"):
        trained(corpus, tmp_path / "run", algorithm=Tally(rounds=2))


def test_two_processes_cannot_train_the_same_run(corpus, tmp_path):
    with RunStore(str(tmp_path / "run")).locked(), pytest.raises(Locked, match="another process"):
        trained(corpus, tmp_path / "run")


def test_a_task_that_is_too_large_is_refused_before_the_run_starts(corpus):
    with pytest.raises(DataError, match=r"1\.00 GiB.*memory limit.*raise memory_limit to"):
        plan_run(Tally(scratch=1 << 30), None, corpus, [Capacity("w0", "tcp://x", 1, 1 << 30)])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("memory", [330 << 20, 1 << 30])
def test_the_memory_limit_that_a_refusal_names_is_enough_and_no_smaller_one_is(corpus, threads, memory):
    algorithm = Tally(scratch=1 << 30)
    with pytest.raises(DataError) as refusal:
        plan_run(algorithm, None, corpus, [Capacity("w0", "tcp://x", threads, memory)])
    enough = int(re.search(r"raise memory_limit to (\d+)MiB or more", str(refusal.value))[1])
    make_plan(algorithm, corpus, Capacity("w0", "tcp://x", threads, enough << 20))
    with pytest.raises(DataError):
        make_plan(algorithm, corpus, Capacity("w0", "tcp://x", threads, (enough - 1) << 20))


def test_the_cache_uses_the_memory_that_tasks_do_not_need(corpus):
    tight = make_plan(Tally(scratch=50 << 20), corpus, Capacity("w0", "tcp://x", 1, limit_for(60 << 20)))
    assert tight.cache + tight.task.total + PROCESS_BYTES <= tight.total
    assert tight.total <= PLANNED_SHARE * tight.limit


def test_shards_are_fixed_by_the_data_alone():
    assert [list(shard_chunks(3, 256, shard)) for shard in range(count_shards(3, 256))] == [[0], [1], [2]]
    many = [shard_chunks(1000, 256, shard) for shard in range(count_shards(1000, 256))]
    assert len(many) <= 256
    assert [c for shard in many for c in shard] == list(range(1000))


def test_places_are_balanced_consecutive_and_stable():
    three = [Capacity(f"w{i}", f"tcp://{i}", 1, 0) for i in range(3)]
    places = balanced_places([1] * 30, three)
    assert places == [c.address for c in three for _ in range(10)] == balanced_places([1] * 30, three[::-1])
    assert balanced_places([4, 1, 1, 1, 1], [Capacity("w0", "tcp://0", 2, 0), three[1]]).count("tcp://1") == 3
    two = balanced_places([1] * 30, three[:2])
    moved = sum(a != b for a, b in zip(places, two, strict=True))
    assert moved <= 16


def test_seconds_of_kernels_do_not_contain_the_reading_of_the_model(corpus, tmp_path, monkeypatch):
    trained(corpus, tmp_path / "run", epochs=1)
    now = [0.0]
    monkeypatch.setattr(tasks, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def read_for_a_second(part):
        now[0] += 1.0
        return tasks.read_model(job, 1, part)

    job = job_of(Tally(), corpus, RunStore(str(tmp_path / "run")), "cold cache", 0)
    watch = tasks.Stopwatch()
    model = tasks.StepModel(job, 1, watch, read_for_a_second)
    for _ in range(20):
        model.block(0)  # is read each time, because the cache has no bytes
        now[0] += 0.25
    watch.lap("kernel")
    assert watch.seconds == {"read": 20.0, "kernel": 5.0, "write": 0.0}


def test_an_array_of_all_blocks_is_joined_once_for_all_chunks_of_a_step(corpus, tmp_path):
    algorithm = Tally(bounds=equal_blocks(3))
    expected = trained(corpus, tmp_path / "run", algorithm=algorithm, epochs=2)
    run = RunStore(str(tmp_path / "run"))
    job = job_of(algorithm, corpus, run, "joined", 1 << 20)
    joined = tasks.StepModel(job, 2).joined("counts")
    np.testing.assert_array_equal(joined, expected)
    assert tasks.StepModel(job, 2).joined("counts") is joined
    assert not np.array_equal(tasks.StepModel(job, 1).joined("counts"), joined)


def test_a_joined_array_of_an_older_step_leaves_the_cache_when_another_is_joined(corpus, tmp_path):
    algorithm = Tally(bounds=equal_blocks(3))
    trained(corpus, tmp_path / "run", algorithm=algorithm, epochs=2)
    run = RunStore(str(tmp_path / "run"))
    job = job_of(algorithm, corpus, run, "joined twice", 1 << 20)
    model = tasks.StepModel(job, 1)
    # Stands for an array that only some steps need.
    tasks.CACHE.put(("joined twice", "joined", "other"), model.joined("counts"), version=1, nbytes=8, budget=1 << 20)
    tasks.StepModel(job, 2).joined("counts")
    assert tasks.CACHE.get(("joined twice", "joined", "other"), version=1) is None


def test_a_damaged_state_is_named(corpus, tmp_path):
    trained(corpus, tmp_path / "run", epochs=1)
    run = RunStore(str(tmp_path / "run"))
    stored = next((tmp_path / "run" / "epochs" / "000001-0001" / "state" / "000002").rglob("c/0"))
    content = bytearray(stored.read_bytes())
    content[3] ^= 1
    stored.write_bytes(bytes(content))
    with pytest.raises(DataError, match="000002"):
        run.state(1, 2)
