"""How a sink lays out its table's rows ↔ the table's partition spec and sort order.

A sink's columns with SQL types → the Iceberg schema of its table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, TimeTransform, TruncateTransform, parse_transform
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

from sinkql import ast, physical
from sinkql.logical.nested import leaf
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import BIGINT, INTEGER, Type
from sinkql.printer.clause import ident, line
from sinkql.printer.create import direction

_FIRST_ID = 1000
_KNOWN = (IdentityTransform, BucketTransform, TruncateTransform, TimeTransform)
_INEXACT = (FloatType, DoubleType)


@dataclass(frozen=True, slots=True)
class Term:
    """One term of PARTITION BY: its SQL, Iceberg's name of the transform, and the column."""

    sql: str
    transform: str
    column: str


@dataclass(frozen=True, slots=True)
class Sorting:
    """One term of SORT BY, with its SQL."""

    sql: str
    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """What a sink says of the files of its table."""

    partition_by: tuple[Term, ...] = ()
    sort_by: tuple[Sorting, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Layout:
        """Return what a sink's planned options say."""
        return cls(
            tuple(Term(**term) for term in options.get("partition_by", ())),
            tuple(Sorting(**term) for term in options.get("sort_by", ())),
        )

    def spec(self, schema: Schema) -> PartitionSpec:
        """Return the partition spec of a new table; a catalog gives the ids anew."""
        taken = {field.name.casefold() for field in schema.fields}
        fields = []
        for number, term in enumerate(self.partition_by):
            name = _field_name(term)
            while name.casefold() in taken and name != term.column:
                name += "_"
            taken.add(name.casefold())
            source = schema.find_field(term.column).field_id
            fields.append(PartitionField(source, _FIRST_ID + number, parse_transform(term.transform), name))
        return PartitionSpec(*fields)

    def partitions(self, spec: PartitionSpec, schema: Schema) -> bool:
        """Tell whether a table's spec parts rows as the sink says."""
        found = [(str(field.transform), schema.find_column_name(field.source_id)) for field in spec.fields]
        return found == [(term.transform, term.column) for term in self.partition_by]

    def order(self, schema: Schema) -> SortOrder:
        """Return the sort order of a new table."""
        fields = (
            SortField(
                schema.find_field(term.column).field_id,
                IdentityTransform(),
                SortDirection.DESC if term.descending else SortDirection.ASC,
                NullOrder.NULLS_FIRST if term.nulls_first else NullOrder.NULLS_LAST,
            )
            for term in self.sort_by
        )
        return SortOrder(*fields) if self.sort_by else UNSORTED_SORT_ORDER

    def sorts(self, order: SortOrder, schema: Schema) -> bool:
        """Tell whether a table's files are sorted as the sink says, if it says so."""
        return not self.sort_by or self.order(schema).fields == order.fields

    @property
    def sql(self) -> str:
        """Return the sink's clause, empty without one."""
        return f"PARTITION BY ({', '.join(term.sql for term in self.partition_by)})" if self.partition_by else ""


def described(spec: PartitionSpec, schema: Schema) -> str:
    """Return a table's spec much as PARTITION BY would say it."""
    return ", ".join(_described(field, schema) for field in spec.fields)


def described_order(order: SortOrder, schema: Schema) -> str:
    """Return a table's sort order much as SORT BY would say it."""
    terms = []
    for field in order.fields:
        descending, nulls_first = field.direction is SortDirection.DESC, field.null_order is NullOrder.NULLS_FIRST
        terms.append(line(_described(field, schema), direction(descending=descending, nulls_first=nulls_first)))
    return ", ".join(terms)


def of_columns(order: SortOrder, schema: Schema) -> bool:
    """Tell whether a sort order, which another program may have made, is one of the table's columns alone."""
    columns = [schema.find_column_name(field.source_id) for field in order.fields]
    return None not in columns and all(isinstance(field.transform, IdentityTransform) for field in order.fields)


def sayable(spec: PartitionSpec, schema: Schema) -> bool:
    """Tell whether PARTITION BY can say a table's spec, which another program made."""
    times = [field.source_id for field in spec.fields if isinstance(field.transform, TimeTransform)]
    types = [schema.find_type(field.source_id) for field in spec.fields]
    known = all(isinstance(field.transform, _KNOWN) for field in spec.fields)
    return known and len(times) == len(set(times)) and not any(isinstance(type_, _INEXACT) for type_ in types)


def _described(field: PartitionField | SortField, schema: Schema) -> str:
    name = schema.find_column_name(field.source_id)
    column = ident(ast.Ident(name)) if name is not None else "?"
    match field.transform:
        case IdentityTransform():
            return column
        case BucketTransform(num_buckets=number) | TruncateTransform(width=number):
            return f"{str(field.transform).partition('[')[0]}({number}, {column})"
        case _:
            return f"{field.transform}({column})"


def _field_name(term: Term) -> str:
    """Return the name that PyIceberg and Spark give such a field: `at_day`, `id_bucket_16`, `name_trunc_4`.

    Manifests name the field in Avro, which has letters of ASCII alone: others are written as PyIceberg writes signs.
    """
    column = "".join(each if each.isascii() else f"_x{ord(each):X}" for each in term.column)
    if term.transform == "identity":
        return column
    function, _, number = term.transform.rstrip("]").partition("[")
    return "_".join(filter(None, (column, "trunc" if function == "truncate" else function, number)))


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
    fields = [(column.name, column.type, not column.nullable) for column in columns]
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
