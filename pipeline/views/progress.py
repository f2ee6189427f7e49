"""Progress of ingest and training on stderr: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ...io.messages import pluralize
from ..engine.events import CellsTrained, EpochFinished, Event, IngestProgress, RunFinished, RunStarted, ShardSwept
from ..formatting import format_duration, format_number
from .status import RunStatus

if TYPE_CHECKING:
    from rich.progress import TaskID

#: Minimum number of seconds between two lines about epochs.
LINE_SECONDS = 5.0
#: Seconds without a line after which a line says how much of the epoch is done.
SILENT_SECONDS = 30.0
#: How the progress shows the quality of a model: by the first of these metrics that it has.
QUALITY = {
    "held_out_log_likelihood": "held out {:.3f}",
    "held_out_loss": "held-out loss {:.4f}",
    "held_out_relative_error": "held-out relative error {:.4f}",
    "held_out_divergence": "held-out divergence {:.4g}",
    "log_likelihood": "training {:.3f}",
    "relative_error": "relative error {:.4f}",
    "loss": "loss {:.4f}",
    "error": "error {:.5g}",
}
#: The stages of an ingest, in their order, with what a user reads.
STAGES = {"tokens": "reading text", "words": "counting words", "ids": "numbering words", "chunks": "writing chunks"}
#: Share of the time of an ingest that each stage takes: measured with 400 MB of Wikipedia.
STAGE_SHARES = {"tokens": 0.6, "words": 0.04, "ids": 0.04, "chunks": 0.32}


class Display:
    """A callback of runs, and a listener of ingests. This one shows nothing; others show the progress of both."""

    #: Address of the live page, shown when training starts; empty if there is none.
    page = ""

    def __init__(self) -> None:
        self._ingest = _IngestClock()
        self._status = RunStatus()
        #: The speed of the last epoch and the quality of the model, in words.
        self._note = ""

    def __call__(self, event: Event | IngestProgress) -> None:
        """Show one event of a run, or one step of an ingest."""
        if isinstance(event, IngestProgress):
            self._ingest.add(event)
            self._show_ingest(event)
            return
        self._status.update(event)
        match event:
            case RunStarted():
                # A command may train several models one after another.
                self._note = ""
            case EpochFinished():
                self._note = describe_metrics(event.metrics, self._note, self._status.unit)
        self._show_training(event)

    def _show_ingest(self, progress: IngestProgress) -> None:
        """Show one step of an ingest."""

    def _show_training(self, event: Event) -> None:
        """Show one event of a run."""


@contextmanager
def display(quiet: bool = False) -> Iterator[Display]:
    """Yield a display: bars if stderr is a terminal, else lines; one that shows nothing if ``quiet``."""
    if quiet:
        yield Display()
    elif sys.stderr.isatty():
        bars = BarDisplay()
        with bars.bars:
            yield bars
    else:
        yield ProgressLines()


class _IngestClock:
    """Measures the share of an ingest that is done, and estimates the time that the rest of it takes."""

    def __init__(self) -> None:
        self.share = 1.0
        #: Whether the last step was the first one of an ingest.
        self.begins = False
        #: When this ingest began, and the share that earlier calls had done.
        self._began = (0.0, 0.0)

    def add(self, progress: IngestProgress) -> None:
        """Take one step of an ingest."""
        share = share_of_ingest(progress)
        # An ingest that failed had no last stage. The share of the next one is smaller.
        self.begins = share < self.share
        if self.begins:
            self._began = (time.monotonic(), share)
        self.share = share

    @property
    def left(self) -> str:
        """The remaining time in words; empty if it is not known."""
        began, share_before = self._began
        if self.share <= share_before:
            return ""
        return describe_rest((time.monotonic() - began) * (1 - self.share) / (self.share - share_before))


class ProgressLines(Display):
    """Writes the progress of a training or an ingest to stderr, as the commands do where there is no terminal.

    Each line has the epoch, the speed, the quality of the model and the remaining time. There is at most one line every
    five seconds. An object is a callback for `fit` and `partial_fit` of all models, and for ``progress`` of
    `corpusmill.ingest`. It can be used several times, one after another.

    See Also
    --------
    corpusmill.ingest : Make a corpus of documents.

    Examples
    --------
    >>> from corpusmill import LDA, ProgressLines
    >>> documents = [["boat", "sea"], ["bread", "oven"]] * 10
    >>> model = LDA(2, max_iter=20).fit(documents, callbacks=[ProgressLines()])
    """

    def __init__(self) -> None:
        super().__init__()
        self._stage = ""
        #: Time of the last line.
        self._last_line = 0.0

    def _show_ingest(self, progress: IngestProgress) -> None:
        """Write a line when a stage begins, and from time to time one with the bytes read and the remaining time."""
        begins = self._ingest.begins or progress.stage != self._stage
        self._stage = progress.stage
        if progress.stage not in STAGES or not self._is_due(LINE_SECONDS, always=begins):
            return
        if begins:
            _echo(f"ingest: {STAGES[progress.stage]}")
        else:
            _echo(f"ingest: {describe_stage(progress)}", self._ingest.left)

    def _show_training(self, event: Event) -> None:
        """Write a line about the start, some of the epochs, the last epoch and an early end."""
        status = self._status
        match event:
            case RunStarted():
                self._last_line = time.monotonic() - LINE_SECONDS
                for line in [describe_start(event), *notes_on_start(event, self.page)]:
                    _echo(f"train: {line}")
            case ShardSwept() | CellsTrained() if self._is_due(SILENT_SECONDS):
                _echo(f"train: epoch {status.epoch + 1}/{status.epochs}, {status.done:.0%} done")
            case EpochFinished() if self._is_due(LINE_SECONDS, always=event.epoch == status.epochs):
                _echo(f"train: epoch {event.epoch}/{status.epochs}, {self._note}", describe_rest(status.eta))
            case RunFinished(reason=reason) if reason != "epochs":
                _echo(f"train: {reason} after epoch {event.epoch}")

    def _is_due(self, seconds: float, always: bool = False) -> bool:
        """Return whether to write a line now: at least ``seconds`` after the last one, or ``always``."""
        now = time.monotonic()
        if not always and now - self._last_line < seconds:
            return False
        self._last_line = now
        return True


def _echo(line: str, left: str = "") -> None:
    """Write a line, with the remaining time if it is known."""
    click.echo(f"{line}, about {left}" if left else line, err=True)


class BarDisplay(Display):
    """Draws one bar for an ingest and one for a training, which moves with every shard and every cell."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__()
        self.bars = Progress(
            TextColumn("[bold]{task.description:<6}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[note]}"),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True),
        )
        self._ingest_bar: TaskID | None = None
        self._train_bar: TaskID | None = None

    def _show_ingest(self, progress: IngestProgress) -> None:
        """Move the bar of the ingest."""
        if progress.stage not in STAGES:
            if self._ingest_bar is not None:
                self.bars.update(self._ingest_bar, completed=1.0, note="done", left="")
            return
        if self._ingest_bar is None:
            self._ingest_bar = self.bars.add_task("ingest", total=1.0, note="", left="")
        note = describe_stage(progress)
        self.bars.update(self._ingest_bar, completed=self._ingest.share, note=note, left=self._ingest.left)

    def _show_training(self, event: Event) -> None:
        """Move the bar of the training, and show the metrics of each epoch."""
        if isinstance(event, RunStarted) and event.epoch < event.epochs:
            for line in notes_on_start(event, self.page):
                self.bars.console.print(line, highlight=False)
            self._train_bar = self.bars.add_task("train", total=event.epochs, completed=event.epoch, note="", left="")
        if self._train_bar is None:
            return
        left = describe_rest(self._status.eta)
        match event:
            case ShardSwept() | CellsTrained():
                self.bars.update(self._train_bar, completed=self._status.epochs_done, left=left)
            case EpochFinished():
                # A terminal of 80 columns has no place for the epoch that was evaluated last.
                note = f"epoch {event.epoch}, {self._note.partition(' of epoch ')[0]}"
                self.bars.update(self._train_bar, completed=event.epoch, note=note, left=left)
            case RunFinished(reason=reason) if reason != "epochs":
                self.bars.update(self._train_bar, total=event.epoch, note=f"{reason}, {self._note}", left="")


def share_of_ingest(progress: IngestProgress) -> float:
    """Return the share of an ingest that is done, between 0 and 1."""
    if progress.stage not in STAGES:
        return 1.0
    share_before = 0.0
    for stage, share in STAGE_SHARES.items():
        if stage == progress.stage:
            break
        share_before += share
    done = progress.done / max(1, progress.total)
    if progress.stage == "tokens" and progress.bytes_in_all:
        done = progress.bytes_read / progress.bytes_in_all
    return share_before + STAGE_SHARES[progress.stage] * done


# --- texts ---


def describe_stage(progress: IngestProgress) -> str:
    """Describe a stage of an ingest, with the megabytes that have been read if the size of the source is known."""
    text = STAGES[progress.stage]
    if progress.stage != "tokens" or not progress.bytes_in_all:
        return text
    return f"{text}, {progress.bytes_read / 1e6:,.0f} of {progress.bytes_in_all / 1e6:,.0f} MB"


def describe_rest(seconds: float | None) -> str:
    """Describe the remaining time; return nothing if it is not known, or if nothing remains."""
    return f"{format_duration(seconds)} left" if seconds else ""


def describe_start(event: RunStarted) -> str:
    """Describe the run that starts: the number of epochs, and the size of the data."""
    if event.epoch >= event.epochs:
        return f"{pluralize(event.epoch, 'epoch')} already complete"
    if event.epoch > 0:
        epochs = f"resuming after epoch {event.epoch} of {event.epochs}"
    else:
        epochs = pluralize(event.epochs, "epoch")
    return f"{epochs} over {event.tokens:,} {event.unit} in {pluralize(event.shards, 'shard')}"


def notes_on_start(event: RunStarted, page: str) -> list[str]:
    """Return what a user should read when training starts, such as the live page's address."""
    if event.epoch >= event.epochs:
        return []
    notes = []
    if event.compiles:
        notes.append("compiling kernels first takes about 10 s; later trainings find them on disk")
    if event.idle:
        notes.append(event.idle)
    if event.devices:
        notes.append(event.devices)
    if page:
        notes.append(f"live page {page}")
    return notes


def describe_metrics(metrics: Mapping[str, float], previous: str = "", unit: str = "tokens") -> str:
    """Describe the speed of an epoch, in ``unit`` per second, and the quality of the model.

    ``previous``: the description of the epoch before, whose quality is repeated if this epoch was not evaluated. It
    then says to which epoch it belongs.
    """
    speed = f"{format_number(metrics['tokens_per_second'])} {unit}/s"
    _, separator, quality = previous.partition(", ")
    for name, form in QUALITY.items():
        # Between two evaluations on held-out documents, the last one is more interesting than the training error.
        if name in metrics and (name.startswith("held_out") or "held" not in quality):
            return f"{speed}, {form.format(metrics[name])}"
    if quality and " of epoch " not in quality:
        quality += f" of epoch {metrics['epoch'] - 1:.0f}"
    return f"{speed}{separator}{quality}"
