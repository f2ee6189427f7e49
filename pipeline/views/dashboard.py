"""The live page ``/training`` on the Dask dashboard, its JSON, and Prometheus figures on the stock ``/metrics``.

A plugin of the scheduler updates a RunStatus with the events that the client logs. Nothing in Dask is patched.
Training works without bokeh and without prometheus-client; the page or the metrics are then missing.
"""

import html
import json
import logging
from typing import Any

from distributed import Client
from distributed.diagnostics.plugin import SchedulerPlugin

from ..engine.events import Callback, Event
from ..formatting import format_duration, label
from .history import METRIC_LABELS, likelihood_names, model_metrics
from .metrics import metric_families
from .status import RunStatus, event_message

TOPIC = "corpusmill"
COLOURS = {"waiting": "#d8dce3", "running": "#f0b429", "done": "#3b82c4", "cached": "#4aa564"}
CAUSES = {
    "seconds_read": "#8e9aaf",
    "seconds_kernel": "#3b82c4",
    "seconds_write": "#f0b429",
    "seconds_merge": "#b0578d",
}
#: Colours of the measures.
QUALITY = ("#3b82c4", "#b0578d")
#: As many figures beside each other as the window is wide.
GRID = ":host { display: grid !important; grid-template-columns: repeat(auto-fit, minmax(min(100%, 32rem), 1fr)); }"
logger = logging.getLogger(__name__)


def publish(client: Client) -> Callback:
    """Return a subscriber that tells a cluster's scheduler of every event, for its page and metrics."""
    client.register_plugin(TrainingPage())

    def tell(event: Event) -> None:
        client.log_event(TOPIC, event_message(event))

    return tell


class TrainingPage(SchedulerPlugin):
    """Feeds a RunStatus on the scheduler and shows it."""

    name = "corpusmill-training"
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        """Add page, JSON and metrics to the scheduler's web server."""
        self.scheduler, self.status = scheduler, RunStatus()
        scheduler.corpusmill_status = self.status
        if getattr(scheduler, "http_application", None) is None:
            return
        scheduler.http_application.add_handlers(".*$", [("/training.json", _json_handler(), {"page": self})])
        for add in (_add_page, _add_metrics):
            try:
                add(self)
            except ImportError as error:
                logger.info("the live page goes without %s", error.name)

    def log_event(self, topic: str, msg: Any) -> None:
        """Take in what the client logged."""
        if topic == TOPIC:
            self.status.update(msg)

    def shards(self) -> list[str]:
        """States of the epoch's shards, with those that a worker has at hand just now."""
        states = list(self.status.shards)
        for key, task in self.scheduler.tasks.items():
            if task.state == "processing" and str(key).startswith("sweep-"):
                shard = int(str(key).split("-")[1])
                if shard < len(states) and states[shard] == "waiting":
                    states[shard] = "running"
        return states


def _json_handler() -> type:
    from tornado.web import RequestHandler

    class TrainingJSON(RequestHandler):
        def initialize(self, page: TrainingPage) -> None:
            self.page = page

        def get(self) -> None:
            self.set_header("Content-Type", "application/json")
            self.write(json.dumps(self.page.status.as_json() | {"shards": self.page.shards()}))

    return TrainingJSON


def _add_metrics(page: TrainingPage) -> None:
    import prometheus_client

    class Collector:
        def collect(self) -> Any:
            yield from metric_families(page.status)

    page.collector = Collector()  # type: ignore[attr-defined]
    registered = getattr(prometheus_client.REGISTRY, "corpusmill", None)
    if registered is not None:  # another scheduler of this process had one
        prometheus_client.REGISTRY.unregister(registered)
    prometheus_client.REGISTRY.register(page.collector)  # type: ignore[attr-defined]
    prometheus_client.REGISTRY.corpusmill = page.collector  # type: ignore[attr-defined]


def _add_page(page: TrainingPage) -> None:
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables
    from tornado.ioloop import IOLoop

    scheduler = page.scheduler
    variables = template_variables(scheduler)
    if "training" not in variables["pages"]:
        variables["pages"].insert(1, "training")
    application = BokehApplication(
        {"/training": lambda server, extra, doc: _document(page, extra, doc)}, scheduler, "/", variables
    )
    scheduler.http_application.add_application(application)
    application.initialize(IOLoop.current())
    application.start()


def _document(page: TrainingPage, extra: dict[str, Any], doc: Any) -> None:
    from distributed.dashboard.components.scheduler import env

    view = _View(page)
    doc.title = "corpusmill: training"
    doc.add_root(view.root)
    doc.template = env.get_template("simple.html")
    doc.template_variables.update(extra)
    view.update()
    doc.add_periodic_callback(view.update, 500)


class _View:
    """The page's figures and the sources that feed them."""

    def __init__(self, page: TrainingPage):
        from bokeh.layouts import column, row
        from bokeh.models.widgets import Div

        self.page = page
        self.seen = -1.0
        self.head = Div(sizing_mode="stretch_width")
        self.lines = Div(sizing_mode="stretch_width")
        figures = [self._quality(), self._shards(), self._workers(), self._time()]
        pairs = row(*figures, sizing_mode="stretch_width", stylesheets=[GRID])
        self.root = column(self.head, pairs, self.lines, sizing_mode="stretch_width")

    def _figure(self, title: str, **options: Any) -> Any:
        from bokeh.plotting import figure

        defaults: dict[str, Any] = {"height": 260, "sizing_mode": "stretch_width"}
        defaults |= {"toolbar_location": None}
        made = figure(title=title, **(defaults | options))
        made.outline_line_color = None
        made.xgrid.grid_line_color = None
        return made

    def _quality(self) -> Any:
        from bokeh.models import ColumnDataSource

        plot = self._figure("How good the model is, by epoch")
        self.quality = [ColumnDataSource({"x": [], "y": []}) for _ in QUALITY]
        for source, colour in zip(self.quality, QUALITY, strict=True):
            plot.line("x", "y", source=source, color=colour, line_width=2, legend_label=colour)
            plot.scatter("x", "y", source=source, color=colour, size=5, legend_label=colour)
        self.legend = plot.legend[0]
        _legend_on_top(plot, 0.4)
        return plot

    def _shards(self) -> Any:
        from bokeh.models import ColumnDataSource

        plot = self._figure("Shards of this epoch", x_axis_location=None, y_axis_location=None)
        plot.ygrid.grid_line_color = None
        self.map = ColumnDataSource({"x": [], "y": [], "colour": []})
        plot.rect("x", "y", width=0.9, height=0.9, source=self.map, color="colour", line_color=None)
        return plot

    def _workers(self) -> Any:
        from bokeh.models import ColumnDataSource, FactorRange, NumeralTickFormatter

        plot = self._figure("Tokens per second of each worker's time", y_range=FactorRange())
        self.workers = ColumnDataSource({"name": [], "rate": []})
        self.names = plot.y_range
        plot.hbar("name", right="rate", height=0.7, source=self.workers, color="#4aa564")
        plot.xaxis.formatter = NumeralTickFormatter(format="0[.]0a")
        plot.x_range.start = 0
        return plot

    def _time(self) -> Any:
        from bokeh.models import ColumnDataSource

        plot = self._figure("Seconds of all workers, by epoch and cause")
        self.time = ColumnDataSource({"epoch": [], **{c: [] for c in CAUSES}})
        texts = [c.removeprefix("seconds_") for c in CAUSES]
        plot.vbar_stack(
            list(CAUSES), x="epoch", width=0.8, source=self.time, color=list(CAUSES.values()), legend_label=texts
        )
        _legend_on_top(plot, 0.4)
        plot.y_range.start = 0
        return plot

    def update(self) -> None:
        """Bring the figures up to date."""
        status = self.page.status
        self._update_shards()
        if status.updated == self.seen:
            return
        self.seen = status.updated
        self.head.text = _head(status)
        self.lines.text = _lines(status)
        self._update_quality(status)
        rates = {n: w["tokens"] / w["seconds"] for n, w in status.workers.items() if w["seconds"]}
        self.names.factors = sorted(rates)
        self.workers.data = {"name": sorted(rates), "rate": [rates[n] for n in sorted(rates)]}
        rows = status.rows[-60:]
        columns = {c: [r.get(c, 0.0) for r in rows] for c in CAUSES}
        self.time.data = {"epoch": [r["epoch"] for r in rows], **columns}

    def _update_quality(self, status: RunStatus) -> None:
        names = [*likelihood_names(status.rows), *_of_one_scale(model_metrics(status.rows)), "", ""][: len(QUALITY)]
        for name, source, item in zip(names, self.quality, self.legend.items, strict=True):
            rows = [r for r in status.rows if name in r]
            source.data = {"x": [r["epoch"] for r in rows], "y": [r[name] for r in rows]}
            item.label, item.visible = {"value": METRIC_LABELS.get(name) or label(name)}, bool(name)

    def _update_shards(self) -> None:
        states = self.page.shards()
        width = max(1, round((2 * len(states)) ** 0.5))
        self.map.data = {
            "x": [i % width for i in range(len(states))],
            "y": [-(i // width) for i in range(len(states))],
            "colour": [COLOURS[s] for s in states],
        }


def _legend_on_top(plot: Any, room: float) -> None:
    """Put a figure's legend in a line of its own: above the frame it would move the frames of all figures down."""
    plot.legend.orientation, plot.legend.location = "horizontal", "top_right"
    plot.legend.margin, plot.legend.padding, plot.legend.border_line_color = 0, 4, None
    plot.y_range.range_padding = room


_KEY = ", ".join(f"<span style='color: {colour}'>&#9632;</span> {state}" for state, colour in COLOURS.items())


def _head(status: RunStatus) -> str:
    if not status.run:
        return "<p style='font: 16px sans-serif'>No run has begun on this cluster yet.</p>"
    eta = f", about {format_duration(status.eta)} to go" if status.eta is not None else ""
    rate = f"{status.rows[-1]['tokens_per_second'] / 1e6:.2f} M tokens/s" if status.rows else "starting"
    return (
        f"<div style='font: 15px sans-serif; padding: 8px 0'><b>{html.escape(status.algorithm)}</b> "
        f"{html.escape(status.run)}<br>epoch {status.epoch} of {status.epochs}, {status.tokens:,} tokens an epoch, "
        f"{rate}{eta}; {html.escape(status.state)}<br>shards: {_KEY}</div>"
    )


def _of_one_scale(names: list[str]) -> list[str]:
    """Choose a measure and the same on held-out documents, or else the first one."""
    pair = next((n for n in names if f"held_out_{n}" in names), "")
    return [pair, f"held_out_{pair}"] if pair else names[:1]


def _lines(status: RunStatus) -> str:
    rows = "".join(f"<div style='white-space: pre-wrap'>{html.escape(line)}</div>" for line in status.lines)
    return f"<div style='font: 13px monospace; padding: 8px 0'>{rows}</div>"
