"""The Bokeh document of the live page: four figures, a line about the run above, and the model so far below."""

from typing import TYPE_CHECKING, Protocol

from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, FactorRange, NumeralTickFormatter
from bokeh.models.widgets import Div
from bokeh.plotting import figure
from distributed.dashboard.components.scheduler import env
from markupsafe import Markup

from ..formatting import format_duration, label
from .history import METRIC_LABELS, likelihood_names, model_metrics
from .status import RunStatus

if TYPE_CHECKING:
    from bokeh.document import Document

#: Colours of the states of a shard.
SHARD_COLOURS = {"waiting": "#d8dce3", "running": "#f0b429", "done": "#3b82c4", "cached": "#4aa564"}
#: Colours of what the time of an epoch is spent on.
CAUSE_COLOURS = {
    "seconds_read": "#8e9aaf",
    "seconds_kernel": "#3b82c4",
    "seconds_write": "#f0b429",
    "seconds_merge": "#b0578d",
}
#: Colours of the curves of quality, which are two at most.
QUALITY_COLOURS = ("#3b82c4", "#b0578d")
#: Number of epochs whose times are drawn.
MAX_BARS = 60
#: Milliseconds between two updates of the page.
UPDATE_MILLISECONDS = 500
#: As many figures per row as the window is wide enough for.
GRID = ":host { display: grid !important; grid-template-columns: repeat(auto-fit, minmax(min(100%, 32rem), 1fr)); }"


class StatusSource(Protocol):
    """Where the page gets its numbers from: the scheduler's plugin."""

    status: RunStatus

    def shards(self) -> list[str]:
        """Return the states of the epoch's shards."""


def fill_document(source: StatusSource, extra: dict[str, object], document: "Document") -> None:
    """Build the page in a document that a browser opened. ``extra`` has the other values of Dask's template."""
    page = _Page(source)
    document.title = "corpusmill: training"
    document.add_root(page.root)
    document.template = env.get_template("simple.html")
    document.template_variables.update(extra)
    page.update()
    document.add_periodic_callback(page.update, UPDATE_MILLISECONDS)


class _Page:
    """The page's figures and the data sources that feed them."""

    def __init__(self, source: StatusSource):
        self.source = source
        #: Time of the last event shown.
        self.shown = -1.0
        self.head = Div(sizing_mode="stretch_width")
        self.lines = Div(sizing_mode="stretch_width")
        self.shards = ColumnDataSource({"x": [], "y": [], "colour": []})
        self.workers = ColumnDataSource({"name": [], "rate": []})
        self.worker_names = FactorRange()
        self.times = ColumnDataSource({"epoch": [], **{cause: [] for cause in CAUSE_COLOURS}})
        self.curves = [ColumnDataSource({"x": [], "y": []}) for _ in QUALITY_COLOURS]
        quality = self._quality_figure()
        self.legend_items = quality.legend[0].items
        figures = [quality, self._shards_figure(), self._workers_figure(), self._times_figure()]
        grid = row(*figures, sizing_mode="stretch_width", stylesheets=[GRID])
        self.root = column(self.head, grid, self.lines, sizing_mode="stretch_width")

    # --- figures ---

    def _quality_figure(self) -> figure:
        plot = _new_figure("How good the model is, by epoch")
        for source, colour in zip(self.curves, QUALITY_COLOURS, strict=True):
            # Bokeh joins glyphs with the same label into one legend item. The label is replaced by each update.
            plot.line("x", "y", source=source, color=colour, line_width=2, legend_label=colour)
            plot.scatter("x", "y", source=source, color=colour, size=5, legend_label=colour)
        _put_legend_on_top(plot)
        return plot

    def _shards_figure(self) -> figure:
        plot = _new_figure("Shards of this epoch", x_axis_location=None, y_axis_location=None)
        plot.ygrid.grid_line_color = None
        plot.rect("x", "y", width=0.9, height=0.9, source=self.shards, color="colour", line_color=None)
        return plot

    def _workers_figure(self) -> figure:
        plot = _new_figure("Tokens per second of each worker's time", y_range=self.worker_names)
        plot.hbar("name", right="rate", height=0.7, source=self.workers, color="#4aa564")
        plot.xaxis.formatter = NumeralTickFormatter(format="0[.]0a")
        plot.x_range.start = 0
        return plot

    def _times_figure(self) -> figure:
        plot = _new_figure("Seconds of all workers, by epoch and cause")
        plot.vbar_stack(
            list(CAUSE_COLOURS),
            x="epoch",
            width=0.8,
            source=self.times,
            color=list(CAUSE_COLOURS.values()),
            legend_label=[cause.removeprefix("seconds_") for cause in CAUSE_COLOURS],
        )
        _put_legend_on_top(plot)
        plot.y_range.start = 0
        return plot

    # --- updates ---

    def update(self) -> None:
        """Show the current status."""
        self._update_shards()
        status = self.source.status
        # A browser receives every change, so unchanged figures are not sent again.
        if status.updated == self.shown:
            return
        self.shown = status.updated
        self.head.text = head_html(status)
        self.lines.text = lines_html(status)
        self._update_quality(status)
        self._update_workers(status)
        self._update_times(status)

    def _update_shards(self) -> None:
        states = self.source.shards()
        # The figure is about twice as wide as it is high.
        width = max(1, round((2 * len(states)) ** 0.5))
        self.shards.data = {
            "x": [i % width for i in range(len(states))],
            "y": [-(i // width) for i in range(len(states))],
            "colour": [SHARD_COLOURS[state] for state in states],
        }

    def _update_quality(self, status: RunStatus) -> None:
        names = likelihood_names(status.rows) + _comparable_metrics(model_metrics(status.rows))
        for index, (source, item) in enumerate(zip(self.curves, self.legend_items, strict=True)):
            item.visible = index < len(names)
            # Bokeh cannot add curves to a page that is shown, so all exist from the start and some are hidden.
            if not item.visible:
                source.data = {"x": [], "y": []}
                continue
            name = names[index]
            rows = [metrics for metrics in status.rows if name in metrics]
            source.data = {"x": [metrics["epoch"] for metrics in rows], "y": [metrics[name] for metrics in rows]}
            item.label = {"value": METRIC_LABELS.get(name) or label(name)}

    def _update_workers(self, status: RunStatus) -> None:
        names = sorted(name for name, worker in status.workers.items() if worker["seconds"] > 0)
        rates = [status.workers[name]["tokens"] / status.workers[name]["seconds"] for name in names]
        self.worker_names.factors = names
        self.workers.data = {"name": names, "rate": rates}

    def _update_times(self, status: RunStatus) -> None:
        rows = status.rows[-MAX_BARS:]
        data = {cause: [metrics.get(cause, 0.0) for metrics in rows] for cause in CAUSE_COLOURS}
        self.times.data = {"epoch": [metrics["epoch"] for metrics in rows], **data}


def _new_figure(title: str, **options: object) -> figure:
    plot = figure(title=title, height=260, sizing_mode="stretch_width", toolbar_location=None, **options)
    plot.outline_line_color = None
    plot.xgrid.grid_line_color = None
    return plot


def _put_legend_on_top(plot: figure) -> None:
    """Put the legend inside the frame, above the data. Outside, it would make the frame smaller than the others."""
    plot.legend.orientation = "horizontal"
    plot.legend.location = "top_right"
    plot.legend.margin = 0
    plot.legend.padding = 4
    plot.legend.border_line_color = None
    plot.y_range.range_padding = 0.4


def _comparable_metrics(names: list[str]) -> list[str]:
    """Choose metrics that can share an axis: one and the same on held-out documents, or else the first."""
    for name in names:
        if f"held_out_{name}" in names:
            return [name, f"held_out_{name}"]
    return names[:1]


# --- text ---

_SHARD_KEY = Markup(", ").join(
    Markup("<span style='color: {}'>&#9632;</span> {}").format(colour, state) for state, colour in SHARD_COLOURS.items()
)


def head_html(status: RunStatus) -> Markup:
    """Return the line about the run as HTML, with its texts escaped."""
    if not status.run:
        return Markup("<p style='font: 16px sans-serif'>No run has started on this cluster yet.</p>")
    speed = "starting"
    if status.rows:
        speed = f"{status.rows[-1]['tokens_per_second'] / 1e6:.2f} M tokens/s"
    if status.eta is not None:
        speed += f", about {format_duration(status.eta)} to go"
    done = f"epoch {status.epoch} of {status.epochs} complete, {status.done:.0%} of the next one"
    if status.state != "running":
        done = f"epoch {status.epoch} of {status.epochs}"
    progress = f"{done}, {status.tokens:,} tokens per epoch, {speed}; {status.state}"
    return Markup("<div style='font: 15px sans-serif; padding: 8px 0'><b>{}</b> {}<br>{}<br>shards: {}</div>").format(
        status.algorithm, status.run, progress, _SHARD_KEY
    )


def lines_html(status: RunStatus) -> Markup:
    """Return the description of the model as HTML, with its words escaped."""
    rows = Markup("").join(Markup("<div style='white-space: pre-wrap'>{}</div>").format(line) for line in status.lines)
    return Markup("<div style='font: 13px monospace; padding: 8px 0'>{}</div>").format(rows)
