"""Parts of a table as one transaction of the server sees them, and values that its stream does not send."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from sinkql.connector_api.cdc import CapturedTable, Chunk, Key, Position, SchemaChanged, Snapshot, TableRows
from sinkql.connector_api.types import python_values
from sinkql.connectors.postgres.client import guarded
from sinkql.connectors.postgres.copy import Copied, copied_rows, copy_out
from sinkql.connectors.postgres.relation import SentColumn, fitting, lacking, left_of
from sinkql.connectors.postgres.slot import Connection, read_place, server_snapshot
from sinkql.connectors.postgres.type import ServerColumn, ServerTable, ServerType, server_table
from sinkql.decode.columnar import Offsets
from sinkql.errors import SinkqlError, TableError

_FIRST_ROWS = 5_000
_MOST_ROWS = 500_000
_WIDTH = 1600
"""How many bytes a row is taken to have before any was read."""
_PAGE = 8192
_EMPTY: Key = ()
_TEXT_TYPE = ServerType(25, "text")
_PATIENCE_S = 30
_BREATH_S = 0.01
_LOCK_TRIES = 3
_TIMED_TRANSACTIONS = 170000
END = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END::text"
"""The end of the server's log, in SQL."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a table: its columns, and where its rows are."""

    table: CapturedTable
    server: ServerTable

    @classmethod
    def of(cls, table: CapturedTable) -> Query:
        return cls(table, server_table(table.options))

    @property
    def columns(self) -> tuple[ServerColumn, ...]:
        return self.server.columns

    @property
    def selected(self) -> tuple[ServerColumn, ...]:
        """The columns as `rows` selects them: what is read as text comes as such."""
        return tuple(msgspec.structs.replace(each, type=_TEXT_TYPE) if each.as_text else each for each in self.columns)

    @property
    def key(self) -> tuple[int, ...]:
        """The places of the key's columns."""
        places = {each.name: place for place, each in enumerate(self.columns)}
        return tuple(places[name] for name in self.table.key)

    @property
    def called(self) -> str:
        return f"{self.server.schema}.{self.server.name}"

    @property
    def name(self) -> sql.Composed:
        return sql.SQL("{}.{}").format(sql.Identifier(self.server.schema), sql.Identifier(self.server.name))

    def rows(self, where: Sequence[sql.Composable], after: str = "") -> sql.Composed:
        """Return the query of all columns."""
        listed = sql.SQL(", ").join(
            _output(sql.SQL("t.{}").format(sql.Identifier(each.name)))
            if each.as_text
            else sql.SQL("t.{}").format(sql.Identifier(each.name))
            for each in self.columns
        )
        conditions = [*where, *([sql.SQL(f"({self.server.filter})")] if self.server.filter else [])]
        wanted = sql.SQL(" WHERE ") + sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("")
        only = sql.SQL("" if self.server.partitioned else "ONLY ")
        return sql.SQL("SELECT {} FROM {}{} AS t{}{}").format(listed, only, self.name, wanted, sql.SQL(after))

    def key_names(self) -> sql.Composed:
        return sql.SQL(", ").join(sql.SQL("t.{}").format(sql.Identifier(self.columns[each].name)) for each in self.key)


def _output(value: sql.Composable) -> sql.Composed:
    """Return the text of a value by its type's output function, which the stream has too; a cast may give another."""
    return sql.SQL("CASE WHEN pg_catalog.num_nulls({0}) = 0 THEN pg_catalog.format('%s', {0}) END").format(value)


class DroppedError(TableError):
    """Say that a table is not on the server any more, by whatever name."""


class LockedError(TableError):
    """Say that another transaction has a table locked."""


class Connect:
    """Open connections for parts of tables, and say why one fails."""

    def __init__(self, connect: Callable[[], Connection], failed: Callable[[psycopg.Error], SinkqlError]) -> None:
        self.connect = connect
        self.failed = failed


@dataclass
class PostgresChunkRead:
    """A transaction in which parts of a table are read (`sinkql.connector_api.cdc.ChunkRead`).

    `widths` keeps how many bytes the rows of a table had, to know how many to ask for.
    """

    query: Query
    source: str
    opener: Connect
    position: Callable[[int], Position]
    widths: dict[str, float]
    snapshot: Snapshot = field(init=False)
    reshaped: SchemaChanged | None = field(init=False, default=None)
    """Which of its columns the table still has; None where it has all."""
    lacking: str = field(init=False, default="")
    """What became of the others."""
    _connection: Connection | None = field(init=False, default=None)
    _now: int = field(init=False, default=0)

    def __enter__(self) -> PostgresChunkRead:
        """Begin the transaction, with the table locked against being emptied or rewritten."""
        with self._failures():
            self._connection = self.opener.connect()
            try:
                self._begin(self._connection)
            except BaseException:
                self._connection.close()  # its lock would stay
                raise
        return self

    def _begin(self, connection: Connection) -> None:
        connection.execute(_SETTINGS)
        if connection.info.server_version >= _TIMED_TRANSACTIONS:
            connection.execute("SET transaction_timeout = 0")
        self._lock(connection)
        self.snapshot = server_snapshot(connection)
        self._fit(connection)
        row = connection.execute("SELECT (extract(epoch FROM now()) * 1000000)::int8").fetchone()
        assert row is not None
        self._now = row[0]

    def _lock(self, connection: Connection) -> None:
        """Begin the transaction, and lock the table by the name that it has by now; another one may have its old one.

        Nothing but the lock may be asked for in it before its snapshot is taken.
        """
        for _ in range(_LOCK_TRIES):
            row = connection.execute(_NAME, [self.query.server.oid]).fetchone()
            if row is None:
                raise _not_as_it_was(self.query, self.source, "the table was dropped", DroppedError)
            server = msgspec.structs.replace(self.query.server, schema=row[0], name=row[1])
            self.query = replace(self.query, server=server)
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            with suppress(psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(self.query.name))
                locked = connection.execute(
                    "SELECT to_regclass(%s)::oid::int8", [self.query.name.as_string(connection)]
                ).fetchone()
                if locked == (server.oid,):
                    return
            connection.execute("ROLLBACK")
        raise _not_as_it_was(self.query, self.source, "the table is renamed again and again")

    def _fit(self, connection: Connection) -> None:
        """Have the columns be what they are by now, without those that have gone or have values of other types."""
        server = self.query.server
        there = connection.execute(_COLUMNS, [server.oid]).fetchall()
        found = [SentColumn(name, oid, modifier, in_key=False) for name, oid, modifier in there]
        columns, problems = fitting(server, found)
        table = self.query.table
        if problems:
            if not {each.name for each in columns}.issuperset(table.key):
                raise _not_as_it_was(self.query, self.source, "; ".join(problems))
            table = left_of(table, server, columns)
            self.lacking = "; ".join(problems)
            self.reshaped = SchemaChanged(table, lacking(server, problems))
        self.query = Query(table, msgspec.structs.replace(server, columns=tuple(columns)))

    def __exit__(self, *error: object) -> None:
        """End it."""
        if self._connection is not None:
            self._connection.close()

    def count(self) -> int | None:
        """Return how many rows the server's planner expects: from pages and statistics, with a filter too."""
        with self._failures():
            counted = sql.SQL("EXPLAIN (FORMAT JSON) ") + self.query.rows([])
            row = self._open.execute(counted).fetchone()
        assert row is not None
        return int(row[0][0]["Plan"]["Plan Rows"])

    def read(self, after: Key | None, size: int) -> Chunk:
        """Return the rows after a key, about `size` bytes; all of a table without a key, part by part."""
        with self._failures():
            if self.reshaped is not None and after is None:
                raise _not_as_it_was(self.query, self.source, self.lacking)
            high = self.position(read_place(self._one(f"SELECT {END}")))
            if not self.query.key:
                return Chunk(self._pages(size), None, high, self.reshaped)
            rows, last = self._keyed(after, size)
        return Chunk([rows], last, high, self.reshaped)

    def completed(self, rows: TableRows, wanted: Offsets) -> tuple[TableRows, Position]:
        """Return rows with the values that those at some places have by their keys, in place of their holes."""
        query, batch = self.query, rows.rows
        if self.reshaped is not None:  # the values that it had are nowhere
            raise _not_as_it_was(query, self.source, self.lacking)
        with self._failures():
            keys = [python_values(batch.column(each).take(pa.array(wanted))) for each in query.key]
            asked = list(zip(*keys, strict=True))
            text = query.rows([_one_of(query, asked)]).as_string(self._open)
            copied = copy_out(self._open, text, query.selected)
            there = copied_rows(query.table, query.selected, query.key, copied, at=self._now).rows
            end = read_place(self._one(f"SELECT {END}"))
        known = zip(*(python_values(there.column(each)) for each in query.key), strict=True)
        numbers = {each: number for number, each in enumerate(known)}
        which = np.full(len(batch), -1, np.int64)
        which[wanted] = [numbers.get(each, -1) for each in asked]
        return replace(rows, rows=_filled(query, batch, there, which)), self.position(end)

    def _keyed(self, after: Key | None, size: int) -> tuple[TableRows, Key | None]:
        query, connection = self.query, self._open
        wanted = self._wanted(size)
        where = []
        if after is not None:
            values = sql.SQL(", ").join(map(sql.Literal, after))
            where = [sql.SQL("({}) > ({})").format(query.key_names(), values)]
        ordered = query.rows(where) + sql.SQL(" ORDER BY {} LIMIT {}").format(query.key_names(), sql.Literal(wanted))
        copied = copy_out(connection, ordered.as_string(connection), query.selected)
        rows = copied_rows(query.table, query.selected, query.key, copied, at=self._now)
        if copied.count:
            self.widths[query.table.id] = copied.block.size / copied.count
        return rows, self._last(copied) if copied.count == wanted else None

    def _wanted(self, size: int) -> int:
        width = self.widths.get(self.query.table.id)
        if width is None:
            return max(1, min(int(size / _WIDTH), _FIRST_ROWS))
        return max(1, min(int(size / width), _MOST_ROWS))

    def _last(self, copied: Copied) -> Key:
        """Return the key of the last row, as the server writes its values."""
        query, connection = self.query, self._open
        values = [copied.value(each, copied.count - 1) for each in query.key]
        types = [query.selected[each].type.bare.oid for each in query.key]
        listed = sql.SQL(", ").join(_output(sql.SQL(f"${number + 1}")) for number in range(len(values)))
        asked = sql.SQL("SELECT {}").format(listed).as_bytes(connection)
        with guarded(connection):
            result = connection.pgconn.exec_params(asked, values, types, [1] * len(values), 0)
        if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result)
        return tuple((result.get_value(0, number) or b"").decode() for number in range(len(values)))

    def _pages(self, size: int) -> Iterator[TableRows]:
        """Yield the rows of a table without a key, or of its partitions, by their pages."""
        query, step = self.query, max(size // _PAGE, 1)
        with self._failures():
            for leaf, pages in self._leaves():
                for page in range(0, pages, step):
                    where = sql.SQL("t.tableoid = {} AND t.ctid >= {} AND t.ctid < {}").format(
                        sql.Literal(leaf), sql.Literal(f"({page},0)"), sql.Literal(f"({page + step},0)")
                    )
                    text = query.rows([where]).as_string(self._open)
                    copied = copy_out(self._open, text, query.selected)
                    if copied.count:
                        yield copied_rows(query.table, query.selected, (), copied, at=self._now)

    def _leaves(self) -> list[tuple[int, int]]:
        """Return the tables that have the rows, and how many pages each has, by their numbers."""
        oid = self.query.server.oid
        found = self._open.execute(
            "SELECT relid::oid::int8, pg_relation_size(relid) / current_setting('block_size')::int "
            "FROM pg_partition_tree(%s::oid::regclass) WHERE isleaf ORDER BY 1",
            [oid],
        ).fetchall()
        if found:
            return [(leaf, pages) for leaf, pages in found]
        (pages,) = self._open.execute(
            "SELECT pg_relation_size(%s::oid) / current_setting('block_size')::int", [oid]
        ).fetchone() or (0,)
        return [(oid, pages)]

    @property
    def _open(self) -> Connection:
        assert self._connection is not None, "the read has not begun"
        return self._connection

    def _one(self, query: str) -> Any:
        row = self._open.execute(query).fetchone()
        assert row is not None
        return row[0]

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise _table_failure(error, self.query, self.source) or self.opener.failed(error) from error


_NAME = """
SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = %s::oid
"""
_COLUMNS = """
SELECT attname, atttypid::int8, atttypmod FROM pg_attribute
WHERE attrelid = %s::oid AND attnum > 0 AND NOT attisdropped
"""
_SETTINGS = (
    "SET statement_timeout = 0; SET lock_timeout = '2s'; SET idle_in_transaction_session_timeout = 0; "
    "SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC'; SET extra_float_digits = 3; "
    "SET bytea_output = 'hex'; SET row_security = off"
)


def _table_failure(error: psycopg.Error, query: Query, source: str) -> SinkqlError | None:
    """Return what is wrong with a table, None where it is something else."""
    match error:
        case psycopg.errors.InsufficientPrivilege():
            return TableError(
                "SQ3710",
                f'the user of source "{source}" may not read table "{query.called}"',
                detail=str(error).splitlines()[0],
                hint=f"Run GRANT SELECT ON {query.called} TO the user on the server, and GRANT USAGE ON SCHEMA "
                f"{query.server.schema}; with row-level security ALTER ROLE … BYPASSRLS.",
            )
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedColumn() | psycopg.errors.InvalidSchemaName():
            return _not_as_it_was(query, source, str(error).splitlines()[0])
        case psycopg.errors.LockNotAvailable():
            return LockedError(
                "SQ3712",
                f'table "{query.called}" of source "{source}" is locked',
                hint="Wait for the TRUNCATE or ALTER TABLE that holds it; it is tried again.",
            )
        case _:
            return None


def _not_as_it_was(query: Query, source: str, detail: str, error: type[TableError] = TableError) -> TableError:
    return error(
        "SQ3711",
        f'table "{query.called}" of source "{source}" is not on the server as it was',
        detail=detail,
        hint="Put back what was dropped, renamed or changed, or run ALTER SOURCE … REFRESH REFERENCES and start the "
        "sinks again. If it is refused, drop the sinks that read the table.",
    )


def _one_of(query: Query, keys: Sequence[tuple[Any, ...]]) -> sql.Composable:
    """Return what is true of rows with one of some keys."""
    names = [sql.SQL("t.{}").format(sql.Identifier(query.columns[each].name)) for each in query.key]
    each_key = (
        sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(name, sql.Literal(value)) for name, value in zip(names, key, strict=True)
        )
        for key in keys
    )
    return sql.SQL("({})").format(sql.SQL(" OR ").join(each_key))


def _filled(query: Query, batch: pa.RecordBatch, there: pa.RecordBatch, which: Offsets) -> pa.RecordBatch:
    """Return rows of which some are filled: `which` says by what row of `there`, -1 for none."""
    found = which >= 0
    taken = pa.array(which, mask=~found)
    holes = [b"\0" if each is None else each for each in batch.column("$hole").to_pylist()]
    columns = {name: batch.column(name) for name in batch.schema.names}
    for number, column in enumerate(query.table.columns):
        bits = [len(each) > number >> 3 and each[number >> 3] >> (number & 7) & 1 for each in holes]
        mask = np.array(bits, bool) & found
        if mask.any():
            values = there.column(column.name).take(taken)
            columns[column.name] = pc.if_else(pa.array(mask), values, batch.column(column.name))
    columns["$hole"] = pc.if_else(pa.array(found), pa.scalar(None, pa.binary()), batch.column("$hole"))
    return pa.record_batch(columns)


# --- values that the stream does not send -----------------------------------------------------------------------------


def complete(
    read: Callable[[], PostgresChunkRead], rows: TableRows, ids: Sequence[Any]
) -> tuple[TableRows, Position | None]:
    """Fill the holes of rows that have another key than before from the server, by the key that they have now."""
    batch = rows.rows
    wanted = np.flatnonzero(
        pc.and_(pc.is_valid(batch.column("$hole")), pc.is_valid(batch.column("$from"))).to_numpy(zero_copy_only=False)
    )
    if not len(wanted):
        return rows, None
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with read() as found:
                if found.snapshot.unseen(ids) is None:
                    return found.completed(rows, wanted)
        except LockedError as error:
            if time.monotonic() > until:  # it passes: the sinks of the table need not do without the change
                raise SinkqlError(error.code, error.message, hint=error.hint) from error
            continue
        if time.monotonic() > until:
            raise SinkqlError(
                "SQ3708",
                "the server shows none of its changes yet, though they have committed",
                hint="A synchronous standby does not answer: start it, or change synchronous_standby_names; it is "
                "tried again.",
            )
        time.sleep(_BREATH_S)
