"""How far ingest and training are: a bar on a terminal, plain lines elsewhere. Both listen to events and use stderr."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ..engine.events import EpochFinished, Event, RunFinished, RunStarted, ShardSwept
from ..formatting import format_number, pluralize, with_minus_sign

#: Seconds between plain lines.
QUIET = 5.0
STAGES = {"tokens": "reading text", "words": "counting words", "ids": "numbering words", "chunks": "writing chunks"}


class Display(ABC):
    """Shows what is going on."""

    #: Address of the live page, said when training begins.
    page = ""

    @abstractmethod
    def ingest(self, progress: Any) -> None:
        """Take in one IngestProgress."""

    @abstractmethod
    def train(self, event: Event) -> None:
        """Take in one event of a run."""


@contextmanager
def display(quiet: bool = False) -> Iterator[Display]:
    """Yield a display: a bar if stderr is a terminal, else lines; nothing if ``quiet``."""
    if quiet:
        yield Nothing()
    elif sys.stderr.isatty():
        bar = Bar()
        with bar.bars:
            yield bar
    else:
        yield Lines()


class Nothing(Display):
    """Shows nothing."""

    def ingest(self, progress: Any) -> None:
        """Ignore it."""

    def train(self, event: Event) -> None:
        """Ignore it."""


class Lines(Display):
    """A line for each stage of ingest, and one for an epoch every few seconds."""

    def __init__(self) -> None:
        self._stage, self._said = "", 0.0
        self._epochs = 0

    def ingest(self, progress: Any) -> None:
        """Say when a stage begins."""
        if progress.stage != self._stage and progress.stage in STAGES:
            self._stage = progress.stage
            click.echo(f"ingest: {STAGES[progress.stage]}", err=True)

    def train(self, event: Event) -> None:
        """Say how an epoch went, if some time has passed since the last line or it is the last one."""
        if isinstance(event, RunStarted):
            self._epochs = event.epochs
            click.echo(f"train: {started(event)}", err=True)
            if event.idle and event.epoch < event.epochs:
                click.echo(f"train: {event.idle}", err=True)
            if self.page and event.epoch < event.epochs:
                click.echo(f"train: live page {self.page}", err=True)
        elif isinstance(event, EpochFinished):
            now = time.monotonic()
            if now - self._said >= QUIET or event.epoch == self._epochs:
                self._said = now
                click.echo(f"train: epoch {event.epoch}/{self._epochs}, {figures(event.metrics)}", err=True)
        elif isinstance(event, RunFinished) and event.reason != "epochs":
            click.echo(f"train: {event.reason} after epoch {event.epoch}", err=True)


class Bar(Display):
    """One bar for the ingest, one for the epochs, which also moves by shards."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.bars = Progress(
            TextColumn("[bold]{task.description:<9}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=Console(stderr=True),
        )
        self._ingest: Any = None
        self._train: Any = None
        self._tokens = 1
        self._note = ""

    def ingest(self, progress: Any) -> None:
        """Move the bar: every stage is a quarter of it."""
        if progress.stage not in STAGES:
            if self._ingest is not None:
                self.bars.update(self._ingest, completed=len(STAGES), note="done")
            return
        if self._ingest is None:
            self._ingest = self.bars.add_task("ingest", total=len(STAGES), note="")
        before = list(STAGES).index(progress.stage)
        share = progress.done / progress.total if progress.total else 0.0
        self.bars.update(self._ingest, completed=before + share, note=STAGES[progress.stage])

    def train(self, event: Event) -> None:
        """Move the bar with every shard, and set the figures with every epoch."""
        if isinstance(event, RunStarted):
            self._tokens = max(1, event.tokens)
            if event.epoch < event.epochs:
                for line in filter(None, (event.idle, self.page and f"live page {self.page}")):
                    self.bars.console.print(line, highlight=False)
                self._train = self.bars.add_task("train", total=event.epochs, completed=event.epoch, note="")
        elif self._train is not None and isinstance(event, ShardSwept):
            self.bars.advance(self._train, event.tokens / self._tokens)
        elif self._train is not None and isinstance(event, EpochFinished):
            self._note = figures(event.metrics, self._note)
            self.bars.update(self._train, completed=event.epoch, note=f"epoch {event.epoch}, {self._note}")
        elif self._train is not None and isinstance(event, RunFinished) and event.reason != "epochs":
            self.bars.update(self._train, total=event.epoch, note=f"{event.reason}, {self._note}")


def started(event: RunStarted) -> str:
    """Say what begins."""
    if event.epoch >= event.epochs:
        return f"all {event.epoch} epochs are there already"
    where = f"goes on after epoch {event.epoch} of {event.epochs}" if event.epoch else pluralize(event.epochs, "epoch")
    return f"{where} over {event.tokens:,} tokens in {pluralize(event.shards, 'shard')}"


def figures(metrics: dict[str, float], before: str = "") -> str:
    """Say how fast an epoch was and how good the model is; an epoch without a score repeats the one ``before``."""
    rate = f"{format_number(metrics['tokens_per_second'])} tokens/s"
    score = metrics.get("held_out_log_likelihood")
    if score is not None:
        return f"{rate}, held out {with_minus_sign(f'{score:.3f}')} nat/token"
    kept = before.partition(", ")[2]
    return f"{rate}, {kept}" if kept else rate
