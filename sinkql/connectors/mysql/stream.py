"""The stream of a MySQL or MariaDB server: its binary log as changes of the captured tables, and reads of them."""

from __future__ import annotations

import time
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
    TableRows,
    Transactions,
)
from sinkql.connector_api.tunnel import carried_tunnel
from sinkql.connectors.mysql.binlog import Altered, BinlogReader, TransactionPart, log_place, read_begin
from sinkql.connectors.mysql.binlog_client import BLOCK, BinlogDump, binlog_end, current_position, server_id
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
    count_transactions,
    read_position,
    scan_start,
    set_text,
)
from sinkql.connectors.mysql.history_check import ReadHistories
from sinkql.connectors.mysql.purify import check_settings, has_unique_key
from sinkql.connectors.mysql.snapshot import ServerSnapshot, TableRead, begin_snapshot
from sinkql.connectors.mysql.table import Matched, changed_rows, match, without
from sinkql.connectors.mysql.table_map import TableMap
from sinkql.decode.columnar import Block
from sinkql.errors import SinkqlError

_LOOK_S = 60.0
_PAUSE_S = 0.1
_UNBOUNDED = 1 << 62
_UNTOLD = {ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.XAER_RMERR}
"""What a server says to those who may not know of distributed transactions; MySQL the second."""


class MySqlStream:
    """Read one server; `begin` opens a connection for its log, other questions go through a second one."""

    unit = "transactions"

    def __init__(self, source: CapturedSource, secret: Reveal) -> None:
        assert source.connection is not None
        self._source = source
        self._options = source.connection.options
        self._tunnel = carried_tunnel(source.connection)
        self._secret = secret
        self._where = f"{self._options['host']}:{self._options['port']}"
        self._named = {"name": source.connection.name, "where": self._where}
        self._connection: Connection = None
        self._maria = False
        self._dump: BinlogDump | None = None
        self._log: BinlogReader
        self._tables: dict[str, CapturedTable] = {}
        self._charsets: dict[int, str] = {}
        self._matched: dict[tuple[str, int], Matched] = {}
        self._pending: tuple[bytes, list[tuple[int, int]]] = b"", []
        self._histories = ReadHistories(source.notes)
        self._server = ""

    def _connect(self) -> Connection:
        return connect(self._options, self._secret, name=self._named["name"], tunnel=self._tunnel)

    def _ask(self) -> Connection:
        """Return the connection for questions."""
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
        """Return the present end; nothing is made on the server. Raises SQ4470.

        Snapshots see all that was prepared in the log before it, as nothing is read of that: it has ended.
        """
        end = self.end()
        deadline = time.monotonic() + _LOOK_S
        with failing(**self._named):
            prepared = before = self._list_prepared()
            while prepared:
                if time.monotonic() > deadline:
                    raise _undecided_error(self._where, len(prepared))
                time.sleep(_PAUSE_S)
                prepared = before & self._list_prepared()
            if self._maria:
                target = log_place(*binlog_end(self._ask()))
                while not self.look().sees(target):
                    if time.monotonic() > deadline:
                        raise ConnectionError("its snapshots do not see what it has committed")
        return end

    def _list_prepared(self) -> frozenset[tuple[Any, ...]]:
        """Return the distributed transactions that may be committed or not; none where the user may not know."""
        try:
            return frozenset(rows(self._ask(), "XA RECOVER"))
        except pymysql.OperationalError as error:
            if error.args[0] not in _UNTOLD:
                raise
            return frozenset()

    def follows(self, after: Position) -> bool:
        """Tell whether the server's files begin early enough: it says so at once."""
        try:
            with failing(**self._named):
                self._check_position(after)
            dump = self._open_dump(after)
            try:
                with failing(**self._named):
                    if not dump.fill(_LOOK_S):
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
        connection = self._ask()
        self._tables = {table.id: table for table in tables}
        with failing(**self._named):
            self._charsets = charsets(connection, maria=self._maria)
            self._check_position(after)
        self._check_last(after)
        position = read_position(after, mariadb=self._maria)
        watched = {(table.name[0], table.name[1]): table.id for table in tables}
        start = scan_start(after) or set_text(after)
        first = DomainTransactions(start) if self._maria else NumberedTransactions(start)
        self._log = BinlogReader(
            position, watched, self._fits, scanned=first, stops=stops, maria=self._maria, folded=self._is_case_folded()
        )
        self._log.histories = self._histories.received
        self._dump = self._open_dump(after)

    def _is_case_folded(self) -> bool:
        """Tell whether the case of tables' names says nothing: the log has them in one case, statements in any."""
        with failing(**self._named):
            return variables(self._ask(), "lower_case_table_names").get("lower_case_table_names", "0") != "0"

    def _check_last(self, after: Position) -> None:
        """See that the transaction that was read last is the one that the server has; raises SQ4467.

        Another server may have committed those that it got from the first one in another order, at other times.
        """
        name = "server_id" if self._maria else "server_uuid"
        with failing(**self._named):
            self._server = str(variables(self._ask(), name).get(name, ""))
        last = self._histories.last(after)
        if last is None or last.server != self._server:
            return
        dump = self._open_dump(last.before.partition(";")[0])  # that is behind which it is to come first
        try:
            transaction = self._first_transaction(dump)
        except SinkqlError as error:
            if not error.of_loss:
                raise
            return  # it has deleted that part of the log, and may have what follows
        finally:
            dump.close()
        if transaction == (last.id, last.at):
            return
        raise SinkqlError(
            "SQ4467",
            f"MySQL server {self._where} does not have the transactions that were read last",
            detail=f"Another transaction than the one that was read is {last.id}: the server was put back from a copy.",
            hint=SKIP,
        )

    def _first_transaction(self, dump: BinlogDump) -> tuple[str, int]:
        """Return id and time of the first transaction that a log has."""
        until = time.monotonic() + _LOOK_S
        while time.monotonic() < until:
            if dump.fill(_PAUSE_S):
                raw, frames = dump.events()
                for start, end in frames:
                    transaction = read_begin(raw, start, end)
                    if transaction is not None:
                        return transaction
        raise ConnectionError("the server does not send its log")

    def _open_dump(self, after: Position) -> BinlogDump:
        """Ask for the log, from a position on."""
        dump, start = BinlogDump(self._connect(), **self._named), scan_start(after) or set_text(after)
        number = server_id(f"{self._source.id} {self._source.name}")
        if self._maria:
            dump.begin_mariadb(start, server_id=number)
        else:
            dump.begin_mysql(NumberedTransactions(start), server_id=number)
        return dump

    def _check_position(self, after: Position) -> None:
        """See that the server has what was read, as it has not after a failover to one that was behind."""
        wanted = read_position(after, mariadb=self._maria)
        set_type = DomainTransactions if self._maria else NumberedTransactions
        if not set_type(current_position(self._ask(), maria=self._maria)).covers(wanted):
            raise SinkqlError(
                "SQ4467",
                f"MySQL server {self._where} does not have the transactions that were read last",
                detail=f"They are {wanted.text()}.",
                hint=f"Another server may have taken over. {SKIP}",
            )

    def _fits(self, table: str, layout: TableMap) -> bool:
        return self._match_layout(table, layout).problem is None

    def _match_layout(self, table: str, layout: TableMap) -> Matched:
        """Return how a table's columns stand in a layout; layouts are kept as long as the stream is."""
        matched = self._matched.get((table, id(layout)))
        if matched is None:
            captured = self._tables[table]
            matched = match(captured, layout, self._charsets)
            if matched.columns and not self._has_key(captured, layout):
                columns = ", ".join(f'"{name}"' for name in captured.key)
                problem = f'table "{layout.database}.{layout.table}" has no unique key of {columns} any more'
                matched = Matched(without(captured), problem=problem, lost=True)
            self._matched[table, id(layout)] = matched
        return matched

    def _has_key(self, table: CapturedTable, layout: TableMap) -> bool:
        """Tell whether a table has its key; the server is asked where that is not the one that the log tells of.

        By then it may have another one: the log tells of one wherever there is any of whole columns.
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

    def known(self) -> Position:
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

    def _events(self, block: Block, sections: Sequence[TransactionPart | Altered]) -> list[Event]:
        events: list[Event] = []
        for section in sections:
            if isinstance(section, Altered):
                events += self._schema_changes(section)
            elif section.parts or section.emptied:
                events.append(self._rows_changed(block, section))
            elif section.ends:
                assert section.to is not None
                events.append(PositionAdvanced(section.to))
        return events

    def _rows_changed(self, block: Block, section: TransactionPart) -> RowsChanged:
        assert section.to is not None
        tables: dict[str, list[TableRows]] = {}
        for id_, parts in section.parts.items():
            for part in parts:
                matched = self._match_layout(id_, part.layout)
                if matched.columns:  # of others a `SchemaChanged` tells
                    tables.setdefault(id_, []).append(changed_rows(block, part, matched))
        done = Transactions(section.ends, section.ids)
        return RowsChanged(section.to, tables, done, frozenset(section.emptied), section.open)

    def _schema_changes(self, altered: Altered) -> list[SchemaChanged]:
        """Return what is to be said of a table: after a statement it is one again that may be read anew."""
        table = self._tables[altered.table]
        if altered.layout is not None:
            matched = self._match_layout(altered.table, altered.layout)
            return [SchemaChanged(matched.table, matched.problem, lost=matched.lost)]
        assert altered.effect is not None
        name = ".".join(table.name)
        match altered.effect.what:
            case "altered":
                return [SchemaChanged(table)]
            case "columns":
                dropped = {name.lower() for name in altered.effect.columns}
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
                problem = f'rows of table "{name}" were changed by a statement that the log has no rows of'
        return [SchemaChanged(without(table), problem, lost=True), SchemaChanged(table)]

    def confirm(self, position: Position) -> None:
        """Take note of what was read last: the server keeps its log for as long as it is set to."""
        self._histories.save(self._server)

    def looked_since(self, moment: float) -> bool:
        return True

    def retained(self) -> int:
        return 0

    def most_retained(self) -> int:
        return _UNBOUNDED

    def chunk(self, table: CapturedTable) -> TableRead:
        self._ask()
        return TableRead(table, self._connect, maria=self._maria, **self._named)

    def flush(self) -> None:
        """Do nothing: what a chunk's `high` names is in the log."""

    def complete(self, table: CapturedTable, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        """Return the rows as they are: the log has all columns."""
        return rows, None

    def renew(self) -> None:
        """Forget what was read last: the server keeps nothing for anybody."""
        self._histories.clear()

    def close(self) -> None:
        if self._dump is not None:
            self._dump.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _undecided_error(where: str, count: int) -> SinkqlError:
    one = count == 1
    return SinkqlError(
        "SQ4470",
        f"MySQL server {where} has {count} distributed transaction{'' if one else 's'} that {'is' if one else 'are'} "
        "prepared, and neither committed nor rolled back",
        hint="Reading begins once they have ended. XA RECOVER on the server lists them; see to it that who began them "
        "ends them, or run XA COMMIT or XA ROLLBACK.",
    )


def open_stream(source: CapturedSource, secret: Reveal) -> MySqlStream:
    """Return a stream that has not connected."""
    return MySqlStream(source, secret)
