"""A headless Chromium for tests, controlled by its debugging protocol."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request

import pytest
from tornado.ioloop import IOLoop
from tornado.websocket import websocket_connect

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)

#: JavaScript that returns all text of a page, including that in shadow roots.
TEXT = """(() => { const walk = n => (n.shadowRoot ? walk(n.shadowRoot) : '') + [...n.childNodes].map(
    c => c.nodeType === 3 ? c.data : (['STYLE', 'SCRIPT'].includes(c.tagName) ? '' : walk(c))).join(' ');
    return walk(document.body); })()"""


class Browser:
    """A browser with one page. Use it as a context manager."""

    def __init__(self, width: int = 1280, height: int = 900):
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            pytest.skip("no Chromium here")
        self.folder = tempfile.mkdtemp()
        size = f"--window-size={width},{height}"
        command = [program, *FLAGS, size, f"--user-data-dir={self.folder}", "about:blank"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.loop, self.count = IOLoop(make_current=False), 0
        port = next(line for line in self.process.stderr if "DevTools listening" in line).split(":")[-1].split("/")[0]
        pages = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/json").read())
        url = next(p["webSocketDebuggerUrl"] for p in pages if p["type"] == "page")
        self.socket = self.loop.run_sync(lambda: websocket_connect(url, max_message_size=1 << 28))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **parameters):
        """Send one command and return its result."""
        self.count += 1
        message = json.dumps({"id": self.count, "method": method, "params": parameters})
        self.loop.run_sync(lambda: self.socket.write_message(message))
        while True:
            answer = json.loads(self.loop.run_sync(self.socket.read_message))
            if answer.get("id") == self.count:
                return answer["result"]

    def open(self, url):
        """Load a page."""
        self.call("Page.navigate", url=url)

    def evaluate(self, expression):
        """Return the value of a JavaScript expression."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression, seconds=30):
        """Wait until an expression is true and return its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.2)
        raise AssertionError(f"{expression} is still {value!r} after {seconds} s")

    def screenshot(self, path):
        """Write a PNG of the whole page."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture))
