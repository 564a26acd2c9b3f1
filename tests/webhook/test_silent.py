"""Connections that send almost nothing cost only a socket, and requests are answered between them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from sinkql.connectors.webhook import acceptor, http, port_connections
from sinkql.connectors.webhook.endpoint import Endpoint, Reply
from sinkql.connectors.webhook.port_connections import PortConnection, PortConnections
from sinkql.connectors.webhook.server import WebhookServers
from support.authority import authority
from support.patience import Deadline
from webhook.sending import Sender
from webhook.streams import open_stream, source
from webhook.test_port_connections import _ONE, _connected

_PART = b"POST / HTTP/1.1\r\nHost: x\r\nA: "


@pytest.fixture
def listeners() -> Iterator[WebhookServers]:
    with WebhookServers() as opened:
        yield opened


@pytest.mark.parametrize(
    ("secure", "said"),
    [(False, b""), (False, b"P"), (False, _PART), (True, b"")],
    ids=["nothing", "a byte", "a part", "https"],
)
def test_whoever_says_next_to_nothing_is_not_served(
    secure: bool, said: bytes, tmp_path: Path, sender: Sender, listeners: WebhookServers
) -> None:
    text = authority(tmp_path)[1].read_text()
    more: dict[str, Any] = {"ssl": {"certificate": text, "key": text}} if secure else {}
    with open_stream(source(tmp_path / "s", sender.port, **more), listeners), ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(closing(_connected(sender.port))).sendall(said)
        (port,) = listeners._ports.values()
        deadline = Deadline()
        while len(port.connections.silent) < 20 or any(each.received != said for each in _silent(port.connections)):
            deadline.check("20 connections")
        assert list(port.connections.silent) == list(port.connections.arriving) == list(port.connections.members)


def _silent(found: PortConnections) -> list[acceptor.AcceptedConnection]:
    return [each for each in list(found.silent) if isinstance(each, acceptor.AcceptedConnection)]


def test_a_head_may_come_in_parts(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    with open_stream(source(tmp_path, sender.port), listeners), closing(_connected(sender.port)) as one:
        (port,) = listeners._ports.values()
        deadline = Deadline()
        for at in range(4):
            one.sendall(_ONE[at : at + 1])
            while not any(len(each.received) == at + 1 for each in _silent(port.connections)):
                deadline.check("a byte")
        one.sendall(_ONE[4:] + _ONE)
        found = b""
        while found.count(b" 200 ") < 2:
            found += one.recv(1000)


@pytest.mark.parametrize("said", [b"\x16\x03\x01\x00", b"GET\r\n\r\n", b"A" * (20 << 10)], ids=["TLS", "HTTP", "long"])
def test_what_is_no_head_is_told_at_once(
    said: bytes, tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "_LOOK_SECONDS", 3600.0)
    with open_stream(source(tmp_path, sender.port), listeners), closing(_connected(sender.port)) as one:
        one.sendall(said)
        assert b" 4" in one.recv(1000).partition(b"\r\n")[0]


def test_the_port_is_rid_of_the_silent(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that has begun a request gets an answer."""
    monkeypatch.setattr(acceptor, "_SILENT_SECONDS", 0.05)
    monkeypatch.setattr(acceptor, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(http, "_REQUEST_SECONDS", 0.05)
    with open_stream(source(tmp_path, sender.port), listeners), ExitStack() as stack:
        silent, part = (stack.enter_context(closing(_connected(sender.port))) for _ in range(2))
        part.sendall(_PART)
        assert silent.recv(100) == b""
        assert b" 408 " in part.recv(1000).partition(b"\r\n")[0]


def test_silent_ones_go_before_a_request_that_is_on_its_way(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_connections, "MOST_CONNECTIONS", 5)
    with open_stream(source(tmp_path, sender.port), listeners), ExitStack() as stack:
        slow = stack.enter_context(closing(_connected(sender.port)))
        slow.sendall(_ONE[:-1])
        (port,) = listeners._ports.values()
        deadline = Deadline()
        while not port.connections.begun:
            deadline.check("the head")
        kept = [stack.enter_context(closing(_connected(sender.port))) for _ in range(20)]
        assert all(each.recv(1) == b"" for each in kept[:16])
        slow.sendall(_ONE[-1:])
        assert b" 200 " in slow.recv(100)


def test_whoever_has_just_come_has_time_for_a_request_where_others_have_begun_theirs(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_connections, "MOST_CONNECTIONS", 8)
    with open_stream(source(tmp_path, sender.port), listeners), ExitStack() as stack:
        slow = [stack.enter_context(closing(_connected(sender.port))) for _ in range(8)]
        for each in slow:
            each.sendall(_ONE[:-1])
        (port,) = listeners._ports.values()
        deadline = Deadline()
        while len(port.connections.begun) < 8:
            deadline.check("8 heads")
        late = [stack.enter_context(closing(_connected(sender.port))) for _ in range(2)]
        while len(port.connections.silent) < 2:
            deadline.check("both connections")
        for each in late:
            each.sendall(_ONE)
            assert b" 200 " in each.recv(100)


def test_requests_are_answered_between_connections_that_come(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "_TURN", 5)
    done: list[str] = []
    arrive, take = PortConnections.arrive, Endpoint.accept

    def arriving(found: PortConnections, member: PortConnection) -> None:
        done.append("arrives")
        arrive(found, member)

    def taking(endpoint: Endpoint, headers: Mapping[str, bytes], body: bytes, reply: Reply) -> None:
        done.append("is taken")
        take(endpoint, headers, body, reply)

    monkeypatch.setattr(PortConnections, "arrive", arriving)
    monkeypatch.setattr(Endpoint, "accept", taking)
    with open_stream(source(tmp_path, sender.port), listeners), ExitStack() as stack:
        one = stack.enter_context(closing(_connected(sender.port)))
        one.sendall(_ONE)
        assert b" 200 " in one.recv(100)
        del done[:]
        with _Held(listeners._loop):
            for _ in range(60):
                stack.enter_context(closing(_connected(sender.port)))
            one.sendall(_ONE)
        assert b" 200 " in one.recv(100)
        deadline = Deadline()
        while done.count("arrives") < 60:
            deadline.check("all connections")
        assert done.index("is taken") < 20


class _Held:
    """Blocks an event loop until the end of a `with` block."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._go_on, held = threading.Event(), threading.Event()
        loop.call_soon_threadsafe(held.set)
        loop.call_soon_threadsafe(self._go_on.wait, 60)
        assert held.wait(60)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self._go_on.set()


def test_nothing_is_left_of_silent_ones_where_the_port_is_closed(tmp_path: Path, sender: Sender) -> None:
    with ExitStack() as stack:
        with WebhookServers() as listeners, open_stream(source(tmp_path, sender.port), listeners):
            kept = [stack.enter_context(closing(_connected(sender.port))) for _ in range(3)]
            (port,) = listeners._ports.values()
            deadline = Deadline()
            while len(port.connections.silent) < 3:
                deadline.check("3 connections")
        assert [each.recv(1) for each in kept] == [b""] * 3
