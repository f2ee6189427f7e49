"""The live page of a run on a cluster: what the report shows, and in addition shards, workers and remaining time.

The page is loaded once. Its script then replaces the content every second.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....io.messages import pluralize
from ...formatting import format_bytes, format_duration, format_number, model_title
from ..history import MetricRow
from ..status import RunStatus
from .figures import Bar, BarPart, Tile, quality_tiles, time_bars, training_charts
from .page import render_template

if TYPE_CHECKING:
    from distributed.scheduler import WorkerState

#: Most points of a curve. More would not be visible, and the curves are sent every second.
MAX_POINTS = 300
#: Colours of the states of a shard, in the order in which they are shown.
SHARD_HUES = {"done": "var(--one)", "cached": "var(--three)", "running": "var(--two)", "waiting": "var(--track)"}


def render_frame() -> str:
    """Return the page without content. Its script fetches the content."""
    return render_template("live.html.j2", {"title": "corpusmill: training"}, scripts=("page.js", "live.js"))


def render_content(
    status: RunStatus, shards: Sequence[str], workers: Sequence["WorkerState"], others: Sequence[str] = ()
) -> str:
    """Return the content of the page: the run's state, the states of its shards, and the workers of the cluster.

    ``others`` are the names of the other runs on the cluster.
    """
    rows = _thinned(status.rows)
    values = {
        "run": status.run,
        "title": f"{model_title(status.algorithm)} in {status.run}",
        "lead": _lead(status),
        "done": status.share,
        "tiles": _tiles(status),
        "charts": training_charts(rows),
        "bars": [*_shard_bars(shards), *time_bars(status.rows)],
        "workers": _worker_lines(status, workers),
        "lists": status.lists,
        "others": others,
    }
    return render_template("live_content.html.j2", values)


def _thinned(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """Return at most about MAX_POINTS rows, the last one among them."""
    distance = -(-len(rows) // MAX_POINTS)
    if distance <= 1:
        return list(rows)
    return [*rows[:-1:distance], rows[-1]]


def _lead(status: RunStatus) -> str:
    tokens = f"{status.tokens:,} {status.unit} per epoch"
    if status.state != "running":
        return f"{tokens} · ended after epoch {status.epoch:,} of {status.epochs:,}: {status.state}"
    return f"{tokens} · {status.describe_epoch()}"


# --- summary ---


def _tiles(status: RunStatus) -> list[Tile]:
    tiles = quality_tiles(status.rows)
    if status.rows:
        tiles.append(
            Tile(format_number(status.rows[-1]["tokens_per_second"]), f"{status.unit} per second", "in the last epoch")
        )
    tiles.append(Tile(f"{status.epoch:,}", f"of {pluralize(status.epochs, 'epoch')}"))
    if status.eta is not None:
        tiles.append(Tile(format_duration(status.eta), "left", "at the pace of the last epochs"))
    if status.workers_lost:
        tiles.append(Tile(f"{status.workers_lost:,}", "workers lost", "others repeated their work"))
    return tiles


# --- shards and workers ---


def _shard_bars(shards: Sequence[str]) -> list[Bar]:
    if not shards:
        return []
    counts = Counter(shards)
    parts = []
    for state, hue in SHARD_HUES.items():
        if counts[state]:
            parts.append(BarPart(state, hue, counts[state] / len(shards), f"{counts[state]:,}"))
    return [Bar("Shards of this epoch", parts)]


def _worker_lines(status: RunStatus, workers: Sequence["WorkerState"]) -> list[dict[str, object]]:
    """Return the speed and the memory of each worker; its bars are shares of its memory limit."""
    planned = status.plan.get("total", 0)
    speeds = status.worker_speeds()
    lines: list[dict[str, object]] = []
    for worker in workers:
        name, used, limit = str(worker.name), int(worker.metrics.get("memory", 0)), int(worker.memory_limit)
        # Without a limit, the bar is as long as the larger of the two.
        whole = limit or max(planned, used, 1)
        memory = f"{format_bytes(used)} used, {format_bytes(planned)} planned"
        if limit:
            memory += f", limit {format_bytes(limit)}"
        # A worker without a name reports its address as its name, but the scheduler may have given it a number.
        speed = speeds.get(name, speeds.get(worker.address))
        lines.append(
            {
                "name": name,
                "speed": f"{format_number(speed)} {status.unit}/s" if speed is not None else "",
                "memory": memory,
                "used": min(1.0, used / whole),
                "planned": min(1.0, planned / whole),
            }
        )
    return lines
