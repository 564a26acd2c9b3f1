"""A statement that takes several steps → its intent, written before the first and closed after the last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from sinkql.catalog.file import schema
from sinkql.catalog.file.database import Database
from sinkql.catalog.file.process import Process, now, this_process

_KEPT_DONE = 1000


@dataclass(frozen=True, slots=True)
class Intent:
    """What a process set out to do, as JSON-able `content`."""

    number: int
    what: str
    content: Mapping[str, Any]
    process: Process


class Journal:
    """Keep intents in the catalog file, so that what a killed process began is finished by the next one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, what: str, content: Mapping[str, Any]) -> int:
        """Write an intent and return its number."""
        process = this_process()
        with self._database.write() as connection:
            result = connection.execute(
                schema.journal.insert().values(
                    intent=what,
                    content=json.dumps(content),
                    host=process.host,
                    pid=process.pid,
                    process=process.start,
                    started_at=now(),
                )
            )
            key = result.inserted_primary_key
            assert key is not None
            return int(key[0])

    def done(self, number: int) -> None:
        """Close an intent."""
        table = schema.journal
        with self._database.write() as connection:
            connection.execute(table.update().where(table.c.number == number).values(done_at=now()))
            old = sa.and_(table.c.done_at.is_not(None), table.c.number <= number - _KEPT_DONE)
            connection.execute(table.delete().where(old))

    def adopt(self) -> list[Intent]:
        """Return the open intents whose processes are gone, now this process's own."""
        table, process = schema.journal, this_process()
        if not self._open():
            return []
        with self._database.write() as connection:
            stale = [intent for intent in _intents(connection) if intent.process.gone()]
            connection.execute(
                table.update()
                .where(table.c.number.in_([intent.number for intent in stale]))
                .values(host=process.host, pid=process.pid, process=process.start)
            )
        return stale

    def _open(self) -> bool:
        with self._database.read() as connection:
            return bool(_intents(connection))


def _intents(connection: sa.Connection) -> list[Intent]:
    table = schema.journal
    rows = connection.execute(sa.select(table).where(table.c.done_at.is_(None)).order_by(table.c.number))
    return [
        Intent(row.number, row.intent, json.loads(row.content), Process(row.host, row.pid, row.process)) for row in rows
    ]
