"""A server that accepts connections and never answers."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent() -> Iterator[tuple[str, queue.Queue[bytes]]]:
    """Start a server; yield its URL and a queue with the first request of each connection."""
    asked: queue.Queue[bytes] = queue.Queue()
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                    connections.append(connection)
                    asked.put(connection.recv(65536))
                except OSError:
                    return

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        server.shutdown(socket.SHUT_RDWR)
    for connection in connections:
        connection.close()
