"""Record the intent of a statement with several steps before the first step, and close it after the last.

The log is no `NumberedLog`: an intent changes when another process adopts it and when it is closed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sinkql.catalog.coordination.process import Process, now, this_process
from sinkql.catalog.store import Connection, Store
from sinkql.machine import clock

_KEPT_DONE = 1000
_LONGEST = timedelta(minutes=10)
"""How long a statement may take if its process cannot be observed."""


@dataclass(frozen=True, slots=True)
class Intent:
    """The plan of a statement, as JSON `content`, with its process."""

    number: int
    what: str
    content: Mapping[str, Any]
    process: Process
    started_at: str

    def left(self, *, elsewhere: bool) -> bool:
        """Return whether the process has ended; a process that cannot be observed has ended after ten minutes."""
        if self.process.is_observable(elsewhere=elsewhere):
            return self.process.has_ended(elsewhere=elsewhere)
        return clock.now() - datetime.fromisoformat(self.started_at) > _LONGEST


class IntentLog:
    """The intents in the catalog: the next process finishes the statements of a killed process."""

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
        """Return the open intents of ended processes, and assign them to this process."""
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
