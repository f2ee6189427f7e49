"""A status as Prometheus gauges: on the scheduler's ``/metrics`` while it goes on, in a file when a job has ended."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..engine.events import Event
from ..formatting import label
from .history import ENGINE_METRICS
from .status import RunStatus, event_message

SUCCESS = "success_timestamp_seconds"


def metric_families(status: RunStatus) -> Any:
    """Yield a status as Prometheus gauges, named corpusmill_*."""
    row = status.rows[-1] if status.rows else {}
    measures = {}
    for epoch_row in status.rows:
        for name, value in epoch_row.items():
            if name not in ENGINE_METRICS and not name.startswith("seconds_"):
                measures[name] = value
    values = {
        "epoch": ("Epochs committed", status.epoch),
        "epochs": ("Epochs asked for", status.epochs),
        "tokens": ("Tokens an epoch", status.tokens),
        "tokens_per_second": ("Tokens a second in the last epoch", row.get("tokens_per_second", 0.0)),
        "epoch_seconds": ("Seconds of the last epoch", row.get("seconds", 0.0)),
        "running": ("1 while training", float(status.state == "running")),
        "last_event_timestamp_seconds": ("Time of the last event", status.updated),
        **{name: (f"{label(name).capitalize()} at its last evaluation", v) for name, v in measures.items()},
    }
    return _gauges(status, values)


def _gauges(status: RunStatus, values: dict[str, tuple[str, float]]) -> Iterator[Any]:
    from prometheus_client.core import GaugeMetricFamily

    for name, (text, value) in values.items():
        family = GaugeMetricFamily(f"corpusmill_{name}", text, labels=["run", "algorithm"])
        family.add_metric([status.run, status.algorithm], float(value))
        yield family


class Job:
    """One batch job: what it trained, and its exit status. ``observe`` is a subscriber of the training."""

    def __init__(self, run: str, algorithm: str):
        self.run, self.algorithm = run, algorithm
        self.exit_status, self.before, self.run_status = 0, 0.0, RunStatus()

    def observe(self, event: Event) -> None:
        """Take in an event."""
        self.run_status.update(event_message(event))

    def collect(self) -> Iterator[Any]:
        """Yield the gauges. A job that trained nothing has those of its end alone."""
        trained = bool(self.run_status.run)
        # A night's run has a name of its own; the job is the same every night. And it has ended, however it did.
        self.run_status.run, self.run_status.algorithm, self.run_status.state = self.run, self.algorithm, "ended"
        if trained:
            yield from metric_families(self.run_status)
        now = time.time()
        ends = {
            "exit_status": ("Exit status of the last job, 0 also where there was nothing to do", self.exit_status),
            "end_timestamp_seconds": ("Time at which the last job ended", now),
            SUCCESS: ("Time at which a job last succeeded; 0: never", self.before if self.exit_status else now),
        }
        yield from _gauges(self.run_status, ends)


@contextmanager
def metrics_file(path: str | None, job: Job) -> Iterator[Job]:
    """Yield a job; write its gauges for a textfile collector in one step, however it ends. ``None`` writes nothing.

    The caller sets ``job.exit_status`` before an error leaves. Raises ImportError without prometheus-client, ValueError
    for a name that a collector passes over.
    """
    if path is None:
        yield job
        return
    if not path.endswith(".prom"):
        raise ValueError(f"run.metrics_file: a textfile collector reads names that end in .prom, not {path}")
    try:
        from prometheus_client import write_to_textfile
    except ImportError:
        raise ImportError("run.metrics_file needs prometheus-client: pip install 'corpusmill[metrics]'") from None
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    job.before = last_success(path)
    try:
        yield job
    finally:
        write_to_textfile(path, job)


def last_success(path: str) -> float:
    """Return when a job that wrote this file last succeeded, in seconds since 1970; 0.0 where none did."""
    from prometheus_client.parser import text_string_to_metric_families

    if not Path(path).exists():
        return 0.0
    try:
        samples = [s for f in text_string_to_metric_families(Path(path).read_text()) for s in f.samples]
    except ValueError:
        return 0.0  # somebody else's file
    return next((s.value for s in samples if s.name == f"corpusmill_{SUCCESS}"), 0.0)
