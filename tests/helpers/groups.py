"""Trees of files that stand for control groups, and real groups where the machine allows them."""

import contextlib
import os
import time
from pathlib import Path


def write_groups(root, own, mounts):
    """Write what /proc says: the group of this process, and the mounted trees as (type, options, inner root, point)."""
    lines = [f"31 23 0:28 {inner} {point} rw - {kind} none {options}" for kind, options, inner, point in mounts]
    write_limit(root, "proc/self/cgroup", own)
    write_limit(root, "proc/self/mountinfo", "\n".join(lines))
    write_limit(root, "proc/meminfo", "MemTotal: 67108864 kB")


def write_limit(root, name, value):
    """Write a file below the root of a tree."""
    path = Path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


@contextlib.contextmanager
def real_group(*limits):
    """Make nested control groups with these limits in bytes, and yield the inner one; None if that is not allowed.

    A process joins it if it writes its number to the file cgroup.procs there.
    """
    own = next((line for line in Path("/proc/self/cgroup").read_text().splitlines() if ":memory:" in line), None)
    folder = Path("/sys/fs/cgroup/memory", own.split(":")[2].strip("/")) if own else Path("/sys/fs/cgroup")
    name = "memory.limit_in_bytes" if own else "memory.max"
    made = []
    try:
        for limit in limits:
            folder = folder / f"corpusmill-{os.getpid()}"
            folder.mkdir()
            made.append(folder)
            (folder / name).write_text(str(limit))
    except OSError:
        folder = None
    try:
        yield folder
    finally:
        for group in reversed(made):
            _remove(group)


def _remove(group):
    """Remove a group. Its processes end a moment later than those who wait for them notice."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            # Version 1 keeps a group as long as pages of files are charged to it.
            (group / "memory.force_empty").write_text("0")
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.1)
