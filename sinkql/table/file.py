"""The file of a table: its rows, keys and change log. Several processes may use it; a statement is a transaction.

* `log` has an entry for each inserted row (diff 1) and each deleted row (diff -1, with the number of its insertion in
  `came`). Entries are numbered in commit order and never change.
* `statement` has the last entry of each statement, so that no reader sees half a statement, and a digest of all entries
  up to it. The first digest is random. Two logs have the same digest at a number only if they are equal up to it.
* `statement.width` is the number of values of the widest row that may exist at this point. `statement.needs` is the
  number of columns that a reader must know to read up to it. Both are equal except after a restore of a copy.
* After a restore, they differ between the restored point and the statement that restored it. No batch ends there, so
  rows of that range are inserted and deleted within one batch. No reader sees their values in columns that the copy
  does not have.
* `row` and `key` are the sum of the log.

The log is no `NumberedLog` of files: one transaction of SQLite writes its entries together with `row` and `key`.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sinkql.errors import SinkqlError, disk_full
from sinkql.machine import clock
from sinkql.machine.randomness import new_bytes
from sinkql.storage import failpoint
from sinkql.table.row import Codec, Row

FOLDER = "tables"
VERSION = 1
APPLICATION = 0x534B5154
_BUSY_SECONDS = 120.0
_SCHEMA = """
CREATE TABLE row (id INTEGER PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE key (rule INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (rule, data)) WITHOUT ROWID;
CREATE TABLE log (change INTEGER PRIMARY KEY, diff INTEGER NOT NULL, data TEXT NOT NULL, came INTEGER);
CREATE UNIQUE INDEX gone ON log (came) WHERE came IS NOT NULL;
CREATE TABLE statement (last INTEGER PRIMARY KEY, size INTEGER NOT NULL, at_ms INTEGER NOT NULL, digest TEXT NOT NULL,
  width INTEGER NOT NULL, needs INTEGER NOT NULL);
"""
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Point:
    """The end of a statement: the number of its last change, and the digest of the log up to it."""

    change: int
    digest: str


class OtherLogError(Exception):
    """The log does not have a point that was read from it. `last` is the newest change of the log."""

    def __init__(self, last: int) -> None:
        super().__init__(f"last change {last}")
        self.last = last


class WiderError(Exception):
    """The table has more columns than the reader has planned."""


class DuplicateError(Exception):
    """The key of a row already exists. `rule` is the index in `keys`, and `row` the new row."""

    def __init__(self, rule: int, row: Row) -> None:
        super().__init__(f"rule {rule}")
        self.rule, self.row = rule, row


def table_path(catalog_folder: Path, table_id: str | None, name: str) -> Path:
    """Return the path of a table's file in the folder of its catalog. Raise SQ3422 for a table without a catalog."""
    if table_id is None:
        raise SinkqlError(
            "SQ3422",
            f'table "{name}" was compiled but not created, so it has no rows',
            hint="Run CREATE TABLE with sinkql exec, then run the sink from that catalog.",
        )
    return catalog_folder / FOLDER / f"{table_id}.db"


def create(path: Path) -> None:
    """Create the file of an empty table, readable only by its owner. Delete it after a failure."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise _file_error(path, error) from error
    try:
        with _open(path) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            connection.execute("INSERT INTO statement VALUES (0, 0, 0, ?, 0, 0)", (new_bytes(_DIGITS // 2).hex(),))
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        remove(path)
        raise


def remove(path: Path) -> None:
    """Delete a table's file and the WAL files of SQLite."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
    except sqlite3.OperationalError as error:
        raise _file_error(path, error) from error
    try:
        connection.execute("PRAGMA synchronous = FULL")
        yield connection
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.IntegrityError):
            raise
        raise _file_error(path, error) from error
    finally:
        connection.close()


def _file_error(path: Path, error: Exception) -> SinkqlError:
    detail = f"{path}: {error.strerror if isinstance(error, OSError) else error}"
    if disk_full(error) is not None:
        return SinkqlError(
            "SQ4306",
            "could not write the file of a table: no space left on device",
            detail=detail,
            hint="Free space on that disk, then run the statement again. No row was changed.",
        )
    return SinkqlError(
        "SQ3420",
        "a table's file is missing or cannot be used",
        detail=detail,
        hint="Correct the cause in the detail or restore the file, then run the statement again. No row was changed.",
    )


class TableFile:
    """The file of a table. `keys` has the column indexes of each PRIMARY KEY and UNIQUE rule."""

    def __init__(self, path: Path, codec: Codec, keys: Sequence[Sequence[int]] = ()) -> None:
        self.path = path
        self.codec = codec
        self.keys = tuple(tuple(key) for key in keys)

    # --- reading ---------------------------------------------------------------------------------------------------

    def rows(self, limit: int | None = None) -> list[Row]:
        """Return the present rows in insertion order."""
        with self._reading() as connection:
            cursor = connection.execute("SELECT data FROM row ORDER BY id LIMIT ?", (-1 if limit is None else limit,))
            return [self.codec.decode(data) for (data,) in cursor]

    def count(self) -> int:
        """Return the number of rows."""
        with self._reading() as connection:
            return int(connection.execute("SELECT count(*) FROM row").fetchone()[0])

    def first(self) -> Point:
        """Return the point before the first change."""
        with self._reading() as connection:
            return _point(connection, "ORDER BY last LIMIT 1")

    def last(self, start: Point | None = None) -> Point:
        """Return the newest point before rows with more columns. Raise OtherLogError if the log lacks `start`."""
        with self._reading() as connection:
            _check_point(connection, start)
            return _point(connection, "WHERE needs <= ? ORDER BY last DESC LIMIT 1", len(self.codec.types))

    def width(self, until: int | None = None) -> int:
        """Return the number of values of the widest row, of all rows or of the rows that may exist at a point."""
        condition = "" if until is None else "WHERE last = ?"
        with self._reading() as connection:
            cursor = connection.execute(
                f"SELECT max(width) FROM statement {condition}", () if until is None else (until,)
            )
            return int(cursor.fetchone()[0])

    def end(self, start: Point, *, rows: int, size: int, until: int | None = None) -> Point:
        """Return the end of the whole statements after `start` that fit the limits, at least one.

        Return `start` if the next statement has rows with more columns than planned. Raise OtherLogError.
        """
        most = until if until is not None else 1 << 62
        with self._reading() as connection:
            _check_point(connection, start)
            (before,) = connection.execute("SELECT size FROM statement WHERE last = ?", (start.change,)).fetchone()
            condition = "last > ? AND last <= ? AND needs <= ? AND (width <= needs OR last = ?)"
            parameters = len(self.codec.types), until
            (end,) = connection.execute(
                f"SELECT max(last) FROM statement WHERE {condition} AND size <= ?",
                (start.change, min(most, start.change + rows), *parameters, before + size),
            ).fetchone()
            if end is None:
                (end,) = connection.execute(
                    f"SELECT min(last) FROM statement WHERE {condition}", (start.change, most, *parameters)
                ).fetchone()
            return start if end is None else _point(connection, "WHERE last = ?", end)

    def size(self, first: int, last: int) -> int:
        """Return the bytes of the statements with the changes `first` to `last`; 0 if the log lacks them."""
        with self._reading() as connection:
            (size,) = connection.execute(
                """
                SELECT (SELECT min(size) FROM statement WHERE last >= ?)
                  - (SELECT max(size) FROM statement WHERE last < ?)
                """,
                (last, first),
            ).fetchone()
            return size or 0

    def waiting_since(self, start: int) -> float | None:
        """Return the time of the oldest statement after `start`, None if `start` is the end."""
        with self._reading() as connection:
            row = connection.execute(
                "SELECT at_ms FROM statement WHERE last > ? ORDER BY last LIMIT 1", (start,)
            ).fetchone()
            return None if row is None else row[0] / 1000

    def changes(self, first: int, last: int, *, start: int, end: Point, most: int) -> Iterator[list[tuple[int, str]]]:
        """Yield diffs and row texts of the changes `first` to `last` in lists of at most `most`. Raise OtherLogError.

        The range is a part of `start` to `end`. Rows inserted and deleted between `start` and `end` are omitted.
        """
        with self._reading() as connection:
            _check_point(connection, end)
            cursor = connection.execute(
                """
                SELECT diff, data FROM log
                WHERE change BETWEEN ? AND ? AND (came IS NULL OR came <= ?)
                  AND NOT EXISTS (SELECT 1 FROM log AS later WHERE later.came = log.change AND later.change <= ?)
                ORDER BY change
                """,
                (first, last, start, end.change),
            )
            while part := cursor.fetchmany(most):
                yield part

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Open a snapshot of the file, which later writes do not change."""
        with _open(self.path) as connection:
            connection.execute("BEGIN")
            yield connection

    # --- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def statement(self) -> Iterator[Edit]:
        """Open a statement, which locks out other writers and writes all its changes atomically at the end."""
        with _open(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                edit = Edit(connection, self)
                edit.check_width()
                yield edit
                edit.finish()
                failpoint.point("table-changed")
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        failpoint.point("table-committed")


class Edit:
    """The changes of one statement. Keys are checked at its end, so that rows may swap keys."""

    def __init__(self, connection: sqlite3.Connection, file: TableFile) -> None:
        self._connection = connection
        self._file = file
        self._deleted: list[tuple[int, Row]] = []
        self._inserted: list[Row] = []

    def check_width(self) -> None:
        """Raise WiderError if rows have more columns than planned."""
        (needs,) = self._connection.execute("SELECT needs FROM statement ORDER BY last DESC LIMIT 1").fetchone()
        if needs > len(self._file.codec.types):
            raise WiderError

    def rows(self) -> list[tuple[int, Row]]:
        """Return the rows before this statement with their numbers for `delete`."""
        decode = self._file.codec.decode
        return [
            (number, decode(data)) for number, data in self._connection.execute("SELECT id, data FROM row ORDER BY id")
        ]

    def insert(self, row: Row) -> None:
        """Add a row at the end of the statement."""
        self._inserted.append(row)

    def delete(self, number: int, row: Row) -> None:
        """Delete a row by its number at the end of the statement."""
        self._deleted.append((number, row))

    def finish(self) -> None:
        """Write rows, keys and log entries. Raise DuplicateError for an existing key."""
        connection, codec = self._connection, self._file.codec
        if not self._deleted and not self._inserted:
            return
        deleted = [(number, codec.encode(row)) for number, row in self._deleted]
        inserted = [codec.encode(row) for row in self._inserted]
        width = max(map(_width, self._inserted), default=0)
        for rule, places in enumerate(self._file.keys):
            keys = [(rule, key) for _, row in self._deleted if (key := codec.key(row, places)) is not None]
            connection.executemany("DELETE FROM key WHERE rule = ? AND data = ?", keys)
        self._insert_keys()
        _write_statement(connection, deleted, inserted, width)

    def _insert_keys(self) -> None:
        for rule, places in enumerate(self._file.keys):
            for row in self._inserted:
                key = self._file.codec.key(row, places)
                if key is None:
                    continue
                try:
                    self._connection.execute("INSERT INTO key (rule, data) VALUES (?, ?)", (rule, key))
                except sqlite3.IntegrityError:
                    raise DuplicateError(rule, row) from None


def _width(row: Row) -> int:
    """Return the number of values of a row without trailing NULLs."""
    return next((len(row) - place for place, value in enumerate(reversed(row)) if value is not None), 0)


def restore_rows(path: Path, copy: Path) -> None:
    """Restore the rows of a table from a copy of its file by a statement in the log, so that readers can continue.

    Raise OtherLogError if the copy belongs to another log.
    """
    with _open(path) as connection:
        connection.execute("ATTACH ? AS copy", (str(copy),))
        connection.execute("BEGIN IMMEDIATE")
        (common,) = connection.execute(
            "SELECT max(mine.last) FROM statement AS mine JOIN copy.statement AS theirs USING (last, digest)"
        ).fetchone()
        if common is None:
            raise OtherLogError(_newest(connection).change)
        (width,) = connection.execute("SELECT width FROM copy.statement ORDER BY last DESC LIMIT 1").fetchone()
        connection.execute("UPDATE main.statement SET needs = ? WHERE last > ? AND needs > ?", (width, common, width))
        # Rows from before the logs diverge have the same numbers in both files.
        only = "SELECT id, data FROM {}.row WHERE id > ? OR id NOT IN (SELECT id FROM {}.row) ORDER BY id"
        deleted = connection.execute(only.format("main", "copy"), (common,)).fetchall()
        inserted = Counter(data for _, data in connection.execute(only.format("copy", "main"), (common,)))
        remaining = []
        for number, data in deleted:
            if inserted[data]:
                inserted[data] -= 1  # an equal row stays unchanged
            else:
                remaining.append((number, data))
        if remaining or any(inserted.values()):
            connection.execute("DELETE FROM main.key")
            connection.execute("INSERT INTO main.key SELECT * FROM copy.key")
            _write_statement(connection, remaining, list(inserted.elements()), width)
        newest = _newest(connection).change
        connection.execute(
            "UPDATE main.statement SET width = min(width, ?), needs = min(needs, ?) WHERE last = ?",
            (width, width, newest),
        )
        failpoint.point("table-changed")
        connection.execute("COMMIT")


def _write_statement(
    connection: sqlite3.Connection, deleted: Sequence[tuple[int, str]], inserted: Sequence[str], width: int
) -> None:
    """Delete and insert rows, and write the statement into the log. `width` is that of the widest inserted row."""
    connection.executemany("DELETE FROM main.row WHERE id = ?", [(number,) for number, _ in deleted])
    newest = _newest(connection)
    first = newest.change + 1
    changes = [*((-1, data, number) for number, data in deleted), *((1, data, None) for data in inserted)]
    rows = [(first + len(deleted) + place, data) for place, data in enumerate(inserted)]
    connection.executemany("INSERT INTO main.row (id, data) VALUES (?, ?)", rows)
    failpoint.point("table-rows")
    connection.executemany(
        "INSERT INTO main.log (change, diff, data, came) VALUES (?, ?, ?, ?)",
        [(number, *change) for number, change in enumerate(changes, first)],
    )
    before, *widest = connection.execute(
        "SELECT size, width, needs FROM main.statement WHERE last = ?", (newest.change,)
    ).fetchone()
    size = before + sum(len(data) for _, data, _ in changes)
    digest = _digest(newest.digest, changes)
    now_ms = clock.time_ms()
    last = newest.change + len(changes)
    connection.execute(
        "INSERT INTO main.statement VALUES (?, ?, ?, ?, ?, ?)",
        (last, size, now_ms, digest, *(max(value, width) for value in widest)),
    )


def _newest(connection: sqlite3.Connection) -> Point:
    return _point(connection, "ORDER BY last DESC LIMIT 1")


def _point(connection: sqlite3.Connection, which: str, *values: int) -> Point:
    return Point(*connection.execute(f"SELECT last, digest FROM main.statement {which}", values).fetchone())


def _check_point(connection: sqlite3.Connection, point: Point | None) -> None:
    """Raise OtherLogError unless the log has the point."""
    if point is None:
        return
    row = connection.execute("SELECT digest FROM statement WHERE last = ?", (point.change,)).fetchone()
    if row != (point.digest,):
        raise OtherLogError(_newest(connection).change)


def _digest(before: str, changes: Iterable[tuple[int, str, int | None]]) -> str:
    digest = hashlib.sha256(before.encode())
    for diff, data, insertion in changes:
        digest.update(f"\n{diff} {insertion} {data}".encode())
    return digest.hexdigest()[:_DIGITS]
