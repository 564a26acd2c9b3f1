"""Measure how long a valid request waits while senders try to occupy a webhook's only thread.

Each attack runs in a separate process against a port that this one serves. A third process sends valid requests, each
over a new connection.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.synchronize import Event
from pathlib import Path

from sinkql.logical.type import JSONB

SECONDS = 6.0
_MOST_BODY = 2 << 20
_PAUSE_S = 0.02


def main() -> None:
    """Print the slowest and the median answer during each attack; a refusal is an answer, and is counted."""
    from support.port import free_ports
    from webhook.sending import path_of

    print(f"{'beside':32} {'answers':>8} {'slowest':>10} {'median':>10} {'refused':>8}")
    path = path_of("s")
    for name, attack in {"nobody": None, **ATTACKS}.items():
        port = free_ports(1)[0]
        context = multiprocessing.get_context("fork")
        go, over, found = context.Event(), context.Event(), context.SimpleQueue()
        others = [context.Process(target=_valid, args=(port, path, go, found), daemon=True)]
        if attack is not None:
            others.append(context.Process(target=_attack, args=(attack, port, path, go, over), daemon=True))
        for each in others:
            each.start()
        try:
            times, refused = _served(port, go, found)
        finally:
            over.set()
            for each in others:
                each.kill()
                each.join()
        print(
            f"{name:32} {len(times):8} {max(times) * 1000:7.0f} ms {statistics.median(times) * 1000:7.0f} ms "
            f"{refused:8}",
            flush=True,
        )


def _served(
    port: int, go: Event, found: multiprocessing.SimpleQueue[tuple[list[float], int]]
) -> tuple[list[float], int]:
    from sinkql import physical
    from sinkql.connectors.webhook.request import Layout
    from sinkql.connectors.webhook.server import WebhookServers
    from webhook.streams import open_stream, source, table

    given = table(Layout("json"), physical.Column("body", JSONB, False))
    with (
        tempfile.TemporaryDirectory() as folder,
        WebhookServers() as listeners,
        open_stream(source(Path(folder), port, max_body=_MOST_BODY), listeners, table=given) as stream,
    ):
        go.set()
        while found.empty():
            stream.receive(0.1)
        return found.get()


def _valid(port: int, path: str, go: Event, found: multiprocessing.SimpleQueue[tuple[list[float], int]]) -> None:
    go.wait()
    time.sleep(0.5)
    request, times, refused = _request(path, '{"id": 1}'), list[float](), 0
    until = time.monotonic() + SECONDS - 0.5
    while time.monotonic() < until:
        began, answer = time.perf_counter(), b""
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 30) as connection:
            connection.sendall(request)
            answer = connection.recv(4096)
        times.append(time.perf_counter() - began)
        refused += b" 200 " not in answer[:16]
        time.sleep(_PAUSE_S)
    found.put((times, refused))


def _attack(attack: Callable[[int, str], None], port: int, path: str, go: Event, over: Event) -> None:
    go.wait()

    def again() -> None:
        while not over.is_set():
            with suppress(OSError):
                attack(port, path)

    for _ in range(8):
        threading.Thread(target=again, daemon=True).start()
    over.wait()


def _request(path: str, body: str, more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 30)


def _slow_headers(port: int, path: str) -> None:
    """Send a header byte by byte, on many connections."""
    _drip(port, f"POST {path} HTTP/1.1\r\nHost: x\r\nX: ".encode() + b"a" * 200)


def _slow_body(port: int, path: str) -> None:
    """Send a body byte by byte, on many connections."""
    _drip(port, _request(path, "[" * 200))


def _drip(port: int, data: bytes) -> None:
    connections = [_connected(port) for _ in range(50)]
    for at in range(len(data)):
        for each in connections:
            with suppress(OSError):
                each.sendall(data[at : at + 1])
        time.sleep(0.01)
    for each in connections:
        each.close()


def _many_connections(port: int, path: str, said: bytes = b"") -> None:
    """Open connections, and send `said` and nothing else."""
    connections = [_connected(port) for _ in range(200)]
    for each in connections if said else ():
        with suppress(OSError):
            each.sendall(said)
    time.sleep(0.1)
    for each in connections:
        each.close()


def _huge_header(port: int, path: str) -> None:
    """Send a header that never ends."""
    with _connected(port) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode())
        while True:
            connection.sendall(b"X: " + b"a" * (1 << 20))


def _many_headers(port: int, path: str) -> None:
    """Send a request with 6,000 headers."""
    with _connected(port) as connection:
        connection.sendall(_request(path, "1", "".join(f"x{number}: 1\r\n" for number in range(6000))))
        connection.recv(4096)


def _idle(port: int, path: str) -> None:
    """Send a request on each of 70 connections, and keep them open."""
    connections = [_connected(port) for _ in range(70)]
    for each in connections:
        with suppress(OSError):
            each.sendall(_request(path, "1"))
            each.recv(4096)
    time.sleep(2)
    for each in connections:
        each.close()


def _pipelined(port: int, path: str) -> None:
    """Send thousands of requests without reading an answer."""
    with _connected(port) as connection:
        requests = _request(path, "1") * 1000
        while True:
            connection.sendall(requests)


def _pipelined_elsewhere(port: int, path: str) -> None:
    """Send thousands of requests to a path without a source."""
    with _connected(port) as connection:
        requests = _request("/none", "1") * 1000
        threading.Thread(target=_drained, args=(connection,), daemon=True).start()
        while True:
            connection.sendall(requests)


def _drained(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(1 << 16):
            pass


def _chunks(port: int, path: str) -> None:
    """Send a body in chunks of one byte."""
    with _connected(port) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        while True:
            connection.sendall(b"1\r\n1\r\n" * 10_000)


def _bodies(body: str) -> Callable[[int, str], None]:
    def attack(port: int, path: str) -> None:
        with _connected(port) as connection:
            connection.sendall(_request(path, body))
            connection.recv(4096)

    return attack


ATTACKS: dict[str, Callable[[int, str], None]] = {
    "slow headers": _slow_headers,
    "slow bodies": _slow_body,
    "many connections": _many_connections,
    "many connections, a byte each": partial(_many_connections, said=b"P"),
    "a header without an end": _huge_header,
    "6,000 headers": _many_headers,
    "idle connections": _idle,
    "pipelined requests": _pipelined,
    "pipelined requests to nowhere": _pipelined_elsewhere,
    "chunks of a byte": _chunks,
    "2 MB of documents": _bodies("1\n" * (_MOST_BODY // 2 - 10)),
    "2 MB of brackets": _bodies("[" * (_MOST_BODY - 10)),
    "2 MB of escapes": _bodies(json.dumps("\x01" * (_MOST_BODY // 6 - 10))),
    "2 MB of one object": _bodies(json.dumps({str(number): number for number in range(130_000)})[:_MOST_BODY]),
    "2 MB of digits": _bodies("1" * (_MOST_BODY - 10)),
    "2 MB of blanks": _bodies(" " * (_MOST_BODY - 10)),
}
