"""Divide rows into partitions by a table's spec, and convert partitions for manifests and indexes."""

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
    """One partition of one spec: Iceberg's single-value bytes of each field's value, None for NULL."""

    spec: int = 0
    values: tuple[bytes | None, ...] = ()


WHOLE = PartitionValue()
"""The only partition of a table that has always been unpartitioned."""


class Partitions:
    """The partitions of a loaded table, converted between `PartitionValue` and manifest records.

    The types of a spec's fields are computed once.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._types_by_spec: dict[int, tuple[PrimitiveType, ...]] = {}

    def place_of(self, file: DataFile) -> PartitionValue:
        """Return the partition of a file in a manifest."""
        types = self._types(file.spec_id)
        values = (file.partition[number] for number in range(len(types)))
        return PartitionValue(
            file.spec_id, tuple(_to_bytes(type_, value) for type_, value in zip(types, values, strict=True))
        )

    def record(self, place: PartitionValue) -> Record:
        """Return the manifest record of a partition, in Iceberg's physical values."""
        types = self._types(place.spec)
        return Record(*(_from_bytes(type_, value) for type_, value in zip(types, place.values, strict=True)))

    def _types(self, spec_id: int) -> tuple[PrimitiveType, ...]:
        if spec_id not in self._types_by_spec:
            spec = self._metadata.specs()[spec_id]
            fields = spec.partition_type(parted_schema(self._metadata, spec_id)).fields
            self._types_by_spec[spec_id] = tuple(_primitive(field.field_type) for field in fields)
        return self._types_by_spec[spec_id]


def parted_schema(metadata: TableMetadata, spec_id: int) -> Schema:
    """Return the table's schema, with the spec's columns that were dropped since.

    Without the types of dropped columns, partitions can be neither read nor written.
    """
    schema = metadata.schema()
    sources = {field.source_id for field in metadata.specs()[spec_id].fields}
    dropped = {}
    for earlier in sorted(metadata.schemas, key=lambda earlier: earlier.schema_id):
        for id_ in sources.difference(schema.field_ids).intersection(earlier.field_ids):
            dropped[id_] = NestedField(
                id_, f"dropped:{id_}", earlier.find_type(id_)
            )  # another column may have its name now
    if not dropped:
        return schema
    return Schema(
        *schema.fields,
        *dropped.values(),
        schema_id=schema.schema_id,
        identifier_field_ids=schema.identifier_field_ids,
    )


def divide(rows: pa.Table, schema: Schema, spec: PartitionSpec) -> list[tuple[PartitionValue, Indices]]:
    """Return the partitions of rows in the table's types, each with its row numbers in input order."""
    if not rows.num_rows:
        return []
    if spec.is_unpartitioned():
        return [(PartitionValue(spec.spec_id), np.arange(rows.num_rows))]
    codes = np.zeros(rows.num_rows, np.int64)
    fields: list[tuple[Indices, list[bytes | None]]] = []
    for field in spec.fields:
        column = rows.column(schema.find_column_name(field.source_id)).combine_chunks()
        numbers, values = _transform(column, field, schema.find_type(field.source_id))
        # Few combinations occur: renumbered after each field, the codes fit in 64 bits.
        _, codes = np.unique(codes * max(1, len(values)) + numbers, return_inverse=True)
        fields.append((numbers, values))
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    parts = np.split(order, starts[1:])
    return [
        (PartitionValue(spec.spec_id, tuple(values[numbers[part[0]]] for numbers, values in fields)), part)
        for part in parts
    ]


def _transform(column: pa.Array, field: PartitionField, type_: IcebergType) -> tuple[Indices, list[bytes | None]]:
    """Return the number of each row's partition value, and the values by number."""
    physical = _physical(column)
    quick = _column_transform(field, type_)
    if quick is not None:
        physical = quick(physical)
    coded = physical.dictionary_encode(null_encoding="encode")
    change = field.transform.transform(type_) if quick is None else _same
    result = _primitive(field.transform.result_type(type_))
    numbers: dict[bytes | None, int] = {}
    codes = [
        numbers.setdefault(_to_bytes(result, change(value)), len(numbers)) for value in coded.dictionary.to_pylist()
    ]
    return np.asarray(codes, np.int64)[coded.indices.to_numpy(zero_copy_only=False)], list(numbers)


def _same(value: Any) -> Any:
    return value


def _column_transform(field: PartitionField, type_: IcebergType) -> Callable[[pa.Array], pa.Array] | None:
    """Return a transform of whole columns; None if pyiceberg transforms each distinct value.

    pyiceberg's way is slow for numbers, and has no years after 9999.
    """
    transform = field.transform
    if isinstance(transform, TimeTransform):
        unit = "D" if isinstance(type_, DateType) else "us"
        return lambda column: _to_unit(column, unit, _UNITS[type(transform)])
    if isinstance(transform, BucketTransform) and isinstance(type_, _HASHED_AS_LONG):
        return lambda column: _convert_valid(
            column, lambda values: (_murmur3(values) & 0x7FFFFFFF) % transform.num_buckets
        )
    if isinstance(transform, TruncateTransform) and isinstance(type_, IntegerType | LongType):
        return lambda column: _convert_valid(
            column, lambda values: values - values % values.dtype.type(transform.width)
        )
    return None


def _to_unit(column: pa.Array, unit: str, wanted: str) -> pa.Array:
    def convert(values: Indices) -> Indices:
        moments = values.astype(np.int64).astype(f"datetime64[{unit}]")
        return moments.astype(f"datetime64[{wanted}]").astype(np.int64)

    return _convert_valid(column, convert)


def _murmur3(values: Indices) -> NDArray[np.uint32]:
    """Return the 32-bit Murmur3 hash, with seed 0, of each number as 8 bytes."""
    whole = values.astype(np.int64).view(np.uint64)
    hashes = np.zeros(len(whole), np.uint32)
    for half in (whole, whole >> np.uint64(32)):
        mixed = half.astype(np.uint32) * np.uint32(0xCC9E2D51)
        hashes = _rotate(hashes ^ _rotate(mixed, 15) * np.uint32(0x1B873593), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    hashes ^= np.uint32(8)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes = (hashes ^ hashes >> np.uint32(shift)) * np.uint32(factor)
    return hashes ^ hashes >> np.uint32(16)


def _rotate(values: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
    return values << np.uint32(by) | values >> np.uint32(32 - by)


def _convert_valid(column: pa.Array, convert: Callable[[Indices], Indices]) -> pa.Array:
    null = column.is_null().to_numpy(zero_copy_only=False)
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):  # values wrap around below the minimum, as in Java
        return pa.array(convert(values), mask=null)


def _physical(column: pa.Array) -> pa.Array:
    """Return dates and times as Iceberg's integers, and a uuid as bytes."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    type_ = column.type
    if pa.types.is_date32(type_):
        return column.view(pa.int32())
    return column.view(pa.int64()) if pa.types.is_timestamp(type_) or pa.types.is_time64(type_) else column


def _primitive(type_: IcebergType) -> PrimitiveType:
    if not isinstance(type_, PrimitiveType):
        raise TypeError(f"{type_} cannot be the type of a partition value")
    return type_


def _to_bytes(type_: PrimitiveType, value: Any) -> bytes | None:
    return None if value is None else to_bytes(type_, value)


def _from_bytes(type_: PrimitiveType, value: bytes | None) -> Any:
    return None if value is None else from_bytes(type_, value)
