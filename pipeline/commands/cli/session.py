"""The session of a command: its configuration, cluster, progress display, logging and job metrics."""

import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from .errors import explain
from .signals import delay_interrupts

if TYPE_CHECKING:
    from distributed import Client

    from ....configs.layers import Layer
    from ....configs.schema import ClusterConfig, Config
    from ...publishing.mlflow import MLflowCallback
    from ...views.progress import Display
    from ...views.prometheus import BatchJob

#: Loggers that stay silent without --debug. The commands report in one sentence what Dask logs in many lines. Bokeh
#: logs a traceback whenever a browser leaves the live page while a message is being sent.
NOISY_LOGGERS = ("distributed", "distributed.client", "tornado.application", "bokeh")
#: Dask setting whose value worker processes read when they import Dask, before any other setting reaches them.
WORKER_CONFIG = "distributed.nanny.pre-spawn-environ.DASK_INTERNAL_INHERIT_CONFIG"
#: Less data than this is processed in this process: to start workers takes longer.
SMALL_BYTES = 16 << 20


@dataclass(frozen=True)
class Session:
    """The cluster and the display of progress of a command. ``client`` is None if no workers are used."""

    client: "Client | None"
    display: "Display"


def load_config(
    files: Sequence["str | Layer"], settings: Sequence[str], arguments: Mapping[str, object] | None = None
) -> "Config":
    """Return the configuration of a command; ``arguments`` are the keys that its positional arguments set.

    Commands call it before they import what they train with, which takes most of a second: an error of a key is shown
    at once.
    """
    from ....configs.resolve import load

    return load(files, settings, arguments=dict(arguments or {}))


@contextmanager
def open_session(
    config: "Config", as_json: bool, compare_versions: bool = True, nbytes: float = math.inf, model_bytes: int = 0
) -> Iterator[Session]:
    """Start or connect to the configured cluster, and show progress unless the output is JSON.

    ``compare_versions`` warns of workers that have other versions of the libraries. If the command reads fewer than
    SMALL_BYTES, ``nbytes``, it starts no workers, unless the configuration says how many. It starts so few that each
    can hold the model that it applies, ``model_bytes``. If none can, this process maps the model from files.
    """
    from ...engine.memory import MODEL_SHARE, memory_limit, processor_count
    from ...views.progress import display

    debug = click.get_current_context().find_root().params["debug"]
    cluster = config.cluster
    needs_no_workers = cluster.is_left_to_us and nbytes < SMALL_BYTES
    if cluster.is_left_to_us and model_bytes:
        n_workers = int(MODEL_SHARE * memory_limit() / model_bytes)
        needs_no_workers |= n_workers == 0
        if n_workers < processor_count():
            cluster = cluster.model_copy(update={"n_workers": n_workers})
    with ExitStack() as stack:
        if cluster.kind == "synchronous" or needs_no_workers:
            # Dask is not even imported, which would take a third of a second.
            stack.enter_context(library_warnings(debug))
            client = None
        else:
            if not as_json:  # Dask takes a second, and workers take some more
                _report("cluster", f"{cluster.kind}; starting")
            stack.enter_context(_quiet_libraries(debug))
            client = stack.enter_context(_open_cluster(cluster, compare_versions))
        session = Session(client, stack.enter_context(display(quiet=as_json)))
        # Dask's own pages need Bokeh. The live page does not.
        if client is not None and client.dashboard_link:
            session.display.page = client.dashboard_link.replace("/status", "/training")
        yield session


@contextmanager
def _open_cluster(cluster: "ClusterConfig", compare_versions: bool) -> Iterator["Client"]:
    from ...engine.cluster.open import await_cluster, open_cluster, starts_here
    from ..actions.doctor import differences_on_cluster, kernel_vectors, width_differences

    starts_workers_here = starts_here(cluster.kind)
    with ExitStack() as stack:
        # Worker processes must not die of a Ctrl-C that is meant for the command.
        with delay_interrupts() if starts_workers_here else nullcontext():
            client = stack.enter_context(open_cluster(**cluster.arguments()))
        assert client is not None, "only a synchronous configuration has no cluster"
        await_cluster(client, partial(_report, "cluster"))
        # Workers that start here have the libraries of this process.
        if compare_versions and not starts_workers_here:
            if differences := differences_on_cluster(client):
                _report("cluster", f"{differences}: results may differ, so install the same versions everywhere")
            elif widths := width_differences(client.run(kernel_vectors)):
                _report("cluster", widths)
        yield client


def _report(subject: str, sentence: str) -> None:
    click.echo(f"{subject}: {sentence}", err=True)


@contextmanager
def _quiet_libraries(debug: bool) -> Iterator[None]:
    """Hide warnings and the logs of libraries, here and in the workers, except with --debug."""
    import dask
    import distributed  # noqa: F401 (sets the levels of its loggers)

    level = "warning" if debug else "critical"
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(level.upper())
    worker_config = dask.config.serialize({"logging": dict.fromkeys(NOISY_LOGGERS, level)})
    with library_warnings(debug), dask.config.set({WORKER_CONFIG: worker_config}):
        yield


@contextmanager
def library_warnings(debug: bool = False) -> Iterator[None]:
    """Show the warnings of libraries with --debug only, and ours once."""
    from ....io.errors import DataWarning
    from ...models.base.advice import TrainingWarning

    with warnings.catch_warnings():
        if not debug:
            warnings.simplefilter("ignore")
            for category in (TrainingWarning, DataWarning):
                warnings.simplefilter("once", category)
            warnings.showwarning = _show_warning
        yield


def _show_warning(message: Warning | str, *place: object, **options: object) -> None:
    """Print a warning without its place in the code, which a user of the commands cannot change."""
    click.echo(f"warning: {message}", err=True)


@contextmanager
def job_metrics(config: "Config", url: str) -> Iterator["BatchJob"]:
    """Yield the job's metrics, and write them to ``run.metrics_file`` at the end, whether the job succeeds or fails."""
    from ...views.prometheus import BatchJob, metrics_file

    with metrics_file(config.run.metrics_file, BatchJob(url, config.model.kind), partial(_report, "metrics")) as job:
        try:
            yield job
        except BaseException as error:
            job.exit_status = explain(error).code
            raise


def mlflow_of(config: "Config") -> "MLflowCallback | None":
    """Return the callback that logs to MLflow; None if the configuration does not want it."""
    if config.mlflow is None:
        return None
    from ...publishing.mlflow import MLflowCallback

    return MLflowCallback(config.mlflow.experiment, tracking_uri=config.mlflow.tracking_uri)
