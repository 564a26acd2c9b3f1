"""A sink's columns with SQL types → the Iceberg schema of its table."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from sinkql import physical
from sinkql.extension.types import parse_type

DIFF_COLUMN = "_mz_diff"
TIMESTAMP_COLUMN = "_mz_timestamp"

_TYPES: dict[str, IcebergType] = {
    "boolean": BooleanType(), "smallint": IntegerType(), "integer": IntegerType(), "bigint": LongType(),
    "real": FloatType(), "double precision": DoubleType(), "date": DateType(), "time": TimeType(),
    "timestamp": TimestampType(), "timestamptz": TimestamptzType(), "bytea": BinaryType(),
    "text": StringType(), "uuid": StringType(), "jsonb": StringType(), "interval": StringType(),
}  # fmt: skip


def iceberg_type(text: str) -> IcebergType:
    """Return the Iceberg type of an SQL type's text: of a numeric only the scale is kept."""
    type_ = parse_type(text)
    if type_.name == "numeric":
        assert type_.scale is not None
        return DecimalType(38, type_.scale)
    return _TYPES[type_.name]


def table_schema(columns: Iterable[physical.Column], *, changelog: bool) -> Schema:
    """Return the schema of the sink's table; field ids from 1 on, which a catalog may replace by others."""
    fields = [(column.name, iceberg_type(column.type), not column.nullable) for column in columns]
    if changelog:
        fields += [(DIFF_COLUMN, IntegerType(), True), (TIMESTAMP_COLUMN, LongType(), True)]
    return Schema(
        *(
            NestedField(field_id=number, name=name, field_type=kind, required=required)
            for number, (name, kind, required) in enumerate(fields, start=1)
        )
    )


def fits(wanted: IcebergType, found: IcebergType, *, sql_type: str) -> bool:
    """Tell whether a table's column can hold a sink's: the same type, or a uuid's own."""
    return wanted == found or (sql_type == "uuid" and str(found) in ("uuid", "fixed[16]"))
