"""A sink's columns with SQL types → the Iceberg schema of its table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from sinkql import physical
from sinkql.connector_api.types import parse_type
from sinkql.logical.array import leaf
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import BIGINT, INTEGER, Type

DIFF_COLUMN = "_mz_diff"
TIMESTAMP_COLUMN = "_mz_timestamp"
RANGE_FLAGS = ("lower_inclusive", "upper_inclusive", "empty")
"""What a table has of a range beside its bounds."""

_TYPES: dict[str, IcebergType] = {
    "boolean": BooleanType(), "smallint": IntegerType(), "integer": IntegerType(), "bigint": LongType(),
    "uint2": IntegerType(), "uint4": LongType(), "uint8": DecimalType(20, 0),
    "real": FloatType(), "double precision": DoubleType(), "date": DateType(), "time": TimeType(),
    "timestamp": TimestampType(), "timestamptz": TimestamptzType(), "bytea": BinaryType(),
    "text": StringType(), "uuid": StringType(), "jsonb": StringType(), "interval": StringType(),
}  # fmt: skip


def _iceberg_type(type_: Type, ids: Iterator[int]) -> IcebergType:
    """Return the Iceberg type of an SQL type: of a numeric only the scale is kept. What it holds has the next `ids`."""
    if type_.name == "array":
        items = NestedField(next(ids), "items", _list_type(leaf(type_), ids), required=False)
        return StructType(items, NestedField(next(ids), "dimensions", IntegerType(), required=False))
    if type_.name == "record":
        return StructType(
            *(
                NestedField(next(ids), each.name, _iceberg_type(each.type, ids), required=not each.nullable)
                for each in type_.fields
            )
        )
    if type_.name == "map":
        key, value = next(ids), next(ids)
        return MapType(key, StringType(), value, _iceberg_type(type_.value, ids), value_required=False)
    if type_.element is not None:
        return _list_type(type_.element, ids)
    if type_.name in SUBTYPES:
        bound = _iceberg_type(SUBTYPES[type_.name], ids)
        parts = {"lower": bound, "upper": bound, **dict.fromkeys(RANGE_FLAGS, BooleanType())}
        return StructType(*(NestedField(next(ids), name, part, required=False) for name, part in parts.items()))
    if type_.name == "numeric":
        assert type_.scale is not None
        return DecimalType(38, type_.scale)
    return _TYPES[type_.name]


def _list_type(element: Type, ids: Iterator[int]) -> ListType:
    number = next(ids)
    return ListType(number, _iceberg_type(element, ids), element_required=False)


def table_schema(columns: Iterable[physical.Column], *, changelog: bool) -> Schema:
    """Return the schema of the sink's table; field ids from 1 on, which a catalog may replace by others."""
    fields = [(column.name, parse_type(column.type), not column.nullable) for column in columns]
    if changelog:
        fields += [(DIFF_COLUMN, INTEGER, True), (TIMESTAMP_COLUMN, BIGINT, True)]
    ids = itertools.count(1)
    return Schema(
        *(
            NestedField(next(ids), name, _iceberg_type(type_, ids), required=required)
            for name, type_, required in fields
        )
    )


def fits(wanted: IcebergType, found: IcebergType, *, sql_type: str) -> bool:
    """Tell whether a table's column can hold a sink's: the same type, or a uuid's own."""
    if not wanted.is_primitive:
        return _renumbered(wanted) == _renumbered(found)
    return wanted == found or (sql_type == "uuid" and str(found) in ("uuid", "fixed[16]"))


def _renumbered(type_: IcebergType) -> IcebergType:
    """Return a type with field ids that only depend on its form."""
    return assign_fresh_schema_ids(Schema(NestedField(1, "x", type_, required=False))).fields[0].field_type
