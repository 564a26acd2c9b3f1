"""Convert column declarations to SQL types, and check that a column of the log still fits its declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sinkql.connectors.mysql import table_map
from sinkql.connectors.mysql.table_map import LogColumn
from sinkql.connectors.mysql.value import WIDEST

_INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_SIGNED = {"tinyint": "smallint", "smallint": "smallint", "mediumint": "integer", "int": "integer", "bigint": "bigint"}
_UNSIGNED = {"tinyint": "uint2", "smallint": "uint2", "mediumint": "uint4", "int": "uint4", "bigint": "uint8"}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_OTHERS = {
    "float": "real", "double": "double precision", "bit": "uint8", "year": "smallint", "date": "date", "time": "time",
    "datetime": "timestamp", "timestamp": "timestamptz", "json": "jsonb", "uuid": "uuid", "inet4": "text",
    "inet6": "text", **dict.fromkeys(_TEXTS, "text"), **dict.fromkeys(_BYTES, "bytea"),
}  # fmt: skip
AS_TEXT = frozenset({*_INTEGERS, "decimal", "date", "datetime", "timestamp", "time", "year", "json", "uuid"})
"""Kinds that TEXT COLUMNS can read as the server prints them."""

_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class ColumnDeclaration:
    """The declaration of a column: its kind, for example `varchar`, the numbers in parentheses, and its sign.

    With `zerofill` the server pads a number with zeros.
    """

    kind: str
    sizes: tuple[int, ...] = ()
    unsigned: bool = False
    zerofill: bool = False

    @property
    def filled(self) -> int:
        """The least number of characters in the text of a number."""
        if not self.zerofill or not (self.sizes or self.kind == "decimal"):
            return 0
        precision, scale = _decimal_digits(self) if self.kind == "decimal" else (self.sizes[0], 0)
        return precision + 1 if scale else precision


def parse_declaration(text: str) -> ColumnDeclaration:
    """Parse a column type of information_schema, for example `decimal(12,2) unsigned`."""
    lower = text.lower()
    kind = re.match(r"\w+", lower)
    sizes = re.search(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", lower)
    numbers = tuple(int(number) for number in sizes.groups() if number is not None) if sizes else ()
    name = kind[0] if kind else lower
    rest = re.sub(r"'(?:[^'\\]|''|\\.)*'", "", lower)
    words = rest.split()
    sized = numbers if name not in ("enum", "set") else ()
    return ColumnDeclaration(name, sized, "unsigned" in words, "zerofill" in words and name != "year")


def sql_type(column: ColumnDeclaration) -> str | None:
    """Return the SQL type of a column; None if it cannot be read."""
    if column.kind in _INTEGERS:
        return (_UNSIGNED if column.unsigned else _SIGNED)[column.kind]
    if column.kind == "decimal":
        precision, scale = _decimal_digits(column)
        return f"numeric({min(precision, _MOST_DIGITS)},{scale})" if scale <= _MOST_DIGITS else None
    return _OTHERS.get(column.kind)


def _decimal_digits(column: ColumnDeclaration) -> tuple[int, int]:
    """Return the precision and scale of a decimal."""
    match column.sizes:
        case (precision, scale):
            return precision, scale
        case (precision,):
            return precision, 0
        case _:
            return 10, 0


_FITTING: Mapping[str, frozenset[int]] = {
    **dict.fromkeys(_INTEGERS, frozenset(
        {table_map.TINY, table_map.SHORT, table_map.INT24, table_map.LONG, table_map.LONGLONG}
    )),
    **dict.fromkeys(("varchar", "varbinary"), frozenset({table_map.VARCHAR, table_map.VAR_STRING, table_map.BLOB})),
    "char": frozenset({table_map.STRING, table_map.VARCHAR, table_map.VAR_STRING, table_map.BLOB}),
    "binary": frozenset({table_map.STRING}),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"),
                    frozenset({table_map.BLOB})),
    **dict.fromkeys(("uuid", "inet4", "inet6"), frozenset({table_map.STRING})),
    "decimal": frozenset({table_map.NEWDECIMAL}), "float": frozenset({table_map.FLOAT}),
    "double": frozenset({table_map.DOUBLE}),
    "bit": frozenset({table_map.BIT}), "year": frozenset({table_map.YEAR}), "date": frozenset({table_map.DATE}),
    "time": frozenset({table_map.TIME2}), "datetime": frozenset({table_map.DATETIME2}),
    "timestamp": frozenset({table_map.TIMESTAMP2}), "enum": frozenset({table_map.ENUM}),
    "set": frozenset({table_map.SET}),
    "json": frozenset({table_map.JSON, table_map.BLOB}),
}  # fmt: skip


def fits(column: ColumnDeclaration, wire: LogColumn, charset: str | None) -> bool:
    """Return whether the column of the log still fits the declared SQL type.

    It must also hold the same values: an ALTER TABLE that changes values logs none of them.
    """
    if wire.type not in _FITTING.get(column.kind, frozenset()):
        return False
    if column.kind in _INTEGERS:
        return wire.unsigned == column.unsigned and wire.width == _INTEGERS[column.kind]
    if column.kind == "decimal":
        precision, scale = _decimal_digits(column)
        return wire.scale == scale and wire.precision >= precision
    if column.kind in ("time", "datetime", "timestamp"):
        return wire.scale >= (column.sizes[0] if column.sizes else 0)
    if column.kind == "bit":
        return wire.size >= (column.sizes or (1,))[0]
    if column.kind in ("enum", "set"):
        return True
    if column.kind == "binary":
        return (
            wire.collation == table_map.BINARY and wire.size == (column.sizes or (1,))[0]
        )  # another size would pad the values
    if column.kind in _TEXTS:
        return wire.collation != table_map.BINARY and _is_long_enough(column, wire, WIDEST.get(charset or "", 1))
    if column.kind in _BYTES:
        return wire.collation == table_map.BINARY and _is_long_enough(column, wire, 1)
    return True


def holds(before: ColumnDeclaration, now: ColumnDeclaration) -> bool:
    """Return whether the present declaration holds all values of the earlier one, by the rules of `fits`."""
    if before.kind in _INTEGERS:
        return now.kind == before.kind and now.unsigned == before.unsigned
    if before.kind == "decimal":
        (precision, scale), (now_precision, now_scale) = _decimal_digits(before), _decimal_digits(now)
        return now.kind == before.kind and now_scale == scale and now_precision >= precision
    if before.kind in ("time", "datetime", "timestamp"):
        return now.kind == before.kind and now.sizes[:1] >= before.sizes[:1]
    if before.kind == "bit":
        return now.kind == before.kind and (now.sizes or (1,)) >= (before.sizes or (1,))
    if before.kind == "json":
        return now.kind == "json" or now.kind.endswith("text")
    if before.kind == "binary":
        return now == before
    if before.kind.endswith(("char", "varbinary")):
        long = "blob" if before.kind == "varbinary" else "text"
        if now.kind.endswith(long):
            return (1 << 8 * _BLOBS[now.kind[:-4]]) > (before.sizes or (1,))[0] * (4 if long == "text" else 1)
        longer = now.kind in (before.kind, f"var{before.kind.removeprefix('var')}")  # a char has no trailing blanks
        return longer and (now.sizes or (1,)) >= (before.sizes or (1,))
    if before.kind.endswith(("text", "blob")):
        suffix = before.kind[-4:]
        return now.kind.endswith(suffix) and _BLOBS[now.kind[:-4]] >= _BLOBS[before.kind[:-4]]
    return now.kind == before.kind


_BLOBS = {"tiny": 1, "": 2, "medium": 3, "long": 4}


def _is_long_enough(column: ColumnDeclaration, wire: LogColumn, widest: int) -> bool:
    """Return whether a string column did not become shorter, which may have cut values."""
    if column.kind.endswith(("text", "blob")):
        return wire.type == table_map.BLOB and wire.prefix >= _BLOBS[column.kind[:-4]]
    return wire.size >= (column.sizes[0] if column.sizes else 1) * widest
