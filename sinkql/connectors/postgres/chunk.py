"""Read parts of a table in one transaction of the server, and values that its stream does not send."""

from __future__ import annotations

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
from sinkql.connectors.postgres.adbc import AdbcConnection, AdbcDriver, AdbcFailedError, ExportedSnapshot
from sinkql.connectors.postgres.client import guarded
from sinkql.connectors.postgres.copy import CopiedRows, RecordLayout, build_rows, copy_out
from sinkql.connectors.postgres.relation import SentColumn, keep_columns, match_columns, missing_columns_text
from sinkql.connectors.postgres.rows import GarbledError
from sinkql.connectors.postgres.slot import Connection, query_row, query_value, read_place, server_snapshot
from sinkql.connectors.postgres.type import ServerColumn, ServerTable, ServerType, server_table
from sinkql.decode.columnar import Offsets
from sinkql.errors import SinkqlError, TableError
from sinkql.machine import clock

_FIRST_ROWS = 5_000
_MOST_ROWS = 500_000
_WIDTH = 1600
"""Estimated bytes of a row before the first rows were read."""
_PAGE = 8192
LARGE_BYTES = 32 << 20
"""Bytes of a table from which ADBC saves more than its second connection costs."""
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
    """A query on a captured table: its columns, and the table on the server."""

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
        """The columns as `rows` selects them: columns that are read as text have the type text."""
        return tuple(
            msgspec.structs.replace(column, type=_TEXT_TYPE) if column.as_text else column for column in self.columns
        )

    @property
    def key(self) -> tuple[int, ...]:
        """The places of the key's columns."""
        places = {column.name: place for place, column in enumerate(self.columns)}
        return tuple(places[name] for name in self.table.key)

    @property
    def called(self) -> str:
        return f"{self.server.schema}.{self.server.name}"

    @property
    def name(self) -> sql.Composed:
        return sql.SQL("{}.{}").format(sql.Identifier(self.server.schema), sql.Identifier(self.server.name))

    def values(self) -> list[sql.Composed]:
        """Return the columns as queries select them."""
        values = [sql.SQL("t.{}").format(sql.Identifier(column.name)) for column in self.columns]
        return [
            _format_output(value) if column.as_text else value
            for column, value in zip(self.columns, values, strict=True)
        ]

    def rows(
        self,
        where: Sequence[sql.Composable],
        after: sql.Composable | None = None,
        listed: sql.Composable | None = None,
    ) -> sql.Composed:
        """Return the query of all columns, or of another value of each row."""
        listed = listed or sql.SQL(", ").join(self.values())
        conditions = [*where, *([sql.SQL(f"({self.server.filter})")] if self.server.filter else [])]
        condition = sql.SQL(" WHERE ") + sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("")
        only = sql.SQL("" if self.server.partitioned else "ONLY ")
        return sql.SQL("SELECT {} FROM {}{} AS t{}{}").format(listed, only, self.name, condition, after or sql.SQL(""))

    def key_names(self) -> sql.Composed:
        return sql.SQL(", ").join(
            sql.SQL("t.{}").format(sql.Identifier(self.columns[place].name)) for place in self.key
        )


def _format_output(value: sql.Composable) -> sql.Composed:
    """Return the SQL of a value's text, as the output function of its type writes it.

    The stream sends the same text; a cast could give another one.
    """
    return sql.SQL("CASE WHEN pg_catalog.num_nulls({0}) = 0 THEN pg_catalog.format('%s', {0}) END").format(value)


class DroppedError(TableError):
    """A table no longer exists on the server under any name."""


class LockedError(TableError):
    """Another transaction has locked a table."""


@dataclass(frozen=True, slots=True)
class ConnectionOpener:
    """Opens connections for chunks, and translates their failures. `driver` reads the rows of large tables."""

    connect: Callable[[], Connection]
    failed: Callable[[psycopg.Error], SinkqlError]
    driver: AdbcDriver | None = None


@dataclass(slots=True)
class TableSize:
    """What earlier chunks found out about a table: the average bytes of its rows, and about how many there are."""

    width: float | None = None
    rows: int | None = None

    @property
    def is_large(self) -> bool:
        """Return whether chunks before this one were read, and the table is large as far as known."""
        return self.width is not None and (self.rows is None or self.rows * self.width >= LARGE_BYTES)


@dataclass
class PostgresChunkRead:
    """A transaction in which parts of a table are read (`sinkql.connector_api.cdc.ChunkRead`).

    The number of rows in a chunk follows from their width in `size`.
    """

    query: Query
    source: str
    opener: ConnectionOpener
    position: Callable[[int], Position]
    size: TableSize
    snapshot: Snapshot = field(init=False)
    reshaped: SchemaChanged | None = field(init=False, default=None)
    """The columns that the table still has; None if it has all of them."""
    missing_columns: str = field(init=False, default="")
    """The problems of the columns that it has lost."""
    _connection: Connection | None = field(init=False, default=None)
    _exported: ExportedSnapshot | None = field(init=False, default=None)
    _second: AdbcConnection | None = field(init=False, default=None)
    """The connection that reads records, in a transaction with the same snapshot."""
    _now: int = field(init=False, default=0)

    def __enter__(self) -> PostgresChunkRead:
        """Begin the transaction, with the table locked against TRUNCATE and rewrites."""
        with self._translate_errors():
            self._connection = self.opener.connect()
            try:
                self._begin(self._connection)
            except BaseException:
                self._connection.close()  # else its lock would remain
                raise
        return self

    def _begin(self, connection: Connection) -> None:
        connection.execute(_settings(connection))
        self._lock(connection)
        self._export(connection)
        self.snapshot = server_snapshot(connection)
        self._match_columns(connection)
        self._now = query_value(connection, "SELECT (extract(epoch FROM now()) * 1000000)::int8")

    def _lock(self, connection: Connection) -> None:
        """Begin the transaction and lock the table by its present name.

        Another table may have got its old name. Only the lock may precede the transaction's snapshot.
        """
        for _ in range(_LOCK_TRIES):
            row = connection.execute(_NAME, [self.query.server.oid]).fetchone()
            if row is None:
                raise _changed_table_error(self.query, self.source, "the table was dropped", DroppedError)
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
        raise _changed_table_error(self.query, self.source, "the table was renamed during each attempt to lock it")

    def _export(self, connection: Connection) -> None:
        """Export the transaction's snapshot for a large table, or begin again without."""
        driver = self.opener.driver
        if driver is None or not driver.is_usable or not self.query.columns or not self._is_large(connection):
            return
        try:
            row = query_row(connection, "SELECT pg_export_snapshot(), pg_current_snapshot()::text")
        except psycopg.Error:
            driver.refuse()
            connection.execute("ROLLBACK")
            self._lock(connection)
        else:
            self._exported = ExportedSnapshot(*row)

    def _is_large(self, connection: Connection) -> bool:
        if self.query.table.key:
            return self.size.is_large
        return sum(pages for _, pages in self._list_leaves(connection)) * _PAGE >= LARGE_BYTES

    def _match_columns(self, connection: Connection) -> None:
        """Update the columns to their present state, without dropped columns and columns of other types."""
        server = self.query.server
        attributes = connection.execute(_COLUMNS, [server.oid]).fetchall()
        present = [SentColumn(name, oid, modifier, in_key=False) for name, oid, modifier in attributes]
        columns, problems = match_columns(server, present)
        table = self.query.table
        if problems:
            if not {column.name for column in columns}.issuperset(table.key):
                raise _changed_table_error(self.query, self.source, "; ".join(problems))
            table = keep_columns(table, server, columns)
            self.missing_columns = "; ".join(problems)
            self.reshaped = SchemaChanged(table, missing_columns_text(server, problems))
        self.query = Query(table, msgspec.structs.replace(server, columns=tuple(columns)))

    def __exit__(self, *error: object) -> None:
        """End the transaction."""
        if self._second is not None:
            self._second.close()
        if self._connection is not None:
            self._connection.close()

    def count(self) -> int | None:
        """Return the number of rows that the server's planner expects, after the filter."""
        with self._translate_errors():
            counted = sql.SQL("EXPLAIN (FORMAT JSON) ") + self.query.rows([])
            (plan,) = query_value(self._open, counted)
        self.size.rows = int(plan["Plan"]["Plan Rows"])
        return self.size.rows

    def read(self, after: Key | None, size: int) -> Chunk:
        """Return about `size` bytes of rows after a key; without a key column, all rows in parts."""
        with self._translate_errors():
            if self.reshaped is not None and after is None:
                raise _changed_table_error(self.query, self.source, self.missing_columns)
            high = self.position(read_place(query_value(self._open, f"SELECT {END}")))
            if not self.query.key:
                return Chunk(self._read_pages(size), None, high, self.reshaped)
            rows, last = self._read_after_key(after, size)
        return Chunk(rows, last, high, self.reshaped)

    def fill_unchanged(self, rows: TableRows, wanted: Offsets) -> tuple[TableRows, Position]:
        """Return rows with their unchanged values filled; `wanted` are the places of rows to look up by key."""
        query, batch = self.query, rows.rows
        if self.reshaped is not None:  # the values of lost columns cannot be read
            raise _changed_table_error(query, self.source, self.missing_columns)
        with self._translate_errors():
            keys = [python_values(batch.column(place).take(pa.array(wanted))) for place in query.key]
            wanted_keys = list(zip(*keys, strict=True))
            text = query.rows([_match_keys(query, wanted_keys)]).as_string(self._open)
            copied = copy_out(self._open, text, query.selected)
            stored = build_rows(query.table, query.selected, query.key, copied, at=self._now).rows
            end = read_place(query_value(self._open, f"SELECT {END}"))
        stored_keys = zip(*(python_values(stored.column(place)) for place in query.key), strict=True)
        numbers = {key: number for number, key in enumerate(stored_keys)}
        stored_rows = np.full(len(batch), -1, np.int64)
        stored_rows[wanted] = [numbers.get(key, -1) for key in wanted_keys]
        return replace(rows, rows=_fill_rows(query, batch, stored, stored_rows)), self.position(end)

    def _read_after_key(self, after: Key | None, size: int) -> tuple[list[TableRows], Key | None]:
        query, limit = self.query, self._row_limit(size)
        where = []
        if after is not None:
            values = sql.SQL(", ").join(map(sql.Literal, after))
            where = [sql.SQL("({}) > ({})").format(query.key_names(), values)]
        order = sql.SQL(" ORDER BY {} LIMIT {}").format(query.key_names(), sql.Literal(limit))
        parts = self._select(where, order)
        count = sum(part.count for part in parts)
        if count:
            self.size.width = sum(part.size for part in parts) / count
        return self._build(parts, query.key), self._last_key(parts[-1]) if count == limit else None

    def _select(self, where: Sequence[sql.Composable], order: sql.Composable | None = None) -> list[CopiedRows]:
        """Return the rows of a query, as records if the snapshot was exported."""
        if self._exported is not None:
            try:
                return self._select_records(self._exported, where, order)
            except (AdbcFailedError, GarbledError):
                self._exported = None
        text = self.query.rows(where, order).as_string(self._open)
        return [copy_out(self._open, text, self.query.selected)]

    def _select_records(
        self, exported: ExportedSnapshot, where: Sequence[sql.Composable], order: sql.Composable | None
    ) -> list[CopiedRows]:
        """Return the rows of a query through ADBC; raise AdbcFailedError."""
        query, connection = self.query, self._open
        if self._second is None:
            assert self.opener.driver is not None
            self._second = self.opener.driver.open(connection, exported, _settings(connection))
            self._second.lock(query.name.as_string(connection))
        layout = RecordLayout.of(query.selected)
        text = query.rows(where, order, layout.record(query.values())).as_string(connection)
        return list(map(layout.locate, self._second.read(text)))

    def _build(self, parts: Sequence[CopiedRows], key: Sequence[int]) -> list[TableRows]:
        """Return the parts of a query's result as rows."""
        query, built, before = self.query, list[TableRows](), 0
        for part in parts:
            built.append(build_rows(query.table, query.selected, key, part, at=self._now, before=before))
            before += part.count
        return built

    def _row_limit(self, size: int) -> int:
        if self.size.width is None:
            return max(1, min(int(size / _WIDTH), _FIRST_ROWS))
        return max(1, min(int(size / self.size.width), _MOST_ROWS))

    def _last_key(self, copied: CopiedRows) -> Key:
        """Return the key of the last row, as the server writes its values."""
        query, connection = self.query, self._open
        values = [copied.value(place, copied.count - 1) for place in query.key]
        types = [query.selected[place].type.bare.oid for place in query.key]
        listed = sql.SQL(", ").join(_format_output(sql.SQL(f"${number + 1}")) for number in range(len(values)))
        statement = sql.SQL("SELECT {}").format(listed).as_bytes(connection)
        with guarded(connection):
            result = connection.pgconn.exec_params(statement, values, types, [1] * len(values), 0)
        if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result)
        return tuple((result.get_value(0, number) or b"").decode() for number in range(len(values)))

    def _read_pages(self, size: int) -> Iterator[TableRows]:
        """Yield the rows of a table without a key, or of its partitions, a range of pages at a time."""
        step = max(size // _PAGE, 1)
        with self._translate_errors():
            for leaf, pages in self._list_leaves(self._open):
                for page in range(0, pages, step):
                    where = sql.SQL("t.tableoid = {} AND t.ctid >= {} AND t.ctid < {}").format(
                        sql.Literal(leaf), sql.Literal(f"({page},0)"), sql.Literal(f"({page + step},0)")
                    )
                    yield from self._build([part for part in self._select([where]) if part.count], ())

    def _list_leaves(self, connection: Connection) -> list[tuple[int, int]]:
        """Return the ids of the tables that hold the rows, with their numbers of pages."""
        oid = self.query.server.oid
        leaves = connection.execute(
            "SELECT relid::oid::int8, pg_relation_size(relid) / current_setting('block_size')::int "
            "FROM pg_partition_tree(%s::oid::regclass) WHERE isleaf ORDER BY 1",
            [oid],
        ).fetchall()
        if leaves:
            return [(leaf, pages) for leaf, pages in leaves]
        (pages,) = connection.execute(
            "SELECT pg_relation_size(%s::oid) / current_setting('block_size')::int", [oid]
        ).fetchone() or (0,)
        return [(oid, pages)]

    @property
    def _open(self) -> Connection:
        assert self._connection is not None, "the read has not begun"
        return self._connection

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise _table_error(error, self.query, self.source) or self.opener.failed(error) from error


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


def _settings(connection: Connection) -> str:
    """Return the statements that begin each session."""
    timed = connection.info.server_version >= _TIMED_TRANSACTIONS
    return f"{_SETTINGS}; SET transaction_timeout = 0" if timed else _SETTINGS


def _table_error(error: psycopg.Error, query: Query, source: str) -> SinkqlError | None:
    """Return the error of a table that a failure means; None if the failure has another cause."""
    match error:
        case psycopg.errors.InsufficientPrivilege():
            return TableError(
                "SQ3710",
                f'the user of source "{source}" may not read table "{query.called}"',
                detail=str(error).splitlines()[0],
                hint=f"Run GRANT SELECT ON {query.called} TO the user on the server, and GRANT USAGE ON SCHEMA "
                f"{query.server.schema}. With row-level security, also run ALTER ROLE … BYPASSRLS.",
            )
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedColumn() | psycopg.errors.InvalidSchemaName():
            return _changed_table_error(query, source, str(error).splitlines()[0])
        case psycopg.errors.LockNotAvailable():
            return LockedError(
                "SQ3712",
                f'table "{query.called}" of source "{source}" is locked',
                hint="Wait for the TRUNCATE or ALTER TABLE that holds the lock. SinkQL retries automatically.",
            )
        case _:
            return None


def _changed_table_error(query: Query, source: str, detail: str, error: type[TableError] = TableError) -> TableError:
    return error(
        "SQ3711",
        f'table "{query.called}" of source "{source}" was changed or dropped on the server',
        detail=detail,
        hint="Undo the change on the server, or run ALTER SOURCE … REFRESH REFERENCES and start the sinks again. "
        "If REFRESH REFERENCES fails, drop the sinks that read the table.",
    )


def _match_keys(query: Query, keys: Sequence[tuple[Any, ...]]) -> sql.Composable:
    """Return the condition that a row has one of the keys."""
    names = [sql.SQL("t.{}").format(sql.Identifier(query.columns[place].name)) for place in query.key]
    each_key = (
        sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(name, sql.Literal(value)) for name, value in zip(names, key, strict=True)
        )
        for key in keys
    )
    return sql.SQL("({})").format(sql.SQL(" OR ").join(each_key))


def _fill_rows(query: Query, batch: pa.RecordBatch, stored: pa.RecordBatch, which: Offsets) -> pa.RecordBatch:
    """Return rows with their unchanged values filled from `stored`.

    `which` has the place of the stored row for each row, or -1.
    """
    has_row = which >= 0
    row_indices = pa.array(which, mask=~has_row)
    unchanged = [b"\0" if bits is None else bits for bits in batch.column("$hole").to_pylist()]
    columns = {name: batch.column(name) for name in batch.schema.names}
    for number, column in enumerate(query.table.columns):
        bits = [len(flags) > number >> 3 and flags[number >> 3] >> (number & 7) & 1 for flags in unchanged]
        mask = np.array(bits, bool) & has_row
        if mask.any():
            values = stored.column(column.name).take(row_indices)
            columns[column.name] = pc.if_else(pa.array(mask), values, batch.column(column.name))
    columns["$hole"] = pc.if_else(pa.array(has_row), pa.scalar(None, pa.binary()), batch.column("$hole"))
    return pa.record_batch(columns)


# --- values that the stream does not send -----------------------------------------------------------------------------


def complete(
    read: Callable[[], PostgresChunkRead], rows: TableRows, ids: Sequence[Any]
) -> tuple[TableRows, Position | None]:
    """Fill the unchanged values of rows whose key changed, by their present key."""
    batch = rows.rows
    wanted = np.flatnonzero(
        pc.and_(pc.is_valid(batch.column("$hole")), pc.is_valid(batch.column("$from"))).to_numpy(zero_copy_only=False)
    )
    if not len(wanted):
        return rows, None
    until = clock.monotonic() + _PATIENCE_S
    while True:
        try:
            with read() as chunk_read:
                if chunk_read.snapshot.unseen(ids) is None:
                    return chunk_read.fill_unchanged(rows, wanted)
        except LockedError as error:
            if clock.monotonic() > until:  # not a TableError: a retry of the change may still get the lock
                raise SinkqlError(error.code, error.message, hint=error.hint) from error
            continue
        if clock.monotonic() > until:
            raise SinkqlError(
                "SQ3708",
                "the server does not show committed changes yet",
                hint="A synchronous standby does not answer: start it, or change synchronous_standby_names. SinkQL "
                "retries automatically.",
            )
        clock.sleep(_BREATH_S)
