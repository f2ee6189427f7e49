"""Open the explorer of a model in a browser, or write it into a file."""

import asyncio
import csv
import signal
import webbrowser
from collections.abc import Callable

from ....io.errors import DataError
from ....io.stores.store import JsonObject, split_path
from ...explorer.model import ExploredModel, Explorer
from ...explorer.open import open_explorer, standalone_page
from ...explorer.server import Server
from ...models.registry import load_model
from ...publishing.compare import compare_models


def open_page(
    url: str, corpus: str | None = None, limit: int = 100_000, labels: str | None = None, compare: str | None = None
) -> Explorer:
    """Return the explorer of a run or model.

    ``corpus`` has its documents, of which ``limit`` are looked at. ``labels`` is a file with labels of words or nodes,
    and ``compare`` another model.
    """
    comparison: JsonObject | None = None
    if compare is not None:
        difference = compare_models(load_model(compare), ExploredModel(url).estimator)
        comparison = {"with": compare, **difference}
    return open_explorer(url, corpus, limit, _read_labels(labels), comparison)


def serve(explorer: Explorer, port: int, browser: bool, report: Callable[[str], None]) -> None:
    """Serve the page until the process is interrupted. ``report`` receives the address of the page."""
    server = Server(explorer, port)
    explorer.start()
    report(server.address)
    if browser:
        webbrowser.open(server.address)
    try:
        asyncio.run(_serve(server))
    finally:
        explorer.stop()


async def _serve(server: Server) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await server.serve(stopped)


def write_html(explorer: Explorer, path: str) -> int:
    """Write the page into one file and return its number of bytes."""
    content = standalone_page(explorer).encode()
    store, name = split_path(path)
    store.write_bytes(name, content)
    return len(content)


def _read_labels(path: str | None) -> dict[str, str] | None:
    """Read a file with a word or node and its label on each line, separated by a tab, a comma or blanks."""
    if path is None:
        return None
    store, name = split_path(path)
    text = store.read_bytes(name).decode("utf-8", "replace")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    separator = next((mark for mark in "\t," if lines and mark in lines[0][1]), None)
    labels: dict[str, str] = {}
    for number, line in lines:
        # Each line is read alone, so that a quote that is not closed ends with it.
        row = line.split(maxsplit=1)
        if separator is not None:
            row = next(csv.reader([line], delimiter=separator))
        if len(row) < 2:
            raise DataError(f"{path}, line {number}: give a name and a label on each line")
        # Of several labels, the first counts.
        labels.setdefault(row[0], row[1])
    return labels
