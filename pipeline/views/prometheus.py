"""A RunStatus as Prometheus gauges: on the scheduler's ``/metrics`` during training, in a file after a batch job."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...io.extras import needing
from ..engine.events import Event
from ..formatting import capitalize, label
from .history import latest_measures
from .status import RunStatus

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

#: Prefix of the names of all gauges.
PREFIX = "corpusmill_"
SUCCESS = "success_timestamp_seconds"


def metric_families(status: RunStatus) -> "Iterator[GaugeMetricFamily]":
    """Yield the gauges of a run: its progress, and the latest value of every metric of the model."""
    row = status.rows[-1] if status.rows else {}
    yield _gauge(status, "epoch", "Epochs committed", status.epoch)
    yield _gauge(status, "epochs", "Epochs to train", status.epochs)
    yield _gauge(status, "tokens", "Tokens per epoch", status.tokens)
    yield _gauge(status, "tokens_per_second", "Tokens per second in the last epoch", row.get("tokens_per_second", 0.0))
    yield _gauge(status, "epoch_seconds", "Duration of the last epoch in seconds", row.get("seconds", 0.0))
    yield _gauge(status, "running", "1 while training", float(status.state == "running"))
    yield _gauge(status, "last_event_timestamp_seconds", "Time of the last event", status.updated)
    for name, (value, _) in latest_measures(status.rows).items():
        yield _gauge(status, name, f"{capitalize(label(name))} at its last evaluation", value)


def metric_families_of_runs(statuses: Iterable[RunStatus]) -> "list[GaugeMetricFamily]":
    """Return the gauges of several runs. Each name may occur once, so a gauge has the values of all runs."""
    found: dict[str, GaugeMetricFamily] = {}
    for status in statuses:
        for family in metric_families(status):
            if family.name in found:
                found[family.name].samples += family.samples
            else:
                found[family.name] = family
    return list(found.values())


def _gauge(status: RunStatus, name: str, text: str, value: float) -> "GaugeMetricFamily":
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(f"{PREFIX}{name}", text, labels=["run", "algorithm"])
    family.add_metric([status.run, status.algorithm], float(value))
    return family


class BatchJob:
    """One batch job: the status of what it trains, and its exit status. ``observe`` is a callback of a run."""

    def __init__(self, run: str, algorithm: str):
        self.run = run
        self.algorithm = algorithm
        #: The caller sets this when the job fails.
        self.exit_status = 0
        #: Time of the last successful job before this one; 0.0 if there was none.
        self.last_success = 0.0
        self.run_status = RunStatus()

    def observe(self, event: Event) -> None:
        """Apply one event of the run."""
        self.run_status.update(event)

    def collect(self) -> "Iterator[GaugeMetricFamily]":
        """Yield the gauges, once the job has ended. Those of the run are missing if the job trained nothing."""
        status = self.run_status
        has_trained = status.run != ""
        # Every nightly job has a run of its own. All gauges of a job have the same labels, which are those of the job.
        status.run = self.run
        status.algorithm = self.algorithm
        status.state = "ended"
        if has_trained:
            yield from metric_families(status)
        now = time.time()
        succeeded = self.last_success if self.exit_status else now
        yield _gauge(status, "exit_status", "Exit status of the last job; 0 if nothing was to do", self.exit_status)
        yield _gauge(status, "end_timestamp_seconds", "Time when the last job ended", now)
        yield _gauge(status, SUCCESS, "Time when a job last succeeded; 0 for never", succeeded)


@contextmanager
def metrics_file(path: str | None, job: BatchJob, report: Callable[[str], None]) -> Iterator[BatchJob]:
    """Yield a job, and write its gauges to a file for Prometheus's textfile collector when it ends, also by an error.

    ``path``: None writes nothing. The caller sets ``job.exit_status`` before an error leaves the context. ``report``
    receives a sentence if the file cannot be written. Raises ImportError without prometheus-client, ValueError for a
    name that the collector would ignore.
    """
    if path is None:
        yield job
        return
    if not path.endswith(".prom"):
        raise ValueError(f"run.metrics_file: Prometheus reads files with names that end in .prom, not {path}")
    with needing("prometheus_client", "corpusmill[metrics]", "run.metrics_file"):
        from prometheus_client import write_to_textfile
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    # A failed run keeps the time of the last success, on which alerts about missing runs depend.
    job.last_success = read_last_success(path)
    try:
        yield job
    finally:
        try:
            write_to_textfile(path, job)
        except OSError as error:
            # The job has succeeded, or its own error is more important.
            report(f"{path} cannot be written ({error.strerror}), and has the figures of an earlier job, if any")


def read_last_success(path: str) -> float:
    """Return when a job that wrote this file last succeeded, in seconds since 1970; 0.0 if never or unknown."""
    from prometheus_client.parser import text_string_to_metric_families

    if not Path(path).exists():
        return 0.0
    try:
        families = list(text_string_to_metric_families(Path(path).read_text()))
    except ValueError:
        return 0.0  # The file is not in Prometheus's format, so another program wrote it.
    for family in families:
        for sample in family.samples:
            if sample.name == f"{PREFIX}{SUCCESS}":
                return sample.value
    return 0.0
