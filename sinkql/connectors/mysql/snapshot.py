"""Read chunks of tables in one snapshot, and describe what the snapshot sees.

The rows of a query, as the server prints their values, become Arrow arrays, all rows of a column together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pymysql
from pymysql.constants import COMMAND, ER
from pymysql.err import raise_mysql_exception

from sinkql import physical
from sinkql.connector_api.cdc import CapturedTable, Chunk, Key, SchemaChanged, Snapshot, TableRows
from sinkql.connector_api.stream import RowError
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.mysql.binlog import log_place
from sinkql.connectors.mysql.binlog_client import BLOCK, WHOLE, current_position
from sinkql.connectors.mysql.column import BadRows, TargetColumn, as_text, dates, documents, moments, strings, times
from sinkql.connectors.mysql.connection import Connection, failing, guarded, rows
from sinkql.connectors.mysql.gtid import DomainTransactions, NumberedTransactions
from sinkql.connectors.mysql.purify import has_unique_key
from sinkql.connectors.mysql.rows_event import Cells, Numbers, UndecodableRow, unsigned
from sinkql.connectors.mysql.table_changes import declarations, target_of, without
from sinkql.connectors.mysql.type import ColumnDeclaration, holds, parse_declaration
from sinkql.connectors.mysql.value import decoder
from sinkql.decode.columnar import Block
from sinkql.errors import TableError
from sinkql.logical.type import BYTEA, JSONB, TEXT

_DEFINITION_CHANGED = 1412
_LOCK_S = 2
_GONE = {ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR, ER.BAD_FIELD_ERROR}
_FORBIDDEN = {ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR}


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """The changes that a snapshot sees: on MariaDB all before a place in its files, on MySQL a set of transactions.

    On MySQL it may also see the transactions in `may_see`.
    """

    sees: Callable[[str], bool]
    may_see: Callable[[str], bool]

    def unseen(self, ids: Sequence[Any]) -> int | None:
        return next((place for place, id_ in enumerate(ids) if not self.sees(id_)), None)

    def certain(self, ids: Sequence[Any]) -> bool:
        return all(self.sees(id_) or not self.may_see(id_) for id_ in ids)


def begin_snapshot(connection: Connection, *, maria: bool) -> tuple[ServerSnapshot, str]:
    """Begin a transaction with a consistent snapshot; return the snapshot, and a position that is not before it.

    MariaDB reports the exact place in its log. MySQL does not. There, the snapshot sees all that had been committed
    before it began. It sees at most the transactions that were committed, or about to be committed, after it began.
    """
    before = "" if maria else current_position(connection, maria=False)
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    if maria:
        status = dict(rows(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
        place = log_place(status["Binlog_snapshot_file"], int(status["Binlog_snapshot_position"]))
        return ServerSnapshot(lambda id_: id_ <= place, lambda id_: id_ <= place), DomainTransactions(
            current_position(connection, maria=True)
        ).position()
    seen = NumberedTransactions(before)
    owned, executed = rows(connection, "SELECT @@GLOBAL.gtid_owned, @@GLOBAL.gtid_executed")[0]
    high = NumberedTransactions(executed)
    for transaction in _read_owned(owned):
        high.add(transaction)
    return ServerSnapshot(seen.contains, high.contains), high.position()


def _read_owned(text: str) -> list[str]:
    """Return the transactions about to be committed, from `uuid:number#thread:tag:number#thread`."""
    transactions = []
    for part in filter(None, (entry.strip() for entry in text.split(","))):
        uuid, *fields = part.split(":")
        origin = uuid.lower()
        for field in fields:
            number = field.partition("#")[0]
            if number.isdecimal():
                transactions.append(f"{origin}:{number}")
            else:
                origin = f"{uuid.lower()}:{number}"
    return transactions


class TableRead:
    """One transaction in which parts of a table are read; a context manager."""

    def __init__(
        self, table: CapturedTable, open_: Callable[[], Connection], *, maria: bool, name: str, where: str
    ) -> None:
        self._table = table
        self._open = open_
        self._maria = maria
        self._named = {"name": name, "where": where}
        self._connection: Connection = None
        self._targets: dict[str, TargetColumn] = {}
        self._reshaped: SchemaChanged | None = None
        self._missing = ""
        self.snapshot: Snapshot
        self._high = ""
        self._at = 0

    def __enter__(self) -> TableRead:
        self._connection = self._open()
        try:
            with self._translate_errors():
                self._begin()
        except BaseException:
            self._connection.close()  # else its lock would remain
            raise
        return self

    def _begin(self) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = 'NO_BACKSLASH_ESCAPES'")
            cursor.execute("SET SESSION lock_wait_timeout = %s", (_LOCK_S,))
            cursor.execute("SET character_set_results = NULL")  # no conversion of texts
        self.snapshot, self._high = begin_snapshot(self._connection, maria=self._maria)
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {self._from} LIMIT 0")  # locks the definition
        self._targets = self._find_targets()
        self._at = int(rows(self._connection, "SELECT UNIX_TIMESTAMP(NOW(6)) * 1000000")[0][0])

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate problems of the table apart from other failures."""
        with failing(**self._named):
            try:
                yield
            except pymysql.Error as error:
                problem = self._column_problem(error)
                if problem is None:
                    raise
                raise problem from error

    def _column_problem(self, error: pymysql.Error) -> TableError | None:
        name = ".".join(self._table.name)
        number, detail = error.args[0] if error.args else 0, str(error.args[-1])
        if number in _GONE:
            return self._changed_table_error(detail)
        if number in _FORBIDDEN:
            return TableError(
                "SQ3710",
                f'the user may not read table "{name}" of MySQL server {self._named["where"]}',
                detail=detail,
                hint=f"Run GRANT SELECT ON {self._from} TO the user on the server.",
            )
        if number == ER.LOCK_WAIT_TIMEOUT:
            return TableError(
                "SQ3712",
                f'table "{name}" of MySQL server {self._named["where"]} is locked',
                hint="Wait for the ALTER TABLE or LOCK TABLES that holds the lock. SinkQL retries automatically.",
            )
        return None

    def _find_targets(self) -> dict[str, TargetColumn]:
        """Return the target of each column, with its character set in the locked table.

        Columns that no longer hold their planned values are left out; raise SQ3711 if one is in the key.
        """
        query = (
            "SELECT column_name, column_type, character_set_name, is_nullable FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s"
        )
        now = {
            name: (parse_declaration(str(type_)), charset, null == "YES")
            for name, type_, charset, null in rows(self._connection, query, self._table.name)
        }
        planned, targets, problems = declarations(self._table), dict[str, TargetColumn](), dict[str, str]()
        for column in self._table.columns:
            problem = _column_problem(column, planned[column.name], now.get(column.name))
            if problem is not None:
                problems[column.name] = f'column "{column.name}" {problem}'
            else:
                targets[column.name] = target_of(column, planned[column.name], now[column.name][1])
        if problems:
            self._table, self._missing = without(self._table, problems), "; ".join(problems.values())
            if not self._table.columns:
                raise self._changed_table_error(self._missing)
            self._reshaped = SchemaChanged(self._table, f'of table "{".".join(self._table.name)}" {self._missing}')
        if self._table.key and not has_unique_key(self._connection, self._table.name, self._table.key):
            columns = ", ".join(f'"{name}"' for name in self._table.key)
            raise self._changed_table_error(f"it no longer has a unique key of {columns}")
        return targets

    def _changed_table_error(self, detail: str) -> TableError:
        name = ".".join(self._table.name)
        return TableError(
            "SQ3711",
            f'table "{name}" was changed or dropped on MySQL server {self._named["where"]}',
            detail=detail,
            hint="Undo the change on the server, or run ALTER SOURCE … REFRESH REFERENCES and start the sinks again. "
            "If REFRESH REFERENCES fails, drop the sinks that read the table.",
        )

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    @property
    def _from(self) -> str:
        return ".".join(_quote(part) for part in self._table.name)

    def count(self) -> int | None:
        """Return the estimate of the storage engine."""
        query = "SELECT table_rows FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        with self._translate_errors():
            estimates = rows(self._connection, query, self._table.name)
        return int(estimates[0][0]) if estimates and estimates[0][0] is not None else None

    def read(self, after: Key | None, size: int) -> Chunk:
        if self._reshaped is not None and after is None:
            raise self._changed_table_error(self._missing)
        with self._translate_errors():
            try:
                return self._read_chunk(after, size)
            except Exception as error:
                if getattr(error, "args", (0,))[0] == _DEFINITION_CHANGED:
                    raise ConnectionError(str(error.args[1])) from error  # a connection error is retried
                raise

    def _read_chunk(self, after: Key | None, size: int) -> Chunk:
        """Read about `size` bytes in the order of the key, or all rows without a key."""
        if not self._table.key:
            return Chunk(self._read_all(), None, self._high, self._reshaped)
        limit = max(_FEWEST, int(size / self._average_row_size()))
        query, keys = self._query(after, limit)
        parts, last, count = [], None, 0
        for packets in _read_packets(self._connection, query):
            rows_, last = self._build_rows(packets, keys)
            parts.append(rows_)
            count += len(packets)
        return Chunk(parts, last if count == limit else None, self._high, self._reshaped)

    def _read_all(self) -> Iterator[TableRows]:
        """Yield the rows of a table without a key, as they arrive from the server."""
        query, _ = self._query(None, None)
        with self._translate_errors():
            for packets in _read_packets(self._connection, query):
                yield self._build_rows(packets, 0)[0]

    def _average_row_size(self) -> float:
        query = "SELECT avg_row_length FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        averages = rows(self._connection, query, self._table.name)
        return max(1.0, float(averages[0][0] or 0) if averages else 0.0)

    def _query(self, after: Key | None, limit: int | None) -> tuple[str, int]:
        """Return the query, and the number of key columns after the table's columns."""
        declared = declarations(self._table)
        columns = [_select_expression(column.name, declared[column.name]) for column in self._table.columns]
        keys = [_order_expression(name, declared[name]) for name in self._table.key]
        text = f"SELECT {', '.join([*columns, *keys])} FROM {self._from}"
        if after is not None:
            text += f" WHERE {_after_key(keys, [str(literal) for literal in after])}"
        if limit is not None:
            text += f" ORDER BY {', '.join(keys)} LIMIT {limit}"
        return text, len(keys)

    def _build_rows(self, packets: Sequence[bytes], keys: int) -> tuple[TableRows, Key | None]:
        block, starts = joined(packets)
        columns = self._table.columns
        cells = locate_values(block, starts, len(columns) + keys)
        unfit, arrays = UndecodableRow(), []
        for column, column_cells in zip(columns, cells, strict=False):
            here = BadRows()
            arrays.append(decode_text(block, column_cells, self._targets[column.name], here))
            for row, reason in here.reasons.items():
                value = block.slice(int(column_cells.starts[row]), int(column_cells.lengths[row]))
                unfit.add(row, column.name, reason, value)
        count = len(packets)
        arrays += [pa.array(np.ones(count, np.int64)), pa.array(np.full(count, self._at), pa.timestamp("us", "UTC"))]
        batch = pa.RecordBatch.from_arrays(arrays, names=[*(field.name for field in columns), "$diff", "$at"])
        last = self._last_key(block, [key_cells.take(np.array([count - 1])) for key_cells in cells[len(columns) :]])
        if not unfit.reasons:
            return TableRows(batch), last
        values = arrays[: len(columns)]
        errors = [
            RowError(self._describe_row(batch, row), "SQ3101", reason, unfit.raw(row, self._names, values, "new"))
            for row, reason in sorted(unfit.reasons.items())
        ]
        keep = np.ones(count, bool)
        keep[list(unfit.reasons)] = False
        return TableRows(batch.filter(pa.array(keep)), errors), last

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self._table.columns]

    def _describe_row(self, batch: pa.RecordBatch, row: int) -> str:
        """Return the position of a row for a row error, by its key if it has one."""
        key = ", ".join(f"{name} = {batch.column(name)[row].as_py()}" for name in self._table.key)
        return f"the first snapshot of {'.'.join(self._table.name)}{f', {key}' if key else ''}"

    def _last_key(self, block: Block, cells: Sequence[Cells]) -> Key:
        """Return the last row's key, each value as an SQL literal."""
        declared, literals = declarations(self._table), []
        for name, key_cells in zip(self._table.key, cells, strict=True):
            value = block.slice(int(key_cells.starts[0]), int(key_cells.lengths[0]))
            literals.append(_format_literal(value, declared[name], self._targets[name].charset))
        return tuple(literals)


def _column_problem(
    column: physical.Column, planned: ColumnDeclaration, now: tuple[ColumnDeclaration, str | None, bool] | None
) -> str | None:
    """Return why a column cannot be read as planned: its type, character set or nullability."""
    if now is None:
        return "was dropped or renamed"
    type_, charset, nullable = now
    if not holds(planned, type_):
        return "has another type"
    if nullable and not column.nullable:
        return "may be NULL"
    if charset is not None and decoder(charset) is None:
        return f"has the character set {charset}"
    return None


_FEWEST = 100
_NUMBERED = frozenset({"enum", "set", "bit"})
_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"})


def _select_expression(name: str, declared: ColumnDeclaration) -> str:
    """Return the expression that selects a column. The text of a float lacks digits; that of a double has all."""
    return f"{_quote(name)} * 1e0" if declared.kind == "float" else _quote(name)


def _order_expression(name: str, declared: ColumnDeclaration) -> str:
    """Return the expression that orders and compares a key column: enums and sets sort by their numbers."""
    return f"{_quote(name)} + 0" if declared.kind in _NUMBERED else _quote(name)


def _format_literal(value: bytes, declared: ColumnDeclaration, charset: str | None) -> str:
    if declared.kind in _NUMBERS or declared.kind in _NUMBERED:
        return value.decode("ascii")
    if declared.kind in ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"):
        return f"_{charset or 'utf8mb4'} x'{value.hex()}'"
    if declared.kind.endswith(("binary", "blob")):
        return f"x'{value.hex()}'"
    return f"'{value.decode('ascii')}'"


def _after_key(keys: Sequence[str], values: Sequence[str]) -> str:
    """Return the condition for rows after a key; an index finds them by the first column."""
    condition = f"{keys[-1]} > {values[-1]}"
    for key, value in reversed(list(zip(keys[:-1], values[:-1], strict=True))):
        condition = f"({key} > {value} OR ({key} = {value} AND {condition}))"
    return condition if len(keys) == 1 else f"{keys[0]} >= {values[0]} AND {condition}"


def _read_packets(connection: Connection, query: str) -> Iterator[list[bytes]]:
    """Yield the rows of a query as the server sends them, a block at a time; at least one list."""
    with guarded(connection):
        connection._execute_command(COMMAND.COM_QUERY, query)
        head = connection._read_packet()
        for _ in range(head.read_length_encoded_integer() + 1):  # the columns and their end
            connection._read_packet()
    more = True
    while more:
        with guarded(connection):
            packets, more = _read_block(connection)
        if packets:
            yield packets


def _read_block(connection: Connection) -> tuple[list[bytes], bool]:
    """Return rows of the running query, and whether more may follow."""
    packets: list[bytes] = []
    size = 0
    while size < BLOCK:
        packet = _next_packet(connection)
        if packet[:1] == b"\xfe" and len(packet) < 9:
            return packets, False
        if packet[:1] == b"\xff":
            raise_mysql_exception(packet)
        packets.append(packet)
        size += len(packet)
    return packets, True


def _next_packet(connection: Connection) -> bytes:
    """Return the next packet with its continuations; several times faster than PyMySQL's own reading."""
    packet, size = b"", WHOLE
    while size == WHOLE:
        head = connection._read_bytes(4)
        size = head[0] | head[1] << 8 | head[2] << 16
        connection._next_seq_id = (head[3] + 1) & 0xFF
        packet += connection._read_bytes(size)
    return packet


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_NULL = 0xFB
_TEXT_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"})
_PREFIXES = ((0xFC, 2), (0xFD, 3), (0xFE, 8))


def locate_values(block: Block, starts: Numbers, columns: int) -> list[Cells]:
    """Return the cells of rows that start at the places; each value follows its length."""
    columns_cells, position = [], starts
    for _ in range(columns):
        first = block.bytes[position].astype(np.int64)
        lengths, skip = first.copy(), np.ones(len(first), np.int64)
        null = first == _NULL
        lengths[null] = 0
        for mark, width in _PREFIXES:
            longer = np.flatnonzero(first == mark)
            if len(longer):
                lengths[longer] = unsigned(block, position[longer] + 1, width)
                skip[longer] = 1 + width
        columns_cells.append(Cells(position + skip, lengths, null))
        position = position + skip + lengths
    return columns_cells


def decode_text(block: Block, cells: Cells, target: TargetColumn, bad: BadRows) -> pa.Array:
    """Return a column's values in the Arrow type of its SQL type; bad values are NULL."""
    if target.type == TEXT:
        texts = as_text(strings(block, cells), target, bad)
        if target.kind == "json":
            return documents(texts.to_pylist(), bad)  # normalized like the log's documents, which are binary
        return _fill_zeros(texts, target.filled) if target.kind in _TEXT_NUMBERS else texts
    if target.type == BYTEA:
        return strings(block, cells)
    if target.type == JSONB:
        return documents(as_text(strings(block, cells), target, bad).to_pylist(), bad)
    if target.kind in _MOMENTS:
        return _MOMENTS[target.kind](block, cells, bad).cast(arrow_type(target.type))
    if target.kind == "bit":
        return _decode_bits(strings(block, cells))
    printed = strings(block, cells).cast(pa.string())
    type_ = arrow_type(target.type)
    if pa.types.is_decimal(type_):
        return _decode_decimals(printed, type_, str(target.type), bad)
    if type_ == pa.string():  # a uuid
        return pc.utf8_lower(printed)
    return printed.cast(type_)


def _fill_zeros(texts: pa.Array, width: int) -> pa.Array:
    """Return the texts of numbers with the zeros that the planned declaration asks for."""
    if not width and not pc.any(pc.match_substring_regex(texts, "^0[0-9]")).as_py():
        return texts
    whole = (None if text is None else text.lstrip("0") for text in texts.to_pylist())
    shown = [None if text is None else f"0{text}" if text[:1] in ("", ".") else text for text in whole]
    return pa.array([None if text is None else text.rjust(width, "0") for text in shown], pa.string())


def _decode_decimals(printed: pa.Array, type_: pa.DataType, name: str, bad: BadRows) -> pa.Array:
    try:
        return printed.cast(type_)
    except pa.ArrowInvalid:
        most = 10 ** (type_.precision - type_.scale)
        wrong = np.array([text is not None and abs(Decimal(text)) >= most for text in printed.to_pylist()])
        bad.add(np.flatnonzero(wrong), lambda row: f"{printed[row]} does not fit into {name}")
        return pc.if_else(pa.array(~wrong), printed, None).cast(type_)


def _decode_bits(raw: pa.Array) -> pa.Array:
    numbers = [None if value is None else int.from_bytes(value, "big") for value in raw.to_pylist()]
    return pa.array(numbers, pa.decimal128(20, 0))


def _read_digits(block: Block, starts: Numbers, digits: int) -> Numbers:
    """Return numbers with a number of digits."""
    numbers = np.zeros(len(starts), np.int64)
    for at in range(digits):
        numbers = numbers * 10 + (block.bytes[starts + at].astype(np.int64) - 48)
    return numbers


def _read_micros(block: Block, starts: Numbers, lengths: Numbers) -> Numbers:
    """Return microseconds of fractions of a second, which follow a point and have equally many digits."""
    digits = int(lengths.max(initial=0)) - 1
    return (
        _read_digits(block, starts + 1, digits) * 10 ** (6 - digits) if digits > 0 else np.zeros(len(starts), np.int64)
    )


def _decode_date(block: Block, cells: Cells, bad: BadRows) -> pa.Array:
    at = np.where(cells.null, 0, cells.starts)
    year, month, day = _read_digits(block, at, 4), _read_digits(block, at + 5, 2), _read_digits(block, at + 8, 2)
    return dates(year, month, day, cells.null, bad)


def _decode_datetime(block: Block, cells: Cells, bad: BadRows) -> pa.Array:
    at = np.where(cells.null, 0, cells.starts)
    seconds = (
        _read_digits(block, at + 11, 2) * 3600 + _read_digits(block, at + 14, 2) * 60 + _read_digits(block, at + 17, 2)
    )
    micros = seconds * 1_000_000 + _read_micros(block, at + 19, cells.lengths - 19)
    return moments(
        _read_digits(block, at, 4),
        _read_digits(block, at + 5, 2),
        _read_digits(block, at + 8, 2),
        micros,
        cells.null,
        bad,
    )


def _decode_timestamp(block: Block, cells: Cells, bad: BadRows) -> pa.Array:
    return _decode_datetime(block, cells, bad).cast(pa.timestamp("us", "UTC"))


def _decode_time(block: Block, cells: Cells, bad: BadRows) -> pa.Array:
    """Return times of day; hours have two or three digits, perhaps after a minus."""
    at = np.where(cells.null, 0, cells.starts)
    negative = (block.bytes[at] == ord("-")) & ~cells.null
    at = at + negative
    hours = np.where(block.bytes[at + 2] == ord(":"), 2, 3)
    seconds = np.where(hours == 2, _read_digits(block, at, 2), _read_digits(block, at, 3)) * 3600
    at = at + hours
    seconds += _read_digits(block, at + 1, 2) * 60 + _read_digits(block, at + 4, 2)
    rest = np.where(cells.null, 0, cells.starts + cells.lengths - at - 6)
    micros = seconds * 1_000_000 + _read_micros(block, at + 6, rest)
    return times(np.where(negative, -micros, micros), cells.null, bad)


_MOMENTS: dict[str, Callable[[Block, Cells, BadRows], pa.Array]] = {
    "date": _decode_date, "datetime": _decode_datetime, "timestamp": _decode_timestamp, "time": _decode_time,
}  # fmt: skip


def joined(packets: Sequence[bytes]) -> tuple[Block, Numbers]:
    """Return rows as one block, and the start of each."""
    sizes = np.fromiter((len(packet) for packet in packets), np.int64, len(packets))
    return Block(b"".join(packets)), np.cumsum(sizes) - sizes
