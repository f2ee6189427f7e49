"""A small web server for one user of this machine.

Other programs and other users of this machine can reach its port, and so can pages of other sites in the user's
browser. Every path therefore begins with a secret token, and the header Host must name this server, which stops
rebinding of DNS names. Answers are JSON or the page itself, whose Content-Security-Policy allows no other script.
"""

import asyncio
import hmac
import inspect
import json
import secrets
from collections.abc import Callable, Mapping
from functools import partial

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from ...io.errors import DataError
from ...io.stores.store import JsonObject
from .model import Explorer
from .page import Page

ADDRESS = "127.0.0.1"
#: Most bytes of a request: a name and its topic.
MAX_BODY = 10_000


def answer(explorer: Explorer, name: str, arguments: Mapping[str, str]) -> JsonObject:
    """Return the answer to one question; raise DataError for an unknown question or a bad argument."""
    method: Callable[..., JsonObject] | None = getattr(explorer, f"answer_{name}", None)
    if method is None:
        raise DataError(f"there is no question {name!r}")
    values: dict[str, str | int] = {}
    for parameter in inspect.signature(method).parameters.values():
        text = arguments.get(parameter.name)
        if text is None:
            raise DataError(f"the argument {parameter.name!r} is missing")
        values[parameter.name] = text
        if parameter.annotation is int:
            if not text.isdecimal():
                raise DataError(f"{parameter.name} is {text[:20]!r}: give a number")
            values[parameter.name] = int(text)
    try:
        return method(**values)
    except IndexError:
        raise DataError(f"{name}: out of range") from None


class Server:
    """Serves one explorer until it is stopped."""

    def __init__(self, explorer: Explorer, port: int = 0):
        self.token = secrets.token_urlsafe(24)
        self._sockets = bind_sockets(port, ADDRESS)
        self.port = int(self._sockets[0].getsockname()[1])
        options = {"explorer": explorer, "hosts": (f"{ADDRESS}:{self.port}", f"localhost:{self.port}")}
        application = Application(
            [
                (f"/{self.token}/", _PageHandler, options),
                (f"/{self.token}/api/([a-z]+)", _AnswerHandler, options),
            ],
            default_handler_class=_NotFound,
            log_function=lambda handler: None,
        )
        self._server = HTTPServer(application, max_body_size=MAX_BODY, max_header_size=20_000)

    @property
    def address(self) -> str:
        """The address of the page, with the token."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    async def serve(self, until: asyncio.Event) -> None:
        """Answer requests until an event is set."""
        self._server.add_sockets(self._sockets)
        await until.wait()
        self._server.stop()
        await self._server.close_all_connections()


class _Handler(RequestHandler):
    """Checks where a request comes from, and sets the headers that keep answers private."""

    def initialize(self, explorer: Explorer, hosts: tuple[str, ...]) -> None:
        self.explorer = explorer
        self.hosts = hosts

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cross-Origin-Opener-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def prepare(self) -> None:
        if not any(hmac.compare_digest(self.request.host.encode(), host.encode()) for host in self.hosts):
            raise HTTPError(403)
        origin = self.request.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self.hosts:
            raise HTTPError(403)

    def write_error(self, status_code: int, **_: object) -> None:
        self.finish({"error": f"status {status_code}"})


class _NotFound(RequestHandler):
    """Answers every path without the token, with nothing that could help to find it."""

    def prepare(self) -> None:
        self.clear_header("Server")
        self.set_status(404)
        self.finish()


class _PageHandler(_Handler):
    def get(self) -> None:
        page = Page()
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", f"{page.policy(True)}; frame-ancestors 'none'")
        self.finish(page.render(None))


class _AnswerHandler(_Handler):
    async def get(self, name: str) -> None:
        arguments = {key: self.get_query_argument(key) for key in self.request.query_arguments}
        await self._respond(partial(answer, self.explorer, name, arguments))

    async def post(self, name: str) -> None:
        store = getattr(self.explorer, "store_name", None)
        # A browser lets a page of another site send this type only if the server permits it. This server never does.
        if name != "name" or store is None or self.request.headers.get("Content-Type") != "application/json":
            raise HTTPError(404)
        try:
            given = json.loads(self.request.body)
            topic = int(given["topic"])
            text = given["name"]
        except (ValueError, KeyError, TypeError):
            raise HTTPError(400) from None
        if not isinstance(text, str):
            raise HTTPError(400)
        await self._respond(partial(store, topic, text))

    async def _respond(self, function: Callable[[], JsonObject]) -> None:
        """Compute an answer in a thread, so that a slow one does not delay others."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(None, function)
        except DataError as error:
            self.set_status(404)
            found = {"error": str(error)}
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(found, ensure_ascii=False, separators=(",", ":")))
