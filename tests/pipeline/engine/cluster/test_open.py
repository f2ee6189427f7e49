"""Every kind of cluster: those that can run here are run, and the others name what they need."""

import asyncio
import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dask
import psutil
import pytest
from corpusmill import LDA, NMF, RandomIndexing, Word2Vec
from corpusmill.configs.resolve import load
from corpusmill.pipeline.engine.cluster import open as clusters
from corpusmill.pipeline.engine.cluster.jobs import AdaptToShards
from corpusmill.pipeline.engine.cluster.open import ClusterError, await_cluster, open_cluster
from corpusmill.pipeline.engine.cluster.watch import workers_of
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.events import EpochFinished
from corpusmill.pipeline.engine.executors import OnDask, Synchronous, executor_for
from corpusmill.pipeline.engine.run import RunStore
from distributed import Client, LocalCluster, Status
from helpers.shell_cluster import shell_cluster
from helpers.toy import Tally, model_of, write_toy_corpus


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


@pytest.mark.parametrize("scheme", ["tcp://", "http://", ""])
def test_the_address_of_a_dashboard_is_refused(scheme):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"{scheme}127.0.0.1:{server.server_port}"
        with pytest.raises(ClusterError, match=rf"^{address}: .* a web server, perhaps the dashboard.*tcp://host:8786"):
            with open_cluster("address", address=address):
                pass
        server.shutdown()


def test_a_killed_worker_comes_back_however_long_that_takes(monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT", "10ms")
    with open_cluster("local", n_workers=1, memory_limit="1GiB") as client:
        ((killed, process),) = client.run(os.getpid).items()
        os.kill(process, signal.SIGKILL)
        deadline = time.monotonic() + 120
        while not workers_of(client).keys() - {killed} and time.monotonic() < deadline:
            time.sleep(0.1)
        assert workers_of(client).keys() - {killed}


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_to_have_one(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from corpusmill import open_cluster\nwith open_cluster('local', n_workers=1): print('open')\n")
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert run.returncode == 1
    assert "a worker process imports this script, which would start further workers" in run.stderr
    last = run.stderr.splitlines()[-1]
    assert "no worker process started" in last
    assert "in a script, put the call of open_cluster below if __name__ == '__main__':" in last


def test_dask_settings_apply_only_while_the_cluster_is_open():
    before = dask.config.get("distributed.scheduler.allowed-failures")
    for _ in range(2):
        with open_cluster("local", n_workers=1, memory_limit="1GiB"):
            assert dask.config.get("distributed.scheduler.allowed-failures") == 10
        assert dask.config.get("distributed.scheduler.allowed-failures") == before


def test_the_users_own_dask_settings_win(monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "7")
    with open_cluster("local", n_workers=1, memory_limit="1GiB"):
        assert dask.config.get("distributed.scheduler.allowed-failures") == 7


@pytest.mark.slow
def test_a_scheduler_and_a_worker_from_the_shell(tmp_path, monkeypatch):
    with (
        shell_cluster(tmp_path) as (_, file),
        open_cluster("address", scheduler_file=str(file)) as client,
    ):
        assert len(OnDask(client).capacities()) == 1
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3
        # The worker has another working directory, and must find files that this process names by relative paths.
        monkeypatch.chdir(tmp_path)
        write_toy_corpus("corpus", n_chunks=2)
        for model in (LDA(2, max_iter=1), NMF(2, max_iter=1), Word2Vec(4, epochs=1), RandomIndexing(64)):
            model.fit("corpus", client=client, run=f"runs/{model._kind}")


@pytest.mark.slow
def test_a_cluster_that_adapts_in_mid_run_keeps_the_bits(tmp_path, forking):
    corpus, algorithm = write_toy_corpus(tmp_path / "corpus"), Tally()
    alone, adapted, counts = RunStore(str(tmp_path / "alone")), RunStore(str(tmp_path / "adapted")), []
    train(Training(algorithm, corpus, alone, 4, evaluate_every=2), Synchronous())
    limits = {"minimum": 1, "maximum": 2, "interval": "200ms"}
    with open_cluster("local", n_workers=1, memory_limit="1GiB", adapt=limits) as client:

        def wait_for(workers):
            deadline = time.monotonic() + 60
            found = 0
            while found != workers and time.monotonic() < deadline:
                time.sleep(0.1)
                found = len(workers_of(client))
            counts.append(found)

        def work_comes_and_goes(event):
            if isinstance(event, EpochFinished) and event.epoch == 1:
                other = client.map(time.sleep, [1.0] * 20, pure=False)
                wait_for(2)
                client.cancel(other)
            elif isinstance(event, EpochFinished) and event.epoch == 2:
                # Both workers already sweep the next epoch, so one of them leaves with its deltas.
                client.cluster.adapt(Adaptive=AdaptToShards, minimum=1, maximum=1, interval="200ms")
                wait_for(1)

        train(
            Training(algorithm, corpus, adapted, 4, evaluate_every=2, callbacks=[work_comes_and_goes]),
            OnDask(client),
        )
    assert counts == [2, 1]
    assert model_of(adapted, algorithm).tobytes() == model_of(alone, algorithm).tobytes()
    assert [row["drawn"] for row in adapted.metrics] == [row["drawn"] for row in alone.metrics]


def test_the_job_script_requests_the_configured_resources():
    pytest.importorskip("dask_jobqueue")
    configured = load(["clusters/jobqueue"], ["cluster.options.account=linguistics"], {}).cluster.arguments()
    with open_cluster(**configured | {"n_workers": 0}) as client:
        script = client.cluster.job_script()
    lines = [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")]
    assert {"-p batch", "-A linguistics", "-n 1", "--cpus-per-task=4", "--mem=16G", "-t 02:00:00"} <= {*lines}
    assert "--exclusive" not in lines
    assert "--nthreads 4" in script
    assert "--memory-limit 16.00GiB" in script


def test_jobs_of_a_local_queue_work():
    pytest.importorskip("dask_jobqueue")
    with open_cluster("dask_jobqueue.local:LocalCluster", n_workers=1, cores=1, memory="1GiB") as client:
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3
        assert [(c.threads, c.memory) for c in OnDask(client).capacities()] == [(1, 1 << 30)]
        # Dask writes no results to disk, and the nanny has set the variables of the process.
        found = client.submit(lambda: (dask.config.get("distributed.worker.memory"), os.environ["GLIBC_TUNABLES"]))
        memory, tunables = found.result(timeout=60)
        assert (memory["target"], memory["spill"], memory["pause"]) == (False, False, 0.9)
        assert "arena_max=1" in tunables


def job_pids(client):
    return [job.process.pid for job in client.cluster.workers.values()]


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "adapt"), [(1, {"minimum": 1, "maximum": 1}), (2, None)])
def test_a_job_that_ends_is_replaced(processes, adapt, tmp_path, monkeypatch):
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setenv("DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT", "1s")
    options = {"cores": processes, "processes": processes, "memory": f"{processes}GiB", "n_workers": processes}
    options["local_directory"] = str(tmp_path)
    with open_cluster("dask_jobqueue.local:LocalCluster", adapt=adapt, **options) as client:
        client.wait_for_workers(processes, timeout=60)
        time.sleep(1)  # a job whose worker dies at once is not submitted again and again
        former = set(workers_of(client))
        (pid,) = job_pids(client)
        for process in (*psutil.Process(pid).children(recursive=True), psutil.Process(pid)):
            process.kill()
        deadline = time.monotonic() + 60
        while set(workers_of(client)) <= former:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert pid not in job_pids(client)


def job_in_daemon(queue):
    try:
        with open_cluster("local", n_workers=1, memory_limit="1GiB"):
            queue.put("opened")
    except ClusterError as error:
        queue.put(str(error))


def test_a_daemonic_process_is_told_what_it_can_open():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=job_in_daemon, args=(queue,), daemon=True)
    process.start()
    assert "this process is a daemon" in queue.get(timeout=60)
    process.join()


def test_a_file_that_a_scheduler_left_over_is_named(tmp_path, monkeypatch):
    path = tmp_path / "scheduler.json"
    path.write_text('{"address": "tcp://127.0.0.1:9", "workers": {}}')
    with dask.config.set({"distributed.comm.timeouts.connect": "200ms"}):
        with pytest.raises(ClusterError, match="left over from an earlier scheduler, delete it"):
            with open_cluster("address", scheduler_file=str(path)):
                pass


def test_jobs_keep_the_users_own_python_and_settings(monkeypatch):
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setenv("DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE", "0.7")
    with open_cluster("dask_jobqueue:SLURMCluster", cores=1, memory="1GiB", python="/opt/python") as client:
        script = client.cluster.job_script()
    (value,) = re.findall(r"^env DASK_INTERNAL_INHERIT_CONFIG=(\S+) /opt/python -m ", script, re.MULTILINE)
    memory = dask.config.deserialize(value)["distributed"]["worker"]["memory"]
    assert (memory["target"], memory["pause"]) == (False, 0.7)


def test_the_manifest_of_pods_requests_the_configured_resources():
    pytest.importorskip("dask_kubernetes.operator")
    configured = load(["clusters/kubernetes"], ["cluster.options.env={CORPUSMILL_MODEL__MAX_ITER: '9'}"], {}).cluster
    manifest = clusters.pods_of(configured.options)
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("DaskCluster", "corpusmill")
    assert manifest["spec"]["worker"]["replicas"] == 8
    for part in ("scheduler", "worker"):
        pod = manifest["spec"][part]["spec"]["containers"][0]
        assert pod["image"] == "registry.example.org/corpusmill:latest"
        assert pod["resources"]["limits"] == {"cpu": "2", "memory": "8Gi"}
        given, settings = pod["env"]
        assert given == {"name": "CORPUSMILL_MODEL__MAX_ITER", "value": "9"}
        found = dask.config.collect_env({settings["name"]: settings["value"]})
        assert found["distributed"]["worker"]["memory"]["target"] is False


def test_a_cluster_that_closes_slowly_raises_no_error():
    class Slow(contextlib.ExitStack):
        def __exit__(self, *_):
            raise TimeoutError

    with clusters.closing_patiently(Slow()):
        pass
    with pytest.raises(TimeoutError, match="of the work"), clusters.closing_patiently(Slow()):
        raise TimeoutError("of the work itself")


def test_a_cluster_that_never_finishes_closing_is_left_with_a_warning(monkeypatch):
    monkeypatch.setattr(clusters, "CLOSE_SECONDS", 1.0)
    with pytest.warns(UserWarning, match="did not close in time: check that its workers and jobs have ended"):
        with open_cluster("local", n_workers=0, memory_limit="1GiB") as client:
            cluster = client.cluster

            async def wait_for_an_answer_that_never_comes():
                cluster._futures.add(asyncio.ensure_future(asyncio.Event().wait()))

            cluster.sync(wait_for_an_answer_that_never_comes)
    # It is closed after all, so that the other tests of this process are not disturbed.
    cluster._futures.clear()
    cluster.status = Status.failed
    cluster.close(timeout=20)
    assert cluster.status == Status.closed


def test_waiting_for_workers_is_reported(monkeypatch):
    messages = []
    monkeypatch.setattr(clusters, "PATIENCE_SECONDS", 0.1)
    with open_cluster("local", n_workers=0, memory_limit="1GiB") as client:
        with dask.config.set({"distributed.scheduler.no-workers-timeout": "300ms"}):
            with pytest.raises(ClusterError, match=r"no worker of tcp://.* started within 0\.3 s: check that workers"):
                await_cluster(client, messages.append)

        def start(sentence):
            messages.append(sentence)
            client.cluster.scale(1)

        await_cluster(client, start)
        await_cluster(client, messages.append)
    assert re.fullmatch(
        r"tcp://.* has no worker yet, waiting up to 0\.3 s for one: check .*\(dask worker tcp:.*", messages[0]
    )
    assert [re.findall(r"up to (.*?) for", sentence) for sentence in messages] == [["0.3 s"], ["5 min"]]


def test_a_scheduler_that_ends_while_a_command_waits_for_workers_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "PATIENCE_SECONDS", 0.1)
    options = {"distributed.comm.timeouts.connect": "1s"}
    with shell_cluster(tmp_path) as (scheduler, file), dask.config.set(options):
        with open_cluster("address", scheduler_file=str(file)) as client:
            client.wait_for_workers(1)
            client.retire_workers()

            def kill(sentence):
                scheduler.kill()
                scheduler.wait()

            with pytest.raises(ClusterError, match=r"scheduler at tcp://\S+ cannot be reached .*: start one again"):
                await_cluster(client, kill)


@pytest.mark.parametrize(
    "kind, options, message",
    [
        ("address", {}, "needs the scheduler's address"),
        ("cloud", {}, "choose synchronous, local, address, or the module and the class"),
        ("clouds_of_mine:Cluster", {}, "No module named 'clouds_of_mine': correct the name, or install its package"),
        ("subprocess:Popen", {"args": ["true"]}, "Popen is no class of a Dask cluster"),
        ("distributed:LocalClusters", {}, "has no attribute 'LocalClusters': correct the name"),
        ("dask_jobqueue:SLURMCluster", {"memory": "1GiB"}, "refuses its options .*how much cores and memory"),
        (
            "dask_jobqueue:SLURMCluster",
            {"queu": "long", "cores": 1, "memory": "1GiB"},
            "unexpected .* 'queu'.: correct",
        ),
        ("distributed:SpecCluster", {"n": 1}, "unexpected keyword argument 'n'.: correct cluster.options"),
    ],
)
def test_a_wrong_kind_or_option_of_a_cluster_is_an_error(kind, options, message):
    if kind.startswith("dask_jobqueue"):
        pytest.importorskip("dask_jobqueue")
    with pytest.raises(ClusterError, match=message), open_cluster(kind, **options):
        pass


@pytest.mark.parametrize(
    "kind, options, limit",
    [
        ("local", {"n_workers": 1, "memory_limit": "50MiB"}, "50.00 MiB"),
        ("local", {"n_workers": 1, "memory_limit": 200 << 20}, "200.00 MiB"),
        ("local", {"threads_per_worker": None, "memory_limit": "50MiB"}, "50.00 MiB"),
        ("local", {"n_workers": 1 << 20}, r"[\d.]+ [kM]iB"),
        ("dask_jobqueue:SLURMCluster", {"memory": "600MiB", "processes": 3}, "200.00 MiB"),
    ],
)
def test_workers_with_too_little_memory_for_the_libraries_are_refused_before_they_start(kind, options, limit):
    message = f"each worker may use {limit}, but Python .* takes up to 320.00 MiB.* set memory_limit to 1GiB or more"
    with pytest.raises(ClusterError, match=message), open_cluster(kind, **options):
        pass


def test_workers_of_a_running_cluster_with_too_little_memory_are_refused():
    options = {"processes": False, "dashboard_address": None, "memory_limit": "200MiB"}
    # The worker is a thread of this process, which may need more memory than that: it must not pause because of it.
    settings = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause")}
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=1, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        with pytest.raises(ClusterError, match=r"each worker may use 200.00 MiB"):
            await_cluster(client, print)


@pytest.mark.parametrize(
    "kind, module, extra",
    [
        ("dask_cuda:LocalCUDACluster", "dask_cuda", "cuda12"),
        ("dask_jobqueue:SLURMCluster", "dask_jobqueue", "jobqueue"),
        ("dask_kubernetes.operator:KubeCluster", "dask_kubernetes", "kubernetes"),
    ],
)
def test_a_library_that_is_not_installed_is_named_with_its_extra(kind, module, extra, monkeypatch):
    for name in (module, *(m for m in list(sys.modules) if m.startswith(f"{module}."))):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails, installed or not
    with pytest.raises(ClusterError, match=rf"corpusmill\[{extra}\]"), open_cluster(kind):
        pass
