"""Senders with much data or many connections exhaust neither memory nor files, and others are still answered."""

from __future__ import annotations

import http.client
import re
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from sinkql.connectors.webhook import endpoint, port_connections
from sinkql.connectors.webhook import http as webhook_http
from sinkql.connectors.webhook.request_log import Request, RequestLog
from sinkql.connectors.webhook.server import WebhookServers
from support.authority import authority
from support.patience import Deadline
from webhook.sending import Sender, path_of
from webhook.streams import open_stream, received, source

_HEAD = f"POST {path_of('s')} HTTP/1.1\r\nHost: x\r\nContent-Length: ".encode()
_ONE = _HEAD + b"1\r\n\r\na"


@pytest.fixture
def listeners() -> Iterator[WebhookServers]:
    with WebhookServers() as opened:
        yield opened


def _connected(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    found.settimeout(60)
    found.connect(("127.0.0.1", port))
    return found


def _sent(connection: socket.socket, request: bytes) -> int:
    """Repeat a request until the server stops reading; return the number of requests."""
    connection.setblocking(False)
    sent, many = 0, request * (200_000 // len(request))
    while select.select([], [connection], [], 1)[1]:
        assert sent < 64 << 20, "the server reads on from a client that reads no answers"
        sent += connection.send(many[sent % len(request) :])
    connection.settimeout(60)
    return sent // len(request)


def _answers(connection: socket.socket, count: int) -> set[bytes]:
    """Return the status lines of `count` answers."""
    found = b""
    while found.count(b"\r\n\r\n") < count:
        found += connection.recv(1 << 16)
    return set(re.findall(rb"HTTP/1.1 \d+", found))


def test_no_more_is_read_while_a_request_waits_for_its_answer(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, append = threading.Event(), RequestLog.append

    def waiting(request_log: RequestLog, requests: Sequence[Request]) -> int:
        assert go_on.wait(60)
        return append(request_log, requests)

    monkeypatch.setattr(RequestLog, "append", waiting)
    with open_stream(source(tmp_path, sender.port), listeners) as stream, closing(_connected(sender.port)) as one:
        try:
            count = _sent(one, _HEAD + b"1000\r\n\r\n" + b"a" * 1000)
        finally:
            go_on.set()
        assert _answers(one, count) == {b"HTTP/1.1 200"}
        received(stream, count)


def test_no_more_is_read_of_one_who_takes_no_answers(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    with open_stream(source(tmp_path, sender.port), listeners), closing(_connected(sender.port)) as one:
        count = _sent(one, b"POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + b"a" * 1000)
        assert _answers(one, count) == {b"HTTP/1.1 404"}


def _status(port: int, context: ssl.SSLContext | None) -> int:
    """Return the status of a request over a new connection."""
    with closing(
        http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    ) as one:
        one.request("POST", path_of("s"), b"a")
        return one.getresponse().status


@pytest.mark.parametrize("begun", [b"", b"POST / HT", _HEAD + b"1000\r\n\r\nxx"], ids=["nothing", "some", "a body"])
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_whoever_sends_no_whole_request_goes_first(
    begun: bytes,
    secure: bool,
    tmp_path: Path,
    sender: Sender,
    listeners: WebhookServers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(port_connections, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(port_connections, "_IDLE_SECONDS", 60.0)
    trusted, identity = authority(tmp_path)
    text = identity.read_text()
    more: dict[str, Any] = {"ssl": {"certificate": text, "key": text}} if secure else {}
    context = ssl.create_default_context(cafile=str(trusted)) if secure else None
    with open_stream(source(tmp_path / "s", sender.port, **more), listeners), ExitStack() as stack:
        assert _status(sender.port, context) == 200
        (port,) = listeners._ports.values()
        for _ in range(12):
            each = stack.enter_context(closing(_connected(sender.port)))
            with suppress(ConnectionError):
                each.sendall(begun)
            assert _status(sender.port, context) == 200
            assert len(port.connections.members) <= 6


def test_connections_beyond_so_many_are_told_and_then_closed(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_connections, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(port_connections, "_IDLE_SECONDS", 60.0)
    with open_stream(source(tmp_path, sender.port), listeners), ExitStack() as stack:
        kept = []
        for number in range(5 + port_connections._ANSWERED_CONNECTIONS):
            kept.append(stack.enter_context(closing(_connected(sender.port))))
            kept[-1].sendall(_ONE)
            assert kept[-1].recv(100).split()[1] == (b"200" if number < 5 else b"429")
        with closing(_connected(sender.port)) as beyond, suppress(ConnectionError):
            assert beyond.recv(100) == b""
        monkeypatch.setattr(port_connections, "_IDLE_SECONDS", -1.0)
        assert sender.send(path_of("s"), "a").status == 429  # it replaces the connection that was idle longest
        assert kept[0].recv(100) == b""
        for each in kept[5:]:
            each.close()
        deadline = Deadline()
        while sender.send(path_of("s"), "a").status != 200:
            deadline.check("a free connection")


def test_bodies_that_come_at_once_are_held_up_to_so_many_bytes(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_connections, "MOST_BYTES", 900)
    with open_stream(source(tmp_path, sender.port), listeners), ExitStack() as stack:
        (port,) = listeners._ports.values()
        slow = [stack.enter_context(closing(_connected(sender.port))) for _ in range(2)]
        for each, size in zip(slow, (800, 900), strict=True):
            each.sendall(_HEAD + b"1000\r\n\r\n" + b"x" * size)
        deadline = Deadline()
        while port.connections.bytes < 1700:
            deadline.check("both bodies")
        assert sender.send(path_of("s"), "a").status == 200
        assert b" 429 " in slow[1].recv(100)  # the connection with most bytes is closed
        slow[0].sendall(b"x" * 200)
        assert b" 200 " in slow[0].recv(100)
        with closing(_connected(sender.port)) as third:
            third.sendall(_HEAD + b"1000\r\n\r\n" + b"x" * 1000)
            assert b" 200 " in third.recv(100)


@pytest.mark.parametrize("begun", [b"POST / HTTP/1.1\r\nHost: x\r\nA: ", _HEAD + b"1000\r\n\r\n"])
def test_a_request_that_comes_byte_by_byte_is_cut(
    begun: bytes, tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_http, "_REQUEST_SECONDS", 0.2)
    with open_stream(source(tmp_path, sender.port), listeners), closing(_connected(sender.port)) as slow:
        slow.sendall(_ONE + begun)
        assert _answers(slow, 1) == {b"HTTP/1.1 200"}
        deadline = Deadline()
        while not select.select([slow], [], [], 0.05)[0]:
            deadline.check("an answer")
            slow.sendall(b"x")
        assert b" 408 " in slow.recv(1000).partition(b"\r\n")[0]


def test_a_request_that_waits_for_its_answer_is_not_cut(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, looks, append, look = (
        threading.Event(),
        [threading.Event()],
        RequestLog.append,
        webhook_http.Connection._check_time,
    )

    def waiting(request_log: RequestLog, requests: Sequence[Request]) -> int:
        assert go_on.wait(60)
        return append(request_log, requests)

    def looking(connection: webhook_http.Connection) -> None:
        look(connection)
        looks[0].set()

    monkeypatch.setattr(RequestLog, "append", waiting)
    monkeypatch.setattr(webhook_http.Connection, "_check_time", looking)
    monkeypatch.setattr(webhook_http, "_REQUEST_SECONDS", 0.05)
    monkeypatch.setattr(webhook_http, "_IDLE_SECONDS", 0.05)
    with open_stream(source(tmp_path, sender.port), listeners), closing(_connected(sender.port)) as one:
        try:
            one.sendall(_ONE)
            for _ in range(2):
                assert looks[0].wait(60)
                looks[0].clear()
        finally:
            go_on.set()
        assert b" 200 " in one.recv(100)


def test_more_than_the_capture_takes_is_told_to_come_again(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "_WAITING_BYTES", 2000)
    with open_stream(source(tmp_path, sender.port), listeners) as stream:
        assert [sender.send(path_of("s"), "x" * 1000).status for _ in range(2)] == [200, 200]
        full = sender.send(path_of("s"), "x")
        assert (full.status, full.headers["retry-after"]) == (429, str(endpoint.FULL_SECONDS))
        received(stream, 2)
        assert sender.send(path_of("s"), "x").status == 200
