"""What the commands share: options, the configuration and the cluster of a command, errors as sentences and codes."""

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

USAGE, REFUSED, DATA, FAILED, LOCKED, INTERRUPTED, TERMINATED = 2, 3, 4, 1, 75, 130, 143

Facts = dict[str, Any]


class Terminated(SystemExit):
    """What SIGTERM raises wherever the command is."""


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what decides the configuration of a command."""
    return click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override a key, such as model.max_iter=50."
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and no progress.")(command)


def part_option(default: str) -> Callable[..., Any]:
    """Add --part."""
    return click.option(
        "--part",
        type=click.Choice(["train", "held_out"]),
        default=default,
        show_default=True,
        help="Which of the corpus's documents.",
    )


cluster_option = click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="CONFIG",
    help="A configuration to go by: its cluster, such as clusters/jobqueue, and of ingest how text is read.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace what another configuration left there.")
CONFIGS = click.argument("configs", nargs=-1, required=True, metavar="CONFIG...")


# --- around a command ---


def load_config(files: Sequence[Any], settings: Sequence[str], arguments: Facts | None = None) -> Any:
    """Resolve a command's configuration; ``arguments``: what its own arguments say of it."""
    from ....configs import resolve

    return resolve.load(files, settings, arguments=arguments)


@contextmanager
def working(config: Any, as_json: bool) -> Iterator[tuple[Any, Any]]:
    """Yield a client of the configured cluster and a display; keep others' logs off the screen unless --debug.

    Dask logs what commands say in a sentence; Bokeh a traceback where a browser leaves the live page in mid-message.
    """
    import contextlib
    import logging
    import warnings

    import dask

    from ...engine.clusters import await_worker, open_cluster
    from ...views.progress import display

    debug = click.get_current_context().find_root().params["debug"]
    loggers = ("distributed", "distributed.client", "tornado.application", "bokeh")
    levels = dict.fromkeys(loggers, "warning" if debug else "critical")
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level.upper())
    # Worker processes set their loggers up when they import Dask, before they are told of any other setting.
    of_workers = "distributed.nanny.pre-spawn-environ.DASK_INTERNAL_INHERIT_CONFIG"
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        if not debug:
            warnings.simplefilter("ignore")
        stack.enter_context(dask.config.set({of_workers: dask.config.serialize({"logging": levels})}))
        with _uninterrupted() if config.cluster.kind.startswith("local") else contextlib.nullcontext():
            client = stack.enter_context(open_cluster(**config.cluster.arguments()))
        if client is not None:
            await_worker(client, lambda sentence: click.echo(f"cluster: {sentence}", err=True))
        yield client, stack.enter_context(display(quiet=as_json))


@contextmanager
def measured(config: Any, url: str) -> Iterator[Any]:
    """Yield the job of a command, and leave its figures in ``run.metrics_file``, whatever happens."""
    from ...views.metrics import Job, metrics_file

    with metrics_file(config.run.metrics_file, Job(url, config.model.kind)) as job:
        try:
            yield job
        except BaseException as error:
            job.exit_status = explain(error)[1]
            raise


@contextmanager
def as_one_line(as_json: bool) -> Iterator[None]:
    """Let a job's log have one JSON line whatever happens: print one for an error and for a signal as well."""
    try:
        yield
    except BaseException as error:
        sentence, code = explain(error)
        status = {LOCKED: "locked", TERMINATED: "terminated", INTERRUPTED: "terminated"}.get(code, "failed")
        if as_json:
            click.echo(json.dumps({"status": status, "reason": sentence}))
        raise


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Start worker processes that leave Ctrl-C, which a terminal sends to all of them, to this process."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# --- errors ---

#: What says that a command was stopped, how it is told, and the exit code.
STOPPED: dict[type[BaseException], tuple[str, int]] = {
    Terminated: ("terminated", TERMINATED),
    KeyboardInterrupt: ("interrupted", INTERRUPTED),
    click.Abort: ("interrupted", INTERRUPTED),
}


def _of_the_system(error: OSError) -> str:
    if not error.strerror or not error.filename:
        return str(error)
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename}: a file stands where a folder is needed; choose another path"
    return f"{error.filename2 or error.filename}: {error.strerror.lower()}"


def explain(error: BaseException) -> tuple[str, int]:
    """Return one sentence and the exit code for an error, or for the signal in whose wake it came."""
    at: BaseException | None = error
    while at is not None:
        for stop, (word, code) in STOPPED.items():
            if isinstance(at, stop):
                return f"{word}; the same command goes on where it stopped", code
        at = at.__context__
    return _explain(error)


def _explain(error: BaseException) -> tuple[str, int]:
    from ....configs.layers import ConfigError
    from ....io.stores.locks import Locked
    from ....io.stores.store import DataError
    from ....kernels.errors import DeviceError
    from ...engine.clusters import ClusterError
    from ...engine.executors import TaskLost

    sentence = " ".join((_of_the_system(error) if isinstance(error, OSError) else str(error)).split())
    sentence = sentence or type(error).__name__
    for library, extra in {"s3fs": "s3", "gcsfs": "gcs", "adlfs": "azure"}.items():
        if isinstance(error, ImportError) and library in sentence:
            sentence += f": pip install 'corpusmill[{extra}]'"
    codes = {ConfigError: USAGE, ClusterError: USAGE, ValueError: USAGE, ImportError: USAGE}
    codes |= {DataError: DATA, OSError: DATA, Locked: LOCKED, TaskLost: FAILED, DeviceError: FAILED}
    for kind, code in codes.items():
        if isinstance(error, kind):
            return sentence, code
    if isinstance(error, MemoryError):
        return f"memory ran out ({sentence}); use fewer workers, a smaller model or a smaller chunk_tokens", FAILED
    return f"{type(error).__name__}: {sentence} (--debug shows where)", FAILED
