"""The HTML report of one run or one model: summary, curves, times, topics and configuration."""

from collections.abc import Mapping, Sequence

from ...formatting import capitalize, format_bytes, format_duration, format_number
from ...topics import Topic, TopicWord, weight_of
from ..history import MetricRow, Points, last_value, median_speed
from .charts import Chart, build_chart
from .figures import Tile, quality_tiles, sum_of, time_bars, training_charts
from .page import Contents, Table, render_template

#: Number of topics shown, the largest ones.
MAX_TOPICS = 200


def render(contents: Contents) -> str:
    """Return the report as HTML."""
    values = {
        "title": contents.title,
        "lead": contents.lead,
        "version": contents.versions.get("corpusmill", ""),
        "tiles": _tiles(contents),
        "charts": training_charts(contents.rows) + _charts_by_components(contents.left_out),
        "bars": time_bars(contents.rows),
        "traffic": device_traffic(contents.rows),
        "restarts": contents.restarts,
        "topics": sorted(contents.topics, key=lambda topic: -topic["size"])[:MAX_TOPICS],
        "weight_of": weight_of,
        "weight_text": _weight_text,
        "topics_note": _topics_note(contents.topics),
        "neighbours": _neighbours(contents.neighbours),
        "config": contents.config,
        "versions": contents.versions,
    }
    return render_template("run.html.j2", values)


def _charts_by_components(left_out: Points) -> list[Chart]:
    chart = build_chart("Error of left-out entries", {"error of left-out entries": left_out}, axis="components")
    return [chart] if chart else []


# --- summary ---


def _tiles(contents: Contents) -> list[Tile]:
    rows = contents.rows
    if not rows:
        return [Tile("0", "epochs", "nothing is committed yet")]
    tiles = quality_tiles(rows)
    speed = median_speed(rows)
    if speed is not None:
        tiles.append(Tile(format_number(speed), "tokens per second", "in the median epoch"))
    tiles.append(Tile(format_number(rows[-1]["epoch"]), "epochs", _training_time(rows)))
    peak = last_value(rows, "memory_peak")
    if peak:
        planned = last_value(rows, "memory_planned") or 0
        tiles.append(Tile(format_bytes(int(peak)), "peak memory of a worker", f"{format_bytes(int(planned))} planned"))
    if contents.topics:
        tiles.append(Tile(format_number(len(contents.topics)), "topics"))
    return tiles


def _training_time(rows: Sequence[MetricRow]) -> str:
    # The versions of a retrained model record no times.
    seconds = last_value(rows, "training_seconds")
    if seconds is None:
        return ""
    return f"in {format_duration(seconds)}"


# --- traffic of CUDA devices ---

#: What the operations on a device are called. The ledger in kernels/cuda counts them.
DEVICE_OPERATIONS = {
    "upload": "copied to devices",
    "download": "copied to the host",
    "receive": "copied from device to device",
    "allocate": "allocated on devices",
    "launch": "kernels launched",
    "wait": "waits of the host",
}


def device_traffic(rows: Sequence[MetricRow]) -> Table | None:
    """Return a table of what the workers did on their CUDA devices in an epoch; None if they had none."""
    lines: dict[str, list[str]] = {}
    for operation, name in DEVICE_OPERATIONS.items():
        calls = sum_of(rows, f"device_{operation}_calls")
        if not calls:
            continue
        nbytes = sum_of(rows, f"device_{operation}_bytes")
        per_epoch = [format_number(calls / len(rows)), format_number(nbytes / len(rows)) if nbytes else ""]
        lines[capitalize(name)] = per_epoch
    if not lines:
        return None
    return Table("CUDA devices, mean epoch", ["calls", "bytes"], lines)


# --- topics ---


def _weight_text(word: TopicWord) -> str:
    """Write the probability of a word in a topic in percent, or its weight."""
    return f"{word['probability']:.2%}" if "probability" in word else format_number(weight_of(word))


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
