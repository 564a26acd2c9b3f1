"""An HTTP proxy in front of an Iceberg REST catalog or S3, which drops, delays or refuses requests and replies."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.patience import PATIENCE_S

_HOP = ("connection", "content-length", "transfer-encoding", "date")
_SIGNED = re.compile(r"Credential=([^/]+)/")
_EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
_DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
Reply = tuple[int, list[tuple[str, str]], bytes]


@dataclass
class Rule:
    """The faults of the next commits; each `mode` is used once, in order.

    drop: applied, then the connection closes. before: the connection closes, nothing applied. truncate: applied, the
    reply cut in its middle. late: answered with 504, applied after `release` is called. A number: applied, then
    answered with that status. refuse-…: answered with that status, nothing applied.
    """

    modes: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Statuses of the replies to the next requests, except those for tokens; none of them is applied."""
    expired: set[str] = field(default_factory=set)
    """AWS keys whose requests get S3's error for expired keys."""
    down: bool = False
    """Whether every connection is closed without an answer."""
    denied: bool = False
    """Whether the bucket denies all access."""
    slow: float = 0.0
    """Seconds by which each request is delayed."""
    waiting: int = 0
    most_waiting: int = 0
    """The highest number of requests that waited at the same time."""
    cut: int = 0
    """How many of the next replies with objects are truncated."""
    paths: list[str] = field(default_factory=list)
    delegations: set[str | None] = field(default_factory=set)
    """The access-delegation headers of requests to a catalog; None for a request without one."""
    deaf: bool = False
    """Whether the proxy removes the access-delegation header from requests."""
    keys: list[str] = field(default_factory=list)
    """The keys that signed the requests, in order."""
    between: Callable[[], None] | None = None
    alter: Callable[[bytes], bytes] | None = None
    """A function that changes each reply with a table."""
    commits: int = 0
    late: list[threading.Thread] = field(default_factory=list)
    late_status: list[int] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Forward the late requests, and wait until the catalog has answered them."""
        self.gate.set()
        for thread in self.late:
            thread.join(PATIENCE_S)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream: int
    rule: Rule

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        pass

    def answer(self) -> None:
        body = self._body()
        mode = None
        if self._refuses():
            return
        if self.command == "POST" and "/tables/" in self.path:
            self.rule.commits += 1
            mode = self.rule.modes.pop(0) if self.rule.modes else None
            between, self.rule.between = self.rule.between, None
            if between:
                between()
        if self.rule.cut and self.command == "GET" and "?" not in self.path:
            self.rule.cut -= 1
            mode = "truncate"
        match mode:
            case None:
                self._reply(self._altered(self._forward(body)))
            case "before":
                self._hang_up()
            case "drop":
                self._forward(body)
                self._hang_up()
            case "truncate":
                self._truncate(self._forward(body))
            case "late":
                self._later(body)
                self._reply(_error(504))
            case _ if mode.startswith("refuse-"):
                self._reply(_error(int(mode.removeprefix("refuse-"))))
            case _:
                self._forward(body)
                self._reply(_error(int(mode)))

    do_GET = do_POST = do_HEAD = do_DELETE = do_PUT = answer  # noqa: N815  # the base class's names

    def _body(self) -> bytes | None:
        if self.headers.get("transfer-encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        length = int(self.headers.get("content-length") or 0)
        return self.rfile.read(length) if length else None

    def _refuses(self) -> bool:
        """Answer a request that the rule blocks; return whether it did."""
        self.rule.paths.append(self.path)
        if self.rule.slow:
            self._wait()
        if self.rule.down:
            self._hang_up()
            return True
        self.rule.delegations.add(self.headers.get("x-iceberg-access-delegation"))
        signed = _SIGNED.search(self.headers.get("authorization") or "")
        if signed:
            self.rule.keys.append(signed[1])
        if signed and signed[1] in self.rule.expired:
            self._reply((400, [("content-type", "application/xml")], _EXPIRED))
        elif self.rule.denied:
            self._reply((403, [("content-type", "application/xml")], _DENIED))
        elif self.rule.statuses and not self.path.endswith("/oauth/tokens"):
            self._reply(_error(self.rule.statuses.pop(0)))
        else:
            return False
        return True

    def _wait(self) -> None:
        rule = self.rule
        rule.waiting += 1
        rule.most_waiting = max(rule.most_waiting, rule.waiting)
        time.sleep(rule.slow)
        rule.waiting -= 1

    def _forward(self, body: bytes | None) -> Reply:
        return self._request(body)()

    def _request(self, body: bytes | None) -> Callable[[], Reply]:
        """Return a function that sends this request: when called, the handler may already serve the next one."""
        method, path, port = self.command, self.path, self.upstream
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        if self.rule.deaf:
            del headers["X-Iceberg-Access-Delegation"]

        def send() -> Reply:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            reply = response.status, response.getheaders(), response.read()
            connection.close()
            return reply

        return send

    def _altered(self, reply: Reply) -> Reply:
        status, headers, body = reply
        of_table = self.command in ("GET", "POST") and "/tables/" in self.path
        return (status, headers, self.rule.alter(body)) if self.rule.alter is not None and of_table else reply

    def _later(self, body: bytes | None) -> None:
        send = self._request(body)

        def apply() -> None:
            self.rule.gate.wait(PATIENCE_S)
            self.rule.late_status.append(send()[0])

        thread = threading.Thread(target=apply, daemon=True)
        self.rule.late.append(thread)
        thread.start()

    def _reply(self, reply: Reply) -> None:
        status, headers, body = reply
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        told = next((value for each, value in headers if each.lower() == "content-length"), "0")
        self.send_header("content-length", told if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _truncate(self, reply: Reply) -> None:
        self.send_response(reply[0])
        self.send_header("content-length", str(len(reply[2])))
        self.end_headers()
        self.wfile.write(reply[2][: min(50, len(reply[2]) // 2)])
        self.wfile.flush()
        self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.close()


def _error(status: int) -> Reply:
    error = {"error": {"message": "made by the proxy", "type": "ProxyError", "code": status}}
    return status, [("content-type", "application/json")], json.dumps(error).encode()


@contextmanager
def proxy(upstream: int, *, identity: Path | None = None) -> Iterator[tuple[int, Rule]]:
    """Run a proxy in front of a local port; yield its port, and the rule that tests change.

    With an identity, a file with key and certificate, it speaks TLS.
    """
    rule = Rule()
    handler = type("Handler", (_Handler,), {"upstream": upstream, "rule": rule})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if identity is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], rule
    finally:
        rule.release()
        server.shutdown()
        server.server_close()
