"""A table's file: its rows, their keys and the log of changes; one statement is one transaction of many processes.

`log` has a line for each row that came (diff 1) or went (diff -1, with the number under which it came), numbered in the
order of commits and never changed. `statement` says where each statement's lines end, so that no reader ever sees half
of one, and has a digest of all lines up to there. The digest of none is the log's own: two logs agree at a number only
where they are the same log with the same lines. Its `width` is how many values the widest row has that may be there at
that point, and `needs` how many columns one must know to read on up to there. They differ between the point to which a
copy was put back and the statement that did so: nothing reads what rows had meanwhile in columns that the copy does not
know, and no batch ends there, so that such rows come and go within one. `row` and `key` are what the log adds up to.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sinkql.errors import SinkqlError, disk_full
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
    """An end of a statement: the number of its last change, and the digest of the log up to there."""

    change: int
    digest: str


class OtherLogError(Exception):
    """The log does not have a point that was read from it: `last` is its newest change."""

    def __init__(self, last: int) -> None:
        super().__init__(f"last change {last}")
        self.last = last


class WiderError(Exception):
    """The table has got more columns since its columns were read."""


class DuplicateError(Exception):
    """A row's key exists already: `rule` is the place in `keys`, `row` the new row."""

    def __init__(self, rule: int, row: Row) -> None:
        super().__init__(f"rule {rule}")
        self.rule, self.row = rule, row


def table_path(catalog_folder: Path, table_id: str | None, name: str) -> Path:
    """Return a table's file below the folder of its catalog; SQ3422 for a table that is in no catalog."""
    if table_id is None:
        raise SinkqlError(
            "SQ3422",
            f'table "{name}" was compiled, not created: it has no rows to read',
            hint="Run CREATE TABLE with sinkql exec, and run the sink from that catalog.",
        )
    return catalog_folder / FOLDER / f"{table_id}.db"


def create(path: Path) -> None:
    """Create an empty table's file for its owner alone; a failure leaves nothing behind."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise _lost(path, error) from error
    try:
        with _opened(path) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            connection.execute("INSERT INTO statement VALUES (0, 0, 0, ?, 0, 0)", (secrets.token_hex(_DIGITS // 2),))
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
        raise _lost(path, error) from error
    try:
        connection.execute("PRAGMA synchronous = FULL")
        yield connection
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.IntegrityError):
            raise
        raise _lost(path, error) from error
    finally:
        connection.close()


def _lost(path: Path, error: Exception) -> SinkqlError:
    detail = f"{path}: {error.strerror if isinstance(error, OSError) else error}"
    if disk_full(error) is not None:
        return SinkqlError(
            "SQ4306",
            "no room is left for the file of a table's rows",
            detail=detail,
            hint="Make room on that disk, and run the statement again; no row was changed.",
        )
    return SinkqlError(
        "SQ3420",
        "a table's file is missing or cannot be used",
        detail=detail,
        hint="No row was changed: fix what the detail says, or put the file back, and run the statement again.",
    )


class TableFile:
    """The file of a table's rows. `keys` are the columns (by place) of each PRIMARY KEY and UNIQUE rule."""

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

    def first(self) -> Point:
        """Return the point before the first change."""
        with self._reading() as connection:
            return _point(connection, "ORDER BY last LIMIT 1")

    def last(self, start: Point | None = None) -> Point:
        """Return the newest point before rows with more columns; raises OtherLogError for a log without `start`."""
        with self._reading() as connection:
            _check(connection, start)
            return _point(connection, "WHERE needs <= ? ORDER BY last DESC LIMIT 1", len(self.codec.types))

    def width(self, until: int | None = None) -> int:
        """Return how many values the widest row has, of all that ever were or of those that may be there at a point."""
        which = "" if until is None else "WHERE last = ?"
        with self._reading() as connection:
            found = connection.execute(f"SELECT max(width) FROM statement {which}", () if until is None else (until,))
            return int(found.fetchone()[0])

    def end(self, start: Point, *, rows: int, size: int, until: int | None = None) -> Point:
        """Return how far whole statements go after `start`: within the limits, but at least one statement.

        `start` where the next one has rows with more columns than are known here. Raises OtherLogError.
        """
        most = until if until is not None else 1 << 62
        with self._reading() as connection:
            _check(connection, start)
            (before,) = connection.execute("SELECT size FROM statement WHERE last = ?", (start.change,)).fetchone()
            within = "last > ? AND last <= ? AND needs <= ? AND (width <= needs OR last = ?)"
            known = len(self.codec.types), until
            (end,) = connection.execute(
                f"SELECT max(last) FROM statement WHERE {within} AND size <= ?",
                (start.change, min(most, start.change + rows), *known, before + size),
            ).fetchone()
            if end is None:
                (end,) = connection.execute(
                    f"SELECT min(last) FROM statement WHERE {within}", (start.change, most, *known)
                ).fetchone()
            return start if end is None else _point(connection, "WHERE last = ?", end)

    def waiting_since(self, start: int) -> float | None:
        """Return the time of the oldest statement after `start`; None where there is none."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT at_ms FROM statement WHERE last > ? ORDER BY last LIMIT 1", (start,)
            ).fetchone()
            return None if found is None else found[0] / 1000

    def changes(self, first: int, last: int, *, start: int, end: Point, most: int) -> Iterator[list[tuple[int, str]]]:
        """Yield diffs and rows' texts of the changes first … last, at most `most` at once; raises OtherLogError.

        They are a part of those after `start` up to `end`, and rows that both came and went there are left out.
        """
        with self._reading() as connection:
            _check(connection, end)
            found = connection.execute(
                """
                SELECT diff, data FROM log
                WHERE change BETWEEN ? AND ? AND (came IS NULL OR came <= ?)
                  AND NOT EXISTS (SELECT 1 FROM log AS later WHERE later.came = log.change AND later.change <= ?)
                ORDER BY change
                """,
                (first, last, start, end.change),
            )
            while part := found.fetchmany(most):
                yield part

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Open the file as it is at this moment, whatever others write meanwhile."""
        with _opened(self.path) as connection:
            connection.execute("BEGIN")
            yield connection

    # --- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def statement(self) -> Iterator[Edit]:
        """Open a statement: no other process writes until it ends, and all of it is written at its end, or nothing."""
        with _opened(self.path) as connection:
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
    """Changes rows within one statement; keys are checked at its end, so that they may trade places."""

    def __init__(self, connection: sqlite3.Connection, file: TableFile) -> None:
        self._connection = connection
        self._file = file
        self._gone: list[tuple[int, Row]] = []
        self._come: list[Row] = []

    def check_width(self) -> None:
        """Raise WiderError where rows have more columns than are known here."""
        (needs,) = self._connection.execute("SELECT needs FROM statement ORDER BY last DESC LIMIT 1").fetchone()
        if needs > len(self._file.codec.types):
            raise WiderError

    def rows(self) -> list[tuple[int, Row]]:
        """Return the rows before this statement, with the numbers that `delete` takes."""
        decode = self._file.codec.decode
        return [
            (number, decode(data)) for number, data in self._connection.execute("SELECT id, data FROM row ORDER BY id")
        ]

    def insert(self, row: Row) -> None:
        """Add a row at the end of the statement."""
        self._come.append(row)

    def delete(self, number: int, row: Row) -> None:
        """Take away the row of this number at the end of the statement."""
        self._gone.append((number, row))

    def finish(self) -> None:
        """Write rows, keys and log; raises DuplicateError."""
        connection, codec = self._connection, self._file.codec
        if not self._gone and not self._come:
            return
        gone = [(number, codec.encode(row)) for number, row in self._gone]
        come = [codec.encode(row) for row in self._come]
        width = max(map(_width, self._come), default=0)
        for rule, places in enumerate(self._file.keys):
            keys = [(rule, key) for _, row in self._gone if (key := codec.key(row, places)) is not None]
            connection.executemany("DELETE FROM key WHERE rule = ? AND data = ?", keys)
        self._take_keys()
        _change(connection, gone, come, width)

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


def _width(row: Row) -> int:
    """Return how many values a row has up to its last one that is not NULL."""
    return next((len(row) - place for place, value in enumerate(reversed(row)) if value is not None), 0)


def put_back(path: Path, copy: Path) -> None:
    """Give a table the rows of a copy of its file, by a statement in its own log: who reads that goes on.

    Raises OtherLogError where the copy is not of this log.
    """
    with _opened(path) as connection:
        connection.execute("ATTACH ? AS copy", (str(copy),))
        connection.execute("BEGIN IMMEDIATE")
        (common,) = connection.execute(
            "SELECT max(mine.last) FROM statement AS mine JOIN copy.statement AS theirs USING (last, digest)"
        ).fetchone()
        if common is None:
            raise OtherLogError(_newest(connection).change)
        (width,) = connection.execute("SELECT width FROM copy.statement ORDER BY last DESC LIMIT 1").fetchone()
        connection.execute("UPDATE main.statement SET needs = ? WHERE last > ? AND needs > ?", (width, common, width))
        # Rows from before the logs part have the same numbers in both.
        only = "SELECT id, data FROM {}.row WHERE id > ? OR id NOT IN (SELECT id FROM {}.row) ORDER BY id"
        gone = connection.execute(only.format("main", "copy"), (common,)).fetchall()
        come = Counter(data for _, data in connection.execute(only.format("copy", "main"), (common,)))
        left = []
        for number, data in gone:
            if come[data]:
                come[data] -= 1  # an equal row stays in its place
            else:
                left.append((number, data))
        if left or any(come.values()):
            connection.execute("DELETE FROM main.key")
            connection.execute("INSERT INTO main.key SELECT * FROM copy.key")
            _change(connection, left, list(come.elements()), width)
        newest = _newest(connection).change
        connection.execute(
            "UPDATE main.statement SET width = min(width, ?), needs = min(needs, ?) WHERE last = ?",
            (width, width, newest),
        )
        failpoint.point("table-changed")
        connection.execute("COMMIT")


def _change(connection: sqlite3.Connection, gone: Sequence[tuple[int, str]], come: Sequence[str], width: int) -> None:
    """Take rows away, add others, of which the widest has `width` values, and write the statement into the log."""
    connection.executemany("DELETE FROM main.row WHERE id = ?", [(number,) for number, _ in gone])
    newest = _newest(connection)
    first = newest.change + 1
    changes = [*((-1, data, number) for number, data in gone), *((1, data, None) for data in come)]
    rows = [(first + len(gone) + place, data) for place, data in enumerate(come)]
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
    now_ms = time.time_ns() // 1_000_000
    last = newest.change + len(changes)
    connection.execute(
        "INSERT INTO main.statement VALUES (?, ?, ?, ?, ?, ?)",
        (last, size, now_ms, digest, *(max(each, width) for each in widest)),
    )


def _newest(connection: sqlite3.Connection) -> Point:
    return _point(connection, "ORDER BY last DESC LIMIT 1")


def _point(connection: sqlite3.Connection, which: str, *values: int) -> Point:
    return Point(*connection.execute(f"SELECT last, digest FROM main.statement {which}", values).fetchone())


def _check(connection: sqlite3.Connection, point: Point | None) -> None:
    """Raise OtherLogError unless the log has the point."""
    if point is None:
        return
    found = connection.execute("SELECT digest FROM statement WHERE last = ?", (point.change,)).fetchone()
    if found != (point.digest,):
        raise OtherLogError(_newest(connection).change)


def _digest(before: str, changes: Iterable[tuple[int, str, int | None]]) -> str:
    digest = hashlib.sha256(before.encode())
    for diff, data, came in changes:
        digest.update(f"\n{diff} {came} {data}".encode())
    return digest.hexdigest()[:_DIGITS]
