"""The stream of a MySQL or MariaDB server: its binary log as changes of the captured tables, and reads of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sinkql.capture.columnar import Block
from sinkql.connectors.mysql.connection import Connection, Reveal, charsets, connect, failing, mariadb
from sinkql.connectors.mysql.event import Altered, Log, Section, log_place
from sinkql.connectors.mysql.packet import BLOCK, Dump, binlog_end, present, server_id
from sinkql.connectors.mysql.position import DomainTransactions, NumberedTransactions, set_of, since, transactions
from sinkql.connectors.mysql.setting import check_settings
from sinkql.connectors.mysql.snapshot import Look, TableRead, begin
from sinkql.connectors.mysql.table import Matched, changed_rows, match
from sinkql.connectors.mysql.wire import TableMap
from sinkql.errors import SinkqlError
from sinkql.extension.capture import (
    ANEW,
    CapturedSource,
    CapturedTable,
    Changed,
    Event,
    Moved,
    Position,
    Reshaped,
    TableRows,
    Transactions,
)

_LOOK_S = 60.0
_UNBOUNDED = 1 << 62


class MySqlStream:
    """Read one server; `begin` opens a connection for its log, other questions go through a second one."""

    def __init__(self, source: CapturedSource, secret: Reveal) -> None:
        assert source.connection is not None
        self._source = source
        self._options = source.connection.options
        self._secret = secret
        self._where = f"{self._options['host']}:{self._options['port']}"
        self._named = {"name": source.connection.name, "where": self._where}
        self._asking: Connection = None
        self._maria = False
        self._dump: Dump | None = None
        self._log: Log
        self._tables: dict[str, CapturedTable] = {}
        self._charsets: dict[int, str] = {}
        self._matched: dict[tuple[str, int], Matched] = {}
        self._held: tuple[bytes, list[tuple[int, int]]] = b"", []

    def _connect(self) -> Connection:
        return connect(self._options, self._secret, name=self._named["name"])

    def _ask(self) -> Connection:
        """Return the connection for questions."""
        if self._asking is None:
            self._asking = self._connect()
            with failing(**self._named):
                self._maria = mariadb(self._asking)
        return self._asking

    def check(self) -> None:
        connection = self._ask()
        with failing(**self._named):
            check_settings(connection, maria=self._maria, where=self._where)

    def create(self) -> Position:
        """Return the present end; nothing is made on the server."""
        found = self.end()
        if self._maria:
            with failing(**self._named):
                target = log_place(*binlog_end(self._ask()))
                deadline = time.monotonic() + _LOOK_S
                while not self.look().sees(target):
                    if time.monotonic() > deadline:
                        raise ConnectionError("its snapshots do not see what it has committed")
        return found

    def begin(self, after: Position, tables: Sequence[CapturedTable], stops: Sequence[Position] = ()) -> None:
        connection = self._ask()
        self._tables = {table.id: table for table in tables}
        with failing(**self._named):
            self._charsets = charsets(connection, maria=self._maria)
            self._check_position(after)
        position = transactions(after, mariadb=self._maria)
        watched = {(table.name[0], table.name[1]): table.id for table in tables}
        self._log = Log(position, watched, self._fits, stops=stops, maria=self._maria)
        self._dump = Dump(self._connect(), **self._named)
        number = server_id(f"{self._source.id} {self._source.name}")
        start = since(after) or set_of(after)
        if self._maria:
            self._dump.begin_mariadb(start, server_id=number)
        else:
            self._dump.begin_mysql(NumberedTransactions(start), server_id=number)

    def _check_position(self, after: Position) -> None:
        """See that the server has what was read, as it has not after a failover to one that was behind."""
        wanted = transactions(after, mariadb=self._maria)
        there = DomainTransactions if self._maria else NumberedTransactions
        if not there(present(self._ask(), maria=self._maria)).covers(wanted):
            raise SinkqlError(
                "SQ4467",
                f"MySQL server {self._where} does not have the transactions that were read last",
                detail=f"They are {wanted.text()}.",
                hint=f"Another server may have taken over. {ANEW}",
            )

    def _fits(self, table: str, layout: TableMap) -> bool:
        return self._match(table, layout).problem is None

    def _match(self, table: str, layout: TableMap) -> Matched:
        """Return how a table's columns stand in a layout; layouts are kept as long as the stream is."""
        found = self._matched.get((table, id(layout)))
        if found is None:
            found = match(self._tables[table], layout, self._charsets)
            self._matched[table, id(layout)] = found
        return found

    def end(self) -> Position:
        with failing(**self._named):
            text = present(self._ask(), maria=self._maria)
        return (DomainTransactions(text) if self._maria else NumberedTransactions(text)).position()

    def look(self) -> Look:
        connection = self._ask()
        with failing(**self._named):
            found, _ = begin(connection, maria=self._maria)
            connection.rollback()
        return found

    def receive(self, seconds: float) -> Sequence[Event]:
        dump = self._dump
        assert dump is not None, "the stream has begun"
        if not dump.fill(seconds):
            return []
        raw, frames = dump.events()
        held, places = self._held
        if held:
            places = [*places, *((start + len(held), end + len(held)) for start, end in frames)]
            raw = held + raw
        else:
            places = frames
        try:
            block, found, done = self._log.walk(raw, places, whole=len(raw) < BLOCK)
            rest = places[done][0] if done < len(places) else len(raw)
            self._held = raw[rest:], [(start - rest, end - rest) for start, end in places[done:]]
            return self._events(Block(block), found)
        except (ValueError, IndexError) as error:
            raise SinkqlError(
                "SQ4469",
                f"the binary log of MySQL server {self._where} cannot be read",
                detail=str(error),
                hint=ANEW,
            ) from error

    def _events(self, block: Block, found: Sequence[Section | Altered]) -> list[Event]:
        events: list[Event] = []
        for each in found:
            if isinstance(each, Altered):
                events.append(self._reshaped(each))
            elif each.parts or each.emptied:
                events.append(self._changed(block, each))
            elif each.ends:
                assert each.to is not None
                events.append(Moved(each.to))
        return events

    def _changed(self, block: Block, section: Section) -> Changed:
        assert section.to is not None
        tables: dict[str, list[TableRows]] = {}
        for id_, parts in section.parts.items():
            for part in parts:
                matched = self._match(id_, part.layout)
                if matched.problem is None:  # of others a `Reshaped` tells
                    tables.setdefault(id_, []).append(changed_rows(block, part, self._tables[id_], matched))
        done = Transactions(section.ends, section.ids)
        return Changed(section.to, tables, done, frozenset(section.emptied), section.open)

    def _reshaped(self, altered: Altered) -> Reshaped:
        table = self._tables[altered.table]
        name = ".".join(table.name)
        if altered.layout is not None:
            return Reshaped(table, self._match(altered.table, altered.layout).problem)
        assert altered.effect is not None
        if altered.effect.what in ("dropped", "database"):
            return Reshaped(table, f'table "{name}" was dropped or renamed')
        return Reshaped(table, f'rows of table "{name}" were changed by a statement that the log has no rows of')

    def confirm(self, position: Position) -> None:
        """Do nothing: the server keeps its log for as long as it is set to."""

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

    def close(self) -> None:
        if self._dump is not None:
            self._dump.close()
        if self._asking is not None:
            self._asking.close()
            self._asking = None


def open_stream(source: CapturedSource, secret: Reveal) -> MySqlStream:
    """Return a stream that has not connected."""
    return MySqlStream(source, secret)
