"""The commands of the pages about S3, TLS, SLURM and Kubernetes, as far as they run on one machine."""

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from corpusmill.configs.resolve import load
from corpusmill.pipeline.engine.cluster.open import pods_of
from helpers.source_tree import PACKAGES, ROOT

pytestmark = pytest.mark.slow

PAGES = ROOT / "docs" / "how-to"
BLOCK = re.compile(r"^( *)```(?P<language>\w+)\n(?P<code>.*?)^\1```", re.DOTALL | re.MULTILINE)
DOCUMENT = json.dumps({"text": "the sailor steers the boat over the sea and the baker bakes the bread in the oven"})
SMALL = """
source: {path: articles.jsonl}
corpus: {url: corpus, held_out: 0}
model: {kind: lda, n_components: 2, max_iter: 2}
run: {url: run}
"""
#: Takes the place of SLURM's srun: starts the program of its arguments once, on this machine.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""


def blocks(page, language):
    """Return the code of each fenced block of a language, without the indentation of a list."""
    found = BLOCK.finditer((PAGES / page).read_text())
    wanted = [match for match in found if match["language"] == language]
    return [re.sub(rf"(?m)^{match[1]}", "", match["code"]) for match in wanted]


def commands(page, program):
    """Return the commands of the console blocks that begin with a program."""
    lines = [line.removeprefix("$ ") for code in blocks(page, "console") for line in code.splitlines()]
    return [line for line in lines if line.startswith(f"{program} ")]


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """Write documents and a small configuration into the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}")
    Path("bin").mkdir()
    Path("articles.jsonl").write_text(f"{DOCUMENT}\n" * 30)
    Path("my.yaml").write_text(SMALL)


def shell(command, codes=(0,), **environment):
    """Run a command of a page; return what it printed."""
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=240,
        check=False,
    )
    assert done.returncode in codes, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextlib.contextmanager
def started(command):
    """Run a command of a page in the background, with all processes that it starts."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(["bash", "-c", command], start_new_session=True, **quiet) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def free_port():
    """Return a port that no program uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# --- S3 ---


def test_the_commands_of_the_page_about_s3_run_on_a_server(bucket):
    import s3fs

    files = s3fs.S3FileSystem(skip_instance_cache=True)
    doctor, run = commands("s3.md", "corpusmill")
    for name in set(re.findall(r"s3://(\w+)", f"{doctor} {run}")):
        files.mkdir(name)
    files.pipe("news/monday.jsonl", f"{DOCUMENT}\n".encode() * 30)
    # The first variables that the page exports are those that the server of this test needs.
    for line in commands("s3.md", "export")[:3]:
        assert shlex.split(line)[1].partition("=")[0] in os.environ
    # This machine may have problems that are not the store's.
    found = json.loads(shell(f"{doctor} --no-self-test --json", codes=(0, 1)))
    status = {finding["check"]: finding["status"] for finding in found["findings"]}
    assert (status["store"], status["second writer"]) == ("fine", "fine")
    shell(run.replace("*.jsonl.gz", "*.jsonl"), CORPUSMILL_CLUSTER__KIND="synchronous")
    assert files.exists("work/corpus/corpus.json")
    assert files.exists("work/run/model/model.json")


# --- TLS ---


def test_the_commands_of_the_page_about_tls_train_and_refuse_who_has_no_certificate():
    address = f"tls://127.0.0.1:{free_port()}"
    certificates, scheduler, worker = blocks("tls.md", "bash")
    shell(certificates)
    assert {"ca.pem", "cert.pem", "key.pem"} <= {path.name for path in Path().iterdir()}
    port = address.rpartition(":")[2]
    scheduler = scheduler.replace("--port 8786", f"--port {port} --host 127.0.0.1 --no-dashboard")
    assert port in scheduler
    worker = worker.replace("tls://scheduler:8786", f"{address} --no-dashboard --nworkers 1 --nthreads 1")
    (configuration,) = blocks("tls.md", "yaml")
    Path("secure.yaml").write_text(configuration.replace("tls://scheduler:8786", address))
    with started(scheduler), started(worker):
        (run,) = commands("tls.md", "corpusmill")
        shell(run)
        assert Path("run/model/model.json").exists()
        # Certificates of another authority.
        Path("other").mkdir()
        shell(f"cd other\n{certificates}")
        Path("other.yaml").write_text(
            Path("secure.yaml").read_text().replace(": c", ": other/c").replace(": k", ": other/k")
        )
        refused = subprocess.run(
            ["corpusmill", "run", "my.yaml", "other.yaml", "--set", "run.url=stolen"],
            capture_output=True,
            text=True,
            env=os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"},
            timeout=120,
            check=False,
        )
    assert refused.returncode != 0
    assert not Path("stolen").exists()


# --- SLURM ---


def test_the_job_of_the_page_about_slurm_requests_what_the_page_configures():
    jobqueue = pytest.importorskip("dask_jobqueue")
    (configuration,) = blocks("slurm.md", "yaml")
    Path("cluster.yaml").write_text(configuration)
    wanted = load(["cluster.yaml"]).cluster.options
    with jobqueue.SLURMCluster(**wanted | {"n_workers": 0}) as cluster:
        script = cluster.job_script()
    requests = {line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")}
    assert {
        f"-p {wanted['queue']}",
        f"-A {wanted['account']}",
        f"--cpus-per-task={wanted['cores']}",
        f"-t {wanted['walltime']}",
    } <= requests
    assert "--mem=16G" in requests
    assert "--memory-limit 16.00GiB" in script


def test_the_script_of_the_page_about_slurm_trains_on_its_workers():
    Path("bin/srun").write_text(SRUN)
    Path("bin/srun").chmod(0o755)
    (script,) = blocks("slurm.md", "bash")
    # The pages of Dask would take ports that others use.
    script = script.replace("dask scheduler ", "dask scheduler --no-dashboard --host 127.0.0.1 --port 0 ")
    script = script.replace("dask worker ", "dask worker --no-dashboard ")
    Path("job.sh").write_text(script)
    with Path("errors").open("wb") as errors:
        job = subprocess.Popen(["bash", "job.sh"], start_new_session=True, stdout=errors, stderr=errors)
        try:
            # SLURM ends the scheduler and the workers with the script.
            assert job.wait(200) == 0, Path("errors").read_text()
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    assert Path("run/model/model.json").exists()


# --- Kubernetes ---


@pytest.fixture
def manifest():
    """Return what dask-kubernetes sends to the operator for the configuration of the page."""
    pytest.importorskip("dask_kubernetes.operator")
    configuration, _, secrets = blocks("kubernetes.md", "yaml")
    Path("cluster.yaml").write_text(configuration)
    Path("secrets.yaml").write_text(secrets)
    return pods_of(load(["cluster.yaml", "secrets.yaml"]).cluster.options)


def test_the_manifests_of_the_page_about_kubernetes_are_valid(manifest):
    validator = pytest.importorskip("kubernetes_validate")
    newest = int(validator.latest_version().split(".")[1])
    assert newest >= 35
    releases = [f"1.{minor}" for minor in range(25, newest + 1)]
    recipe = yaml.safe_load((ROOT / "docs" / "recipes" / "cronjob.yaml").read_text())
    manifests = [recipe, *yaml.safe_load_all(blocks("kubernetes.md", "yaml")[1])]
    for part in ("scheduler", "worker"):
        spec = manifest["spec"][part]["spec"]
        manifests.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": part}, "spec": spec})
    for release, checked in itertools.product(releases, manifests):
        validator.validate(checked, release, strict=True)
    assert manifest["spec"]["worker"]["replicas"] == 8
    container = manifest["spec"]["worker"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["memory"] == "8Gi"
    assert {"name": "AWS_SECRET_ACCESS_KEY"}.items() < container["env"][2].items()
    recipe["spec"]["jobTemplate"]["spec"]["backoffLimits"] = 3
    with pytest.raises(validator.ValidationError):
        validator.validate(recipe, releases[-1], strict=True)


def test_the_image_is_what_the_page_about_kubernetes_says():
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", "").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith(("#", " "))]
    rest = dict(steps)
    page = (PAGES / "kubernetes.md").read_text()
    # An entry point would come before the commands that the operator gives to its pods.
    assert "ENTRYPOINT" not in rest
    user, _ = rest["USER"].split(":")
    assert int(user) > 0
    assert "ARG EXTRAS=s3" in lines and "`EXTRAS`" in page
    folder = re.search(r"NUMBA_CACHE_DIR=(\S+)", " ".join(lines))[1]
    assert f"`{folder}`" in page
    run = next(argument for name, argument in steps if name == "RUN" and "doctor" in argument)
    assert run.index("doctor") < run.index('chmod -R a+rwX /work "$NUMBA_CACHE_DIR"')
    # The check of health fails if nothing listens at the port.
    program = json.loads(rest["HEALTHCHECK"].split("CMD", 1)[1])
    for port, code in ((None, 0), (free_port(), 1)):
        environment = os.environ | ({} if port is None else {"HEALTH_PORT": str(port)})
        done = subprocess.run([sys.executable, *program[1:]], env=environment, capture_output=True, check=False)
        assert done.returncode == code
    # What the image is built from is all that the package needs.
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert set(PACKAGES) | {"pyproject.toml", "README.md", "LICENSE"} == set(kept)


#: Makes the folder $1 a root with the programs of this machine and an empty Python, whose base is $2. The mounts end
#: with the process.
ROOT_OF_IMAGE = """
set -eu
for folder in /usr /etc /opt $2 /dev /proc; do
    mkdir -p $1$folder
    mount --rbind $folder $1$folder
    case $folder in /dev | /proc) ;; *) mount -o remount,bind,ro $1$folder ;; esac
done
for link in bin lib lib64 sbin; do ln -s usr/$link $1/$link; done
mkdir -p $1/var/cache
mkdir -m 1777 $1/tmp
export HOME=/ TMPDIR=/tmp PATH=$2/bin:/usr/sbin:/usr/bin
chroot $1 python3 -m venv /python
PATH=/python/bin:$PATH
"""


def steps_of_the_image():
    """Return the steps of the Dockerfile as lines of a shell that calls them in the root $1, and those for users."""
    lines = []
    for line in (ROOT / "Dockerfile").read_text().replace("\\\n", "").splitlines():
        step, _, rest = line.partition(" ")
        if step in ("ENV", "ARG"):
            lines.append(f"export {rest}")
        elif step == "RUN":
            lines.append(f"chroot $1 /bin/sh -ec {shlex.quote(rest)}")
        elif step == "USER":
            # Kubernetes may choose another user.
            users = [rest, "12345:0"]
        elif step == "WORKDIR":
            programs = shlex.quote(f"cd {rest}; id -u; touch $(id -u); corpusmill doctor")
    return [*lines, *(f"chroot --userspec={user} --groups= $1 /bin/sh -ec {programs}" for user in users)]


@pytest.mark.timeout(900)
@pytest.mark.skipif("CORPUSMILL_IMAGE" not in os.environ, reason="make image runs this, as root")
def test_the_steps_of_the_image_make_what_any_user_can_run(tmp_path):
    root = tmp_path / "root"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, root / "src" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root / "src")
    script = "\n".join([ROOT_OF_IMAGE, *steps_of_the_image()])
    command = ["unshare", "--mount", "/bin/sh", "-c", script, "sh", root, sys.base_prefix]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built, *of_users = re.split(r"^(?=(?:65534|12345)$)", done.stdout, flags=re.MULTILINE)
    assert "fine     self-test" in built
    assert len(of_users) == 2
    for printed in of_users:
        assert re.search(r"fine     compilation    0 new kernels, .* were in /var/cache/corpusmill", printed)
        assert "fine     self-test" in printed


def test_the_commands_of_the_pods_train_a_model(manifest):
    programs = {part: manifest["spec"][part]["spec"]["containers"][0]["args"] for part in ("scheduler", "worker")}
    port = free_port()
    scheduler = shlex.join(programs["scheduler"]) + f" --port {port} --no-dashboard"
    # The operator sets these variables in the pods.
    worker = " ".join(programs["worker"]).replace("$(DASK_WORKER_NAME)", "worker-0").replace("8788", "0")
    worker = f"DASK_SCHEDULER_ADDRESS=tcp://127.0.0.1:{port} {worker} --nthreads 1"
    settings = f"--set cluster.kind=address --set cluster.address=tcp://127.0.0.1:{port}"
    with started(scheduler), started(worker):
        shell(f"corpusmill run my.yaml {settings}")
    assert Path("run/model/model.json").exists()
