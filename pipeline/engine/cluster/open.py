"""Opens Dask clusters. The package of a class of clusters is imported only when it is opened."""

import contextlib
import importlib
import inspect
import logging
import multiprocessing
import re
import socket
import ssl
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import dask

# Imported before `dask_settings` runs, because the import sets the defaults that ours replace.
import distributed
import yaml
from dask.utils import parse_bytes
from distributed import Client
from distributed.comm.addressing import get_address_host_port
from distributed.deploy import Cluster, SpecCluster
from distributed.deploy.utils import nprocesses_nthreads
from distributed.worker_memory import parse_memory_limit

from ...formatting import format_bytes, format_duration
from ..memory import PROCESS_BYTES, memory_limit, processor_count
from .jobs import AdaptToShards, replacing_lost_jobs
from .watch import asking_for_worker, no_workers_seconds, workers_of

#: Kinds of cluster with a name. Any other kind is the module and the class of a cluster.
KINDS = ("synchronous", "local", "address")

#: The extra of corpusmill that installs a package of clusters.
EXTRAS = {"dask_jobqueue": "jobqueue", "dask_kubernetes": "kubernetes", "dask_cuda": "cuda12"}

#: Seconds that a cluster's first worker may take before a message tells the user to wait.
PATIENCE_SECONDS = 5.0

#: Seconds to wait for the file of a scheduler.
FILE_SECONDS = 30.0
#: Seconds that a connection may take which shows whether a web server is at an address, and its answer.
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 3.0
#: Seconds that closing a cluster may take.
CLOSE_SECONDS = 60.0

#: Options that name TLS files.
TLS_FILES = ("tls_ca_file", "tls_client_cert", "tls_client_key")

#: What to do with a script that starts worker processes.
MAIN_GUARD = "put the call of open_cluster below if __name__ == '__main__':"
#: Options of a cluster or a client by name; each library has its own.
Options = dict[str, Any]
Opened = TypeVar("Opened")


class ClusterError(Exception):
    """A cluster that cannot be opened. The message says why and what to do about it."""


class ClusterUnreachable(ClusterError):
    """A scheduler or workers that do not answer, perhaps because they start again."""


@contextlib.contextmanager
def open_cluster(kind: str = "local", **options: Any) -> Iterator[Client | None]:
    """Open a Dask cluster, and close at the end what was started.

    A script must call this below ``if __name__ == "__main__":``, because each worker process of "local" imports the
    script.

    Parameters
    ----------
    kind : str, default="local"
        "synchronous" runs everything in this process, without Dask. "local" starts worker processes on this machine.
        "address" connects to a running scheduler. Any other kind is the module and the class of a Dask cluster: one of
        dask-jobqueue submits jobs to a batch system ("dask_jobqueue:SLURMCluster"),
        "dask_kubernetes.operator:KubeCluster" starts pods, and "dask_cuda:LocalCUDACluster" one worker per GPU.
    **options : Any
        Arguments of the class; for "local" that is distributed.LocalCluster, with ``n_workers``,
        ``threads_per_worker``, ``memory_limit`` and ``dashboard_address``. "address" takes ``address`` or
        ``scheduler_file``, and with TLS ``tls_ca_file``, ``tls_client_cert`` and ``tls_client_key``. For all kinds that
        start workers, ``adapt`` may be ``{"minimum": 1, "maximum": 8}``, which lets the cluster grow and shrink with
        its work.

    Yields
    ------
    distributed.Client or None
        The client for ``fit``; None for "synchronous".

    Raises
    ------
    ClusterError
        If the kind is unknown, its package is not installed, its class refuses an option, no scheduler answers, or no
        worker starts.

    Examples
    --------
    >>> from corpusmill import LDA, open_cluster
    >>> with open_cluster("synchronous") as client:
    ...     model = LDA(2, max_iter=2).fit(["the boat on the sea", "bread from the oven"], client=client)
    """
    if kind == "synchronous":
        yield None
        return
    with dask.config.set(dask_settings()), contextlib.ExitStack() as stack:
        adapt = options.pop("adapt", None)
        if adapt and options.get("n_workers"):
            options["n_workers"] = adapt.get("minimum", 0)
        if kind == "address":
            target = _running_scheduler(options)
        else:
            cluster = stack.enter_context(closing_patiently(_new_cluster(kind, options, stack)))
            if _package_of(kind) == "dask_jobqueue":
                stack.enter_context(replacing_lost_jobs(cluster))
            target = {"address": cluster}
        client = stack.enter_context(closing_patiently(_connected(target)))
        if adapt:
            _adapt(client, adapt)
        yield client


def _adapt(client: Client, limits: Options) -> None:
    """Let the cluster grow and shrink with its work."""
    assert client.cluster is not None, "the client did not start its cluster"
    if not isinstance(client.cluster, SpecCluster):
        # The operator of Kubernetes scales its pods itself.
        client.cluster.adapt(**limits)
        return
    from .leases import Leases

    client.register_plugin(Leases())
    # A worker is kept for half a minute without work, because a job that is cancelled may have to queue again.
    options: Options = {"Adaptive": AdaptToShards, "interval": "1s", "wait_count": 30}
    client.cluster.adapt(**options | limits)


@contextlib.contextmanager
def closing_patiently(resource: contextlib.AbstractContextManager[Opened]) -> Iterator[Opened]:
    """Open a cluster or client, and close it at the end.

    Closing a cluster takes at most CLOSE_SECONDS: it would wait without end for a job that never starts, or for a
    worker that never answers. A timeout of closing raises no error, because all work is done.
    """
    entered = resource.__enter__()
    try:
        yield entered
    finally:
        # If the scheduler has died, a connection attempt may end while the client closes. Python's timeout then raises
        # RuntimeError.
        with contextlib.suppress(TimeoutError, RuntimeError):
            if isinstance(resource, Cluster):
                _close_cluster(resource)
            else:
                resource.__exit__(None, None, None)


def _close_cluster(cluster: Cluster) -> None:
    """Close a cluster that this process started, and warn if that takes too long."""
    try:
        cluster.close(timeout=CLOSE_SECONDS)
    except TimeoutError:
        warnings.warn("the cluster did not close in time: check that its workers and jobs have ended", stacklevel=2)


def _connected(target: Options) -> Client:
    """Return a client of the scheduler that ``target``, the arguments of `Client`, describes."""
    where = target.get("scheduler_file") or target["address"]
    if str(where).startswith("tls://") and "security" not in target:
        raise ClusterError(
            f"{where}: a scheduler with TLS needs certificates: set tls_ca_file, tls_client_cert and tls_client_key"
        )
    try:
        return Client(**target)
    # SSLError is an OSError, so it must come first.
    except ssl.SSLError as error:
        raise ClusterError(f"{where}: the scheduler refuses the certificates ({error}): check the TLS files") from error
    except OSError as error:
        advice = "start one, or correct the address"
        if "scheduler_file" in target:
            advice = "start one; if this file is left over from an earlier scheduler, delete it first"
        raise ClusterUnreachable(f"no scheduler answers at {where} ({error}): {advice}") from error


@contextlib.contextmanager
def naming_missing_package(client: Client) -> Iterator[None]:
    """Context manager: raise ClusterError if the scheduler or a worker has no corpusmill to load a message with."""
    try:
        yield
    except Exception as error:
        # Dask raises a plain Exception if it cannot send the original one.
        if "No module named 'corpusmill" not in str(error):
            raise
        address = client.scheduler.address if client.scheduler else "the address of the client"
        raise ClusterError(
            f"the cluster at {address} cannot import corpusmill ({error}): install {version('corpusmill')} where "
            f"scheduler and workers run, and start them again"
        ) from error


def await_cluster(client: Client, notify: Callable[[str], None]) -> None:
    """Wait for the cluster's first worker.

    Waits as long as Dask's setting no-workers-timeout allows. If it takes longer than a few seconds, ``notify`` is
    called with a sentence for the user. Raises ClusterError if no worker comes, if the scheduler ends, or if a worker
    has too little memory for the libraries.
    """
    _wait_for_worker(client, notify)
    limits = [worker["memory_limit"] for worker in workers_of(client).values() if worker["memory_limit"]]
    _check_memory(min(limits, default=None))


def _wait_for_worker(client: Client, notify: Callable[[str], None]) -> None:
    """Wait as `await_cluster` does, without a check of the worker."""
    limit = no_workers_seconds()
    assert client.scheduler is not None, "the client is closed"
    where = client.scheduler.address
    advice = f"check that workers run with this address (dask worker {where}) and that their jobs are not queued"
    try:
        with asking_for_worker(client):
            with contextlib.suppress(TimeoutError):
                client.wait_for_workers(1, timeout=min(PATIENCE_SECONDS, limit))
                return
            notify(f"{where} has no worker yet, waiting up to {format_duration(limit)} for one: {advice}")
            client.wait_for_workers(1, timeout=limit)
    except TimeoutError:
        raise ClusterUnreachable(f"no worker of {where} started within {format_duration(limit)}: {advice}") from None
    # TimeoutError is an OSError, so it must come first.
    except OSError as error:
        raise ClusterUnreachable(f"the scheduler at {where} cannot be reached ({error}): start one again") from error


def _check_memory(limit: int | None) -> None:
    """Raise ClusterError if a worker with this memory limit would be killed while it starts, again and again."""
    if limit is not None and limit < PROCESS_BYTES:
        raise ClusterError(
            f"each worker may use {format_bytes(limit)}, but Python with the libraries takes up to "
            f"{format_bytes(PROCESS_BYTES)}, and training needs more: set memory_limit to 1GiB or more (of workers "
            f"that you start yourself: dask worker --memory-limit), or use fewer workers if the machine has less memory"
        )


def dask_settings() -> Options:
    """Return Dask's defaults, overridden by configs/dask.yaml, which the user's own settings override."""
    return dask.config.merge(dask.config.config, _own_settings())


def _own_settings() -> Options:
    """Return the settings of configs/dask.yaml, overridden by the user's own ones, without Dask's defaults."""
    text = resources.files("corpusmill.configs").joinpath("dask.yaml").read_text()
    return dask.config.merge(yaml.safe_load(text), dask.config.collect())


def _variable_of_settings() -> tuple[str, str]:
    """Return the name and the value of the environment variable that gives our settings to workers in jobs and pods."""
    return "DASK_INTERNAL_INHERIT_CONFIG", dask.config.serialize({"distributed": _own_settings()["distributed"]})


# --- a scheduler that runs already ---


def _running_scheduler(options: Options) -> Options:
    """Return the arguments of `Client` for a scheduler that runs already."""
    options = {name: value for name, value in options.items() if value is not None}
    if "scheduler_file" in options:
        _await_scheduler_file(Path(options["scheduler_file"]))
    elif "address" in options:
        _check_is_no_web_server(options["address"])
    else:
        raise ClusterError(
            "cluster kind 'address' needs the scheduler's address, such as tcp://host:8786, or its scheduler_file"
        )
    return _with_security(options)


def _check_is_no_web_server(address: str) -> None:
    """Raise ClusterError if a web server is at this address, such as the dashboard. Dask would wait without end."""
    scheme, _, _ = address.partition("://")
    if scheme not in ("http", "https") and not (scheme in ("tcp", address) and _answers_as_web_server(address)):
        return
    raise ClusterError(
        f"{address}: this is the address of a web server, perhaps the dashboard of the scheduler (port 8787): give the "
        f"scheduler's own address, such as tcp://host:8786"
    )


def _answers_as_web_server(address: str) -> bool:
    try:
        with socket.create_connection(get_address_host_port(address), CONNECT_SECONDS) as connection:
            connection.settimeout(SILENT_SECONDS)
            # A scheduler speaks first. A web server waits for a request.
            with contextlib.suppress(TimeoutError):
                connection.recv(1)
                return False
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(5) == b"HTTP/"
    except (OSError, ValueError):
        # The client repeats the attempt, and reports the error.
        return False


def _await_scheduler_file(path: Path) -> None:
    """Wait for a scheduler to write its file; raise ClusterUnreachable if none does. Dask would wait without end."""
    deadline = time.monotonic() + FILE_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise ClusterUnreachable(
                f"{path}: no scheduler has written this file: start one (dask scheduler --scheduler-file {path}), or "
                f"correct cluster.scheduler_file"
            )
        time.sleep(0.1)


def _with_security(options: Options) -> Options:
    """Return the options with Dask's Security object in place of the paths of TLS files.

    Raises ClusterError if one of these files does not exist.
    """
    files = {name: options.pop(name) for name in TLS_FILES if name in options}
    if not files:
        return options
    for name, path in files.items():
        if not Path(path).is_file():
            raise ClusterError(
                f"cluster.{name}: there is no file {path}: correct it, or remove the key if the scheduler has no TLS"
            )
    return options | {"security": distributed.Security(require_encryption=True, **files)}


# --- clusters that start here ---


def starts_here(kind: str) -> bool:
    """Whether a kind of cluster has its workers on this machine, as children of this process."""
    return kind == "local" or (kind not in KINDS and issubclass(_class_of(kind), distributed.LocalCluster))


def _new_cluster(kind: str, options: Options, stack: contextlib.ExitStack) -> Cluster:
    """Start a cluster. Settings of Dask that last as long as the cluster go to ``stack``."""
    if starts_here(kind):
        # Dask closes a nanny whose worker died and is away after lost-worker-timeout, also if it had come back and died
        # again meanwhile. Then nobody would start the worker again.
        stack.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": "1000 days"}))
        if multiprocessing.current_process().daemon:
            raise ClusterError(
                "this process is a daemon, as those of multiprocessing.Pool and of Celery are, and a daemon may not "
                "start worker processes: choose cluster kind synchronous, or the address of a cluster that runs"
            )
    if kind == "local":
        return _local_cluster(options)
    found = _class_of(kind)
    package = _package_of(kind)
    if package == "dask_jobqueue":
        options = _options_of_jobs(found, options)
    try:
        if package == "dask_kubernetes":
            options = {"custom_cluster_spec": pods_of(options)} | options
        return found(**options)
    except (TypeError, ValueError) as error:
        # The rest of dask-jobqueue's messages repeats all options.
        reason = re.split(r"\n|\. |, for example", str(error))[0]
        raise ClusterError(f"cluster kind {kind!r} refuses its options ({reason}): correct cluster.options") from error


def _package_of(kind: str) -> str:
    return kind.partition(":")[0].partition(".")[0]


def _class_of(kind: str) -> type[Cluster]:
    """Return the class that "module:class" names; raise ClusterError if there is none."""
    if ":" not in kind:
        choices = f"{', '.join(KINDS)}, or the module and the class of a Dask cluster"
        raise ClusterError(f"no cluster kind {kind!r}: choose {choices}, such as dask_jobqueue:SLURMCluster")
    module, _, name = kind.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        extra = EXTRAS.get(_package_of(kind))
        advice = "correct the name, or install its package"
        if extra and isinstance(error, ImportError):
            advice = f"pip install 'corpusmill[{extra}]'"
        raise ClusterError(f"cluster kind {kind!r}: {error}: {advice}") from None
    # Anything else, such as subprocess.Popen, must not be called with the options of a stored configuration.
    if not (isinstance(found, type) and issubclass(found, Cluster)):
        raise ClusterError(f"cluster kind {kind!r}: {name} is no class of a Dask cluster: correct the name")
    return found


def _local_cluster(options: Options) -> Cluster:
    options.setdefault("threads_per_worker", 1)
    options.setdefault("dashboard_address", "127.0.0.1:0")
    n_workers = _local_workers(options)
    if options.get("memory_limit", "auto") == "auto":
        # The client, the scheduler and the nannies run in this process.
        options["memory_limit"] = max(0, memory_limit() - PROCESS_BYTES) // n_workers
    if options["threads_per_worker"] is not None and options.get("n_workers") is None:
        options["n_workers"] = n_workers
    _check_memory(parse_memory_limit(options["memory_limit"], 1, n_workers, logger=logging.getLogger(__name__)))
    # Python sets this while a new process imports the script that started it.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ClusterError(f"a worker process imports this script, which would start further workers: {MAIN_GUARD}")
    try:
        return distributed.LocalCluster(processes=True, **options)
    except RuntimeError as error:
        advice = "the messages above say why" if _has_guard() else f"in a script, {MAIN_GUARD}"
        raise ClusterError(f"no worker process started ({error}); {advice}") from None


def _has_guard() -> bool:
    """Return whether the script of this process compares its name with "__main__", or is no script."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    try:
        return path is None or "__main__" in Path(path).read_text(errors="replace")
    except OSError:
        return True


def _local_workers(options: Options) -> int:
    """Return how many workers `distributed.LocalCluster` will start with these options, or share the memory among."""
    n_workers = options.get("n_workers")
    threads = options["threads_per_worker"]
    if n_workers:
        return int(n_workers)
    if threads is None:
        return int(nprocesses_nthreads()[0])
    return max(1, processor_count() // threads)


def _options_of_jobs(found: Any, options: Options) -> Options:
    """Return the options of a class of dask-jobqueue, with our settings of Dask; check the memory of a worker."""
    if options.get("memory"):
        _check_memory(parse_bytes(options["memory"]) // (options.get("processes") or 1))
    system = found.job_cls.default_config_name()
    python = options.get("python") or dask.config.get(f"jobqueue.{system}.python", None) or sys.executable
    return options | {"python": "env {}={} {}".format(*_variable_of_settings(), python)}


def pods_of(options: Options) -> Options:
    """Return the manifest of a DaskCluster for the options of a KubeCluster, with our settings and commands of Dask.

    dask-kubernetes starts ``dask-scheduler`` and ``dask-worker``, which newer releases of Dask do not install.
    """
    from dask_kubernetes.operator import make_cluster_spec

    known = inspect.signature(make_cluster_spec).parameters
    given = {name: value for name, value in options.items() if name in known}
    manifest: Options = make_cluster_spec(**{"name": "corpusmill", "worker_command": ["dask", "worker"]} | given)
    scheduler = manifest["spec"]["scheduler"]["spec"]["containers"][0]
    if scheduler["args"][0] == "dask-scheduler":
        scheduler["args"][:1] = ["dask", "scheduler"]
    name, value = _variable_of_settings()
    for part in ("scheduler", "worker"):
        container = manifest["spec"][part]["spec"]["containers"][0]
        container["env"] = [*(container["env"] or []), {"name": name, "value": value}]
    return manifest
