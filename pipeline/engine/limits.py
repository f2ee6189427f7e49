"""What this process may use of the machine: the least of the limits that were found.

A batch system, a unit of systemd and a container put a process into a control group. Its limits, and those of all
groups above it, hold for the process, wherever it is in the tree. Dask reads the limit of the tree's root only.
"""

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

#: A limit of an older kernel that means "none" is a number near 2**63.
NO_LIMIT = 1 << 60
#: Limits of resources, and the option of ulimit that shows each. Linux does not enforce the last one; Dask heeds it.
RESOURCE_LIMITS = (("RLIMIT_AS", "ulimit -v"), ("RLIMIT_DATA", "ulimit -d"), ("RLIMIT_RSS", "ulimit -m"))
#: Variables of batch systems: the name, the unit in bytes, and the variable with which the value is multiplied.
MEMORY_VARIABLES = (
    ("SLURM_MEM_PER_NODE", 1 << 20, ""),
    ("SLURM_MEM_PER_CPU", 1 << 20, "SLURM_CPUS_ON_NODE"),
)
PROCESSOR_VARIABLES = ("SLURM_CPUS_ON_NODE", "NSLOTS", "PBS_NCPUS", "LSB_DJOB_NUMPROC")


class Limit(NamedTuple):
    """A limit, in bytes or processors, and where it was found."""

    value: float
    source: str


def memory_limits(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> list[Limit]:
    """Return all limits of this process's memory, the least first."""
    found = [Limit(_physical_memory(root), "the machine")]
    for folder in _groups("memory", root):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            found.append(Limit(_number(folder / name), f"control group {folder / name}"))
    for kind, name in RESOURCE_LIMITS if resource else ():
        soft, _ = resource.getrlimit(getattr(resource, kind))
        found.append(Limit(math.inf if soft == resource.RLIM_INFINITY else soft, name))
    for name, unit, factor in MEMORY_VARIABLES:
        # 0 stands for all memory of the machine.
        value = _variable(environment, name) * unit * (_variable(environment, factor) if factor else 1)
        found.append(Limit(value or math.inf, name))
    return sorted(limit for limit in found if 0 <= limit.value < NO_LIMIT)


def processor_limits(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> list[Limit]:
    """Return all limits of the number of processors, the least first."""
    found = [Limit(os.cpu_count() or 1, "the machine")]
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        found.append(Limit(len(os.sched_getaffinity(0)), "the processor affinity"))
    for folder in _groups("cpu", root):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        found.append(Limit(_ratio(quota, period), f"control group {folder / 'cpu.max'}"))
        quota, period = (_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        found.append(Limit(_ratio(quota, period), f"control group {folder / 'cpu.cfs_quota_us'}"))
    for name in PROCESSOR_VARIABLES:
        found.append(Limit(_variable(environment, name) or math.inf, name))
    return sorted(limit for limit in found if 0 < limit.value < NO_LIMIT)


def memory_limit() -> int:
    """Return the bytes that this process may use, together with others of its control group."""
    return int(memory_limits()[0].value)


def processor_count() -> int:
    """Return the number of processors that this process may use."""
    return max(1, math.ceil(processor_limits()[0].value))


def out_of_memory_kills(root: Path = Path("/")) -> int:
    """Return how many processes of this control group the system has killed because the memory was full."""
    for folder in _groups("memory", root):
        for name in ("memory.events", "memory.oom_control"):
            for line in _text(folder / name).splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of this process's group and of those above it, for versions 1 and 2 of control groups."""
    mounts = _mounts(root)
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        for kind, options, inner, point in mounts:
            # All controllers of version 2 are in one tree, which has no names.
            if (kind == "cgroup2") != (not names) or (names and controller not in options):
                continue
            top = root / point.lstrip("/")
            # A container sees a part of the tree. Its own group may be outside of this part.
            below = os.path.relpath(path, inner)
            folder = top if below.startswith("..") else top / below
            yield from (group for group in (folder, *folder.parents) if group.is_relative_to(top))


def _mounts(root: Path) -> list[tuple[str, list[str], str, str]]:
    """Return type, options, inner root and mount point of each mounted tree of control groups."""
    found = []
    for line in _text(root / "proc/self/mountinfo").splitlines():
        own, _, more = line.partition(" - ")
        kind, _, options = more.split(" ", 2)
        if kind.startswith("cgroup"):
            _, _, _, inner, point, *_ = own.split(" ")
            found.append((kind, options.split(","), inner, point))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> float:
    """Return the number in a file; infinity if there is no such file, or for the word "max"."""
    try:
        return float(_text(path))
    except ValueError:
        return math.inf


def _ratio(quota: str, period: str) -> float:
    """Return the processors of a quota; infinity for none."""
    try:
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (ValueError, ZeroDivisionError):
        return math.inf


def _variable(environment: Mapping[str, str], name: str) -> float:
    """Return the number in a variable; 0 if there is none."""
    try:
        return float(environment.get(name, 0))
    except ValueError:
        return 0.0


def _physical_memory(root: Path) -> float:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return psutil.virtual_memory().total if root == Path("/") else math.inf
