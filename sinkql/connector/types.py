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
