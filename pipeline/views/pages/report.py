"""The HTML report of one run or one model: summary, curves, times, topics and configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...formatting import capitalize, format_duration, format_number, label, with_minus_sign
from ...topics import Topic, TopicWord
from ..history import (
    METRIC_LABELS,
    MetricRow,
    last_value,
    likelihood_names,
    median_speed,
    metric_points,
    model_metrics,
    perplexity,
    summary_metrics,
)
from .charts import HUES, Chart, build_chart
from .contents import Contents
from .page import render_template
from .table import Table

#: Number of topics shown, the largest ones.
MAX_TOPICS = 200


def render(contents: Contents) -> str:
    """Return the report as HTML."""
    values = {
        "title": contents.title,
        "lead": contents.lead,
        "version": contents.versions.get("corpusmill", ""),
        "tiles": _tiles(contents),
        "charts": _charts(contents.rows),
        "bars": _bars(contents.rows),
        "traffic": device_traffic(contents.rows),
        "topics": _topic_cards(contents.topics),
        "topics_note": _topics_note(contents.topics),
        "neighbours": _neighbours(contents.neighbours),
        "config": contents.config,
        "versions": contents.versions,
    }
    return render_template("run.html.j2", values)


# --- summary ---


@dataclass(frozen=True)
class Tile:
    """One figure of the summary."""

    value: str
    name: str
    note: str = ""


def _tiles(contents: Contents) -> list[Tile]:
    rows = contents.rows
    if not rows:
        return [Tile("0", "epochs", "nothing is committed yet")]
    tiles = _quality_tiles(rows)
    speed = median_speed(rows)
    if speed is not None:
        tiles.append(Tile(format_number(speed), "tokens per second", "the median epoch"))
    tiles.append(Tile(format_number(rows[-1]["epoch"]), "epochs", _training_time(rows)))
    if contents.topics:
        tiles.append(Tile(format_number(len(contents.topics)), "topics"))
    return tiles


def _quality_tiles(rows: Sequence[MetricRow]) -> list[Tile]:
    tiles = []
    held_out = last_value(rows, "held_out_log_likelihood")
    if held_out is not None:
        note = f"perplexity {format_number(perplexity(held_out))}"
        tiles.append(Tile(with_minus_sign(f"{held_out:.4f}"), "held-out log-likelihood per token", note))
    trained = last_value(rows, "log_likelihood")
    if trained is not None:
        tiles.append(Tile(with_minus_sign(f"{trained:.4f}"), "training log-likelihood per token"))
    for name in summary_metrics(rows):
        _, value = metric_points(rows, name)[-1]
        tiles.append(Tile(format_number(value), label(name)))
    return tiles


def _training_time(rows: Sequence[MetricRow]) -> str:
    # The versions of a retrained model record no times.
    seconds = last_value(rows, "training_seconds")
    if seconds is None:
        return ""
    return f"in {format_duration(seconds)}"


# --- curves ---


def _charts(rows: Sequence[MetricRow]) -> list[Chart]:
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
    """One part of a bar: its name, colour, width in CSS, and share and duration in words."""

    name: str
    hue: str
    width: str
    note: str


@dataclass(frozen=True)
class Bar:
    """A bar that is divided by causes."""

    title: str
    parts: list[BarPart]


def _bars(rows: Sequence[MetricRow]) -> list[Bar]:
    """Return where the time went, for workers and for epochs; empty if the rows have no times."""
    total = _sum(rows, "seconds")
    if total <= 0:
        return []
    causes = ("seconds_kernel", "seconds_read", "seconds_write")
    merging = _sum(rows, "seconds_merge")
    epochs = {"sweeping": max(0.0, total - merging), "merging and applying": merging}
    return [
        _bar("Where the workers' time went", {METRIC_LABELS[cause]: _sum(rows, cause) for cause in causes}),
        _bar("Where the epochs' time went", epochs),
    ]


# --- traffic of CUDA devices ---

#: What the operations on a device are called. The ledger in kernels/cuda counts them.
DEVICE_OPERATIONS = {
    "upload": "copied to devices",
    "download": "copied to the host",
    "allocate": "allocated on devices",
    "launch": "kernels launched",
    "wait": "waits of the host",
}


def device_traffic(rows: Sequence[MetricRow]) -> Table | None:
    """Return a table of what the workers did on their CUDA devices in an epoch; None if they had none."""
    lines: dict[str, list[str]] = {}
    for operation, name in DEVICE_OPERATIONS.items():
        calls = _sum(rows, f"device_{operation}_calls")
        if not calls:
            continue
        nbytes = _sum(rows, f"device_{operation}_bytes")
        per_epoch = [format_number(calls / len(rows)), format_number(nbytes / len(rows)) if nbytes else ""]
        lines[capitalize(name)] = per_epoch
    if not lines:
        return None
    return Table("CUDA devices, mean epoch", ["calls", "bytes"], lines)


def _sum(rows: Sequence[MetricRow], name: str) -> float:
    return sum(float(row.get(name, 0.0)) for row in rows)


def _bar(title: str, seconds: dict[str, float]) -> Bar:
    total = sum(seconds.values()) or 1.0
    parts = []
    for hue, (name, value) in zip(HUES, seconds.items(), strict=False):
        share = value / total
        parts.append(BarPart(name, hue, f"{share:.2%}", f"{share:.0%} · {format_duration(value)}"))
    return Bar(title, parts)


# --- topics ---


@dataclass(frozen=True)
class WordLine:
    """One word of a topic. ``width`` is its weight relative to the heaviest word, in CSS."""

    name: str
    weight: str
    width: str


@dataclass(frozen=True)
class TopicCard:
    """One topic. ``width`` is its size relative to the largest topic, in CSS."""

    title: str
    size: str
    width: str
    words: list[WordLine]


def _topic_cards(topics: Sequence[Topic]) -> list[TopicCard]:
    ranked = sorted(topics, key=lambda topic: -topic["size"])[:MAX_TOPICS]
    if not ranked:
        return []
    largest = ranked[0]["size"] or 1.0
    return [
        TopicCard(
            _topic_title(topic), f"{topic['size']:.1%}", f"{topic['size'] / largest:.1%}", _word_lines(topic["words"])
        )
        for topic in ranked
    ]


def _topic_title(topic: Topic) -> str:
    if "name" in topic:
        return f"{topic['topic']} {topic['name']}"
    return f"Topic {topic['topic']}"


def _word_lines(words: Sequence[TopicWord]) -> list[WordLine]:
    heaviest = max((_weight(word) for word in words), default=0.0) or 1.0
    lines = []
    for word in words:
        weight = f"{word['probability']:.2%}" if "probability" in word else format_number(_weight(word))
        lines.append(WordLine(word["word"], weight, f"{_weight(word) / heaviest:.1%}"))
    return lines


def _weight(word: TopicWord) -> float:
    return word.get("probability", word.get("weight", 0.0))


def _neighbours(neighbours: Mapping[str, Sequence[str]]) -> Table | None:
    if not neighbours:
        return None
    return Table(
        "Nearest words", ["of some frequent words"], {word: [", ".join(near)] for word, near in neighbours.items()}
    )


def _topics_note(topics: Sequence[Topic]) -> str:
    if len(topics) > MAX_TOPICS:
        return f"the {MAX_TOPICS} largest of {len(topics):,}"
    return "largest first, with each word's weight"
