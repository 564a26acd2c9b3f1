"""A proxy whose brokers cannot be reached, as its clients see it."""

from __future__ import annotations

import socket
import time

import pytest

from sinkql.connectors.kafka import ssh_proxy
from support.port import free_ports


def test_a_connection_to_a_broker_that_is_gone_stays_open_so_that_its_client_does_not_come_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ssh_proxy, "_LEAST_S", 60)
    (port,) = free_ports(1)
    broker = ("127.0.0.1", port)
    found = ssh_proxy.Proxy(ssh_proxy.Routes((broker,), (), None))
    host, _, own = found.bootstrap.partition(":")
    with socket.create_connection((host, int(own))) as client:
        deadline = time.monotonic() + 30
        while found.connection_error() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert found.connection_error() is not None
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
