"""The recipes call existing commands with existing options, and are valid for their schedulers."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from corpusmill.pipeline.commands.cli.main import cli
from helpers.nightly import BOATS, BREAD, write_configuration, write_day

RECIPES = Path(__file__).parents[3] / "docs" / "recipes"
CRON = re.compile(r"(\d+|\*) (\d+|\*) (\d+|\*) (\d+|\*) (\d+|\*)")


def cron_line():
    return next(line for line in (RECIPES / "crontab").read_text().splitlines() if not line.startswith("#"))


def calls():
    """Yield each recipe's call of the command, as arguments."""
    yield "crontab", re.search(r"corpusmill (retrain.*?);", cron_line())[1]
    unit = (RECIPES / "corpusmill-retrain.service").read_text()
    yield "systemd", re.search(r"ExecStart=\S+/corpusmill (.*)", unit)[1]
    job = yaml.safe_load((RECIPES / "cronjob.yaml").read_text())["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    yield "kubernetes", shlex.join(job["containers"][0]["command"][1:])
    dag = (RECIPES / "airflow_dag.py").read_text()
    command = re.search(r'bash_command="corpusmill (.*)"', dag)[1]
    yield "airflow", command.replace("`date -d yesterday +%F`", "2026-11-20")
    flow = ast.parse((RECIPES / "prefect_flow.py").read_text())
    words = next(n for n in ast.walk(flow) if isinstance(n, ast.List) and len(n.elts) == 4)
    yield "prefect", " ".join("my.yaml" if isinstance(e, ast.Name) else e.value for e in words.elts[1:])


@pytest.mark.parametrize(("recipe", "call"), list(calls()))
def test_a_recipe_calls_a_command_that_exists(recipe, call):
    name, *arguments = shlex.split(call)
    command = cli.commands[name]
    context = command.make_context(name, arguments)
    assert context.params["configs"][0].endswith("my.yaml")


def test_every_schedule_is_a_valid_cron_expression():
    for path in RECIPES.iterdir():
        found = CRON.search(path.read_text()) if path.suffix in (".yaml", ".py") or path.name == "crontab" else None
        if found:
            minute, hour = found[1], found[2]
            assert (0 <= int(minute) < 60, 0 <= int(hour) < 24) == (True, True)
    assert CRON.match(cron_line())


@pytest.mark.slow
def test_cron_runs_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_day(1, [BOATS, BREAD] * 8)
    write_configuration("random-indexing")
    program = tmp_path / ".venv" / "bin" / "corpusmill"
    program.parent.mkdir(parents=True)
    program.symlink_to(Path(sys.executable).with_name("corpusmill"))
    command = cron_line().split(maxsplit=5)[5]
    assert "%" not in command  # cron would end the command there
    bare = {"HOME": "/", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    line = ["/bin/sh", "-c", command.replace("/srv/corpusmill", str(tmp_path))]
    mails = []
    for content in (None, "{broken"):
        if content:
            Path("days/2026-11-02.jsonl").write_text(content)
        mails.append(subprocess.run(line, cwd="/", env=bare, check=True, capture_output=True, text=True).stdout)
    began, published, *_ = Path("retrain.log").read_text().splitlines()
    assert datetime.fromisoformat(began).tzinfo
    assert json.loads(published)["status"] == "published"
    assert mails[0] == ""
    assert "2026-11-02.jsonl, line 1: not valid JSON" in mails[1]


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Put a program before corpusmill that writes down its arguments, and ends with the code in the file "code"."""
    program = tmp_path / "bin" / "corpusmill"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\necho "no file matches" >&2\necho "{{\\"status\\": \\"done\\"}}"\n'
        f"exit $(cat {tmp_path}/code)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    for name in ("AIRFLOW_HOME", "PREFECT_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "false")
    monkeypatch.setenv("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "100")
    return tmp_path


def programs(name):
    """Return the path of a program that is installed, perhaps in an environment of its own on the PATH."""
    return shutil.which(name) or pytest.skip(f"{name} is not on the PATH: install it into an environment of its own")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_airflow_learns_yesterday_and_fails_at_once_where_a_retry_cannot_help(recorded):
    airflow = programs("airflow")
    (recorded / "dags").mkdir()
    shutil.copy(RECIPES / "airflow_dag.py", recorded / "dags")
    subprocess.run([airflow, "db", "migrate"], check=True, capture_output=True)
    outcomes = {}
    for code in (0, 4):
        (recorded / "code").write_text(str(code))
        done = subprocess.run([airflow, "dags", "test", "corpusmill_retrain"], capture_output=True, text=True)
        outcomes[code] = (done.returncode, "AirflowFailException" in done.stdout + done.stderr)
    assert outcomes == {0: (0, False), 4: (1, True)}
    yesterday = {str(date.today() - timedelta(days=days)) for days in (1, 2)}  # the test may run over midnight
    for line in (recorded / "calls").read_text().splitlines():
        assert re.search(r"--as-of (\S+) ", line)[1] in yesterday


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_prefect_shows_the_reason_and_retries_only_what_may_pass(recorded):
    python = Path(programs("prefect")).with_name("python")
    flow = f"import runpy; print(runpy.run_path({str(RECIPES / 'prefect_flow.py')!r})['nightly']('my.yaml'))"
    said = {}
    for code in (0, 4):
        (recorded / "code").write_text(str(code))
        done = subprocess.run([python, "-c", flow], capture_output=True, text=True)
        said[code] = (done.stdout + done.stderr).strip().splitlines()
    assert "{'status': 'done'}" in said[0]
    assert any("RetryInVain: corpusmill retrain: exit code 4: no file matches" in line for line in said[4])
    assert (recorded / "calls").read_text().splitlines() == ["retrain my.yaml --json"] * 2


def test_systemd_understands_the_units(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here")
    for unit in ("corpusmill-retrain.service", "corpusmill-retrain.timer"):
        text = (RECIPES / unit).read_text()
        (tmp_path / unit).write_text(text.replace("/srv/corpusmill/.venv/bin/corpusmill", "/bin/true"))
    units = [str(tmp_path / unit) for unit in ("corpusmill-retrain.service", "corpusmill-retrain.timer")]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (done.returncode, "corpusmill-retrain" in done.stderr) == (0, False), done.stderr


def test_the_kubernetes_job_forbids_concurrent_calls_and_does_not_retry_permanent_errors():
    job = yaml.safe_load((RECIPES / "cronjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"], job["spec"]["concurrencyPolicy"]) == ("batch/v1", "CronJob", "Forbid")
    spec = job["spec"]["jobTemplate"]["spec"]
    assert spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [2, 3, 4]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # required by a podFailurePolicy
    mounted = {m["name"] for m in spec["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert mounted == {v["name"] for v in spec["template"]["spec"]["volumes"]}
