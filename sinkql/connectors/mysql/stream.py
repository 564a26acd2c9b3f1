"""Stream the changes of captured tables from the binary log of a MySQL or MariaDB server, and read their chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymysql
from pymysql.constants import ER

from sinkql.connector_api.cdc import (
    SKIP,
    CapturedSource,
    CapturedTable,
    Event,
    Position,
    PositionAdvanced,
    RowsChanged,
    SchemaChanged,
    Stream,
    TableRows,
    Transactions,
)
from sinkql.connector_api.read_history import ReadHistory
from sinkql.connector_api.tunnel import carried_tunnel
from sinkql.connectors.mysql.binlog import BinlogReader, log_place
from sinkql.connectors.mysql.binlog_client import BLOCK, BinlogDump, binlog_end, current_position, server_id
from sinkql.connectors.mysql.binlog_sections import TransactionPart
from sinkql.connectors.mysql.connection import (
    Connection,
    Reveal,
    charsets,
    connect,
    failing,
    is_mariadb,
    rows,
    variables,
)
from sinkql.connectors.mysql.gtid import (
    DomainTransactions,
    NumberedTransactions,
    ReadTransaction,
    count_transactions,
    read_position,
    scan_start,
    set_text,
)
from sinkql.connectors.mysql.history_check import check_history, server_name
from sinkql.connectors.mysql.options import MySqlConnection
from sinkql.connectors.mysql.purify import check_settings, has_unique_key
from sinkql.connectors.mysql.snapshot import ServerSnapshot, TableRead, begin_snapshot
from sinkql.connectors.mysql.table_changes import TableMatcher, changed_rows, without
from sinkql.connectors.mysql.table_map import AlteredTable, TableMap, WatchedTables
from sinkql.decode.columnar import Block
from sinkql.errors import SinkqlError
from sinkql.machine import clock

_WAIT_S = 60.0
_PAUSE_S = 0.1
_MAY_NOT_LIST = {ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.XAER_RMERR}
"""The server's errors for users who may not list distributed transactions; MySQL returns the second one."""


class MySqlStream(Stream):
    """Reads one server.

    `begin` opens a connection for the binary log. Queries go through a second connection.
    """

    unit = "transactions"

    def __init__(self, source: CapturedSource, secret: Reveal) -> None:
        assert source.connection is not None
        self._source = source
        self._options = MySqlConnection.from_plan(source.connection.options)
        self._tunnel = carried_tunnel(source.connection)
        self._secret = secret
        self._where = self._options.address
        self._named = {"name": source.connection.name, "where": self._where}
        self._connection: Connection = None
        self._maria = False
        self._dump: BinlogDump | None = None
        self._log: BinlogReader
        self._matcher: TableMatcher
        self._pending: tuple[bytes, list[tuple[int, int]]] = b"", []
        self._history = ReadHistory(ReadTransaction, source.notes)

    def _connect(self) -> Connection:
        return connect(self._options, self._secret, name=self._named["name"], tunnel=self._tunnel)

    def _ask(self) -> Connection:
        """Return the connection for queries."""
        if self._connection is None:
            self._connection = self._connect()
            with failing(**self._named):
                self._maria = is_mariadb(self._connection)
        return self._connection

    def check(self) -> None:
        connection = self._ask()
        with failing(**self._named):
            check_settings(connection, maria=self._maria, where=self._where)

    def create(self) -> Position:
        """Return the present end of the log; raise SQ4470. The server stores nothing for the source.

        It waits until all transactions that were already prepared have ended, because the log before that end is not
        read. Then every snapshot sees all of them.
        """
        end = self.end()
        deadline = clock.monotonic() + _WAIT_S
        with failing(**self._named):
            prepared = before = self._list_prepared()
            while prepared:
                if clock.monotonic() > deadline:
                    raise _undecided_error(self._where, len(prepared))
                clock.sleep(_PAUSE_S)
                prepared = before & self._list_prepared()
            if self._maria:
                target = log_place(*binlog_end(self._ask()))
                while not self.look().sees(target):
                    if clock.monotonic() > deadline:
                        raise ConnectionError("the server's snapshots do not see committed changes")
        return end

    def _list_prepared(self) -> frozenset[tuple[Any, ...]]:
        """Return the prepared distributed transactions; none if the user may not list them."""
        try:
            return frozenset(rows(self._ask(), "XA RECOVER"))
        except pymysql.OperationalError as error:
            if error.args[0] not in _MAY_NOT_LIST:
                raise
            return frozenset()

    def follows(self, after: Position) -> bool:
        """Return whether the server's log still has all changes after a position, which it reports immediately."""
        try:
            with failing(**self._named):
                self._check_position(after)
            dump = self._open_dump(after)
            try:
                with failing(**self._named):
                    if not dump.fill(_WAIT_S):
                        raise ConnectionError("the server does not send its log")
                dump.events()
            finally:
                dump.close()
        except SinkqlError as error:
            if not error.of_loss:
                raise
            return False
        return True

    def begin(self, after: Position, tables: Sequence[CapturedTable], stops: Sequence[Position] = ()) -> None:
        """Start to receive the changes after a position; raise SQ4467."""
        connection = self._ask()
        with failing(**self._named):
            self._matcher = TableMatcher(tables, charsets(connection, maria=self._maria), self._has_key)
            self._check_position(after)
            server = server_name(connection, maria=self._maria)
            check_history(self._history.last(after), server, self._open_dump, where=self._where)
        position = read_position(after, mariadb=self._maria)
        watched = {(table.name[0], table.name[1]): table.id for table in tables}
        start = scan_start(after) or set_text(after)
        first = DomainTransactions(start) if self._maria else NumberedTransactions(start)
        folded = self._is_case_folded()
        self._log = BinlogReader(
            position,
            WatchedTables(watched, self._matcher.fits, maria=self._maria, folded=folded),
            scanned=first,
            stops=stops,
            maria=self._maria,
            received=self._history.received,
            server=server,
        )
        self._dump = self._open_dump(after)

    def _is_case_folded(self) -> bool:
        """Return whether the case of table names is irrelevant: the log has one case, statements any."""
        with failing(**self._named):
            return variables(self._ask(), "lower_case_table_names").get("lower_case_table_names", "0") != "0"

    def _open_dump(self, after: Position) -> BinlogDump:
        """Request the log after a position."""
        dump, start = BinlogDump(self._connect(), **self._named), scan_start(after) or set_text(after)
        number = server_id(f"{self._source.id} {self._source.name}")
        if self._maria:
            dump.begin_mariadb(start, server_id=number)
        else:
            dump.begin_mysql(NumberedTransactions(start), server_id=number)
        return dump

    def _check_position(self, after: Position) -> None:
        """Check that the server has the transactions that were read; after a failover it may lack some."""
        set_type = DomainTransactions if self._maria else NumberedTransactions
        if not set_type(current_position(self._ask(), maria=self._maria)).covers(after):
            raise SinkqlError(
                "SQ4467",
                f"MySQL server {self._where} does not have the transactions that were read last",
                detail=f"The transactions are {set_text(after)}.",
                hint=f"Another server may have taken over. {SKIP}",
            )

    def _has_key(self, table: CapturedTable, layout: TableMap) -> bool:
        """Return whether a table has its key.

        If the log reports another key, the server is asked. It may have got a new key since the layout was logged: the
        log reports a key whenever there is one of complete columns.
        """
        if not table.key or (layout.primary and layout.primary <= set(table.key)):
            return True
        connection = self._ask()
        with failing(**self._named):
            return has_unique_key(connection, table.name, table.key, whole=bool(layout.primary))

    def end(self) -> Position:
        with failing(**self._named):
            text = current_position(self._ask(), maria=self._maria)
        return (DomainTransactions(text) if self._maria else NumberedTransactions(text)).position()

    def approximate_position(self) -> Position:
        return self.end()

    def number(self, position: Position) -> int:
        return count_transactions(position)

    def look(self) -> ServerSnapshot:
        connection = self._ask()
        with failing(**self._named):
            snapshot, _ = begin_snapshot(connection, maria=self._maria)
            connection.rollback()
        return snapshot

    def receive(self, seconds: float) -> Sequence[Event]:
        dump = self._dump
        assert dump is not None, "the stream has begun"
        if not dump.fill(seconds):
            return []
        raw, frames = dump.events()
        pending, places = self._pending
        if pending:
            places = [*places, *((start + len(pending), end + len(pending)) for start, end in frames)]
            raw = pending + raw
        else:
            places = frames
        try:
            block, sections, done = self._log.walk(raw, places, whole=len(raw) < BLOCK)
            rest = places[done][0] if done < len(places) else len(raw)
            self._pending = raw[rest:], [(start - rest, end - rest) for start, end in places[done:]]
            return self._events(Block(block), sections)
        except (ValueError, IndexError) as error:
            raise SinkqlError(
                "SQ4469",
                f"the binary log of MySQL server {self._where} cannot be read",
                detail=str(error),
                hint=SKIP,
            ) from error

    def _events(self, block: Block, sections: Sequence[TransactionPart | AlteredTable]) -> list[Event]:
        events: list[Event] = []
        for section in sections:
            if isinstance(section, AlteredTable):
                events += self._schema_changes(section)
            elif section.parts or section.emptied:
                events.append(self._rows_changed(block, section))
            elif section.ends:
                events.append(PositionAdvanced(section.to))
        return events

    def _rows_changed(self, block: Block, section: TransactionPart) -> RowsChanged:
        tables: dict[str, list[TableRows]] = {}
        for id_, parts in section.parts.items():
            for part in parts:
                matched = self._matcher.match(id_, part.layout)
                if matched.columns:  # a `SchemaChanged` reports any other table
                    tables.setdefault(id_, []).append(changed_rows(block, part, matched))
        done = Transactions(section.ends, section.ids)
        return RowsChanged(section.to, tables, done, frozenset(section.emptied), section.open)

    def _schema_changes(self, altered: AlteredTable) -> list[SchemaChanged]:
        """Return the schema changes of an altered table; after a statement, a full refresh can read it again."""
        table = self._matcher.tables[altered.table]
        change = altered.change
        if isinstance(change, TableMap):
            matched = self._matcher.match(altered.table, change)
            return [SchemaChanged(matched.table, matched.problem, lost=matched.lost)]
        name = ".".join(table.name)
        match change.what:
            case "altered":
                return [SchemaChanged(table)]
            case "columns":
                dropped = {name.lower() for name in change.columns}
                lost = [column.name for column in table.columns if column.name.lower() in dropped]
                if not lost:
                    return []
                problem = "; ".join(f'column "{column}" of table "{name}" was dropped or renamed' for column in lost)
                return [SchemaChanged(without(table, lost), problem), SchemaChanged(table)]
            case "dropped" | "database":
                problem = f'table "{name}" was dropped or renamed'
            case "versioned":
                problem = f'table "{name}" has system versioning, which is not supported yet'
            case _:
                problem = f'rows of table "{name}" were changed by a statement without rows in the log'
        return [SchemaChanged(without(table), problem, lost=True), SchemaChanged(table)]

    def confirm(self, position: Position) -> None:
        """Record the last transaction that was read. The retention of the log depends only on the server's settings."""
        self._history.save()

    def chunk(self, table: CapturedTable) -> TableRead:
        self._ask()
        return TableRead(table, self._connect, maria=self._maria, **self._named)

    def flush(self) -> None:
        """Do nothing: the log already contains the high watermark of each chunk."""

    def complete(self, table: CapturedTable, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        """Return the rows unchanged: the log has all columns."""
        return rows, None

    def renew(self) -> None:
        """Delete the recorded history: the server stores nothing for a source."""
        self._history.clear()

    def close(self) -> None:
        if self._dump is not None:
            self._dump.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _undecided_error(where: str, count: int) -> SinkqlError:
    return SinkqlError(
        "SQ4470",
        f"MySQL server {where} has {count} prepared distributed transaction{'' if count == 1 else 's'}",
        hint="Reading begins when they have ended. XA RECOVER on the server lists them. Let their clients end them, or "
        "run XA COMMIT or XA ROLLBACK.",
    )


def open_stream(source: CapturedSource, secret: Reveal) -> MySqlStream:
    """Return a stream that has not connected yet."""
    return MySqlStream(source, secret)
