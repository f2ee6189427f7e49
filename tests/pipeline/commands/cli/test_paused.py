"""A process is paused for longer than its lock lasts, another one takes over, and the first one continues."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from corpusmill.io.stores import locks
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.models.registry import load_model
from corpusmill.pipeline.publishing.versions import Versions
from helpers.command_line import COMMAND
from helpers.nightly import tree_of, write_configuration, write_first_days

pytestmark = pytest.mark.slow

LOCK_SECONDS = 2.0
EPOCHS = 6


@pytest.fixture
def url(bucket, tmp_path, monkeypatch):
    """An empty folder on an object store. The working directory has two days of documents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(locks.EXPIRY_VARIABLE, str(LOCK_SECONDS))
    write_first_days()
    return f"{bucket}/{tmp_path.name}"


def configure(url):
    """Write my.yaml for a model whose files are at ``url``."""
    sections = {"run": {"url": url}, "retrain": {"url": url}, "corpus": {"url": "corpus"}}
    write_configuration("lda", model=tree_of("lda")["model"] | {"max_iter": EPOCHS}, **sections)


def paused(command, is_reached):
    """Start a command in another process, and stop it when the condition holds; return the process."""
    environment = os.environ | {"CORPUSMILL_LOCK_SECONDS": str(LOCK_SECONDS)}
    process = subprocess.Popen(
        [*COMMAND, command, "my.yaml"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while not is_reached() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGSTOP)
    assert process.poll() is None, process.communicate()
    return process


def finish(call, command):
    """Call a command until it may run; return how often it was refused, because the paused process had the lock."""
    refusals = 0
    while True:
        code, _, err = call(command, "my.yaml")
        if code != 75:
            assert code == 0, err
            return refusals
        assert "if that process is dead, the lock is free in" in err
        refusals += 1
        time.sleep(0.2)


def resume(process):
    """Let a stopped process continue; return its exit code and its messages."""
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


def files_of(url):
    """Return the contents of all files at a URL but the locks."""
    store = Store(url)
    paths = sorted(path for path in store.fs.find(store.path) if not path.endswith(".lock"))
    return store.fs.cat(paths)


def test_a_paused_training_changes_nothing_after_another_process_has_taken_over(url, call):
    configure(url)
    assert call("ingest", "days/*.jsonl", "corpus", "--config", "my.yaml")[0] == 0
    process = paused("train", lambda: RunStore(url).step >= 1)
    stopped_at = RunStore(url).step
    assert finish(call, "train") >= 1
    finished = files_of(url)
    code, err = resume(process)
    assert code == 75
    assert "this process was paused and lost its lock, and another one has taken over" in err
    later = files_of(url)
    assert finished == {name: later.get(name) for name in finished}
    run = RunStore(url)
    assert 1 <= stopped_at < run.step == EPOCHS
    assert [row["step"] for row in run.metrics] == list(range(1, EPOCHS + 1))
    configure("undisturbed")
    assert call("train", "my.yaml")[0] == 0
    assert load_model(f"{url}/model").components_.tolist() == load_model("undisturbed/model").components_.tolist()


def test_a_paused_retraining_changes_nothing_after_another_process_has_taken_over(url, call):
    configure(url)

    def is_training():
        return any(RunStore(f"{url}/runs/{name}/run").step >= 1 for name in Store(url).names("runs"))

    process = paused("retrain", is_training)
    assert finish(call, "retrain") >= 1
    published = files_of(url)
    code, err = resume(process)
    assert code == 75
    assert "lost its lock" in err
    later = files_of(url)
    assert published == {name: later.get(name) for name in published}
    versions = Versions(url)
    assert (versions.head.version, versions.numbers) == (1, [1])
    # The paused process is owner 1. Each later attempt to take over may have used up a number.
    assert re.fullmatch(r"versions/000001-\d{4}", versions.folder(1))
    assert versions.folder(1) > "versions/000001-0001"
    configure("undisturbed")
    assert call("retrain", "my.yaml")[0] == 0
    assert load_model(url).components_.tolist() == load_model("undisturbed").components_.tolist()
    assert Path("undisturbed").is_dir()
