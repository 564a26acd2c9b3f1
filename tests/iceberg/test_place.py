"""Partition values of whole columns equal PyIceberg's for each value."""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from sinkql.connectors.iceberg.file.partition import Partitions, divide
from upsert.keyed_sink import create_table

DAY, YEARS = 86_400_000_000, 366 * 8000
TYPES: dict[str, tuple[Any, list[Any]]] = {
    "flag": (BooleanType(), [True, False]),
    "small": (IntegerType(), [0, -1, 7, -(2**31) + 9, 2**31 - 1, *range(-20, 20)]),
    "big": (LongType(), [0, -1, 2**40, -(2**63) + 9, 2**63 - 1, *range(-20, 20)]),
    "price": (DecimalType(38, 2), [Decimal(each).scaleb(-2) for each in (0, -1, 10**37, -105, 65, 1065)]),
    "name": (StringType(), ["", "a", "iceberg", "äöü€𝄞", "übermorgen"]),
    "data": (BinaryType(), [b"", b"\x00\xff", b"iceberg"]),
    "id": (UUIDType(), [uuid.UUID(int=each).bytes for each in (0, 1, 2**128 - 1)]),
    "took": (TimeType(), [0, 1, DAY - 1]),
    "born": (DateType(), [0, -1, -719_162, 2_932_896, 19_000, *range(-40, 40, 7)]),
    "at": (TimestampType(), [0, -1, 719_000 * DAY, *(each * 3_600_000_001 for each in range(-40, 40))]),
    "seen": (TimestamptzType(), [0, -1, -700_000 * DAY, *(each * 3_600_000_001 for each in range(-40, 40))]),
}
TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket[7]", "truncate[3]")
SCHEMA = Schema(*(NestedField(number, name, type_) for number, (name, (type_, _)) in enumerate(TYPES.items(), 1)))
TAKEN = [
    (field.name, transform)
    for field in SCHEMA.fields
    for transform in TRANSFORMS
    if parse_transform(transform).can_transform(field.field_type)
]


def spec_of(*terms: tuple[str, str]) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(SCHEMA.find_field(column).field_id, 1000 + number, parse_transform(transform), f"p{number}")
            for number, (column, transform) in enumerate(terms)
        )
    )


def rows_of(random_: random.Random, count: int) -> pa.Table:
    """Generate random rows in the table's types."""
    columns = []
    for field in schema_to_pyarrow(SCHEMA, include_field_ids=False):
        values = [random_.choice([None, *TYPES[field.name][1]]) for _ in range(count)]
        if isinstance(field.type, pa.UuidType):
            columns.append(pa.ExtensionArray.from_storage(field.type, pa.array(values, pa.binary(16))))
        else:
            columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, names=[field.name for field in SCHEMA.fields])


def transformed(rows: pa.Table, column: str, transform: str) -> list[Any]:
    """Return PyIceberg's transform of each value."""
    type_ = SCHEMA.find_type(column)
    change = parse_transform(transform).transform(type_)
    values = rows.column(column).combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    return [change(value) for value in values.to_pylist()]


@pytest.mark.parametrize(("column", "transform"), TAKEN)
def test_values_are_those_of_pyiceberg(tmp_path: Path, column: str, transform: str) -> None:
    rows = rows_of(random.Random(f"{column} {transform}"), 300)
    spec = spec_of((column, transform))
    metadata = create_table(tmp_path, {name: type_ for name, (type_, _) in TYPES.items()}, spec=spec).metadata
    expected: dict[Any, list[int]] = defaultdict(list)
    for number, value in enumerate(transformed(rows, column, transform)):
        expected[value].append(number)
    found = {Partitions(metadata).record(place)[0]: numbers.tolist() for place, numbers in divide(rows, SCHEMA, spec)}
    plain = {key.bytes if isinstance(key, uuid.UUID) else key: numbers for key, numbers in found.items()}
    assert dict(expected) == plain


@pytest.mark.parametrize(
    ("column", "least", "expected"), [("small", -(2**31), 2**31 - 2), ("big", -(2**63), 2**63 - 2)]
)
def test_the_least_integer_is_cut_as_by_other_writers(tmp_path: Path, column: str, least: int, expected: int) -> None:
    # Java's arithmetic overflows below the least integer, and its writers store the overflowed partition values
    rows = pa.table(
        {
            each.name: pa.array([least if each.name == column else None], each.type)
            for each in schema_to_pyarrow(SCHEMA, include_field_ids=False)
        }
    )
    spec = spec_of((column, "truncate[10]"))
    metadata = create_table(tmp_path, {name: type_ for name, (type_, _) in TYPES.items()}, spec=spec).metadata
    ((place, _),) = divide(rows, SCHEMA, spec)
    assert Partitions(metadata).record(place)[0] == expected


def test_several_terms_part_rows_by_all_of_them(tmp_path: Path) -> None:
    terms = (("name", "identity"), ("at", "day"), ("big", "bucket[7]"), ("flag", "identity"))
    rows = rows_of(random.Random(1), 500)
    spec = spec_of(*terms)
    metadata = create_table(tmp_path, {name: type_ for name, (type_, _) in TYPES.items()}, spec=spec).metadata
    expected = defaultdict(list)
    for number, values in enumerate(zip(*(transformed(rows, *term) for term in terms), strict=True)):
        expected[values].append(number)
    found = {}
    for place, numbers in divide(rows, SCHEMA, spec):
        partition = Partitions(metadata).record(place)
        found[tuple(partition[each] for each in range(len(terms)))] = numbers.tolist()
        file = DataFile.from_args(partition=partition)
        file.spec_id = 0
        assert place == Partitions(metadata).place_of(file)
    assert dict(expected) == found


def test_years_that_python_does_not_have_are_partitions() -> None:
    days = [3_000_000, -800_000, None]  # in the years 10183 and -221
    rows = pa.table({"born": pa.array(days, pa.int32()).cast(pa.date32())})
    for transform in ("year", "month", "day"):
        places = [place for place, _ in divide(rows, SCHEMA, spec_of(("born", transform)))]
        moments = np.array(days[:2], "datetime64[D]").astype(f"datetime64[{transform[0].upper()}]").astype(int)
        expected = {None, *(int(each).to_bytes(4, "little", signed=True) for each in moments)}
        assert {value for place in places for value in place.values} == expected


def test_no_rows_are_in_no_partition() -> None:
    assert divide(rows_of(random.Random(1), 0), SCHEMA, spec_of(("name", "identity"))) == []
