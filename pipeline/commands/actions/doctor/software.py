"""Checks of software: libraries here and on the workers, and the cache of compiled kernels."""

import importlib.metadata
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .....io.stores.store import Store
from .....kernels.jit import cache_folders
from ....engine.cluster.watch import workers_of
from ....formatting import format_bytes
from ...results import Finding
from .finding import advice, fine, problem
from .machine import WORKER_BYTES

if TYPE_CHECKING:
    from distributed import Client

#: Libraries that must have the same version in all processes: results or messages between them depend on it.
SHARED = ("corpusmill", "dask", "distributed", "msgpack", "cloudpickle", "numpy", "numba")


def check_versions() -> Iterator[Finding]:
    """Report the versions in this process."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("corpusmill", "dask", "numba", "numpy")]
    yield fine("versions", ", ".join([*versions, f"Python {platform.python_version()}"]))


def check_cluster(client: "Client") -> Iterator[Finding]:
    """Compare the versions on scheduler and workers with those here, and check the memory of the workers."""
    differences = differences_on_cluster(client)
    if differences:
        yield problem("workers", f"{differences}: install the same versions everywhere")
        return
    workers = workers_of(client).values()
    if not workers:
        yield problem("workers", "the cluster has no worker: start some, or wait until the queue starts them")
        return
    smallest = min(worker["memory_limit"] for worker in workers)
    text = f"{len(workers)} with the versions of this process"
    if not smallest:
        yield advice(
            "workers", f"{text}; without a memory limit: start them with --memory-limit, so that runs can be planned"
        )
    elif smallest < WORKER_BYTES:
        yield advice(
            "workers", f"{text}; one has only {format_bytes(smallest)}: use fewer workers or raise memory_limit"
        )
    else:
        yield fine("workers", f"{text}, {format_bytes(smallest)} each")


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
            there = _version(found, name)
            if there != here:
                others.setdefault(there, []).append(process)
        for there, names in others.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            texts.append(f"{name} is {here} here and {there} on {names[0]}{more}")
    return "; ".join(texts)


def _version(found: Mapping[str, Any], name: str) -> str:
    if name == "python":
        # The patch release of Python does not matter.
        version = str(dict(found["host"])["python"])
        return ".".join(version.split(".")[:2])
    return str(found["packages"].get(name) or "missing")


def check_store_of_workers(client: "Client", store: Store) -> Iterator[Finding]:
    """Check that every worker can write to the store and sees what this process wrote."""
    store.write_bytes("from-client", b"here")
    failures = {name: text for name, text in client.run(write_and_read, store.absolute).items() if text}
    if failures:
        worker, text = next(iter(failures.items()))
        yield problem(
            "shared store",
            f"{len(failures)} of the workers cannot use {store.absolute}; {worker}: {text}: use a URL or "
            f"folder that all machines share",
        )
        return
    yield fine("shared store", "every worker reads and writes the store")


def write_and_read(url: str) -> str:
    """Read the client's file and write one; return an empty string, or what failed. Runs on a worker."""
    try:
        store = Store(url)
        if store.read_bytes("from-client") != b"here":
            return "a file of the client has other content here"
        store.write_bytes("from-worker", b"there")
    except Exception as error:  # the client needs the text of any error
        return " ".join(f"{type(error).__name__}: {error}".split())
    return ""


def check_kernel_cache() -> Iterator[Finding]:
    """Report how many compiled kernels are kept on disk."""
    root = cache_folders()[0].parent
    kernels = cached_kernels()
    if not kernels:
        yield fine("kernel cache", f"no kernels in {root} yet; a first training compiles those of its model")
        return
    n_bytes = sum(file.stat().st_size for folder in cache_folders() for file in folder.rglob("*.nb[ic]"))
    yield fine("kernel cache", f"{len(kernels)} kernels, {format_bytes(n_bytes)} in {root}")


def cached_kernels() -> list[Path]:
    """Return the index files of the compiled kernels of this version."""
    return [index for folder in cache_folders() for index in folder.rglob("*.nbi")]
