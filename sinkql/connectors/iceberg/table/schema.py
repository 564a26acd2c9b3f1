"""Convert a sink's columns to its table's schema, and PARTITION BY and SORT BY to its partition spec and sort order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
from sinkql.connectors.iceberg.plan.options import IcebergSink
from sinkql.logical.nested import leaf
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import BIGINT, INTEGER, Type
from sinkql.printer.clause import ident, line
from sinkql.printer.create import direction

_FIRST_ID = 1000
_SUPPORTED = (IdentityTransform, BucketTransform, TruncateTransform, TimeTransform)
_INEXACT = (FloatType, DoubleType)


@dataclass(frozen=True, slots=True)
class Term:
    """A term of PARTITION BY: its SQL, Iceberg's name of the transform, and the column."""

    sql: str
    transform: str
    column: str


@dataclass(frozen=True, slots=True)
class Sorting:
    """A term of SORT BY, with its SQL."""

    sql: str
    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """A sink's PARTITION BY and SORT BY."""

    partition_by: tuple[Term, ...] = ()
    sort_by: tuple[Sorting, ...] = ()

    @classmethod
    def from_options(cls, options: IcebergSink) -> Layout:
        """Return the layout in a sink's planned options."""
        return cls(
            tuple(Term(**term) for term in options.partition_by),
            tuple(Sorting(**term) for term in options.sort_by),
        )

    def spec(self, schema: Schema) -> PartitionSpec:
        """Return the partition spec of a new table; catalogs assign other ids."""
        names = {field.name.casefold() for field in schema.fields}
        fields = []
        for number, term in enumerate(self.partition_by):
            name = _field_name(term)
            while name.casefold() in names and name != term.column:
                name += "_"
            names.add(name.casefold())
            source = schema.find_field(term.column).field_id
            fields.append(PartitionField(source, _FIRST_ID + number, parse_transform(term.transform), name))
        return PartitionSpec(*fields)

    def has_spec(self, spec: PartitionSpec, schema: Schema) -> bool:
        """Return whether a table's spec is that of the sink."""
        terms = [(str(field.transform), schema.find_column_name(field.source_id)) for field in spec.fields]
        return terms == [(term.transform, term.column) for term in self.partition_by]

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

    def has_order(self, order: SortOrder, schema: Schema) -> bool:
        """Return whether a table has the sink's sort order; True if the sink has none."""
        return not self.sort_by or self.order(schema).fields == order.fields

    @property
    def sql(self) -> str:
        """Return the PARTITION BY clause; empty without partitions."""
        return f"PARTITION BY ({', '.join(term.sql for term in self.partition_by)})" if self.partition_by else ""


def describe_spec(spec: PartitionSpec, schema: Schema) -> str:
    """Return a table's spec in the syntax of PARTITION BY, as far as possible."""
    return ", ".join(_describe_field(field, schema) for field in spec.fields)


def describe_order(order: SortOrder, schema: Schema) -> str:
    """Return a table's sort order in the syntax of SORT BY, as far as possible."""
    terms = []
    for field in order.fields:
        descending, nulls_first = field.direction is SortDirection.DESC, field.null_order is NullOrder.NULLS_FIRST
        terms.append(line(_describe_field(field, schema), direction(descending=descending, nulls_first=nulls_first)))
    return ", ".join(terms)


def has_only_columns(order: SortOrder, schema: Schema) -> bool:
    """Return whether a sort order of another program uses only columns, without transforms."""
    columns = [schema.find_column_name(field.source_id) for field in order.fields]
    return None not in columns and all(isinstance(field.transform, IdentityTransform) for field in order.fields)


def is_expressible(spec: PartitionSpec, schema: Schema) -> bool:
    """Return whether PARTITION BY can express a spec of another program."""
    times = [field.source_id for field in spec.fields if isinstance(field.transform, TimeTransform)]
    types = [schema.find_type(field.source_id) for field in spec.fields]
    supported = all(isinstance(field.transform, _SUPPORTED) for field in spec.fields)
    return supported and len(times) == len(set(times)) and not any(isinstance(type_, _INEXACT) for type_ in types)


def _describe_field(field: PartitionField | SortField, schema: Schema) -> str:
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
    """Return the field's name as PyIceberg and Spark choose it: `at_day`, `id_bucket_16`, `name_trunc_4`.

    Manifests are in Avro, whose names are in ASCII. Other characters are escaped as PyIceberg escapes them.
    """
    column = "".join(char if char.isascii() else f"_x{ord(char):X}" for char in term.column)
    if term.transform == "identity":
        return column
    function, _, number = term.transform.rstrip("]").partition("[")
    return "_".join(filter(None, (column, "trunc" if function == "truncate" else function, number)))


DIFF_COLUMN = "_mz_diff"
TIMESTAMP_COLUMN = "_mz_timestamp"
RANGE_FLAGS = ("lower_inclusive", "upper_inclusive", "empty")
"""The fields of a range in a table besides its bounds."""

_TYPES: dict[str, IcebergType] = {
    "boolean": BooleanType(), "smallint": IntegerType(), "integer": IntegerType(), "bigint": LongType(),
    "uint2": IntegerType(), "uint4": LongType(), "uint8": DecimalType(20, 0),
    "real": FloatType(), "double precision": DoubleType(), "date": DateType(), "time": TimeType(),
    "timestamp": TimestampType(), "timestamptz": TimestamptzType(), "bytea": BinaryType(),
    "text": StringType(), "uuid": StringType(), "jsonb": StringType(), "interval": StringType(),
}  # fmt: skip


def _iceberg_type(type_: Type, ids: Iterator[int]) -> IcebergType:
    """Return the Iceberg type of an SQL type, without the precision of numerics; nested fields get the next `ids`."""
    if type_.name == "array":
        items = NestedField(next(ids), "items", _list_type(leaf(type_), ids), required=False)
        return StructType(items, NestedField(next(ids), "dimensions", IntegerType(), required=False))
    if type_.name == "record":
        return StructType(
            *(
                NestedField(next(ids), field.name, _iceberg_type(field.type, ids), required=not field.nullable)
                for field in type_.fields
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
    """Return the schema of the sink's table, with field ids from 1, which a catalog may replace."""
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


def fits(wanted: IcebergType, present: IcebergType, *, sql_type: str) -> bool:
    """Return whether a table's column can store a sink's: its type is equal, or stores uuids."""
    if not wanted.is_primitive:
        return _renumber(wanted) == _renumber(present)
    return wanted == present or (sql_type == "uuid" and str(present) in ("uuid", "fixed[16]"))


def _renumber(type_: IcebergType) -> IcebergType:
    """Return a type with field ids that depend only on its structure."""
    return assign_fresh_schema_ids(Schema(NestedField(1, "x", type_, required=False))).fields[0].field_type
