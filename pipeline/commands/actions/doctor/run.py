"""Run all checks of ``corpusmill doctor``."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from ...results import Finding
from . import compilation, machine, self_test, software, storage
from .finding import Check, run_check
from .storage import Scratch

if TYPE_CHECKING:
    from distributed import Client


def examine(url: str, client: "Client | None" = None, with_models: bool = True) -> Iterator[Finding]:
    """Yield one finding per check, in the order of what they depend on.

    ``url`` is a folder or URL where runs would be written. ``with_models`` includes the training of tiny models.
    """
    checks: dict[str, Check] = {
        "versions": software.check_versions,
        "cores": machine.check_cores,
        "vectors": machine.check_vectors,
        "memory": machine.check_memory,
        "GPU": machine.check_gpu,
        "kernel cache": software.check_kernel_cache,
    }
    if client is not None:
        checks["workers"] = partial(software.check_cluster, client)
    for name, check in checks.items():
        yield from run_check(name, check)
    yield from run_check("store", partial(_examine_store, url, client))
    if with_models:
        yield from run_check("compilation", compilation.compile_kernels)
        yield from run_check("self-test", self_test.check_models)
        if client is not None:
            yield from run_check("workers' test", partial(self_test.check_models_on, client))


def _examine_store(url: str, client: "Client | None") -> Iterator[Finding]:
    with Scratch(url) as scratch:
        rights = list(run_check("store", partial(storage.check_rights, scratch)))
        yield from rights
        if any(finding["status"] == "problem" for finding in rights):
            # All further checks of the store would fail for the same reason.
            return
        yield from run_check("second writer", partial(storage.check_conditional_writes, scratch))
        yield from run_check("speed", partial(storage.check_speed, scratch))
        yield from run_check("space", partial(storage.check_space, scratch))
        if client is not None:
            yield from run_check("shared store", partial(software.check_store_of_workers, client, scratch.store))
