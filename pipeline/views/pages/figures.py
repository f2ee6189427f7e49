"""A run's metrics as the pages show them: figures of the summary, curves, and times by cause."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...formatting import capitalize, format_duration, format_number, label, with_minus_sign
from ..history import (
    METRIC_LABELS,
    MetricRow,
    last_value,
    likelihood_names,
    metric_points,
    model_metrics,
    perplexity,
    summary_metrics,
)
from .charts import HUES, Chart, build_chart

# --- summary ---


@dataclass(frozen=True)
class Tile:
    """A number in the summary of a page, its name, and a note below it."""

    value: str
    name: str
    note: str = ""


def quality_tiles(rows: Sequence[MetricRow]) -> list[Tile]:
    """Return how good the model is: the latest value of each of its own metrics."""
    tiles = []
    held_out = last_value(rows, "held_out_log_likelihood")
    if held_out is not None:
        note = f"perplexity {format_number(perplexity(held_out))}"
        tiles.append(Tile(with_minus_sign(f"{held_out:.4f}"), "held-out log-likelihood per token", note))
    trained = last_value(rows, "log_likelihood")
    if trained is not None:
        tokens = last_value(rows, "evaluated_tokens")
        note = "" if tokens is None else f"of {format_number(tokens)} tokens"
        tiles.append(Tile(with_minus_sign(f"{trained:.4f}"), "training log-likelihood per token", note))
    for name in summary_metrics(rows):
        _, value = metric_points(rows, name)[-1]
        tiles.append(Tile(format_number(value), label(name)))
    return tiles


# --- curves ---


def training_charts(rows: Sequence[MetricRow]) -> list[Chart]:
    """Return the curves of quality and speed by epoch."""
    likelihoods = {METRIC_LABELS[name]: metric_points(rows, name) for name in likelihood_names(rows)}
    charts = [build_chart("Log-likelihood per token", likelihoods)]
    for name in model_metrics(rows):
        charts.append(build_chart(capitalize(label(name)), {label(name): metric_points(rows, name)}))
    speed = {METRIC_LABELS["tokens_per_second"]: metric_points(rows, "tokens_per_second")}
    charts.append(build_chart("Tokens per second", speed, from_zero=True))
    return [chart for chart in charts if chart is not None]


# --- times ---


@dataclass(frozen=True)
class BarPart:
    """One part of a bar: its name, its colour, its share of the bar, and what it is in words."""

    name: str
    hue: str
    share: float
    note: str


@dataclass(frozen=True)
class Bar:
    """A bar that is divided by causes."""

    title: str
    parts: list[BarPart]


def time_bars(rows: Sequence[MetricRow]) -> list[Bar]:
    """Return where the time went, for workers and for epochs; empty if the rows have no times."""
    total = sum_of(rows, "seconds")
    if total <= 0:
        return []
    causes = ("seconds_kernel", "seconds_read", "seconds_write")
    merging = sum_of(rows, "seconds_merge")
    epochs = {
        "sweeping": max(0.0, total - merging),
        "merging and applying": merging,
        "evaluating": sum_of(rows, "seconds_evaluate"),
    }
    return [
        _bar_of("Where the workers' time went", {METRIC_LABELS[cause]: sum_of(rows, cause) for cause in causes}),
        _bar_of("Where the epochs' time went", epochs),
    ]


def _bar_of(title: str, seconds: Mapping[str, float]) -> Bar:
    total = sum(seconds.values()) or 1.0
    parts = []
    for hue, (name, value) in zip(HUES, seconds.items(), strict=False):
        share = value / total
        parts.append(BarPart(name, hue, share, f"{share:.0%} · {format_duration(value)}"))
    return Bar(title, parts)


def sum_of(rows: Sequence[MetricRow], name: str) -> float:
    """Return the sum of a metric over all rows."""
    return sum(float(row.get(name, 0.0)) for row in rows)
