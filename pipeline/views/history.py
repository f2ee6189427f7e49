"""Read the rows of a run's metrics.jsonl: which metrics there are, and their values by epoch."""

import math
import statistics
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
#: Parameters that change during training. They have curves, but they do not say how good the model is.
PARAMETERS = {"alpha", "alpha_sum", "beta"}
#: Metrics that say how an epoch was trained and evaluated. All others say how good the model is.
ENGINE_METRICS = {
    "step",
    "epoch",
    "tokens",
    "seconds",
    "tokens_per_second",
    "training_seconds",
    "evaluated_tokens",
}
#: The beginnings of the names of metrics that the engine measures on workers: times, traffic of CUDA devices, requests
#: to object stores, and memory.
ENGINE_PREFIXES = ("seconds_", "device_", "requests_", "memory_")


def is_engine_metric(name: str) -> bool:
    """Return whether the engine measures a metric, and not the model."""
    return name in ENGINE_METRICS or name.startswith(ENGINE_PREFIXES)


def latest_measures(rows: Sequence[MetricRow]) -> dict[str, tuple[float, float]]:
    """Return the latest value of every metric of the model, and its epoch, by name."""
    found = {}
    for row in rows:
        for name, value in row.items():
            if not is_engine_metric(name):
                found[name] = (value, row["epoch"])
    return found


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
    """Return the names of the model's own metrics that change from epoch to epoch.

    Log-likelihoods are left out, since charts and summaries treat them by themselves.
    """
    return [name for name in _own_metrics(rows) if len({value for _, value in metric_points(rows, name)}) > 1]


def summary_metrics(rows: Sequence[MetricRow]) -> list[str]:
    """Return the names of the model's own metrics that change, or that only one epoch measured, without parameters."""
    single = [name for name in _own_metrics(rows) if len(metric_points(rows, name)) == 1]
    return sorted({*model_metrics(rows), *single} - PARAMETERS)


def _own_metrics(rows: Sequence[MetricRow]) -> list[str]:
    names = {name for row in rows for name in row}
    return sorted(name for name in names if name not in METRIC_LABELS and not is_engine_metric(name))


def median_speed(rows: Sequence[MetricRow]) -> float | None:
    """Return the tokens per second of the median epoch, or None if no row has them."""
    speeds = [float(row["tokens_per_second"]) for row in rows if "tokens_per_second" in row]
    if not speeds:
        return None
    return statistics.median_high(speeds)


def perplexity(log_likelihood: float) -> float:
    """Return the perplexity for a log-likelihood per token."""
    # exp overflows above 709.
    return math.exp(min(-log_likelihood, 700.0))
