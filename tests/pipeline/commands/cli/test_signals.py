"""Ctrl-C and SIGTERM stop a command, and its run can be resumed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from corpusmill.pipeline.engine.run import RunStore
from helpers.command_line import COMMAND

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("signum", "code", "cluster"),
    [(signal.SIGTERM, 143, "synchronous"), (signal.SIGTERM, 143, "local"), (signal.SIGINT, 130, "local")],
)
def test_a_stopped_run_can_be_resumed(trained, call, signum, code, cluster):
    long = [*COMMAND, "train", "my.yaml", "--set", "run.url=long", "--set", "model.max_iter=100000"]
    long += ["--set", f"cluster.kind={cluster}"]
    # A shell starts background jobs with Ctrl-C ignored, and child processes inherit this.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(long, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    signal.signal(signal.SIGINT, before)
    with process:
        deadline = time.monotonic() + 120
        while RunStore("long").step < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        # A terminal sends Ctrl-C to all processes of the group, workers too.
        os.killpg(process.pid, signum) if signum == signal.SIGINT else process.send_signal(signum)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    # Workers print nothing.
    assert all(line.startswith(("cluster: ", "train: ", "corpusmill: ")) for line in filter(None, err.splitlines())), (
        err
    )
    assert err.count("; the same command continues where this one stopped") == 1
    epochs = RunStore("long").step
    assert epochs >= 2
    once_more = ("--set", f"model.max_iter={epochs + 1}", "--set", "cluster.kind=synchronous")
    finished = json.loads(call("resume", "long", *once_more, "--json")[1])
    assert finished["trained_epochs"] == 1


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_during_a_finalizer_stops_the_command(signum, code):
    program = f"""
import signal, time
from corpusmill.pipeline.commands.cli.main import cli, main
class Freed:
    def __del__(self):
        signal.raise_signal({int(signum)})
@cli.command()
def wait():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Freed()
    time.sleep(30)
main(["wait"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip().count("\n")) == (code, 0), done.stderr
    assert "the same command" not in done.stderr, "this command continues nothing"


def test_an_interrupt_while_a_cluster_starts_is_delivered_afterwards_and_hidden_from_its_processes():
    program = """
import signal, subprocess, sys, threading
from corpusmill.pipeline.commands.cli.signals import delay_interrupts
child = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with delay_interrupts():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        subprocess.run([sys.executable, "-c", child])
except KeyboardInterrupt:
    print("interrupted", signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "interrupted", "False"], done.stderr
