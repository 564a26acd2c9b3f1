"""A TLS proxy in front of a Postgres server without TLS: it accepts the SSL request, and forwards decrypted bytes."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.patience import PATIENCE_S

_REQUEST = 8


@contextmanager
def tls_front(port: int, identity: Path) -> Iterator[int]:
    """Listen with TLS until the block ends, in front of the server on `port`; yield the proxy's port.

    The file with certificate and key is read for each connection.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=_accept, args=(listener, identity, port))
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(PATIENCE_S)


def _accept(listener: socket.socket, identity: Path, port: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, identity, port), daemon=True).start()


def _serve(client: socket.socket, identity: Path, port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity)
    with client, suppress(OSError):
        client.recv(_REQUEST)
        client.sendall(b"S")
        with (
            context.wrap_socket(client, server_side=True) as inner,
            socket.create_connection(("127.0.0.1", port)) as server,
        ):
            back = threading.Thread(target=_copy, args=(server, inner), daemon=True)
            back.start()
            _copy(inner, server)
            back.join(PATIENCE_S)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
