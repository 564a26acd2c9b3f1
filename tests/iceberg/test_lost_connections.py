"""Clients of catalogs and stores close all kept connections once a request on one of them times out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from sinkql.connectors.iceberg.table import rest_catalog
from sinkql.errors import SinkqlError
from sinkql.object_store import s3
from sinkql.object_store.objects import Objects, Purpose
from support.front import Front, front
from support.patience import PATIENCE_S


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    both = threading.Barrier(2)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        pass

    def do_GET(self) -> None:
        if self.path.endswith("/both"):
            self.both.wait(PATIENCE_S)  # both requests hold a connection at the same time
        self.send_response(200)
        self.send_header("etag", '"1"')
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")


@contextmanager
def _before() -> Iterator[Front]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with front(server.server_address[1]) as found:
            yield found
    finally:
        server.shutdown()
        server.server_close()


def _twice(ask: Callable[[], object]) -> None:
    other = threading.Thread(target=ask, daemon=True)
    other.start()
    ask()
    other.join(PATIENCE_S)


def test_a_catalog_is_asked_over_new_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    with _before() as before, requests.Session() as session:
        rest_catalog.limit(session)
        url = f"http://127.0.0.1:{before.port}/"
        _twice(lambda: session.get(f"{url}both"))
        monkeypatch.setattr(rest_catalog, "_TIMEOUT", (1.0, 0.3))
        before.mute()
        before.open()
        with pytest.raises(requests.Timeout):
            session.get(url)
        monkeypatch.setattr(rest_catalog, "_TIMEOUT", (PATIENCE_S, PATIENCE_S))
        assert session.get(url).text == "ok"


class _Store:
    def __init__(self, port: int) -> None:
        self.port = port

    def properties(self) -> dict[str, str]:
        place = {"s3.endpoint": f"http://127.0.0.1:{self.port}", "s3.path-style-access": "true"}
        return {**place, "s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}

    def renew(self) -> None:
        pass


def test_a_bucket_is_asked_over_new_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_READ_S", 0.5)
    monkeypatch.setattr(s3, "_TRIES", 1)
    with _before() as before:
        objects = Objects.open_bucket("bucket", _Store(before.port), Purpose("who", "STATE", "harm", "cure"))
        _twice(lambda: objects.get("both"))
        before.mute()
        before.open()
        with pytest.raises(SinkqlError):
            objects.get("one")
        assert objects.get("one") == (b"ok", '"1"')
