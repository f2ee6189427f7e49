"""Fixtures that every test may use."""

import gc
import json
import lzma
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
import uuid
from pathlib import Path

import dask
import hypothesis
import pytest
from corpusmill.pipeline.engine.cluster.open import dask_settings
from distributed import Client, LocalCluster, Nanny
from distributed.utils import get_mp_context
from helpers import python_simd
from helpers.longest_files import RANKS
from helpers.s3_proxy import Proxy
from numba import config as numba_config
from numcodecs.zstd import Zstd

if numba_config.DISABLE_JIT:
    python_simd.install()
if os.environ.get("CORPUSMILL_PTX"):
    from tests import ptx

    ptx.install()

# How long an example takes depends on what else the machine does, and on compiling kernels. Continuous integration runs
# the same examples each time, so that what fails there fails again; everywhere else, each run tries new ones.
REPEATED = {"derandomize": True, "database": None} if "CI" in os.environ else {}
hypothesis.settings.register_profile("corpusmill", deadline=None, **REPEATED)
hypothesis.settings.load_profile("corpusmill")

CANDIDATES = (os.environ.get("CORPUSMILL_DATA", ""), Path(__file__).parents[2] / "shared" / "data")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Pause the garbage collector while tests are collected, and let it never visit them afterwards.

    Collection imports every library and makes thousands of tests, all of which stay. That takes half of the time.
    The collector stays enabled: ``dask.array`` remembers at its import whether it is, for all its slices.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    result = yield
    gc.freeze()
    gc.set_threshold(*thresholds)
    return result


def pytest_ignore_collect(collection_path, config):
    """Do not even import modules of slow tests if these are left out. They import large libraries."""
    is_left_out = config.option.markexpr == "not slow" and collection_path.match("test_*.py")
    if is_left_out and "\npytestmark = pytest.mark.slow\n" in collection_path.read_text():
        return True
    return None  # as without this function


def pytest_collection_modifyitems(items):
    """Run the longest files first, so that no process works alone on one of them at the end."""
    items.sort(key=lambda item: RANKS.get(item.path, len(RANKS)))


@pytest.fixture(scope="session")
def real_data(tmp_path_factory):
    """Return a function that returns the path of a corpus by its name. The test is skipped if the corpus is missing."""
    unpacked = tmp_path_factory.mktemp("data")

    def find(name: str) -> Path:
        for folder in filter(None, CANDIDATES):
            for path in (Path(folder, name), Path(folder, name + ".zst"), Path(folder, name + ".xz")):
                if path.exists():
                    return path if path.name == Path(name).name else _unpack(path, unpacked / name)
        pytest.skip(f"{name} is not in CORPUSMILL_DATA nor in ../shared/data")

    return find


def _unpack(packed: Path, target: Path) -> Path:
    if not target.exists():
        content = packed.read_bytes()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(lzma.decompress(content) if packed.suffix == ".xz" else bytes(Zstd().decode(content)))
    return target


# --- a cluster that tests share, because a worker takes seconds to start ---

#: Windows cannot fork, and coverage does not see what forked processes run.
METHOD = "spawn" if sys.platform == "win32" or "COVERAGE_RUN" in os.environ else "forkserver"
FORKING = {"distributed.worker.multiprocessing-method": METHOD}
#: What forked workers have imported already. Kernels are loaded when they are called.
PRELOADED = ["distributed", "corpusmill.pipeline.engine.cluster.sweep"]
PRELOADED += [f"corpusmill.pipeline.models.{name}.estimator" for name in ("lda", "nmf", "random_indexing", "word2vec")]
# The server of forks finds it if it is started in the root of the repository, as by the first test of most processes.
PRELOADED += ["tests.helpers.numba_types"]


@pytest.fixture
def forking(cluster_of):
    """Let the workers of a cluster that the test starts itself be forked, too."""
    with dask.config.set(FORKING):
        yield


class ForkingNanny(Nanny):
    """Forks its worker from a process that has imported the libraries: a tenth of the time of a new process."""

    async def instantiate(self):
        with dask.config.set(FORKING):
            return await super().instantiate()


@pytest.fixture(scope="session")
def cluster_of():
    """Return a function that scales a cluster to a number of workers and returns its client.

    Its event loop runs in this process until the tests end. So a test that needs another clock uses
    `helpers.clock.replace_clock`: if it changed Python's module ``time``, the event loop would hang.
    """
    # Tests without a cluster must not find this client or its settings.
    with dask.config.set(dask_settings()):
        with dask.config.set(FORKING):
            get_mp_context().set_forkserver_preload(PRELOADED)
        options = {"threads_per_worker": 1, "memory_limit": "2GiB", "dashboard_address": "127.0.0.1:0"}
        cluster = LocalCluster(n_workers=0, worker_class=ForkingNanny, **options)
        client = Client(cluster, set_as_default=False)

    def is_scaled(workers):
        cluster.scale(workers)
        deadline = time.monotonic() + 30
        # Workers that are leaving count, too: the scheduler would still send them what all workers have to run.
        while client.run_on_scheduler(_workers) != (workers, workers):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def client_of(workers):
        # After a test that kills workers, the cluster may count one that never comes back. Then all start anew.
        while not is_scaled(workers):
            is_scaled(0)
        # A task that an earlier test left would keep the only thread of its worker, and this test would never end.
        deadline = time.monotonic() + 30
        while left := {key for keys in client.run(_executing).values() for key in keys}:
            assert time.monotonic() < deadline, f"tasks of an earlier test still run: {left}, {client.run(_frames)}"
            time.sleep(0.05)
        return client

    # A worker that is killed must come back also on a busy machine.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1000 days"}), cluster, client:
        yield client_of


def _workers(dask_scheduler):
    return len(dask_scheduler.running), len(dask_scheduler.workers)


def _executing(dask_worker):
    return [*dask_worker.active_keys]


def _frames():
    frames = sys._current_frames()
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("Dask-")]
    return ["".join(traceback.format_stack(frames[thread.ident])) for thread in threads]


# --- an S3 server on this machine ---


@pytest.fixture(scope="session")
def bucket():
    """Return the URL of an empty bucket of an S3 server (moto) on this machine."""
    pytest.importorskip("moto")
    s3fs = pytest.importorskip("s3fs")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": address,
        }.items():
            patch.setenv(name, value)
        _wait_for(address)
        name = f"corpora-{uuid.uuid4().hex[:8]}"
        s3fs.S3FileSystem().mkdir(name)
        yield f"s3://{name}"
    server.terminate()
    server.wait(20)


@pytest.fixture
def s3_with(bucket, monkeypatch):
    """Return a function that puts a proxy with these arguments before the server, for the rest of the test."""
    import s3fs

    proxies = []

    def start(*arguments, **options):
        proxies.append(Proxy(os.environ["AWS_ENDPOINT_URL"], *arguments, **options))
        s3fs.S3FileSystem.clear_instance_cache()
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxies[-1].address)
        return proxies[-1]

    yield start
    monkeypatch.undo()
    s3fs.S3FileSystem.clear_instance_cache()
    for proxy in proxies:
        proxy.close()


@pytest.fixture
def undeletable(bucket):
    """Return the URL of another bucket of that server, whose policy denies deletions."""
    import s3fs

    name = f"kept-{uuid.uuid4().hex[:8]}"
    denied = {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": f"arn:aws:s3:::{name}/*"}
    filesystem = s3fs.S3FileSystem()
    filesystem.mkdir(name)
    policy = json.dumps({"Version": "2012-10-17", "Statement": [denied]})
    filesystem.call_s3("put_bucket_policy", Bucket=name, Policy=policy)
    return f"s3://{name}"


def _wait_for(address):
    for _ in range(150):
        try:
            urllib.request.urlopen(address)
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the S3 server did not start")
