"""Clients and clusters that users open themselves: what training cannot use is an error with the way out."""

import asyncio
import logging
import os
import signal
import time

import dask
import joblib
import numpy as np
import pytest
from corpusmill import LDA, ClusterError, TaskLost
from corpusmill.pipeline.engine.cluster import watch
from corpusmill.pipeline.engine.cluster.open import await_cluster, open_cluster
from corpusmill.pipeline.engine.events import EpochStarted
from corpusmill.pipeline.engine.executors import OnDask
from distributed import Client, Future, LocalCluster, get_client, worker_client
from helpers.documents import BOATS_AND_BREAD
from helpers.shell_cluster import shell_cluster
from sklearn.model_selection import GridSearchCV

pytestmark = pytest.mark.usefixtures("forking")

TEXTS = [text.split() for text in BOATS_AND_BREAD]


def fit(client, **options):
    return LDA(2, max_iter=4).fit(TEXTS, client=client, **options)


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        yield cluster


def test_a_closed_client_is_refused(cluster):
    with Client(cluster, set_as_default=False) as client:
        pass
    with pytest.raises(ValueError, match=r"the client is closed: open another one, such as Client\(address\)"):
        fit(client)


def test_an_asynchronous_client_is_refused_in_its_loop_and_works_in_another_thread(cluster):
    async def call():
        async with Client(cluster.scheduler_address, asynchronous=True) as client:
            with pytest.raises(TypeError, match=r"asynchronous.*in another thread \(asyncio\.to_thread\)"):
                fit(client)
            return await asyncio.to_thread(fit, client)

    assert asyncio.run(call()).n_iter_ == 4


def test_a_client_that_a_callback_closes_ends_training_with_advice_and_no_further_error(cluster, tmp_path, caplog):
    run = str(tmp_path / "run")
    with Client(cluster, set_as_default=False) as client, caplog.at_level(logging.ERROR):
        with pytest.raises(TaskLost, match=r"committed epochs are safe.* open another client if this one was closed"):
            fit(client, run=run, callbacks=[lambda event: client.close()])
    assert "never retrieved" not in caplog.text
    with Client(cluster, set_as_default=False) as client:
        assert fit(client, run=run).n_iter_ == 4


# --- in a task of Dask ---


def fit_here(n_components):
    return LDA(n_components, max_iter=4).fit(TEXTS).components_


def fit_on_the_client(n_components):
    return LDA(n_components, max_iter=4).fit(TEXTS, client=get_client()).components_


def fit_on_the_workers_client(n_components):
    with worker_client():
        return fit_here(n_components)


def apply(n_components):
    model = LDA(n_components, max_iter=4).fit(TEXTS, client=get_client())
    # The task has given its thread back, so these run on the cluster too.
    return model.partial_fit(TEXTS).transform(TEXTS)


@pytest.mark.slow
@pytest.mark.parametrize("task", [fit_here, fit_on_the_client, fit_on_the_workers_client, apply])
def test_more_trainings_in_tasks_than_the_cluster_has_threads_end_with_the_same_bits(cluster, task):
    with Client(cluster, set_as_default=False) as client:
        found = client.gather(client.map(task, [2, 3, 4], pure=False))
    for components, array in zip([2, 3, 4], found, strict=True):
        model = LDA(components, max_iter=4).fit(TEXTS)
        expected = model.partial_fit(TEXTS).transform(TEXTS) if task is apply else model.components_
        np.testing.assert_array_equal(array, expected)


def test_a_grid_search_on_a_cluster_of_one_thread_ends(cluster):
    counts = np.random.default_rng(0).poisson(1.0, (12, 6))
    with Client(cluster), joblib.parallel_config(backend="dask"):
        search = GridSearchCV(LDA(2, max_iter=2), {"n_components": [2, 3]}, cv=2).fit(counts)
    assert search.best_estimator_.n_iter_ == 2


# --- clusters that lose or have no workers ---


@pytest.mark.slow
def test_a_cluster_that_adapts_starts_its_first_worker_for_a_training(tmp_path):
    options = {"n_workers": 0, "threads_per_worker": 1, "memory_limit": "1GiB", "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as client:
        cluster.adapt(minimum=0, maximum=1, interval="100ms")
        assert fit(client).n_iter_ == 4
    with open_cluster("local", adapt={"minimum": 0, "maximum": 1}, n_workers=4, memory_limit="1GiB") as client:
        await_cluster(client, pytest.fail)
        assert len(client.cluster.worker_spec) == 1


def test_a_client_without_a_scheduler_says_that_it_cannot_be_reached(tmp_path):
    with shell_cluster(tmp_path) as (scheduler, file), Client(scheduler_file=str(file), set_as_default=False) as client:
        scheduler.kill()
        scheduler.wait()
        deadline = time.monotonic() + 30
        while client.status == "running" and time.monotonic() < deadline:
            time.sleep(0.05)
        for attribute in ("scheduler", "scheduler_comm"):
            # Between the loss of a scheduler and the end of the client, Dask's client has none.
            setattr(client, attribute, None)
        with pytest.raises(TaskLost, match="cannot be reached; committed epochs are safe"):
            OnDask(client)


def test_the_log_of_dask_has_no_line_per_epoch(cluster, caplog):
    with Client(cluster, set_as_default=False) as client, caplog.at_level(logging.INFO, "distributed.worker"):
        client.run_on_scheduler(os.getpid)
        fit(client)
    lines = [record.getMessage() for record in caplog.records if "out-of-band" in record.getMessage()]
    assert [line for line in lines if "getpid" in line]
    assert not [line for line in lines if "pool" in line or "shards" in line]


def test_tasks_that_somebody_cancels_are_named_as_cancelled(cluster, tmp_path):
    with Client(cluster, set_as_default=False) as client:

        def cancel(event):
            if isinstance(event, EpochStarted):
                client.cancel([Future(key, client) for key in client.futures], force=True)

        with pytest.raises(TaskLost, match=r"^task \S+ was cancelled, as by Client\.restart, .* resume the run"):
            fit(client, run=str(tmp_path / "run"), callbacks=[cancel])


def test_a_cluster_without_workers_is_named_with_its_address(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "FIRST_SECONDS", 0.3)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(TaskLost, match=rf"^{cluster.scheduler_address} has had no worker for .*: start workers with"),
    ):
        fit(client, run=str(tmp_path / "run"))


def die_of_plugins(dask_worker):
    """Let a worker die when the scheduler sends it a plugin."""
    dask_worker.handlers["plugin-add"] = lambda **message: os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_worker_that_dies_while_it_gets_plugins_does_not_end_training(tmp_path):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.run(die_of_plugins, workers=[min(client.scheduler_info()["workers"])])
        assert fit(client, run=str(tmp_path / "run")).n_iter_ == 4


def test_a_task_that_kills_its_workers_is_named_with_what_to_do(tmp_path):
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(TaskLost, match=r"^the cluster gave up task end-\S+: KilledWorker.*; resume the run"),
    ):
        OnDask(client).map(os._exit, [(1,)], name="end")


def test_a_cluster_without_corpusmill_is_named_with_the_version_to_install(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere" / "corpusmill"
    elsewhere.mkdir(parents=True)
    (elsewhere / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'corpusmill'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(elsewhere.parent))
    with shell_cluster(tmp_path) as (_, file), Client(scheduler_file=str(file), set_as_default=False) as client:
        with pytest.raises(ClusterError, match=r"cannot import corpusmill .*: install \S+ where scheduler and workers"):
            fit(client)
