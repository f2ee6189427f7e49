"""Draw the state of a run on a terminal, with rich."""

import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

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

from ...formatting import format_duration, format_number, label
from ...topics import WordGroup
from ...views.history import last_value, metric_points, model_metrics
from ...views.status import RunStatus, WorkerTotals

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
#: The colour of each cause of time in the metrics.
TIME_STYLES = {"read": "blue", "kernel": "green", "write": "yellow", "merge": "magenta"}


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
    for name, title in (("log_likelihood", "training"), ("held_out_log_likelihood", "held out")):
        score = last_value(status.rows, name)
        if score is not None:
            parts.append(f"{title} {score:.4f}")
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
    charts = [Chart(title, values) for title, values in _curves(status.rows).items()]
    if charts:
        parts += [Text(), Columns(charts, padding=(0, 2), expand=True)]
    if status.shards and status.state == "running":
        parts.append(_shards(status.shards))
    seconds = _seconds_by_cause(status.rows)
    if seconds:
        parts.append(_time(seconds))
    rates = _rates_by_worker(status.workers)
    if rates:
        parts.append(_workers(rates))
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
    epochs = max(1, status.epochs)
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(ratio=1)
    table.add_column()
    bar = ProgressBar(total=epochs, completed=status.epochs_done, complete_style="green")
    table.add_row(bar, f"{min(1.0, status.epochs_done / epochs):.0%}")
    return table


# --- curves ---


def _curves(rows: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Return the values to draw by title: the scores of the model, then the speed of training."""
    titles = {"held_out_log_likelihood": "held-out log-likelihood", "log_likelihood": "training log-likelihood"}
    for name in model_metrics(rows):
        titles[name] = label(name)
    titles["tokens_per_second"] = "tokens per second"
    curves: dict[str, list[float]] = {}
    for name, title in titles.items():
        values = [value for _, value in metric_points(rows, name)]
        if values and len(curves) < MAX_CHARTS:
            curves[title] = values
    return curves


class Chart:
    """A curve as a filled area of block characters, below a title with the last value."""

    def __init__(self, title: str, values: Sequence[float]):
        self.title = title
        self.values = values

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the curve in as many columns as there are."""
        yield Text(f"{self.title} {_last_value(self.values)}", style="bold", no_wrap=True, overflow="ellipsis")
        for row in chart_rows(self.values, options.max_width):
            yield Text(row, style="blue", no_wrap=True)
        yield Text("")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Request CHART_WIDTH columns. The layout puts as many charts side by side as fit, and widens them evenly."""
        width = min(CHART_WIDTH, options.max_width)
        return Measurement(width, width)


def _last_value(values: Sequence[float]) -> str:
    if abs(values[-1]) >= 1000:
        return format_number(values[-1])
    return f"{values[-1]:.4f}"


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


def _seconds_by_cause(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the seconds of the last epochs by cause. Causes that took no time are left out."""
    seconds = {}
    for cause in TIME_STYLES:
        spent = sum(row.get(f"seconds_{cause}", 0.0) for row in rows[-RECENT_EPOCHS:])
        if spent > 0:
            seconds[cause] = spent
    return seconds


def _time(seconds: Mapping[str, float]) -> Table:
    """Return one bar per cause."""
    total = sum(seconds.values())
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(ratio=1)
    for cause, spent in seconds.items():
        table.add_row(cause, f"{spent / total:.0%}", Bar(total, 0, spent, color=TIME_STYLES[cause]))
    return _titled("time", table)


def _rates_by_worker(workers: Mapping[str, WorkerTotals]) -> dict[str, float]:
    """Return the tokens per second of the time that each worker computed."""
    return {name: worker["tokens"] / worker["seconds"] for name, worker in workers.items() if worker["seconds"]}


def _workers(rates: Mapping[str, float]) -> Table:
    """Return one bar per worker, for the first MAX_WORKERS of them."""
    best = max(rates.values())
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(max_width=24, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    for name in sorted(rates)[:MAX_WORKERS]:
        rate = f"{format_number(rates[name])}/s"
        table.add_row(Text(_printable(name)), rate, Bar(best or 1.0, 0, rates[name], color="green"))
    return _titled("tokens per second of each worker's time", table)


def _titled(title: str, table: Table) -> Table:
    table.title = title
    table.title_style = "bold"
    table.title_justify = "left"
    return table
