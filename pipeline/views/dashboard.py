"""The live page ``/training`` on the Dask dashboard, the same as JSON, and Prometheus gauges on ``/metrics``.

The client logs every event of a run as a Dask event. A plugin of the scheduler receives these and keeps a RunStatus,
which the page, the JSON and the gauges show. Nothing in Dask is patched. Without bokeh, the page is not in the menu of
Dask's own pages. Without prometheus-client, there are no gauges.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from distributed import Client, Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from ..engine.cluster.plugins import Leases
from ..engine.events import Event, RunFinished
from .pages.live import WorkerMemory, render_content, render_frame
from .prometheus import metric_families
from .status import EventMessage, RunStatus, event_from_message, event_message

if TYPE_CHECKING:
    from prometheus_client import Metric

#: Topic of the Dask events.
TOPIC = "corpusmill"
logger = logging.getLogger(__name__)


def publish(client: Client) -> "Publisher":
    """Add the page to a cluster's dashboard; return a callback that sends it every event of a run."""
    client.register_plugin(TrainingPage())
    return Publisher(client)


class Publisher:
    """Sends events to the scheduler while training continues.

    Each message takes a round trip, so the events that arrive during one travel together in the next.
    """

    def __init__(self, client: Client):
        assert client.loop is not None and client.scheduler is not None, "the client is closed"
        self._client = client
        self._loop = client.loop
        self._scheduler = client.scheduler
        # Only the client's event loop uses these.
        self._waiting: list[EventMessage] = []
        self._sending: asyncio.Task[None] | None = None

    def __call__(self, event: Event) -> None:
        self._loop.add_callback(self._add, event_message(event))
        if isinstance(event, RunFinished):
            # The page is complete when training ends.
            self._client.sync(self.finish)

    def _add(self, message: EventMessage) -> None:
        self._waiting.append(message)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        # If the scheduler is lost, training itself reports it.
        with contextlib.suppress(OSError):
            while self._waiting:
                messages = self._waiting
                self._waiting = []
                await self._scheduler.log_event(topic=TOPIC, msg=messages)

    async def finish(self) -> None:
        """Wait until all events are sent."""
        if self._sending is not None:
            await self._sending


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
        handlers = [
            ("/training", _handler("text/html", render_frame)),
            ("/training/content", _handler("text/html", self.content)),
            ("/training.json", _handler("application/json", self.as_json)),
        ]
        scheduler.http_application.add_handlers(".*$", handlers)
        for add in (_add_link, _add_gauges):
            try:
                add(self)
            except ImportError as error:
                logger.info("the dashboard does without %s", error.name)

    def content(self) -> str:
        """Return the data of the live page."""
        workers = [
            WorkerMemory(str(worker.name), address, int(worker.metrics.get("memory", 0)), int(worker.memory_limit))
            for address, worker in self.scheduler.workers.items()
        ]
        return render_content(self.status, self.shards(), sorted(workers, key=lambda worker: worker.name))

    def as_json(self) -> str:
        """Return the status as JSON."""
        return json.dumps(self.status.as_json() | {"shards": self.shards()})

    def remove_worker(self, scheduler: Scheduler, worker: str, **details: object) -> None:
        """Count a worker that leaves while a run trains."""
        if self.status.state == "running":
            self.status.workers_lost += 1

    def log_event(self, topic: str, msg: list[EventMessage]) -> None:
        """Apply events that a client logged."""
        if topic != TOPIC:
            return
        for message in msg:
            event = event_from_message(message)
            if event is not None:
                self.status.update(event, message["time"])

    def shards(self) -> list[str]:
        """Return the states of the epoch's shards; those that a worker processes right now are "running"."""
        states = list(self.status.shards)
        leases = self.scheduler.plugins.get(Leases.name)
        if isinstance(leases, Leases):
            for shard in leases.taken():
                if shard < len(states) and states[shard] == "waiting":
                    states[shard] = "running"
        return states


def _handler(content_type: str, render: Callable[[], str]) -> type:
    """Return a handler of web requests that answers with what ``render`` returns."""
    from tornado.web import RequestHandler

    class Handler(RequestHandler):
        def get(self) -> None:
            self.set_header("Content-Type", f"{content_type}; charset=utf-8")
            self.write(render())

    return Handler


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


def _add_link(page: TrainingPage) -> None:
    """Link to the page in the menu of Dask's dashboard, which needs bokeh."""
    from distributed.dashboard.scheduler import template_variables

    # The list is Dask's own, and one scheduler may serve several runs.
    pages = template_variables(page.scheduler)["pages"]
    if "training" not in pages:
        pages.insert(1, "training")
