"""An SQL type ↔ its canonical text, its Arrow type and its Spark SQL type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sinkql import logical

if TYPE_CHECKING:
    import pyarrow as pa

_SPARK = {
    "boolean": "BOOLEAN", "smallint": "SMALLINT", "integer": "INT", "bigint": "BIGINT",
    "real": "FLOAT", "double precision": "DOUBLE", "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP",
    "text": "STRING", "uuid": "STRING", "jsonb": "STRING", "bytea": "BINARY",
}  # fmt: skip


def parse_type(text: str) -> logical.Type:
    """Return the type of a canonical type text, such as `numeric(38,10)`."""
    match = re.fullmatch(r"numeric\((\d+),(\d+)\)", text)
    return logical.Type("numeric", int(match[1]), int(match[2])) if match else logical.Type(text)


def spark_type(type_: logical.Type) -> str:
    """Return the Spark SQL type; raises KeyError for a type that Spark has not (time, interval)."""
    if type_.name == "numeric":
        return f"DECIMAL({type_.precision},{type_.scale})"
    return _SPARK[type_.name]


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type of a canonical type text."""
    import pyarrow as pa

    type_ = parse_type(text)
    if type_.name == "numeric":
        return pa.decimal128(type_.precision, type_.scale)
    found: dict[str, pa.DataType] = {
        "boolean": pa.bool_(), "smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64(),
        "real": pa.float32(), "double precision": pa.float64(), "date": pa.date32(), "time": pa.time64("us"),
        "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
        "text": pa.string(), "uuid": pa.string(), "jsonb": pa.string(), "interval": pa.string(),
        "bytea": pa.binary(),
    }  # fmt: skip
    return found[type_.name]


_NAMES = {
    "bool": "boolean", "boolean": "boolean", "smallint": "smallint", "int2": "smallint",
    "integer": "integer", "int": "integer", "int4": "integer", "bigint": "bigint", "int8": "bigint",
    "real": "real", "float4": "real", "double precision": "double precision", "double": "double precision",
    "float": "double precision", "float8": "double precision", "date": "date", "time": "time",
    "timestamp": "timestamp", "timestamp without time zone": "timestamp",
    "timestamptz": "timestamptz", "timestamp with time zone": "timestamptz",
    "text": "text", "string": "text", "varchar": "text", "character varying": "text", "char": "text",
    "character": "text", "bytea": "bytea", "uuid": "uuid", "jsonb": "jsonb", "json": "jsonb",
}  # fmt: skip


def column_type(text: str) -> logical.Type | None:
    """Return the type that a column's declaration names, in lower case with single spaces; None if there is none."""
    match = re.fullmatch(r"(?:numeric|decimal|dec)(?: ?\( ?(\d+)(?: ?, ?(\d+))? ?\))?", text)
    if match:
        if match[1] is None:
            return logical.NUMERIC
        precision, scale = int(match[1]), int(match[2] or 0)
        return logical.Type("numeric", precision, scale) if 1 <= precision <= 38 and scale <= precision else None
    plain = re.sub(r" ?\( ?\d+ ?\)", "", text)
    if plain != text and plain not in ("varchar", "character varying", "char", "character"):
        return None
    name = _NAMES.get(plain)
    return logical.Type(name) if name else None
