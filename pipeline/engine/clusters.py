"""Dask clusters by kind. A kind's library is imported only when that kind is asked for."""

import contextlib
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any

import dask
import distributed  # first of all: its defaults must be there before dask_settings is laid over them
import yaml
from dask.utils import parse_timedelta

from ..formatting import format_duration

KINDS = ("synchronous", "local", "address", "scheduler-file", "local-cuda", "jobqueue", "kubernetes")

#: Seconds that a cluster's first worker may take before anybody is told of it.
PATIENCE = 5.0


class ClusterError(Exception):
    """A cluster that cannot be had; the sentence says why and the way out."""


@contextlib.contextmanager
def open_cluster(kind: str = "local", **options: Any) -> Iterator[Any | None]:
    """Yield a Dask client of a cluster of this kind, or None for ``synchronous``; close what was started.

    ``options`` go to the library's own class: LocalCluster (``n_workers``, ``threads_per_worker``, ``memory_limit``,
    ``dashboard_address``), Client (``address``, ``scheduler_file``, ``security``), LocalCUDACluster, a dask-jobqueue
    class named by ``scheduler`` ("slurm", "pbs", "lsf", "sge", "oar", "htcondor"), KubeCluster. ``adapt`` has the
    ``minimum`` and ``maximum`` of workers where the cluster is to grow and shrink with its work.
    """
    if kind == "synchronous":
        yield None
        return
    if kind not in KINDS:
        raise ClusterError(f"no cluster kind {kind!r}: choose one of {', '.join(KINDS)}")
    with dask.config.set(dask_settings()), contextlib.ExitStack() as stack:
        workers = options.pop("n_workers", None) if kind == "jobqueue" else None
        adapt = options.pop("adapt", None)
        target = _START[kind](stack, options)
        client = stack.enter_context(opened(_connected(target)))
        if adapt:
            client.cluster.adapt(**adapt)
        elif workers:
            client.cluster.scale(workers)
        yield client


@contextlib.contextmanager
def opened(resource: Any) -> Iterator[Any]:
    """Enter a cluster or a client and leave it; one that takes too long to close spoils nothing that was done."""
    entered = resource.__enter__()
    try:
        yield entered
    finally:
        with contextlib.suppress(TimeoutError):
            resource.__exit__(None, None, None)


def _connected(target: dict[str, Any]) -> Any:
    try:
        return distributed.Client(**target)
    except OSError as error:
        where = target.get("scheduler_file") or target["address"]
        raise ClusterError(f"no scheduler answers at {where} ({error}): start one, or correct the address") from error


def await_worker(client: Any, tell: Callable[[str], None]) -> None:
    """Wait for a cluster's first worker, as long as Dask's no-workers-timeout says; ``tell`` what is waited for.

    Raises ClusterError where none comes.
    """
    limit = parse_timedelta(dask.config.get("distributed.scheduler.no-workers-timeout") or "1000 days")
    where = client.scheduler.address
    check = f"see whether workers run that know this address (dask worker {where}), or whether their jobs are queued"
    try:
        with contextlib.suppress(TimeoutError):
            client.wait_for_workers(1, timeout=min(PATIENCE, limit))
            return
        tell(f"{where} has no worker yet, waiting up to {format_duration(limit)} for one: {check}")
        client.wait_for_workers(1, timeout=limit)
    except TimeoutError:
        raise ClusterError(f"no worker of {where} came within {format_duration(limit)}: {check}") from None


def dask_settings() -> dict[str, Any]:
    """Return Dask's settings with those of configs/dask.yaml laid over its defaults, and the user's own over both."""
    text = resources.files("corpusmill.configs").joinpath("dask.yaml").read_text()
    return dask.config.merge(dask.config.config, yaml.safe_load(text), dask.config.collect())


def _local(stack: contextlib.ExitStack, options: dict[str, Any]) -> dict[str, Any]:
    options.setdefault("threads_per_worker", 1)
    options.setdefault("dashboard_address", "127.0.0.1:0")
    return {"address": stack.enter_context(opened(distributed.LocalCluster(processes=True, **options)))}


def _address(stack: contextlib.ExitStack, options: dict[str, Any]) -> dict[str, Any]:
    if not options.get("address"):
        raise ClusterError("cluster kind 'address' needs the scheduler's address, such as tcp://host:8786")
    return _with_security(options)


def _scheduler_file(stack: contextlib.ExitStack, options: dict[str, Any]) -> dict[str, Any]:
    if not options.get("scheduler_file"):
        raise ClusterError("cluster kind 'scheduler-file' needs scheduler_file, the path that dask scheduler wrote")
    return _with_security(options)


def _with_security(options: dict[str, Any]) -> dict[str, Any]:
    files = {k: options.pop(k) for k in ("tls_ca_file", "tls_client_cert", "tls_client_key") if k in options}
    return options | ({"security": distributed.Security(require_encryption=True, **files)} if files else {})


def _local_cuda(stack: contextlib.ExitStack, options: dict[str, Any]) -> dict[str, Any]:
    try:
        from dask_cuda import LocalCUDACluster
    except ImportError:
        raise ClusterError("cluster kind 'local-cuda' needs dask-cuda: pip install 'corpusmill[cuda12]'") from None
    return {"address": stack.enter_context(opened(LocalCUDACluster(**options)))}


def _jobqueue(stack: contextlib.ExitStack, options: dict[str, Any]) -> dict[str, Any]:
    try:
        import dask_jobqueue
        from dask_jobqueue.local import LocalCluster
    except ImportError:
        raise ClusterError("cluster kind 'jobqueue' needs dask-jobqueue: pip install 'corpusmill[jobqueue]'") from None
    classes = {
        name.removesuffix("Cluster").lower(): getattr(dask_jobqueue, name)
        for name in dir(dask_jobqueue)
        if name.endswith("Cluster") and name != "JobQueueCluster"
    } | {"local": LocalCluster}
    scheduler = options.pop("scheduler", "slurm")
    if scheduler not in classes:
        raise ClusterError(f"no job queue {scheduler!r}: choose one of {', '.join(sorted(classes))}")
    return {"address": stack.enter_context(opened(classes[scheduler](**options)))}


def _kubernetes(stack: contextlib.ExitStack, options: dict[str, Any]) -> dict[str, Any]:
    try:
        from dask_kubernetes.operator import KubeCluster
    except ImportError:
        raise ClusterError(
            "cluster kind 'kubernetes' needs dask-kubernetes: pip install 'corpusmill[kubernetes]'"
        ) from None
    return {"address": stack.enter_context(opened(KubeCluster(**options)))}


_START = {
    "local": _local,
    "address": _address,
    "scheduler-file": _scheduler_file,
    "local-cuda": _local_cuda,
    "jobqueue": _jobqueue,
    "kubernetes": _kubernetes,
}
