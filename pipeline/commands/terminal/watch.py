"""Show in a terminal a run that another process trains. The RunStatus comes from the run's files
or from a cluster's dashboard.
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
from ...models.registry import estimator_of_run
from ...views.status import RunStatus

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

    def look(self) -> RunStatus:
        """Return what the run looks like now; raise DataError or OSError where there is none."""
        if self.url.startswith(("http://", "https://")):
            return _on_dashboard(self.url)
        run = RunStore(self.url)
        meta, rows = run.meta, run.metrics
        status = RunStatus(run=self.url, algorithm=meta["algorithm"], rows=list(rows))
        status.epoch = int(rows[-1]["epoch"]) if rows else 0
        status.epochs = estimator_of_run(meta).planned_epochs()
        status.tokens = int(rows[-1]["tokens"]) if rows else 0
        if run.is_held:
            status.state = "running"
        elif _is_over(run, status):
            status.state = "finished"
        else:
            status.state = "stopped"
        status.shards = _shards(run, meta)
        status.updated = _modified(run)
        status.lines = self._describe(run, meta, status.epoch)
        return status

    def follow(self) -> Iterator[RunStatus]:
        """Look every second, until the run is over; the last RunStatus is that of its end."""
        while True:
            status = self.look()
            yield status
            if status.state not in ("running", "waiting"):
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


def _on_dashboard(url: str) -> RunStatus:
    root = url.removesuffix("/").removesuffix(".json").removesuffix("/training").removesuffix("/status")
    with urllib.request.urlopen(f"{root}/training.json", timeout=30) as answer:
        told = json.load(answer)
    return RunStatus(**{f.name: told[f.name] for f in fields(RunStatus)})


def _is_over(run: RunStore, status: RunStatus) -> bool:
    """Whether all epochs are there, or a model was saved of fewer: training converged."""
    if status.epoch >= status.epochs:
        return True
    store = run.store.child("model")
    return store.exists("model.json") and store.read_json("model.json")["n_iter"] == status.epoch > 0


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


def line(status: RunStatus) -> str:
    """Say in one line where a run stands."""
    parts = [f"{status.algorithm} {status.run}: {status.state}, epoch {status.epoch} of {status.epochs}"]
    if status.rows:
        parts.append(f"{format_number(status.rows[-1]['tokens_per_second'])} tokens/s")
    for name, text in (("log_likelihood", "training"), ("held_out_log_likelihood", "held out")):
        values = [row[name] for row in status.rows if name in row]
        parts += [f"{text} {with_minus_sign(f'{values[-1]:.4f}')}"] if values else []
    if status.eta is not None:
        parts.append(f"about {format_duration(status.eta)} to go")
    return ", ".join(parts)


def text(status: RunStatus, width: int) -> list[str]:
    """Return the lines of a screen of ``width`` columns, with rich's markup."""
    shown = [*_head(status), _bar(status, width), ""]
    curves = _curves(status)
    columns = max(1, min(len(curves), width // 40))
    each = (width - 4 * (columns - 1)) // columns
    charts = [chart(title, values, each) for title, values in curves.items()]
    for first in range(0, len(charts), columns):
        shown += ["    ".join(parts).rstrip() for parts in zip(*charts[first : first + columns], strict=True)]
    shown += [*_map(status.shards, width), *_split(status.rows, width), *_workers(status, width)]
    if status.lines:
        shown += ["", "[bold]so far[/]", *(_plain(text[:width]) for text in status.lines)]
    return shown


def _plain(text: str) -> str:
    """Keep what comes from the corpus from being read as markup, or as orders to the terminal."""
    from rich.markup import escape

    return escape("".join(c if c.isprintable() else " " for c in text))


def _head(status: RunStatus) -> list[str]:
    if not status.run:
        return ["No run has begun on this cluster yet."]
    ago = f", last change {format_duration(max(0.0, time.time() - status.updated))} ago" if status.updated else ""
    eta = f", about {format_duration(status.eta)} to go" if status.eta is not None else ""
    hue = {"running": "yellow", "stopped": "red"}.get(status.state, "green")
    return [
        f"[bold]{_plain(status.algorithm)}[/] {_plain(status.run)}",
        f"[{hue}]{_plain(status.state)}[/], epoch {status.epoch:,} of {status.epochs:,}{eta}{ago}",
    ]


def _bar(status: RunStatus, width: int) -> str:
    filled = round(width * min(1.0, status.epoch / max(1, status.epochs)))
    return f"[green]{'━' * filled}[/][dim]{'━' * (width - filled)}[/]"


def _curves(status: RunStatus) -> dict[str, list[float]]:
    """Titles and values of what is drawn: how good the model is, as it says it, and how fast it trains."""
    from ...views.history import model_metrics

    names = {"held_out_log_likelihood": "held-out log-likelihood", "log_likelihood": "training log-likelihood"}
    names |= {name: label(name) for name in model_metrics(status.rows)}
    names["tokens_per_second"] = "tokens per second"
    found = {t: [row[n] for row in status.rows if math.isfinite(row.get(n, math.nan))] for n, t in names.items()}
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


def _workers(status: RunStatus, width: int) -> list[str]:
    rates = {name: w["tokens"] / w["seconds"] for name, w in status.workers.items() if w["seconds"]}
    best = max(rates.values(), default=1.0)
    room = max(1, width - 34)
    shown = [
        f"{_plain(name[:20]):<20} {format_number(rate) + '/s':>12} [green]{'█' * max(1, round(room * rate / best))}[/]"
        for name, rate in sorted(rates.items())[:16]
    ]
    return ["", "[bold]tokens per second of each worker's time[/]", *shown] if shown else []


def show_all(statuses: Iterable[RunStatus]) -> None:
    """Show a run as it goes on: in place on a terminal, else a line every few seconds that brought an epoch."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
            for status in statuses:
                screen.update(Text.from_markup("\n".join(text(status, console.width))), refresh=True)
        return
    said, epoch = -QUIET, -1
    for status in statuses:
        if status.state != "running" or (status.epoch != epoch and time.monotonic() - said >= QUIET):
            said, epoch = time.monotonic(), status.epoch
            click.echo(line(status))
