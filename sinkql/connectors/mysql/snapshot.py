"""What a look at the server saw, and chunks of tables as one look saw them.

Rows of a query, as the server prints their values → Arrow arrays, all rows of a column at once.
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
from sinkql.connectors.mysql.column import Bad, Target, as_text, dates, documents, moments, strings, times
from sinkql.connectors.mysql.connection import Connection, failing, guarded, rows
from sinkql.connectors.mysql.gtid import DomainTransactions, NumberedTransactions
from sinkql.connectors.mysql.purify import keyed
from sinkql.connectors.mysql.rows_event import Cells, Numbers, UndecodableRow, unsigned
from sinkql.connectors.mysql.table import declarations, target_of, without
from sinkql.connectors.mysql.type import Declared, declared, holds
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
    """What a snapshot sees: of MariaDB all up to a place in its files, of MySQL a set of transactions.

    Of MySQL it may see those as well that are in `may_see`.
    """

    sees: Callable[[str], bool]
    may_see: Callable[[str], bool]

    def unseen(self, ids: Sequence[Any]) -> int | None:
        return next((place for place, each in enumerate(ids) if not self.sees(each)), None)

    def certain(self, ids: Sequence[Any]) -> bool:
        return all(self.sees(each) or not self.may_see(each) for each in ids)


def begin(connection: Connection, *, maria: bool) -> tuple[ServerSnapshot, str]:
    """Begin a transaction that sees one state of the server; return what it sees, and a position that is not before it.

    MariaDB tells the exact place in its log. MySQL does not: what was committed before is seen, and what is seen was
    committed, or was about to be, afterwards.
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
    for each in _owned(owned):
        high.add(each)
    return ServerSnapshot(seen.contains, high.contains), high.position()


def _owned(text: str) -> list[str]:
    """Return the transactions in `uuid:number#thread:tag:number#thread`, which threads are about to commit."""
    found = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        uuid, *fields = part.split(":")
        origin = uuid.lower()
        for field in fields:
            number = field.partition("#")[0]
            if number.isdecimal():
                found.append(f"{origin}:{number}")
            else:
                origin = f"{uuid.lower()}:{number}"
    return found


class TableRead:
    """One transaction in which parts of a table are read; a context."""

    def __init__(
        self, table: CapturedTable, open_: Callable[[], Connection], *, maria: bool, name: str, where: str
    ) -> None:
        self._table = table
        self._open = open_
        self._maria = maria
        self._named = {"name": name, "where": where}
        self._connection: Connection = None
        self._targets: dict[str, Target] = {}
        self._reshaped: SchemaChanged | None = None
        self._lacking = ""
        self.snapshot: Snapshot
        self._high = ""
        self._at = 0

    def __enter__(self) -> TableRead:
        self._connection = self._open()
        try:
            with self._failing():
                self._begin()
        except BaseException:
            self._connection.close()  # its lock would stay
            raise
        return self

    def _begin(self) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = 'NO_BACKSLASH_ESCAPES'")
            cursor.execute("SET SESSION lock_wait_timeout = %s", (_LOCK_S,))
            cursor.execute("SET character_set_results = NULL")  # texts as they are stored
        self.snapshot, self._high = begin(self._connection, maria=self._maria)
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {self._from} LIMIT 0")  # locks it against other definitions
        self._targets = self._find_targets()
        self._at = int(rows(self._connection, "SELECT UNIX_TIMESTAMP(NOW(6)) * 1000000")[0][0])

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Tell what is wrong with the table alone from other failures."""
        with failing(**self._named):
            try:
                yield
            except pymysql.Error as error:
                problem = self._problem(error)
                if problem is None:
                    raise
                raise problem from error

    def _problem(self, error: pymysql.Error) -> TableError | None:
        name = ".".join(self._table.name)
        number, detail = error.args[0] if error.args else 0, str(error.args[-1])
        if number in _GONE:
            return self._not_as_it_was(detail)
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
                hint="Wait for the ALTER TABLE or LOCK TABLES that holds it; it is tried again.",
            )
        return None

    def _find_targets(self) -> dict[str, Target]:
        """Return what each column is to become, with the character set that it has in the locked table.

        What does not hold any more what it did when the source was created is left out; raises SQ3711 for one of the
        key.
        """
        query = (
            "SELECT column_name, column_type, character_set_name, is_nullable FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s"
        )
        now = {
            name: (declared(str(type_)), charset, null == "YES")
            for name, type_, charset, null in rows(self._connection, query, self._table.name)
        }
        known, found, problems = declarations(self._table), dict[str, Target](), dict[str, str]()
        for column in self._table.columns:
            problem = _problem(column, known[column.name], now.get(column.name))
            if problem is not None:
                problems[column.name] = f'column "{column.name}" {problem}'
            else:
                found[column.name] = target_of(column, known[column.name], now[column.name][1])
        if problems:
            self._table, self._lacking = without(self._table, problems), "; ".join(problems.values())
            if not self._table.columns:
                raise self._not_as_it_was(self._lacking)
            self._reshaped = SchemaChanged(self._table, f'of table "{".".join(self._table.name)}" {self._lacking}')
        if self._table.key and not keyed(self._connection, self._table.name, self._table.key):
            columns = ", ".join(f'"{each}"' for each in self._table.key)
            raise self._not_as_it_was(f"it has no unique key of {columns} any more")
        return found

    def _not_as_it_was(self, detail: str) -> TableError:
        name = ".".join(self._table.name)
        return TableError(
            "SQ3711",
            f'table "{name}" is not on MySQL server {self._named["where"]} as it was',
            detail=detail,
            hint="Put back what was dropped, renamed or changed, or run ALTER SOURCE … REFRESH REFERENCES and start "
            "the sinks again. If it is refused, drop the sinks that read the table.",
        )

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    @property
    def _from(self) -> str:
        return ".".join(_quoted(part) for part in self._table.name)

    def count(self) -> int | None:
        """Return what the storage engine estimates."""
        query = "SELECT table_rows FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        with self._failing():
            found = rows(self._connection, query, self._table.name)
        return int(found[0][0]) if found and found[0][0] is not None else None

    def read(self, after: Key | None, size: int) -> Chunk:
        if self._reshaped is not None and after is None:
            raise self._not_as_it_was(self._lacking)
        with self._failing():
            try:
                return self._read(after, size)
            except Exception as error:
                if getattr(error, "args", (0,))[0] == _DEFINITION_CHANGED:
                    raise ConnectionError(str(error.args[1])) from error  # which is tried again
                raise

    def _read(self, after: Key | None, size: int) -> Chunk:
        """Read up to about so many bytes in the order of the key, or all without a key."""
        if not self._table.key:
            return Chunk(self._all(), None, self._high, self._reshaped)
        limit = max(_FEWEST, int(size / self._row_size()))
        query, keys = self._query(after, limit)
        parts, last, count = [], None, 0
        for packets in _packets(self._connection, query):
            rows_, last = self._rows(packets, keys)
            parts.append(rows_)
            count += len(packets)
        return Chunk(parts, last if count == limit else None, self._high, self._reshaped)

    def _all(self) -> Iterator[TableRows]:
        """Yield the rows of a table without a key, as they come from the server."""
        query, _ = self._query(None, None)
        with self._failing():
            for packets in _packets(self._connection, query):
                yield self._rows(packets, 0)[0]

    def _row_size(self) -> float:
        query = "SELECT avg_row_length FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        found = rows(self._connection, query, self._table.name)
        return max(1.0, float(found[0][0] or 0) if found else 0.0)

    def _query(self, after: Key | None, limit: int | None) -> tuple[str, int]:
        """Return the query, and how many columns behind those of the table have its key."""
        declared = declarations(self._table)
        columns = [_selected(column.name, declared[column.name]) for column in self._table.columns]
        keys = [_ordered(name, declared[name]) for name in self._table.key]
        text = f"SELECT {', '.join([*columns, *keys])} FROM {self._from}"
        if after is not None:
            text += f" WHERE {_beyond(keys, [str(each) for each in after])}"
        if limit is not None:
            text += f" ORDER BY {', '.join(keys)} LIMIT {limit}"
        return text, len(keys)

    def _rows(self, packets: Sequence[bytes], keys: int) -> tuple[TableRows, Key | None]:
        block, starts = joined(packets)
        columns = self._table.columns
        cells = locate_values(block, starts, len(columns) + keys)
        unfit, arrays = UndecodableRow(), []
        for column, each in zip(columns, cells, strict=False):
            here = Bad()
            arrays.append(decode_text(block, each, self._targets[column.name], here))
            for row, reason in here.reasons.items():
                value = block.slice(int(each.starts[row]), int(each.lengths[row]))
                unfit.add(row, column.name, reason, value)
        count = len(packets)
        arrays += [pa.array(np.ones(count, np.int64)), pa.array(np.full(count, self._at), pa.timestamp("us", "UTC"))]
        batch = pa.RecordBatch.from_arrays(arrays, names=[*(each.name for each in columns), "$diff", "$at"])
        last = self._key(block, [each.take(np.array([count - 1])) for each in cells[len(columns) :]])
        if not unfit.reasons:
            return TableRows(batch), last
        values = arrays[: len(columns)]
        errors = [
            RowError(self._place(batch, row), "SQ3101", reason, unfit.raw(row, self._names, values, "new"))
            for row, reason in sorted(unfit.reasons.items())
        ]
        keep = np.ones(count, bool)
        keep[list(unfit.reasons)] = False
        return TableRows(batch.filter(pa.array(keep)), errors), last

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self._table.columns]

    def _place(self, batch: pa.RecordBatch, row: int) -> str:
        """Return where a row is: by its key, if it has one."""
        key = ", ".join(f"{name} = {batch.column(name)[row].as_py()}" for name in self._table.key)
        return f"the first snapshot of {'.'.join(self._table.name)}{f', {key}' if key else ''}"

    def _key(self, block: Block, cells: Sequence[Cells]) -> Key:
        """Return the last row's key, each value as a literal of SQL."""
        declared, found = declarations(self._table), []
        for name, each in zip(self._table.key, cells, strict=True):
            value = block.slice(int(each.starts[0]), int(each.lengths[0]))
            found.append(_literal(value, declared[name], self._targets[name].charset))
        return tuple(found)


def _problem(column: physical.Column, known: Declared, now: tuple[Declared, str | None, bool] | None) -> str | None:
    """Return why a column cannot be read as it was planned, by its type, character set and whether it may be NULL."""
    if now is None:
        return "is gone"
    type_, charset, nullable = now
    if not holds(known, type_):
        return "has another type"
    if nullable and not column.nullable:
        return "may be NULL"
    if charset is not None and decoder(charset) is None:
        return f"has the character set {charset}"
    return None


_FEWEST = 100
_NUMBERED = frozenset({"enum", "set", "bit"})
_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"})


def _selected(name: str, declared: Declared) -> str:
    """Return what a column is selected by: the text of a float has not all of its digits, that of a double has."""
    return f"{_quoted(name)} * 1e0" if declared.kind == "float" else _quoted(name)


def _ordered(name: str, declared: Declared) -> str:
    """Return what a key's column is ordered and compared by: enums and sets are ordered by their numbers."""
    return f"{_quoted(name)} + 0" if declared.kind in _NUMBERED else _quoted(name)


def _literal(value: bytes, declared: Declared, charset: str | None) -> str:
    if declared.kind in _NUMBERS or declared.kind in _NUMBERED:
        return value.decode("ascii")
    if declared.kind in ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"):
        return f"_{charset or 'utf8mb4'} x'{value.hex()}'"
    if declared.kind.endswith(("binary", "blob")):
        return f"x'{value.hex()}'"
    return f"'{value.decode('ascii')}'"


def _beyond(keys: Sequence[str], values: Sequence[str]) -> str:
    """Return a condition for what follows a key, by whose first column an index finds it."""
    condition = f"{keys[-1]} > {values[-1]}"
    for key, value in reversed(list(zip(keys[:-1], values[:-1], strict=True))):
        condition = f"({key} > {value} OR ({key} = {value} AND {condition}))"
    return condition if len(keys) == 1 else f"{keys[0]} >= {values[0]} AND {condition}"


def _packets(connection: Connection, query: str) -> Iterator[list[bytes]]:
    """Yield a query's rows as the server sends them, a block at a time, and none twice; always at least one list."""
    with guarded(connection):
        connection._execute_command(COMMAND.COM_QUERY, query)
        head = connection._read_packet()
        for _ in range(head.read_length_encoded_integer() + 1):  # the columns, and what ends them
            connection._read_packet()
    more = True
    while more:
        with guarded(connection):
            found, more = _block(connection)
        if found:
            yield found


def _block(connection: Connection) -> tuple[list[bytes], bool]:
    """Return rows of the query that runs, and whether there may be more."""
    found: list[bytes] = []
    size = 0
    while size < BLOCK:
        packet = _packet(connection)
        if packet[:1] == b"\xfe" and len(packet) < 9:
            return found, False
        if packet[:1] == b"\xff":
            raise_mysql_exception(packet)
        found.append(packet)
        size += len(packet)
    return found, True


def _packet(connection: Connection) -> bytes:
    """Return the next packet, and those that go on with it; PyMySQL's own reading takes several times as long."""
    found, size = b"", WHOLE
    while size == WHOLE:
        head = connection._read_bytes(4)
        size = head[0] | head[1] << 8 | head[2] << 16
        connection._next_seq_id = (head[3] + 1) & 0xFF
        found += connection._read_bytes(size)
    return found


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_NULL = 0xFB
_TEXT_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"})
_PREFIXES = ((0xFC, 2), (0xFD, 3), (0xFE, 8))


def locate_values(block: Block, starts: Numbers, columns: int) -> list[Cells]:
    """Return the cells of rows that start there, each value behind its length."""
    found, position = [], starts
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
        found.append(Cells(position + skip, lengths, null))
        position = position + skip + lengths
    return found


def decode_text(block: Block, cells: Cells, target: Target, bad: Bad) -> pa.Array:
    """Return a column's values in the Arrow type of its SQL type; bad ones are NULL."""
    if target.type == TEXT:
        texts = as_text(strings(block, cells), target, bad)
        if target.kind == "json":
            return documents(texts.to_pylist(), bad)  # as the log's, which has no text of its own
        return _filled(texts, target.filled) if target.kind in _TEXT_NUMBERS else texts
    if target.type == BYTEA:
        return strings(block, cells)
    if target.type == JSONB:
        return documents(as_text(strings(block, cells), target, bad).to_pylist(), bad)
    if target.kind in _MOMENTS:
        return _MOMENTS[target.kind](block, cells, bad).cast(arrow_type(target.type))
    if target.kind == "bit":
        return _bits(strings(block, cells))
    printed = strings(block, cells).cast(pa.string())
    type_ = arrow_type(target.type)
    if pa.types.is_decimal(type_):
        return _decimals(printed, type_, str(target.type), bad)
    if type_ == pa.string():  # a uuid
        return pc.utf8_lower(printed)
    return printed.cast(type_)


def _filled(texts: pa.Array, width: int) -> pa.Array:
    """Return the texts of numbers with zeros before them as the column was declared, whatever it is by now."""
    if not width and not pc.any(pc.match_substring_regex(texts, "^0[0-9]")).as_py():
        return texts
    whole = (None if each is None else each.lstrip("0") for each in texts.to_pylist())
    shown = [None if each is None else f"0{each}" if each[:1] in ("", ".") else each for each in whole]
    return pa.array([None if each is None else each.rjust(width, "0") for each in shown], pa.string())


def _decimals(printed: pa.Array, type_: pa.DataType, name: str, bad: Bad) -> pa.Array:
    try:
        return printed.cast(type_)
    except pa.ArrowInvalid:
        most = 10 ** (type_.precision - type_.scale)
        wrong = np.array([each is not None and abs(Decimal(each)) >= most for each in printed.to_pylist()])
        bad.add(np.flatnonzero(wrong), lambda row: f"{printed[row]} does not fit into {name}")
        return pc.if_else(pa.array(~wrong), printed, None).cast(type_)


def _bits(raw: pa.Array) -> pa.Array:
    numbers = [None if each is None else int.from_bytes(each, "big") for each in raw.to_pylist()]
    return pa.array(numbers, pa.decimal128(20, 0))


def _number(block: Block, starts: Numbers, digits: int) -> Numbers:
    """Return numbers of so many digits."""
    found = np.zeros(len(starts), np.int64)
    for at in range(digits):
        found = found * 10 + (block.bytes[starts + at].astype(np.int64) - 48)
    return found


def _micros(block: Block, starts: Numbers, lengths: Numbers) -> Numbers:
    """Return microseconds of fractions of a second, of which all have as many digits, a point before them."""
    digits = int(lengths.max(initial=0)) - 1
    return _number(block, starts + 1, digits) * 10 ** (6 - digits) if digits > 0 else np.zeros(len(starts), np.int64)


def _date(block: Block, cells: Cells, bad: Bad) -> pa.Array:
    at = np.where(cells.null, 0, cells.starts)
    year, month, day = _number(block, at, 4), _number(block, at + 5, 2), _number(block, at + 8, 2)
    return dates(year, month, day, cells.null, bad)


def _datetime(block: Block, cells: Cells, bad: Bad) -> pa.Array:
    at = np.where(cells.null, 0, cells.starts)
    seconds = _number(block, at + 11, 2) * 3600 + _number(block, at + 14, 2) * 60 + _number(block, at + 17, 2)
    micros = seconds * 1_000_000 + _micros(block, at + 19, cells.lengths - 19)
    return moments(_number(block, at, 4), _number(block, at + 5, 2), _number(block, at + 8, 2), micros, cells.null, bad)


def _timestamp(block: Block, cells: Cells, bad: Bad) -> pa.Array:
    return _datetime(block, cells, bad).cast(pa.timestamp("us", "UTC"))


def _time(block: Block, cells: Cells, bad: Bad) -> pa.Array:
    """Return times of day: hours have two digits or three, perhaps behind a minus."""
    at = np.where(cells.null, 0, cells.starts)
    negative = (block.bytes[at] == ord("-")) & ~cells.null
    at = at + negative
    hours = np.where(block.bytes[at + 2] == ord(":"), 2, 3)
    seconds = np.where(hours == 2, _number(block, at, 2), _number(block, at, 3)) * 3600
    at = at + hours
    seconds += _number(block, at + 1, 2) * 60 + _number(block, at + 4, 2)
    rest = np.where(cells.null, 0, cells.starts + cells.lengths - at - 6)
    micros = seconds * 1_000_000 + _micros(block, at + 6, rest)
    return times(np.where(negative, -micros, micros), cells.null, bad)


_MOMENTS: dict[str, Callable[[Block, Cells, Bad], pa.Array]] = {
    "date": _date, "datetime": _datetime, "timestamp": _timestamp, "time": _time,
}  # fmt: skip


def joined(packets: Sequence[bytes]) -> tuple[Block, Numbers]:
    """Return rows as one block, and where each starts in it."""
    sizes = np.fromiter((len(each) for each in packets), np.int64, len(packets))
    return Block(b"".join(packets)), np.cumsum(sizes) - sizes
