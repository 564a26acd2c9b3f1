"""A column's declaration, as information_schema has it ↔ SinkQL's type, and whether the log's columns still fit it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sinkql.connectors.mysql import table_map
from sinkql.connectors.mysql.table_map import Wire
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
"""Kinds that TEXT COLUMNS reads as the server prints them."""

_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Declared:
    """A column's declaration: its kind, such as `varchar`, numbers in parentheses, and its sign.

    With `zerofill` the server prints zeros before a number.
    """

    kind: str
    sizes: tuple[int, ...] = ()
    unsigned: bool = False
    zerofill: bool = False

    @property
    def filled(self) -> int:
        """How many characters the text of a number has at least."""
        if not self.zerofill or not (self.sizes or self.kind == "decimal"):
            return 0
        precision, scale = _digits(self) if self.kind == "decimal" else (self.sizes[0], 0)
        return precision + 1 if scale else precision


def declared(text: str) -> Declared:
    """Return what a column type of information_schema says, such as `decimal(12,2) unsigned`."""
    lower = text.lower()
    kind = re.match(r"\w+", lower)
    sizes = re.search(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", lower)
    numbers = tuple(int(each) for each in sizes.groups() if each is not None) if sizes else ()
    name = kind[0] if kind else lower
    rest = re.sub(r"'(?:[^'\\]|''|\\.)*'", "", lower)
    words = rest.split()
    sized = numbers if name not in ("enum", "set") else ()
    return Declared(name, sized, "unsigned" in words, "zerofill" in words and name != "year")


def sql_type(column: Declared) -> str | None:
    """Return the SQL type of a column; None for one that cannot be read."""
    if column.kind in _INTEGERS:
        return (_UNSIGNED if column.unsigned else _SIGNED)[column.kind]
    if column.kind == "decimal":
        precision, scale = _digits(column)
        return f"numeric({min(precision, _MOST_DIGITS)},{scale})" if scale <= _MOST_DIGITS else None
    return _OTHERS.get(column.kind)


def _digits(column: Declared) -> tuple[int, int]:
    """Return precision and scale of a decimal."""
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


def fits(column: Declared, found: Wire, charset: str | None) -> bool:
    """Tell whether the log's column holds what was declared, or more that the SQL type holds as well.

    And whether none of its values is another one since it was altered, of which the log would have nothing.
    """
    if found.type not in _FITTING.get(column.kind, frozenset()):
        return False
    if column.kind in _INTEGERS:
        return found.unsigned == column.unsigned and found.width == _INTEGERS[column.kind]
    if column.kind == "decimal":
        precision, scale = _digits(column)
        return found.scale == scale and found.precision >= precision
    if column.kind in ("time", "datetime", "timestamp"):
        return found.scale >= (column.sizes[0] if column.sizes else 0)
    if column.kind == "bit":
        return found.size >= (column.sizes or (1,))[0]
    if column.kind in ("enum", "set"):
        return True
    if column.kind == "binary":
        return found.collation == table_map.BINARY and found.size == (column.sizes or (1,))[0]  # values would be padded
    if column.kind in _TEXTS:
        return found.collation != table_map.BINARY and _long_enough(column, found, WIDEST.get(charset or "", 1))
    if column.kind in _BYTES:
        return found.collation == table_map.BINARY and _long_enough(column, found, 1)
    return True


def holds(was: Declared, now: Declared) -> bool:
    """Tell whether a column as it is declared now holds what was declared before, by the same rules as `fits`."""
    if was.kind in _INTEGERS:
        return now.kind == was.kind and now.unsigned == was.unsigned
    if was.kind == "decimal":
        (precision, scale), (now_precision, now_scale) = _digits(was), _digits(now)
        return now.kind == was.kind and now_scale == scale and now_precision >= precision
    if was.kind in ("time", "datetime", "timestamp"):
        return now.kind == was.kind and now.sizes[:1] >= was.sizes[:1]
    if was.kind == "bit":
        return now.kind == was.kind and (now.sizes or (1,)) >= (was.sizes or (1,))
    if was.kind == "json":
        return now.kind == "json" or now.kind.endswith("text")
    if was.kind == "binary":
        return now == was
    if was.kind.endswith(("char", "varbinary")):
        long = "blob" if was.kind == "varbinary" else "text"
        if now.kind.endswith(long):
            return (1 << 8 * _BLOBS[now.kind[:-4]]) > (was.sizes or (1,))[0] * (4 if long == "text" else 1)
        longer = now.kind in (was.kind, f"var{was.kind.removeprefix('var')}")  # a char has no blanks at its end
        return longer and (now.sizes or (1,)) >= (was.sizes or (1,))
    if was.kind.endswith(("text", "blob")):
        suffix = was.kind[-4:]
        return now.kind.endswith(suffix) and _BLOBS[now.kind[:-4]] >= _BLOBS[was.kind[:-4]]
    return now.kind == was.kind


_BLOBS = {"tiny": 1, "": 2, "medium": 3, "long": 4}


def _long_enough(column: Declared, found: Wire, widest: int) -> bool:
    """Tell whether a string has not become shorter, which may have cut values."""
    if column.kind.endswith(("text", "blob")):
        return found.type == table_map.BLOB and found.prefix >= _BLOBS[column.kind[:-4]]
    return found.size >= (column.sizes[0] if column.sizes else 1) * widest
