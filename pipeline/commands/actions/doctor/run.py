"""Run all checks of ``corpusmill doctor``."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ...results import Finding
from . import machine, models, storage, workers
from .finding import find

if TYPE_CHECKING:
    from distributed import Client


def examine(url: str, client: "Client | None" = None, with_models: bool = True) -> Iterator[Finding]:
    """Yield one finding per check, in the order of what they depend on.

    ``url`` is a folder or URL where runs would be written. ``with_models`` includes the training of tiny models.
    """
    checks: dict[str, Callable[[], str]] = {
        "versions": machine.check_versions,
        "memory": machine.check_memory,
        "GPU": machine.check_gpu,
    }
    if client is not None:
        checks["workers"] = partial(workers.check_workers, client)
    for name, check in checks.items():
        yield find(name, check)
    yield from _examine_store(url, client)
    if with_models:
        yield find("compilation", models.compile_kernels)
        yield find("self-test", models.check_models)
        if client is not None:
            yield find("workers' test", partial(models.check_models_on, client))


def _examine_store(url: str, client: "Client | None") -> Iterator[Finding]:
    with storage.Scratch(url) as scratch:
        rights = find("store", partial(storage.check_rights, scratch))
        yield rights
        if rights["status"] == "problem":
            # All further checks of the store would fail for the same reason.
            return
        yield find("second writer", partial(storage.check_conditional_writes, scratch))
        if client is not None:
            yield find("shared store", partial(workers.check_store, client, scratch.store))
