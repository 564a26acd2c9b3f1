"""A statement that takes several steps → its intent, written before the first and closed after the last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sinkql.catalog.file.connection import Connection
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
            values = {"intent": what, "content": json.dumps(content), "started_at": now(), **_columns(process)}
            return connection.insert("journal", values)

    def done(self, number: int) -> None:
        """Close an intent."""
        with self._database.write() as connection:
            connection.update("journal", {"done_at": now()}, "number = ?", number)
            old = "done_at IS NOT NULL AND number <= ?"
            connection.execute(f"DELETE FROM journal WHERE {old}", (number - _KEPT_DONE,))

    def adopt(self) -> list[Intent]:
        """Return the open intents whose processes are gone, now this process's own."""
        process = this_process()
        if not self._open():
            return []
        with self._database.write() as connection:
            stale = [intent for intent in _intents(connection) if intent.process.gone()]
            for intent in stale:
                connection.update("journal", _columns(process), "number = ?", intent.number)
        return stale

    def _open(self) -> bool:
        with self._database.read() as connection:
            return bool(_intents(connection))


def _columns(process: Process) -> dict[str, object]:
    return {"host": process.host, "pid": process.pid, "process": process.start}


def _intents(connection: Connection) -> list[Intent]:
    rows = connection.all("SELECT * FROM journal WHERE done_at IS NULL ORDER BY number")
    return [
        Intent(row.number, row.intent, json.loads(row.content), Process(row.host, row.pid, row.process)) for row in rows
    ]
