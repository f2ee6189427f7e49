"""Checks of this machine: libraries, processor, memory, GPU."""

import importlib.metadata
import math
import platform
import shutil
import subprocess
from pathlib import Path

import psutil
from dask.system import cpu_count
from distributed.system import memory_limit
from llvmlite import binding

from .....io.messages import pluralize
from .....kernels.simd.tiles import register_bits
from ....formatting import format_bytes
from .finding import Advice, Problem

#: A worker with less memory than this has little left for data after its libraries are loaded.
WORKER_BYTES = 1 << 30
#: A limit of an older kernel that means "none" is a number near 2**63.
NO_LIMIT = 1 << 60


def check_versions() -> str:
    """Return the versions in this process, and the processor for which kernels are compiled."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("corpusmill", "dask", "numba", "numpy")]
    processor = f"{register_bits()}-bit vectors on {binding.get_host_cpu_name()}"
    return ", ".join([*versions, f"Python {platform.python_version()}", processor])


def check_memory(cgroup: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> str:
    """Compare the memory that workers would share with what is free, and with the limits of all control groups."""
    limit = memory_limit()
    available = min(psutil.virtual_memory().available, limit)
    text = f"{format_bytes(limit)}, {format_bytes(available)} free, for {pluralize(cpu_count(), 'core')}"
    group = group_limit(cgroup, own)
    workers = cpu_count()
    if group is not None and group < limit:
        share = max(1, group // workers >> 20)
        raise Problem(
            f"a control group allows {format_bytes(group)}, but Dask sees {format_bytes(limit)}, so workers would be "
            f"killed: set cluster.memory_limit={share}MiB for {workers} workers"
        )
    if limit < workers * WORKER_BYTES:
        raise Advice(f"{text}; little for {workers} workers: set cluster.n_workers={max(1, limit // WORKER_BYTES)}")
    if available < limit // 4:
        raise Advice(f"{text}; other programs use the rest: stop some, or set cluster.memory_limit lower")
    return text


def group_limit(root: Path, own: Path) -> int | None:
    """Return the lowest memory limit of this process's control group (version 2) and of those above it.

    Dask reads only the file at the root. Below systemd or a batch system, the limit is in a group further down.
    """
    try:
        path = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    folder = root / path.strip("/")
    groups = [group for group in (folder, *folder.parents) if group.is_relative_to(root)]
    lowest = min(_read_limit(group / name) for group in groups for name in ("memory.max", "memory.high"))
    if lowest >= NO_LIMIT:
        return None
    return int(lowest)


def _read_limit(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # no such file, or the word "max"
        return math.inf


def check_gpu() -> str:
    """Check that a GPU of this machine can be used."""
    devices = _devices_of_driver()
    if not devices and not Path("/dev/nvidiactl").exists():
        return "none; kernels run on the processor"
    if not devices:
        raise Problem("a device is present, but nvidia-smi does not list it: install or restart the NVIDIA driver")
    try:
        from numba import cuda

        usable = cuda.is_available()
    except Exception as error:  # whatever a broken installation raises
        raise Problem(
            f"{devices}: numba-cuda does not load ({error}): install corpusmill[cuda12] or [cuda13] again"
        ) from None
    if not usable:
        raise Advice(f"{devices}: not used; pip install 'corpusmill[cuda12]' or 'corpusmill[cuda13]'")
    return devices


def _devices_of_driver() -> str:
    """Return name, driver version and memory of each GPU, as nvidia-smi prints them."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    if shutil.which(query[0]) is None:
        return ""
    try:
        found = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return "; ".join(found.stdout.splitlines())
