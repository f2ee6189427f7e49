"""A run as a terminal shows it while another process trains it: the Story of the live page, told from the run's files
or by a cluster's dashboard.
"""

import contextlib
import json
import math
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import click
import numpy as np

from ....io.stores.open import open_data
from ....io.stores.store import DataError
from ...engine.run import RunStore
from ...formatting import format_duration, format_number, label, with_minus_sign
from ...models.base.text import estimator_of_run
from ...views.status import Story

#: Seconds between two looks at a run, and between the lines where there is no terminal.
PAUSE, QUIET = 1.0, 5.0
#: What fills a cell of a chart from below, in eighths.
EIGHTHS = " ▁▂▃▄▅▆▇█"
CAUSES = {"read": "blue", "kernel": "green", "write": "yellow", "merge": "magenta"}
MARKS = {"waiting": "[dim]□[/]", "running": "[yellow]◧[/]", "done": "[blue]■[/]", "cached": "[green]■[/]"}


class Watch:
    """Looks at one run again and again. ``url``: a run's folder or URL, or the address of a dashboard (http)."""

    def __init__(self, url: str):
        self.url = url
        self._lines: list[str] = []
        self._told, self._patience = 0, 0.0

    def look(self) -> Story:
        """Return what the run looks like now; raise DataError or OSError where there is none."""
        if self.url.startswith(("http://", "https://")):
            return _on_dashboard(self.url)
        run = RunStore(self.url)
        meta, rows = run.meta, run.metrics
        story = Story(run=self.url, algorithm=meta["algorithm"], rows=list(rows))
        story.epoch = int(rows[-1]["epoch"]) if rows else 0
        story.epochs = estimator_of_run(meta).planned_epochs()
        story.tokens = int(rows[-1]["tokens"]) if rows else 0
        story.state = "running" if run.is_held else "finished" if _is_over(run, story) else "stopped"
        story.shards = _shards(run, meta)
        story.updated = _modified(run)
        story.lines = self._describe(run, meta, story.epoch)
        return story

    def follow(self) -> Iterator[Story]:
        """Look every second, until the run is over; the last Story is that of its end."""
        while True:
            story = self.look()
            yield story
            if story.state not in ("running", "waiting"):
                return
            time.sleep(PAUSE)

    def _describe(self, run: RunStore, meta: dict[str, Any], epoch: int) -> list[str]:
        # A large model takes long to read: that may cost a tenth of the time.
        if epoch != self._told and time.monotonic() >= self._patience:
            began = time.monotonic()
            with contextlib.suppress(DataError):
                estimator = estimator_of_run(meta).from_run(run.url)
                data = open_data(meta["data"]["url"], meta["data"]["part"] or "train")
                self._lines = estimator.algorithm(data).describe(estimator.model_, data)
            self._told, self._patience = epoch, time.monotonic() + 10 * (time.monotonic() - began)
        return self._lines


def _on_dashboard(url: str) -> Story:
    root = url.removesuffix("/").removesuffix(".json").removesuffix("/training").removesuffix("/status")
    with urllib.request.urlopen(f"{root}/training.json", timeout=30) as answer:
        told = json.load(answer)
    return Story(**{f.name: told[f.name] for f in fields(Story)})


def _is_over(run: RunStore, story: Story) -> bool:
    """Whether all epochs are there, or a model was saved of fewer: training converged."""
    if story.epoch >= story.epochs:
        return True
    store = run.store.child("model")
    return store.exists("model.json") and store.read_json("model.json")["n_iter"] == story.epoch > 0


def _shards(run: RunStore, meta: dict[str, Any]) -> list[str]:
    """States of the shards, as the chunk states of the step in work tell them; none where a model keeps no state."""
    done = {int(name) for name in run.store.names(f"epochs/{run.step + 1:06d}/state")}
    if not done and not run.store.exists(f"epochs/{run.step:06d}/state"):
        return []
    return ["done" if done.issuperset(chunks) else "waiting" for chunks in meta["shards"]]


def _modified(run: RunStore) -> float:
    try:
        return run.store.fs.modified(run.store.where("HEAD")).timestamp()
    except FileNotFoundError:
        return 0.0


# --- what it looks like ---


def line(story: Story) -> str:
    """Say in one line where a run stands."""
    parts = [f"{story.algorithm} {story.run}: {story.state}, epoch {story.epoch} of {story.epochs}"]
    if story.rows:
        parts.append(f"{format_number(story.rows[-1]['tokens_per_second'])} tokens/s")
    for name, text in (("log_likelihood", "training"), ("held_out_log_likelihood", "held out")):
        values = [row[name] for row in story.rows if name in row]
        parts += [f"{text} {with_minus_sign(f'{values[-1]:.4f}')}"] if values else []
    if story.eta is not None:
        parts.append(f"about {format_duration(story.eta)} to go")
    return ", ".join(parts)


def text(story: Story, width: int) -> list[str]:
    """Return the lines of a screen of ``width`` columns, with rich's markup."""
    shown = [*_head(story), _bar(story, width), ""]
    curves = _curves(story)
    columns = max(1, min(len(curves), width // 40))
    each = (width - 4 * (columns - 1)) // columns
    charts = [chart(title, values, each) for title, values in curves.items()]
    for first in range(0, len(charts), columns):
        shown += ["    ".join(parts).rstrip() for parts in zip(*charts[first : first + columns], strict=True)]
    shown += [*_map(story.shards, width), *_split(story.rows, width), *_workers(story, width)]
    if story.lines:
        shown += ["", "[bold]so far[/]", *(_plain(text[:width]) for text in story.lines)]
    return shown


def _plain(text: str) -> str:
    """Keep what comes from the corpus from being read as markup, or as orders to the terminal."""
    from rich.markup import escape

    return escape("".join(c if c.isprintable() else " " for c in text))


def _head(story: Story) -> list[str]:
    if not story.run:
        return ["No run has begun on this cluster yet."]
    ago = f", last change {format_duration(max(0.0, time.time() - story.updated))} ago" if story.updated else ""
    eta = f", about {format_duration(story.eta)} to go" if story.eta is not None else ""
    hue = {"running": "yellow", "stopped": "red"}.get(story.state, "green")
    return [
        f"[bold]{_plain(story.algorithm)}[/] {_plain(story.run)}",
        f"[{hue}]{_plain(story.state)}[/], epoch {story.epoch:,} of {story.epochs:,}{eta}{ago}",
    ]


def _bar(story: Story, width: int) -> str:
    filled = round(width * min(1.0, story.epoch / max(1, story.epochs)))
    return f"[green]{'━' * filled}[/][dim]{'━' * (width - filled)}[/]"


def _curves(story: Story) -> dict[str, list[float]]:
    """Titles and values of what is drawn: how good the model is, as it says it, and how fast it trains."""
    from ...views.report.render import other_names

    names = {"held_out_log_likelihood": "held-out log-likelihood", "log_likelihood": "training log-likelihood"}
    names |= {name: label(name) for name in other_names(story.rows)}
    names["tokens_per_second"] = "tokens per second"
    found = {t: [row[n] for row in story.rows if math.isfinite(row.get(n, math.nan))] for n, t in names.items()}
    return {title: values for title, values in list(found.items())[:4] if values}


def chart(title: str, values: Sequence[float], width: int, height: int = 4) -> list[str]:
    """Return ``height + 2`` lines of ``width`` columns: a title with the last value, the values as a filled curve."""
    last = format_number(values[-1]) if abs(values[-1]) >= 1000 else f"{values[-1]:.4f}"
    heading = f"{title} {with_minus_sign(last)}"[:width]
    points = np.interp(np.linspace(0, len(values) - 1, width), np.arange(len(values)), values)
    low, high = points.min(), points.max()
    shares = (points - low) / (high - low) if high > low else np.full(width, 0.5)
    # The lowest value still shows a little.
    levels = [1 + round((height * 8 - 1) * share) for share in shares]
    rows = ["".join(EIGHTHS[min(8, max(0, n - 8 * r))] for n in levels) for r in reversed(range(height))]
    return [f"[bold]{heading}[/]{' ' * (width - len(heading))}", *(f"[blue]{row}[/]" for row in rows), " " * width]


def _map(shards: Sequence[str], width: int) -> list[str]:
    if not shards:
        return []
    done = sum(state in ("done", "cached") for state in shards)
    marks = [MARKS[state] for state in shards]
    rows = ["".join(marks[first : first + width]) for first in range(0, len(marks), width)]
    return [f"[bold]shards of this epoch[/] {done:,} of {len(shards):,}", *rows, ""]


def _split(rows: Sequence[dict[str, float]], width: int) -> list[str]:
    sums = {cause: sum(row.get(f"seconds_{cause}", 0.0) for row in rows[-60:]) for cause in CAUSES}
    total = sum(sums.values())
    if not total:
        return []
    ends = np.rint(np.cumsum([0.0, *sums.values()]) * width / total).astype(int)
    bar = "".join(f"[{hue}]{'█' * n}[/]" for hue, n in zip(CAUSES.values(), np.diff(ends), strict=True))
    legend = "  ".join(f"[{CAUSES[c]}]■[/] {c} {s / total:.0%}" for c, s in sums.items())
    return ["[bold]time[/]", bar, legend]


def _workers(story: Story, width: int) -> list[str]:
    rates = {name: w["tokens"] / w["seconds"] for name, w in story.workers.items() if w["seconds"]}
    best = max(rates.values(), default=1.0)
    room = max(1, width - 34)
    shown = [
        f"{_plain(name[:20]):<20} {format_number(rate) + '/s':>12} [green]{'█' * max(1, round(room * rate / best))}[/]"
        for name, rate in sorted(rates.items())[:16]
    ]
    return ["", "[bold]tokens per second of each worker's time[/]", *shown] if shown else []


def show_all(stories: Iterable[Story]) -> None:
    """Show a run as it goes on: in place on a terminal, else a line every few seconds that brought an epoch."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
            for story in stories:
                screen.update(Text.from_markup("\n".join(text(story, console.width))), refresh=True)
        return
    said, epoch = -QUIET, -1
    for story in stories:
        if story.state != "running" or (story.epoch != epoch and time.monotonic() - said >= QUIET):
            said, epoch = time.monotonic(), story.epoch
            click.echo(line(story))
