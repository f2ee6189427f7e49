"""A proxy in front of an S3 server: it injects faults by a table of (method, part of the path, times, fault).

It may also play one trait of another server: a function of the method and the headers of each request, which may change
the headers, or return the status and the code of an error.
"""

import contextlib
import http.client
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Error codes of S3 by HTTP status.
CODES = {"403": "AccessDenied", "404": "NoSuchKey", "500": "InternalError", "503": "SlowDown"}
#: Number of times for a fault that never ends.
ALWAYS = 1 << 30


def ignore_conditions(method, headers):
    """Accept the conditions of writes, and do not look at them."""
    for name in ("If-Match", "If-None-Match"):
        if method == "PUT":
            del headers[name]


def refuse_conditions(status):
    """Return the trait of a server that refuses the conditions of writes with this status."""

    def refuse(method, headers):
        has_condition = headers["If-Match"] or headers["If-None-Match"]
        return (status, "NotImplemented") if method == "PUT" and has_condition else None

    return refuse


def want_payer(method, headers):
    """Refuse who does not say that he pays for the request."""
    return None if headers["x-amz-request-payer"] == "requester" else (403, "AccessDenied")


def refuse_token(method, headers):
    """Refuse a token as no longer valid. The answer to HEAD has no content, so it does not name the reason."""
    return (400, "ExpiredToken") if "Credential=OLD/" in headers.get("Authorization", "") else None


def refuse_signature(method, headers):
    """Refuse who signs a request, like a public bucket for somebody without an account."""
    return (403, "InvalidAccessKeyId") if headers["Authorization"] else None


class Proxy:
    """Serves at ``address`` until closed. ``faults`` may be set at any time; ``seen`` counts those that happened.

    ``trait``: see above. ``certificate`` is the path of a PEM file with a key and a certificate for localhost.
    """

    def __init__(self, target, trait=None, certificate=None):
        self.target = target.removeprefix("http://")
        self.trait = trait
        self.faults = []
        self.seen = 0
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
            self.address = f"https://localhost:{self.server.server_address[1]}"
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

            def content(self):
                # With TLS, clients send content in chunks.
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                del self.headers["Transfer-Encoding"]
                self.headers["Content-Length"] = str(sum(map(len, parts)))
                return b"".join(parts)

            def forward(self):
                body = self.content()
                what = proxy.fault(self.command, self.path)
                refusal = proxy.trait and proxy.trait(self.command, self.headers)
                if what.isdigit():
                    refusal = (int(what), CODES[what])
                if refusal:
                    error = f"<Error><Code>{refusal[1]}</Code><Message>scripted</Message></Error>"
                    self.answer(refusal[0], {}, error.encode())
                    return
                if what == "slow":
                    time.sleep(0.5)
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
