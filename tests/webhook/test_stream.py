"""A webhook's stream: the answers to requests, and the rows it returns, even after its process was killed."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPSConnection, RemoteDisconnected
from pathlib import Path

import pytest

from sinkql import physical
from sinkql.connector_api.cdc import RowsChanged
from sinkql.connectors.webhook import server
from sinkql.connectors.webhook.plan import path_of as quoted_path_of
from sinkql.connectors.webhook.request import Filter, Header, Layout
from sinkql.connectors.webhook.request_log import FencedRequestLogError, Request, RequestLog, segments
from sinkql.connectors.webhook.server import WebhookServers
from sinkql.errors import SinkqlError
from sinkql.logical.type import BYTEA, JSONB, TEXT, parse_type
from sinkql.storage import failpoint
from support.authority import authority
from support.fault import armed
from support.patience import PATIENCE_S
from webhook.sending import Answered, Sender, path_of
from webhook.streams import BEGINNING, bodies, open_stream, received, source, table

_PATH = path_of("s")


@pytest.fixture
def listeners() -> Iterator[WebhookServers]:
    with WebhookServers() as opened:
        yield opened


def test_what_is_answered(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    with open_stream(source(tmp_path, sender.port), listeners) as stream:
        assert sender.send(_PATH, "a") == Answered(200, "", {"content-length": "0"})
        assert sender.send(_PATH, b"\xff").status == 400
        assert sender.send(_PATH, "x" * 1001).status == 413
        assert sender.send(f"{_PATH}2", "a").status == 404
        refused = sender.send(_PATH, "a", method="PUT")
        assert (refused.status, refused.headers["allow"]) == (405, "POST")
        coded = sender.send(_PATH, "zipped", {"Content-Encoding": "gzip"})
        assert (coded.status, coded.headers["accept-encoding"]) == (415, "identity")
        assert sender.send(f"{_PATH}?a=b", "b", {"Content-Encoding": "identity"}).status == 200
        assert bodies(received(stream, 2)) == ["a", "b"]
    left = sender.send(_PATH, "c")
    assert (left.status, left.headers["retry-after"]) == (503, "2")


def _raw(port: int, data: bytes) -> bytes:
    """Send bytes; return everything received until the server closes the connection."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as connection:
        connection.sendall(data)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


def test_requests_of_one_connection_are_answered_in_order(
    tmp_path: Path, sender: Sender, listeners: WebhookServers
) -> None:
    head = f"POST {_PATH} HTTP/1.1\r\nHost: x\r\n".encode()
    with open_stream(source(tmp_path, sender.port), listeners) as stream:
        two = (
            head
            + b"Content-Length: 1\r\n\r\na"
            + head
            + b"Transfer-Encoding: chunked\r\n\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"
        )
        told = _raw(sender.port, two + head + b"A: 1\r\na: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        assert [line for line in told.split(b"\r\n") if line.startswith(b"HTTP")] == [
            b"HTTP/1.1 200 OK",
            b"HTTP/1.1 200 OK",
            b"HTTP/1.1 401 Unauthorized",
        ]
        assert bodies(received(stream, 2)) == ["a", "bc"]
        waiting = head + b"Content-Length: 5000\r\nExpect: 100-continue\r\n\r\n"
        assert b" 413 " in _raw(sender.port, waiting).partition(b"\r\n")[0]
        assert b" 400 " in _raw(sender.port, b"nonsense\r\n\r\n").partition(b"\r\n")[0]


def test_headers_are_columns(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    layout = Layout("bytes", Filter(dropped=("cookie", "host", "accept-encoding")), (Header("x-id"), Header("y", True)))
    columns = (
        physical.Column("body", BYTEA, False),
        physical.Column("headers", parse_type("map[text=>text]"), False),
        physical.Column("id", TEXT),
        physical.Column("y", BYTEA),
    )
    given = table(layout, *columns)
    with open_stream(source(tmp_path, sender.port), listeners, table=given) as stream:
        assert sender.send(_PATH, b"\x00\xff", {"X-Id": "7", "Cookie": "c"}).status == 200
        assert sender.send(_PATH, b"", {"Y": "z"}).status == 200
        first, second = received(stream, 2)
    kept = [{"key": "content-length", "value": "2"}, {"key": "x-id", "value": "7"}]
    assert (first["body"], first["headers"], first["id"], first["y"]) == (b"\x00\xff", kept, "7", None)
    assert (second["body"], second["id"], second["y"]) == (b"", None, b"z")


def test_headers_may_have_any_bytes(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    layout = Layout("text", Filter(kept=("a", "b")), (Header("a"), Header("b", True)))
    columns = (
        physical.Column("body", TEXT, False),
        physical.Column("headers", parse_type("map[text=>text]"), False),
        physical.Column("a", TEXT),
        physical.Column("b", BYTEA),
    )
    head = f"POST {_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n".encode()
    with open_stream(source(tmp_path, sender.port), listeners, table=table(layout, *columns)) as stream:
        assert b" 200 " in _raw(sender.port, head + "A: käse\r\nB: ü\r\n\r\n".encode())
        assert b" 200 " in _raw(sender.port, head + b"A: k\xe4se\r\nB: \xff\r\n\r\n")
        rows = received(stream, 2)
    assert [(row["a"], row["b"]) for row in rows] == [("käse", "ü".encode()), ("käse", b"\xff")]
    assert {each["key"]: each["value"] for each in rows[1]["headers"]} == {"a": "käse", "b": "ÿ"}


def test_https(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    trusted, identity = authority(tmp_path)
    key, certificate = identity.read_text().split("-----BEGIN CERTIFICATE", 1)
    pair = {"key": key, "certificate": f"-----BEGIN CERTIFICATE{certificate}"}
    with open_stream(source(tmp_path, sender.port, ssl=pair), listeners) as stream:
        context = ssl.create_default_context(cafile=trusted)
        with closing(HTTPSConnection("127.0.0.1", sender.port, timeout=PATIENCE_S, context=context)) as connection:
            for body in ("a", "b"):
                connection.request("POST", _PATH, body)
                answer = connection.getresponse()
                assert (answer.status, answer.read()) == (200, b"")
        with pytest.raises((ConnectionError, RemoteDisconnected)):
            sender.send(_PATH, "in the clear")
        assert bodies(received(stream, 2)) == ["a", "b"]


def test_a_source_that_moves_leaves_its_port(
    tmp_path: Path, sender: Sender, other: Sender, listeners: WebhookServers
) -> None:
    with open_stream(source(tmp_path, sender.port, "t"), listeners):
        with open_stream(source(tmp_path, sender.port), listeners):
            assert sender.send(_PATH, "a").status == 200
        with open_stream(source(tmp_path, other.port), listeners, after=BEGINNING) as stream:
            assert sender.send(_PATH, "x").status == 404, "another source still uses the port"
            assert other.send(_PATH, "b").status == 200
            assert bodies(received(stream, 2)) == ["a", "b"]
        with open_stream(source(tmp_path, sender.port), listeners):
            assert sender.send(_PATH, "c").status == 200
        with pytest.raises(ConnectionRefusedError):
            other.send(_PATH, "x")


@pytest.mark.parametrize(
    ("kind", "body", "found"),
    [
        ("json", '{"b": 1, "a": 1.50}', ['{"a": 1.50, "b": 1}']),
        ("json", '{"a":1}\n\n{"a":2}\r\n', ['{"a": 1}', '{"a": 2}']),
        ("json", '{"a":1} [2]\n"x"', ['{"a": 1}', "[2]", '"x"']),
        ("json", "[1, 2]", ["[1, 2]"]),
        ("json", "", []),
        ("json", '{"a": "\\u0000"}', None),
        ("json", "{'a': 1}", None),
        ("json", '{"a": 1}\n{"a"', None),
        ("json", "NaN", None),
        ("json", "[" * 5000 + "]" * 5000, None),
        ("json array", '[{"a":1}, 2, "x"]', ['{"a": 1}', "2", '"x"']),
        ("json array", '{"a":1}', ['{"a": 1}']),
        ("json array", "[1]\n[2, [3]]", ["1", "2", "[3]"]),
        ("json array", "[]", []),
        ("json array", "[1, ]", None),
    ],
)
def test_bodies_of_json(
    kind: str, body: str, found: list[str] | None, tmp_path: Path, sender: Sender, listeners: WebhookServers
) -> None:
    given = table(Layout(kind), physical.Column("body", JSONB, False))  # type: ignore[arg-type]  # of the list above
    with open_stream(source(tmp_path, sender.port, max_body=100_000), listeners, table=given) as stream:
        assert sender.send(_PATH, body).status == (400 if found is None else 200)
        assert sender.send(_PATH, "0").status == 200
        assert bodies(received(stream, len(found or ()) + 1)) == [*(found or ()), "0"]


def test_what_was_answered_comes_again_until_it_is_confirmed(
    tmp_path: Path, sender: Sender, listeners: WebhookServers
) -> None:
    given = source(tmp_path, sender.port)
    with open_stream(given, listeners) as stream:
        assert [sender.send(_PATH, each).status for each in "abc"] == [200] * 3
        assert bodies(received(stream, 3)) == ["a", "b", "c"]
    with open_stream(given, listeners, after=f"{1:016X}") as stream:
        assert sender.send(_PATH, "d").status == 200
        assert bodies(received(stream, 3)) == ["b", "c", "d"]
        assert stream.end() == f"{4:016X}"
        stream.confirm(f"{4:016X}")
    assert segments(tmp_path / "s" / "journal") == [2], "the first segment is no longer needed"
    with open_stream(given, listeners) as stream:
        assert sender.send(_PATH, "e").status == 200
        assert bodies(received(stream, 2)) == ["d", "e"]


def test_a_batch_ends_where_a_sink_is(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    given = source(tmp_path, sender.port)
    with open_stream(given, listeners):
        assert [sender.send(_PATH, each).status for each in "abc"] == [200] * 3
    with open_stream(given, listeners) as stream:
        stream._stops = [2]
        events = [event for _ in range(2) for event in stream.receive(1) if isinstance(event, RowsChanged)]
        assert [event.to for event in events] == [f"{2:016X}", f"{3:016X}"]


def test_two_sources_share_a_port(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    other = source(tmp_path, sender.port, "t")
    with open_stream(source(tmp_path, sender.port), listeners) as one, open_stream(other, listeners) as two:
        assert sender.send(_PATH, "a").status == 200
        assert sender.send(path_of("t"), "b").status == 200
        assert (bodies(received(one, 1)), bodies(received(two, 1))) == (["a"], ["b"])


def test_a_name_may_have_any_characters(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    path = quoted_path_of('materialize.public."a/b é%"')
    assert path == "/api/webhook/materialize/public/a%2Fb%20%C3%A9%25"
    with open_stream(source(tmp_path, sender.port, '"a/b é%"'), listeners) as stream:
        assert sender.send(path, "a").status == 200
        assert sender.send(path.replace("%2F", "/"), "b").status == 404
        assert sender.send(path.replace("webhook", "%77ebhook"), "c").status == 200
        assert bodies(received(stream, 2)) == ["a", "c"]


def _refused(caught: pytest.ExceptionInfo[SinkqlError]) -> tuple[str, bool]:
    return caught.value.code, caught.value.retryable


def test_a_port_that_somebody_has(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    given = source(tmp_path, sender.port)
    with (
        socket.create_server(("127.0.0.1", sender.port)),
        pytest.raises(SinkqlError) as caught,
        open_stream(given, listeners),
    ):
        pass
    assert _refused(caught) == ("SQ4480", True)
    with open_stream(source(tmp_path, sender.port), listeners):
        assert sender.send(_PATH, "a").status == 200


def test_a_certificate_that_is_none(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    given = source(tmp_path, sender.port, ssl={"certificate": "no", "key": "KEY-OF-MINE"})
    with pytest.raises(SinkqlError) as caught, open_stream(given, listeners):
        pass
    assert _refused(caught) == ("SQ4482", False)
    assert "KEY-OF-MINE" not in str(caught.value)


def test_a_certificate_that_was_wrong_for_a_while(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    given = source(tmp_path, sender.port)
    with open_stream(given, listeners):
        kept = socket.create_connection(("127.0.0.1", sender.port), timeout=PATIENCE_S)
        kept.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert kept.recv(4096).startswith(b"HTTP/1.1 4"), "the listener has not accepted the connection"
    wrong = source(tmp_path, sender.port, ssl={"certificate": "no", "key": "no"})
    with pytest.raises(SinkqlError) as caught, open_stream(wrong, listeners):
        pass
    assert _refused(caught) == ("SQ4482", False)
    with closing(kept):
        while kept.recv(4096):  # until it is closed, because the certificate has changed
            pass
    with open_stream(given, listeners) as stream:
        assert sender.send(_PATH, "a").status == 200
        assert bodies(received(stream, 1)) == ["a"]


def test_another_certificate_on_a_port(tmp_path: Path, sender: Sender, listeners: WebhookServers) -> None:
    other = source(tmp_path, sender.port, "t", ssl={"certificate": "no", "key": "no"})
    with (
        open_stream(source(tmp_path, sender.port), listeners),
        pytest.raises(SinkqlError) as caught,
        open_stream(other, listeners),
    ):
        pass
    assert _refused(caught) == ("SQ4481", True)


def test_a_disk_that_fails(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in armed("journal-written#2=fail").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(failpoint, "_passes", type(failpoint._passes)())
    given = source(tmp_path, sender.port)
    with open_stream(given, listeners) as stream:
        assert [sender.send(_PATH, each).status for each in "abc"] == [200, 503, 503]
        assert bodies(received(stream, 1)) == ["a"]
        with pytest.raises(SinkqlError) as caught:
            stream.receive(1)
    assert _refused(caught) == ("SQ4484", True)
    with open_stream(given, listeners) as stream:
        assert sender.send(_PATH, "d").status == 200
        assert bodies(received(stream, 2)) in (["a", "d"], ["a", "b", "d"]), "b was not answered with 200"


def test_a_disk_that_is_full_when_the_request_log_is_opened(
    tmp_path: Path, sender: Sender, listeners: WebhookServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_LEFT_SECONDS", 0.0)  # unused listeners are closed immediately
    given = source(tmp_path, sender.port)
    with open_stream(given, listeners):
        pass
    files = _open_below(tmp_path)
    monkeypatch.setattr(server, "_LEFT_SECONDS", 60.0)
    with monkeypatch.context() as full:
        full.setattr(RequestLog, "_begin", _full)
        with pytest.raises(SinkqlError) as caught, open_stream(given, listeners):
            pass
    assert _refused(caught) == ("SQ4484", True)
    assert _open_below(tmp_path) == files
    assert sender.send(_PATH, "a").status == 503, "the port does not answer a sender that retries"


def _open_below(folder: Path) -> list[str]:
    """Return the open files of a folder; other threads open and close files elsewhere."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(each for each in found if each.startswith(str(folder)))


def _full(request_log: RequestLog) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_process_that_was_stopped_answers_nobody(
    tmp_path: Path, sender: Sender, other: Sender, listeners: WebhookServers
) -> None:
    given = source(tmp_path, sender.port)
    with open_stream(source(tmp_path, other.port), listeners) as old, open_stream(given, listeners) as stream:
        assert other.send(_PATH, "lost").status == 503
        with pytest.raises(SinkqlError) as caught:
            old.receive(1)
        assert _refused(caught) == ("SQ4485", True)
        assert sender.send(_PATH, "a").status == 200
        assert bodies(received(stream, 1)) == ["a"]
    with open_stream(given, listeners, after=BEGINNING) as stream:
        assert sender.send(_PATH, "b").status == 200
        assert bodies(received(stream, 2)) == ["a", "b"]


@pytest.mark.parametrize("damage", ["gone", "folder", "middle"])
def test_requests_that_are_lost_are_missed(
    damage: str, tmp_path: Path, sender: Sender, listeners: WebhookServers
) -> None:
    given = source(tmp_path, sender.port)
    for body in "ab":
        with open_stream(given, listeners):
            assert [sender.send(_PATH, body).status for _ in range(2)] == [200, 200]
    folder = tmp_path / "s" / "journal"
    first = folder / f"{segments(folder)[0]:010}.journal"
    match damage:
        case "gone":
            first.unlink()
        case "folder":
            for number in segments(folder):
                (folder / f"{number:010}.journal").unlink()
        case _:
            data = bytearray(first.read_bytes())
            data[40] ^= 1
            first.write_bytes(bytes(data))
    with pytest.raises(SinkqlError) as caught, open_stream(given, listeners, after=f"{1:016X}"):
        pass
    assert _refused(caught) == ("SQ4483", False)


def test_a_frame_that_is_torn_was_never_answered(tmp_path: Path) -> None:
    request_log, before = RequestLog.open(tmp_path)
    assert before == []
    request_log.append([Request(1, ["a"])])
    request_log.append([Request(2, ["b"])])
    request_log.close()
    path = tmp_path / f"{segments(tmp_path)[0]:010}.journal"
    whole = path.read_bytes()
    for size in range(len(whole) - 1, len(whole) - 10, -1):
        path.write_bytes(whole[:size])
        for later in segments(tmp_path)[1:]:
            (tmp_path / f"{later:010}.journal").unlink()
        again, before = RequestLog.open(tmp_path)
        again.close()
        assert (before, again.end) == ([Request(1, ["a"])], 1)


def test_a_request_log_is_taken_over_at_any_time(tmp_path: Path) -> None:
    old, _ = RequestLog.open(tmp_path)
    old.append([Request(1, ["a"])])
    new, before = RequestLog.open(tmp_path)
    assert before == [Request(1, ["a"])]
    with pytest.raises(FencedRequestLogError):
        old.append([Request(2, ["lost"])])
    assert new.append([Request(3, ["b"])]) == 2
    last, before = RequestLog.open(tmp_path)
    assert before == [Request(1, ["a"]), Request(3, ["b"])]
    last.forget(2)
    with pytest.raises(FencedRequestLogError):
        old.append([Request(2, ["lost"])])
