"""Every cluster kind: those that run here run, the others say what they need."""

import json
import subprocess
import sys
import time

import dask
import pytest
from corpusmill.pipeline.clusters import KINDS, ClusterError, open_cluster
from corpusmill.pipeline.executors import OnDask, Synchronous, executor_for


def test_synchronous_has_no_client():
    with open_cluster("synchronous") as client:
        assert client is None
        assert isinstance(executor_for(client), Synchronous)


def test_local_and_address():
    with open_cluster("local", n_workers=2, memory_limit="1GiB") as client:
        capacities = OnDask(client).capacities()
        assert [(c.name, c.threads, c.memory) for c in capacities] == [("0", 1, 1 << 30), ("1", 1, 1 << 30)]
        with open_cluster("address", address=client.scheduler.address) as other:
            assert other.submit(sum, [1, 2]).result() == 3


def test_settings_hold_inside_and_are_gone_outside():
    before = dask.config.get("distributed.scheduler.allowed-failures")
    for _ in range(2):
        with open_cluster("local", n_workers=1, memory_limit="1GiB"):
            assert dask.config.get("distributed.scheduler.allowed-failures") == 10
        assert dask.config.get("distributed.scheduler.allowed-failures") == before


def test_the_users_own_dask_settings_win(monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "7")
    with open_cluster("local", n_workers=1, memory_limit="1GiB"):
        assert dask.config.get("distributed.scheduler.allowed-failures") == 7


def test_a_scheduler_and_a_worker_from_the_shell(tmp_path):
    file = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    scheduler = subprocess.Popen([*command, "--host", "127.0.0.1", "--scheduler-file", str(file)])
    worker = None
    try:
        while not (file.exists() and file.read_text().strip().endswith("}")):
            assert scheduler.poll() is None
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        worker = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
        )
        with open_cluster("scheduler-file", scheduler_file=str(file)) as client:
            assert len(OnDask(client).capacities()) == 1
            assert client.submit(sum, [1, 2]).result(timeout=60) == 3
    finally:
        for process in (worker, scheduler):
            if process is not None:
                process.terminate()
                process.wait(20)


@pytest.mark.parametrize(
    "kind, options, message",
    [
        ("address", {}, "needs the scheduler's address"),
        ("scheduler-file", {}, "needs scheduler_file"),
        ("cloud", {}, "choose one of synchronous, local"),
    ],
)
def test_what_is_missing_is_said(kind, options, message):
    with pytest.raises(ClusterError, match=message), open_cluster(kind, **options):
        pass


@pytest.mark.parametrize(
    "kind, module, extra",
    [
        ("local-cuda", "dask_cuda", "cuda12"),
        ("jobqueue", "dask_jobqueue", "jobqueue"),
        ("kubernetes", "dask_kubernetes", "kubernetes"),
    ],
)
def test_a_library_that_is_not_installed_is_named_with_its_extra(kind, module, extra):
    try:
        __import__(module)
        pytest.skip(f"{module} is installed here")
    except ImportError:
        pass
    with pytest.raises(ClusterError, match=rf"corpusmill\[{extra}\]"), open_cluster(kind):
        pass


def test_every_kind_is_known():
    assert set(KINDS) == {
        "synchronous",
        "local",
        "address",
        "scheduler-file",
        "local-cuda",
        "jobqueue",
        "kubernetes",
    }
