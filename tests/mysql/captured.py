"""Captured tables and sources of a MariaDB server, and the events of their streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sinkql import physical
from sinkql.connector_api.cdc import CapturedSource, CapturedTable, Event, PositionAdvanced, RowsChanged
from sinkql.connectors.mysql.stream import MySqlStream, open_stream
from sinkql.connectors.mysql.type import parse_declaration, sql_type
from sinkql.logical.type import parse_type
from support.mariadb import PASSWORD, MariaDb
from support.patience import Deadline


def table_of(server: MariaDb, database: str, name: str, *, text: Sequence[str] = ()) -> CapturedTable:
    """Return a captured table, planned from the server's schema; columns in `text` are read as text."""
    columns = server.rows(
        "SELECT column_name, column_type, is_nullable, column_key FROM information_schema.columns "
        f"WHERE table_schema = '{database}' AND table_name = '{name}' ORDER BY ordinal_position"
    )
    types = {
        column: "text" if column in text else sql_type(parse_declaration(type_)) for column, type_, _, _ in columns
    }
    key = server.rows(
        "SELECT column_name FROM information_schema.key_column_usage WHERE constraint_name = 'PRIMARY' "
        f"AND table_schema = '{database}' AND table_name = '{name}' ORDER BY ordinal_position"
    )
    return CapturedTable(
        f"{database}.{name}",
        (database, name),
        tuple(
            physical.Column(column, parse_type(types[column] or ""), null == "YES") for column, _, null, _ in columns
        ),
        tuple(each[0] for each in key),
        options={"declared": {column: type_ for column, type_, _, _ in columns}},
    )


def text(value: str) -> dict[str, list[str]]:
    """Return a text in the form in which plans hold secret values."""
    return {"secret_text": [value]}


def source_of(server: MariaDb, name: str = "source") -> CapturedSource:
    """Return a source that connects as the user `reader`."""
    options = {
        "ssl_mode": "disabled",
        "host": "127.0.0.1",
        "port": server.port,
        "user": text("reader"),
        "password": text(PASSWORD),
    }
    return CapturedSource("s1", name, "MYSQL", physical.Connection("my", "MYSQL", options))


@contextmanager
def stream_of(server: MariaDb, name: str = "source") -> Iterator[MySqlStream]:
    """Yield a stream that has not begun."""
    stream = open_stream(source_of(server, name), lambda secret: secret)
    try:
        yield stream
    finally:
        stream.close()


def received(stream: MySqlStream, until: str, each: Callable[[Event], None]) -> None:
    """Pass events to a function until a position is reached."""
    deadline, there = Deadline(), ""
    while there < until:
        deadline.check(until)
        for event in stream.receive(1):
            each(event)
            if isinstance(event, RowsChanged | PositionAdvanced):
                there = event.to
