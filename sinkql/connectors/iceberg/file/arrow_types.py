"""Convert nested columns and ranges from SinkQL's Arrow types to the types of a table, with field ids.

An array becomes a struct of its elements and its number of dimensions, which is 0 without elements. SinkQL has maps as
lists of keys and values, and ranges as texts. Values that come from a table have its types already.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.errors import SinkqlError
from sinkql.logical.range import EMPTY


def stored(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Return a nested column in a table's type.

    Raises SQ3151 for NULL in a required field of a record, and ArrowInvalid for a value that does not fit.
    """
    return pa.chunked_array([_stored(chunk, field.type, field.name) for chunk in column.chunks], field.type)


def _stored(rows: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    if pa.types.is_struct(wanted):
        if pa.types.is_list(rows.type):
            return _array_struct(rows, wanted, name)
        return _record(ranges(rows, wanted) if pa.types.is_string(rows.type) else rows, wanted, name)
    if pa.types.is_map(wanted):
        return _convert_elements(rows, lambda elements: _map(elements, wanted, name), wanted)
    if pa.types.is_nested(wanted):
        return _convert_elements(rows, lambda elements: _stored(elements, wanted.value_type, name), wanted)
    return pc.cast(rows, wanted, safe=True)


def _array_struct(rows: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    type_, most = wanted.field("items").type, 1
    while not _has_structure_of(rows.type, type_):
        rows, most = _flatten(rows), most + 1
    items = _stored(rows, type_, name)
    some = pc.min_element_wise(pc.list_value_length(rows), pa.scalar(1, pa.int32()))
    dimensions = pc.multiply(some, pa.scalar(most, pa.int32()))
    return pa.StructArray.from_arrays([items, dimensions], fields=list(wanted), mask=rows.is_null())


def _has_structure_of(type_: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values have the structure of a table's type without being flattened; maps are lists too."""
    if pa.types.is_list(type_):
        if pa.types.is_map(wanted):
            return bool(pa.types.is_struct(type_.value_type))
        if pa.types.is_struct(wanted):
            return wanted.get_field_index("items") == 0 and _has_structure_of(type_, wanted.field("items").type)
        return pa.types.is_nested(wanted) and _has_structure_of(type_.value_type, wanted.value_type)
    if pa.types.is_struct(type_):
        return (
            pa.types.is_struct(wanted)
            and [field.name for field in type_] == [field.name for field in wanted]
            and all(
                _has_structure_of(field.type, wanted_field.type)
                for field, wanted_field in zip(type_, wanted, strict=True)
            )
        )
    return pa.types.is_struct(wanted) or not pa.types.is_nested(wanted)  # a range becomes a struct


def _flatten(rows: pa.ListArray) -> pa.ListArray:
    """Flatten one level of nested lists."""
    inner = rows.flatten()
    offsets = pa.array(_offsets(inner)[_offsets(rows)], pa.int32())
    return pa.ListArray.from_arrays(offsets, inner.flatten(), mask=rows.is_null())


def _offsets(rows: pa.ListArray) -> np.ndarray:
    """Return the start of each list among all elements, followed by the end of the last list."""
    lengths = pc.fill_null(pc.list_value_length(rows), 0).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _record(rows: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    fields = [_stored(rows.field(place), field.type, field.name) for place, field in enumerate(wanted)]
    for values, field in zip(fields, wanted, strict=True):
        if not field.nullable and pc.any(pc.and_(rows.is_valid(), values.is_null())).as_py():
            raise SinkqlError(
                "SQ3151",
                f'null value in required field "{field.name}" of column "{name}" of the table',
                hint="Filter out these rows in the view, or use COALESCE.",
            )
    columns = [
        values if field.nullable else _without_nulls(values) for values, field in zip(fields, wanted, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=rows.is_null())


def _without_nulls(values: pa.Array) -> pa.Array:
    """Return the values without their validity bitmap; files store arbitrary values where the record is NULL."""
    type_ = values.type
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays(
            [values.field(place) for place in range(type_.num_fields)], fields=list(type_)
        )
    if pa.types.is_map(type_):
        return pa.MapArray.from_arrays(values.offsets, values.keys, values.items, type=type_)
    if pa.types.is_nested(type_):
        return type(values).from_arrays(values.offsets, values.values, type=type_)
    _, *buffers = values.buffers()
    return pa.Array.from_buffers(type_, len(values), [None, *buffers], offset=values.offset)


def _map(entries: pa.Array, wanted: pa.DataType, name: str) -> pa.StructArray:
    entry_type = pa.struct([wanted.key_field, wanted.item_field])
    parts = [_stored(entries.field(place), entry_type.field(place).type, name) for place in (0, 1)]
    return pa.StructArray.from_arrays(parts, fields=list(entry_type))


def _convert_elements(rows: pa.Array, convert: Callable[[pa.Array], pa.Array], wanted: pa.DataType) -> pa.Array:
    """Return lists, or a map's entries, with converted elements."""
    plain = _entries(rows) if pa.types.is_map(rows.type) else rows
    large = pa.types.is_large_list(wanted)
    offsets = pa.array(_offsets(plain), pa.int64() if large else pa.int32())
    elements = convert(plain.flatten())
    if pa.types.is_map(wanted):
        return pa.MapArray.from_arrays(offsets, elements.field(0), elements.field(1), type=wanted, mask=plain.is_null())
    list_class = pa.LargeListArray if large else pa.ListArray
    return list_class.from_arrays(offsets, elements, type=wanted, mask=plain.is_null())


def _entries(rows: pa.MapArray) -> pa.ListArray:
    """Return maps as lists of keys and values."""
    entry_type = pa.struct([("key", rows.type.key_type), ("value", rows.type.item_type)])
    return rows.cast(pa.list_(entry_type))


_PARTS = r'^(?P<opened>[\[(])"?(?P<lower>[^",]*)"?,"?(?P<upper>[^",]*)"?(?P<closed>[\])])$'


def range_type(wanted: pa.StructType) -> pa.StructType:
    """Return the struct type that `ranges` returns."""
    return pa.struct([(field.name, field.type) for field in wanted])


def ranges(texts: pa.Array, wanted: pa.StructType) -> pa.StructArray:
    """Return ranges as structs of their bounds.

    An infinite bound is NULL, and both bounds of an empty range are NULL.
    """
    parts = pc.extract_regex(texts, _PARTS)
    bounds = {name: _bound(parts, name, wanted.field(name).type) for name in ("lower", "upper")}
    flags = {
        "lower_inclusive": pc.fill_null(pc.equal(pc.struct_field(parts, "opened"), "["), False),
        "upper_inclusive": pc.fill_null(pc.equal(pc.struct_field(parts, "closed"), "]"), False),
        "empty": pc.equal(texts, EMPTY),
    }
    arrays = {**bounds, **flags}
    fields = list(range_type(wanted))
    return pa.StructArray.from_arrays([arrays[field.name] for field in fields], fields=fields, mask=texts.is_null())


def _bound(parts: pa.StructArray, name: str, type_: pa.DataType) -> pa.Array:
    text = pc.struct_field(parts, name)
    return pc.cast(pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text), type_)
