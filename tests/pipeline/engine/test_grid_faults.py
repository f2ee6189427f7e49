"""Faults while a grid is trained: lost workers, schedulers and clients change no bit of the result."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from corpusmill.pipeline.engine.cluster import sweep
from corpusmill.pipeline.engine.cluster.open import open_cluster
from corpusmill.pipeline.engine.cluster.watch import TaskLost
from corpusmill.pipeline.engine.events import CellsTrained
from corpusmill.pipeline.engine.executors import OnDask
from corpusmill.pipeline.engine.run import RunStore
from distributed import Client
from helpers.neighbours import algorithm_of, assert_same, trained, trained_by_hand
from helpers.shell_cluster import shell_cluster
from helpers.toy import write_toy_corpus

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_toy_corpus(tmp_path_factory.mktemp("toy") / "corpus", n_chunks=4, documents=8)


def test_a_killed_worker_changes_no_bit(corpus, tmp_path, cluster_of):
    client = cluster_of(2)
    killed = ((1, 0, 3), (2, 5, 1))
    algorithm = algorithm_of(8, passes=2, killed=killed, folder=str(tmp_path))
    result = trained(corpus, tmp_path / "run", algorithm, OnDask(client))
    for step, row, column in killed:
        assert len(list(tmp_path.glob(f"{step}-{row}-{column}-*"))) >= 2
    assert_same([trained_by_hand(corpus, algorithm_of(8, passes=2)), result])


def test_a_worker_that_dies_with_its_result_changes_no_bit(corpus, tmp_path, cluster_of, monkeypatch):
    # The loss is not noticed in the meantime.
    monkeypatch.setattr(sweep, "LOOK_SECONDS", 5.0)
    client = cluster_of(2)
    algorithm = algorithm_of(8)
    cells = []
    killed = []

    def kill(event):
        if isinstance(event, CellsTrained):
            cells.append(event.cells)
        if sum(cells) == algorithm.n_blocks**2 and not killed:
            # The tasks finish, and the client has not fetched their results.
            time.sleep(0.5)
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.5)

    result = trained(corpus, tmp_path / "run", algorithm, OnDask(client), callbacks=[kill])
    assert_same([trained_by_hand(corpus, algorithm), result])


def test_two_runs_train_on_one_cluster_at_the_same_time(corpus, tmp_path, cluster_of):
    address = cluster_of(2).scheduler.address

    def train(number):
        with Client(address, set_as_default=False) as client:
            return trained(corpus, tmp_path / f"run-{number}", algorithm_of(8, seconds=0.02), OnDask(client))

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(train, range(2)))
    assert_same([trained_by_hand(corpus, algorithm_of(8)), *results])


def test_a_run_is_resumed_after_each_step(corpus, tmp_path):
    algorithm = algorithm_of(4)
    trained(corpus, tmp_path / "run", algorithm, epochs=1)
    assert_same([trained_by_hand(corpus, algorithm), trained(corpus, tmp_path / "run", algorithm)])


def test_half_of_the_workers_may_leave_while_they_train(corpus, tmp_path, cluster_of):
    client = cluster_of(2)
    left = []

    def leave(event):
        if isinstance(event, CellsTrained) and not left:
            left.append(event)
            cluster_of(1)

    algorithm = algorithm_of(8, seconds=0.03)
    result = trained(corpus, tmp_path / "run", algorithm, OnDask(client), callbacks=[leave])
    assert left[0].cells < algorithm.n_blocks**2 / 2
    assert_same([trained_by_hand(corpus, algorithm_of(8)), result])


def test_a_run_whose_scheduler_died_while_cells_were_trained_is_resumed(corpus, tmp_path, monkeypatch):
    # The client tries to connect to the scheduler for this time, by default half a minute.
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "5s")
    with shell_cluster(tmp_path) as (scheduler, file):

        def kill(event):
            if isinstance(event, CellsTrained) and event.epoch == 2:
                scheduler.kill()

        with open_cluster("address", scheduler_file=str(file)) as client:
            with pytest.raises(TaskLost, match=r"scheduler at tcp://\S+ cannot be reached"):
                trained(corpus, tmp_path / "run", algorithm_of(8, seconds=0.02), OnDask(client), callbacks=[kill])
    assert RunStore(str(tmp_path / "run")).step == 1
    resumed = trained(corpus, tmp_path / "run", algorithm_of(8, seconds=0.02))
    assert_same([trained_by_hand(corpus, algorithm_of(8)), resumed])
