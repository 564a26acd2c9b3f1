"""A table's file: its rows, their keys and the log of changes; one statement is one transaction of many processes.

`log` has a line for each row that came (diff 1) or went (diff -1), numbered in the order of commits and never changed;
`statement` says where each statement's lines end, so that no reader ever sees half of one. `row` and `key` are what
the log adds up to.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sinkql import faults
from sinkql.connectors.table.row import Codec, Row
from sinkql.errors import SinkqlError

VERSION = 1
APPLICATION = 0x534B5154
_BUSY_SECONDS = 120.0
_SCHEMA = """
CREATE TABLE row (id INTEGER PRIMARY KEY AUTOINCREMENT, data TEXT NOT NULL);
CREATE TABLE key (rule INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (rule, data)) WITHOUT ROWID;
CREATE TABLE log (change INTEGER PRIMARY KEY, diff INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE statement (last INTEGER PRIMARY KEY, size INTEGER NOT NULL, at_ms INTEGER NOT NULL);
"""


class DuplicateError(Exception):
    """Say that a row's key is there already: which rule (place in `keys`), and the row."""

    def __init__(self, rule: int, row: Row) -> None:
        super().__init__(f"rule {rule}")
        self.rule, self.row = rule, row


def create(path: Path) -> None:
    """Make an empty table's file, for its owner alone; nothing is left of one that fails."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with _opened(path) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        remove(path)
        raise


def remove(path: Path) -> None:
    """Delete a table's file and what SQLite keeps beside it."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
    except sqlite3.OperationalError as error:
        raise _lost(path, str(error)) from error
    try:
        connection.execute("PRAGMA synchronous = FULL")
        yield connection
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.IntegrityError):
            raise
        raise _lost(path, str(error)) from error
    finally:
        connection.close()


def _lost(path: Path, why: str) -> SinkqlError:
    return SinkqlError(
        "SQ3420",
        "a table's file is missing or cannot be used",
        detail=f"{path}: {why}",
        hint="Put the file back, or drop the table and create it again.",
    )


class TableFile:
    """Hold the place of a table's rows. `keys` are the columns (by place) of each PRIMARY KEY and UNIQUE rule."""

    def __init__(self, path: Path, codec: Codec, keys: Sequence[Sequence[int]] = ()) -> None:
        self.path = path
        self.codec = codec
        self.keys = tuple(tuple(key) for key in keys)

    # --- reading ---------------------------------------------------------------------------------------------------

    def rows(self, limit: int | None = None) -> list[Row]:
        """Return the rows as of now, in the order they came."""
        with self._reading() as connection:
            found = connection.execute("SELECT data FROM row ORDER BY id LIMIT ?", (-1 if limit is None else limit,))
            return [self.codec.decode(data) for (data,) in found]

    def count(self) -> int:
        """Return the number of rows."""
        with self._reading() as connection:
            return int(connection.execute("SELECT count(*) FROM row").fetchone()[0])

    def last(self) -> int:
        """Return the number of the newest change, 0 before the first."""
        with self._reading() as connection:
            return int(connection.execute("SELECT coalesce(max(last), 0) FROM statement").fetchone()[0])

    def end(self, start: int, *, rows: int, size: int, until: int | None = None) -> int:
        """Return how far whole statements go after `start`: within the limits, but at least one statement."""
        most = until if until is not None else 1 << 62
        with self._reading() as connection:
            (before,) = connection.execute(
                "SELECT coalesce(max(size), 0) FROM statement WHERE last <= ?", (start,)
            ).fetchone()
            within = "last > ? AND last <= ?"
            (end,) = connection.execute(
                f"SELECT max(last) FROM statement WHERE {within} AND size <= ?",
                (start, min(most, start + rows), before + size),
            ).fetchone()
            if end is None:
                (end,) = connection.execute(f"SELECT min(last) FROM statement WHERE {within}", (start, most)).fetchone()
            return start if end is None else int(end)

    def waiting_since(self, start: int) -> float | None:
        """Return the time of the oldest statement after `start`; None where there is none."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT at_ms FROM statement WHERE last > ? ORDER BY last LIMIT 1", (start,)
            ).fetchone()
            return None if found is None else found[0] / 1000

    def changes(self, first: int, last: int, most: int) -> Iterator[list[tuple[int, str]]]:
        """Yield diffs and rows' texts of the changes first … last, at most `most` at once."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT diff, data FROM log WHERE change BETWEEN ? AND ? ORDER BY change", (first, last)
            )
            while part := found.fetchmany(most):
                yield part

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _opened(self.path) as connection:
            yield connection

    # --- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def statement(self) -> Iterator[Change]:
        """Open a statement: no other process writes until it ends, and all of it is done at its end, or nothing."""
        with _opened(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                change = Change(connection, self)
                yield change
                change.finish()
                faults.point("table-changed")
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        faults.point("table-committed")


class Change:
    """Change rows within one statement; keys are checked at its end, so that they may trade places."""

    def __init__(self, connection: sqlite3.Connection, file: TableFile) -> None:
        self._connection = connection
        self._file = file
        self._gone: list[tuple[int, Row]] = []
        self._come: list[Row] = []

    def rows(self) -> list[tuple[int, Row]]:
        """Return the rows before this statement, with the numbers that `replace` and `delete` take."""
        decode = self._file.codec.decode
        return [
            (number, decode(data)) for number, data in self._connection.execute("SELECT id, data FROM row ORDER BY id")
        ]

    def insert(self, row: Row) -> None:
        self._come.append(row)

    def delete(self, number: int, row: Row) -> None:
        self._gone.append((number, row))

    def finish(self) -> None:
        """Write rows, keys and log; raises DuplicateError."""
        connection, codec = self._connection, self._file.codec
        if not self._gone and not self._come:
            return
        gone = [codec.encode(row) for _, row in self._gone]
        come = [codec.encode(row) for row in self._come]
        connection.executemany("DELETE FROM row WHERE id = ?", [(number,) for number, _ in self._gone])
        for rule, places in enumerate(self._file.keys):
            keys = [(rule, key) for _, row in self._gone if (key := codec.key(row, places)) is not None]
            connection.executemany("DELETE FROM key WHERE rule = ? AND data = ?", keys)
        self._take_keys()
        connection.executemany("INSERT INTO row (data) VALUES (?)", [(data,) for data in come])
        faults.point("table-rows")
        (last,) = connection.execute("SELECT coalesce(max(change), 0) FROM log").fetchone()
        changes = [*((-1, data) for data in gone), *((1, data) for data in come)]
        connection.executemany(
            "INSERT INTO log (change, diff, data) VALUES (?, ?, ?)",
            [(last + number, *change) for number, change in enumerate(changes, 1)],
        )
        (before,) = connection.execute("SELECT coalesce(max(size), 0) FROM statement").fetchone()
        size = before + sum(len(data) for _, data in changes)
        now_ms = time.time_ns() // 1_000_000
        connection.execute("INSERT INTO statement VALUES (?, ?, ?)", (last + len(changes), size, now_ms))

    def _take_keys(self) -> None:
        for rule, places in enumerate(self._file.keys):
            for row in self._come:
                key = self._file.codec.key(row, places)
                if key is None:
                    continue
                try:
                    self._connection.execute("INSERT INTO key (rule, data) VALUES (?, ?)", (rule, key))
                except sqlite3.IntegrityError:
                    raise DuplicateError(rule, row) from None
