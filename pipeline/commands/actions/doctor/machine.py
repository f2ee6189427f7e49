"""Checks of this machine: cores, vector registers, memory, GPU."""

import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
from dask.system import cpu_count
from distributed.system import memory_limit
from llvmlite import binding

from .....kernels.simd.tiles import register_bits
from ....formatting import format_bytes
from ...results import Finding
from .finding import advice, fine, problem

#: A worker with less memory than this has little left for data after its libraries are loaded.
WORKER_BYTES = 1 << 30
#: A limit of an older kernel that means "none" is a number near 2**63.
NO_LIMIT = 1 << 60


def check_cores() -> Iterator[Finding]:
    """Compare the cores that this process may use with those of the machine, and with the load."""
    usable = cpu_count()
    present = os.cpu_count() or usable
    text = f"{usable} usable"
    if usable < present:
        text += f" of {present}; the rest is excluded by a container, a batch system or taskset"
    load = os.getloadavg()[0]
    if load > 1.5 * present:
        yield advice(
            "cores", f"{text}; the load is {load:.1f}, so other programs slow down training: wait or stop them"
        )
        return
    yield fine("cores", text)


def check_vectors() -> Iterator[Finding]:
    """Check that kernels are compiled for wide vector registers."""
    name = binding.get_host_cpu_name()
    overridden = [key for key in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES") if os.environ.get(key)]
    if overridden:
        variables = " and ".join(overridden)
        yield advice("vectors", f"{variables} is set, so kernels are not compiled for this {name}: unset it")
    elif register_bits() < 256 and binding.get_default_triple().startswith("x86"):
        yield advice(
            "vectors", f"{register_bits()} bits on {name}: training is faster on a processor with AVX2 or AVX-512"
        )
    else:
        yield fine("vectors", f"{register_bits()} bits on {name}")


def check_memory(cgroup: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> Iterator[Finding]:
    """Compare the memory that workers would share with what is free, and with the limits of all control groups."""
    limit = memory_limit()
    available = min(psutil.virtual_memory().available, limit)
    text = f"{format_bytes(limit)}, {format_bytes(available)} free"
    group = group_limit(cgroup, own)
    workers = cpu_count()
    if group is not None and group < limit:
        share = max(1, group // workers >> 20)
        yield problem(
            "memory",
            f"a control group allows {format_bytes(group)}, but Dask sees {format_bytes(limit)}, so workers would be "
            f"killed: set cluster.memory_limit={share}MiB for {workers} workers",
        )
    elif limit < workers * WORKER_BYTES:
        fewer = max(1, limit // WORKER_BYTES)
        yield advice("memory", f"{text}; little for {workers} workers: set cluster.n_workers={fewer}")
    elif available < limit // 4:
        yield advice("memory", f"{text}; other programs use the rest: stop some, or set cluster.memory_limit lower")
    else:
        yield fine("memory", text)


def group_limit(root: Path, own: Path) -> int | None:
    """Return the lowest memory limit of this process's control group (version 2) and of those above it.

    Dask reads only the file at the root. Below systemd or a batch system, the limit is in a group further down.
    """
    try:
        path = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    folder = root / path.strip("/")
    limits = []
    for group in (folder, *folder.parents):
        if not group.is_relative_to(root):
            break
        for name in ("memory.max", "memory.high"):
            limits.append(_read_limit(group / name))
    lowest = min(limits, default=math.inf)
    if lowest >= NO_LIMIT:
        return None
    return int(lowest)


def _read_limit(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # no such file, or the word "max"
        return math.inf


def check_gpu() -> Iterator[Finding]:
    """Check that a GPU of this machine can be used."""
    devices = _devices_of_driver()
    if not devices and not Path("/dev/nvidiactl").exists():
        yield fine("GPU", "none; kernels run on the processor")
        return
    if not devices:
        yield problem(
            "GPU", "a device is present, but nvidia-smi does not list it: install or restart the NVIDIA driver"
        )
        return
    text = "; ".join(devices)
    try:
        from numba import cuda

        usable = cuda.is_available()
    except Exception as error:  # whatever a broken installation raises
        yield problem(
            "GPU", f"{text}: numba-cuda does not load ({error}): install corpusmill[cuda12] or [cuda13] again"
        )
        return
    if not usable:
        yield advice("GPU", f"{text}: not used; pip install 'corpusmill[cuda12]' or 'corpusmill[cuda13]'")
        return
    yield fine("GPU", text)


def _devices_of_driver() -> list[str]:
    """Return name, driver version and memory of each GPU, as nvidia-smi prints them."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    names = ("", "driver ", "")
    rows = [line.split(", ") for line in found.stdout.splitlines() if line.strip()]
    return [", ".join(name + part for name, part in zip(names, row, strict=False)) for row in rows]
