"""What is made of other values, as SinkQL has it in Arrow → as a table has it, part by part, with field ids.

An array is a struct of its elements and their dimensions, of which there are none without elements. Maps are lists of
keys and values until here, and ranges texts. What comes out of a table is taken as it is.

Texts of ranges → structs as tables have them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.errors import SinkqlError
from sinkql.logical.range import EMPTY


def stored(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Return a nested column in a table's type; raises SQ3151 for NULL in a field of a record that is required.

    Raises ArrowInvalid for a value that has no room.
    """
    return pa.chunked_array([_stored(chunk, field.type, field.name) for chunk in column.chunks], field.type)


def _stored(rows: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    if pa.types.is_struct(wanted):
        if pa.types.is_list(rows.type):
            return _array(rows, wanted, name)
        return _record(ranges(rows, wanted) if pa.types.is_string(rows.type) else rows, wanted, name)
    if pa.types.is_map(wanted):
        return _held(rows, lambda held: _map(held, wanted, name), wanted)
    if pa.types.is_nested(wanted):
        return _held(rows, lambda held: _stored(held, wanted.value_type, name), wanted)
    return pc.cast(rows, wanted, safe=True)


def _array(rows: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    type_, most = wanted.field("items").type, 1
    while not _alike(rows.type, type_):
        rows, most = _flatter(rows), most + 1
    items = _stored(rows, type_, name)
    some = pc.min_element_wise(pc.list_value_length(rows), pa.scalar(1, pa.int32()))
    dimensions = pc.multiply(some, pa.scalar(most, pa.int32()))
    return pa.StructArray.from_arrays([items, dimensions], fields=list(wanted), mask=rows.is_null())


def _alike(own: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether values of SinkQL's are those of a table's type without being made flatter; maps are lists too."""
    if pa.types.is_list(own):
        if pa.types.is_map(wanted):
            return bool(pa.types.is_struct(own.value_type))
        if pa.types.is_struct(wanted):
            return wanted.get_field_index("items") == 0 and _alike(own, wanted.field("items").type)
        return pa.types.is_nested(wanted) and _alike(own.value_type, wanted.value_type)
    if pa.types.is_struct(own):
        return (
            pa.types.is_struct(wanted)
            and [field.name for field in own] == [field.name for field in wanted]
            and all(_alike(mine.type, its.type) for mine, its in zip(own, wanted, strict=True))
        )
    return pa.types.is_struct(wanted) or not pa.types.is_nested(wanted)  # a struct is that of a range


def _flatter(rows: pa.ListArray) -> pa.ListArray:
    """Return lists of what is in the lists within, one behind the other."""
    within = rows.flatten()
    offsets = pa.array(_offsets(within)[_offsets(rows)], pa.int32())
    return pa.ListArray.from_arrays(offsets, within.flatten(), mask=rows.is_null())


def _offsets(rows: pa.ListArray) -> np.ndarray:
    """Return where each list begins among the elements of all, and where the last one ends."""
    lengths = pc.fill_null(pc.list_value_length(rows), 0).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _record(rows: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    fields = [_stored(rows.field(place), field.type, field.name) for place, field in enumerate(wanted)]
    for values, field in zip(fields, wanted, strict=True):
        if not field.nullable and pc.any(pc.and_(rows.is_valid(), values.is_null())).as_py():
            raise SinkqlError(
                "SQ3151",
                f'null value in required field "{field.name}" of column "{name}" of the table',
                hint="Filter such rows out in the view, or use COALESCE.",
            )
    held = [values if field.nullable else _all_there(values) for values, field in zip(fields, wanted, strict=True)]
    return pa.StructArray.from_arrays(held, fields=list(wanted), mask=rows.is_null())


def _all_there(values: pa.Array) -> pa.Array:
    """Return values none of which is NULL: those without a record around them are anything, as files want it."""
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
    kept = pa.struct([wanted.key_field, wanted.item_field])
    parts = [_stored(entries.field(place), kept.field(place).type, name) for place in (0, 1)]
    return pa.StructArray.from_arrays(parts, fields=list(kept))


def _held(rows: pa.Array, convert: Callable[[pa.Array], pa.Array], wanted: pa.DataType) -> pa.Array:
    """Return lists, or a map's entries, of what their elements are converted to."""
    plain = _entries(rows) if pa.types.is_map(rows.type) else rows
    large = pa.types.is_large_list(wanted)
    offsets = pa.array(_offsets(plain), pa.int64() if large else pa.int32())
    held = convert(plain.flatten())
    if pa.types.is_map(wanted):
        return pa.MapArray.from_arrays(offsets, held.field(0), held.field(1), type=wanted, mask=plain.is_null())
    made = pa.LargeListArray if large else pa.ListArray
    return made.from_arrays(offsets, held, type=wanted, mask=plain.is_null())


def _entries(rows: pa.MapArray) -> pa.ListArray:
    """Return maps, as files of tables have them, as lists of keys and values."""
    held = pa.struct([("key", rows.type.key_type), ("value", rows.type.item_type)])
    return rows.cast(pa.list_(held))


_PARTS = r'^(?P<opened>[\[(])"?(?P<lower>[^",]*)"?,"?(?P<upper>[^",]*)"?(?P<closed>[\])])$'


def range_type(wanted: pa.StructType) -> pa.StructType:
    """Return the type of structs that `ranges` makes."""
    return pa.struct([(field.name, field.type) for field in wanted])


def ranges(texts: pa.Array, wanted: pa.StructType) -> pa.StructArray:
    """Return ranges as structs of their bounds; an infinite bound is NULL, and so are both of an empty range."""
    parts = pc.extract_regex(texts, _PARTS)
    bounds = {name: _bound(parts, name, wanted.field(name).type) for name in ("lower", "upper")}
    flags = {
        "lower_inclusive": pc.fill_null(pc.equal(pc.struct_field(parts, "opened"), "["), False),
        "upper_inclusive": pc.fill_null(pc.equal(pc.struct_field(parts, "closed"), "]"), False),
        "empty": pc.equal(texts, EMPTY),
    }
    arrays = {**bounds, **flags}
    fields = list(range_type(wanted))
    return pa.StructArray.from_arrays([arrays[each.name] for each in fields], fields=fields, mask=texts.is_null())


def _bound(parts: pa.StructArray, name: str, type_: pa.DataType) -> pa.Array:
    text = pc.struct_field(parts, name)
    return pc.cast(pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text), type_)
