"""Read the events of the binary log: rows of captured tables, ends of transactions, and effects of statements.

The layout of events is that of https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication.html and
https://mariadb.com/docs/server/reference/clientserver-protocol/replication-protocol.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sinkql.connector_api.cdc import SKIP
from sinkql.connectors.mysql.binlog_sections import RowsEvent, Sections, TransactionPart
from sinkql.connectors.mysql.ddl import control, effects, savepoint
from sinkql.connectors.mysql.gtid import ReadTransaction, read_gtid, read_tagged_gtid
from sinkql.connectors.mysql.gtid import Transactions as Set
from sinkql.connectors.mysql.table_map import AlteredTable, WatchedTables, length_encoded
from sinkql.errors import SinkqlError

QUERY, ROTATE, FORMAT, XID, TABLE_MAP, INCIDENT = 2, 4, 15, 16, 19, 26
GTID, TAGGED_GTID, XA_PREPARE, PARTIAL_UPDATE, PAYLOAD = 33, 42, 38, 39, 40
MARIADB_GTID, QUERY_COMPRESSED, LOAD = 162, 165, 18
_INSERT, _UPDATE, _DELETE = 0, 1, 2
_ROWS = {
    23: _INSERT, 24: _UPDATE, 25: _DELETE, 30: _INSERT, 31: _UPDATE, 32: _DELETE,
    166: _INSERT, 167: _UPDATE, 168: _DELETE, 169: _INSERT, 170: _UPDATE, 171: _DELETE,
}  # fmt: skip
_SECOND_VERSION = frozenset({30, 31, 32, 169, 170, 171})
_COMPRESSED = frozenset(range(166, 172))
_STANDALONE, _GROUPED, _PREPARES, _COMPLETES = 1, 2, 64, 128
HEADER = 19
"""Bytes of an event before its body."""

_HEADER = struct.Struct("<IBIIIH")


@dataclass(slots=True)
class _Group:
    """The present transaction: its id and time, its rows, and the number of rows at each savepoint.

    `standalone` is whether it ends with its first statement, if that is known. `seen` is whether it was read before.
    `xa` is its XA id, and `flushed` whether its first rows are in a section already.
    """

    id: str
    at: int
    standalone: bool | None
    seen: bool
    rows: list[RowsEvent] = field(default_factory=list)
    savepoints: dict[str, int] = field(default_factory=dict)
    xa: str | None = None
    flushed: bool = False


@dataclass(slots=True)
class _Prepared:
    """A prepared XA transaction: its rows as bytes, and the set of transactions before it."""

    before: str
    rows: list[tuple[RowsEvent, bytes]]


def read_begin(raw: bytes, start: int, end: int) -> tuple[str, int] | None:
    """Return the id and time of the transaction that an event begins; None for any other event."""
    code = raw[start + 4]
    if code == MARIADB_GTID:
        return _mariadb_transaction(raw, start)
    if code == TAGGED_GTID:
        return read_tagged_gtid(raw, start, end)
    return read_gtid(raw, start) if code == GTID else None


def _mariadb_transaction(raw: bytes, start: int) -> tuple[str, int]:
    """Return the id and time of a transaction of MariaDB, which logs only seconds."""
    seconds, _, server, _, _, _ = _HEADER.unpack_from(raw, start)
    number, domain = struct.unpack_from("<QI", raw, start + HEADER)
    return f"{domain}-{server}-{number}", seconds * 1_000_000


class _EventBlock:
    """The bytes of a block of events, and behind them the bytes of decompressed events.

    `base` is the place of the payload that is read, 0 outside of payloads.
    """

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._appended: list[bytes] = []
        self._size = len(raw)
        self.base = 0

    def append(self, data: bytes) -> tuple[int, int]:
        """Append bytes, and return their start and end."""
        start = self._size
        self._appended.append(data)
        self._size += len(data)
        return start, self._size

    def joined(self) -> bytes:
        """Return all bytes."""
        return b"".join((self._raw, *self._appended)) if self._appended else self._raw


class _FilePosition:
    """The position in the server's files of the binary log."""

    def __init__(self) -> None:
        self._file = ""
        self._end = 0

    def rotate(self, file: str) -> None:
        """Continue at the start of a file."""
        self._file, self._end = file, 0

    @property
    def place(self) -> str:
        """The position as a text that sorts."""
        return log_place(self._file, self._end)

    def advance(self, raw: bytes, start: int) -> None:
        """Advance to the end of an event."""
        end = int.from_bytes(raw[start + 13 : start + 17], "little")
        while end < self._end:  # the event has the lower 32 bits
            end += 1 << 32
        self._end = end


class BinlogReader:
    """Reads the events of a server's binary log after a set of transactions, block by block.

    Reading begins after `scanned`, a smaller set, if prepared transactions were open there. Transactions in `position`
    are skipped. A section ends at each of `stops`, which are sorted positions. Transactions that were read are appended
    to `received`, as transactions of `server`.
    """

    def __init__(
        self,
        position: Set,
        tables: WatchedTables,
        *,
        scanned: Set | None = None,
        stops: Sequence[str] = (),
        maria: bool = False,
        received: deque[ReadTransaction] | None = None,
        server: str = "",
    ) -> None:
        self._position = position
        self._tables = tables
        self._scanned = position if scanned is None else scanned
        self._stops = list(stops)
        self._maria = maria
        self._group: _Group | None = None
        self._prepared: dict[str, _Prepared] = {}
        self._block = _EventBlock(b"")
        self._sections = Sections()
        self._file = _FilePosition()
        self._received = deque(maxlen=1) if received is None else received
        self._server = server
        self._before = position.position()

    @property
    def position(self) -> str:
        """The end of the last complete transaction."""
        return self._position.position() + self._prepared_suffix()

    def _prepared_suffix(self) -> str:
        """Return the suffix of a position: the set before the oldest prepared transaction."""
        if not self._prepared:
            return ""
        return ";" + next(iter(self._prepared.values())).before

    def walk(
        self, raw: bytes, frames: Sequence[tuple[int, int]], *, whole: bool
    ) -> tuple[bytes, Sequence[TransactionPart | AlteredTable], int]:
        """Read the events at the places of a block.

        Return the block with decompressed events appended, the sections, and the number of events that are done. With
        `whole`, events of a transaction that does not end in the block are not done: they must be read again.
        """
        self._block, self._sections = _EventBlock(raw), Sections()
        first = 0
        for number, (start, end) in enumerate(frames):
            if self._group is None:
                first = number
            self._read_event(raw, start, end)
        group = self._group
        done = len(frames)
        if group is not None and not group.flushed and (whole or group.seen or group.xa is not None):
            done, self._group = first, None
        elif group is not None:
            self._flush(group)
            group.flushed = True
            self._sections.last.open = True
        self._sections.last.to = self.position
        block, self._block = self._block.joined(), _EventBlock(b"")
        return block, self._sections.parts, done

    def _read_event(self, raw: bytes, start: int, end: int) -> None:
        code = raw[start + 4]
        if code in _ROWS:
            self._read_rows(raw, start, end, code)
        elif code == TABLE_MAP:
            self._read_table_map(raw, start, end)
        elif code == XID:
            self._commit_group(raw, start)
        elif code == MARIADB_GTID:
            self._begin_mariadb(raw, start)
        elif code in (GTID, TAGGED_GTID):
            gtid = read_tagged_gtid(raw, start, end) if code == TAGGED_GTID else read_gtid(raw, start)
            self._begin_group(*gtid, standalone=None)
        elif code == QUERY:
            self._read_query(raw, start, _parse_query(raw, start + HEADER, end))
        elif code == LOAD:
            self._read_query(raw, start, _parse_query(raw, start + HEADER, end, more=_LOAD_BYTES))
        elif code == QUERY_COMPRESSED:
            self._read_query(raw, start, _parse_query(raw, start + HEADER, end, compressed=True))
        elif code == XA_PREPARE:
            self._prepare_group(raw, start)
        elif code == ROTATE:
            self._file.rotate(raw[start + HEADER + 8 : end].decode())
        elif code == PAYLOAD:
            self._read_payload(raw, start + HEADER, end)
        elif code in (PARTIAL_UPDATE, INCIDENT):
            _refuse_event(code)

    # --- transactions -----------------------------------------------------------------------------------------------

    def _begin_mariadb(self, raw: bytes, start: int) -> None:
        flags = raw[start + HEADER + 12]
        self._begin_group(*_mariadb_transaction(raw, start), standalone=bool(flags & _STANDALONE))
        if flags & (_PREPARES | _COMPLETES) and self._group is not None:
            at = start + HEADER + 13 + (8 if flags & _GROUPED else 0)
            self._group.xa = raw[at : at + 6 + raw[at + 4] + raw[at + 5]].hex()

    def _begin_group(self, id_: str, at: int, *, standalone: bool | None) -> None:
        self._group = _Group(id_, at, standalone, self._position.contains(id_))

    def _commit_group(self, raw: bytes, start: int) -> None:
        """End the present transaction with the event at `start`."""
        group, self._group = self._group, None
        self._file.advance(raw, start)
        if group is None:
            return
        if group.seen:
            self._scanned.add(group.id)
            return
        commit = (
            self._file.place if self._maria else group.id
        )  # snapshots of MariaDB see places, snapshots of MySQL transactions
        before = self.position if self._stops else ""
        self._position.add(group.id)
        position = self.position
        self._received.append(ReadTransaction(self._before, position, group.id, group.at, self._server))
        self._before = position
        while self._stops and self._stops[0] < position:
            self._stops.pop(0)
            self._sections.end(before)
        self._flush(group, commit)
        section = self._sections.last
        section.ends.append(position)
        section.ids.append(commit)
        if self._stops and self._stops[0] == position:
            self._stops.pop(0)
            self._sections.end(position)

    def _flush(self, group: _Group, commit: str | None = None) -> None:
        """Add the rows of a transaction to the present section."""
        self._sections.add_rows(group.rows, group.id, group.at, commit)
        group.rows = []

    def _roll_back(self, group: _Group, keep: int = 0) -> None:
        """Discard all but the first rows. They are logged if tables without transactions changed as well."""
        if group.flushed:
            raise _unreadable_error("a transaction of more than 8 MB was rolled back in the binary log")
        del group.rows[keep:]

    # --- rows -------------------------------------------------------------------------------------------------------

    def _read_table_map(self, raw: bytes, start: int, end: int) -> None:
        id_, body = raw[start + HEADER : start + HEADER + 6], raw[start + HEADER + 8 : end]
        seen = self._group is not None and self._group.seen
        altered = self._tables.read_map(id_, body, seen=seen)
        if altered is not None:
            self._sections.alter(altered, self.position)

    def _read_rows(self, raw: bytes, start: int, end: int, code: int) -> None:
        at = start + HEADER
        mapped = self._tables.mapped(raw[at : at + 6])
        group = self._group
        if mapped is None or group is None or (group.seen and group.xa is None):
            return
        table, layout = mapped
        at += 8
        if code in _SECOND_VERSION:
            at += raw[at] | raw[at + 1] << 8
        count, at = length_encoded(raw, at)
        kind, size = _ROWS[code], (count + 7) // 8
        images = 2 if kind == _UPDATE else 1
        full = ((1 << count) - 1).to_bytes(size, "little") * images
        if not _has_all_columns(raw[at : at + size * images], full, count, size):
            raise SinkqlError(
                "SQ4468",
                f'the binary log lacks columns of a change of table "{layout.database}.{layout.table}"',
                hint=f"Run SET GLOBAL binlog_row_image = 'FULL' and reconnect all clients. {SKIP}",
            )
        at += size * images
        if code in _COMPRESSED:
            at, end = self._block.append(_decompress_mariadb(raw, at, end))
        else:
            at, end = at + self._block.base, end + self._block.base
        group.rows.append(RowsEvent(table, layout, kind, at, end))

    # --- statements -------------------------------------------------------------------------------------------------

    def _read_query(self, raw: bytes, start: int, query: _Query) -> None:
        group = self._group
        if group is None:
            return
        text = query.text
        words = control(text)
        first = words.partition(" ")[0]
        if first == "BEGIN":
            group.standalone = False
        elif first == "COMMIT":
            self._commit_group(raw, start)
        elif words == "ROLLBACK TO":
            self._roll_back(group, group.savepoints.get(savepoint(text), 0))
        elif first == "ROLLBACK":
            self._roll_back(group)
            self._commit_group(raw, start)
        elif first == "SAVEPOINT":
            group.savepoints[savepoint(text)] = len(group.rows)
        elif first == "XA":
            self._read_xa(group, words, text)
            if words in ("XA COMMIT", "XA ROLLBACK"):
                self._commit_group(raw, start)
        else:
            self._apply_statement(group, query)
            if group.standalone is not False:
                self._commit_group(raw, start)

    def _apply_statement(self, group: _Group, query: _Query) -> None:
        if group.seen:
            return
        changed: set[str] = set()
        for effect in effects(query.text, query.database, strict=query.strict):
            for table in self._tables.affected(effect):
                if effect.what == "emptied":
                    self._sections.end(self.position)
                    self._sections.last.emptied.add(table)
                elif table not in changed and (effect.what != "altered" or self._tables.is_unfit(table)):
                    self._sections.alter(self._tables.alter(table, effect), self.position)
                    changed |= {table} if effect.what in ("unlogged", "anything") else set()

    def _read_xa(self, group: _Group, words: str, text: str) -> None:
        if not self._maria:  # on MariaDB the event before has the id
            group.xa = text.strip().split(None, 2)[-1].removesuffix(" ONE PHASE")
        if words == "XA START":
            group.standalone = False
        elif words in ("XA COMMIT", "XA ROLLBACK"):
            prepared = self._prepared.pop(group.xa or "", None)
            if prepared is not None and words == "XA COMMIT" and not group.seen:
                for event, data in prepared.rows:
                    start, end = self._block.append(data)
                    group.rows.append(replace(event, start=start, end=end))

    def _prepare_group(self, raw: bytes, start: int) -> None:
        """Hold the rows of an XA transaction until it is committed; a one-phase commit is a commit."""
        group = self._group
        if group is None or group.xa is None:
            return
        if raw[start + HEADER]:
            self._commit_group(raw, start)
            return
        block = self._block.joined()
        rows = [(event, block[event.start : event.end]) for event in group.rows]
        if rows:
            before = self._scanned if group.seen else self._position
            self._prepared.setdefault(group.xa, _Prepared(before.text(), rows))
        group.rows = []
        self._commit_group(raw, start)

    def _read_payload(self, raw: bytes, at: int, end: int) -> None:
        """Read the events of a compressed transaction."""
        data = _decompress_payload(raw, at, end)
        self._block.base, _ = self._block.append(data)
        place = 0
        while place < len(data):
            size = int.from_bytes(data[place + 9 : place + 13], "little")
            if size < HEADER:
                raise _unreadable_error("a compressed transaction in the binary log is damaged")
            self._read_event(data, place, place + size)
            place += size
        self._block.base = 0


def _refuse_event(code: int) -> None:
    if code == PARTIAL_UPDATE:
        raise SinkqlError(
            "SQ4468",
            "the binary log has only parts of changed JSON columns",
            hint=f"Run SET GLOBAL binlog_row_value_options = '' and reconnect all clients. {SKIP}",
        )
    if code == INCIDENT:
        raise _unreadable_error("the server has lost changes: its binary log has an incident")


def _unreadable_error(message: str) -> SinkqlError:
    return SinkqlError("SQ4469", message, hint=SKIP)


def log_place(file: str, end: int) -> str:
    """Return a place in a server's files as a text that sorts."""
    return f"{int(file.rpartition('.')[2] or 0):010}:{end:020}"


def _has_all_columns(present: bytes, full: bytes, count: int, size: int) -> bool:
    """Return whether the bits of all columns are set; servers differ in the bits after the last column."""
    if present == full:
        return True
    mask = (1 << count) - 1
    parts = (present[at : at + size] for at in range(0, len(present), size))
    return all(int.from_bytes(bits, "little") & mask == mask for bits in parts)


@dataclass(frozen=True, slots=True)
class _Query:
    """A statement that is logged as text; if it is not `strict`, it may have altered values that did not fit."""

    database: str
    text: str
    strict: bool


_LOAD_BYTES = 13
"""Additional bytes of a statement that loads a file."""
_STRICT = 3 << 21
"""The bits of `sql_mode` that make a session strict; one is enough."""


def _parse_query(raw: bytes, at: int, end: int, *, more: int = 0, compressed: bool = False) -> _Query:
    size, length = raw[at + 8], int.from_bytes(raw[at + 11 : at + 13], "little")
    variables = at + 13 + more
    at = variables + length
    database, rest = raw[at : at + size].decode(errors="replace"), at + size + 1
    text = _decompress_mariadb(raw, rest, end) if compressed else raw[rest:end]
    return _Query(database, text.decode(errors="replace"), _is_strict(raw[variables:at]))


def _is_strict(variables: bytes) -> bool:
    """Return whether a statement's session was strict. Flags may precede the mode."""
    at = 5 if variables[:1] == b"\0" else 0
    if variables[at : at + 1] != b"\1":
        return True
    return bool(int.from_bytes(variables[at + 1 : at + 9], "little") & _STRICT)


def _decompress_mariadb(raw: bytes, at: int, end: int) -> bytes:
    """Decompress bytes of MariaDB: a byte with the size of a length, the length, and zlib's bytes."""
    return zlib.decompress(raw[at + 1 + (raw[at] & 7) : end])


def _decompress_payload(raw: bytes, at: int, end: int) -> bytes:
    """Return the events of a compressed transaction: fields of type, length and value, then zstd's bytes."""
    import pyarrow as pa

    fields: dict[int, int] = {}
    size = 0
    while True:
        kind, at = length_encoded(raw, at)
        if kind == 0:
            break
        length, at = length_encoded(raw, at)
        fields[kind], _ = length_encoded(raw, at)
        if kind == 1:
            size = fields[kind]
        at += length
    data = raw[at : at + size]
    if fields.get(2, 255) == 255:
        return data
    events: bytes = pa.decompress(data, decompressed_size=fields[3], codec="zstd", asbytes=True)
    return events
