"""Rows → the partitions that they belong to, as a table's spec says; partitions as manifests and indexes keep them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    TimeTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from sinkql.storage.sorted_run import Indices

_UNITS = {YearTransform: "Y", MonthTransform: "M", DayTransform: "D", HourTransform: "h"}
_HASHED_AS_LONG = (IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType)


class PartitionValue(msgspec.Struct, frozen=True, array_like=True):
    """One partition under one spec: Iceberg's single-value bytes of each field's value, None for NULL."""

    spec: int = 0
    values: tuple[bytes | None, ...] = ()


WHOLE = PartitionValue()
"""The one partition of a table that has never had others."""


class Partitions:
    """The partitions of a loaded table: how its manifests name a `PartitionValue`. The types of a spec are found out
    once."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._known: dict[int, tuple[IcebergType, ...]] = {}

    def place_of(self, file: DataFile) -> PartitionValue:
        """Return where a file of a manifest lies."""
        types = self._types(file.spec_id)
        values = (file.partition[number] for number in range(len(types)))
        return PartitionValue(
            file.spec_id, tuple(_packed(type_, value) for type_, value in zip(types, values, strict=True))
        )

    def record(self, place: PartitionValue) -> Record:
        """Return a partition as manifests name it, in Iceberg's physical values."""
        types = self._types(place.spec)
        return Record(*(_unpacked(type_, value) for type_, value in zip(types, place.values, strict=True)))

    def _types(self, spec_id: int) -> tuple[IcebergType, ...]:
        if spec_id not in self._known:
            spec = self._metadata.specs()[spec_id]
            fields = spec.partition_type(parted_schema(self._metadata, spec_id)).fields
            self._known[spec_id] = tuple(field.field_type for field in fields)
        return self._known[spec_id]


def parted_schema(metadata: TableMetadata, spec_id: int) -> Schema:
    """Return the table's schema for the files of a spec: also with the spec's columns that have been dropped since.

    Without their types, neither is a partition of such files known, nor can a manifest name it.
    """
    schema = metadata.schema()
    sources = {field.source_id for field in metadata.specs()[spec_id].fields}
    dropped = {}
    for each in sorted(metadata.schemas, key=lambda each: each.schema_id):
        for id_ in sources.difference(schema.field_ids).intersection(each.field_ids):
            dropped[id_] = NestedField(id_, f"dropped:{id_}", each.find_type(id_))  # its name may be another's now
    if not dropped:
        return schema
    return Schema(
        *schema.fields,
        *dropped.values(),
        schema_id=schema.schema_id,
        identifier_field_ids=schema.identifier_field_ids,
    )


def divide(rows: pa.Table, schema: Schema, spec: PartitionSpec) -> list[tuple[PartitionValue, Indices]]:
    """Return the partitions of rows that have the table's types, each with the numbers of its rows in their order."""
    if not rows.num_rows:
        return []
    if spec.is_unpartitioned():
        return [(PartitionValue(spec.spec_id), np.arange(rows.num_rows))]
    codes = np.zeros(rows.num_rows, np.int64)
    fields: list[tuple[Indices, list[bytes | None]]] = []
    for field in spec.fields:
        column = rows.column(schema.find_column_name(field.source_id)).combine_chunks()
        found, known = _transformed(column, field, schema.find_type(field.source_id))
        # Few of the combinations occur: numbered anew after each field, they do not outgrow 64 bits.
        _, codes = np.unique(codes * max(1, len(known)) + found, return_inverse=True)
        fields.append((found, known))
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    parts = np.split(order, starts[1:])
    return [
        (PartitionValue(spec.spec_id, tuple(known[found[part[0]]] for found, known in fields)), part) for part in parts
    ]


def _transformed(column: pa.Array, field: PartitionField, type_: IcebergType) -> tuple[Indices, list[bytes | None]]:
    """Return the number of each row's partition value, and the values by number."""
    physical = _physical(column)
    quick = _quick(field, type_)
    if quick is not None:
        physical = quick(physical)
    coded = physical.dictionary_encode(null_encoding="encode")
    change = field.transform.transform(type_) if quick is None else _same
    result = field.transform.result_type(type_)
    numbers: dict[bytes | None, int] = {}
    known = [numbers.setdefault(_packed(result, change(value)), len(numbers)) for value in coded.dictionary.to_pylist()]
    return np.asarray(known, np.int64)[coded.indices.to_numpy(zero_copy_only=False)], list(numbers)


def _same(value: Any) -> Any:
    return value


def _quick(field: PartitionField, type_: IcebergType) -> Callable[[pa.Array], pa.Array] | None:
    """Return a transform of whole columns; None for what pyiceberg transforms, one distinct value at a time.

    That is slow for numbers, and has no years beyond 9999.
    """
    transform = field.transform
    if isinstance(transform, TimeTransform):
        unit = "D" if isinstance(type_, DateType) else "us"
        return lambda column: _in_units(column, unit, _UNITS[type(transform)])
    if isinstance(transform, BucketTransform) and isinstance(type_, _HASHED_AS_LONG):
        return lambda column: _masked(column, lambda values: (_murmur3(values) & 0x7FFFFFFF) % transform.num_buckets)
    if isinstance(transform, TruncateTransform) and isinstance(type_, IntegerType | LongType):
        return lambda column: _masked(column, lambda values: values - values % values.dtype.type(transform.width))
    return None


def _in_units(column: pa.Array, unit: str, wanted: str) -> pa.Array:
    def convert(values: Indices) -> Indices:
        moments = values.astype(np.int64).astype(f"datetime64[{unit}]")
        return moments.astype(f"datetime64[{wanted}]").astype(np.int64)

    return _masked(column, convert)


def _murmur3(values: Indices) -> NDArray[np.uint32]:
    """Return the 32-bit Murmur3 hash, of seed 0, of each number as 8 bytes."""
    whole = values.astype(np.int64).view(np.uint64)
    found = np.zeros(len(whole), np.uint32)
    for half in (whole, whole >> np.uint64(32)):
        mixed = half.astype(np.uint32) * np.uint32(0xCC9E2D51)
        found = _rotated(found ^ _rotated(mixed, 15) * np.uint32(0x1B873593), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    found ^= np.uint32(8)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ found >> np.uint32(shift)) * np.uint32(factor)
    return found ^ found >> np.uint32(16)


def _rotated(values: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
    return values << np.uint32(by) | values >> np.uint32(32 - by)


def _masked(column: pa.Array, convert: Callable[[Indices], Indices]) -> pa.Array:
    null = column.is_null().to_numpy(zero_copy_only=False)
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):  # a number below the least one comes round, as in Java
        return pa.array(convert(values), mask=null)


def _physical(column: pa.Array) -> pa.Array:
    """Return dates and times as the integers that Iceberg keeps, and a uuid as bytes."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    type_ = column.type
    if pa.types.is_date32(type_):
        return column.view(pa.int32())
    return column.view(pa.int64()) if pa.types.is_timestamp(type_) or pa.types.is_time64(type_) else column


def _packed(type_: IcebergType, value: Any) -> bytes | None:
    assert isinstance(type_, PrimitiveType)
    return None if value is None else to_bytes(type_, value)


def _unpacked(type_: IcebergType, value: bytes | None) -> Any:
    assert isinstance(type_, PrimitiveType)
    return None if value is None else from_bytes(type_, value)
