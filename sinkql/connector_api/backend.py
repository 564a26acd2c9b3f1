"""A connection of psycopg → one that is broken off where its server has lost it without a word."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import psycopg

from sinkql.connector_api.dead_connection import ResponseWatch

_WORKS = """
SELECT coalesce(state = 'active', true) AND coalesce(wait_event_type, '') NOT IN ('Client', 'Activity')
FROM pg_catalog.pg_stat_activity WHERE pid = %s
"""
"""A process that waits for its client has done what it got; one that waits for others has nothing to send."""


class GuardedConnection(psycopg.Connection[Any]):
    """A connection whose waits for the server end where that has lost it; `silence` is set once it is open."""

    silence: ResponseWatch | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:  # psycopg's types are its own
        with self.silence or nullcontext():
            return super().wait(gen, *args, **options)


def backend_pid(connection: psycopg.Connection[Any]) -> int | None:
    """Return the number of the connection's process on the server; None where a pooler is between."""
    row = connection.execute("SELECT pg_catalog.pg_backend_pid()").fetchone()
    assert row is not None
    return row[0] if row[0] == connection.info.backend_pid else None


def is_backend_active(connection: psycopg.Connection[Any], session: int | None) -> bool:
    """Ask the server over another connection whether it works on what a session has asked for."""
    row = connection.execute(_WORKS, [session]).fetchone()
    return session is None or (row is not None and bool(row[0]))
