"""The live page ``/training`` on the Dask dashboard, the same as JSON, and Prometheus gauges on ``/metrics``.

The client logs every event of a run as a Dask event. A plugin of the scheduler receives these and keeps a RunStatus for
each client that trains, which the page, the JSON and the gauges show. Nothing in Dask is patched. Without bokeh, the
page is not in the menu of Dask's own pages. Without prometheus-client, there are no gauges.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from distributed import Client, Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from ...io.stores.store import JsonObject
from ..engine.cluster.leases import Leases
from ..engine.events import Event, RunFailed, RunFinished, RunStarted
from .pages.live import render_content, render_frame
from .prometheus import metric_families_of_runs
from .status import RunStatus, event_from_message, event_message

if TYPE_CHECKING:
    from prometheus_client import Metric

#: Topic of the Dask events.
TOPIC = "corpusmill"
#: Most seconds that the end of a run waits until its events have arrived. The scheduler may be lost.
DELIVERY_SECONDS = 10.0
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
        self._waiting: list[JsonObject] = []
        self._sending: asyncio.Task[None] | None = None

    def __call__(self, event: Event) -> None:
        """Send an event to the page."""
        self._loop.add_callback(self._add, event_message(event))
        if isinstance(event, RunFinished | RunFailed):
            # The page is complete when training ends, and the process may exit then.
            self._client.sync(self.finish)

    def _add(self, message: JsonObject) -> None:
        self._waiting.append(message)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        # If the scheduler is lost or the client is closed, which is a RuntimeError, training itself reports it.
        with contextlib.suppress(OSError, RuntimeError):
            while self._waiting:
                report = {"client": self._client.id, "events": self._waiting}
                self._waiting = []
                await self._scheduler.log_event(topic=TOPIC, msg=report)

    async def finish(self) -> None:
        """Wait until all events are sent, or for `DELIVERY_SECONDS`."""
        if self._sending is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._sending), DELIVERY_SECONDS)


class TrainingPage(SchedulerPlugin):
    """Keeps the status of runs on the scheduler, and adds page, JSON and gauges to its web server.

    Several clients may train at the same time. An ended run is kept until another one starts.
    """

    name = "corpusmill-training"
    # A second client that registers the plugin gets the page that exists.
    idempotent = True
    scheduler: Scheduler
    #: By the id of the client that trains. The run that started last is at the end.
    runs: dict[str, RunStatus]
    #: The page that Prometheus collects. It keeps one collector per process, that of the latest scheduler.
    collected: ClassVar["TrainingPage | None"] = None

    async def start(self, scheduler: Scheduler) -> None:
        """Add page, JSON and gauges. A scheduler without a web server keeps the status only."""
        self.scheduler = scheduler
        self.runs = {}
        if getattr(scheduler, "http_application", None) is None:
            return
        # Below any path: dask scheduler --dashboard-prefix puts Dask's pages, and its link to this one, below a prefix.
        handlers = [
            (r"(?:/.*)?/training", _handler("text/html", lambda run: render_frame())),
            (r"(?:/.*)?/training/content", _handler("text/html", self.content)),
            (r"(?:/.*)?/training\.json", _handler("application/json", self.as_json)),
        ]
        scheduler.http_application.add_handlers(".*$", handlers)
        for add in (_add_link, _add_gauges):
            try:
                add(self)
            except ImportError as error:
                logger.info("the dashboard does without %s", error.name)

    def content(self, run: str) -> str:
        """Return the HTML that the live page shows: of the run with this name, by default of the latest run."""
        client, status = self._find(run)
        workers = sorted(self.scheduler.workers.values(), key=lambda worker: str(worker.name))
        others = [other.run for other in self.runs.values() if other is not status]
        return render_content(status, self.shards(client, status), workers, others)

    def as_json(self, run: str) -> str:
        """Return the status of the run with this name as JSON, by default that of the latest run."""
        client, status = self._find(run)
        return json.dumps(status.as_json() | {"shards": self.shards(client, status)})

    def collect(self) -> "Iterator[Metric]":
        """Yield the gauges of all runs."""
        yield from metric_families_of_runs(self.runs.values())

    def _find(self, run: str) -> tuple[str, RunStatus]:
        """Return the client and the status of the run with this name, by default of the latest one that goes on."""
        chosen = ("", RunStatus())
        for client, status in self.runs.items():
            if status.run == run:
                return client, status
            if status.state == "running" or chosen[1].state != "running":
                chosen = (client, status)
        return chosen

    def remove_worker(self, scheduler: Scheduler, worker: str, **details: object) -> None:
        """Count a worker that leaves while runs train."""
        for status in self.runs.values():
            if status.state == "running":
                status.workers_lost += 1

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Note that a client has left, or was killed, while it trained."""
        status = self.runs.get(client)
        if status is not None and status.state == "running":
            status.state = "stopped"

    def log_event(self, topic: str, msg: JsonObject) -> None:
        """Apply events that a client logged."""
        if topic != TOPIC:
            return
        client = msg["client"]
        for message in msg["events"]:
            event = event_from_message(message)
            if isinstance(event, RunStarted):
                # The scheduler may not have noticed yet that an earlier client of the same run was killed.
                self.runs = {
                    other: status
                    for other, status in self.runs.items()
                    if other != client and status.run != event.run and status.state == "running"
                }
                self.runs[client] = RunStatus()
            if event is not None and client in self.runs:
                self.runs[client].update(event, message["time"])

    def shards(self, client: str, status: RunStatus) -> list[str]:
        """Return the states of the epoch's shards; those that a worker processes right now are "running"."""
        states = list(status.shards)
        leases = self.scheduler.plugins.get(Leases.name)
        if isinstance(leases, Leases):
            for shard in leases.taken(client):
                if shard < len(states) and states[shard] == "waiting":
                    states[shard] = "running"
        return states


def _handler(content_type: str, render: Callable[[str], str]) -> type:
    """Return a handler of web requests that answers with what ``render`` returns for the run in the query, or ""."""
    from tornado.web import RequestHandler

    class Handler(RequestHandler):
        def get(self) -> None:
            self.set_header("Content-Type", f"{content_type}; charset=utf-8")
            self.write(render(self.get_query_argument("run", "")))

    return Handler


def _add_gauges(page: TrainingPage) -> None:
    from prometheus_client import REGISTRY

    if TrainingPage.collected is not None:
        REGISTRY.unregister(TrainingPage.collected)
    TrainingPage.collected = page
    REGISTRY.register(page)


def _add_link(page: TrainingPage) -> None:
    """Link to the page in the menu of Dask's dashboard, which needs bokeh."""
    from distributed.dashboard.scheduler import template_variables

    # The list is Dask's own, and one scheduler may serve several runs.
    pages = template_variables(page.scheduler)["pages"]
    if "training" not in pages:
        pages.insert(1, "training")
