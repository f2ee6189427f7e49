"""Clients and clusters that users open themselves: what training cannot use is an error with the way out."""

import asyncio
import logging
import os
import signal

import dask
import pytest
from corpusmill import LDA, ClusterError, TaskLost
from corpusmill.pipeline.engine.cluster import watch
from corpusmill.pipeline.engine.events import EpochStarted
from corpusmill.pipeline.engine.executors import OnDask
from distributed import Client, Future, LocalCluster
from helpers.documents import BOATS_AND_BREAD
from helpers.shell_cluster import shell_cluster

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
