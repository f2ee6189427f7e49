"""A real Slurm of one node: jobs train, all of them are lost, others take their place, and a stopped run is resumed."""

import subprocess
import sys
import time

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.pipeline.engine.run import RunStore
from corpusmill.pipeline.models.registry import load_model
from helpers.slurm import slurm
from helpers.toy import write_toy_corpus

pytestmark = pytest.mark.slow
EPOCHS = 400


@pytest.fixture
def slurm_environment(tmp_path):
    pytest.importorskip("dask_jobqueue")
    folder = tmp_path / "slurm"
    folder.mkdir()
    with slurm(folder) as environment:
        if environment is None:
            pytest.skip("Slurm is not installed (apt install slurm-wlm), or this user may not start it")
        yield environment | {"DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "2s"}


def jobs(environment):
    listed = subprocess.run(["squeue", "-h", "-o", "%i"], capture_output=True, text=True, env=environment)
    return set(listed.stdout.split())


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def cluster_setting(scale):
    jobs = "cores: 1, memory: 1GiB, queue: batch, walltime: '00:10:00', interface: lo"
    return f"cluster={{kind: 'dask_jobqueue:SLURMCluster', {scale}{jobs}}}}}"


@pytest.mark.timeout(400)
def test_all_jobs_are_lost_and_replaced_and_a_stopped_run_is_resumed(slurm_environment, tmp_path):
    corpus = write_toy_corpus(tmp_path / "corpus", n_chunks=2)
    adaptive = cluster_setting("adapt: {minimum: 1, maximum: 1}, options: {")
    run = tmp_path / "run"
    settings = [f"corpus.url={corpus.url}", f"run.url={run}", "model.n_components=3", f"model.max_iter={EPOCHS}"]
    given = [part for value in (*settings, adaptive, "report=null") for part in ("--set", value)]
    command = [sys.executable, "-m", "corpusmill"]

    def step():
        return RunStore(str(run)).step if (run / "run.json").exists() else 0

    options = {"env": slurm_environment, "cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, "train", "lda", *given], **options) as training:
        wait_for(lambda: step() > 1)
        first = jobs(slurm_environment)
        subprocess.run(["scancel", *first], env=slurm_environment, check=True)
        wait_for(lambda: jobs(slurm_environment) - first)
        trained = step()
        wait_for(lambda: step() > trained + 1)
        training.terminate()
        assert training.wait(60) in (0, 143)
    wait_for(lambda: not jobs(slurm_environment))
    options["stderr"] = None
    fixed = cluster_setting("options: {n_workers: 1, ")
    subprocess.run([*command, "resume", str(run), "--set", fixed], check=True, **options)
    expected = LDA(3, max_iter=EPOCHS).fit(corpus)
    np.testing.assert_array_equal(load_model(str(run / "model")).components_, expected.components_)
