"""Checks of this machine: libraries, processor, memory, GPU."""

import importlib.metadata
import math
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import psutil
from llvmlite import binding

from .....io.messages import pluralize
from .....kernels.simd.tiles import register_bits
from ....engine.limits import memory_limits, processor_limits
from ....formatting import format_bytes
from .finding import Advice, Problem, one_line

#: A worker with less memory than this has little left for data after its libraries are loaded.
WORKER_BYTES = 1 << 30


def check_versions() -> str:
    """Return the versions in this process, and the processor for which kernels are compiled."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("corpusmill", "dask", "numba", "numpy")]
    processor = f"{register_bits()}-bit vectors on {binding.get_host_cpu_name()}"
    text = ", ".join([*versions, f"Python {platform.python_version()}", processor])
    if platform.system() != "Linux":
        raise Advice(f"{text}; corpusmill is tested on Linux, and on {platform.system()} at your own risk")
    return text


def check_memory(root: Path = Path("/")) -> str:
    """Compare the memory that workers would share with what is free, and name each limit that was found."""
    memory, processors = memory_limits(root), processor_limits(root)
    limit, workers = int(memory[0].value), math.ceil(processors[0].value)
    available = min(psutil.virtual_memory().available, limit)
    text = (
        f"{format_bytes(limit)} ({memory[0].source}), {format_bytes(available)} free, for {pluralize(workers, 'core')}"
    )
    text = f"{text} ({processors[0].source})"
    others = [f"{found.source} {format_bytes(int(found.value))}" for found in memory[1:]]
    others += [f"{found.source} {pluralize(math.ceil(found.value), 'core')}" for found in processors[1:]]
    text = f"{text}; larger limits: {', '.join(others)}" if others else text
    if limit < workers * WORKER_BYTES:
        raise Advice(f"{text}; little for {workers} workers: set cluster.n_workers={max(1, limit // WORKER_BYTES)}")
    if available < limit // 4:
        raise Advice(f"{text}; other programs use the rest: stop some, or set cluster.memory_limit lower")
    return text


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
    try:
        _run_kernel()
    except Exception as error:  # whatever compilers and drivers raise
        raise Problem(f"{devices}: no kernel compiles and runs ({one_line(error)}): use device 'cpu'") from None
    return f"{devices}; a kernel compiles and runs"


def _run_kernel() -> None:
    """Compile one kernel, add two arrays by it, and compare the sum."""
    from .....kernels.cuda.memory import leave_on_device, upload
    from .....kernels.cuda.nmf.sums import add_sums
    from .....kernels.cuda.residents import RESIDENTS

    numbers = np.arange(100, dtype=np.float32)
    total = add_sums(leave_on_device(upload(numbers, "numbers"), "numbers"), numbers, "numbers")
    RESIDENTS.bring_back([total])
    if not np.array_equal(total, 2 * numbers):
        raise RuntimeError("the sum of two arrays is wrong")


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
