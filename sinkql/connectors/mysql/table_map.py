"""A TABLE_MAP event → the columns of a table's row images: their types on the wire, and what the server says of them.

The layout is that of https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Table__map__event.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
"""How many bytes so many digits take."""

_NUMERIC = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, NEWDECIMAL})
_CHARACTER = frozenset({VARCHAR, VAR_STRING, STRING, BLOB, GEOMETRY, BLOB_COMPRESSED, VARCHAR_COMPRESSED})
_TWO_BYTES = frozenset({VARCHAR, VAR_STRING, STRING, NEWDECIMAL, BIT, ENUM, SET, VARCHAR_COMPRESSED})
_ONE_BYTE = frozenset({
    FLOAT, DOUBLE, BLOB, GEOMETRY, JSON, VECTOR, TIMESTAMP2, DATETIME2, TIME2, BLOB_COMPRESSED,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wire:
    """A column of a table's row images.

    Values have `width` bytes, or, where that is 0, a length of `prefix` bytes and so many bytes more. `size` is the
    greatest length in bytes, `precision` and `scale` those of a decimal; the scale is also how many digits of a second
    there are. `members` are those of an enum or set, as bytes of the charset that `collation` has.
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
    """A table of the log, and its columns; those without names are of a server that does not write them.

    `primary` are the columns of its primary key, or of the unique one that the server takes for that.
    """

    database: str
    table: str
    columns: tuple[Wire, ...]
    named: bool
    primary: frozenset[str] = frozenset()


def length_encoded(data: bytes, at: int) -> tuple[int, int]:
    """Return a length-encoded integer, and where it ends."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


def table_map(body: bytes, *, maria: bool) -> TableMap:
    """Decode a TABLE_MAP event's bytes after its table id and flags; MariaDB counts years among the numbers."""
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
    optional = _optional(body, at + (count + 7) // 8)
    names = [each.decode() for each in _strings(optional.get(4, b""))]
    columns = list(_columns(codes, metadata, nullable, names))
    _describe(columns, optional, _NUMERIC | {YEAR} if maria else _NUMERIC)
    primary = frozenset(columns[place].name for place in _primary(optional))
    return TableMap(database, table, tuple(columns), len(names) == count, primary)


def _columns(codes: bytes, metadata: bytes, nullable: bytes, names: Sequence[str]) -> Iterator[Wire]:
    at = 0
    for number, code in enumerate(codes):
        size = 2 if code in _TWO_BYTES else 1 if code in _ONE_BYTE else 0
        meta, at = metadata[at : at + size], at + size
        null = bool(nullable[number >> 3] >> (number & 7) & 1)
        yield _column(names[number] if number < len(names) else "", code, meta, null)


def _column(name: str, code: int, meta: bytes, nullable: bool) -> Wire:
    if code == STRING:
        code, size = _string(meta)
        if code in (ENUM, SET):
            return Wire(name, code, size, 0, size, nullable=nullable)
        return Wire(name, code, 0, 1 if size < 256 else 2, size, nullable=nullable)
    if code in (VARCHAR, VAR_STRING, VARCHAR_COMPRESSED):
        size = int.from_bytes(meta, "little")
        return Wire(name, code, 0, 1 if size < 256 else 2, size, nullable=nullable)
    if code == NEWDECIMAL:
        whole, part = divmod(meta[0] - meta[1], 9), divmod(meta[1], 9)
        width = 4 * (whole[0] + part[0]) + DECIMAL_BYTES[whole[1]] + DECIMAL_BYTES[part[1]]
        return Wire(name, code, width, 0, precision=meta[0], scale=meta[1], nullable=nullable)
    if code == BIT:
        bits = meta[1] * 8 + meta[0]
        return Wire(name, code, (bits + 7) // 8, 0, bits, nullable=nullable)
    if code in _TEMPORAL:
        return Wire(name, code, _TEMPORAL[code] + (meta[0] + 1) // 2, 0, scale=meta[0], nullable=nullable)
    if code in (BLOB, GEOMETRY, JSON, VECTOR, BLOB_COMPRESSED):
        return Wire(name, code, 0, meta[0], (1 << 8 * meta[0]) - 1, nullable=nullable)
    if code not in _WIDTHS:
        raise ValueError(f"column {name} has the type {code} in the log, which is unknown")
    return Wire(name, code, _WIDTHS[code], 0, nullable=nullable)


def _string(meta: bytes) -> tuple[int, int]:
    """Return the real type, and length, of a column that is a string to the log."""
    if meta[0] & 0x30 != 0x30:  # a length above 255 has two of its bits among those of the type
        return meta[0] | 0x30, meta[1] | ((meta[0] & 0x30) ^ 0x30) << 4
    return meta[0], meta[1]


def _optional(body: bytes, at: int) -> dict[int, bytes]:
    """Return the fields of the optional metadata, by their type."""
    found = {}
    while at < len(body):
        kind = body[at]
        size, at = length_encoded(body, at + 1)
        found[kind] = body[at : at + size]
        at += size
    return found


def _strings(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size, at = length_encoded(data, at)
        found.append(data[at : at + size])
        at += size
    return found


def _numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        number, at = length_encoded(data, at)
        found.append(number)
    return found


def _primary(optional: dict[int, bytes]) -> list[int]:
    """Return the places of the columns of the primary key, of which a key may have a part alone."""
    return _numbers(optional[9])[::2] if 9 in optional else _numbers(optional.get(8, b""))


def _describe(columns: list[Wire], optional: dict[int, bytes], numbers: frozenset[int]) -> None:
    """Give the columns what the optional metadata says: signs, collations, the members of enums and sets."""
    numeric = [number for number, each in enumerate(columns) if each.type in numbers]
    signs = optional.get(1, b"")
    for place, number in enumerate(numeric):
        if place >> 3 < len(signs) and signs[place >> 3] >> (7 - (place & 7)) & 1:
            columns[number] = replace(columns[number], unsigned=True)
    for kinds, most, each_one in ((_CHARACTER, 2, 3), (frozenset({ENUM, SET}), 10, 11)):
        some = [number for number, each in enumerate(columns) if each.type in kinds]
        for number, collation in zip(some, _collations(optional, most, each_one, len(some)), strict=False):
            columns[number] = replace(columns[number], collation=collation)
    for code, kind in ((SET, 5), (ENUM, 6)):
        lists = _members(optional.get(kind, b""))
        for number, members in zip((n for n, c in enumerate(columns) if c.type == code), lists, strict=False):
            columns[number] = replace(columns[number], members=members)


def _collations(optional: dict[int, bytes], most: int, each_one: int, count: int) -> list[int]:
    """Return the collations of some columns: the most frequent one and exceptions, or one for each."""
    if each_one in optional:
        return _numbers(optional[each_one])
    if most not in optional:
        return []
    usual, *pairs = _numbers(optional[most])
    found = [usual] * count
    for place, collation in zip(pairs[::2], pairs[1::2], strict=True):
        found[place] = collation
    return found


def _members(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = length_encoded(data, at)
        found = []
        for _ in range(count):
            size, at = length_encoded(data, at)
            found.append(data[at : at + size])
            at += size
        yield tuple(found)
