"""Workers that do not see this machine's folders are named before anything is trained."""

import subprocess
import sys

import pytest
from corpusmill import LDA, DataError, EpochFinished, ingest
from distributed import Client, LocalCluster
from helpers.documents import BOATS_AND_BREAD

pytestmark = pytest.mark.slow

#: A worker that has an empty folder where its second argument is, as a worker on another machine has.
WORKER = 'mount -t tmpfs tmpfs "$2" && exec "$3" -m distributed.cli.dask_worker "$1" --nthreads 1 --no-dashboard'
CAN_MOUNT = subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode == 0


@pytest.fixture
def client(tmp_path):
    """A client of a worker that does not see the folder ``tmp_path / "mine"``."""
    mine = tmp_path / "mine"
    mine.mkdir()
    with LocalCluster(n_workers=0, dashboard_address=":0") as cluster, Client(cluster, set_as_default=False) as client:
        command = ["unshare", "-Urm", "sh", "-c", WORKER, "sh", cluster.scheduler_address, str(mine), sys.executable]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
        client.wait_for_workers(1, timeout=60)
        yield client
        process.terminate()
        process.wait()


@pytest.mark.skipif(not CAN_MOUNT, reason="the kernel allows no mounts to this user")
def test_folders_that_workers_cannot_read_are_named_with_the_way_out(client, tmp_path, monkeypatch):
    refused = pytest.raises(
        DataError,
        match=r"worker tcp://\S+ cannot read \S+/mine/\S+, a folder of .* \(run= of fit, run\.url on the command",
    )
    texts = [text.split() for text in BOATS_AND_BREAD]
    ingest(texts, str(tmp_path / "mine" / "corpus"))
    with refused:
        ingest(texts, str(tmp_path / "mine" / "other"), client=client)
    ingest(texts, str(tmp_path / "shared" / "corpus"))
    with refused:
        LDA(2, max_iter=2).fit(str(tmp_path / "mine" / "corpus"), client=client, run=str(tmp_path / "shared" / "run"))
    model = LDA(2, max_iter=2)
    shared = str(tmp_path / "shared" / "corpus")
    model.fit(shared, client=client, run=str(tmp_path / "shared" / "run"))
    assert model.n_iter_ == 2
    # Without run=, the run has a temporary folder of this machine, and so has a model that is not saved.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "mine"))
    with refused:
        LDA(2, max_iter=2).fit(shared, client=client)
    with refused:
        LDA(2, max_iter=2).fit(texts).transform(texts, client=client)


@pytest.mark.skipif(not CAN_MOUNT, reason="the kernel allows no mounts to this user")
@pytest.mark.parametrize(
    ("mount", "action"),
    [('mount -t tmpfs tmpfs "$1"', "read"), ('mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"', "write")],
)
def test_a_worker_that_joins_later_and_cannot_use_a_folder_is_named(tmp_path, mount, action):
    (tmp_path / "mine").mkdir()
    corpus = ingest([text.split() for text in BOATS_AND_BREAD], str(tmp_path / "corpus"), chunk_tokens=20)
    run = str(tmp_path / "mine" / "run")
    processes = []
    with (
        LocalCluster(n_workers=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        def replace_worker(event):
            """After the first epoch, let a worker join that sees the folder in another way, and the first one leave."""
            if processes or not isinstance(event, EpochFinished):
                return
            (first,) = client.scheduler_info()["workers"]
            script = f'{mount} && exec "$2" -m distributed.cli.dask_worker "$3" --nthreads 1 --no-dashboard'
            given = [str(tmp_path / "mine"), sys.executable, cluster.scheduler_address]
            command = ["unshare", "-Urm", "sh", "-c", script, "sh", *given]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            processes.append(subprocess.Popen(command, cwd=tmp_path, **quiet))
            client.wait_for_workers(2, timeout=60)
            client.retire_workers([first])

        with pytest.raises(DataError, match=rf"worker tcp://\S+ cannot {action} {run}, a folder of this machine"):
            LDA(2, max_iter=4).fit(corpus, client=client, run=run, callbacks=[replace_worker])
    for process in processes:
        process.terminate()
        process.wait()
    assert LDA(2, max_iter=4).fit(corpus, run=run).n_iter_ == 4
