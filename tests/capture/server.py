"""A server that keeps a log of its commits in a file that outlives processes, and the stream that reads the log.

Its one table has the columns `id`, the key, and `v`. A commit is in the log before snapshots see it, until `seen` is
set, as with a synchronous standby that does not answer.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.cdc import (
    CapturedTable,
    Chunk,
    Event,
    Key,
    Position,
    PositionAdvanced,
    RowsChanged,
    SchemaChanged,
    Snapshot,
    TableRows,
    Transactions,
)
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT, TEXT

COLUMNS = (physical.Column("id", BIGINT, False), physical.Column("v", TEXT))
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("$diff", pa.int64()), ("$at", pa.timestamp("us", "UTC"))])
_TABLES = """
CREATE TABLE wal (lsn INTEGER PRIMARY KEY, changes TEXT NOT NULL, seen INTEGER NOT NULL);
CREATE TABLE slot (name TEXT PRIMARY KEY, confirmed INTEGER NOT NULL);
"""


def table(name: str = "t") -> CapturedTable:
    """Return a table of the server."""
    return CapturedTable(name, ("public", name), COLUMNS, ("id",))


def position(lsn: int) -> Position:
    """Return a position as text that sorts."""
    return f"{lsn:016X}"


Change = tuple[str, int, str | None]
"""A table, a key, and its new value, or None to delete the row. Key -1 truncates the table; -2 drops column `v`."""


@dataclass(frozen=True)
class Server:
    """The server's file. Waiting for it ends after `patience` seconds with sqlite3.OperationalError."""

    path: Path
    patience: float = 60.0

    @classmethod
    def make(cls, path: Path) -> Server:
        """Create a server without commits."""
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_TABLES)
        return cls(path)

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Open its file, for one transaction."""
        connection = _opened.connection(self)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        connection.execute("COMMIT")

    def commit(self, changes: Sequence[Change], *, seen: bool = True) -> int:
        """Commit changes; commits to the same rows become visible first, as they held the locks."""
        with self.open() as connection:
            touched = {(name, key) for name, key, _ in changes}
            for lsn, text in connection.execute("SELECT lsn, changes FROM wal WHERE seen = 0").fetchall():
                theirs = {(name, key) for name, key, _ in json.loads(text)}
                if touched & theirs or any(key == -1 for _, key in touched | theirs):
                    connection.execute("UPDATE wal SET seen = 1 WHERE lsn = ?", (lsn,))
            cursor = connection.execute("INSERT INTO wal (changes, seen) VALUES (?, ?)", (json.dumps(changes), seen))
            return int(cursor.lastrowid or 0)

    def see_all(self) -> None:
        """Make all commits visible to snapshots."""
        with self.open() as connection:
            connection.execute("UPDATE wal SET seen = 1")

    def rows(self, name: str = "t") -> dict[int, str]:
        """Return a table's rows after all commits."""
        with self.open() as connection:
            return fold(connection.execute("SELECT changes FROM wal ORDER BY lsn"), name)

    def end(self) -> int:
        """Return the number of the last commit."""
        with self.open() as connection:
            return int(connection.execute("SELECT coalesce(max(lsn), 0) FROM wal").fetchone()[0])

    def confirmed(self) -> int | None:
        """Return the position that the slot has confirmed, None without a slot."""
        with self.open() as connection:
            found = connection.execute("SELECT confirmed FROM slot").fetchone()
            return None if found is None else int(found[0])


class _Opened(threading.local):
    """The connection of a thread to the file that it opened last, since opening one takes longer than a transaction."""

    to: tuple[int, Server] | None = None

    def __init__(self) -> None:
        self._connections: list[sqlite3.Connection] = []

    def connection(self, server: Server) -> sqlite3.Connection:
        if self.to != (os.getpid(), server):
            if self.to is not None and self.to[0] == os.getpid():
                self._connections.pop().close()  # a fork leaves those of its parent alone
            made = sqlite3.connect(server.path, timeout=server.patience, isolation_level=None)
            made.execute("PRAGMA synchronous = OFF")
            self._connections.append(made)
            self.to = os.getpid(), server
        return self._connections[-1]


_opened = _Opened()


def fold(found: Any, name: str) -> dict[int, str]:
    """Return a table's rows after commits, each a text of changes."""
    rows: dict[int, str] = {}
    for (text,) in found:
        for table_name, key, value in json.loads(text):
            if table_name != name:
                continue
            if key == -2:
                continue
            if key == -1:
                rows.clear()
            elif value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
    return rows


@dataclass
class Seen:
    """A snapshot of the server."""

    unseen_ids: frozenset[int]
    after: int

    def unseen(self, ids: Sequence[Any]) -> int | None:
        """Return the index of the first unseen transaction."""
        return next((place for place, id_ in enumerate(ids) if id_ in self.unseen_ids or id_ > self.after), None)

    def certain(self, ids: Sequence[Any]) -> bool:
        """Return True: all transactions are known."""
        return True


@dataclass
class Read:
    """A transaction that reads a table as of its beginning; each chunk takes `seconds`."""

    server: Server
    name: str
    seconds: float
    snapshot: Snapshot = field(init=False)
    rows: dict[int, str] = field(init=False)

    def __enter__(self) -> Read:
        with self.server.open() as connection:
            self.rows = fold(connection.execute("SELECT changes FROM wal WHERE seen ORDER BY lsn"), self.name)
            self.snapshot = _look(connection)
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def count(self) -> int | None:
        return len(self.rows)

    def read(self, after: Key | None, size: int) -> Chunk:
        """Return a chunk of about `size` bytes, at 100 bytes a row."""
        time.sleep(self.seconds)
        count = max(1, size // 100)
        keys = sorted(key for key in self.rows if after is None or key > after[0])[:count]
        parts = [rows_of([(key, self.rows[key]) for key in keys])] if keys else []
        last = (keys[-1],) if len(keys) == count else None
        return Chunk(parts, last, position(self.server.end()))


def _look(connection: sqlite3.Connection) -> Seen:
    hidden = {lsn for (lsn,) in connection.execute("SELECT lsn FROM wal WHERE NOT seen")}
    (last,) = connection.execute("SELECT coalesce(max(lsn), 0) FROM wal").fetchone()
    return Seen(frozenset(hidden), last)


def rows_of(rows: Sequence[tuple[int, str | None]]) -> TableRows:
    """Return rows as a stream sends them; a row without a value is a deletion."""
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    diffs = [-1 if value is None else 1 for value in values]
    at = pa.array([0] * len(rows), pa.timestamp("us", "UTC"))
    arrays = [pa.array(keys, pa.int64()), pa.array(values, pa.string()), pa.array(diffs, pa.int64()), at]
    return TableRows(pa.record_batch(arrays, schema=SCHEMA))


@dataclass
class FakeStream:
    """A stream of the server's log; `fails` holds the next errors of each method."""

    server: Server
    chunk_seconds: float = 0.0
    fails: dict[str, list[SinkqlError]] = field(default_factory=dict)
    bound: int = 1 << 40
    unit: str = "commits"
    remembers: bool = False
    """Whether the server keeps even the changes that are confirmed."""
    at: int = 0
    names: frozenset[str] = frozenset()
    stops: list[Position] = field(default_factory=list)

    def _fail(self, method: str) -> None:
        if self.fails.get(method):
            raise self.fails[method].pop(0)

    def check(self) -> None:
        self._fail("check")

    def create(self) -> Position:
        with self.server.open() as connection:
            (last,) = connection.execute("SELECT coalesce(max(lsn), 0) FROM wal WHERE seen").fetchone()
            (hidden,) = connection.execute("SELECT coalesce(min(lsn), 1 << 60) FROM wal WHERE NOT seen").fetchone()
            connection.execute("INSERT OR IGNORE INTO slot VALUES ('s', ?)", (min(last, hidden - 1),))
            return position(connection.execute("SELECT confirmed FROM slot").fetchone()[0])

    def follows(self, after: Position) -> bool:
        return self.remembers

    def begin(self, after: Position, tables: Sequence[CapturedTable], stops: Sequence[Position] = ()) -> None:
        self._fail("begin")
        self.at, self.names = int(after, 16), frozenset(each.id for each in tables)
        self.stops = list(stops)
        confirmed = self.server.confirmed()
        assert confirmed is not None, "the slot does not exist"
        assert self.remembers or confirmed <= self.at, f"no changes after {after}: confirmed {confirmed}"

    def receive(self, seconds: float) -> Sequence[Event]:
        self._fail("receive")
        stop = int(self.stops[0], 16) if self.stops else 1 << 62
        with self.server.open() as connection:
            found = connection.execute(
                "SELECT lsn, changes FROM wal WHERE lsn > ? AND lsn <= ? ORDER BY lsn LIMIT 50", (self.at, stop)
            ).fetchall()
        if not found:
            time.sleep(min(seconds, 0.002))
            return [PositionAdvanced(position(self.at))]
        renamed = next((place for place, (_, text) in enumerate(found) if json.loads(text)[0][1] == -2), None)
        if renamed == 0:
            self.at = found[0][0]
            changed = replace(table(json.loads(found[0][1])[0][0]), columns=(COLUMNS[0],))
            return [SchemaChanged(changed, "column v was dropped"), PositionAdvanced(position(self.at))]
        found = found[:renamed]
        self.at = found[-1][0]
        if self.stops and position(self.at) >= self.stops[0]:
            self.stops.pop(0)
        return [self._event(found)]

    def _event(self, found: Sequence[tuple[int, str]]) -> RowsChanged:
        rows: dict[str, list[tuple[int, str | None]]] = {}
        emptied = set()
        for _, text in found:
            for name, key, value in json.loads(text):
                if name not in self.names:
                    continue
                if key == -1:
                    rows.pop(name, None)
                    emptied.add(name)
                else:
                    rows.setdefault(name, []).append((key, value))
        ids = [lsn for lsn, _ in found]
        tables = {name: [rows_of(each)] for name, each in rows.items()}
        return RowsChanged(
            position(self.at), tables, Transactions([position(id_) for id_ in ids], ids), frozenset(emptied)
        )

    def end(self) -> Position:
        return position(self.server.end())

    def approximate_position(self) -> Position:
        return self.end()

    def number(self, position: Position) -> int:
        return int(position or "0", 16)

    def look(self) -> Snapshot:
        with self.server.open() as connection:
            return _look(connection)

    def confirm(self, to: Position) -> None:
        with self.server.open() as connection:
            connection.execute("UPDATE slot SET confirmed = max(confirmed, ?)", (int(to, 16),))

    def looked_since(self, moment: float) -> bool:
        return True

    def retained(self) -> int:
        confirmed = self.server.confirmed()
        return 0 if confirmed is None else (self.server.end() - confirmed) * 100

    def most_retained(self) -> int:
        return self.bound

    def chunk(self, table: CapturedTable) -> Read:
        return Read(self.server, table.id, self.chunk_seconds)

    def flush(self) -> None:
        pass

    def complete(self, table: CapturedTable, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        return rows, None

    def renew(self) -> None:
        self._fail("renew")
        with self.server.open() as connection:
            connection.execute("DELETE FROM slot")

    def close(self) -> None:
        pass
