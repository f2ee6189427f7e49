"""Draw the state of a run on a terminal, with rich."""

import math
import sys
import time
from collections.abc import Iterable, Sequence

import click
import numpy as np
from rich.bar import Bar
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...formatting import format_duration, format_number, format_score, label
from ...topics import WordGroup
from ...views.history import METRIC_LABELS, MetricRow, last_value, likelihood_names, metric_points, model_metrics
from ...views.pages.figures import time_bars
from ...views.status import RunStatus

#: Seconds between two lines if the output is not a terminal.
LINE_SECONDS = 5.0
#: Characters that fill one cell of a chart from below, in eighths.
EIGHTHS = " ▁▂▃▄▅▆▇█"
#: Lines of a chart, and its smallest width in columns.
CHART_LINES = 4
CHART_WIDTH = 36
MAX_CHARTS = 4
MAX_WORKERS = 16
#: Rows of metrics over which the time is averaged.
RECENT_EPOCHS = 60

STATE_STYLES = {"running": "yellow", "stopped": "red", "failed": "red"}  # any other state is an end as intended: green
#: What a shard in this state looks like.
SHARD_MARKS = {"waiting": ("□", "dim"), "running": ("◧", "yellow"), "done": ("■", "blue"), "cached": ("■", "green")}


def show_once(status: RunStatus) -> None:
    """Show the state of a run: a screen on a terminal, otherwise a line."""
    console = Console()
    if console.is_terminal:
        console.print(draw(status))
    else:
        click.echo(line(status))


def show_all(states: Iterable[RunStatus]) -> None:
    """Show a run until it ends: redraw the screen on a terminal, otherwise print a line every few seconds."""
    console = Console()
    # Variables such as FORCE_COLOR make rich take a pipe for a terminal, but a pipe cannot be redrawn.
    if not (console.is_terminal and sys.stdout.isatty()):
        _print_lines(states)
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        for status in states:
            screen.update(draw(status), refresh=True)


def _print_lines(states: Iterable[RunStatus]) -> None:
    """Print a line for a new epoch, but at most one in LINE_SECONDS, and one for the end."""
    printed_at = -math.inf
    printed_epoch = -1
    for status in states:
        is_new = status.epoch != printed_epoch and time.monotonic() - printed_at >= LINE_SECONDS
        if is_new or status.state != "running":
            printed_at = time.monotonic()
            printed_epoch = status.epoch
            click.echo(line(status))


def line(status: RunStatus) -> str:
    """Describe the state of a run in one line."""
    parts = [f"{status.algorithm} {status.run}: {status.state}, {status.describe_epoch()}"]
    if status.rows:
        parts.append(f"{format_number(status.rows[-1]['tokens_per_second'])} tokens/s")
    for name in likelihood_names(status.rows):
        parts.append(f"{METRIC_LABELS[name]} {last_value(status.rows, name):.4f}")
    if status.eta is not None:
        parts.append(f"about {format_duration(status.eta)} left")
    return ", ".join(parts)


def draw(status: RunStatus) -> RenderableType:
    """Return a screen about a run: progress, curves, shards, time, workers and the model so far."""
    if not status.run:
        return Text("No run has started on this cluster yet.")
    parts: list[RenderableType] = [
        _heading(status),
        _progress(status),
    ]
    charts = [Chart(label(name), values) for name, values in _curves(status.rows).items()]
    if charts:
        parts += [Text(), Columns(charts, padding=(0, 2), expand=True)]
    if status.shards and status.state == "running":
        parts.append(_shards(status.shards))
    for bar in time_bars(status.rows[-RECENT_EPOCHS:]):
        parts.append(_bars(bar.title, [(part.name, part.note, part.share) for part in bar.parts]))
    speeds = sorted(status.worker_speeds().items())[:MAX_WORKERS]
    if speeds:
        best = max(speed for _, speed in speeds) or 1.0
        rows = [(name, f"{format_number(speed)}/s", speed / best) for name, speed in speeds]
        parts.append(_bars("Tokens per second of each worker's time", rows))
    if status.groups:
        # The groups contain words of the corpus. They must not be read as markup or as commands to the terminal.
        parts.append(Panel(_groups(status.groups), title="the model so far", title_align="left"))
    return Group(*parts)


def _groups(groups: Sequence[WordGroup]) -> Table:
    """Return a table with one row per group of words, such as a topic."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for heading, words in groups:
        table.add_row(Text(_printable(heading)), Text(_printable(" ".join(words))))
    return table


def _printable(text: str) -> str:
    """Replace control characters: words of the corpus must not send commands to the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def _heading(status: RunStatus) -> Text:
    parts = [f", {status.describe_epoch()}"]
    if status.eta is not None:
        parts.append(f", about {format_duration(status.eta)} left")
    if status.updated:
        parts.append(f", last change {format_duration(max(0.0, time.time() - status.updated))} ago")
    return Text.assemble(
        (_printable(status.algorithm), "bold"),
        f" {_printable(status.run)}\n",
        (_printable(status.state), STATE_STYLES.get(status.state, "green")),
        "".join(parts),
    )


def _progress(status: RunStatus) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(ratio=1)
    table.add_column()
    bar = ProgressBar(total=1.0, completed=status.share, complete_style="green")
    table.add_row(bar, f"{status.share:.0%}")
    return table


# --- curves ---


def _curves(rows: Sequence[MetricRow]) -> dict[str, list[float]]:
    """Return the values to draw by metric: the scores of the model, then the speed of training."""
    curves: dict[str, list[float]] = {}
    for name in (*reversed(likelihood_names(rows)), *model_metrics(rows), "tokens_per_second"):
        values = [value for _, value in metric_points(rows, name)]
        if values and len(curves) < MAX_CHARTS:
            curves[name] = values
    return curves


class Chart:
    """A curve as a filled area of block characters, below a title with the last value."""

    def __init__(self, title: str, values: Sequence[float]):
        self.title = title
        self.values = values

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the curve in as many columns as there are."""
        yield Text(f"{self.title} {format_score(self.values[-1])}", style="bold", no_wrap=True, overflow="ellipsis")
        for row in chart_rows(self.values, options.max_width):
            yield Text(row, style="blue", no_wrap=True)
        yield Text("")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Request CHART_WIDTH columns. The layout puts as many charts side by side as fit, and widens them evenly."""
        width = min(CHART_WIDTH, options.max_width)
        return Measurement(width, width)


def chart_rows(values: Sequence[float], width: int) -> list[str]:
    """Return CHART_LINES lines of ``width`` characters that show the values as a filled curve, top line first."""
    columns = np.interp(np.linspace(0, len(values) - 1, width), np.arange(len(values)), values)
    low, high = columns.min(), columns.max()
    if high > low:
        shares = (columns - low) / (high - low)
    else:
        shares = np.full(width, 0.5)
    # Each column is filled by a number of eighths of a cell. At least one, so that the lowest value can be seen.
    filled = [1 + round((CHART_LINES * 8 - 1) * share) for share in shares]
    rows = []
    for row in reversed(range(CHART_LINES)):
        rows.append("".join(EIGHTHS[min(8, max(0, eighths - 8 * row))] for eighths in filled))
    return rows


# --- shards, time and workers ---


def _shards(states: Sequence[str]) -> Text:
    done = sum(state in ("done", "cached") for state in states)
    text = Text.assemble(("shards of this epoch", "bold"), f" {done:,} of {len(states):,}\n", overflow="fold")
    for state in states:
        text.append(*SHARD_MARKS[state])
    return text


def _bars(title: str, rows: Iterable[tuple[str, str, float]]) -> Table:
    """Return one bar per row of a name, a text and a share."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.title = Text(title, "bold")
    table.title_justify = "left"
    table.add_column(max_width=24, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    for name, text, share in rows:
        table.add_row(Text(_printable(name)), text, Bar(1.0, 0, share, color="green"))
    return table
