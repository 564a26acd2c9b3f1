"""Streams of webhooks without a capture: sources, tables and received rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from sinkql import physical
from sinkql.connector_api.cdc import CapturedSource, CapturedTable, RowsChanged
from sinkql.connectors.webhook.request import Layout
from sinkql.connectors.webhook.server import WebhookServers
from sinkql.connectors.webhook.stream import WebhookStream
from sinkql.logical.type import TEXT
from support.patience import Deadline

BEGINNING = f"{0:016X}"


def source(folder: Path, port: int, name: str = "s", **options: Any) -> CapturedSource:
    """Return a source as a capture gets it; `ssl` holds the texts of a certificate and its key."""
    ssl = options.pop("ssl", None)
    secret = {each: {"secret_text": [text]} for each, text in ssl.items()} if ssl else None
    tuning = {"address": "127.0.0.1", "port": port, "ssl": secret, "check": None, "max_body": 1000, **options}
    full_name = f"materialize.public.{name}"
    return CapturedSource(f"id-{name}", full_name, "WEBHOOK", None, {"tuning": tuning}, folder / name)


def table(layout: Layout | None = None, *columns: physical.Column) -> CapturedTable:
    """Return the captured table of a source; without arguments, its bodies are texts."""
    layout = layout or Layout("text")
    columns = columns or (physical.Column("body", TEXT, False),)
    return CapturedTable("requests", ("requests",), columns, (), options=msgspec.to_builtins(layout), pushed=True)


@contextmanager
def open_stream(
    given: CapturedSource, listeners: WebhookServers, *, after: str | None = None, table: CapturedTable | None = None
) -> Iterator[WebhookStream]:
    """Yield a stream that has begun at `after`, or else at the confirmed position."""
    stream = WebhookStream(given, lambda name: f"secret {name}", listeners)
    try:
        stream.check()
        start = stream.create() if after is None else after
        stream.begin(start, [table or _TABLE])
        yield stream
    finally:
        stream.close()


_TABLE = table()


def received(stream: WebhookStream, count: int) -> list[dict[str, Any]]:
    """Return at least the next `count` rows."""
    found: list[dict[str, Any]] = []
    deadline = Deadline()
    while len(found) < count:
        deadline.check(f"{count} rows: {found}")
        for event in stream.receive(0.1):
            assert isinstance(event, RowsChanged)
            for parts in event.tables.values():
                found += [row for part in parts for row in part.rows.to_pylist()]
    return found


def bodies(rows: Sequence[dict[str, Any]]) -> list[Any]:
    return [row["body"] for row in rows]
