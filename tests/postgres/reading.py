"""Read a publication of a real server through SinkQL's stream."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.cdc import (
    CapturedSource,
    CapturedTable,
    Event,
    LogFiles,
    PositionAdvanced,
    RowsChanged,
    TableRows,
)
from sinkql.connectors.postgres.client import Login, failure
from sinkql.connectors.postgres.connection import PostgresConnection
from sinkql.connectors.postgres.facts import find
from sinkql.connectors.postgres.publication import publication_facts
from sinkql.connectors.postgres.stream import PostgresStream
from sinkql.connectors.postgres.type import ServerTable, table_json
from sinkql.logical.type import UNKNOWN
from support.patience import Deadline
from support.postgres import Postgres


def login(server: Postgres, database: str, **more: Any) -> Login:
    return login_at(server.port, database, **more)


def login_at(port: int, database: str, **more: Any) -> Login:
    options = {"host": "127.0.0.1", "port": port, "database": database, "user": {"secret_text": ["postgres"]}}
    planned = PostgresConnection.from_plan({**options, "ssl_mode": "disable", **more})
    return Login("c", planned, lambda name: name)


def tables(server: Postgres, database: str, as_text: Iterable[str] = ()) -> dict[str, CapturedTable]:
    """Return the tables of publication p by name; columns with these names are read as text."""
    found = publication_facts(find(login(server, database), "p"))
    assert found is not None
    return {each.name: captured(each, frozenset(as_text)) for each in found.tables}


def captured(table: ServerTable, as_text: frozenset[str] = frozenset()) -> CapturedTable:
    columns = tuple(msgspec.structs.replace(each, as_text=each.name in as_text) for each in table.columns)
    table = msgspec.structs.replace(table, columns=columns)
    own = tuple(physical.Column(each.name, each.sql_type or UNKNOWN, each.nullable) for each in columns)
    holes = table.identity != "full" and any(each.long for each in columns)
    return CapturedTable(table.name, (table.schema, table.name), own, table.key, holes, table_json(table))


class Reading:
    """A stream that has started at its slot, and its events."""

    def __init__(
        self,
        server: Postgres,
        database: str,
        of: Mapping[str, CapturedTable],
        id_: str | None = None,
        notes: LogFiles | None = None,
    ) -> None:
        options = {"publication": "p", "tuning": {}}
        self.source = CapturedSource(id_ or str(uuid.uuid4()), "db.public.s", "postgres", None, options, notes=notes)
        self.tables = of
        self.stream = PostgresStream(login(server, database), self.source, failure)
        self.stream.check()
        self.start = self.stream.create()
        self.events: list[Event] = []

    def begin(self, after: str | None = None, stops: Sequence[str] = ()) -> None:
        self.stream.begin(after or self.start, list(self.tables.values()), stops)

    def read(self) -> list[Event]:
        """Return the events up to the server's present position."""
        end, found, deadline = self.stream.end(), list[Event](), Deadline()
        while True:
            events = self.stream.receive(0.05)
            found += events
            if any(each.to >= end for each in events if isinstance(each, RowsChanged | PositionAdvanced)):
                self.events += found
                return [each for each in found if not isinstance(each, PositionAdvanced)]
            deadline.check("the end of the server's log")

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the changed rows of a table up to now, without their times."""
        return [row for rows in self.changes(table) for row in shown(rows.rows)]

    def changes(self, table: str) -> list[TableRows]:
        return [rows for each in self.read() if isinstance(each, RowsChanged) for rows in each.tables.get(table, ())]


def shown(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    rows.validate(full=True)
    return [{name: value for name, value in row.items() if name != "$at"} for row in rows.to_pylist()]


@contextmanager
def reading(server: Postgres, database: str, as_text: Iterable[str] = ()) -> Iterator[Reading]:
    """Read publication p from its present position."""
    found = Reading(server, database, tables(server, database, as_text))
    try:
        found.begin()
        yield found
    finally:
        found.stream.close()
