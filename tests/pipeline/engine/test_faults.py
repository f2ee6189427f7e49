"""Faults of production: after each one, nothing is lost or incomplete, and the result has the same bits."""

import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from corpusmill.io.errors import DataError
from corpusmill.io.stores.corpus import Corpus
from corpusmill.pipeline.engine.cluster import open as opening
from corpusmill.pipeline.engine.cluster import watch
from corpusmill.pipeline.engine.cluster.open import ClusterError, open_cluster
from corpusmill.pipeline.engine.cluster.watch import TaskLost
from corpusmill.pipeline.engine.epoch import Training, train
from corpusmill.pipeline.engine.events import EpochFinished, ShardSwept
from corpusmill.pipeline.engine.executors import OnDask, Synchronous
from corpusmill.pipeline.engine.run import RunStore
from helpers.clock import replace_clock
from helpers.shell_cluster import shell_cluster
from helpers.source_tree import files_below
from helpers.toy import Tally, model_of, write_toy_corpus

pytestmark = pytest.mark.usefixtures("forking")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_toy_corpus(tmp_path_factory.mktemp("faults") / "corpus")


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory):
    return trained(corpus, tmp_path_factory.mktemp("expected") / "run")


def trained(corpus, folder, executor=None, **options):
    run = RunStore(str(folder))
    train(Training(Tally(), corpus, run, 4, seed=7, **options), executor or Synchronous())
    return model_of(run, Tally())


def stop_after_two(event):
    """End training after the second epoch."""
    return isinstance(event, EpochFinished) and event.epoch == 2


def whole(folder):
    """Check that every epoch of a run can be read, and that there are no temporary files."""
    run = RunStore(str(folder))
    assert not list(Path(folder).rglob(".tmp-*"))
    assert [row["step"] for row in run.metrics] == list(range(1, run.step + 1))
    run.shared(run.step)
    run.block(run.step, 0)
    for chunk in range(6 if run.step else 0):
        run.state(run.step, chunk)


# --- the disk ---


@pytest.mark.parametrize("kilobytes", [64, 128, 160, 256])
def test_a_full_disk_loses_only_the_current_epoch(corpus, expected, tmp_path, kilobytes):
    mount = tmp_path / "small"
    mount.mkdir()
    if os.geteuid() or os.system(f"mount -t tmpfs -o size={kilobytes}k tmpfs {mount}"):
        pytest.skip("needs the right to mount a small tmpfs")
    try:
        with pytest.raises(OSError, match="No space left"):
            trained(corpus, mount / "run")
        if RunStore(str(mount / "run")).step >= 0:
            whole(mount / "run")
        os.system(f"mount -o remount,size=64m {mount}")
        np.testing.assert_array_equal(trained(corpus, mount / "run"), expected)
        whole(mount / "run")
    finally:
        os.system(f"umount {mount}")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-3])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
@pytest.mark.parametrize("array", ["doc_ptr", "words", "word_ids", "word_ptr", "docs"])
def test_a_damaged_chunk_is_named(tmp_path, array, damage):
    corpus = write_toy_corpus(tmp_path / "corpus", n_chunks=3)
    stored = tmp_path / "corpus" / "train" / "000001" / array / "c" / "0"
    before = stored.read_bytes()
    damage(stored)
    with pytest.raises(DataError, match=r"train/000001: .*(damaged|missing)"):
        trained(corpus, tmp_path / "run")
    whole(tmp_path / "run")
    stored.write_bytes(before)
    trained(corpus, tmp_path / "run")


def test_files_of_a_killed_writer_are_removed_by_the_next_run(corpus, expected, tmp_path):
    run = tmp_path / "run"
    trained(corpus, run, callbacks=[stop_after_two])
    begun = run / "epochs" / "000003-0001" / f".tmp-{'0a' * 16}-state"
    begun.mkdir(parents=True)
    (begun / "zarr.json").write_text("{")
    (run / f".tmp-{'1b' * 16}-HEAD").write_text("{")
    np.testing.assert_array_equal(trained(corpus, run), expected)
    whole(run)


# --- the clock ---


def test_a_jumping_clock_does_not_change_the_result(corpus, expected, tmp_path, monkeypatch):
    jumps = random.Random(5)
    now = time.time()
    replace_clock(monkeypatch, time=lambda: now + jumps.uniform(-1e6, 1e6))
    run = tmp_path / "run"
    trained(corpus, run, callbacks=[stop_after_two])
    np.testing.assert_array_equal(trained(corpus, run), expected)
    assert all(0 < row["seconds"] < 60 for row in RunStore(str(run)).metrics)


# --- the cluster ---


@pytest.mark.slow
@pytest.mark.parametrize("moment", [EpochFinished, ShardSwept])
def test_a_killed_scheduler_is_an_error_and_the_run_continues_on_another_cluster(
    corpus, expected, tmp_path, monkeypatch, moment
):
    with shell_cluster(tmp_path) as (scheduler, file):
        # The client tries to connect to the scheduler for this time, by default half a minute.
        monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "5s")

        def kill(event):
            if isinstance(event, moment) and event.epoch == 2:
                scheduler.kill()

        with open_cluster("address", scheduler_file=str(file)) as client:
            message = r"scheduler at tcp://\S+ cannot be reached; committed epochs are safe.* resume"
            with pytest.raises(TaskLost, match=message):
                trained(corpus, tmp_path / "run", OnDask(client), callbacks=[kill])
        assert RunStore(str(tmp_path / "run")).step == (2 if moment is EpochFinished else 1)
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run"), expected)
    whole(tmp_path / "run")


def test_a_scheduler_that_died_before_training_is_an_error_with_advice(tmp_path, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    with (
        shell_cluster(tmp_path) as (scheduler, file),
        open_cluster("address", scheduler_file=str(file)) as client,
    ):
        scheduler.kill()
        scheduler.wait()
        with pytest.raises(TaskLost, match=r"scheduler at tcp://\S+ cannot be reached"):
            OnDask(client)


@pytest.mark.timeout(60)
def test_a_lost_scheduler_is_an_error_although_the_task_of_dask_that_reconnects_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "LOST_SECONDS", 1.0)
    with (
        shell_cluster(tmp_path) as (scheduler, file),
        open_cluster("address", scheduler_file=str(file)) as client,
    ):
        executor = OnDask(client)

        async def fail():
            client.status = "connecting"
            raise RuntimeError("dictionary changed size during iteration")

        monkeypatch.setattr(client, "_reconnect", fail)
        with pytest.raises(TaskLost, match=r"scheduler at tcp://\S+ cannot be reached"), executor.guarded():
            results = executor.run(time.sleep, [(60,)], "sleep")
            threading.Timer(1.0, scheduler.kill).start()
            list(results)


@pytest.mark.slow
def test_a_run_without_any_worker_ends_with_advice_and_continues(corpus, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT", "3s")
    with (
        shell_cluster(tmp_path, workers=("--no-nanny",)) as (_, file),
        open_cluster("address", scheduler_file=str(file)) as client,
    ):

        def kill(event):
            if isinstance(event, EpochFinished) and event.epoch == 2:
                (pid,) = client.run(os.getpid).values()
                os.kill(pid, signal.SIGKILL)

        with pytest.raises(TaskLost, match=r"has had no worker for 3.* s; committed epochs are safe: start workers"):
            trained(corpus, tmp_path / "run", OnDask(client), callbacks=[kill])
    np.testing.assert_array_equal(trained(corpus, tmp_path / "run"), expected)


def test_a_scheduler_file_that_nobody_writes_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "FILE_SECONDS", 0.2)
    file = tmp_path / "scheduler.json"
    message = rf"{file}: no scheduler has written this file: start one"
    with pytest.raises(ClusterError, match=message), open_cluster("address", scheduler_file=str(file)):
        pass


def test_a_missing_certificate_is_named_with_its_key(tmp_path):
    options = {"address": "tcp://127.0.0.1:9", "tls_ca_file": str(tmp_path / "ca.pem")}
    message = r"cluster\.tls_ca_file: there is no file .*ca\.pem: correct it, or remove the key"
    with pytest.raises(ClusterError, match=message), open_cluster("address", **options):
        pass


def test_a_scheduler_that_does_not_respond_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": "tcp://127.0.0.1:9"}))
    for kind, options in (
        ("address", {"address": "tcp://127.0.0.1:9"}),
        ("address", {"scheduler_file": str(file)}),
    ):
        with pytest.raises(ClusterError, match="no scheduler answers"), open_cluster(kind, **options):
            pass


def test_an_error_of_a_task_is_raised_unchanged(tmp_path):
    corpus = write_toy_corpus(tmp_path / "corpus", n_chunks=2)
    truncate(tmp_path / "corpus" / "train" / "000001" / "words" / "c" / "0")
    with open_cluster("local", n_workers=1, memory_limit="2GiB") as client:
        with pytest.raises(DataError, match=r"train/000001: damaged"):
            trained(Corpus(corpus.url), tmp_path / "run", OnDask(client))


def certificates(folder):
    """Make an authority and one certificate that it signed; return the files by option."""
    names = {name: str(folder / name) for name in ("ca.pem", "ca.key", "cert.pem", "cert.key", "request.pem")}
    key = ["-newkey", "rsa:2048", "-nodes"]
    signer = ["-CA", names["ca.pem"], "-CAkey", names["ca.key"], "-CAcreateserial"]
    for command in (
        ["req", "-x509", *key, "-keyout", names["ca.key"], "-out", names["ca.pem"], "-subj", "/CN=authority"],
        ["req", *key, "-keyout", names["cert.key"], "-out", names["request.pem"], "-subj", "/CN=localhost"],
        ["x509", "-req", "-in", names["request.pem"], "-out", names["cert.pem"], *signer],
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    return names


@pytest.mark.slow
def test_a_run_over_tls_has_the_same_bits_and_strangers_are_refused(corpus, expected, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    files = certificates(tmp_path)
    theirs = {"--tls-ca-file": "ca.pem", "--tls-cert": "cert.pem", "--tls-key": "cert.key"}
    options = [word for option, name in theirs.items() for word in (option, files[name])]
    ours = {"tls_ca_file": files["ca.pem"], "tls_client_cert": files["cert.pem"], "tls_client_key": files["cert.key"]}
    with shell_cluster(tmp_path, "--protocol", "tls", *options) as (_, file):
        with open_cluster("address", scheduler_file=str(file), **ours) as client:
            assert client.scheduler.address.startswith("tls://")
            np.testing.assert_array_equal(trained(corpus, tmp_path / "run", OnDask(client)), expected)
        address = json.loads(file.read_text())["address"]
        with open_cluster("address", address=address, **ours) as client:
            assert client.submit(sum, [1, 2]).result(timeout=60) == 3
        with pytest.raises((ClusterError, TypeError, RuntimeError)), open_cluster("address", address=address):
            pass


# --- what is stored ---


def test_stores_contain_only_data(corpus, tmp_path):
    run = tmp_path / "run"
    trained(corpus, run)
    files = files_below(corpus.url, run)
    assert len(files) > 50
    for path in files:
        content = path.read_bytes()
        if path.suffix in (".json", ".jsonl") or path.name == "HEAD":
            [json.loads(line) for line in (content.splitlines() if path.suffix == ".jsonl" else [content])]
        elif path.suffix == ".parquet":
            assert content[:4] == content[-4:] == b"PAR1"
        elif path.suffix == ".lock":
            assert content == b""
        else:  # a piece of a Zarr array: numbers and their checksum
            assert int(google_crc32c.value(content[:-4])).to_bytes(4, "little") == content[-4:], path
