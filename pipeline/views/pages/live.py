"""The live page of a run on a cluster: what the report shows, and in addition shards, workers and remaining time.

The page is loaded once. Its script then replaces the content every second.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ....io.messages import pluralize
from ...formatting import format_bytes, format_duration, format_number, model_title
from ..history import MetricRow
from ..status import RunStatus
from .figures import Bar, BarPart, Tile, quality_tiles, time_bars, training_charts
from .page import render_template

#: Most points of a curve. More would not be visible, and the curves are sent every second.
MAX_POINTS = 300
#: Colours of the states of a shard, in the order in which they are shown.
SHARD_HUES = {"done": "var(--one)", "cached": "var(--three)", "running": "var(--two)", "waiting": "var(--track)"}


@dataclass(frozen=True)
class WorkerMemory:
    """A worker of the cluster and its memory in bytes. A limit of 0 means no limit."""

    name: str
    address: str
    used: int
    limit: int


def render_frame() -> str:
    """Return the page without content. Its script fetches the content."""
    return render_template("live.html.j2", {"title": "corpusmill: training"}, scripts=("page.js", "live.js"))


def render_content(
    status: RunStatus, shards: Sequence[str], workers: Sequence[WorkerMemory], others: Sequence[str] = ()
) -> str:
    """Return the content of the page: the run's state, the states of its shards, and the workers of the cluster.

    ``others`` are the names of the other runs on the cluster.
    """
    rows = _thinned(status.rows)
    values = {
        "run": status.run,
        "title": f"{model_title(status.algorithm)} in {status.run}",
        "lead": _lead(status),
        "done": f"{status.share:.2%}",
        "tiles": _tiles(status),
        "charts": training_charts(rows),
        "bars": [*_shard_bars(shards), *time_bars(status.rows)],
        "workers": _worker_lines(status, workers),
        "groups": status.groups,
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
    tokens = f"{status.tokens:,} tokens per epoch"
    if status.state != "running":
        return f"{tokens} · ended after epoch {status.epoch:,} of {status.epochs:,}: {status.state}"
    return f"{tokens} · {status.describe_epoch()}"


# --- summary ---


def _tiles(status: RunStatus) -> list[Tile]:
    tiles = quality_tiles(status.rows)
    if status.rows:
        tiles.append(
            Tile(format_number(status.rows[-1]["tokens_per_second"]), "tokens per second", "in the last epoch")
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


@dataclass(frozen=True)
class WorkerLine:
    """A worker on the live page. The widths of its bars are CSS percentages of its memory limit."""

    name: str
    speed: str
    memory: str
    used_width: str
    planned_width: str


def _worker_lines(status: RunStatus, workers: Sequence[WorkerMemory]) -> list[WorkerLine]:
    planned = status.plan.get("total", 0)
    speeds = status.worker_speeds()
    lines = []
    for worker in workers:
        # Without a limit, the bar is as long as the larger of the two.
        whole = worker.limit or max(planned, worker.used, 1)
        memory = f"{format_bytes(worker.used)} used, {format_bytes(planned)} planned"
        if worker.limit:
            memory += f", limit {format_bytes(worker.limit)}"
        # A worker without a name reports its address as its name, but the scheduler may have given it a number.
        speed = speeds.get(worker.name, speeds.get(worker.address))
        lines.append(
            WorkerLine(
                worker.name,
                f"{format_number(speed)} tokens/s" if speed is not None else "",
                memory,
                f"{min(1.0, worker.used / whole):.1%}",
                f"{min(1.0, planned / whole):.1%}",
            )
        )
    return lines
