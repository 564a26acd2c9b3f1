"""Brokers and registries behind SSH servers, which cannot be reached directly, in statements and in tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka.pipeline import Pipeline
from sinkql.connectors.kafka import admin
from sinkql.errors import SinkqlError
from support.authority import authority
from support.kafka import PASSWORD, USER, Kafka, another, kafka
from support.port import free_ports
from support.registry import stub_registry
from support.ssh import SshServer, ssh_server

pytestmark = pytest.mark.server
_DOMAIN = "inner.invalid"


@pytest.fixture(scope="module")
def inner() -> Iterator[Kafka]:
    """Return the first of two brokers, whose advertised names do not resolve outside of the tunnel."""
    with kafka(_DOMAIN) as first, another(first):
        yield first


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    monkeypatch.chdir(tmp_path)
    with ssh_server(_DOMAIN) as found:
        yield found


@pytest.fixture
def behind(ssh: SshServer, inner: Kafka, tmp_path: Path) -> Iterator[Pipeline]:
    """Return a catalog with the tunnel `ssh` and the secrets of the brokers behind it."""
    identity = inner.identity.read_text()
    own = identity.index("-----BEGIN CERTIFICATE")
    Path("own.pem").write_text(identity[own:])
    Path("key.pem").write_text(identity[:own])
    with Pipeline.at(inner, tmp_path) as found:
        found.run(
            f"CREATE SECRET password AS '{PASSWORD}'; CREATE SECRET ca AS file('{inner.trusted}'); "
            "CREATE SECRET own AS file('own.pem'); CREATE SECRET own_key AS file('key.pem'); "
            f"CREATE CONNECTION ssh TO SSH TUNNEL (HOST '127.0.0.1', PORT {ssh.port}, USER 'tunnel');"
        )
        (keys,) = found.session.execute("SELECT public_key_1 FROM mz_catalog.mz_ssh_tunnel_connections;")
        ssh.authorize(keys.rows[0][0])
        yield found


_LOGIN = f"SASL MECHANISMS 'PLAIN', SASL USERNAME '{USER}', SASL PASSWORD SECRET password"
_TLS = "SSL CERTIFICATE AUTHORITY SECRET ca"
_PROTOCOLS = {
    "SASL_PLAINTEXT": (2, _LOGIN),
    "SSL": (3, f"{_TLS}, SSL CERTIFICATE SECRET own, SSL KEY SECRET own_key"),
    "SASL_SSL": (4, f"{_LOGIN}, {_TLS}"),
}


def _address(inner: Kafka, protocol: str) -> str:
    return f"broker-1.{_DOMAIN}:{inner.ports[_PROTOCOLS[protocol][0]]}"


def _connect(behind: Pipeline, protocol: str, broker: str) -> None:
    more = _PROTOCOLS[protocol][1]
    behind.run(f"CREATE CONNECTION far TO KAFKA ({broker}, SECURITY PROTOCOL '{protocol}', {more});")


def _refused(behind: Pipeline, protocol: str, broker: str) -> SinkqlError:
    with pytest.raises(SinkqlError) as caught:
        _connect(behind, protocol, broker)
    return caught.value


@pytest.mark.parametrize(
    "protocol", [pytest.param(each, marks=() if each == "SASL_SSL" else pytest.mark.soak) for each in _PROTOCOLS]
)
def test_brokers_that_brokers_name_are_behind_the_tunnel_too(
    protocol: str, behind: Pipeline, inner: Kafka, ssh: SshServer
) -> None:
    """One sink reads a topic that both brokers lead, another sink writes one; the SSH server disconnects in between."""
    topic = inner.topic(name=f"read-{protocol}", brokers=[[1], [2]])
    inner.send(topic, "a")
    inner.send(topic, "b", partition=1)
    _connect(behind, protocol, f"BROKER '{_address(inner, protocol)}', SSH TUNNEL ssh")
    behind.run(f"CREATE SOURCE s FROM KAFKA CONNECTION far (TOPIC '{topic}') FORMAT TEXT;")
    behind.run("CREATE TABLE t (id integer PRIMARY KEY, name text); INSERT INTO t VALUES (1, 'x');")
    behind.run(
        f"CREATE SINK t_sink FROM t INTO KAFKA CONNECTION far (TOPIC 'written-{protocol}') KEY (id) FORMAT JSON "
        "ENVELOPE UPSERT;"
    )
    behind.sink("s")
    behind.drain("s")
    behind.drain("t")
    ssh.hang_up()
    inner.send(topic, "c", partition=1)
    behind.run("INSERT INTO t VALUES (2, 'y');")
    behind.drain("s")
    behind.drain("t")
    assert behind.rows("s") == [("a",), ("b",), ("c",)]
    written = inner.committed(f"written-{protocol}", inner.ends(f"written-{protocol}"))
    assert {(each.key(), each.value()) for each in written} == {
        (b'{"id":1}', b'{"id":1,"name":"x"}'),
        (b'{"id":2}', b'{"id":2,"name":"y"}'),
    }
    assert {host for host, _ in ssh.forwarded} == {f"broker-1.{_DOMAIN}", f"broker-2.{_DOMAIN}"}


def test_each_broker_has_its_own_way(behind: Pipeline, inner: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker with a tunnel refers to a broker without one, which cannot be reached."""
    topic = inner.topic(name="own-way", brokers=[[2]])
    inner.send(topic, "a")
    _connect(behind, "SSL", f"BROKERS ('{_address(inner, 'SSL')}' USING SSH TUNNEL ssh)")
    monkeypatch.setattr(admin, "_PATIENCE_S", 4.0)
    with pytest.raises(SinkqlError) as caught:
        behind.run(f"CREATE SOURCE s FROM KAFKA CONNECTION far (TOPIC '{topic}', START TIMESTAMP 1) FORMAT TEXT;")
    assert (caught.value.code, f"broker-2.{_DOMAIN}" in caught.value.message) == ("SQ4270", True)


def test_what_keeps_a_broker_from_being_reached_is_told(behind: Pipeline, inner: Kafka, ssh: SshServer) -> None:
    (closed,) = free_ports(1)
    found = _refused(behind, "SSL", f"BROKER 'broker-1.{_DOMAIN}:{closed}', SSH TUNNEL ssh")
    assert (found.code, f"broker-1.{_DOMAIN}:{closed}" in found.message) == ("SQ4422", True)
    plain = f"broker-1.{_DOMAIN}:{inner.ports[0]}"
    assert _refused(behind, "SSL", f"BROKER '{plain}' USING SSH TUNNEL ssh").code == "SQ4273"
    stranger = f"stranger.{_DOMAIN[: _DOMAIN.index('.')]}.x.{_DOMAIN}:{inner.ports[3]}"
    assert _refused(behind, "SSL", f"BROKER '{stranger}', SSH TUNNEL ssh").code == "SQ4272"
    behind.run("ALTER SECRET own_key AS 'nonsense';")
    assert _refused(behind, "SSL", f"BROKER '{_address(inner, 'SSL')}', SSH TUNNEL ssh").code == "SQ4276"
    ssh.authorized.clear()
    ssh.hang_up()
    assert _refused(behind, "SASL_SSL", f"BROKER '{_address(inner, 'SASL_SSL')}', SSH TUNNEL ssh").code == "SQ4421"


def test_nobody_else_of_this_machine_comes_through(
    behind: Pipeline, inner: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    found = _refused(behind, "SASL_PLAINTEXT", f"BROKER '{_address(inner, 'SASL_PLAINTEXT')}', SSH TUNNEL ssh")
    assert found.code in ("SQ4270", "SQ4273")


def test_a_tunnel_that_brokers_are_behind_may_get_another_name_and_not_go(behind: Pipeline, inner: Kafka) -> None:
    _connect(behind, "SSL", f"BROKERS ('{_address(inner, 'SSL')}' USING SSH TUNNEL ssh)")
    with pytest.raises(SinkqlError) as caught:
        behind.run("DROP CONNECTION ssh;")
    assert "far" in caught.value.shown()
    behind.run("ALTER CONNECTION ssh RENAME TO bastion; VALIDATE CONNECTION far;")
    (shown,) = behind.session.execute("SHOW CREATE CONNECTION far;")
    assert "USING SSH TUNNEL materialize.public.bastion" in shown.rows[0][1]


def test_schemas_come_through_a_tunnel(pipeline: Pipeline, broker: Kafka, tmp_path: Path) -> None:
    topic = broker.topic()
    trusted, identity = authority(tmp_path)
    with ssh_server() as ssh, stub_registry(identity) as registry:
        schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
        number = registry.register(f"{topic}-value", json.dumps(schema))
        broker.send(topic, b"\0" + number.to_bytes(4, "big") + b"\x0e")
        pipeline.run(f"CREATE CONNECTION ssh TO SSH TUNNEL (HOST '127.0.0.1', PORT {ssh.port}, USER 'tunnel');")
        (keys,) = pipeline.session.execute("SELECT public_key_1 FROM mz_catalog.mz_ssh_tunnel_connections;")
        ssh.authorize(keys.rows[0][0])
        pipeline.run(
            f"CREATE SECRET ca AS file('{trusted}'); CREATE CONNECTION registry TO CONFLUENT SCHEMA REGISTRY "
            f"(URL '{registry.url}', SSH TUNNEL ssh, SSL CERTIFICATE AUTHORITY SECRET ca);"
        )
        pipeline.source("r", "", topic, "FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry")
        pipeline.sink("r")
        ssh.forwarded.clear()
        registry.asked.clear()
        pipeline.drain("r")
        assert pipeline.rows("r") == [(7,)]
        assert registry.asked == [f"/schemas/ids/{number}"]
        host, port = registry.url.removeprefix("https://").split(":")
        assert set(ssh.forwarded) == {(host, int(port))}
