"""The command doctor: one line per check, and what each check finds on a machine that has the problem."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import dask
import pytest
from corpusmill.io.stores.store import Store
from corpusmill.pipeline.commands.actions import doctor, tiny_models
from corpusmill.pipeline.commands.actions.doctor import Scratch, find
from corpusmill.pipeline.engine.device import has_cuda
from corpusmill.pipeline.models.nmf.estimator import NMF
from distributed import Client, LocalCluster
from helpers.groups import write_groups, write_limit
from helpers.models import kernel_modules
from helpers.narrow_registers import NARROW
from helpers.s3_proxy import ignore_conditions, refuse_conditions


def outcome(check, *arguments):
    """Return status and text of what a check finds."""
    found = find("check", check, *arguments)
    return found["status"], found["text"]


def test_a_healthy_folder_gets_one_line_per_check_and_is_left_as_it_was(tmp_path, call):
    store = tmp_path / "runs"
    code, out, _ = call("doctor", store, "--no-self-test")
    lines = out.splitlines()
    assert code == 0
    assert len(lines) == len({line[9:24] for line in lines}) == 5
    assert all(line.startswith(("fine ", "advice ")) for line in lines)
    assert not store.exists()


def test_json_has_every_finding_and_a_problem_gives_exit_code_1(tmp_path, call):
    (tmp_path / "file").write_text("not a folder")
    code, out, _ = call("doctor", tmp_path / "file", "--no-self-test", "--json")
    facts = json.loads(out)
    assert (code, facts["problems"]) == (1, 1)
    (problem,) = [found for found in facts["findings"] if found["status"] == "problem"]
    assert problem["check"] == "store"
    assert "change its permissions, or name another place" in problem["text"]


def test_the_limit_that_counts_is_named_first(tmp_path):
    write_groups(tmp_path, "0::/jobs/17", [("cgroup2", "rw", "/", "/sys/fs/cgroup")])
    write_limit(tmp_path, "sys/fs/cgroup/jobs/memory.max", 512 << 20)
    write_limit(tmp_path, "sys/fs/cgroup/jobs/17/memory.max", 768 << 20)
    _, text = outcome(doctor.check_memory, tmp_path)
    assert text.startswith("512.00 MiB (control group ")
    assert re.search(r"larger limits: .*17/memory.max 768.00 MiB, .*the machine 64.00 GiB", text)


def test_a_gpu_that_python_cannot_use_is_advice(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H200, 570.86, 143771 MiB'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    status, text = outcome(doctor.check_gpu)
    assert status == ("fine" if has_cuda() else "advice")
    assert text.startswith("NVIDIA H200, 570.86, 143771 MiB")


ON_A_DEVICE = """
import sys
from tests import ptx
ptx.install()
from corpusmill.pipeline.commands.actions import doctor
doctor._devices_of_driver = lambda: "a GPU"
if sys.argv[1] == "broken":
    from tests.ptx import compiler
    compiler.text_of = lambda *_: 1 / 0
print(doctor.find("GPU", doctor.check_gpu))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "found"),
    [
        ("works", "'fine', 'text': 'a GPU; a kernel compiles and runs'"),
        ("broken", "'problem', 'text': \"a GPU: no kernel compiles and runs (CUDA kernel add: division by zero)"),
    ],
)
def test_a_kernel_is_compiled_and_run_where_a_device_is(state, found):
    from tests.ptx import device

    if lacking := device.missing():
        pytest.skip(lacking)
    environment = os.environ | {"CORPUSMILL_PTX": "9.0"}
    command = [sys.executable, "-c", ON_A_DEVICE, state]
    done = subprocess.run(command, env=environment, cwd=Path(__file__).parents[4], capture_output=True, text=True)
    assert found in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("trait", [ignore_conditions, refuse_conditions(501), refuse_conditions(400)])
def test_an_object_store_without_conditions_is_a_problem(bucket, s3_with, trait):
    with Scratch(f"{bucket}/runs") as scratch:
        assert outcome(doctor.check_conditional_writes, scratch) == ("fine", "is refused")
    s3_with(trait)
    with Scratch(f"{bucket}/runs") as scratch:
        status, text = outcome(doctor.check_conditional_writes, scratch)
    assert (status, "two jobs could overwrite each other" in text) == ("problem", True)


def test_workers_with_other_versions_or_another_store_are_problems(cluster_of):
    client = cluster_of(1)
    ours = client.get_versions(packages=list(doctor.SHARED))["client"]
    theirs = {"host": ours["host"], "packages": {**ours["packages"], "numpy": "1.0"}}
    text = doctor.version_differences(ours, {"scheduler": ours, "tcp://a": theirs, "tcp://b": theirs})
    assert text == f"numpy is {importlib.metadata.version('numpy')} here and 1.0 on tcp://a and 1 more"
    alike = doctor.width_differences(client.run(doctor.kernel_vectors))
    assert alike == ""
    # Each process has its own memory, as each machine has its own /tmp.
    status, text = outcome(doctor.check_store, client, Store("memory://runs"))
    assert (status, "all machines share" in text) == ("problem", True)


def test_workers_that_pause_early_or_write_to_disk_are_named_with_the_settings_that_help():
    cases = (((0.9, False, False), "fine"), ((0.8, False, False), "advice"), ((0.9, 0.7, False), "advice"))
    for (pause, spill, target), expected in cases:
        memory = {"pause": pause, "spill": spill, "target": target, "terminate": False}
        with (
            dask.config.set({f"distributed.worker.memory.{name}": value for name, value in memory.items()}),
            LocalCluster(n_workers=1, processes=False, memory_limit="2GiB", dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            status, text = outcome(doctor.check_workers, client)
        assert status == expected, text
        assert ("DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=0.9" in text) == (status == "advice")


def test_workers_with_vectors_of_other_widths_are_named_with_the_setting_that_makes_them_alike():
    found = {"tcp://a": ("x86_64", 512), "tcp://b": ("x86_64", 256), "tcp://c": ("x86_64", 512)}
    text = doctor.width_differences(found)
    assert text.startswith(
        "512-bit vectors on tcp://a (x86_64, 2 in all) and 256-bit vectors on tcp://b (x86_64, 1 in all):"
    )
    settings = [dict(re.findall(r"(\w+)=(\S+?)(?: |$)", text)) for text in doctor.SETTINGS_OF_WIDTHS.values()]
    assert settings == [NARROW[128], NARROW[256]]
    assert doctor.SETTINGS_OF_WIDTHS[256] in text
    assert doctor.SETTINGS_OF_WIDTHS[128] in doctor.width_differences(found | {"tcp://d": ("aarch64", 128)})


@pytest.mark.slow
def test_kernels_are_compiled_in_other_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiny_models, "TRAININGS", [(NMF(2, solver="mu", max_iter=1), 500)])
    assert outcome(tiny_models.compile_kernels)[0] == "fine"
    assert list(tmp_path.rglob("*.nbi"))


# Prints the modules of all kernels that were compiled or found on disk. Where other tests have compiled them, each
# training takes a second.
TRAIN_ALL = """
import sys
from corpusmill.pipeline.commands.actions.tiny_models import TRAININGS, train_small
from numba.core.dispatcher import Dispatcher
for model, data in TRAININGS:
    train_small(model, data)
for module in list(sys.modules.values()):
    for kernel in vars(module).values():
        if isinstance(kernel, Dispatcher) and kernel.overloads:
            print(kernel.py_func.__module__)
"""
#: Further modules with kernels that training, `transform` or `score` calls.
CALLED = {"lda.gibbs_registers", "lda.gibbs_dense", "lda.gibbs", "lda.inference", "nmf.slices", "node2vec.walks"}


# On a machine without these kernels, all of them are compiled by one process.
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_kernels_of_all_models_are_compiled():
    run = subprocess.run([sys.executable, "-c", TRAIN_ALL], capture_output=True, text=True, check=True)
    compiled = {name.removeprefix("corpusmill.kernels.") for name in run.stdout.split()}
    assert kernel_modules() | CALLED <= compiled


@pytest.mark.slow
def test_the_self_test_knows_its_results_here_and_on_a_cluster(cluster_of, monkeypatch):
    assert outcome(tiny_models.check_models)[0] == "fine"
    assert outcome(tiny_models.check_models_on, cluster_of(1))[0] == "fine"
    monkeypatch.setattr(tiny_models, "LDA_DIGEST", "another")
    monkeypatch.setattr(tiny_models, "NMF_ERROR", 1.0)
    status, text = outcome(tiny_models.check_models)
    assert status == "problem"
    assert text.startswith("LDA, NMF: ")
    assert outcome(tiny_models.check_models_on, cluster_of(1))[0] == "problem"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_a_problem(tmp_path):
    Path(tmp_path).chmod(0o500)
    with Scratch(str(tmp_path)) as scratch:
        assert outcome(doctor.check_rights, scratch)[0] == "problem"


# --- what cannot be reached ---


def store_problem(out):
    """Return the line about the store; check that there is a line for each check that needs no store."""
    lines = out.splitlines()
    assert len(lines) >= 4
    (line,) = [line for line in lines if line[9:].startswith("store ")]
    return line


@pytest.mark.parametrize(
    ("environment", "cause"),
    [
        # The library repeats the request for some seconds.
        pytest.param(
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
            "the store failed repeatedly.*check the address and the network",
            marks=pytest.mark.slow,
        ),
        ({"AWS_ACCESS_KEY_ID": ""}, "access denied.*check the credentials"),
    ],
)
def test_a_store_that_cannot_be_reached_is_one_problem(bucket, call, monkeypatch, environment, cause):
    import s3fs

    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    code, out, _ = call("doctor", f"{bucket}/runs", "--no-self-test")
    s3fs.S3FileSystem.clear_instance_cache()
    assert code == 1
    assert re.match(rf"problem  store +cannot look into the store: {bucket}/runs: {cause}", store_problem(out))


def test_a_missing_bucket_is_one_problem(bucket, call):
    code, out, _ = call("doctor", f"{bucket}-missing/runs", "--no-self-test")
    assert code == 1
    assert "its bucket does not exist" in store_problem(out)
    assert "create it, or correct the URL" in store_problem(out)


def test_a_store_without_the_right_to_delete_is_advice_and_the_other_checks_are_made(undeletable, call):
    code, out, _ = call("doctor", f"{undeletable}/runs", "--no-self-test")
    assert code == 0
    assert re.match(r"advice   store .*cannot be deleted.*s3:DeleteObject.*grant it", store_problem(out))
    assert "second writer  is refused" in out


def test_a_cluster_that_cannot_be_reached_is_one_problem(tmp_path, call, monkeypatch):
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    cluster = ("--set", "cluster.kind=address", "--set", "cluster.address=tcp://127.0.0.1:1")
    code, out, _ = call("doctor", tmp_path / "runs", "--no-self-test", *cluster)
    assert code == 1
    assert re.match(r"problem  cluster +no scheduler answers at tcp://127.0.0.1:1 .*correct the address", out)
    assert store_problem(out).startswith("fine")
