"""A port reserved by a test can be used only by its server, before and after the server listens."""

from __future__ import annotations

import socket

import pytest

from support.port import held_ports


def _listen(port: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen()
    return server


def test_a_held_port_is_its_servers_alone() -> None:
    with held_ports(1) as (port,):
        for _ in range(2):
            with _listen(port), socket.create_connection(("127.0.0.1", port)):
                pass
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
