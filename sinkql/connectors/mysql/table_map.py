"""Decode a TABLE_MAP event into the columns of a table's row images.

The layout is that of
https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Table__map__event.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sinkql.connectors.mysql.ddl import Effect

TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24 = 1, 2, 3, 4, 5, 7, 8, 9
DATE, TIME, DATETIME, YEAR, VARCHAR, BIT = 10, 11, 12, 13, 15, 16
TIMESTAMP2, DATETIME2, TIME2 = 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED, VECTOR = 140, 141, 242
JSON, NEWDECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 245, 246, 247, 248, 252, 253, 254, 255

BINARY = 63
"""The id of the collation of bytes."""

_WIDTHS = {
    TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8, FLOAT: 4, DOUBLE: 8, YEAR: 1, DATE: 3, TIME: 3, DATETIME: 8,
    TIMESTAMP: 4,
}  # fmt: skip
_TEMPORAL = {TIMESTAMP2: 4, DATETIME2: 5, TIME2: 3}
DECIMAL_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""The bytes of a number of decimal digits."""

_NUMERIC = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, NEWDECIMAL})
_CHARACTER = frozenset({VARCHAR, VAR_STRING, STRING, BLOB, GEOMETRY, BLOB_COMPRESSED, VARCHAR_COMPRESSED})
_TWO_BYTES = frozenset({VARCHAR, VAR_STRING, STRING, NEWDECIMAL, BIT, ENUM, SET, VARCHAR_COMPRESSED})
_ONE_BYTE = frozenset({
    FLOAT, DOUBLE, BLOB, GEOMETRY, JSON, VECTOR, TIMESTAMP2, DATETIME2, TIME2, BLOB_COMPRESSED,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class LogColumn:
    """A column of a table's row images.

    Values have `width` bytes, or, if it is 0, a length of `prefix` bytes and then that number of bytes. `size` is the
    greatest length in bytes. `precision` and `scale` describe a decimal; `scale` is also the number of fractional
    digits of a second. `members` are the members of an enum or set, as bytes in the charset of `collation`.
    """

    name: str
    type: int
    width: int
    prefix: int
    size: int = 0
    precision: int = 0
    scale: int = 0
    unsigned: bool = False
    nullable: bool = True
    collation: int = BINARY
    members: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table of the log and its columns; `named` is whether the server logs their names.

    `primary` are the columns of its primary key, or of the unique key that the server uses instead.
    """

    database: str
    table: str
    columns: tuple[LogColumn, ...]
    named: bool
    primary: frozenset[str] = frozenset()


def length_encoded(data: bytes, at: int) -> tuple[int, int]:
    """Return a length-encoded integer and its end."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


def table_map(body: bytes, *, maria: bool) -> TableMap:
    """Decode a TABLE_MAP event after its table id and flags; MariaDB counts years among the numbers."""
    size = body[0]
    database = body[1 : 1 + size].decode()
    at = size + 2
    size = body[at]
    table = body[at + 1 : at + 1 + size].decode()
    count, at = length_encoded(body, at + size + 2)
    codes = body[at : at + count]
    size, at = length_encoded(body, at + count)
    metadata, at = body[at : at + size], at + size
    nullable = body[at : at + (count + 7) // 8]
    optional = _read_optional(body, at + (count + 7) // 8)
    names = [name.decode() for name in _read_strings(optional.get(4, b""))]
    columns = list(_read_columns(codes, metadata, nullable, names))
    _describe(columns, optional, _NUMERIC | {YEAR} if maria else _NUMERIC)
    primary = frozenset(columns[place].name for place in _primary_places(optional))
    return TableMap(database, table, tuple(columns), len(names) == count, primary)


def _read_columns(codes: bytes, metadata: bytes, nullable: bytes, names: Sequence[str]) -> Iterator[LogColumn]:
    at = 0
    for number, code in enumerate(codes):
        size = 2 if code in _TWO_BYTES else 1 if code in _ONE_BYTE else 0
        meta, at = metadata[at : at + size], at + size
        null = bool(nullable[number >> 3] >> (number & 7) & 1)
        yield _read_column(names[number] if number < len(names) else "", code, meta, null)


def _read_column(name: str, code: int, meta: bytes, nullable: bool) -> LogColumn:
    if code == STRING:
        code, size = _string_type(meta)
        if code in (ENUM, SET):
            return LogColumn(name, code, size, 0, size, nullable=nullable)
        return LogColumn(name, code, 0, 1 if size < 256 else 2, size, nullable=nullable)
    if code in (VARCHAR, VAR_STRING, VARCHAR_COMPRESSED):
        size = int.from_bytes(meta, "little")
        return LogColumn(name, code, 0, 1 if size < 256 else 2, size, nullable=nullable)
    if code == NEWDECIMAL:
        whole, part = divmod(meta[0] - meta[1], 9), divmod(meta[1], 9)
        width = 4 * (whole[0] + part[0]) + DECIMAL_BYTES[whole[1]] + DECIMAL_BYTES[part[1]]
        return LogColumn(name, code, width, 0, precision=meta[0], scale=meta[1], nullable=nullable)
    if code == BIT:
        bits = meta[1] * 8 + meta[0]
        return LogColumn(name, code, (bits + 7) // 8, 0, bits, nullable=nullable)
    if code in _TEMPORAL:
        return LogColumn(name, code, _TEMPORAL[code] + (meta[0] + 1) // 2, 0, scale=meta[0], nullable=nullable)
    if code in (BLOB, GEOMETRY, JSON, VECTOR, BLOB_COMPRESSED):
        return LogColumn(name, code, 0, meta[0], (1 << 8 * meta[0]) - 1, nullable=nullable)
    if code not in _WIDTHS:
        raise ValueError(f"column {name} has the unknown type {code} in the log")
    return LogColumn(name, code, _WIDTHS[code], 0, nullable=nullable)


def _string_type(meta: bytes) -> tuple[int, int]:
    """Return the real type and length of a column that the log writes as a string."""
    if meta[0] & 0x30 != 0x30:  # the type holds two bits of a length above 255
        return meta[0] | 0x30, meta[1] | ((meta[0] & 0x30) ^ 0x30) << 4
    return meta[0], meta[1]


def _read_optional(body: bytes, at: int) -> dict[int, bytes]:
    """Return the fields of the optional metadata by type."""
    fields = {}
    while at < len(body):
        kind = body[at]
        size, at = length_encoded(body, at + 1)
        fields[kind] = body[at : at + size]
        at += size
    return fields


def _read_strings(data: bytes) -> list[bytes]:
    strings, at = [], 0
    while at < len(data):
        size, at = length_encoded(data, at)
        strings.append(data[at : at + size])
        at += size
    return strings


def _read_numbers(data: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(data):
        number, at = length_encoded(data, at)
        numbers.append(number)
    return numbers


def _primary_places(optional: dict[int, bytes]) -> list[int]:
    """Return the places of the primary key's columns; a key may use only a prefix of a column."""
    return _read_numbers(optional[9])[::2] if 9 in optional else _read_numbers(optional.get(8, b""))


def _describe(columns: list[LogColumn], optional: dict[int, bytes], numbers: frozenset[int]) -> None:
    """Set the properties that the optional metadata has: signs, collations, members of enums and sets."""
    numeric = [number for number, column in enumerate(columns) if column.type in numbers]
    signs = optional.get(1, b"")
    for place, number in enumerate(numeric):
        if place >> 3 < len(signs) and signs[place >> 3] >> (7 - (place & 7)) & 1:
            columns[number] = replace(columns[number], unsigned=True)
    for kinds, most, each_one in ((_CHARACTER, 2, 3), (frozenset({ENUM, SET}), 10, 11)):
        some = [number for number, column in enumerate(columns) if column.type in kinds]
        for number, collation in zip(some, _read_collations(optional, most, each_one, len(some)), strict=False):
            columns[number] = replace(columns[number], collation=collation)
    for code, kind in ((SET, 5), (ENUM, 6)):
        lists = _read_members(optional.get(kind, b""))
        for number, members in zip((n for n, c in enumerate(columns) if c.type == code), lists, strict=False):
            columns[number] = replace(columns[number], members=members)


def _read_collations(optional: dict[int, bytes], most: int, each_one: int, count: int) -> list[int]:
    """Return the collations of some columns: the most frequent one with exceptions, or one per column."""
    if each_one in optional:
        return _read_numbers(optional[each_one])
    if most not in optional:
        return []
    usual, *pairs = _read_numbers(optional[most])
    collations = [usual] * count
    for place, collation in zip(pairs[::2], pairs[1::2], strict=True):
        collations[place] = collation
    return collations


def _read_members(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = length_encoded(data, at)
        members = []
        for _ in range(count):
            size, at = length_encoded(data, at)
            members.append(data[at : at + size])
            at += size
        yield tuple(members)


# --- captured tables --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AlteredTable:
    """A captured table that has a new layout, or that a statement altered."""

    table: str
    change: TableMap | Effect


class WatchedTables:
    """The captured tables, and their present layouts in the log.

    `ids` has the tables' ids by database and name, whose case is irrelevant if they are `folded`. `fits` returns
    whether a table can be read with a layout.
    """

    def __init__(
        self,
        ids: Mapping[tuple[str, str], str],
        fits: Callable[[str, TableMap], bool],
        *,
        maria: bool = False,
        folded: bool = False,
    ) -> None:
        self._folded = folded
        self._ids = {self._key(*name): table for name, table in ids.items()}
        self._fits = fits
        self._maria = maria
        self._layouts: dict[bytes, TableMap] = {}
        self._mapped: dict[bytes, tuple[str, TableMap] | None] = {}
        self._current: dict[str, TableMap] = {}
        self._unfit: set[str] = set()

    def _key(self, database: str, table: str) -> tuple[str, str]:
        return (database.lower(), table.lower()) if self._folded else (database, table)

    def read_map(self, id_: bytes, body: bytes, *, seen: bool) -> AlteredTable | None:
        """Read a TABLE_MAP event, and return its table if a new layout does not fit, or fits again.

        An event of a transaction that was `seen` before only maps the id.
        """
        layout = self._layouts.get(body)
        if layout is None:
            layout = self._layouts[body] = table_map(body, maria=self._maria)
        table = self._ids.get(self._key(layout.database, layout.table))
        self._mapped[id_] = None if table is None else (table, layout)
        if table is None or self._current.get(table) is layout or seen:
            return None
        fits = self._fits(table, layout)
        was_unfit = table in self._unfit
        self._current[table] = layout
        (self._unfit.discard if fits else self._unfit.add)(table)
        return AlteredTable(table, layout) if was_unfit or not fits else None

    def mapped(self, id_: bytes) -> tuple[str, TableMap] | None:
        """Return the captured table of a table id of the log, and its layout."""
        return self._mapped.get(id_)

    def affected(self, effect: Effect) -> Sequence[str]:
        """Return the captured tables that an effect concerns."""
        key = self._key(effect.database, effect.table)
        if effect.table:
            return [self._ids[key]] if key in self._ids else []
        return [table for name, table in self._ids.items() if name[0] == key[0]]

    def is_unfit(self, table: str) -> bool:
        """Return whether the last layout of a table did not fit."""
        return table in self._unfit

    def alter(self, table: str, effect: Effect) -> AlteredTable:
        """Apply a statement to a table; its next rows tell whether their layout fits."""
        self._current.pop(table, None)
        self._unfit.discard(table)
        return AlteredTable(table, effect)
