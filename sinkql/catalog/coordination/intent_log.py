"""A statement that takes several steps → its intent, written before the first and closed after the last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sinkql.catalog.coordination.process import Process, now, this_process
from sinkql.catalog.store import Connection, Store

_KEPT_DONE = 1000
_LONGEST = timedelta(minutes=10)
"""How long a statement may take, for those who cannot see whether its process has ended."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a process set out to do, as JSON-able `content`."""

    number: int
    what: str
    content: Mapping[str, Any]
    process: Process
    started_at: str

    def left(self, *, elsewhere: bool) -> bool:
        """Tell whether its process is gone: certainly, or so far as one may judge that is not of this host."""
        if self.process.near(elsewhere=elsewhere):
            return self.process.gone(elsewhere=elsewhere)
        return datetime.now(UTC) - datetime.fromisoformat(self.started_at) > _LONGEST


class Journal:
    """Keep intents in the catalog, so that what a killed process began is finished by the next one."""

    def __init__(self, database: Store) -> None:
        self._database = database

    def begin(self, what: str, content: Mapping[str, Any]) -> int:
        """Write an intent and return its number."""
        process = this_process()
        with self._database.write() as connection:
            values = {"intent": what, "content": json.dumps(content), "started_at": now(), **_columns(process)}
            return connection.insert_numbered("journal", values)

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
            stale = [intent for intent in _intents(connection) if intent.left(elsewhere=connection.shared)]
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
        Intent(row.number, row.intent, json.loads(row.content), Process(row.host, row.pid, row.process), row.started_at)
        for row in rows
    ]
