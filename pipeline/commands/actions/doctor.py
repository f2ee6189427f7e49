"""Checks of a machine, a store and a cluster, each with one sentence about what it found. ``cli.doctor`` calls them."""

import contextlib
import importlib.metadata
import math
import platform
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

import numpy as np
import psutil
from llvmlite import binding

from ....configs.redact import redact_urls
from ....io.errors import DataError, Locked
from ....io.messages import pluralize
from ....io.stores.conditional import honours_conditions, read_with_tag, write_if_unchanged
from ....io.stores.locks import acquire_lock
from ....io.stores.store import Store
from ....kernels.simd.tiles import register_bits
from ...engine.cluster.watch import workers_of
from ...engine.memory import memory_limits, processor_limits
from ...formatting import format_bytes

if TYPE_CHECKING:
    from distributed import Client, Worker

#: A worker with less memory than this has little left for data after its libraries are loaded.
WORKER_BYTES = 1 << 30
#: Libraries that must have the same version in all processes: results or messages between them depend on it.
SHARED = ("corpusmill", "dask", "distributed", "msgpack", "cloudpickle", "numpy", "numba")
#: Numba's settings for x86-64 processors, by the width of vectors in bits.
SETTINGS_OF_WIDTHS = {
    128: "NUMBA_CPU_NAME=nehalem and NUMBA_CPU_FEATURES=+avx,+fma",
    256: "NUMBA_CPU_NAME=haswell and NUMBA_CPU_FEATURES=+avx2,+fma",
}

#: Settings of Dask that plans of memory assume, which workers have if corpusmill starts them.
SETTINGS_OF_WORKERS = " ".join(
    f"DASK_DISTRIBUTED__WORKER__MEMORY__{name}" for name in ("PAUSE=0.9", "SPILL=False", "TARGET=False")
)


class Finding(TypedDict):
    """What one check found."""

    check: str
    #: "advice" slows work down or limits it. "problem" makes work impossible or results wrong.
    status: Literal["fine", "advice", "problem"]
    #: What was found; for advice and problems also what to do.
    text: str


class Advice(Exception):
    """Something slows work down or limits it. The message says what to do."""


class Problem(Exception):
    """Something makes work impossible or results wrong. The message says what to do."""


def find(name: str, check: Callable[..., str], *arguments: object) -> Finding:
    """Run a check, which returns a text if all is well. An error that it does not expect is a problem, too."""
    try:
        return {"check": name, "status": "fine", "text": check(*arguments)}
    except Advice as found:
        return {"check": name, "status": "advice", "text": str(found)}
    except Problem as found:
        return {"check": name, "status": "problem", "text": str(found)}
    except Exception as error:
        text = f"this check failed with {type(error).__name__}: {redact_urls(one_line(error))}"
        return {"check": name, "status": "problem", "text": text}


def one_line(error: Exception) -> str:
    """Return the message of an error without line breaks."""
    return " ".join(str(error).split())


# --- this machine ---


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
    from ....kernels.cuda.memory import leave_on_device, upload
    from ....kernels.cuda.nmf.sums import add_sums
    from ....kernels.cuda.residents import RESIDENTS

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


# --- the store ---


class Scratch:
    """A folder inside the store that the checks write to. Use it as a context manager, which removes it."""

    def __init__(self, url: str):
        self.url = url
        #: Whether the store existed before the checks. Without access to it, nothing is written.
        self.existed = True
        self.name = f"doctor-{uuid.uuid4().hex}"

    @cached_property
    def parent(self) -> Store:
        """The store. A check opens it, so that an invalid URL becomes a finding."""
        return Store(self.url)

    @cached_property
    def store(self) -> Store:
        """The folder that the checks write to."""
        return self.parent.child(self.name)

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(self, *_: object) -> None:
        # A store that cannot be opened or refuses to delete has its own finding.
        with contextlib.suppress(Exception):
            self.parent.delete(self.name)
            # A folder that did not exist before the checks is removed again if nobody else has used it since.
            if not self.existed and not self.parent.names():
                self.parent.delete("")


def check_rights(scratch: Scratch) -> str:
    """Write, read, list, replace and delete a file in the store."""
    store = scratch.store
    step = "look into"
    try:
        scratch.existed = scratch.parent.exists()
        step = "write to"
        store.write_bytes("file", b"first")
        step = "replace files in"
        store.write_bytes("file", b"second")
        step = "read from"
        is_consistent = store.read_bytes("file") == b"second"
        step = "list"
        is_consistent = is_consistent and store.names() == ["file"]
    except (OSError, DataError) as error:
        # The errors of an object store say what to do.
        text = f"cannot {step} the store: {one_line(error)}"
        if store.is_local:
            text = f"cannot {step} {scratch.url} ({one_line(error)}): change its permissions, or name another place"
        raise Problem(text) from None
    try:
        store.delete("file")
        is_consistent = is_consistent and not store.exists("file")
    except (OSError, DataError) as error:
        # Without the right to delete, the other checks still make sense.
        raise Advice(
            f"{one_line(error)}; runs keep all their files, nothing can be replaced, and {store.url} stays behind"
        ) from None
    if not is_consistent:
        raise Problem(f"{scratch.url} does not show what was just written: use a store with consistent reads")
    return f"{scratch.parent.absolute} can be written, read, listed and deleted from"


def check_conditional_writes(scratch: Scratch) -> str:
    """Check that a second writer is refused: by conditional writes, and by locks."""
    store = scratch.store
    is_new = write_if_unchanged(store, "HEAD", b"1", "")
    tag = read_with_tag(store, "HEAD")[1]
    is_replaced = write_if_unchanged(store, "HEAD", b"2", tag)
    stale = write_if_unchanged(store, "HEAD", b"3", tag)
    second = write_if_unchanged(store, "HEAD", b"4", "")
    content = read_with_tag(store, "HEAD")[0]
    is_refused = is_new and is_replaced and not stale and not second and content == b"2"
    if not is_refused or not honours_conditions(store, "HEAD"):
        raise Problem(
            f"{scratch.url} ignores conditions of writes, so two jobs could overwrite each other: use S3 or a store "
            f"that supports If-Match, and let only one job at a time use this one"
        )
    with acquire_lock(store, "doctor.lock", "busy"):
        try:
            with acquire_lock(store, "doctor.lock", "busy"):
                pass
        except Locked:
            return "is refused"
    raise Problem(f"{scratch.url} does not support locks: mount it with locks, or use another place")


# --- the cluster ---


def check_workers(client: "Client") -> str:
    """Compare the versions on scheduler and workers with those here, and check the memory of the workers."""
    differences = differences_on_cluster(client)
    if differences:
        raise Problem(f"{differences}: install the same versions everywhere")
    workers = workers_of(client).values()
    if not workers:
        raise Problem("the cluster has no worker: start some, or wait until the queue starts them")
    smallest = min(worker["memory_limit"] for worker in workers)
    widths = width_differences(client.run(kernel_vectors))
    if widths:
        raise Advice(widths)
    text = f"{len(workers)} with the versions of this process"
    if not smallest:
        raise Advice(f"{text}; without a memory limit: start them with --memory-limit, so that runs can be planned")
    if smallest < WORKER_BYTES:
        raise Advice(f"{text}; one has only {format_bytes(smallest)}: use fewer workers or raise memory_limit")
    if not all(client.run(keeps_results).values()):
        raise Advice(
            f"{text}; some pause at less than 90% of their memory, or write results to disk, so a run that fits may "
            f"fail: start workers with {SETTINGS_OF_WORKERS}"
        )
    return f"{text}, {format_bytes(smallest)} each"


def keeps_results(dask_worker: "Worker") -> bool:
    """Return whether a worker has the settings of Dask that plans of memory assume. Runs on a worker."""
    memory = dask_worker.memory_manager
    # Each is False, or a share of the limit.
    writes = bool(memory.memory_spill_fraction or memory.memory_target_fraction)
    return not writes and (memory.memory_pause_fraction or 1) >= 0.9


def differences_on_cluster(client: "Client") -> str:
    """Return a text on libraries whose versions on the scheduler or on workers differ from ours; "" if none does."""
    # A coroutine only if the client is asynchronous.
    found = cast("Mapping[str, Any]", client.get_versions(packages=list(SHARED)))
    return version_differences(found["client"], {"scheduler": found["scheduler"], **found["workers"]})


def version_differences(ours: Mapping[str, Any], processes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return which libraries have other versions in other processes than in this one, whose versions are ``ours``.

    An example is "numpy is 2.1 here and 2.0 on scheduler". The text is empty if all are equal.
    """
    texts = []
    for name in ("python", *SHARED):
        here = _version(ours, name)
        others: dict[str, list[str]] = {}
        for process, found in processes.items():
            others.setdefault(_version(found, name), []).append(process)
        others.pop(here, None)
        for there, names in others.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            texts.append(f"{name} is {here} here and {there} on {names[0]}{more}")
    return "; ".join(texts)


def _version(found: Mapping[str, Any], name: str) -> str:
    if name == "python":
        # The patch release of Python does not matter.
        return ".".join(str(dict(found["host"])["python"]).split(".")[:2])
    return str(found["packages"].get(name) or "missing")


def kernel_vectors() -> tuple[str, int]:
    """Return the architecture, and the width in bits of the vectors of kernels. Runs on a worker."""
    return platform.machine(), register_bits()


def width_differences(vectors: Mapping[str, tuple[str, int]]) -> str:
    """Return a sentence on workers whose kernels have vectors of other widths, and on the way out; "" if none has."""
    widths: dict[tuple[str, int], list[str]] = {}
    for worker, found in sorted(vectors.items()):
        widths.setdefault(found, []).append(worker)
    if len(widths) < 2:
        return ""
    texts = [
        f"{bits}-bit vectors on {names[0]} ({machine}, {len(names)} in all)"
        for (machine, bits), names in widths.items()
    ]
    setting = SETTINGS_OF_WIDTHS[min(bits for _, bits in widths)]
    return f"{' and '.join(texts)}: results differ in the last bits; set {setting} on all x86-64 machines"


def check_store(client: "Client", store: Store) -> str:
    """Check that every worker can write to the store and sees what this process wrote."""
    store.write_bytes("from-client", b"here")
    failures = {name: text for name, text in client.run(write_and_read, store.absolute).items() if text}
    if failures:
        worker, text = next(iter(failures.items()))
        raise Problem(
            f"{len(failures)} of the workers cannot use {store.absolute}; {worker}: {text}: use a URL or folder that "
            f"all machines share"
        )
    return "every worker reads and writes the store"


def write_and_read(url: str) -> str:
    """Read the client's file and write one; return an empty string, or what failed. Runs on a worker."""
    try:
        store = Store(url)
        if store.read_bytes("from-client") != b"here":
            return "a file of the client has other content here"
        store.write_bytes("from-worker", b"there")
    except Exception as error:  # the client needs the text of any error
        return f"{type(error).__name__}: {one_line(error)}"
    return ""
