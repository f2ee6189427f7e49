"""A proxy in front of an S3 server that injects faults by a table of (method, part of the path, times, fault)."""

import contextlib
import http.client
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Error codes of S3 by HTTP status.
CODES = {"403": "AccessDenied", "404": "NoSuchKey", "500": "InternalError", "503": "SlowDown"}
#: Number of times for a fault that never ends.
ALWAYS = 1 << 30


class Proxy:
    """Serves at ``address`` until closed. ``faults`` may be set at any time; ``seen`` counts those that happened."""

    def __init__(self, target):
        self.target = target.removeprefix("http://")
        self.faults = []
        self.seen = 0
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        """Stop serving."""
        self.server.shutdown()
        self.server.server_close()

    def fault(self, method, path):
        """Return the fault for a request and count it; return an empty string if there is none."""
        with self.lock:
            for i, (which, part, times, what) in enumerate(self.faults):
                if which == method and part in path and times:
                    self.faults[i] = (which, part, times - 1, what)
                    self.seen += 1
                    return what
        return ""

    def _handler(self):
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                what = proxy.fault(self.command, self.path)
                if what.isdigit():
                    error = f"<Error><Code>{CODES[what]}</Code><Message>scripted</Message></Error>"
                    self.answer(int(what), {}, error.encode())
                    return
                if what == "slow":
                    time.sleep(2.0)
                connection = http.client.HTTPConnection(proxy.target, timeout=60)
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                self.answer(answer.status, dict(answer.getheaders()), answer.read(), what == "cut")
                connection.close()

            def answer(self, status, headers, content, cut=False):
                self.send_response_only(status)
                length = headers.get("Content-Length", str(len(content))) if self.command == "HEAD" else len(content)
                kept = {k: v for k, v in headers.items() if k.lower() not in ("content-length", "transfer-encoding")}
                for name, value in (kept | {"Content-Length": str(length)}).items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client closed the connection
                    if self.command != "HEAD":
                        self.wfile.write(content[: len(content) // 2] if cut else content)
                if cut:
                    self.close_connection = True

            def log_message(self, *_):
                pass

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = forward

        return Handler
