"""A rogue server at HOST gets no password, neither as text nor encrypted with the server's key."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sinkql.connectors.mysql.connection import connect
from sinkql.connectors.mysql.options import MySqlConnection
from sinkql.errors import SinkqlError
from support.authority import authority

_PASSWORD = "SuperSecret42"
_KEY = rsa.generate_private_key(65537, 2048).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
_SALT = b"A" * 8 + b"B" * 12
_WAYS: dict[str, tuple[str, tuple[bytes, ...]]] = {
    "clear": ("mysql_native_password", (b"\xfemysql_clear_password\0",)),
    "dialog": ("mysql_native_password", (b"\xfedialog\0\x04Password: ",)),
    "old": ("mysql_native_password", (b"\xfemysql_old_password\0" + b"C" * 8 + b"\0",)),
    "caching, after the fast way": ("caching_sha2_password", (b"\x01\x04", b"\x01" + _KEY)),
    "caching, switched": (
        "mysql_native_password",
        (b"\xfecaching_sha2_password\0" + _SALT + b"\0", b"\x01\x04", b"\x01" + _KEY),
    ),
    "sha256": ("sha256_password", (b"\x01" + _KEY,)),
    "sha256, switched": ("mysql_native_password", (b"\xfesha256_password\0" + _SALT + b"\0", b"\x01" + _KEY)),
}
"""The authentication plugin that the server names first, and its answers, one packet each."""


def _packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


class _Rogue:
    """A server that answers all connections alike and stores the data it receives; with TLS if it has a certificate."""

    def __init__(self, plugin: str, answers: Sequence[bytes], context: ssl.SSLContext | None = None) -> None:
        self.got: list[bytes] = []
        self._plugin, self._answers, self._context = plugin, answers, context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                self._answer(client)

    def _answer(self, client: Any) -> None:
        flags = 0x1 | 0x2 | 0x8 | 0x200 | 0x8000 | 0x80000 | (0x800 if self._context else 0)
        client.sendall(
            _packet(
                0,
                b"\x0a8.0.36\0" + struct.pack("<I", 1) + _SALT[:8] + b"\0" + struct.pack("<H", flags & 0xFFFF)
                + b"\x21" + struct.pack("<H", 2) + struct.pack("<H", flags >> 16) + bytes([21]) + b"\0" * 10
                + _SALT[8:] + b"\0" + self._plugin.encode() + b"\0",
            )
        )  # fmt: skip
        number = self._read(client)
        if number is not None and self._context is not None:
            try:
                client = self._context.wrap_socket(client, server_side=True)
            except OSError:
                return
            number = self._read(client)
        for each in self._answers:
            if number is None:
                return
            client.sendall(_packet(number + 1, each))
            number = self._read(client)

    def _read(self, client: Any) -> int | None:
        try:
            head = client.recv(4, socket.MSG_WAITALL) if self._context is None else client.recv(4)
            if len(head) < 4:
                return None
            left = head[0] | head[1] << 8 | head[2] << 16
            while left:
                part = client.recv(left)
                self.got.append(part)
                left -= len(part)
        except OSError:
            return None
        return int(head[3])


@contextmanager
def _rogue(way: str, context: ssl.SSLContext | None = None) -> Iterator[_Rogue]:
    found = _Rogue(*_WAYS[way], context)
    try:
        yield found
    finally:
        found.close()


def _refused(rogue: _Rogue, **more: Any) -> SinkqlError:
    options = {
        "host": "127.0.0.1", "port": rogue.port, "user": {"secret_text": ["u"]},
        "password": {"secret_text": [_PASSWORD]}, "ssl_mode": "preferred", **more,
    }  # fmt: skip
    with pytest.raises(SinkqlError) as raised:
        connect(MySqlConnection.from_plan(options), lambda name: name, name="m")
    return raised.value


@pytest.mark.parametrize("mode", ["preferred", "disabled"])
@pytest.mark.parametrize("way", _WAYS)
def test_password_goes_to_nobody_without_tls(way: str, mode: str) -> None:
    with _rogue(way) as rogue:
        assert _refused(rogue, ssl_mode=mode).code == "SQ4471"
    assert rogue.got
    assert _PASSWORD.encode() not in b"".join(rogue.got)
    assert max(map(len, rogue.got)) < 256, "the client sent data encrypted with the 2,048-bit key"


@pytest.mark.parametrize("mode", ["preferred", "required"])
@pytest.mark.parametrize("way", ["clear", "dialog"])
def test_password_itself_goes_to_nobody_whose_certificate_is_not_checked(way: str, mode: str, tmp_path: Path) -> None:
    with _rogue(way, _context(tmp_path)) as rogue:
        assert _refused(rogue, ssl_mode=mode).code == "SQ4471"
    assert len(rogue.got) >= 2
    assert _PASSWORD.encode() not in b"".join(rogue.got)


@pytest.mark.parametrize("mode", ["preferred", "required", "verify_identity"])
def test_tls_that_cannot_be_agreed_on_is_no_matter_of_certificates(mode: str) -> None:
    with _rogue("clear", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) as rogue:  # no certificate, so no cipher suits
        error = _refused(rogue, ssl_mode=mode)
    message = f"could not negotiate TLS with MySQL server 127.0.0.1:{rogue.port}"
    assert (error.code, error.message) == ("SQ4462", message)
    assert error.hint == "Update the server's TLS, or set SSL MODE = 'disabled'."


def _context(folder: Path) -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(authority(folder)[1])
    return found
