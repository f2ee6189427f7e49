"""Read the rows of a run's metrics.jsonl: which metrics there are, and their values by epoch."""

import math
from collections.abc import Mapping, Sequence

#: One row of metrics.jsonl: the metrics of one epoch by name. Not every row has every metric.
MetricRow = Mapping[str, float]
#: Pairs (epoch, value).
Points = list[tuple[float, float]]

LIKELIHOODS = ("log_likelihood", "held_out_log_likelihood")
#: What the metrics of the engine and the log-likelihoods are called in charts. Others are called by their own names.
METRIC_LABELS = {
    "log_likelihood": "training",
    "held_out_log_likelihood": "held out",
    "tokens_per_second": "tokens/s",
    "seconds_kernel": "computing",
    "seconds_read": "reading",
    "seconds_write": "writing",
}
#: Metrics that the engine measures. All others come from the model.
ENGINE_METRICS = {"step", "epoch", "tokens", "seconds", "tokens_per_second", "training_seconds", "seconds_merge"}


def last_value(rows: Sequence[MetricRow], name: str) -> float | None:
    """Return the latest value of a metric, or None if no row has it."""
    for row in reversed(rows):
        if name in row:
            return float(row[name])
    return None


def metric_points(rows: Sequence[MetricRow], name: str) -> Points:
    """Return the epochs and values of a metric, without values that are not finite."""
    return [(float(row["epoch"]), float(row[name])) for row in rows if math.isfinite(row.get(name, math.nan))]


def likelihood_names(rows: Sequence[MetricRow]) -> list[str]:
    """Return the names of the log-likelihoods that some row has."""
    return [name for name in LIKELIHOODS if last_value(rows, name) is not None]


def model_metrics(rows: Sequence[MetricRow]) -> list[str]:
    """Return the names of the model's own metrics, without log-likelihoods and without those that never change."""
    names: set[str] = set()
    for row in rows:
        names.update(row)
    names -= ENGINE_METRICS | set(METRIC_LABELS)
    return [name for name in sorted(names) if _changes(rows, name)]


def _changes(rows: Sequence[MetricRow], name: str) -> bool:
    return len({value for _, value in metric_points(rows, name)}) > 1
