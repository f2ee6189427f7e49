"""Serve an explorer from a thread."""

import asyncio
import threading
from contextlib import contextmanager

from corpusmill.pipeline.explorer.server import Server


@contextmanager
def served(explorer):
    """Serve an explorer from a thread; yield the server."""
    server = Server(explorer)
    started = threading.Event()
    control = {}

    async def run():
        control["loop"], control["stop"] = asyncio.get_running_loop(), asyncio.Event()
        started.set()
        await server.serve(control["stop"])

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    started.wait()
    explorer.start()
    try:
        yield server
    finally:
        control["loop"].call_soon_threadsafe(control["stop"].set)
        thread.join(20)
        explorer.stop()
