"""Limits of memory and processors are found wherever they are, and the least one counts."""

import re
import subprocess
import sys

import pytest
from corpusmill.pipeline.engine.cluster.watch import _describe_killed
from corpusmill.pipeline.engine.memory import memory_limits, out_of_memory_kills, processor_limits
from helpers.groups import real_group, write_groups, write_limit
from hypothesis import given
from hypothesis import strategies as st

UNIFIED = [("cgroup2", "rw", "/", "/sys/fs/cgroup")]
SPLIT = [("cgroup", "rw,memory", "/", "/sys/fs/cgroup/memory"), ("cgroup", "rw,cpu,cpuacct", "/", "/sys/fs/cgroup/cpu")]


def least(root, environment=()):
    return int(memory_limits(root, dict(environment))[0].value) >> 20


@given(limits=st.lists(st.none() | st.integers(1, 1 << 15), min_size=4, max_size=4), is_unified=st.booleans())
def test_the_least_limit_of_the_group_and_of_those_above_it_counts(limits, is_unified, tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    top, name = ("sys/fs/cgroup", "memory.max") if is_unified else ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
    write_groups(root, "0::/a/b/c" if is_unified else "4:memory:/a/b/c", UNIFIED if is_unified else SPLIT)
    for folder, limit in zip(("", "a/", "a/b/", "a/b/c/"), limits, strict=True):
        write_limit(root, f"{top}/{folder}{name}", "max" if limit is None else limit << 20)
    assert least(root) == min([limit for limit in limits if limit] + [1 << 16])


def test_a_container_sees_its_own_part_of_the_tree(tmp_path):
    write_groups(tmp_path, "4:memory:/docker/1/job", [("cgroup", "rw,memory", "/docker/1", "/sys/fs/cgroup/memory")])
    write_limit(tmp_path, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", 256 << 20)
    assert least(tmp_path) == 256
    write_limit(tmp_path, "proc/self/cgroup", "4:memory:/system.slice")
    write_limit(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", 512 << 20)
    assert least(tmp_path) == 512


def test_a_group_of_other_controllers_does_not_count(tmp_path):
    write_groups(tmp_path, "9:pids:/a", [("cgroup", "rw,pids", "/", "/sys/fs/cgroup/pids")])
    write_limit(tmp_path, "sys/fs/cgroup/pids/a/memory.limit_in_bytes", 1 << 20)
    assert least(tmp_path) == 1 << 16


@pytest.mark.parametrize(
    "environment",
    [{"SLURM_MEM_PER_NODE": "2048"}, {"SLURM_MEM_PER_CPU": "512", "SLURM_CPUS_ON_NODE": "4"}],
)
def test_variables_of_a_batch_system_count(environment, tmp_path):
    write_groups(tmp_path, "", [])
    assert least(tmp_path, environment.items()) == 2048


def test_a_quota_of_processors_counts_in_both_versions(tmp_path):
    write_groups(tmp_path / "two", "0::/a", UNIFIED)
    write_limit(tmp_path / "two", "sys/fs/cgroup/a/cpu.max", "50000 100000")
    write_groups(tmp_path / "one", "1:cpu,cpuacct:/a", SPLIT)
    write_limit(tmp_path / "one", "sys/fs/cgroup/cpu/cpu.cfs_quota_us", 50000)
    write_limit(tmp_path / "one", "sys/fs/cgroup/cpu/cpu.cfs_period_us", 100000)
    write_limit(tmp_path / "one", "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", -1)
    assert [processor_limits(tmp_path / name, {})[0].value for name in ("one", "two")] == [0.5, 0.5]


def test_kills_of_the_own_group_are_counted(tmp_path):
    write_groups(tmp_path, "0::/a", UNIFIED)
    write_limit(tmp_path, "sys/fs/cgroup/a/memory.events", "oom 3\noom_kill 2")
    assert out_of_memory_kills(tmp_path) == 2


def test_a_real_group_inside_another_one_is_found():
    code = "from corpusmill.pipeline.engine.memory import memory_limit; print(memory_limit())"
    with real_group(300 << 20, 400 << 20) as folder:
        if folder is None:
            pytest.skip("this machine allows no control groups")
        join = f"import os; open({str(folder / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))"
        found = subprocess.run([sys.executable, "-c", f"{join}\n{code}"], capture_output=True, text=True, check=True)
    assert int(found.stdout) == 300 << 20


GREEDY = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
import numpy as np
from corpusmill import open_cluster
from corpusmill.pipeline.engine.cluster.watch import TaskLost
from corpusmill.pipeline.engine.executors import OnDask

def eat():
    # The system shall choose this process, not the one that prints.
    open("/proc/self/oom_score_adj", "w").write("1000")
    return float(np.ones(1 << 27).sum())

if __name__ == "__main__":
    with open_cluster("local", n_workers=1, memory_limit="8GiB", dashboard_address=":0") as client:
        try:
            OnDask(client).map(eat, [()], name="eat")
        except TaskLost as lost:
            print(lost)
"""


@pytest.mark.slow
def test_a_worker_that_the_system_kills_twice_ends_the_run_with_the_reason(tmp_path):
    script = tmp_path / "greedy.py"
    script.write_text(GREEDY)
    with real_group(1000 << 20) as folder:
        if folder is None:
            pytest.skip("this machine allows no control groups")
        command = [sys.executable, str(script), str(folder / "cgroup.procs")]
        found = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    # Both workers may have been killed before the client has looked at the first one, and again after that.
    reason = r"the system killed workers \d+ times?, because their memory was full: 0\.98 GiB are allowed"
    assert re.search(reason, found.stdout), found.stdout
    assert re.search(r"each worker plans with its own limit( \(8\.00 GiB\))?: set a lower", found.stdout), found.stdout


@pytest.mark.parametrize(("limits", "shown"), [([0], "none"), ([1 << 30, 9 << 29, 0], "none, 1.00 GiB, 4.50 GiB")])
def test_a_killed_worker_without_a_limit_has_none(limits, shown):
    workers = {str(number): {"memory_limit": limit} for number, limit in enumerate(limits)}
    message = _describe_killed(1, workers)
    assert message.startswith("the system killed workers 1 time, because")
    assert f"each worker plans with its own limit ({shown}): set a lower memory_limit" in message
    assert "each worker plans with its own limit: set a lower" in _describe_killed(1, {})
