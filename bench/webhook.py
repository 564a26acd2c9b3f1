"""Measure requests to a webhook: requests and rows per second, and per CPU-second of the receiving process.

The senders are threads of another process, each with a separate connection. The request log is in the temporary folder,
and a request is answered only once the disk has it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from sinkql.logical.type import JSONB


def main() -> None:
    """Measure requests with one row, and with many."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=20_000)
    arguments.add_argument("--senders", type=int, default=16)
    arguments.add_argument("--attacks", action="store_true", help="measure how long a valid request waits")
    given = arguments.parse_args()
    if given.attacks:
        from bench import webhook_attack

        webhook_attack.main()
        return
    print(f"{'rows a request':>14} {'requests/s':>12} {'requests/CPU-s':>15} {'rows/CPU-s':>12}")
    for rows in (1, 100, 1000):
        count = max(given.senders, given.requests // rows)
        wall, cpu = _measure(count, rows, given.senders)
        print(f"{rows:14} {count / wall:12,.0f} {count / cpu:15,.0f} {count * rows / cpu:12,.0f}", flush=True)


def _measure(count: int, rows: int, senders: int) -> tuple[float, float]:
    """Return the wall and CPU seconds of `count` requests, until a capture has their rows in Arrow."""
    from sinkql import physical
    from sinkql.connectors.webhook.request import Layout
    from sinkql.connectors.webhook.server import WebhookServers
    from support.port import free_ports
    from webhook.sending import path_of
    from webhook.streams import open_stream, source, table

    port = free_ports(1)[0]
    here, there = multiprocessing.Pipe()
    others = multiprocessing.get_context("fork").Process(
        target=_send, args=(there, port, path_of("s"), count // senders, rows, senders)
    )
    others.start()
    given = table(Layout("json"), physical.Column("body", JSONB, False))
    with (
        tempfile.TemporaryDirectory() as folder,
        WebhookServers() as listeners,
        open_stream(source(Path(folder), port, max_body=1 << 20), listeners, table=given) as stream,
    ):
        came, wall, cpu = 0, time.perf_counter(), time.process_time()
        here.send("go")
        while came < count // senders * senders * rows:
            came += sum(
                part.rows.num_rows
                for event in stream.receive(0.1)
                for parts in event.tables.values()  # type: ignore[union-attr]  # a webhook only emits changes
                for part in parts
            )
        taken = time.perf_counter() - wall, time.process_time() - cpu
    others.join()
    return taken


def _send(told: Connection, port: int, path: str, count: int, rows: int, senders: int) -> None:
    row = json.dumps(
        {"id": 123456, "type": "order.created", "amount": 12.5, "customer": "c-998877", "at": "2026-01-01"}
    )
    body = "\n".join([row] * rows)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: bench\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    def send() -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(count):
                connection.sendall(request)
                answer = connection.recv(4096)
                if b" 200 " not in answer[:16]:
                    raise RuntimeError(answer)

    told.recv()
    threads = [threading.Thread(target=send) for _ in range(senders)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


if __name__ == "__main__":
    main()
