"""Connections to a schema registry, a stub over HTTP: each failure has its code, at the option that causes it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sinkql.connectors.confluent.registry import Registry, UnknownSchemaError
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.authority import authority
from support.registry import StubRegistry, stub_registry

_CREATE = "CREATE CONNECTION c TO CONFLUENT SCHEMA REGISTRY ("


@pytest.fixture
def stub() -> Iterator[StubRegistry]:
    """Yield a stub of a registry."""
    with stub_registry() as stub:
        yield stub


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Yield a session with a correct and a wrong password."""
    with Session(tmp_path / "c.db") as session:
        session.execute("CREATE SECRET good AS 'opensesame'; CREATE SECRET bad AS 'wrong-wrong'")
        yield session


def refusal(session: Session, options: str) -> tuple[str, str]:
    """Return the error code of a connection with these options, and the text under the error's caret."""
    statement = f"{_CREATE}{options})"
    with pytest.raises(SinkqlError) as caught:
        session.execute(statement)
    span = caught.value.span
    assert span is not None
    assert "wrong-wrong" not in str(caught.value)
    assert "opensesame" not in str(caught.value)
    return caught.value.code, statement[span.start : span.end].split(" ")[0]


def client(stub: StubRegistry, **options: str) -> Registry:
    """Return a client of the stub."""
    texts = {name: {"secret_text": [text]} for name, text in options.items()}
    return Registry("m.p.c", {"url": stub.url, **texts}, str)


def test_connections_are_checked_when_they_are_created(stub: StubRegistry, session: Session) -> None:
    stub.login = "me", "opensesame"
    assert refusal(session, f"URL '{stub.url}', USER 'me', PASSWORD SECRET bad") == ("SQ4261", "PASSWORD")
    assert refusal(session, f"URL '{stub.url}'") == ("SQ4261", "CONFLUENT")
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert refusal(session, f"URL '{nobody}'") == ("SQ4260", "URL")
    assert refusal(session, f"URL '{stub.url}/below', USER 'me', PASSWORD SECRET good") == ("SQ4262", "URL")
    stub.statuses = [503]
    assert refusal(session, f"URL '{stub.url}', USER 'me', PASSWORD SECRET good")[0] == "SQ4265"
    session.execute(f"{_CREATE}URL '{stub.url}/', USERNAME 'me', PASSWORD SECRET good)")
    assert stub.asked[-1] == "/subjects"
    session.execute("VALIDATE CONNECTION c")


def test_certificates_are_verified(tmp_path: Path, session: Session) -> None:
    trusted, identity = authority(tmp_path)
    key, certificate = identity.read_text().split("-----BEGIN CERTIFICATE", 1)
    session.execute(f"CREATE SECRET key AS '{key}'")
    session.execute(f"CREATE SECRET own AS '-----BEGIN CERTIFICATE{certificate}'")
    session.execute(f"CREATE SECRET authority AS '{trusted.read_text()}'")
    with stub_registry(identity, clients=trusted) as stub:
        whole = f"URL '{stub.url}', SSL CERTIFICATE AUTHORITY SECRET authority"
        pair = "SSL CERTIFICATE SECRET own, SSL KEY SECRET key"
        assert refusal(session, f"URL '{stub.url}'") == ("SQ4263", "URL")
        assert refusal(session, whole)[0] in ("SQ4260", "SQ4263")  # depends on how much of the TLS close arrives
        wrong = refusal(session, f"{whole}, SSL CERTIFICATE SECRET own, SSL KEY SECRET bad")
        assert wrong == ("SQ4264", "SSL")
        assert refusal(session, f"URL '{stub.url}', SSL CERTIFICATE AUTHORITY SECRET bad") == ("SQ4264", "SSL")
        session.execute(f"{_CREATE}{whole}, {pair}); DROP CONNECTION c")
    with stub_registry() as plain:
        assert refusal(session, f"URL '{plain.url.replace('http', 'https')}'") == ("SQ4263", "URL")


def test_what_an_id_stands_for_is_asked_once(stub: StubRegistry) -> None:
    first = stub.register("a-value", {"type": "string"})
    second = stub.register("a-value", "syntax = 'proto3';", "PROTOBUF")
    registry = client(stub)
    assert [registry.schema(first).text for _ in range(3)] == ['{"type": "string"}'] * 3
    assert registry.schema(second).kind == "PROTOBUF"
    assert registry.latest("a-value").id == second
    assert stub.asked == ["/schemas/ids/1", "/schemas/ids/2", "/subjects/a-value/versions/latest"]


def test_references_come_after_those_that_they_name(stub: StubRegistry) -> None:
    stub.register("one", "1")
    stub.register("two", "2", references=(("ns.One", "one", 1),))
    id_ = stub.register("a/b ü", "3", references=(("ns.Two", "two", 1), ("ns.One", "one", 1)))
    registry = client(stub)
    assert list(registry.schema(id_).references.items()) == [("ns.One", "1"), ("ns.Two", "2")]
    assert registry.latest("a/b ü").references == registry.schema(id_).references


def test_a_request_that_is_lost_is_sent_again(stub: StubRegistry) -> None:
    id_ = stub.register("a", "1")
    registry = client(stub)
    stub.hang_up = 2
    assert registry.schema(id_).text == "1"
    stub.hang_up = 3
    with pytest.raises(SinkqlError) as caught:
        registry.latest("a")
    assert caught.value.code == "SQ4260"
    assert caught.value.retryable


@pytest.mark.parametrize("path", ["id", "subject", "version"])
def test_what_is_not_there_is_told_from_a_wrong_address(stub: StubRegistry, path: str) -> None:
    registry = client(stub)
    stub.register("known", "1", references=(("x", "known", 7),))
    with pytest.raises(UnknownSchemaError):
        {"id": lambda: registry.schema(9), "subject": lambda: registry.latest("other"),
         "version": lambda: registry.latest("known")}[path]()  # fmt: skip
