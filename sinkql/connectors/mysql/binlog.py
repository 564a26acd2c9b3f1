"""Events of the log → what concerns the captured tables: rows by table, ends of transactions, emptied tables.

The layout of events is that of https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication.html and
https://mariadb.com/docs/server/reference/clientserver-protocol/replication-protocol.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sinkql.connector_api.cdc import SKIP
from sinkql.connectors.mysql.ddl import Effect, control, effects, savepoint
from sinkql.connectors.mysql.gtid import Transactions as Set
from sinkql.connectors.mysql.gtid import read_gtid, read_tagged_gtid
from sinkql.connectors.mysql.history_check import ReadHistory
from sinkql.connectors.mysql.table_map import TableMap, length_encoded, table_map
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
class Part:
    """Rows events of one table with one layout, in their order: where the images start and end, and what they do."""

    table: str
    layout: TableMap
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    """Microseconds since 1970 of the commit, and the transaction's id, an event."""
    commits: list[str | None] = field(default_factory=list)
    """What a section's `ids` have of the transaction, None where its end has not come yet."""


@dataclass(slots=True)
class TransactionPart:
    """What happened between two events that no log entry has in its middle."""

    parts: dict[str, list[Part]] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    emptied: set[str] = field(default_factory=set)
    to: str | None = None
    open: bool = False


@dataclass(frozen=True, slots=True)
class Altered:
    """A table that has another layout from here on, or none: `effect` says what a statement did to it."""

    table: str
    layout: TableMap | None
    effect: Effect | None = None


@dataclass(slots=True)
class _Rows:
    """A rows event of the present transaction."""

    table: str
    layout: TableMap
    kind: int
    start: int
    end: int


@dataclass(slots=True)
class _Group:
    """The present transaction: its id and time, what it did so far, and where its savepoints are."""

    id: str
    at: int
    standalone: bool | None
    seen: bool
    rows: list[_Rows] = field(default_factory=list)
    savepoints: dict[str, int] = field(default_factory=dict)
    xa: str | None = None
    flushed: bool = False


@dataclass(slots=True)
class _Prepared:
    """A prepared XA transaction: its rows as bytes, and the set of transactions before it."""

    before: str
    rows: list[tuple[_Rows, bytes]]


def read_begin(raw: bytes, start: int, end: int) -> tuple[str, int] | None:
    """Return id and time of the transaction that an event begins; None for any other event."""
    code = raw[start + 4]
    if code == MARIADB_GTID:
        return _mariadb_transaction(raw, start)
    if code == TAGGED_GTID:
        return read_tagged_gtid(raw, start, end)
    return read_gtid(raw, start) if code == GTID else None


def _mariadb_transaction(raw: bytes, start: int) -> tuple[str, int]:
    """Return id and time of a transaction of MariaDB, which knows seconds only."""
    seconds, _, server, _, _, _ = _HEADER.unpack_from(raw, start)
    number, domain = struct.unpack_from("<QI", raw, start + HEADER)
    return f"{domain}-{server}-{number}", seconds * 1_000_000


class BinlogReader:
    """Follow the events of a server's log from a set of transactions on.

    It is read from `begun` on, a smaller set, where prepared transactions were open: what is in both is seen already.
    `watched` has the captured tables' ids by database and name, whose case says nothing where they are `folded`. `fits`
    tells whether a layout holds what a table had; another one becomes an `Altered`. A section ends at each of `stops`,
    positions in their order.
    """

    def __init__(
        self,
        position: Set,
        watched: Mapping[tuple[str, str], str],
        fits: Callable[[str, TableMap], bool],
        *,
        scanned: Set | None = None,
        stops: Sequence[str] = (),
        maria: bool = False,
        folded: bool = False,
    ) -> None:
        self._position = position
        self._scanned = position if scanned is None else scanned
        self._folded = folded
        self._watched = {self._watch_key(*name): table for name, table in watched.items()}
        self._fits = fits
        self._stops = list(stops)
        self._maria = maria
        self._layouts: dict[bytes, TableMap] = {}
        self._maps: dict[bytes, tuple[str, TableMap] | None] = {}
        self._current: dict[str, TableMap] = {}
        self._unfit: set[str] = set()
        self._group: _Group | None = None
        self._prepared: dict[str, _Prepared] = {}
        self._tail: list[bytes] = []
        self._size = 0
        self._out: list[TransactionPart | Altered] = []
        self._raw = b""
        self._base = 0
        self._file = ""
        self._file_end = 0
        self.histories: deque[ReadHistory] = deque(maxlen=1)
        self._before = position.position()

    @property
    def position(self) -> str:
        """The end of the last whole transaction."""
        return self._position.position() + self._prepared_suffix()

    def _prepared_suffix(self) -> str:
        """Return what a position says beside its set: where the oldest prepared transaction began."""
        if not self._prepared:
            return ""
        return ";" + next(iter(self._prepared.values())).before

    def walk(
        self, raw: bytes, frames: Sequence[tuple[int, int]], *, whole: bool
    ) -> tuple[bytes, list[TransactionPart | Altered], int]:
        """Take in events, which stand in the block at these places.

        Returns the block with what was decompressed behind it, what came of the events, and how many of them are done:
        those of a transaction that does not end here come again, unless it is not to be `whole`.
        """
        self._raw, self._tail, self._size, self._out = raw, [], len(raw), [TransactionPart()]
        begun = 0
        for number, (start, end) in enumerate(frames):
            if self._group is None:
                begun = number
            self._read_event(raw, start, end)
        group = self._group
        done = len(frames)
        if group is not None and not group.flushed and (whole or group.seen or group.xa is not None):
            done, self._group = begun, None
        elif group is not None:
            self._flush(group)
            group.flushed = True
            self._last_section().open = True
        self._last_section().to = self.position
        block, self._raw = self._joined_block(), b""
        return block, self._out, done

    def _joined_block(self) -> bytes:
        """Return the block with what was decompressed behind it."""
        return b"".join((self._raw, *self._tail)) if self._tail else self._raw

    def _end_section(self) -> None:
        """End the present section where the log is."""
        self._last_section().to = self.position
        self._out.append(TransactionPart())

    def _last_section(self) -> TransactionPart:
        last = self._out[-1]
        if isinstance(last, TransactionPart):
            return last
        self._out.append(TransactionPart())
        return self._last_section()

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
            self._begin_group(
                *(read_tagged_gtid(raw, start, end) if code == TAGGED_GTID else read_gtid(raw, start)), standalone=None
            )
        elif code == QUERY:
            self._read_query(raw, start, _read_query(raw, start + HEADER, end))
        elif code == LOAD:
            self._read_query(raw, start, _read_query(raw, start + HEADER, end, more=_LOAD_BYTES))
        elif code == QUERY_COMPRESSED:
            self._read_query(raw, start, _read_query(raw, start + HEADER, end, compressed=True))
        elif code == XA_PREPARE:
            self._prepare_group(raw, start)
        elif code == ROTATE:
            self._file, self._file_end = raw[start + HEADER + 8 : end].decode(), 0
        elif code == PAYLOAD:
            self._read_payload(raw, start + HEADER, end)
        elif code in (PARTIAL_UPDATE, INCIDENT):
            self._refuse_event(code)

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
        """End the present transaction, whose last event is there."""
        group, self._group = self._group, None
        end = self._commit_place(raw, start)
        if group is None:
            return
        if group.seen:
            self._scanned.add(group.id)
            return
        before = self.position if self._stops else ""
        self._position.add(group.id)
        position = self.position
        self.histories.append(ReadHistory(self._before, position, group.id, group.at))
        self._before = position
        while self._stops and self._stops[0] < position:
            self._stops.pop(0)
            self._last_section().to = before
            self._out.append(TransactionPart())
        self._flush(group, end or group.id)
        section = self._last_section()
        section.ends.append(position)
        section.ids.append(end or group.id)
        if self._stops and self._stops[0] == position:
            self._stops.pop(0)
            self._end_section()

    def _commit_place(self, raw: bytes, start: int) -> str:
        """Return the place in the server's files where an event ends: that tells what a snapshot of MariaDB sees."""
        end = int.from_bytes(raw[start + 13 : start + 17], "little")
        while end < self._file_end:  # the event has 32 bits of it
            end += 1 << 32
        self._file_end = end
        return log_place(self._file, end) if self._maria else ""

    def _flush(self, group: _Group, commit: str | None = None) -> None:
        """Put the rows of a transaction among the others; `commit` is what is known of its end."""
        for rows in group.rows:
            parts = self._last_section().parts.setdefault(rows.table, [])
            if not parts or parts[-1].layout is not rows.layout:
                parts.append(Part(rows.table, rows.layout))
            part = parts[-1]
            part.starts.append(rows.start)
            part.ends.append(rows.end)
            part.kinds.append(rows.kind)
            part.at.append(group.at)
            part.ids.append(group.id)
            part.commits.append(commit)
        group.rows = []

    def _roll_back(self, group: _Group, keep: int = 0) -> None:
        """Forget all rows but the first ones; the log has them where other tables keep theirs."""
        if group.flushed:
            raise _unreadable_error("a transaction of more than 8 MB was rolled back in the binary log")
        del group.rows[keep:]

    # --- rows -------------------------------------------------------------------------------------------------------

    def _read_table_map(self, raw: bytes, start: int, end: int) -> None:
        id_, body = raw[start + HEADER : start + HEADER + 6], raw[start + HEADER + 8 : end]
        layout = self._layouts.get(body)
        if layout is None:
            layout = self._layouts[body] = table_map(body, maria=self._maria)
        table = self._watched.get(self._watch_key(layout.database, layout.table))
        self._maps[id_] = None if table is None else (table, layout)
        if table is None or self._current.get(table) is layout:
            return
        if self._group is not None and self._group.seen:
            return
        fits = self._fits(table, layout)
        if not fits or table in self._unfit:
            self._add_altered(Altered(table, layout), unfit=not fits)
        self._current[table] = layout

    def _watch_key(self, database: str, table: str) -> tuple[str, str]:
        return (database.lower(), table.lower()) if self._folded else (database, table)

    def _read_rows(self, raw: bytes, start: int, end: int, code: int) -> None:
        at = start + HEADER
        mapped = self._maps.get(raw[at : at + 6])
        group = self._group
        if mapped is None or group is None or (group.seen and group.xa is None):
            return
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
                f'the binary log lacks columns of a change of table "{mapped[1].database}.{mapped[1].table}"',
                hint=f"Run SET GLOBAL binlog_row_image = 'FULL' and reconnect all clients. {SKIP}",
            )
        at += size * images
        if code in _COMPRESSED:
            at, end = self._append(_decompress_mariadb(raw, at, end))
        else:
            at, end = at + self._base, end + self._base
        group.rows.append(_Rows(mapped[0], mapped[1], kind, at, end))

    def _append(self, data: bytes) -> tuple[int, int]:
        """Put bytes behind the block, and return where they stand there."""
        start = self._size
        self._tail.append(data)
        self._size += len(data)
        return start, self._size

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
            for table in self._affected_tables(effect):
                if effect.what == "emptied":
                    self._end_section()
                    self._last_section().emptied.add(table)
                elif table not in changed and (effect.what != "altered" or table in self._unfit):
                    self._add_altered(Altered(table, None, effect), unfit=False)
                    changed |= {table} if effect.what in ("unlogged", "anything") else set()

    def _affected_tables(self, effect: Effect) -> list[str]:
        """Return the captured tables that an effect is on."""
        key = self._watch_key(effect.database, effect.table)
        if effect.table:
            return [self._watched[key]] if key in self._watched else []
        return [table for name, table in self._watched.items() if name[0] == key[0]]

    def _add_altered(self, altered: Altered, *, unfit: bool) -> None:
        """Tell of a table, of which the next rows tell whether they fit."""
        self._end_section()
        self._out.append(altered)
        self._current.pop(altered.table, None)
        (self._unfit.add if unfit else self._unfit.discard)(altered.table)

    def _read_xa(self, group: _Group, words: str, text: str) -> None:
        if not self._maria:  # which says that before
            group.xa = text.strip().split(None, 2)[-1].removesuffix(" ONE PHASE")
        if words == "XA START":
            group.standalone = False
        elif words in ("XA COMMIT", "XA ROLLBACK"):
            prepared = self._prepared.pop(group.xa or "", None)
            if prepared is not None and words == "XA COMMIT" and not group.seen:
                for rows, data in prepared.rows:
                    start, end = self._append(data)
                    group.rows.append(replace(rows, start=start, end=end))

    def _prepare_group(self, raw: bytes, start: int) -> None:
        """Put by what an XA transaction did until it is committed; one phase is a commit."""
        group = self._group
        if group is None or group.xa is None:
            return
        if raw[start + HEADER]:
            self._commit_group(raw, start)
            return
        block = self._joined_block()
        rows = [(event, block[event.start : event.end]) for event in group.rows]
        if rows:
            before = self._scanned if group.seen else self._position
            self._prepared.setdefault(group.xa, _Prepared(before.text(), rows))
        group.rows = []
        self._commit_group(raw, start)

    def _read_payload(self, raw: bytes, at: int, end: int) -> None:
        """Take in the events of a compressed transaction."""
        data = _decompress_payload(raw, at, end)
        self._base, _ = self._append(data)
        place = 0
        while place < len(data):
            size = int.from_bytes(data[place + 9 : place + 13], "little")
            if size < HEADER:
                raise _unreadable_error("a compressed transaction in the binary log is damaged")
            self._read_event(data, place, place + size)
            place += size
        self._base = 0

    def _refuse_event(self, code: int) -> None:
        if code == PARTIAL_UPDATE:
            raise SinkqlError(
                "SQ4468",
                "changes of JSON columns are in the binary log in part only",
                hint=f"Run SET GLOBAL binlog_row_value_options = '' and have all clients connect again. {SKIP}",
            )
        if code == INCIDENT:
            raise _unreadable_error("the server has lost changes: its binary log has an incident")


def _unreadable_error(message: str) -> SinkqlError:
    return SinkqlError("SQ4469", message, hint=SKIP)


def log_place(file: str, end: int) -> str:
    """Return a place in a server's files as a text that sorts."""
    return f"{int(file.rpartition('.')[2] or 0):010}:{end:020}"


def _has_all_columns(present: bytes, full: bytes, count: int, size: int) -> bool:
    """Tell whether all bits of columns are set; servers differ in those behind the last one."""
    if present == full:
        return True
    mask = (1 << count) - 1
    parts = (present[at : at + size] for at in range(0, len(present), size))
    return all(int.from_bytes(bits, "little") & mask == mask for bits in parts)


@dataclass(frozen=True, slots=True)
class _Query:
    """A statement that is logged as text; one that is not `strict` takes values that do not fit, and alters them."""

    database: str
    text: str
    strict: bool


_LOAD_BYTES = 13
"""How many bytes more than others a statement has that loads a file."""
_STRICT = 3 << 21
"""The bits of `sql_mode` of which one makes a session strict."""


def _read_query(raw: bytes, at: int, end: int, *, more: int = 0, compressed: bool = False) -> _Query:
    size, length = raw[at + 8], int.from_bytes(raw[at + 11 : at + 13], "little")
    variables = at + 13 + more
    at = variables + length
    database, rest = raw[at : at + size].decode(errors="replace"), at + size + 1
    text = _decompress_mariadb(raw, rest, end) if compressed else raw[rest:end]
    return _Query(database, text.decode(errors="replace"), _is_strict(raw[variables:at]))


def _is_strict(variables: bytes) -> bool:
    """Tell whether a statement's session was strict: flags come first, if at all, and then the mode."""
    at = 5 if variables[:1] == b"\0" else 0
    if variables[at : at + 1] != b"\1":
        return True
    return bool(int.from_bytes(variables[at + 1 : at + 9], "little") & _STRICT)


def _decompress_mariadb(raw: bytes, at: int, end: int) -> bytes:
    """Return bytes that MariaDB has compressed: a byte with the size of a length, the length, then zlib's."""
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
