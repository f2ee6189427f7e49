"""The threads and the memory of workers: their limits, how much of them tasks may use, and how freed memory is reused.

A batch system, a unit of systemd and a container put a process into a control group. Its limits, and those of all
groups above it, hold for the process, wherever it is in the tree. Dask reads the limit of the tree's root only. The
least of all limits that are found is what counts.
"""

import contextlib
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from ...io.errors import DataError
from ...io.stores.filesystems import c_function
from ..formatting import format_bytes

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

#: Share of a worker's memory limit that a plan may use. Our settings of Dask pause a worker at 90%.
PLANNED_SHARE = 0.8
#: Bytes of a worker process without its tasks: interpreter, libraries, compiled kernels, freed memory that it keeps.
PROCESS_BYTES = 320 << 20
#: Bytes that Numba's compiler takes for the kernels of a model.
COMPILING_BYTES = 208 << 20
#: Stands for memory without a limit.
UNLIMITED = 1 << 62
#: The memory of arrays of at most this size is kept. glibc allows no more.
KEPT_ARRAY_BYTES = 32 << 20
#: Share of a worker's memory limit that is kept for larger arrays.
KEPT_SHARE = 0.05
#: Share of this process's memory that a trained model may take.
MODEL_SHARE = 0.25
_MIB = 1 << 20
#: The numbers of glibc's options.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
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


@dataclass(frozen=True)
class Capacity:
    """The threads and the memory of one worker, in bytes; ``memory`` is 0 if there is no limit."""

    name: str
    address: str  # "" for this process
    threads: int
    memory: int
    device: int = 0  # bytes of its CUDA device; 0 if it has none or if nobody requested the figure

    @property
    def title(self) -> str:
        """What messages call the worker."""
        return f"worker {self.name}" if self.address else self.name


def usable_bytes(limit: int) -> int:
    """Return the bytes that the tasks of a worker may use if its memory limit is ``limit`` bytes; 0 is no limit."""
    if not limit:
        return UNLIMITED
    return max(0, int(limit * PLANNED_SHARE) - PROCESS_BYTES)


def limit_for(usable: int) -> int:
    """Return the smallest memory limit that lets tasks use ``usable`` bytes, in whole MiB."""
    limit = math.ceil((usable + PROCESS_BYTES) / PLANNED_SHARE / _MIB)
    # Rounding may have lost a byte.
    while usable_bytes(limit * _MIB) < usable:
        limit += 1
    return limit * _MIB


def keep_freed_memory(limit: int) -> bool:
    """Let this process keep the memory of freed arrays for the next ones. Return whether its C library can: glibc can.

    Dask starts workers with a setting that returns all memory to the system at once. The system then provides new pages
    for each array, which takes up to a quarter of an epoch. An array of more than KEPT_ARRAY_BYTES is kept only if
    there was a gap for it. So the end of the heap, in bytes a share of the memory limit, ``limit``, is kept for such
    arrays. Gaps below other arrays stay until `return_freed_memory`.
    """
    set_option = c_function("mallopt")
    if set_option is None:
        return False
    # At the end of the heap. glibc takes a number of 32 bits.
    kept = max(2 * KEPT_ARRAY_BYTES, min(int(limit * KEPT_SHARE), 1 << 30))
    set_option(_M_MMAP_THRESHOLD, KEPT_ARRAY_BYTES)
    set_option(_M_TRIM_THRESHOLD, kept)
    set_option(_M_TOP_PAD, kept)
    return True


def begin_peak() -> None:
    """Forget the peak of this process's memory so far, where the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes(field: str = "VmHWM") -> int:
    """Return the peak of this process's memory since `begin_peak`; 0 if the system does not tell it.

    The field "VmRSS" is what it has now.
    """
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split(f"{field}:")[1].split()[0]) << 10
    except (OSError, IndexError):
        return 0


class EmptyArrays:
    """Returns uninitialised arrays of one model, as `numpy.empty` does.

    Those that would take too much of this process's memory are mapped from temporary files, so that the system can take
    their memory back.
    """

    def __init__(self) -> None:
        self._left = MODEL_SHARE * memory_limit()

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an array."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size <= self._left:
            self._left -= size
            return np.empty(shape, dtype)
        with naming_the_space(size, "a model of this size needs"), tempfile.TemporaryFile(prefix="corpusmill-") as file:
            if hasattr(os, "posix_fallocate"):
                # Without space, the system would kill this process later.
                os.posix_fallocate(file.fileno(), 0, size)
            return np.asarray(np.memmap(file, dtype, "w+", shape=shape))


@contextlib.contextmanager
def naming_the_space(size: int, what: str) -> Iterator[None]:
    """Raise DataError with the bytes that a temporary file needs if it cannot be written."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{what} {format_bytes(size)} in {tempfile.gettempdir()} ({error.strerror or error}): free space there, "
            f"choose another folder (TMPDIR), or use a machine with more memory"
        ) from error


def return_freed_memory() -> None:
    """Return all memory that this process has kept to the system, if its C library can."""
    trim = c_function("malloc_trim")
    if trim is not None:
        trim(0)


# --- limits of the machine ---


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
