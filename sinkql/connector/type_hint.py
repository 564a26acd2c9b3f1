"""A type that a column cannot have → the sentence with one that it can have."""

from __future__ import annotations

import re
from collections.abc import Callable

from sinkql.errors import nearest

_ELSEWHERE = {
    "string": "text", "str": "text", "nvarchar": "text", "varchar2": "text", "clob": "text", "longtext": "text",
    "mediumtext": "text", "tinytext": "text", "citext": "text", "enum": "text", "symbol": "text",
    "datetime": "timestamp", "datetime2": "timestamp", "timestamp_ntz": "timestamp", "timestamp_ltz": "timestamptz",
    "timestamp_tz": "timestamptz", "smalldatetime": "timestamp",
    "tinyint": "smallint", "mediumint": "integer", "int16": "smallint", "int32": "integer", "int64": "bigint",
    "long": "bigint", "uint64": "numeric(20, 0)", "uint32": "bigint", "hugeint": "numeric(38, 0)",
    "serial": "bigint", "bigserial": "bigint", "smallserial": "bigint",
    "number": "numeric(38, 10)", "money": "numeric(38, 2)", "float32": "real", "float64": "double precision",
    "blob": "bytea", "binary": "bytea", "varbinary": "bytea", "bytes": "bytea", "raw": "bytea", "image": "bytea",
    "variant": "jsonb", "object": "jsonb", "struct": "jsonb", "row": "jsonb", "map": "jsonb", "array": "jsonb",
    "super": "jsonb", "record": "jsonb", "bit": "boolean", "logical": "boolean",
    "uniqueidentifier": "uuid", "guid": "uuid",
}  # fmt: skip
_WORDS = 20
_NAMES = (
    "boolean", "smallint", "integer", "int", "bigint", "real", "double precision", "numeric", "decimal", "date",
    "timestamp", "timestamptz", "text", "varchar", "bytea", "uuid", "jsonb",
)  # fmt: skip


def type_hint(text: str, known: Callable[[str], bool], others: str) -> str:
    """Return what to write instead of a type's text; `known` tells types, `others` is the sentence if nothing fits."""
    words = re.findall(r"\w+(?:\s*\([^)]*\))?|\S", text.lower())[:_WORDS]
    for count in range(len(words) - 1, 0, -1):
        before, after = " ".join(words[:count]), words[count:]
        if known(before) and not any(known(" ".join(after[start:])) for start in range(1, len(after))):
            return f"Leave out {' '.join(after)}."
        if known(before):
            return f'Write "," after {before}: {after[0]} is the next column.'
    first = re.match(r"\w+", words[0]) if words else None
    name = first[0] if first else ""
    if name.endswith("serial"):
        return "Write bigint, and give the values yourself."
    instead = _ELSEWHERE.get(name)
    if instead is not None:
        return f"Write {instead}."
    near = nearest(name, _NAMES)
    return f"Did you mean {near}?" if near else others
