"""The live page ``/training`` on the Dask dashboard, the same as JSON, and Prometheus gauges on ``/metrics``.

The client logs every event of a run as a Dask event. A plugin of the scheduler receives these and keeps a RunStatus,
which the page, the JSON and the gauges show. Nothing in Dask is patched. Training works without bokeh and without
prometheus-client; the page or the gauges are then missing.
"""

import json
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from distributed import Client, Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from ..engine.cluster.plugins import Leases
from ..engine.events import Callback, Event
from .metrics import metric_families
from .status import EventMessage, RunStatus, event_from_message, event_message

if TYPE_CHECKING:
    from prometheus_client import Metric

#: Topic of the Dask events.
TOPIC = "corpusmill"
logger = logging.getLogger(__name__)


def publish(client: Client) -> Callback:
    """Add the page to a cluster's dashboard; return a callback that sends it every event of a run."""
    client.register_plugin(TrainingPage())

    def send(event: Event) -> None:
        client.log_event(TOPIC, event_message(event))

    return send


class TrainingPage(SchedulerPlugin):
    """Keeps the status of the current run on the scheduler, and adds page, JSON and gauges to its web server."""

    name = "corpusmill-training"
    # A second client that registers the plugin gets the page that exists.
    idempotent = True
    scheduler: Scheduler
    status: RunStatus

    async def start(self, scheduler: Scheduler) -> None:
        """Add page, JSON and gauges. A scheduler without a web server keeps the status only."""
        self.scheduler = scheduler
        self.status = RunStatus()
        if getattr(scheduler, "http_application", None) is None:
            return
        scheduler.http_application.add_handlers(".*$", [("/training.json", _json_handler(), {"page": self})])
        for add in (_add_page, _add_gauges):
            try:
                add(self)
            except ImportError as error:
                logger.info("the dashboard does without %s", error.name)

    def log_event(self, topic: str, msg: EventMessage) -> None:
        """Apply an event that a client logged."""
        if topic != TOPIC:
            return
        event = event_from_message(msg)
        if event is not None:
            self.status.update(event, msg["time"])

    def shards(self) -> list[str]:
        """Return the states of the epoch's shards; those that a worker processes right now are "running"."""
        states = list(self.status.shards)
        leases = self.scheduler.plugins.get(Leases.name)
        if isinstance(leases, Leases):
            for shard in leases.taken():
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


class _Collector:
    """Yields the gauges of one page. Prometheus keeps one collector per process, that of the latest scheduler."""

    registered: ClassVar["_Collector | None"] = None

    def __init__(self, page: TrainingPage):
        self.page = page

    def collect(self) -> "Iterator[Metric]":
        yield from metric_families(self.page.status)


def _add_gauges(page: TrainingPage) -> None:
    from prometheus_client import REGISTRY

    if _Collector.registered is not None:
        REGISTRY.unregister(_Collector.registered)
    _Collector.registered = _Collector(page)
    REGISTRY.register(_Collector.registered)


def _add_page(page: TrainingPage) -> None:
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables
    from tornado.ioloop import IOLoop

    from .training_page import fill_document

    variables = template_variables(page.scheduler)
    # The list is Dask's own, and one scheduler may serve several runs.
    if "training" not in variables["pages"]:
        variables["pages"].insert(1, "training")
    pages = {"/training": lambda server, extra, document: fill_document(page, extra, document)}
    application = BokehApplication(pages, page.scheduler, "/", variables)
    page.scheduler.http_application.add_application(application)
    application.initialize(IOLoop.current())
    application.start()
