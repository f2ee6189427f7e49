"""Checks of the workers of a cluster: their libraries, their memory, and the store that they share."""

import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from .....io.stores.store import Store
from ....engine.cluster.watch import workers_of
from ....formatting import format_bytes
from .finding import Advice, Problem, one_line
from .machine import WORKER_BYTES

if TYPE_CHECKING:
    from distributed import Client

#: Libraries that must have the same version in all processes: results or messages between them depend on it.
SHARED = ("corpusmill", "dask", "distributed", "msgpack", "cloudpickle", "numpy", "numba")


#: Numba's settings for x86-64 processors, by the width of vectors in bits.
SETTINGS_OF_WIDTHS = {
    128: "NUMBA_CPU_NAME=nehalem and NUMBA_CPU_FEATURES=+avx,+fma",
    256: "NUMBA_CPU_NAME=haswell and NUMBA_CPU_FEATURES=+avx2,+fma",
}


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
    return f"{text}, {format_bytes(smallest)} each"


def differences_on_cluster(client: "Client") -> str:
    """Return a text on libraries whose versions on the scheduler or on workers differ from ours; "" if none does."""
    # A coroutine only if the client is asynchronous.
    found = cast("Mapping[str, Any]", client.get_versions(packages=list(SHARED)))
    return version_differences(found["client"], {"scheduler": found["scheduler"], **found["workers"]})


def version_differences(ours: Mapping[str, Any], processes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a text on libraries whose versions differ from ours, such as "numpy is 2.1 here and 2.0 on ..."."""
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
    from .....kernels.simd.tiles import register_bits

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
